"""A body's mail: append, consume, processes, its end and its deadline; the table of outcomes (semantics 6)."""

from __future__ import annotations

from typing import Any

import pytest

from treadle.protocol.decision import Action, Batch, Ending, Phase, Refusal, Verdict
from treadle.protocol.errors import InvalidInput
from treadle.protocol.events import ExecutionFinished, MessageAdded, MessagesJoined
from treadle.protocol.open_calls import OpenCall
from treadle.protocol.status import settled_state
from treadle.protocol.triggers import (
    Append,
    BodyEnded,
    Consume,
    Deadline,
    Delete,
    GraceExpired,
    Interrupt,
    Lost,
    RecordProcess,
    Released,
    Terminate,
)

from .states import Pure, in_phase, queue, steer, submit, text


def kinds(events: list[Any]) -> list[str]:
    return [type(event).__name__ for event in events]


def said(name: str = "a", **more: Any) -> Append:
    return Append("e1", MessageAdded(execution_id="e1", message=text(name, **more)), 10)


def result(call: str = "c") -> Append:
    draft = {"id": "r", "role": "tool", "content": "done", "tool_call_id": call, "closes": True}
    return Append("e1", MessageAdded(execution_id="e1", message=draft), 10)


# Section 6: (how the body ended, who interrupted first, how it settles).
RAISED = {"error_type": "ValueError", "error_message": "bad"}
OUTCOMES: list[tuple[str, dict[str, Any], str | None, tuple[Any, ...]]] = [
    ("returned", {}, None, ("succeeded", None, None, "awaiting_human", "idle")),
    ("returned", {"stopped": True}, None, ("succeeded", None, None, "stopped", "idle")),
    ("returned", {"stopped": True, "reason": "max_total_steps"}, None, ("succeeded", None, None, "max_total_steps", "failed")),
    ("returned", {"reason": "session_fail"}, None, ("succeeded", None, None, "session_fail", "idle")),
    ("cancelled", {}, None, ("failed", "CancelledError", "The body was cancelled without an interruption.", "step_error", "failed")),
    ("raised", RAISED, None, ("failed", "ValueError", "bad", "step_error", "failed")),
    ("raised", {}, None, ("failed", "ThreadExecutionFailed", "Thread execution failed.", "step_error", "failed")),
    ("raised", {"error_type": "NoWorker", "error_message": "none left", "reason": "no_worker"}, None,
     ("failed", "NoWorker", "none left", "no_worker", "failed")),
    ("returned", {}, "user", ("cancelled", None, None, "aborted_by_user", "idle")),
    ("returned", {}, "system", ("cancelled", None, None, "aborted", "idle")),
    ("returned", {}, "parent", ("cancelled", None, None, "aborted", "idle")),
    ("returned", {"stopped": True}, "user", ("cancelled", None, None, "aborted_by_user", "idle")),
    ("cancelled", {}, "user", ("cancelled", None, None, "aborted_by_user", "idle")),
    ("raised", RAISED, "user", ("failed", "ValueError", "bad", "step_error", "failed")),
    ("returned", {}, "deadline", ("failed", "ExecutionTimeout", "The execution did not end within 4.0 s.", "timeout", "failed")),
    ("cancelled", {}, "deadline", ("failed", "ExecutionTimeout", "The execution did not end within 4.0 s.", "timeout", "failed")),
    ("raised", RAISED, "deadline", ("failed", "ExecutionTimeout", "The execution did not end within 4.0 s.", "timeout", "failed")),
]  # fmt: skip


def interrupted(source: str | None, *, written: bool = True) -> Pure:
    thread = Pure()
    thread.commit(submit(timeout=4.0))
    if source is not None:
        trigger = Deadline("e1") if source == "deadline" else Interrupt("e1", source=source)  # type: ignore[arg-type]
        (thread.commit if written else thread.refuse)(trigger)
    return thread


@pytest.mark.parametrize("written", [True, False])
@pytest.mark.parametrize(("how", "more", "source", "expected"), OUTCOMES)
def test_an_execution_settles_as_the_table_of_outcomes_says(
    how: str, more: dict[str, Any], source: str | None, expected: tuple[Any, ...], written: bool
) -> None:
    thread = interrupted(source, written=written)

    closing = thread.take(BodyEnded("e1", how, **more))  # type: ignore[arg-type]
    finish = thread.commit(Released("e1"))

    assert [do.action for do in closing.at_once] == [Action.FENCE, Action.RELEASE]
    assert closing.events == []
    event = finish.events[-1]
    assert isinstance(event, ExecutionFinished)
    found = (event.outcome, event.error_type, event.error_message, event.reason, thread.facts.state)
    assert found == expected
    assert (event.abandoned, thread.facts.reason) == (False, event.reason)
    assert thread.facts.state == settled_state(event.outcome, event.reason)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("user", ("cancelled", None, "aborted_by_user")),
        ("system", ("cancelled", None, "aborted")),
        ("deadline", ("failed", "ExecutionTimeout", "timeout")),
    ],
)
@pytest.mark.parametrize("written", [True, False])
def test_a_body_that_does_not_stop_within_its_grace_is_abandoned(
    source: str, expected: tuple[Any, ...], written: bool
) -> None:
    thread = interrupted(source, written=written)

    closing = thread.take(GraceExpired("e1"), said="Stopped.")
    events = thread.commit(Released("e1")).events
    event = events[-1]

    # Only what a user stopped has words for it, and these come before the end.
    said = [one.message["content"] for one in events if one.type == "MESSAGE_ADDED"]
    assert said == (["Stopped."] if source == "user" else [])
    assert [do.action for do in closing.at_once] == [Action.FENCE, Action.RELEASE]
    assert (event.outcome, event.error_type, event.reason) == expected
    assert event.abandoned


def test_a_terminated_execution_is_cancelled_by_the_system() -> None:
    thread = in_phase(Phase.RUNNING)
    thread.commit(Terminate())
    thread.take(BodyEnded("e1"))

    event = thread.commit(Released("e1")).events[-1]

    assert (event.outcome, event.reason) == ("cancelled", "aborted")


@pytest.mark.parametrize(
    ("error_type", "error_message", "expected"),
    [
        ("", "", ("ThreadExecutionFailed", "Thread execution failed.")),
        ("  ", "\n\t", ("ThreadExecutionFailed", "Thread execution failed.")),
        ("Bad\ud800Name", "broken \udfff text", ("Bad?Name", "broken ? text")),
        ("E" * 9_000, "m" * 99_999, ("E" * 255 + "…", "m" * 8_191 + "…")),
    ],
)
def test_no_words_of_an_exception_make_finish_impossible(
    error_type: str, error_message: str, expected: tuple[str, str]
) -> None:
    thread = in_phase(Phase.RUNNING)
    thread.take(BodyEnded("e1", "raised", error_type=error_type, error_message=error_message))

    event = thread.commit(Released("e1")).events[-1]

    assert (event.error_type, event.error_message) == expected


# The last pass and the next one.


def test_a_body_that_returns_with_something_unread_gets_one_more_pass() -> None:
    thread = in_phase(Phase.RUNNING)
    thread.commit(steer("c"))

    decision = thread.take(BodyEnded("e1"))

    assert decision.events == [
        MessagesJoined(execution_id="e1", rows=[[3, "steer", 1, 0, 10]], consumed=True, reason=None)
    ]
    assert (decision.batch, decision.closes) == (Batch.JOIN, True)
    assert [do.action for do in decision.actions] == [Action.PASS]
    assert [row.input_id for row in decision.joined] == ["c"]
    assert thread.state.phase is Phase.RUNNING
    assert thread.facts.steers == 0


@pytest.mark.parametrize(
    ("how", "more"),
    [("raised", RAISED), ("cancelled", {}), ("returned", {"stopped": True})],
)
def test_a_body_that_ends_otherwise_gets_no_further_pass(how: str, more: dict[str, Any]) -> None:
    thread = in_phase(Phase.RUNNING)
    thread.commit(steer("c"))
    thread.commit(queue("q"))

    decision = thread.take(BodyEnded("e1", how, **more))  # type: ignore[arg-type]

    assert decision.events == []
    assert thread.state.phase is Phase.FINISHING


def test_an_interrupted_body_gets_no_further_pass() -> None:
    thread = in_phase(Phase.RUNNING)
    thread.commit(steer("c"))
    thread.commit(Interrupt("e1"))

    thread.take(BodyEnded("e1"))

    assert thread.state.phase is Phase.FINISHING


def test_calls_left_open_by_a_pass_are_closed_before_the_next_one_reads() -> None:
    thread = in_phase(Phase.RUNNING)
    thread.commit(said("m", role="assistant", calls=["c1", "c2"]))
    thread.commit(queue("q"))

    decision = thread.take(BodyEnded("e1"), open_calls=[OpenCall("c1"), OpenCall("c2")])

    assert kinds(decision.events) == ["MessageAdded", "MessageAdded", "MessagesJoined"]
    closed = [event.message for event in decision.events[:2]]
    assert [(draft["tool_call_id"], draft["tool_status"], draft["role"]) for draft in closed] == [
        ("c1", "error", "tool"), ("c2", "error", "tool"),
    ]  # fmt: skip
    assert len({draft["id"] for draft in closed}) == 2
    assert thread.facts.open_calls == 0


# Append and consume.


def test_a_body_speaks_while_it_runs_and_while_it_stops() -> None:
    for phase in (Phase.RUNNING, Phase.STOPPING):
        thread = in_phase(phase)
        decision = thread.commit(said())
        assert decision.reply is decision.events[0]
        assert thread.facts.messages == 2


def test_a_tool_call_is_open_until_its_one_result() -> None:
    thread = in_phase(Phase.RUNNING)
    thread.commit(said("m", role="assistant", calls=["c", "d"]))
    assert (thread.facts.open_calls, thread.facts.open_bytes > 0) == (2, True)

    thread.commit(result("c"))
    again = thread.judge(result("c"), open_call=False)
    thread.commit(result("d"))

    assert isinstance(again.reply, InvalidInput)
    assert (again.reply.code, again.reply.details["tool_call_id"], again.events) == ("call_not_open", "c", [])
    assert (thread.facts.open_calls, thread.facts.open_bytes) == (0, 0)


def test_a_call_that_is_open_already_is_refused() -> None:
    thread = in_phase(Phase.RUNNING)

    decision = thread.judge(said("m", role="assistant", calls=["c"]), doubled="c")

    assert isinstance(decision.reply, InvalidInput)
    assert (decision.reply.code, decision.events) == ("call_already_open", [])


def test_consume_takes_all_that_may_join_and_no_submit() -> None:
    thread = in_phase(Phase.RUNNING)
    thread.commit(queue("q1"))
    thread.commit(submit("w", "queue"))
    thread.commit(steer("c"))
    thread.commit(queue("q2"))

    decision = thread.take(Consume("e1"))

    assert [row.input_id for row in decision.joined] == ["q1", "c", "q2"]
    assert decision.events[0].consumed
    assert decision.closes
    assert [row.input_id for row in thread.rows] == ["w"]


def test_consume_with_nothing_to_read_writes_nothing() -> None:
    for thread in (in_phase(Phase.RUNNING), with_submit()):
        decision = thread.judge(Consume("e1"))
        assert (decision.verdict, decision.events, decision.reply) == (Verdict.DECIDE, [], ())


def with_submit() -> Pure:
    thread = in_phase(Phase.RUNNING)
    thread.commit(submit("w", "queue"))
    return thread


def test_nothing_joins_while_a_call_is_open() -> None:
    thread = in_phase(Phase.RUNNING)
    thread.commit(queue("q"))
    thread.commit(said("m", role="assistant", calls=["c"]))
    assert thread.judge(Consume("e1")).events == []

    thread.commit(result("c"))
    assert kinds(thread.judge(Consume("e1")).events) == ["MessagesJoined"]


@pytest.mark.parametrize("trigger", [Consume("e1"), RecordProcess("e1", 1, 2)])
def test_nothing_further_begins_once_the_execution_was_interrupted(trigger: Any) -> None:
    assert in_phase(Phase.STOPPING).judge(trigger).reply is Refusal.CANCELLED
    assert in_phase(Phase.FINISHING).judge(trigger).reply is Refusal.FENCED


def test_a_process_is_recorded_before_it_runs() -> None:
    thread = in_phase(Phase.RUNNING)

    decision = thread.commit(RecordProcess("e1", 70, 80))

    assert (decision.events[0].group, decision.events[0].start_time, decision.reply) == (70, 80, True)
    assert thread.facts.processes == 1


# Deadline, deletion.


def test_a_deadline_aborts_like_an_interrupt_and_is_recorded_as_one() -> None:
    thread = in_phase(Phase.RUNNING)

    decision = thread.take(Deadline("e1"))

    assert (decision.events[0].source, decision.events[0].reason, decision.reply) == ("deadline", None, None)
    assert decision.batch is Batch.INTERRUPTION
    assert [do.action for do in decision.actions] == [Action.TELL, Action.GRACE]
    assert thread.state.phase is Phase.STOPPING


def test_a_deadline_after_an_interrupt_is_ignored() -> None:
    thread = in_phase(Phase.STOPPING)

    assert thread.judge(Deadline("e1")).verdict is Verdict.IGNORE


def test_deletion_waits_for_the_execution() -> None:
    assert in_phase(Phase.RUNNING).judge(Delete()).reply is False
    decision = in_phase(Phase.IDLE).judge(Delete())
    assert ([do.action for do in decision.actions], decision.closes, decision.reply) == ([Action.DELETE], True, True)


def test_an_ending_is_kept_by_value() -> None:
    assert Ending("succeeded", 3)._replace(refused=True) == Ending("succeeded", 3, refused=True)


@pytest.mark.parametrize("phase", [Phase.RUNNING, Phase.STOPPING])
@pytest.mark.parametrize("how", ["returned", "raised", "cancelled", "lost"])
def test_the_end_of_an_earlier_pass_is_passed_over(phase: Phase, how: str) -> None:
    thread = in_phase(phase)
    thread.state.passes = 2
    again: BodyEnded | Lost = BodyEnded("e1", how)  # type: ignore[arg-type]
    if how == "lost":
        again = Lost("e1", boot_id="b1", cause="worker_lost", dispatched=True)
    again.of_pass = 1

    assert thread.take(again).verdict is Verdict.IGNORE
    assert thread.state.phase is phase
    again.of_pass = 2
    thread.take(again)
    assert thread.state.phase is Phase.FINISHING


def test_passes_are_counted_anew_for_each_execution() -> None:
    thread = in_phase(Phase.RUNNING)
    thread.state.passes = 2
    end = BodyEnded("e1")
    end.of_pass = 2
    thread.take(end)
    thread.commit(Released("e1"))

    thread.run()

    assert thread.state.passes == 1
