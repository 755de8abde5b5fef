"""Deadlines of agents and submits, on the fake clock: told like an interrupt, failed whatever the body does."""

from __future__ import annotations

from asyncio import CancelledError
from typing import TYPE_CHECKING

import pytest

from tests.scenarios.scene import PATIENCE_S, Latch, Scene, began, contents, ended, journal, quiet, tags, texts
from treadle.actors import ExecutionCancelled, Reply
from treadle.protocol.events import ExecutionInterrupted

if TYPE_CHECKING:
    from tests.scenarios.scene import Replies
    from treadle.actors import ExecutionRecord, Thread
    from treadle.agents import ThreadState


def check_timed_out(thread: Thread, record: ExecutionRecord, *, abandoned: bool = False) -> None:
    assert (record.status, record.outcome, record.reason) == ("failed", "failed", "timeout")
    assert record.error is not None
    assert record.error.type == "ExecutionTimeout"
    assert record.error.message.strip()
    assert record.abandoned is abandoned
    status = thread.status().result(PATIENCE_S)
    assert (status.state, status.reason) == ("failed", "timeout")


def sources(thread: Thread) -> list[str]:
    return [entry.event.source for entry in journal(thread) if isinstance(entry.event, ExecutionInterrupted)]


def test_an_execution_past_its_agents_timeout_is_told_and_fails(either: Scene) -> None:
    told: list[tuple[str, str | None]] = []

    def waits(state: ThreadState) -> Replies:
        assert state.execution is not None
        signal = state.execution.abort_signal
        try:
            yield either.gate.here()
        except ExecutionCancelled:
            told.append((signal.source, signal.reason))
            yield state.inject_message("assistant", "cut short")

    thread = either.start(waits, timeout=10)
    execution_id = began(thread.submit("go").result(PATIENCE_S))
    either.gate.arrival()
    either.clock.advance(9.9)
    assert thread.state().result(PATIENCE_S).active_execution.phase == "running"  # type: ignore[union-attr]

    either.clock.advance(0.1)

    check_timed_out(thread, ended(thread, execution_id))
    assert told == [("deadline", None)]
    assert sources(thread) == ["deadline"]
    assert texts(thread) == ["go", "cut short"]


def test_a_submits_own_timeout_stands_before_its_agents(scene: Scene) -> None:
    thread = scene.gated(timeout=1)
    execution_id = began(thread.submit("go", timeout=10).result(PATIENCE_S))
    scene.gate.arrival()

    scene.clock.advance(9.9)
    assert thread.status().result(PATIENCE_S).state == "running"
    scene.clock.advance(0.1)

    check_timed_out(thread, ended(thread, execution_id))


def test_without_a_timeout_an_execution_may_take_for_ever(scene: Scene) -> None:
    thread = scene.gated()
    execution_id = began(thread.submit("go").result(PATIENCE_S))
    arrived = scene.gate.arrival()

    scene.clock.advance(600)

    assert thread.status().result(PATIENCE_S).state == "running"
    arrived.go.set(None)
    assert ended(thread, execution_id).status == "succeeded"


@pytest.mark.parametrize("how", ["returns", "raises", "raises CancelledError"])
def test_after_its_deadline_an_execution_failed_by_that_whatever_its_body_does(either: Scene, how: str) -> None:
    def ends(state: ThreadState) -> Replies:
        try:
            yield either.gate.here()
        except CancelledError:
            if how == "raises":
                raise ValueError("on purpose") from None
            if how == "raises CancelledError":
                raise

    thread = either.start(ends)
    execution_id = began(thread.submit("go", timeout=5).result(PATIENCE_S))
    either.gate.arrival()

    either.clock.advance(5)

    check_timed_out(thread, ended(thread, execution_id))


def test_a_body_that_ignores_its_deadline_is_abandoned_after_the_grace(either: Scene) -> None:
    go: Reply[None] = Reply()

    def is_deaf(state: ThreadState) -> Replies:
        either.gate.here()
        while not go.done():
            try:
                yield go
            except CancelledError:
                either.gate.here()

    thread = either.start(is_deaf, timeout=5)
    execution_id = began(thread.submit("go").result(PATIENCE_S))
    either.gate.arrival()
    either.clock.advance(5)
    either.gate.arrival()

    either.clock.advance(5)

    check_timed_out(thread, ended(thread, execution_id), abandoned=True)
    go.set(None)


def test_an_interrupt_after_the_deadline_is_accepted_recorded_and_changes_nothing(scene: Scene) -> None:
    thread = scene.start(scene.is_stubborn, timeout=5)
    execution_id = began(thread.submit("go").result(PATIENCE_S))
    scene.gate.arrival()
    scene.clock.advance(5)
    arrived = scene.gate.arrival()

    receipt = thread.interrupt(execution_id, reason="me too").result(PATIENCE_S)

    assert receipt.disposition == "accepted"
    arrived.go.set(None)
    check_timed_out(thread, ended(thread, execution_id))
    assert sources(thread) == ["deadline", "user"]


def test_a_deadline_after_an_interrupt_changes_nothing(scene: Scene) -> None:
    thread = scene.start(scene.is_stubborn, timeout=4)
    execution_id = began(thread.submit("go").result(PATIENCE_S))
    scene.gate.arrival()
    thread.interrupt(execution_id).result(PATIENCE_S)
    arrived = scene.gate.arrival()

    scene.clock.advance(4)
    arrived.go.set(None)

    record = ended(thread, execution_id)
    assert (record.status, record.reason) == ("cancelled", "aborted_by_user")
    assert sources(thread) == ["user"]


def test_a_deadline_while_the_execution_finishes_changes_nothing(scene: Scene) -> None:
    latch = Latch()

    def owns(state: ThreadState) -> Replies:
        assert state.execution is not None
        state.execution.own(latch)
        yield from ()

    thread = scene.start(owns, timeout=3)
    execution_id = began(thread.submit("go").result(PATIENCE_S))
    assert latch.closing.wait(PATIENCE_S)

    scene.clock.advance(4)
    latch.may_close.set()

    assert ended(thread, execution_id).status == "succeeded"
    assert sources(thread) == []


def test_a_waiting_submits_time_begins_with_its_own_execution_and_outlives_a_restart(scene: Scene) -> None:
    thread = scene.gated()
    thread.submit("first").result(PATIENCE_S)
    scene.gate.arrival()
    queued = thread.submit("second", on_busy="queue", timeout=5).result(PATIENCE_S)
    ended(thread, thread.stop().result(PATIENCE_S))
    scene.clock.advance(60)
    scene.reopen()
    thread = scene.runtime.thread(thread.id)

    thread.resume().result(PATIENCE_S)

    assert scene.gate.arrival().brought == ["second"]
    scene.clock.advance(4.9)
    assert thread.status().result(PATIENCE_S).state == "running"
    scene.clock.advance(0.1)
    check_timed_out(thread, ended(thread, queued))


def test_steers_and_further_passes_do_not_move_the_deadline(either: Scene) -> None:
    thread = either.gated(timeout=5)
    execution_id = began(thread.submit("go").result(PATIENCE_S))
    for n in range(4):
        arrived = either.gate.arrival()
        thread.steer(execution_id, f"{n}").result(PATIENCE_S)
        either.clock.advance(1)
        arrived.go.set(None)
    assert either.gate.arrival().brought == ["3"]

    either.clock.advance(1)

    check_timed_out(thread, ended(thread, execution_id))


def test_a_deadline_ends_a_sleep_of_the_body(either: Scene) -> None:
    def sleeps(state: ThreadState) -> Replies:
        sleep = state.sleep(60)
        either.gate.here()
        try:
            yield sleep
        except ExecutionCancelled:
            either.seen.append("woken")
            raise

    thread = either.start(sleeps, timeout=5)
    execution_id = began(thread.submit("go").result(PATIENCE_S))
    either.gate.arrival()

    either.clock.advance(5)

    check_timed_out(thread, ended(thread, execution_id))
    assert either.seen == ["woken"]


def test_a_sleep_that_is_not_interrupted_takes_its_time_and_no_longer(either: Scene) -> None:
    def sleeps(state: ThreadState) -> Replies:
        for seconds in (2, 0, 0.5):
            sleep = state.sleep(seconds)
            either.gate.here()
            yield sleep
            either.seen.append(seconds)

    thread = either.start(sleeps)
    receipt = thread.submit("go").result(PATIENCE_S)
    either.gate.arrival()
    either.clock.advance(1.9)
    assert either.seen == []

    either.clock.advance(0.1)
    either.gate.arrival()
    either.clock.advance(0)
    either.gate.arrival()
    either.clock.advance(0.5)

    ended(thread, receipt)
    assert either.seen == [2, 0, 0.5]


def test_a_deadline_leaves_the_next_execution_alone(scene: Scene) -> None:
    thread = scene.gated(timeout=5)
    first = began(thread.submit("first").result(PATIENCE_S))
    scene.gate.let_go()
    ended(thread, first)
    scene.clock.advance(3)
    second = began(thread.submit("second").result(PATIENCE_S))
    arrived = scene.gate.arrival()

    scene.clock.advance(3)

    assert thread.status().result(PATIENCE_S).state == "running"
    arrived.go.set(None)
    assert ended(thread, second).status == "succeeded"
    before = contents(scene.store)
    scene.clock.advance(60)
    assert contents(scene.store) == before
    assert tags(thread).count("THREAD_EXECUTION_INTERRUPTED") == 0


def test_a_repeat_with_another_timeout_is_the_same_call(scene: Scene) -> None:
    thread = scene.start(quiet)
    first = thread.submit("go", input_id="i", timeout=5).result(PATIENCE_S)
    ended(thread, first)

    assert thread.submit("go", input_id="i", timeout=50).result(PATIENCE_S) == first
