"""What an accepted interrupt means: recorded once, told to the body, and nothing further begins; never a success."""

from __future__ import annotations

import threading
from asyncio import CancelledError
from typing import TYPE_CHECKING, Any

import pytest

from tests.scenarios.scene import PATIENCE_S, Scene, began, contents, ended, journal, pending, tags, texts
from treadle.actors import ExecutionCancelled
from treadle.protocol.errors import StorageFull
from treadle.protocol.events import ExecutionInterrupted
from treadle.storage import MemoryStore
from treadle.storage.faults import FaultyStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.scenarios.scene import Replies
    from treadle.actors import ControlReceipt, Reply, Thread
    from treadle.agents import ThreadState


def interruptions(thread: Thread) -> list[ExecutionInterrupted]:
    return [entry.event for entry in journal(thread) if isinstance(entry.event, ExecutionInterrupted)]


def test_the_same_interrupt_sent_twice_and_then_a_hundred_times_in_parallel_is_one_interruption(either: Scene) -> None:
    """Scenario 8."""
    thread = either.gated()
    execution_id = began(thread.submit("go").result(PATIENCE_S))
    either.gate.arrival()
    twice = [thread.interrupt(execution_id), thread.interrupt(execution_id)]
    line = threading.Barrier(10)
    answers: list[ControlReceipt] = [reply.result(PATIENCE_S) for reply in twice]

    def interrupt() -> None:
        line.wait(PATIENCE_S)
        sent = [thread.interrupt(execution_id) for _ in range(10)]
        answers.extend(reply.result(PATIENCE_S) for reply in sent)

    callers = [threading.Thread(target=interrupt) for _ in range(10)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(PATIENCE_S)

    assert len(answers) == 102
    assert answers[0].disposition == "accepted"
    assert {answer.disposition for answer in answers} <= {"accepted", "execution_finishing", "no_active_execution"}
    assert ended(thread, execution_id).status == "cancelled"
    assert len(interruptions(thread)) == 1


def test_repeats_of_an_interrupt_with_a_control_id_all_get_the_first_receipt(scene: Scene) -> None:
    """Scenario 8."""
    thread = scene.gated()
    execution_id = began(thread.submit("go").result(PATIENCE_S))
    scene.gate.arrival()

    sent = [thread.interrupt(execution_id, control_id="c") for _ in range(100)]

    answers = {reply.result(PATIENCE_S) for reply in sent}
    assert len(answers) == 1
    ended(thread, execution_id)
    assert thread.interrupt(execution_id, control_id="c").result(PATIENCE_S) in answers
    assert thread.receipt("c").result(PATIENCE_S) in answers
    assert len(interruptions(thread)) == 1


def test_a_callback_of_the_abort_signal_may_use_the_execution(either: Scene) -> None:
    owned: list[str] = []

    class Closes:
        def close(self) -> None:
            owned.append("closed")

    def listens(state: ThreadState) -> Replies:
        execution = state.execution
        assert execution is not None
        execution.abort_signal.add_callback(lambda: execution.own(Closes()))
        yield either.gate.here()

    thread = either.start(listens)
    execution_id = began(thread.submit("go").result(PATIENCE_S))
    either.gate.arrival()
    thread.interrupt(execution_id).result(PATIENCE_S)

    assert ended(thread, execution_id).status == "cancelled"
    assert owned == ["closed"]


@pytest.mark.parametrize(
    ("source", "reason"), [("user", "aborted_by_user"), ("system", "aborted"), ("parent", "aborted")]
)
def test_who_interrupts_decides_the_stop_reason_and_the_text_stays_text(scene: Scene, source: Any, reason: str) -> None:
    told: list[tuple[str | None, str]] = []

    def listens(state: ThreadState) -> Replies:
        assert state.execution is not None
        signal = state.execution.abort_signal
        assert not signal.aborted
        try:
            yield scene.gate.here()
        finally:
            told.append((signal.reason, signal.source))

    thread = scene.start(listens)
    execution_id = began(thread.submit("go").result(PATIENCE_S))
    scene.gate.arrival()

    thread.interrupt(execution_id, source=source, reason="step_error").result(PATIENCE_S)

    record = ended(thread, execution_id)
    assert (record.outcome, record.error, record.reason) == ("cancelled", None, reason)
    status = thread.status().result(PATIENCE_S)
    assert (status.state, status.reason) == ("idle", reason)
    assert told == [("step_error", source)]
    (event,) = interruptions(thread)
    assert (event.source, event.reason) == (source, "step_error")


@pytest.mark.parametrize(
    ("ending", "outcome", "error_type"),
    [
        ("returns", "cancelled", None),
        ("raises CancelledError", "cancelled", None),
        ("raises ExecutionCancelled", "cancelled", None),
        ("raises ValueError", "failed", "ValueError"),
        ("raises SystemExit", "failed", "SystemExit"),
    ],
)
def test_after_an_accepted_interrupt_no_execution_succeeds(
    either: Scene, ending: str, outcome: str, error_type: str | None
) -> None:
    def ends(state: ThreadState) -> Replies:
        assert state.execution is not None
        try:
            yield either.gate.here()
        except CancelledError as error:
            if ending == "raises CancelledError":
                raise CancelledError from error
            if ending == "raises ExecutionCancelled":
                raise ExecutionCancelled(state.execution.id) from error
            if ending == "raises ValueError":
                raise ValueError("on purpose") from error
            if ending == "raises SystemExit":
                raise SystemExit(3) from error

    thread = either.start(ends)
    execution_id = began(thread.submit("go").result(PATIENCE_S))
    either.gate.arrival()
    thread.interrupt(execution_id).result(PATIENCE_S)

    record = ended(thread, execution_id)

    assert record.outcome == outcome
    assert (record.error.type if record.error else None) == error_type
    assert record.reason == ("aborted_by_user" if outcome == "cancelled" else "step_error")
    assert not record.abandoned


def test_a_body_that_was_told_to_stop_may_still_write_but_begins_nothing(either: Scene) -> None:
    refused: list[str] = []

    def tidies_up(state: ThreadState) -> Replies:
        execution = state.execution
        assert execution is not None
        try:
            yield either.gate.here()
        except CancelledError:
            yield state.inject_message("assistant", "cut short")
            yield state.set_value("progress", 3)
            yield state.queue_message("for later")
            begins: dict[str, Callable[[], Reply[Any]]] = {
                "checkpoint": state.checkpoint,
                "sleep": lambda: state.sleep(1),
                "start_process": lambda: execution.start_process(["true"]),
            }
            for name, begin in begins.items():
                try:
                    yield begin()
                except ExecutionCancelled:
                    refused.append(name)

    thread = either.start(tidies_up)
    execution_id = began(thread.submit("go").result(PATIENCE_S))
    either.gate.arrival()
    thread.interrupt(execution_id, hold=True).result(PATIENCE_S)

    assert ended(thread, execution_id).status == "cancelled"
    assert refused == ["checkpoint", "sleep", "start_process"]
    assert texts(thread) == ["go", "cut short", "for later"]
    assert pending(thread) == ["for later"]
    assert thread.get_value("progress").result(PATIENCE_S) == 3


def test_except_exception_does_not_swallow_an_interrupt(either: Scene) -> None:
    def guards_its_tools(state: ThreadState) -> Replies:
        try:
            yield either.gate.here()
        except Exception:
            yield state.inject_message("assistant", "the tool failed")

    thread = either.start(guards_its_tools)
    execution_id = began(thread.submit("go").result(PATIENCE_S))
    either.gate.arrival()
    thread.interrupt(execution_id).result(PATIENCE_S)

    assert ended(thread, execution_id).status == "cancelled"
    assert texts(thread) == ["go"]


def test_what_waits_starts_at_once_after_a_plain_interrupt_and_not_after_one_that_holds(scene: Scene) -> None:
    thread = scene.gated()
    first = began(thread.submit("first").result(PATIENCE_S))
    scene.gate.arrival()
    thread.submit("second", on_busy="queue").result(PATIENCE_S)
    thread.interrupt(first).result(PATIENCE_S)
    assert scene.gate.arrival().brought == ["second"]
    second = thread.state().result(PATIENCE_S).active_execution
    assert second is not None
    thread.submit("third", on_busy="queue").result(PATIENCE_S)

    receipt = thread.interrupt(second.execution_id, hold=True).result(PATIENCE_S)

    assert (receipt.disposition, receipt.held) == ("accepted", True)
    ended(thread, second.execution_id)
    state = thread.state().result(PATIENCE_S)
    assert (state.held, state.waiting, state.active_execution) == (True, 1, None)
    assert scene.gate.nobody_came()


def test_an_interrupt_of_what_is_stopping_is_answered_at_once_or_adds_its_hold(scene: Scene) -> None:
    thread = scene.start(scene.is_stubborn)
    execution_id = began(thread.submit("go").result(PATIENCE_S))
    scene.gate.arrival()
    thread.interrupt(execution_id).result(PATIENCE_S)
    arrived = scene.gate.arrival()
    before = contents(scene.store)

    plain = thread.interrupt(execution_id, reason="again").result(PATIENCE_S)

    assert plain.disposition == "accepted"
    assert contents(scene.store) == before
    holding = thread.interrupt(execution_id, hold=True, control_id="h").result(PATIENCE_S)
    assert (holding.disposition, holding.held) == ("accepted", True)
    assert thread.interrupt(execution_id, hold=True, control_id="h").result(PATIENCE_S) == holding
    arrived.go.set(None)
    ended(thread, execution_id)
    assert thread.state().result(PATIENCE_S).held
    assert len(interruptions(thread)) == 1
    assert thread.receipt("h").result(PATIENCE_S) == holding


def test_an_interrupt_that_the_store_refuses_is_in_force_and_recorded_with_the_finish() -> None:
    store = FaultyStore(MemoryStore())
    scene = Scene(store)
    thread = scene.gated()
    execution_id = began(thread.submit("go").result(PATIENCE_S))
    scene.gate.arrival()
    store.fail()

    with pytest.raises(StorageFull) as refused:
        thread.interrupt(execution_id, reason="enough").result(PATIENCE_S)

    assert refused.value.details["applied"] is True
    assert ended(thread, execution_id).status == "cancelled"
    assert tags(thread)[-2:] == ["THREAD_EXECUTION_INTERRUPTED", "THREAD_EXECUTION_FINISHED"]
    assert interruptions(thread)[0].reason == "enough"
    scene.close()


def test_threads_are_interrupted_one_by_one(either: Scene) -> None:
    thread = either.gated()
    other = either.thread()
    first = began(thread.submit("go").result(PATIENCE_S))
    second = began(other.submit("go").result(PATIENCE_S))
    arrivals = [either.gate.arrival(), either.gate.arrival()]

    assert other.interrupt(first).result(PATIENCE_S).disposition == "active_execution_mismatch"
    thread.interrupt(first).result(PATIENCE_S)

    assert ended(thread, first).status == "cancelled"
    for arrived in arrivals:
        arrived.go.set(None)
    assert ended(other, second).status == "succeeded"
