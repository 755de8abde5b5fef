"""Owns what becomes of a body's mail: append, consume, processes, its end, its deadline. Pure.

A pass that ends looks at the inbox in the same step that closes acceptance: what has arrived is read by one more pass,
or acceptance is closed and later mail belongs to the next execution. There is no moment in between.
"""

from __future__ import annotations

from .controls import interrupt, interruption, is_deadline, refuse_unread
from .decision import (
    CLOSE,
    DECIDE,
    FINISHING,
    NO_EVENTS,
    OTHER,
    RUNNING,
    STOPPING,
    Action,
    Batch,
    Decision,
    Do,
    Ending,
    Refusal,
    State,
    Verdict,
)
from .ending import abort_reason, call_results
from .errors import InvalidInput
from .events import ProcessRecorded
from .limits import ERROR_MESSAGE_MAX, ERROR_TYPE_MAX
from .starting import joinable, joining
from .triggers import Append, BodyEnded, Consume, Deadline, GraceExpired, RecordProcess

__all__ = [
    "append", "body_ended_running", "body_ended_stopping", "close", "consume", "deadline", "delete", "delete_busy", "fenced",
    "grace_expired", "is_fenced", "record_process", "refuse_cancelled",
]  # fmt: skip


_tuple = tuple.__new__


def is_fenced(state: State, execution_id: str | None) -> bool:
    """Say whether mail of this execution's body comes too late to have any effect."""
    return execution_id != state.active or state.phase not in (RUNNING, STOPPING)


def fenced(state: State, trigger: object) -> Decision:
    """Turn a late body's mail away."""
    return Decision(Verdict.REFUSE, state.phase, reply=Refusal.FENCED)


def refuse_cancelled(state: State, trigger: object) -> Decision:
    """Nothing further begins once the execution was interrupted."""
    return Decision(Verdict.REFUSE, state.phase, reply=Refusal.CANCELLED)


def append(state: State, trigger: Append) -> Decision:
    """Put what the body says into history."""
    event = trigger.event
    draft = event.message
    if len(draft) == 3:  # id, role and content: no call in it
        return Decision(DECIDE, state.phase, [event], event)
    if draft.get("closes") and not trigger.open_call:
        return _refuse_call(state, "call_not_open", draft.get("tool_call_id"), "has no open tool call {}")
    calls = draft.get("calls", ())
    if calls and trigger.doubled is not None:
        return _refuse_call(state, "call_already_open", trigger.doubled, "has an open tool call {} already")
    over = refuse_unread(state, len(calls), trigger.size) if calls else None
    return over or Decision(DECIDE, state.phase, [event], event)


def _refuse_call(state: State, code: str, call_id: str | None, what: str) -> Decision:
    error = InvalidInput(
        f"execution {state.active!r} {what.format(repr(call_id))}; a call gets exactly one result",
        code=code,
        execution_id=state.active,
        tool_call_id=call_id,
    )
    return Decision(Verdict.REFUSE, state.phase, reply=error)


def consume(state: State, trigger: Consume) -> Decision:
    """Let what has arrived join history and hand it to the body; nothing joins while tool calls are open."""
    rows = joinable(state, trigger.rows)
    if state.facts.open_calls or not rows:
        return Decision(DECIDE, state.phase, reply=())
    return Decision(DECIDE, state.phase, [joining(state.active, rows)], (), closes=True, joined=tuple(rows))


def record_process(state: State, trigger: RecordProcess) -> Decision:
    """Record a process group before it runs."""
    assert state.active is not None
    event = ProcessRecorded(execution_id=state.active, group=trigger.group, start_time=trigger.start_time)
    return Decision(DECIDE, state.phase, [event], True)


def body_ended_running(state: State, trigger: BodyEnded) -> Decision:
    """One more pass for what is unread, or the end of acceptance."""
    if trigger.of_pass != state.passes:
        return Decision(Verdict.IGNORE, RUNNING)
    if trigger.rows and trigger.how == "returned" and not trigger.stopped:
        rows = joinable(state, trigger.rows)
        if rows:
            results = call_results(state, trigger.open_calls, "The call was left without a result.")
            return Decision(
                DECIDE,
                RUNNING,
                [*results, joining(state.active, rows)],
                actions=(Do(Action.PASS),),
                batch=Batch.JOIN,
                closes=True,
                joined=tuple(rows),
            )
    return close(state, _ending_uninterrupted(trigger))


def close(state: State, ending: Ending) -> Decision:
    """Return the decision that closes acceptance: the fence falls and what the execution owns is released."""
    return Decision(DECIDE, FINISHING, NO_EVENTS, None, (), OTHER, False, (), CLOSE, ending)


def _ending_uninterrupted(trigger: BodyEnded) -> Ending:
    if trigger.how == "returned":
        if trigger.stopped:
            reason = trigger.reason or "stopped"
            return Ending("succeeded", trigger.now, reason=reason, unread=trigger.limit or reason)
        reason = trigger.reason or "awaiting_human"
        # All fields in order, and as a tuple: the constructor of a named one is a function of Python, and takes thrice the time.
        return _tuple(Ending, ("succeeded", trigger.now, None, None, reason, False, (), "finished", None, False, None))
    if trigger.how == "cancelled":
        error_type, default = "CancelledError", "The body was cancelled without an interruption."
    else:
        error_type, default = (
            _text(trigger.error_type, ERROR_TYPE_MAX, "ThreadExecutionFailed"),
            "Thread execution failed.",
        )
    message = _text(trigger.error_message, ERROR_MESSAGE_MAX, default)
    return Ending("failed", trigger.now, error_type, message, trigger.reason or "step_error")


def _text(given: str | None, longest: int, default: str) -> str:
    # An exception's words are anybody's: blank, endless or broken ones must not make FINISH impossible.
    if given is None or not given.strip():
        return default
    cut = given if len(given) <= longest else given[: longest - 1] + "…"
    return cut.encode(errors="replace").decode()


def body_ended_stopping(state: State, trigger: BodyEnded) -> Decision:
    """The interrupted body is back; no further pass, whatever waits."""
    if trigger.of_pass != state.passes:
        return Decision(Verdict.IGNORE, state.phase)
    if is_deadline(state):
        return close(state, timed_out(state, trigger.now, abandoned=False))
    if trigger.how == "raised":
        return close(state, _ending_uninterrupted(trigger))
    return close(state, Ending("cancelled", trigger.now, reason=abort_reason(state), unread="cancelled"))


def timed_out(state: State, now: int, *, abandoned: bool) -> Ending:
    """Return the ending of an execution whose deadline passed: failed, whatever its body does."""
    message = f"The execution did not end within {state.facts.timeout} s."
    return Ending("failed", now, "ExecutionTimeout", message, "timeout", abandoned=abandoned)


def deadline(state: State, trigger: Deadline) -> Decision:
    """The time given is over: abort as an interruption does, recorded as a deadline."""
    if trigger.execution_id != state.active:
        return Decision(Verdict.IGNORE, state.phase)
    return interrupt(interruption(state, source="deadline", reason=None), [], None)


def grace_expired(state: State, trigger: GraceExpired) -> Decision:
    """The body does not stop: it is abandoned, and fenced off from here on."""
    if trigger.execution_id != state.active:
        return Decision(Verdict.IGNORE, state.phase)
    if is_deadline(state):
        return close(state, timed_out(state, trigger.now, abandoned=True))
    reason = abort_reason(state)
    said = trigger.said if reason == "aborted_by_user" else None
    return close(state, Ending("cancelled", trigger.now, reason=reason, abandoned=True, unread="cancelled", said=said))


def delete(state: State, trigger: object) -> Decision:
    """Leave a tombstone; the contents go later, a thousand rows a batch."""
    return Decision(DECIDE, state.phase, reply=True, actions=(Do(Action.DELETE),), closes=True)


def delete_busy(state: State, trigger: object) -> Decision:
    """An execution owns the thread; deletion waits for its finish."""
    return Decision(Verdict.REFUSE, state.phase, reply=False)
