"""What an open does about the past, and what its report says of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.actors.started import started
from treadle.actors.testing import Puppet, Stage
from treadle.protocol.errors import AgentNotFound, CorruptRecord, StorageFull
from treadle.storage.keys import numbered, prefix_end
from treadle.storage.reading import read_journal, read_thread
from treadle.storage.tables import Table

if TYPE_CHECKING:
    from collections.abc import Callable

    Enter = Callable[..., Stage]


def test_a_lost_execution_is_reported_settled_though_what_waited_started_at_once(stage: Enter) -> None:
    on = stage(Puppet())
    thread = on.thread()
    on.ask(thread.submit("lost"))
    on.settle()
    on.ask(thread.submit("waits", on_busy="queue"))
    on.kill()

    report = on.reopen(Puppet()).opened

    assert report is not None
    assert (report.settled, report.unsettled) == ((thread.id,), ())


def lives(on: Stage, thread_id: str) -> list[Any]:
    """Return the events that begin and end executions."""
    number = on.services.directory.entry(thread_id).number
    with on.store.view() as view:
        found = read_thread(view, number)
        assert found is not None
        events = [entry.event for entry in read_journal(view, number, 1, 0, found[0].sequence, 1_000)]
    return [event for event in events if event.type.startswith("THREAD_EXECUTION")]


def tags(on: Stage, thread_id: str) -> list[str]:
    return [event.type.removeprefix("THREAD_EXECUTION_") for event in lives(on, thread_id)]


def test_an_open_settles_every_execution_that_died_with_its_process(stage: Enter) -> None:
    """Scenario 16: lost with evidence, no FINISH invented, history `interrupted`, new work at once."""
    on = stage(Puppet())
    threads = [on.thread() for _ in range(10)]
    executions = {thread.id: started(on, thread) for thread in threads}
    idle = on.thread()
    lost_with = on.services.boot.id
    on.kill()
    before = on.clock.now_us()
    report = on.reopen().opened

    assert report is not None
    assert sorted(report.settled) == sorted(executions)
    assert report.boot_id == on.services.boot.id
    for thread_id, execution_id in executions.items():
        thread = on.runtime.thread(thread_id)
        status = thread.status().result()
        assert (status.state, status.reason) == ("failed", "execution_lost")
        assert status.since >= before
        assert thread.execution(execution_id).result().status == "interrupted"
        lost = lives(on, thread_id)[-1]
        assert (lost.type, lost.boot_id, lost.last_sequence, lost.cause, lost.dispatched) == (
            "THREAD_EXECUTION_LOST", lost_with, 2, "process_ended", True,
        )  # fmt: skip
        with thread.stream() as stream:
            assert stream.next(0)["status"]["state"] == "failed"
        assert on.ask(thread.submit("at once")).disposition == "accepted"
    assert on.runtime.thread(idle.id).status().result().state == "idle"
    assert tags(on, idle.id) == []


def test_the_evidence_names_the_boot_that_was_lost_though_others_died_before_they_settled_it(stage: Enter) -> None:
    on = stage(Puppet())
    thread = on.thread()
    execution_id = started(on, thread)
    lost_with = on.services.boot.id
    for _ in range(2):
        on.kill()
        on.reopen(settle=False)
    on.kill()
    on.reopen()

    record = on.runtime.thread(thread.id).execution(execution_id).result()
    assert record.evidence is not None
    assert record.evidence["boot_id"] == lost_with
    assert lost_with != on.services.boot.id


def test_an_open_returns_only_once_the_settling_is_durable(stage: Enter) -> None:
    on = stage(Puppet())
    thread = on.thread()
    started(on, thread)
    on.kill()
    on.reopen(settle=False)
    while on.turn():
        pass
    assert on.runtime.opened is None
    assert on.store.pending() == 1

    on.settle()
    assert on.runtime.opened is not None
    assert on.runtime.opened.settled == (thread.id,)


def test_what_was_open_is_closed_in_the_same_commit(stage: Enter) -> None:
    puppet = Puppet()
    on = stage(puppet)
    thread = on.thread()
    execution_id = started(on, thread)
    call = {"id": "m1", "role": "assistant", "content": "", "calls": ["c"], "tool_calls": '[{"id": "c"}]'}
    on.ask(puppet.execution.append(call))
    puppet.execution.request("approval", request_id="r")
    on.settle()
    on.ask(thread.steer(execution_id, "unread"))
    on.kill()
    on.reopen()
    thread = on.runtime.thread(thread.id)
    number = on.services.directory.entry(thread.id).number
    with on.store.view() as view:
        new = [entry.event for entry in read_journal(view, number, 1, 5, 100, 100)]

    assert [event.type for event in new] == [
        "MESSAGE_ADDED", "REQUEST_TERMINATED", "MESSAGES_JOINED", "THREAD_EXECUTION_LOST",
    ]  # fmt: skip
    assert new[0].message["tool_status"] == "error"
    assert new[1].status == "abandoned"
    assert (new[2].consumed, new[2].reason) == (False, "lost")
    assert thread.messages().result().messages[-1].metadata["consumed"] is False


def test_what_waited_starts_after_the_open_unless_the_thread_is_held(stage: Enter) -> None:
    """Scenario 6: all still queued, in order, each delivered once by the next execution."""
    puppet = Puppet()
    on = stage(puppet)
    busy, held = on.thread(), on.thread()
    for thread in (busy, held):
        started(on, thread)
        for rank in range(5):
            on.ask(thread.queue_message(str(rank)))
    on.ask(held.stop())
    on.kill()
    puppet.passes.clear()
    report = on.reopen().opened
    on.settle()

    assert report is not None
    assert sorted(report.settled) == sorted([busy.id, held.id])
    assert puppet.texts == ["0", "1", "2", "3", "4"]
    assert on.runtime.thread(busy.id).status().result().state == "running"
    waiting = on.runtime.thread(held.id)
    assert waiting.state().result().waiting == 5
    on.ask(waiting.resume())
    on.settle()
    assert puppet.texts == ["0", "1", "2", "3", "4"] * 2


def test_rows_that_waited_at_rest_are_started_and_named(stage: Enter) -> None:
    puppet = Puppet()
    on = stage(puppet)
    thread = on.thread()
    started(on, thread)
    on.ask(thread.submit("waits", on_busy="queue"))
    puppet.returns()
    on.act()
    on.commit()  # FINISH; the process dies before the next START
    on.kill()
    report = on.reopen().opened
    on.settle()

    assert report is not None
    assert (report.settled, report.started) == ((), (thread.id,))
    assert puppet.texts == ["go", "waits"]


def test_nothing_is_run_again_by_itself(stage: Enter) -> None:
    on = stage(Puppet())
    thread = on.thread()
    started(on, thread)
    for _ in range(2):
        on.kill()
        on.reopen()
        on.settle()

    assert tags(on, thread.id) == ["STARTED", "LOST"]


def test_an_agent_that_asks_for_it_is_run_again_on_the_same_history(stage: Enter) -> None:
    puppet = Puppet(on_lost="resume")
    on = stage(puppet)
    thread = on.thread()
    started(on, thread)
    on.kill()
    on.reopen()
    on.settle()

    assert [event.cause for event in lives(on, thread.id) if hasattr(event, "cause")] == [
        "submit",
        "process_ended",
        "recovery",
    ]
    assert puppet.texts == ["go"]  # no new message: it runs on the history
    assert [message.content for message in puppet.execution.history] == ["go"]


def test_resuming_and_what_waited_make_one_execution(stage: Enter) -> None:
    puppet = Puppet(on_lost="resume")
    on = stage(puppet)
    thread = on.thread()
    started(on, thread)
    on.ask(thread.queue_message("waits"))
    on.kill()
    on.reopen()
    on.settle()
    puppet.returns()
    on.settle()

    assert tags(on, thread.id) == ["STARTED", "LOST", "STARTED", "FINISHED"]
    assert lives(on, thread.id)[2].cause == "recovery"
    assert puppet.texts == ["go", "waits"]


def test_what_is_lost_three_times_in_a_quarter_of_an_hour_is_held(stage: Enter) -> None:
    puppet = Puppet(on_lost="resume")
    on = stage(puppet)
    thread = on.thread()
    started(on, thread)
    for _ in range(2):
        on.kill()
        on.reopen()
        on.settle()
        assert on.runtime.thread(thread.id).status().result().state == "running"
    on.kill()
    on.reopen()
    on.settle()
    thread = on.runtime.thread(thread.id)
    state = thread.state().result()

    assert (state.status.state, state.held, state.hold_reason) == ("failed", True, "lost_repeatedly")
    assert on.runtime.opened is not None
    assert on.runtime.opened.held == (thread.id,)
    assert tags(on, thread.id).count("LOST") == 3
    assert on.ask(thread.submit("again")).disposition == "accepted"  # a submit lifts the hold


def test_losses_that_are_far_apart_never_add_up(stage: Enter) -> None:
    puppet = Puppet(on_lost="resume")
    on = stage(puppet)
    thread = on.thread()
    started(on, thread)
    for _ in range(5):
        on.kill()
        on.advance(16 * 60 / 2)
        on.reopen()
        on.settle()

        assert on.runtime.thread(thread.id).state().result().held is False


def test_an_agent_that_is_missing_keeps_its_rows_and_is_named(stage: Enter) -> None:
    puppet = Puppet("gone")
    on = stage(puppet)
    thread = on.thread()
    started(on, thread)
    on.ask(thread.submit("waits", on_busy="queue"))
    on.kill()
    report = on.reopen(Puppet("other")).opened
    on.settle()
    thread = on.runtime.thread(thread.id)

    assert report is not None
    assert report.agent_missing == {"gone": [thread.id]}
    assert tags(on, thread.id) == ["STARTED", "LOST"]
    assert thread.state().result().waiting == 1
    assert any(problem.startswith("agent_missing") for problem in thread.explain().result().problems)
    refused = thread.submit("x")
    on.settle()
    assert isinstance(refused.error(), AgentNotFound)
    assert thread.state().result().waiting == 1
    on.kill()
    puppet.passes.clear()
    on.reopen(puppet)
    on.settle()
    assert puppet.texts == ["waits"]


def test_on_a_full_disk_the_open_succeeds_and_what_was_lost_is_settled_when_there_is_room(stage: Enter) -> None:
    on = stage(Puppet())
    thread = on.thread()
    started(on, thread)
    on.kill()
    on.reopen(settle=False)
    while on.turn():
        pass
    on.refuse()
    on.act()
    report = on.runtime.opened
    thread = on.runtime.thread(thread.id)

    assert report is not None
    assert (report.settled, report.unsettled) == ((), (thread.id,))
    status = thread.status().result()
    assert (status.state, status.reason) == ("failed", "execution_lost")
    assert thread.state().result().active_execution is None
    refused = thread.submit("x")
    on.act()
    assert isinstance(refused.error(), StorageFull)
    blocked = thread.explain().result().blocked
    assert blocked is not None
    assert blocked.what == "LOST"
    assert not on.runtime.ready()[0]
    on.advance(1)
    on.settle()
    assert tags(on, thread.id) == ["STARTED", "LOST"]
    assert on.runtime.ready() == (True, [])
    assert on.ask(thread.submit("x")).disposition == "accepted"


def test_those_who_listen_learn_that_it_is_lost_before_there_is_room_to_settle_it(stage: Enter) -> None:
    on = stage(Puppet())
    thread = on.thread()
    with thread.stream() as stream:
        stream.next(0)
        thread.submit("go").add_done_callback(lambda reply: reply.error())
        while on.turn():
            pass
        on.store.lose_next(written=True)
        on.commit()
        while on.turn():
            pass
        on.commit()  # the barrier
        while on.turn():
            pass
        on.refuse()
        on.act()
        frames = [stream.next(0) for _ in range(3)]

    assert thread.status().result().state == "failed"
    assert [frame["type"] for frame in frames] == ["THREAD_EXECUTION_STARTED", "thread_status", "thread_status"]
    assert frames[-1]["status"] == thread.status().result().to_wire()


def test_a_record_that_cannot_be_read_does_not_keep_the_others_from_being_served(
    stage: Enter, monkeypatch: pytest.MonkeyPatch
) -> None:
    on = stage(Puppet())
    first, second = on.thread(), on.thread()
    started(on, first)
    started(on, second)
    broken = on.services.directory.entry(first.id).number
    on.kill()
    from treadle.actors import recovery

    real = recovery.read_thread

    def read(view: Any, number: int) -> Any:
        if number == broken:
            raise CorruptRecord("bytes", table="threads", key="00")
        return real(view, number)

    monkeypatch.setattr(recovery, "read_thread", read)
    report = on.reopen().opened

    assert report is not None
    assert report.settled == (second.id,)
    assert list(report.unreadable) == [broken]


def test_an_open_looks_at_threads_with_work_alone(stage: Enter, monkeypatch: pytest.MonkeyPatch) -> None:
    on = stage(Puppet())
    threads = [on.thread() for _ in range(50)]
    started(on, threads[7])
    on.kill()
    from treadle.actors import recovery

    read: list[int] = []
    real = recovery.read_thread
    monkeypatch.setattr(recovery, "read_thread", lambda view, number: (read.append(number), real(view, number))[1])
    on.reopen()

    assert len(read) == 1
    assert on.services.directory.counts()["entries"] == 1


def test_a_deletion_goes_on_where_the_process_died(stage: Enter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("treadle.actors.removal.DELETE_ROWS", 3)
    on = stage(Puppet())
    thread = on.thread()
    for rank in range(10):
        on.ask(thread.inject_message("user", str(rank)))
    number = on.services.directory.entry(thread.id).number
    deleted = on.runtime.delete_thread(thread.id)
    while not deleted.done():
        assert on.turn() or on.commit()
    on.commit()  # some of its contents are gone
    on.kill()
    report = on.reopen().opened
    assert report is not None
    assert report.removing == 1
    on.settle()

    assert on.services.supervisor.removing == 0
    with on.store.view() as view:
        left = [table.name for table in Table if view.scan(table, numbered(number), prefix_end(numbered(number)))]
    assert left in (["THREADS"], ["THREADS", "CHANGES"])
    on.kill()
    assert on.reopen().opened.removing == 0  # type: ignore[union-attr]


@pytest.mark.parametrize("point", ["START", "an append", "FINISH"])
@pytest.mark.parametrize("written", [True, False])
def test_a_death_at_any_commit_leaves_a_thread_that_goes_on(stage: Enter, point: str, written: bool) -> None:
    puppet = Puppet()
    on = stage(puppet)
    thread = on.thread()
    if point == "START":
        thread.submit("go", input_id="i")
    else:
        on.ask(thread.submit("go", input_id="i"))
        on.settle()
        if point == "FINISH":
            puppet.returns()
        else:
            puppet.execution.append({"id": "m", "role": "assistant", "content": "said"})
    on.act()
    assert on.store.pending() == 1
    if written:
        on.commit()
    on.kill()
    on.reopen()
    on.settle()
    thread = on.runtime.thread(thread.id)
    began = ["STARTED"] if point != "START" or written else []
    ended = ["FINISHED"] if point == "FINISH" and written else ["LOST"] if began else []

    assert tags(on, thread.id) == began + ended
    assert thread.state().result().active_execution is None
    repeated = on.ask(thread.submit("go", input_id="i"))
    assert repeated.disposition == "accepted"
    assert tags(on, thread.id)[:1] == ["STARTED"]
    assert tags(on, thread.id).count("STARTED") == 1
