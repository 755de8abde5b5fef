"""What holds a thread, what lifts the hold, and how a thread ends for good: stop, resume, terminate, delete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.scenarios.scene import (
    PATIENCE_S,
    Latch,
    Scene,
    began,
    contents,
    echo,
    ended,
    history,
    pending,
    quiet,
    tags,
    texts,
)
from treadle.protocol.errors import InputNotFound, ThreadExists, ThreadNotFound, ThreadTerminated
from treadle.protocol.events import HoldChanged
from treadle.storage.tables import Table

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.scenarios.scene import Replies
    from treadle.actors import Reply, Thread
    from treadle.agents import ThreadState


def held_with_rows(scene: Scene) -> Thread:
    """Return a thread at rest, held, where a submit and a message wait."""
    thread = scene.gated()
    thread.submit("first").result(PATIENCE_S)
    scene.gate.arrival()
    thread.submit("waiting submit", on_busy="queue").result(PATIENCE_S)
    ended(thread, thread.stop().result(PATIENCE_S))
    thread.queue_message("waiting message").result(PATIENCE_S)
    assert scene.gate.nobody_came()
    return thread


def every_call(thread: Thread) -> list[Callable[[], Reply[Any]]]:
    return [
        lambda: thread.submit("x"),
        lambda: thread.queue_message("x"),
        lambda: thread.inject_message("user", "x"),
        lambda: thread.withdraw("i"),
        lambda: thread.steer("e", "x"),
        lambda: thread.interrupt("e"),
        thread.stop,
        thread.resume,
        thread.terminate,
        thread.status,
        thread.state,
        thread.explain,
        thread.messages,
        lambda: thread.message("m"),
        thread.executions,
        lambda: thread.execution("e"),
        lambda: thread.get_value("k"),
        lambda: thread.set_value("k", 1),
        lambda: thread.receipt("i"),
        lambda: thread.wait("e"),
    ]


def test_stop_interrupts_and_holds_in_one_commit_and_says_so_in_the_status(either: Scene) -> None:
    thread = either.gated()
    execution_id = began(thread.submit("go").result(PATIENCE_S))
    either.gate.arrival()

    receipt = thread.stop().result(PATIENCE_S)

    assert (receipt.disposition, receipt.execution_id, receipt.held) == ("accepted", execution_id, True)
    record = ended(thread, execution_id)
    assert (record.status, record.reason) == ("cancelled", "aborted_by_user")
    status = thread.status().result(PATIENCE_S)
    assert (status.state, status.reason) == ("idle", "aborted_by_user")
    state = thread.state().result(PATIENCE_S)
    assert (state.held, state.hold_reason) == (True, "aborted_by_user")
    assert tags(thread)[-2:] == ["THREAD_EXECUTION_INTERRUPTED", "THREAD_EXECUTION_FINISHED"]


def test_stop_at_rest_only_sets_the_hold_and_once(scene: Scene) -> None:
    thread = scene.start(quiet)

    receipt = thread.stop().result(PATIENCE_S)

    assert (receipt.disposition, receipt.execution_id, receipt.held) == ("no_active_execution", None, True)
    before = contents(scene.store)
    assert thread.stop().result(PATIENCE_S) == receipt
    assert contents(scene.store) == before
    assert thread.state().result(PATIENCE_S).held


def test_stop_while_stopping_or_finishing_holds_what_comes_after(scene: Scene) -> None:
    latch = Latch()

    def lingers(state: ThreadState) -> Replies:
        assert state.execution is not None
        state.execution.own(latch)
        yield from scene.is_stubborn(state)

    thread = scene.start(lingers)
    execution_id = began(thread.submit("go").result(PATIENCE_S))
    scene.gate.arrival()
    thread.interrupt(execution_id).result(PATIENCE_S)
    told = scene.gate.arrival()

    stopping = thread.stop().result(PATIENCE_S)
    thread.resume().result(PATIENCE_S)
    told.go.set(None)
    assert latch.closing.wait(PATIENCE_S)
    finishing = thread.stop().result(PATIENCE_S)

    assert (stopping.disposition, stopping.held) == ("accepted", True)
    assert (finishing.disposition, finishing.held) == ("execution_finishing", True)
    latch.may_close.set()
    ended(thread, execution_id)
    assert thread.state().result(PATIENCE_S).held
    assert tags(thread).count("THREAD_EXECUTION_INTERRUPTED") == 1


def test_a_hold_outlives_the_runtime_and_keeps_what_waits(scene: Scene) -> None:
    thread = held_with_rows(scene)

    scene.reopen()

    thread = scene.runtime.thread(thread.id)
    state = thread.state().result(PATIENCE_S)
    assert (state.held, state.waiting, state.active_execution) == (True, 2, None)
    assert scene.gate.nobody_came()
    receipt = thread.resume().result(PATIENCE_S)
    assert (receipt.disposition, receipt.held) == ("accepted", False)
    assert scene.gate.let_go() == ["waiting submit", "waiting message"]
    ended(thread, receipt)


@pytest.mark.parametrize("verb", ["accepted", "queued", "resumed"])
def test_what_starts_something_lifts_the_hold_in_the_same_commit(scene: Scene, verb: str) -> None:
    thread = held_with_rows(scene)
    lifts: dict[str, Callable[[], Reply[Any]]] = {
        "accepted": lambda: thread.submit("new"),
        "queued": lambda: thread.submit("new", on_busy="queue"),
        "resumed": thread.resume,
    }

    lifts[verb]().result(PATIENCE_S)

    scene.gate.let_go()
    assert not thread.state().result(PATIENCE_S).held
    if verb != "resumed":
        scene.gate.let_go()
    found = tags(thread)
    assert found.count("HOLD_CHANGED") + found.count("THREAD_EXECUTION_INTERRUPTED") >= 1


def test_a_queued_message_never_lifts_a_hold(scene: Scene) -> None:
    thread = held_with_rows(scene)

    receipt = thread.queue_message("one more").result(PATIENCE_S)

    assert (receipt.disposition, receipt.held) == ("queued", True)
    assert thread.state().result(PATIENCE_S).held
    assert pending(thread) == ["waiting submit", "waiting message", "one more"]
    assert scene.gate.nobody_came()


def test_a_busy_submit_lifts_no_hold(scene: Scene) -> None:
    thread = scene.start(scene.is_stubborn)
    execution_id = began(thread.submit("go").result(PATIENCE_S))
    scene.gate.arrival()
    thread.stop().result(PATIENCE_S)
    arrived = scene.gate.arrival()

    refused = thread.submit("refused").result(PATIENCE_S)

    assert (refused.disposition, refused.held) == ("busy", True)
    assert thread.state().result(PATIENCE_S).held
    taken = thread.submit("taken", on_busy="queue").result(PATIENCE_S)
    assert (taken.disposition, taken.held) == ("queued", False)
    assert not thread.state().result(PATIENCE_S).held
    arrived.go.set(None)
    ended(thread, execution_id)
    assert scene.gate.let_go() == ["taken"]


def test_resume_with_nothing_waiting_runs_on_the_history_that_is_there(either: Scene) -> None:
    def counts(state: ThreadState) -> Replies:
        assert state.execution is not None
        either.seen.append((list(state.execution.new_messages), len(state.execution.message_history)))
        yield from ()

    thread = either.start(counts)
    ended(thread, thread.submit("first").result(PATIENCE_S))
    thread.stop().result(PATIENCE_S)

    receipt = thread.resume().result(PATIENCE_S)

    record = ended(thread, receipt)
    assert (receipt.disposition, receipt.input_id, record.cause) == ("accepted", None, "resume")
    assert either.seen[-1] == ([], 1)
    assert not thread.state().result(PATIENCE_S).held


def test_resume_without_any_history_says_so_and_lifts_the_hold(scene: Scene) -> None:
    thread = scene.start(quiet)
    thread.stop().result(PATIENCE_S)

    assert thread.resume().result(PATIENCE_S).disposition == "nothing_to_resume"

    assert not thread.state().result(PATIENCE_S).held
    before = contents(scene.store)
    assert thread.resume().result(PATIENCE_S).disposition == "nothing_to_resume"
    assert contents(scene.store) == before


def test_resume_of_an_active_thread_only_lifts_its_hold_and_else_is_busy(scene: Scene) -> None:
    thread = scene.gated()
    execution_id = began(thread.submit("go").result(PATIENCE_S))
    arrived = scene.gate.arrival()

    busy = thread.resume().result(PATIENCE_S)

    assert busy.disposition == "busy"
    assert busy.active_execution is not None
    assert busy.active_execution.execution_id == execution_id
    arrived.go.set(None)
    ended(thread, execution_id)


def test_an_execution_from_resume_takes_steers(scene: Scene) -> None:
    thread = scene.gated()
    first = thread.submit("first").result(PATIENCE_S)
    scene.gate.let_go()
    ended(thread, first)
    resumed = began(thread.resume().result(PATIENCE_S))
    arrived = scene.gate.arrival()

    assert thread.steer(resumed, "shorter").result(PATIENCE_S).disposition == "accepted"

    arrived.go.set(None)
    assert scene.gate.let_go() == ["shorter"]
    assert ended(thread, resumed).status == "succeeded"


def test_holds_are_events_of_the_journal(scene: Scene) -> None:
    thread = scene.start(quiet)
    thread.stop().result(PATIENCE_S)
    thread.resume().result(PATIENCE_S)

    with thread.events() as events:
        holds = [event.event for _, event in zip(range(3), events, strict=False)][1:]

    assert holds == [HoldChanged(held=True, reason="aborted_by_user"), HoldChanged(held=False, reason=None)]


def test_a_terminated_thread_takes_no_further_input_and_repeats_tell_the_first_time(scene: Scene) -> None:
    thread = scene.start(echo)
    ended(thread, thread.submit("first").result(PATIENCE_S))

    at = thread.terminate().result(PATIENCE_S)

    before = contents(scene.store)
    scene.clock.advance(60)
    assert thread.terminate().result(PATIENCE_S) == at
    for call in (
        lambda: thread.submit("x"),
        lambda: thread.submit("x", on_busy="queue"),
        lambda: thread.queue_message("x"),
        lambda: thread.inject_message("user", "x"),
        thread.resume,
    ):
        with pytest.raises(ThreadTerminated) as refused:
            call().result(PATIENCE_S)
        assert refused.value.details["terminated_at"] == at
    assert contents(scene.store) == before
    assert thread.state().result(PATIENCE_S).terminated_at == at
    assert texts(thread) == ["first", "re: first"]


def test_terminating_interrupts_the_execution_as_the_system_does(either: Scene) -> None:
    thread = either.gated()
    execution_id = began(thread.submit("go").result(PATIENCE_S))
    either.gate.arrival()

    thread.terminate().result(PATIENCE_S)

    record = ended(thread, execution_id)
    assert (record.status, record.reason) == ("cancelled", "aborted")
    assert thread.status().result(PATIENCE_S).state == "idle"


def test_what_waited_on_a_terminated_thread_failed_and_its_senders_are_told(scene: Scene) -> None:
    thread = held_with_rows(scene)
    sent = thread.queue_message("last", input_id="last").result(PATIENCE_S)
    waits = thread.wait(sent)

    thread.terminate().result(PATIENCE_S)

    for told in (waits, thread.wait(sent)):
        with pytest.raises(ThreadTerminated):
            told.result(PATIENCE_S)
    by_text = {message.content: message.status for message in history(thread)}
    assert by_text == {
        "first": "completed",
        "waiting submit": "failed",
        "waiting message": "failed",
        "last": "failed",
    }
    assert thread.withdraw("last").result(PATIENCE_S) == "already_delivered"
    assert scene.gate.nobody_came()


def test_a_repeat_on_a_terminated_thread_still_gets_its_first_receipt(scene: Scene) -> None:
    thread = scene.start(quiet)
    first = thread.submit("x", input_id="i").result(PATIENCE_S)
    ended(thread, first)
    thread.terminate().result(PATIENCE_S)

    assert thread.submit("x", input_id="i").result(PATIENCE_S) == first


def test_a_deleted_thread_is_unknown_to_everybody_and_its_id_stays_taken(scene: Scene) -> None:
    scene.open(scene.body(echo, name="actor"))
    thread = scene.thread(thread_id="t1", user_id="u1")
    kept = scene.thread(thread_id="t2", user_id="u1")
    ended(thread, thread.submit("first", input_id="i").result(PATIENCE_S))

    scene.runtime.delete_thread("t1").result(PATIENCE_S)

    again = scene.runtime.thread("t1")
    for handle in (thread, again):
        for call in every_call(handle):
            with pytest.raises(ThreadNotFound):
                call().result(PATIENCE_S)
    with pytest.raises(ThreadNotFound):
        scene.runtime.delete_thread("t1").result(PATIENCE_S)
    with pytest.raises(ThreadExists):
        scene.runtime.create_thread("actor", thread_id="t1").result(PATIENCE_S)
    assert [found.id for found in scene.runtime.threads().result(PATIENCE_S).threads] == ["t2"]
    assert [found.id for found in scene.runtime.threads(user_id="u1").result(PATIENCE_S).threads] == ["t2"]
    assert texts(kept) == []


def test_deleting_a_busy_thread_interrupts_it_and_waits_for_its_finish(scene: Scene) -> None:
    thread = scene.start(scene.is_stubborn)
    execution_id = began(thread.submit("go").result(PATIENCE_S))
    scene.gate.arrival()
    waits = thread.wait(execution_id)

    deleted = scene.runtime.delete_thread(thread.id)

    arrived = scene.gate.arrival()
    assert arrived.brought == "told to stop"
    assert not deleted.done()
    arrived.go.set(None)
    deleted.result(PATIENCE_S)
    assert waits.result(PATIENCE_S).status == "cancelled"


def test_what_a_deleted_thread_held_is_gone_from_the_store_after_the_next_open(scene: Scene) -> None:
    thread = scene.start(echo)
    for n in range(5):
        ended(thread, thread.submit(f"{n}").result(PATIENCE_S))
    thread.set_value("k", "v").result(PATIENCE_S)

    scene.runtime.delete_thread(thread.id).result(PATIENCE_S)

    # Closing waits for what the background has begun; opening takes up what it had not.
    scene.reopen()
    scene.reopen()
    left = contents(scene.store)
    for table in (Table.JOURNAL, Table.MESSAGES, Table.EXECUTIONS, Table.RECEIPTS, Table.VALUES, Table.WORK):
        assert left[table] == [], table


def test_a_receipt_of_a_refused_call_is_never_recorded(scene: Scene) -> None:
    thread = scene.gated()
    execution_id = began(thread.submit("go").result(PATIENCE_S))
    arrived = scene.gate.arrival()
    thread.submit("x", input_id="refused").result(PATIENCE_S)
    thread.interrupt("another", control_id="refused too").result(PATIENCE_S)

    for given in ("refused", "refused too", "never sent"):
        with pytest.raises(InputNotFound):
            thread.receipt(given).result(PATIENCE_S)

    arrived.go.set(None)
    ended(thread, execution_id)
    # The same id is judged afresh.
    assert thread.submit("x", input_id="refused").result(PATIENCE_S).disposition == "accepted"
