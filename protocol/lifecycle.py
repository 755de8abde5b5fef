"""Owns the lifecycle of a thread: one total table, and the pure function that reads it. Does no input or output.

Two rules. Everything that decides what may happen to a thread is in this table and the rules that it names. And nothing
here knows how a decision is committed or carried out: time and ids arrive inside the trigger, and what to do comes out
as data.

Theory of operation: `decide` finds the cell of (phase, kind of trigger) and asks what decides there. The decision says what to
append, what to reply and what to do. `advance` then moves a state as the decision says; folding is the only way that
durable facts change. The actor hands the events to the store and later decides the store's answer, which is a trigger
like any other. Cells that must not be are in the table too, each with its reason.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from . import admission, controls, ending, handoffs, message_edits, requests, running
from .decision import IDLE, RUNNING, STARTING, Batch, Decision, Phase, State, Verdict
from .errors import InternalError
from .triggers import Answer, Kind, Trigger

__all__ = ["RULES", "TABLE", "Cell", "advance", "classify", "committed", "decide", "durable", "not_written", "rule_of"]

Rule = Callable[[State, Any], Decision]


class Cell(NamedTuple):
    """One cell: its label, its kind, its rule where it has one, and why it is so."""

    label: str
    verdict: Verdict
    rule: Rule | None
    because: str


_D, _R, _I, _P, _X = Verdict.DECIDE, Verdict.REFUSE, Verdict.IGNORE, Verdict.POSTPONE, Verdict.IMPOSSIBLE
_Spec = tuple[Verdict, Rule | None, str]

_WAIT: _Spec = (_P, None, "START is in flight; what it opens is known when it is answered")
_NONE: _Spec = (_R, controls.control_no_active, "a control never starts anything")
_OTHER: _Spec = (_R, controls.control_other, "the control was meant for another execution; the live one is left alone")
_CLOSED: _Spec = (_R, controls.steer_closing, "acceptance is closed; an accepted steer would be lost")
_NO_BODY: _Spec = (_X, None, "no body may speak here: the fence turns its mail away before the table")
_NO_BATCH: _Spec = (_X, None, "no such batch can be in flight in this phase")
_LATE: _Spec = (_I, None, "it is about something that is over")
_CANCELLED: _Spec = (_R, running.refuse_cancelled, "nothing further begins after an interruption")
_FENCED: _Spec = (_R, running.fenced, "the body's acceptance is closed; what it writes now has no effect")
_OVER: _Spec = (_R, requests.respond_over, "no request is pending: it is told what became of it")
_ABANDONED: _Spec = (_R, requests.respond_over, "nobody would read the answer: what is pending will be abandoned")
_TAKE_BACK: _Spec = (_D, admission.withdraw, "a row that has not joined is taken back as a whole")
_INJECT: _Spec = (_D, admission.inject, "joins history at once and starts nothing")
_UPDATE: _Spec = (_D, message_edits.update, "history is the thread's own, whoever runs; a late body's is fenced")
_DELETE: _Spec = (_D, message_edits.delete, "as an update; with the last message of a row the row is taken back")
_STARTED: _Spec = (_D, ending.start_committed, "durable: the body is called")
_NOT_STARTED: _Spec = (_D, ending.start_not_written, "the slot is free and the caller gets the error")
_FINISHED: _Spec = (_D, ending.finish_committed, "the slot is free; the next START comes before other mail")
_NOT_FINISHED: _Spec = (_D, ending.finish_not_written, "the thread stays owned; the commit is tried again")

_ROWS: dict[Kind, tuple[_Spec, _Spec, _Spec, _Spec, _Spec]] = {
    # The five cells of a row stand in the order of `Phase`.
    Kind.SUBMIT: (
        (_D, admission.submit_at_rest, "the slot is free: the input owns it from START on"),
        _WAIT,
        (_D, admission.submit_running, "by on_busy: reject, wait, join as a steer, or interrupt"),
        (_D, admission.submit_closing, "by on_busy: refused, or stored to wait"),
        (_D, admission.submit_closing, "by on_busy: refused, or stored to wait"),
    ),
    Kind.STEER: (
        _NONE,
        _WAIT,
        (_D, controls.steer_running, "accepted and bound to this execution, or refused as not steerable"),
        _CLOSED,
        _CLOSED,
    ),
    Kind.CONTROL_OTHER: (_NONE, _WAIT, _OTHER, _OTHER, _OTHER),
    Kind.INTERRUPT: (
        _NONE,
        _WAIT,
        (_D, controls.interrupt_running, "recorded before the body is told"),
        (_D, controls.interrupt_stopping, "taken already: there is one interruption"),
        (_R, controls.interrupt_finishing, "the execution is ending by itself"),
    ),
    Kind.QUEUE: (
        (_D, admission.queue_at_rest, "stored; starts an execution unless the thread is held"),
        _WAIT,
        (_D, admission.queue_active, "stored; read at the next boundary"),
        (_D, admission.queue_active, "stored; begins the next execution"),
        (_D, admission.queue_active, "stored; begins the next execution"),
    ),
    Kind.STOP: (
        (_D, controls.stop_at_rest, "only the hold is set"),
        _WAIT,
        (_D, controls.stop_running, "interruption and hold in one commit"),
        (_D, controls.stop_stopping, "the hold is set"),
        (_D, controls.stop_finishing, "the hold is set; the interruption came too late"),
    ),
    Kind.RESUME: (
        (_D, controls.resume_at_rest, "the hold is lifted; what waits starts, else the history runs"),
        _WAIT,
        (_D, controls.resume_active, "the hold is lifted where there is one; else busy"),
        (_D, controls.resume_active, "the hold is lifted where there is one; else busy"),
        (_D, controls.resume_active, "the hold is lifted where there is one; else busy"),
    ),
    Kind.TERMINATE: (
        (_D, controls.terminate_at_rest, "closed for good; what waited has failed"),
        _WAIT,
        (_D, controls.terminate_running, "closed for good; the execution goes the way of an interrupt"),
        (_D, controls.terminate_active, "closed for good; the execution is ending already"),
        (_D, controls.terminate_active, "closed for good; the execution is ending already"),
    ),
    Kind.DELETE: (
        (_D, running.delete, "a tombstone takes the record's place"),
        _WAIT,
        (_R, running.delete_busy, "the execution has to finish first"),
        (_R, running.delete_busy, "the execution has to finish first"),
        (_R, running.delete_busy, "the execution has to finish first"),
    ),
    Kind.WITHDRAW: (_TAKE_BACK, _WAIT, _TAKE_BACK, _TAKE_BACK, _TAKE_BACK),
    Kind.INJECT: (_INJECT, _WAIT, _INJECT, _INJECT, _INJECT),
    Kind.SET_VALUE: (
        (_D, admission.set_value, "values are the thread's own, whoever runs"),
        _WAIT,
        (_D, admission.set_value, "values are the thread's own, whoever runs"),
        (_D, admission.set_value, "values are the thread's own, whoever runs"),
        (_D, admission.set_value, "from outside; a body's is fenced"),
    ),
    Kind.UPDATE_MESSAGE: (_UPDATE, _WAIT, _UPDATE, _UPDATE, _UPDATE),
    Kind.DELETE_MESSAGE: (_DELETE, _WAIT, _DELETE, _DELETE, _DELETE),
    Kind.APPEND: (
        _NO_BODY,
        _NO_BODY,
        (_D, running.append, "the body's words join history"),
        (_D, running.append, "an interrupted body may still say what it did"),
        _FENCED,
    ),
    Kind.CONSUME: (
        _NO_BODY,
        _NO_BODY,
        (_D, running.consume, "a step boundary: what has arrived joins and is handed over"),
        _CANCELLED,
        _FENCED,
    ),
    Kind.RECORD_PROCESS: (
        _NO_BODY,
        _NO_BODY,
        (_D, running.record_process, "recorded before it runs, so that recovery can end it"),
        _CANCELLED,
        _FENCED,
    ),
    Kind.REQUEST: (
        _NO_BODY,
        _NO_BODY,
        (_D, requests.open_request, "durable before anybody can answer it"),
        _CANCELLED,
        _FENCED,
    ),
    Kind.RESPOND: (
        _OVER,
        _WAIT,
        (
            _D,
            requests.respond_running,
            "the first answer to a pending request is the one; any other is told what became of it",
        ),
        _ABANDONED,
        _ABANDONED,
    ),
    Kind.REQUEST_EXPIRED: (
        _LATE,
        _LATE,
        (_D, requests.expire, "the time given to a request is over, unless it was answered before"),
        _LATE,
        _LATE,
    ),
    Kind.CHANGE_AGENT: (
        _NO_BODY,
        _NO_BODY,
        (_D, handoffs.change_agent, "what starts next is the new agent's; the execution goes on as it is"),
        _CANCELLED,
        _FENCED,
    ),
    Kind.BODY_ENDED: (
        _NO_BODY,
        _NO_BODY,
        (_D, running.body_ended_running, "one more pass for what is unread, or acceptance closes: one step"),
        (_D, running.body_ended_stopping, "no further pass, whatever waits"),
        _LATE,
    ),
    Kind.DEADLINE: (
        _LATE,
        _LATE,
        (_D, running.deadline, "aborts as an interruption does, recorded as a deadline"),
        _LATE,
        _LATE,
    ),
    Kind.GRACE_EXPIRED: (
        _LATE,
        _LATE,
        _LATE,
        (_D, running.grace_expired, "the body is abandoned and fenced off"),
        _LATE,
    ),
    Kind.RELEASED: (
        _LATE,
        _LATE,
        _LATE,
        _LATE,
        (_D, ending.finish, "nothing is owned any more: FINISH is handed over"),
    ),
    Kind.RETRY_DUE: (
        (_D, ending.retry_at_rest, "a START that nobody asked for is tried again"),
        _LATE,
        _LATE,
        _LATE,
        (_D, ending.retry_finish, "FINISH is tried again, built anew"),
    ),
    Kind.WAKE: (
        (_D, ending.wake, "what waits starts, unless held"),
        _LATE,
        _LATE,
        _LATE,
        _LATE,
    ),
    Kind.LOST: (
        (_D, ending.lost_at_rest, "an earlier life left an execution behind: it is settled, not resumed"),
        _WAIT,
        (_D, ending.lost_active, "its loop or worker is gone: fenced, released, settled"),
        (_D, ending.lost_active, "its loop or worker is gone: fenced, released, settled"),
        _LATE,
    ),
    Kind.START_COMMITTED: (_NO_BATCH, _STARTED, _NO_BATCH, _NO_BATCH, _NO_BATCH),
    Kind.START_NOT_WRITTEN: (_NO_BATCH, _NOT_STARTED, _NO_BATCH, _NO_BATCH, _NO_BATCH),
    Kind.FINISH_COMMITTED: (_NO_BATCH, _NO_BATCH, _NO_BATCH, _NO_BATCH, _FINISHED),
    Kind.FINISH_NOT_WRITTEN: (_NO_BATCH, _NO_BATCH, _NO_BATCH, _NO_BATCH, _NOT_FINISHED),
    Kind.INTERRUPTION_COMMITTED: (
        _NO_BATCH,
        _NO_BATCH,
        _NO_BATCH,
        (_D, ending.act, "the body is told"),
        (_D, ending.act, "the body was back already"),
    ),
    Kind.INTERRUPTION_NOT_WRITTEN: (
        _NO_BATCH,
        _NO_BATCH,
        _NO_BATCH,
        (_D, ending.interruption_not_written, "the body is told all the same; FINISH carries the record"),
        (_D, ending.interruption_not_written, "FINISH carries the record"),
    ),
    Kind.JOIN_COMMITTED: (_NO_BATCH, _NO_BATCH, (_D, ending.act, "the next pass begins"), _NO_BATCH, _NO_BATCH),
    Kind.JOIN_NOT_WRITTEN: (
        _NO_BATCH,
        _NO_BATCH,
        (_D, ending.join_not_written, "no further pass: the execution finishes failed"),
        _NO_BATCH,
        _NO_BATCH,
    ),
    Kind.OTHER_COMMITTED: (
        (_D, ending.act, "durable: act and reply"),
        _NO_BATCH,
        (_D, ending.act, "durable: act and reply"),
        (_D, ending.act, "durable: act and reply"),
        (_D, ending.act, "durable: act and reply"),
    ),
    Kind.OTHER_NOT_WRITTEN: (
        (_D, ending.refused, "the callers get the error"),
        _NO_BATCH,
        (_D, ending.refused, "the callers get the error"),
        (_D, ending.refused, "the callers get the error"),
        (_D, ending.refused, "the callers get the error"),
    ),
}

TABLE: dict[tuple[Phase, Kind], Cell] = {
    (phase, kind): Cell(f"{phase.name}: {kind.value}", *spec)
    for kind, specs in _ROWS.items()
    for phase, spec in zip(Phase, specs, strict=True)
}


def rule_of(cell: Cell) -> Rule:
    """Return what decides in a cell: its rule or, without one, what its kind says."""

    def impossible(state: State, trigger: Any) -> Decision:
        thread_id = state.facts.thread_id
        what = f"{cell.label} on thread {thread_id!r} cannot be: {cell.because}"
        raise InternalError(what, thread_id=thread_id, cell=cell.label)

    def nothing(state: State, trigger: Any) -> Decision:
        return Decision(cell.verdict, state.phase)

    return cell.rule or (impossible if cell.verdict is Verdict.IMPOSSIBLE else nothing)


# The table as `decide` reads it, for every mail.
RULES: dict[Phase, dict[Kind, Rule]] = {phase: {kind: rule_of(TABLE[phase, kind]) for kind in Kind} for phase in Phase}

_STEER, _INTERRUPT = Kind.STEER, Kind.INTERRUPT
_BODY = frozenset({Kind.APPEND, Kind.CONSUME, Kind.RECORD_PROCESS, Kind.REQUEST, Kind.CHANGE_AGENT})
_LATE_BODY = frozenset({Kind.BODY_ENDED, Kind.RELEASED})
_NAMING = _BODY | _LATE_BODY | {_STEER, _INTERRUPT}  # whose row depends on the execution that they name


def classify(state: State, trigger: Trigger) -> Kind:
    """Return the table row of a trigger: a control is judged by whether its target is the live execution."""
    kind = trigger.kind
    if (kind is _STEER or kind is _INTERRUPT) and state.active is not None and trigger.execution_id != state.active:
        return Kind.CONTROL_OTHER
    return kind


def decide(state: State, trigger: Trigger) -> Decision:
    """Return what follows from a trigger; changes nothing.

    Args:
        state: the thread's facts and phase.
        trigger: what happened, with time, ids and what was looked up for it.

    Raises:
        InternalError: the cell is impossible; reaching it is a bug of ours.
    """
    kind = trigger.kind
    phase = state.phase
    # Passed over where none of it can apply: by mail that names no execution, and by that of the live one while it runs.
    if kind in _NAMING and (trigger.execution_id != state.active or (phase is not RUNNING and kind in _BODY)):
        kind = classify(state, trigger)
        if kind in _BODY and running.is_fenced(state, trigger.execution_id):
            return running.fenced(state, trigger)
        if kind in _LATE_BODY and trigger.execution_id != state.active:
            return Decision(Verdict.IGNORE, phase)
    return RULES[phase][kind](state, trigger)


def advance(state: State, decision: Decision, now: int) -> None:
    """Move a state as a decision says: fold its events, `now` and one microsecond further each, and take its phase."""
    if decision.events:
        state.facts.fold_all(decision.events, now)
    if decision.ending is not None:
        state.ending = decision.ending
    if decision.unrecorded is not None:
        state.unrecorded = decision.unrecorded
    phase, before = decision.phase, state.phase
    if phase is not before:
        state.phase = phase
        if phase is STARTING:
            state.active = state.facts.execution_id
            state.passes = 1
        elif before is STARTING and phase is RUNNING:
            state.resumes = False
    if phase is IDLE and state.active is not None:
        state.active = state.ending = state.unrecorded = None


_COMMITTED = {
    Batch.START: Kind.START_COMMITTED,
    Batch.FINISH: Kind.FINISH_COMMITTED,
    Batch.INTERRUPTION: Kind.INTERRUPTION_COMMITTED,
    Batch.JOIN: Kind.JOIN_COMMITTED,
    Batch.OTHER: Kind.OTHER_COMMITTED,
}
_NOT_WRITTEN = {
    Batch.START: Kind.START_NOT_WRITTEN,
    Batch.FINISH: Kind.FINISH_NOT_WRITTEN,
    Batch.INTERRUPTION: Kind.INTERRUPTION_NOT_WRITTEN,
    Batch.JOIN: Kind.JOIN_NOT_WRITTEN,
    Batch.OTHER: Kind.OTHER_NOT_WRITTEN,
}


_DURABLE = {batch: Answer(kind) for batch, kind in _COMMITTED.items()}


def durable(state: State, batch: Batch) -> Decision:
    """Decide that a batch is durable, move on, and return what was decided; such a row is never asked by the fence."""
    decision = RULES[state.phase][_COMMITTED[batch]](state, _DURABLE[batch])
    advance(state, decision, 0)
    return decision


def committed(batch: Batch) -> Answer:
    """Return the trigger that says a batch is durable: the same one each time, since it carries nothing else."""
    return _DURABLE[batch]


def not_written(batch: Batch, code: str, message: str, interruption: Any = None) -> Answer:
    """Return the trigger that says a batch was refused, with the interruption it held, if any."""
    return Answer(_NOT_WRITTEN[batch], code, message, interruption)
