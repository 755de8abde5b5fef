"""What becomes of an actor that crashes: fenced off, settled, restarted, and put to rest beyond the intensity."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from tests.actors.started import started
from treadle.actors import acting, supervisor
from treadle.actors import runtime as runtime_module
from treadle.actors.loops import LoopHost
from treadle.actors.testing import Crash, Puppet, Stage
from treadle.actors.thread import ThreadActor
from treadle.protocol.errors import AppendConflict, CorruptRecord, ThreadActorCrashed, ThreadQuarantined
from treadle.protocol.limits import CRASH_WINDOW_S, CRASHES_MAX
from treadle.protocol.status import ThreadStatus
from treadle.storage.reading import read_journal, read_thread
from treadle.storage.tables import Table

if TYPE_CHECKING:
    from collections.abc import Callable

    from treadle.actors import Runtime, Thread
    from treadle.actors.mailbox import Mail
    from treadle.actors.testing import ArmedCrash, Probe
    from treadle.storage.batch import Batch

    Enter = Callable[..., Stage]
    Arm = Callable[..., ArmedCrash]


def journal(on: Stage, thread: Thread) -> list[Any]:
    number = on.services.directory.entry(thread.id).number
    with on.store.view() as view:
        found = read_thread(view, number)
        assert found is not None
        return [entry.event for entry in read_journal(view, number, 1, 0, found[0].sequence, 1_000)]


def types(on: Stage, thread: Thread) -> list[str]:
    return [event.type for event in journal(on, thread)]


def crash(on: Stage, thread: Thread, monkeypatch: pytest.MonkeyPatch) -> BaseException | None:
    """Let a thread's actor crash on a mail of its own, and everything come to rest; return what its caller gets."""

    def fail(*_given: object) -> None:
        raise Crash("a bug in the actor")

    with monkeypatch.context() as broken:
        broken.setattr(acting, "register", fail)
        reply = thread.wait("e" * 32)
        while not reply.done():
            assert on.turn()
    on.settle()
    return reply.error()


def test_the_mail_that_an_actor_fell_over_fails_and_is_never_handled_again(
    stage: Enter, monkeypatch: pytest.MonkeyPatch
) -> None:
    on = stage(Puppet())
    thread = on.thread()
    error = crash(on, thread, monkeypatch)

    assert isinstance(error, ThreadActorCrashed)
    assert isinstance(error.__cause__, Crash)
    assert [(name, details["thread_id"]) for name, details in on.reports] == [("actor_crashed", thread.id)]
    assert on.ask(thread.set_value("k", 1)) is None


def test_a_crash_settles_what_ran_as_lost_and_the_thread_takes_work_at_once(
    stage: Enter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scenario 16, in a living process: pushed to the living watchers, with evidence, and no FINISH invented."""
    puppet = Puppet()
    on = stage(puppet)
    thread = on.thread()
    execution_id = started(on, thread)
    with thread.stream() as stream:
        stream.next(0)
        crash(on, thread, monkeypatch)
        frames = [stream.next(0), stream.next(0)]

    assert [frame["type"] for frame in frames] == ["THREAD_EXECUTION_LOST", "thread_status"]
    assert thread.status().result().state == "failed"
    assert thread.status().result().reason == "execution_lost"
    assert thread.execution(execution_id).result().status == "interrupted"
    lost = journal(on, thread)[-1]
    assert (lost.type, lost.cause, lost.dispatched, lost.boot_id, lost.last_sequence) == (
        "THREAD_EXECUTION_LOST", "actor_crashed", True, on.services.boot.id, 2,
    )  # fmt: skip
    assert "THREAD_EXECUTION_FINISHED" not in types(on, thread)
    assert puppet.execution.fenced
    assert on.ask(thread.submit("at once")).disposition == "accepted"


def test_a_crash_waits_for_the_barrier_and_for_the_release_before_the_next_life_begins(
    stage: Enter, monkeypatch: pytest.MonkeyPatch
) -> None:
    puppet = Puppet()
    on = stage(puppet)
    thread = on.thread()
    started(on, thread)
    closed: list[str] = []

    class Resource:
        def close(self) -> None:
            closed.append("closed")

    puppet.execution.own(Resource())

    def fail(*_given: object) -> None:
        raise Crash("a bug in the actor")

    monkeypatch.setattr(acting, "register", fail)
    thread.wait("e" * 32).add_done_callback(lambda reply: reply.error())
    behind = thread.set_value("k", 1)
    while on.turn() or on.body():
        pass
    entry = on.services.directory.entry(thread.id)
    assert (entry.actor, closed, on.store.pending()) == (None, [], 1)  # the barrier

    on.commit()
    while on.turn():
        pass
    assert (entry.actor, behind.done()) == (None, False)

    assert on.release()
    on.turn()
    while on.turn():
        pass
    assert closed == ["closed"]
    assert entry.actor is not None
    on.settle()
    assert behind.result() is None


def test_what_a_crashed_execution_could_not_release_is_named_in_the_evidence(
    stage: Enter, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stuck:
        def close(self) -> None:
            raise OSError("it does not close")

    puppet = Puppet()
    on = stage(puppet)
    thread = on.thread()
    started(on, thread)
    puppet.execution.own(Stuck())
    crash(on, thread, monkeypatch)
    lost = journal(on, thread)[-1]

    assert lost.type == "THREAD_EXECUTION_LOST"
    assert [name.rpartition(".")[2] for name in lost.leftovers] == ["Stuck"]


@pytest.mark.parametrize(
    "point", ["after confirm before reply", "FINISH committed", "THREAD_EXECUTION_FINISHED committed"]
)
def test_a_finish_that_got_in_before_the_crash_stands(stage: Enter, crash_after: Arm, point: str) -> None:
    puppet = Puppet()
    on = stage(puppet)
    thread = on.thread()
    execution_id = started(on, thread)
    waiting = thread.wait(execution_id)
    on.settle()
    armed = crash_after(point)
    puppet.returns()
    on.settle()

    assert armed.reached()
    assert thread.status().result().state == "idle"
    assert thread.execution(execution_id).result().status == "succeeded"
    assert types(on, thread)[-1] == "THREAD_EXECUTION_FINISHED"
    assert waiting.result().status == "succeeded"


@pytest.mark.parametrize("point", ["START committed", "after confirm before reply", "after reply"])
def test_a_start_that_got_in_before_the_crash_is_settled_and_its_repeat_gets_the_first_receipt(
    stage: Enter, crash_after: Arm, point: str
) -> None:
    on = stage(Puppet())
    thread = on.thread()
    crash_after(point)
    first = thread.submit("go", input_id="i")
    on.settle()
    told = first.error()
    assert (told is None) == (point == "after reply")
    repeated = on.ask(thread.submit("go", input_id="i"))

    assert repeated.disposition == "accepted"
    assert types(on, thread) == ["THREAD_CREATED", "THREAD_EXECUTION_STARTED", "THREAD_EXECUTION_LOST"]
    assert journal(on, thread)[-1].dispatched is (point == "after reply")


def test_a_crash_between_finish_and_the_next_start_loses_no_row(stage: Enter, crash_after: Arm) -> None:
    puppet = Puppet()
    on = stage(puppet)
    thread = on.thread()
    started(on, thread)
    on.ask(thread.submit("next", on_busy="queue"))
    crash_after("between FINISH and the next START")
    puppet.returns()
    on.settle()

    assert puppet.texts == ["go", "next"]
    assert thread.status().result().state == "running"


def test_waits_outlive_a_crash(stage: Enter, monkeypatch: pytest.MonkeyPatch) -> None:
    on = stage(Puppet())
    thread = on.thread()
    waiting = thread.wait(started(on, thread))
    on.settle()
    crash(on, thread, monkeypatch)

    assert waiting.result().status == "interrupted"


def test_beyond_the_intensity_a_thread_rests_until_the_next_open_and_the_others_go_on(
    stage: Enter, monkeypatch: pytest.MonkeyPatch
) -> None:
    on = stage(Puppet())
    thread, other = on.thread(), on.thread()
    execution_id = ""
    for _ in range(CRASHES_MAX):
        crash(on, thread, monkeypatch)
    execution_id = started(on, thread)
    waiting = thread.wait(execution_id)
    on.settle()
    with thread.stream() as stream:
        stream.next(0)
        crash(on, thread, monkeypatch)
        frame = stream.next(0)
    refused = thread.submit("x")
    on.settle()

    assert frame["status"]["state"] == "failed"
    assert thread.status().result() == ThreadStatus("failed", on.clock.now_us(), "execution_lost")
    assert thread.state().result().active_execution is None
    assert isinstance(refused.error(), ThreadQuarantined)
    assert isinstance(waiting.error(), ThreadQuarantined)
    assert any(problem.startswith("thread_quarantined") for problem in thread.explain().result().problems)
    assert [name for name, _ in on.reports].count("thread_quarantined") == 1
    assert on.ask(other.submit("on")).disposition == "accepted"
    on.reopen()
    again = on.runtime.thread(thread.id)
    assert on.runtime.opened is not None
    assert thread.id in on.runtime.opened.settled
    assert on.ask(again.submit("on")).disposition == "accepted"


def fall_behind_a_batch(on: Stage, thread: Thread, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a thread's actor crash with a batch at the store, which writes it all the same."""
    commit = on.store.commit

    def fail(batch: Batch) -> None:
        commit(batch)
        raise Crash("right behind the hand-over")

    with monkeypatch.context() as broken:
        broken.setattr(on.store, "commit", fail)
        reply = thread.submit("go")
        while not reply.done():
            assert on.turn()
    assert isinstance(reply.error(), ThreadActorCrashed)


def last_change(on: Stage) -> int:
    with on.store.view() as view:
        return int.from_bytes(view.scan(Table.CHANGES, b"", None, reverse=True, limit=1)[0][0], "big")


@pytest.mark.parametrize("first", ["the answer", "the next life"])
def test_what_was_written_for_a_life_that_nobody_follows_holds_up_no_watcher_of_all_threads(
    stage: Enter, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    on = stage(Puppet())
    thread, other = on.thread(), on.thread()
    for _ in range(CRASHES_MAX):
        crash(on, thread, monkeypatch)
    fall_behind_a_batch(on, thread, monkeypatch)
    assert on.commit()
    assert on.commit()  # the barrier
    if first == "the next life":
        # As in a large group, whose answers take more than one turn.
        on.turn(1)
        on.turn(1)
    on.settle()
    on.ask(other.submit("on"))
    on.settle()

    assert [name for name, _ in on.reports].count("thread_quarantined") == 1
    assert on.services.hub.watermark.number == last_change(on) >= 4


def test_what_was_written_before_an_activation_that_fails_holds_up_no_watcher_of_all_threads(
    stage: Enter, monkeypatch: pytest.MonkeyPatch
) -> None:
    on = stage(Puppet())
    thread = on.thread()
    fall_behind_a_batch(on, thread, monkeypatch)

    def fail(*_given: object) -> None:
        raise CorruptRecord("a page that cannot be read")

    with monkeypatch.context() as broken:
        broken.setattr(supervisor, "read_thread", fail)
        on.settle()

    assert on.services.hub.watermark.number == last_change(on) == 2


def test_crashes_that_are_far_apart_never_add_up(stage: Enter, monkeypatch: pytest.MonkeyPatch) -> None:
    on = stage(Puppet())
    thread = on.thread()
    for _ in range(3 * CRASHES_MAX):
        crash(on, thread, monkeypatch)
        on.advance(CRASH_WINDOW_S / CRASHES_MAX + 1)
        on.settle()

    assert [name for name, _ in on.reports if name != "actor_crashed"] == []
    assert on.ask(thread.submit("on")).disposition == "accepted"


@pytest.mark.parametrize(
    "error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), MemoryError(), RecursionError()]
)
def test_whatever_an_actor_raises_ends_that_actor_and_no_other(
    stage: Enter, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    on = stage(Puppet())
    thread, other = on.thread(), on.thread()

    def fail(*_given: object) -> None:
        raise error

    with monkeypatch.context() as broken:
        broken.setattr(acting, "register", fail)
        reply = thread.wait("e" * 32)
        on.settle()

    assert isinstance(reply.error(), ThreadActorCrashed)
    assert on.ask(thread.set_value("k", 1)) is None
    assert on.ask(other.set_value("k", 1)) is None
    on.reports.clear()


def test_an_activation_that_fails_costs_the_mail_that_asked_for_it(
    stage: Enter, monkeypatch: pytest.MonkeyPatch
) -> None:
    on = stage(Puppet())
    thread = on.thread()
    on.kill()
    on.reopen()
    thread = on.runtime.thread(thread.id)
    from treadle.actors import supervisor

    def fail(*_given: object) -> None:
        raise Crash("it does not start")

    with monkeypatch.context() as broken:
        broken.setattr(supervisor, "read_thread", fail)
        reply = thread.set_value("k", 1)
        behind = thread.set_value("k", 2)
        on.turn()
    on.settle()

    assert isinstance(reply.error(), ThreadActorCrashed)
    assert behind.result() is None


def test_a_conflict_that_never_ends_puts_the_thread_to_rest(stage: Enter, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each reload reads the head anew, so a conflict that comes again and again is a bug: it must not turn for ever."""
    on = stage(Puppet())
    thread = on.thread()
    started(on, thread)
    from treadle.storage import memory_store

    real = memory_store.judge

    def judge(batch: Any, *given: Any) -> int:
        if batch.number == 1:
            raise AppendConflict("always", number=1)
        return real(batch, *given)

    monkeypatch.setattr(memory_store, "judge", judge)
    reply = thread.set_value("k", 1)
    on.settle()

    assert isinstance(reply.error(), AppendConflict)
    assert [name for name, _ in on.reports][-1] == "thread_quarantined"
    on.reports.clear()


def test_a_lost_loop_settles_its_executions_with_that_cause(stage: Enter) -> None:
    on = stage(Puppet())
    thread = on.thread()
    execution_id = started(on, thread)
    on.services.supervisor.loop_closed([execution_id, "unknown"])
    on.settle()

    assert journal(on, thread)[-1].cause == "loop_closed"
    assert thread.execution(execution_id).result().status == "interrupted"


def test_a_lost_loop_is_followed_by_one_execution_where_the_agent_asks_for_it(stage: Enter) -> None:
    puppet = Puppet(on_lost="resume")
    on = stage(puppet)
    thread = on.thread()
    execution_id = started(on, thread)
    on.services.supervisor.loop_closed([execution_id])
    on.settle()

    starts = [event for event in journal(on, thread) if event.type == "THREAD_EXECUTION_STARTED"]
    assert [event.cause for event in starts] == ["submit", "recovery"]
    assert thread.status().result().state == "running"


@pytest.mark.parametrize("resumes", ["settle", "resume"])
def test_a_crash_is_followed_by_one_execution_where_the_agent_asks_for_it_rows_included(
    stage: Enter, monkeypatch: pytest.MonkeyPatch, resumes: str
) -> None:
    puppet = Puppet(on_lost=resumes)  # type: ignore[arg-type]
    on = stage(puppet)
    thread = on.thread()
    started(on, thread)
    on.ask(thread.submit("waits", on_busy="queue"))
    crash(on, thread, monkeypatch)
    puppet.returns()
    on.settle()

    starts = [event.cause for event in journal(on, thread) if event.type == "THREAD_EXECUTION_STARTED"]
    assert starts == ["submit", "recovery" if resumes == "resume" else "rows"]
    assert thread.status().result().state == "idle"


def test_a_crash_on_the_way_to_finish_leaves_none_of_what_waits_unanswered(
    stage: Enter, monkeypatch: pytest.MonkeyPatch
) -> None:
    puppet = Puppet()
    on = stage(puppet)
    thread = on.thread()
    started(on, thread)
    first = thread.set_value("k", 0)
    on.act()  # that batch is in flight, and what follows waits for it
    puppet.returns()
    on.act()
    behind = [thread.set_value("k", number) for number in range(1, 5)]
    on.act()
    postpone = ThreadActor._postpone

    def fail(actor: ThreadActor, mail: Mail) -> None:
        if mail.reply is behind[1]:
            raise Crash("a bug on the way to FINISH")
        postpone(actor, mail)

    monkeypatch.setattr(ThreadActor, "_postpone", fail)
    on.settle()

    assert first.result() is None
    assert [type(reply.error()) for reply in behind] == [type(None), *[ThreadActorCrashed] * 3]
    assert on.ask(thread.submit("on")).disposition == "accepted"


def test_the_sweep_delivers_mail_whose_turn_was_lost(
    runtime: Callable[..., Runtime], fake_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A KeyboardInterrupt between "scheduled" and the hand-over wedges a mailbox (semantics, section 9)."""
    hosted = runtime(Puppet())
    thread = hosted.create_thread("puppet").result(60)
    services = hosted._parts()
    mailbox = services.directory.entry(thread.id).mailbox
    with monkeypatch.context() as broken:
        broken.setattr(services.dispatcher, "schedule", lambda _mailbox: None)
        reply = thread.set_value("k", 1)
        assert mailbox.head() is not None
    fake_clock.advance(1)
    fake_clock.advance(1)

    assert reply.result(60) is None


def test_a_sweep_that_fails_again_and_again_closes_the_runtime(stage: Enter, monkeypatch: pytest.MonkeyPatch) -> None:
    on = stage(Puppet())

    def fail() -> int:
        raise Crash("a bug in the sweep")

    monkeypatch.setattr(on.services.directory, "passivate_idle", fail)
    on.advance(5)
    assert on.runtime.ready()[0]
    on.advance(1)

    assert on.reports[-1][0] == "supervisor_failed"
    assert not on.runtime.ready()[0]


def test_the_sweep_asks_the_loop_for_a_sign_of_life(stage: Enter) -> None:
    on = stage(Puppet())
    on.advance(1)
    assert on.services.loop.silent_for() == 0.0
    on.advance(1.5)
    ready, why = on.runtime.ready()
    assert (ready, why) == (False, ["loop_silent"])

    on.settle()
    assert on.runtime.ready() == (True, [])


def test_bodies_of_a_caller_s_loop_that_is_closed_are_settled(
    runtime: Callable[..., Runtime], probe: Callable[..., Probe], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Semantics 8: a closed loop settles its executions as lost, cause `loop_closed`; confirmations must not raise."""
    import asyncio

    loop = asyncio.new_event_loop()
    worker = threading.Thread(target=loop.run_forever, name="treadle-test-loop")
    worker.start()
    real = LoopHost

    def on_callers(_loop: object, **options: Any) -> LoopHost:
        return real(loop, **options)

    monkeypatch.setattr(runtime_module, "LoopHost", on_callers)
    puppet = Puppet()
    hosted = runtime(puppet)
    thread = hosted.create_thread("puppet").result(60)
    seen = probe(thread)
    thread.submit("go").result(60)
    puppet.wait_for_pass(1)
    loop.call_soon_threadsafe(loop.stop)
    worker.join(60)
    loop.set_exception_handler(lambda _loop, _context: None)
    loop.close()
    hosted._parts().loop.ping()
    seen.until_status("failed", "execution_lost")

    assert thread.submit("again").result(60).disposition == "accepted"
    seen.until_status("running")
    seen.until_status("failed", "execution_lost")


def test_nothing_that_a_crash_leaves_is_decided_by_the_next_life(stage: Enter, crash_after: Arm) -> None:
    """A trigger that an earlier life handed over is never handled again, whatever became of its batch."""
    on = stage(Puppet())
    thread = on.thread()
    crash_after("other batch committed")
    first = thread.inject_message("user", "once")
    on.settle()

    assert isinstance(first.error(), ThreadActorCrashed)
    assert [message.content for message in thread.messages().result().messages] == ["once"]
