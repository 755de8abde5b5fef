"""FINISH and the settling of a loss: what they close, that they are tried again, what starts after them."""

from __future__ import annotations

from typing import Any

import pytest

from treadle.protocol.decision import Action, Batch, Phase, State, Verdict
from treadle.protocol.events import (
    ExecutionFinished,
    ExecutionInterrupted,
    ExecutionLost,
    ExecutionStarted,
    HoldChanged,
    MessageAdded,
    MessagesJoined,
    RequestTerminated,
)
from treadle.protocol.limits import LOST_WINDOW_US
from treadle.protocol.open_calls import OpenCall
from treadle.protocol.triggers import Append, Ask, BodyEnded, Interrupt, Lost, Released, RetryDue, Stop, Terminate, Wake

from .states import Pure, in_phase, queue, steer, submit, text


def kinds(events: list[Any]) -> list[str]:
    return [type(event).__name__ for event in events]


def lost(execution_id: str = "e1", **more: Any) -> Lost:
    return Lost(execution_id, **{"boot_id": "b", "cause": "process", "dispatched": True, **more})


def busy() -> Pure:
    """Return a running thread with an unread steer, an open call, a pending request and a waiting message."""
    thread = in_phase(Phase.RUNNING)
    thread.commit(Append("e1", MessageAdded(execution_id="e1", message=text("m", role="assistant", calls=["c"])), 10))
    thread.commit(Ask("e1", "r", "approval", None))
    thread.commit(steer("s1"))
    thread.commit(queue("q1"))
    return thread


OPEN = {"open_calls": [OpenCall("c", "refund", 1, "m")], "pending": ["r"]}


def died(thread: Pure) -> Pure:
    """Have the process die and the thread opened again."""
    thread.state = State(thread.facts)
    thread.state.active = thread.facts.execution_id
    return thread


# FINISH.


def test_finish_closes_all_that_is_open_in_the_same_commit_before_the_end() -> None:
    thread = busy()
    thread.take(BodyEnded("e1", "raised", error_type="E", error_message="m"))

    decision = thread.take(Released("e1", ("process 7",)), **OPEN)

    assert kinds(decision.events) == ["MessageAdded", "RequestTerminated", "MessagesJoined", "ExecutionFinished"]
    call, request, unread, finish = decision.events
    assert (call.message["tool_call_id"], call.message["tool_status"], call.execution_id) == ("c", "error", "e1")
    assert (call.message["name"], call.message["depth"], call.message["parent_id"]) == ("refund", 1, "m")
    assert (request.request_id, request.status) == ("r", "abandoned")
    assert (unread.consumed, unread.reason, [row[1] for row in unread.rows]) == (False, "failed", ["steer"])
    assert finish.leftovers == ["process 7"]
    assert (decision.batch, decision.closes) == (Batch.FINISH, True)
    facts = thread.facts
    assert (facts.steers, facts.open_calls, facts.pending, facts.execution_id) == (0, 0, 0, None)
    assert [row.input_id for row in thread.rows] == ["q1"]


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (BodyEnded("e1", "raised"), "failed"),
        (BodyEnded("e1", "returned", stopped=True), "stopped"),
        (BodyEnded("e1", "returned", stopped=True, reason="max_total_steps"), "max_total_steps"),
    ],
)
def test_an_unread_steer_says_why_it_was_not_read(end: BodyEnded, reason: str) -> None:
    thread = in_phase(Phase.RUNNING)
    thread.commit(steer())
    thread.take(end)

    joined = thread.commit(Released("e1")).events[0]

    assert (joined.consumed, joined.reason) == (False, reason)


@pytest.mark.parametrize(("control", "reason"), [(Interrupt("e1"), "cancelled"), (Terminate(), "terminated")])
def test_a_steer_left_by_a_cancelled_execution_says_so(control: Any, reason: str) -> None:
    thread = in_phase(Phase.RUNNING)
    thread.commit(steer())
    thread.commit(control)
    thread.take(BodyEnded("e1"))

    assert thread.commit(Released("e1")).events[0].reason == reason


def test_the_slot_is_free_once_finish_is_durable_and_the_next_start_comes_first() -> None:
    thread = in_phase(Phase.FINISHING)
    thread.commit(queue("q"))
    decision = thread.take(Released("e1"))
    assert (decision.phase, decision.actions) == (Phase.FINISHING, ())
    assert thread.state.active == "e1"  # until FINISH is durable

    after = thread.answer(Batch.FINISH)

    assert [do.action for do in after.actions] == [Action.WAKE]
    assert (thread.state.phase, thread.state.active) == (Phase.IDLE, None)


def test_a_refused_finish_is_built_anew_with_the_first_attempts_outcome_and_time() -> None:
    thread = in_phase(Phase.FINISHING)
    closed_at = thread.state.ending.finished_at  # type: ignore[union-attr]

    after = thread.refuse(Released("e1", ("socket",)))
    thread.commit(queue("q"))  # between attempts what writes is a batch of its own
    again = thread.refuse(RetryDue())
    event = thread.commit(RetryDue()).events[-1]

    for decision in (after, again):
        assert [do.action for do in decision.at_once] == [Action.RETRY]
        assert decision.phase is Phase.FINISHING
    assert (event.outcome, event.finished_at, event.leftovers) == ("succeeded", closed_at, ["socket"])
    assert thread.facts.since > closed_at


def test_a_retry_armed_for_a_start_hands_over_no_finish() -> None:
    thread = in_phase(Phase.FINISHING)

    assert thread.judge(RetryDue()).verdict is Verdict.IGNORE


def test_the_status_changes_in_the_same_commit_as_finish() -> None:
    thread = in_phase(Phase.FINISHING)
    before = thread.facts.status

    thread.commit(Released("e1"))

    assert (before.state, before.reason) == ("running", None)
    assert thread.facts.status == ("idle", thread.facts.last_time, "awaiting_human")


# What the store refused.


def test_an_interruption_that_was_not_written_is_told_and_finish_carries_it() -> None:
    thread = in_phase(Phase.RUNNING)

    after = thread.refuse(Interrupt("e1", reason="enough", hold=True))

    assert [do.action for do in after.at_once] == [Action.TELL, Action.GRACE]
    assert thread.state.phase is Phase.STOPPING
    assert thread.facts.interrupted_by is None
    thread.take(BodyEnded("e1"))
    finish = thread.commit(Released("e1"))
    assert kinds(finish.events) == ["ExecutionInterrupted", "ExecutionFinished"]
    assert (finish.events[0].reason, finish.events[1].outcome) == ("enough", "cancelled")
    assert thread.facts.held


def test_finish_carries_the_interruption_through_every_attempt() -> None:
    thread = in_phase(Phase.RUNNING)
    thread.refuse(Interrupt("e1"))
    thread.take(BodyEnded("e1"))
    thread.refuse(Released("e1"))
    thread.refuse(RetryDue())

    events = thread.commit(RetryDue()).events

    assert sum(isinstance(event, ExecutionInterrupted) for event in events) == 1


@pytest.mark.parametrize(
    ("code", "error_type", "reason"),
    [("storage_full", "StorageFull", "storage_full"), ("store_failed", "StoreFailed", "step_error")],
)
def test_a_join_that_was_not_written_ends_the_execution_failed(code: str, error_type: str, reason: str) -> None:
    thread = in_phase(Phase.RUNNING)
    thread.commit(steer())

    after = thread.refuse(BodyEnded("e1"), code)

    assert [do.action for do in after.at_once] == [Action.FENCE, Action.RELEASE]
    events = thread.commit(Released("e1")).events
    assert kinds(events) == ["MessagesJoined", "ExecutionFinished"]
    assert not events[0].consumed
    assert (events[1].outcome, events[1].error_type, events[1].error_message, events[1].reason) == (
        "failed", error_type, "no room", reason,
    )  # fmt: skip


def test_a_start_that_was_not_written_frees_the_slot() -> None:
    thread = Pure()

    after = thread.refuse(submit())

    assert after.at_once == ()
    assert (thread.state.phase, thread.state.active, thread.facts.executions) == (Phase.IDLE, None, 0)


def waiting(*, held: bool = False) -> Pure:
    """Return a thread at rest with a message that waits, as a refused START leaves it."""
    thread = in_phase(Phase.RUNNING)
    thread.commit(Stop() if held else Interrupt("e1"))
    thread.commit(queue("q"))
    thread.finish()
    return thread


def test_a_start_from_rows_that_was_not_written_leaves_the_rows_and_arms_the_retry() -> None:
    thread = waiting()

    after = thread.refuse(Wake())

    assert [do.action for do in after.at_once] == [Action.RETRY]
    assert [row.input_id for row in thread.rows] == ["q"]
    start = thread.take(RetryDue())
    assert isinstance(start.events[0], ExecutionStarted)
    assert [row.input_id for row in start.joined] == ["q"]


def test_any_other_batch_that_was_not_written_changes_nothing() -> None:
    thread = in_phase(Phase.RUNNING)

    after = thread.refuse(steer())

    assert (after.events, after.at_once, after.actions, after.phase) == ([], (), (), Phase.RUNNING)


# Losses.


def test_a_loss_is_settled_in_one_commit_without_a_finish() -> None:
    thread = died(busy())
    last = thread.facts.sequence

    decision = thread.take(lost(leftovers=("group 9",)), **OPEN)

    assert kinds(decision.events) == ["MessageAdded", "RequestTerminated", "MessagesJoined", "ExecutionLost"]
    call, request, unread, loss = decision.events
    assert "unknown" in call.message["content"]
    assert call.message["tool_status"] == "error"
    assert isinstance(request, RequestTerminated)
    assert (unread.consumed, unread.reason) == (False, "lost")
    assert loss == ExecutionLost(
        execution_id="e1", boot_id="b", last_sequence=last, cause="process", dispatched=True, leftovers=["group 9"]
    )
    assert (thread.facts.state, thread.facts.reason) == ("failed", "execution_lost")
    assert not any(isinstance(event, ExecutionFinished) for event in thread.events)
    assert [row.input_id for row in thread.rows] == ["q1"]


@pytest.mark.parametrize("phase", [Phase.RUNNING, Phase.STOPPING])
def test_a_live_execution_that_is_lost_is_fenced_released_and_settled(phase: Phase) -> None:
    thread = in_phase(phase)

    first = thread.take(lost(cause="loop_closed"))
    settled = thread.commit(Released("e1", ("pipe",)))

    assert [do.action for do in first.at_once] == [Action.FENCE, Action.RELEASE]
    assert kinds(settled.events)[-1] == "ExecutionLost"
    assert (settled.events[-1].cause, settled.events[-1].leftovers) == ("loop_closed", ["pipe"])
    assert thread.state.phase is Phase.IDLE


def test_a_settling_that_was_not_written_is_tried_again_as_a_settling() -> None:
    thread = died(in_phase(Phase.RUNNING))

    after = thread.refuse(lost())

    assert [do.action for do in after.at_once] == [Action.RETRY]
    assert kinds(thread.commit(RetryDue()).events) == ["ExecutionLost"]


def test_after_a_loss_waiting_rows_start_but_nothing_is_run_again_by_itself() -> None:
    with_rows, without = died(busy()), died(in_phase(Phase.RUNNING))
    for thread in (with_rows, without):
        thread.commit(lost())

    assert isinstance(with_rows.judge(Wake()).events[0], ExecutionStarted)
    assert without.judge(Wake()).verdict is Verdict.IGNORE


@pytest.mark.parametrize("rows", [True, False])
def test_a_run_asked_for_after_a_loss_and_waiting_rows_make_one_execution(rows: bool) -> None:
    thread = died(busy() if rows else in_phase(Phase.RUNNING))
    thread.commit(lost())
    thread.state.resumes = True

    decision = thread.commit(Wake())

    assert decision.events[0].cause == "recovery"
    assert [row.input_id for row in decision.joined] == (["q1"] if rows else [])
    thread.finish()
    assert thread.judge(Wake()).verdict is Verdict.IGNORE


def test_a_run_asked_for_after_a_loss_waits_while_held() -> None:
    thread = died(in_phase(Phase.RUNNING))
    thread.commit(lost())
    thread.commit(Stop())
    thread.state.resumes = True

    assert thread.judge(Wake()).verdict is Verdict.IGNORE


def test_a_thread_lost_three_times_in_a_quarter_of_an_hour_is_held() -> None:
    thread = Pure()
    for count in (1, 2, 3):
        thread.run(f"s{count}")
        died(thread).commit(lost(f"e{count}"))
        assert thread.facts.held == (count == 3)

    assert thread.facts.hold_reason == "lost_repeatedly"
    assert isinstance(thread.events[-1], HoldChanged)


def test_losses_far_apart_hold_nothing() -> None:
    thread = Pure()
    for count in (1, 2, 3, 4):
        thread.run(f"s{count}")
        died(thread).facts.last_time += LOST_WINDOW_US // 2
        thread.commit(lost(f"e{count}"))

    assert not thread.facts.held
    assert len(thread.facts.lost_at) == 3


# Wake.


def test_a_wake_starts_what_waits_unless_held_or_without_its_agent() -> None:
    assert isinstance(waiting().judge(Wake()).events[0], ExecutionStarted)
    assert waiting(held=True).judge(Wake()).verdict is Verdict.IGNORE
    assert Pure().judge(Wake()).verdict is Verdict.IGNORE
    missing = waiting()
    missing.state.startable = False
    assert missing.judge(Wake()).verdict is Verdict.IGNORE


def test_a_terminated_threads_inbox_is_emptied_a_batch_at_a_time_and_tried_again() -> None:
    thread = waiting(held=True)
    thread.commit(queue("q2"))
    thread.commit(Terminate())

    decision = thread.judge(Wake(), rows=thread.rows[:1])
    assert isinstance(decision.events[0], MessagesJoined)
    moved = decision.events[0]
    assert (moved.execution_id, moved.consumed, moved.reason) == (None, False, "terminated")
    assert ([do.action for do in decision.actions], decision.closes) == ([Action.WAKE], True)

    assert [do.action for do in thread.refuse(Wake()).at_once] == [Action.RETRY]
    thread.commit(RetryDue())
    assert thread.facts.rows == 0
    assert thread.judge(Wake()).verdict is Verdict.IGNORE
