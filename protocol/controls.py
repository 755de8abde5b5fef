"""Owns what becomes of controls: steer, interrupt, stop, resume, terminate. Pure; the table says when each applies."""

from __future__ import annotations

from typing import Literal

from .decision import DECIDE, STOPPING, Action, Batch, Decision, Do, State, Verdict
from .errors import LimitExceeded
from .events import (
    ControlRecorded,
    Event,
    ExecutionInterrupted,
    HoldChanged,
    InboxFailed,
    InputQueued,
    ThreadTerminated,
)
from .limits import UNREAD_BYTES_MAX, UNREAD_MAX
from .receipts import ActiveExecution, ControlReceipt, Disposition, Receipt
from .recorded import receipt_of
from .refusals import agent_missing, repeat, terminated
from .starting import start, start_events, start_from_rows
from .status import abort_code
from .triggers import Input, Interrupt, Resume, Steer, Stop, Terminate, Trigger

__all__ = [
    "accept_steer", "control_no_active", "control_other", "interrupt_finishing", "interrupt_running", "interrupt_stopping",
    "is_deadline", "lift", "refuse_unread", "resume_active", "resume_at_rest", "steer_closing", "steer_running", "stop_at_rest",
    "stop_finishing", "stop_running", "stop_stopping", "terminate_active", "terminate_at_rest", "terminate_running",
]  # fmt: skip


def _control_id(trigger: Trigger) -> str | None:
    if isinstance(trigger, Steer):
        return trigger.input_id
    return trigger.control_id if isinstance(trigger, Interrupt) else None


def _repeat(state: State, trigger: Trigger) -> Decision | None:
    if not isinstance(trigger, Steer | Interrupt):
        return None
    return repeat(state, trigger.prior, trigger.digest, _control_id(trigger))


def _refuse(state: State, trigger: Trigger, disposition: Disposition) -> Decision:
    found = _repeat(state, trigger)
    if found is not None:
        return found
    receipt = ControlReceipt(disposition, _control_id(trigger), trigger.execution_id, state.ownership(), state.held)
    return Decision(Verdict.REFUSE, state.phase, reply=receipt)


def control_no_active(state: State, trigger: Trigger) -> Decision:
    """Nothing is active; a control never starts anything."""
    return _refuse(state, trigger, Disposition.NO_ACTIVE_EXECUTION)


def control_other(state: State, trigger: Trigger) -> Decision:
    """Another execution owns the thread; the answer names it and it is left alone."""
    return _refuse(state, trigger, Disposition.ACTIVE_EXECUTION_MISMATCH)


def steer_closing(state: State, trigger: Steer) -> Decision:
    """The execution has closed its acceptance."""
    return _refuse(state, trigger, Disposition.EXECUTION_FINISHING)


def refuse_unread(state: State, records: int, size: int) -> Decision | None:
    """Refuse what would make FINISH outgrow a batch: unread steers, open calls and requests close together in one."""
    facts = state.facts
    met = facts.steers + facts.open_calls + facts.pending + records
    met_bytes = facts.steer_bytes + facts.open_bytes + size
    if met <= UNREAD_MAX and met_bytes <= UNREAD_BYTES_MAX:
        return None
    error = LimitExceeded(
        f"execution {state.active!r} would have {met} unread steers, open calls and requests with {met_bytes} bytes; "
        f"the limit unread is {UNREAD_MAX} and {UNREAD_BYTES_MAX} bytes",
        limit="unread",
        maximum=UNREAD_MAX,
        met=met,
        execution_id=state.active,
    )
    return Decision(Verdict.REFUSE, state.phase, reply=error)


def lift(state: State) -> tuple[list[Event], ExecutionInterrupted | None]:
    """Return what lifts the hold: an event where it is recorded, and the interruption that FINISH will record without it."""
    unrecorded = state.unrecorded
    if unrecorded is not None and unrecorded.hold:
        unrecorded = unrecorded.model_copy(update={"hold": False})
    return [HoldChanged(held=False, reason=None)] if state.facts.held else [], unrecorded


def accept_steer(state: State, trigger: Input, *, verb: Literal["submit", "steer"]) -> InputQueued:
    """Return the event that binds messages to the active execution."""
    owner = state.ownership()
    return InputQueued(
        input_id=trigger.input_id,
        kind="steer",
        verb=verb,
        execution_id=state.active,
        messages=trigger.messages,
        digest=trigger.digest,
        first=False,
        interrupted=None,
        active=list(owner) if owner else None,
        held=state.facts.held if verb == "steer" else False,
        originating_execution_id=None,
        timeout=None,
        size=trigger.size,
    )


def steer_running(state: State, trigger: Steer) -> Decision:
    """Store the steer; one further pass or step of this execution begins with it."""
    found = _repeat(state, trigger)
    if found is not None:
        return found
    if not state.facts.steerable:
        return _refuse(state, trigger, Disposition.ACTIVE_INPUT_NOT_STEERABLE)
    over = refuse_unread(state, 1, trigger.size)
    if over is not None:
        return over
    queued = accept_steer(state, trigger, verb="steer")
    return Decision(DECIDE, state.phase, [queued], receipt_of(queued, trigger.now))


def is_deadline(state: State) -> bool:
    """Say whether the first thing that ended acceptance was the deadline."""
    first = state.unrecorded.source if state.unrecorded is not None else state.facts.interrupted_by
    return first is not None and first.startswith("deadline")


def interruption(
    state: State, *, source: Literal["user", "system", "parent", "deadline"], reason: str | None, hold: bool = False,
    control_id: str | None = None, digest: bytes | None = None,
) -> ExecutionInterrupted:  # fmt: skip
    """Return the event that ends the active execution's acceptance."""
    owner = state.ownership(STOPPING)
    assert owner is not None
    return ExecutionInterrupted(
        execution_id=owner.execution_id,
        source=source,
        reason=reason,
        hold=hold,
        control_id=control_id,
        digest=digest,
        active=list(owner),
    )


def interrupt(event: ExecutionInterrupted, more: list[Event], reply: object) -> Decision:
    """Return the decision that records an interruption, and tells the body once that is durable."""
    return Decision(
        DECIDE,
        STOPPING,
        [*more, event],
        reply,
        actions=(Do(Action.TELL, event), Do(Action.GRACE)),
        batch=Batch.INTERRUPTION,
    )


def interrupt_running(state: State, trigger: Interrupt) -> Decision:
    """Take the interruption: recorded first, then the body is told."""
    found = _repeat(state, trigger)
    if found is not None:
        return found
    event = interruption(
        state,
        source=trigger.source,
        reason=trigger.reason,
        hold=trigger.hold,
        control_id=trigger.control_id,
        digest=trigger.digest,
    )
    return interrupt(event, [], receipt_of(event, trigger.now))


def interrupt_stopping(state: State, trigger: Interrupt) -> Decision:
    """Already taken: no second interruption; a new id or hold is recorded, else answered at once."""
    found = _repeat(state, trigger)
    if found is not None:
        return found
    if is_deadline(state) and state.facts.interrupted_by in (None, "deadline"):
        return _late_interrupt(state, trigger)
    owner = state.ownership()
    assert owner is not None
    events: list[Event] = []
    if trigger.hold and not state.facts.held:
        events.append(HoldChanged(held=True, reason=abort_code(trigger.source)))
    receipt = ControlReceipt(
        Disposition.ACCEPTED, trigger.control_id, trigger.execution_id, owner, trigger.hold or state.facts.held
    )
    if trigger.control_id is not None:
        recorded = ControlRecorded(
            execution_id=owner.execution_id,
            control_id=trigger.control_id,
            digest=trigger.digest,
            active=list(owner),
            held=receipt.held,
        )
        events.insert(0, recorded)
    return Decision(DECIDE if events else Verdict.REFUSE, state.phase, events, receipt)


def _late_interrupt(state: State, trigger: Interrupt) -> Decision:
    """After a deadline an interrupt is accepted and recorded, and changes nothing: the body was told already."""
    event = interruption(
        state,
        source=trigger.source,
        reason=trigger.reason,
        hold=trigger.hold or state.facts.held,
        control_id=trigger.control_id,
        digest=trigger.digest,
    )
    return Decision(DECIDE, state.phase, [event], receipt_of(event, trigger.now))


def interrupt_finishing(state: State, trigger: Interrupt) -> Decision:
    """Too late: the execution is ending by itself."""
    return _refuse(state, trigger, Disposition.EXECUTION_FINISHING)


def _hold(state: State, disposition: Disposition) -> Decision:
    receipt = ControlReceipt(disposition, None, state.active, state.ownership(), held=True)
    if state.facts.held:
        return Decision(Verdict.REFUSE, state.phase, reply=receipt)
    return Decision(DECIDE, state.phase, [HoldChanged(held=True, reason="aborted_by_user")], receipt)


def stop_at_rest(state: State, trigger: Stop) -> Decision:
    """Hold a thread at rest."""
    return _hold(state, Disposition.NO_ACTIVE_EXECUTION)


def stop_running(state: State, trigger: Stop) -> Decision:
    """Interrupt and hold, in one commit."""
    event = interruption(state, source="user", reason="aborted_by_user", hold=True)
    return interrupt(event, [], receipt_of(event, trigger.now))


def stop_stopping(state: State, trigger: Stop) -> Decision:
    """Already stopping; hold what comes after."""
    return _hold(state, Disposition.ACCEPTED)


def stop_finishing(state: State, trigger: Stop) -> Decision:
    """Too late to interrupt; hold what comes after."""
    return _hold(state, Disposition.EXECUTION_FINISHING)


def resume_at_rest(state: State, trigger: Resume) -> Decision:
    """Lift the hold and start what waits or, with nothing waiting, run on the history there is."""
    facts = state.facts
    if facts.terminated_at is not None:
        return terminated(state)
    if not state.startable:
        return agent_missing(state)
    if not (trigger.rows or facts.counts):
        receipt = Receipt(Disposition.NOTHING_TO_RESUME, None, held=False)
        if not facts.held:
            return Decision(Verdict.REFUSE, state.phase, reply=receipt)
        return Decision(DECIDE, state.phase, [HoldChanged(held=False, reason=None)], receipt)
    if trigger.rows:
        events, joined = start_from_rows(state, trigger.new_id, trigger.rows, "resume")
    else:
        events, joined = start_events(state, trigger.new_id, cause="resume"), []
    active = ActiveExecution(trigger.new_id, state.agent_name, trigger.now, "running")
    reply = Receipt(Disposition.ACCEPTED, None, (), trigger.new_id, trigger.now, active)
    return start(events, reply, joined)


def resume_active(state: State, trigger: Resume) -> Decision:
    """Lift the hold where there is one; an execution is active already."""
    owner = state.ownership()
    if not state.held:
        return Decision(Verdict.REFUSE, state.phase, reply=Receipt(Disposition.BUSY, None, active_execution=owner))
    started_at = owner.started_at if owner else None
    reply = Receipt(Disposition.ACCEPTED, None, (), state.active, started_at, owner)
    events, unrecorded = lift(state)
    return Decision(DECIDE, state.phase, events, reply, unrecorded=unrecorded)


def _terminate(state: State, trigger: Terminate) -> list[Event]:
    events: list[Event] = [ThreadTerminated()]
    if state.facts.waiting_messages + state.facts.waiting_submits:
        events.append(InboxFailed(through=state.facts.sequence))
    return events


def terminate_at_rest(state: State, trigger: Terminate) -> Decision:
    """Close the thread for good; what waited has failed."""
    if state.facts.terminated_at is not None:
        return Decision(Verdict.REFUSE, state.phase, reply=state.facts.terminated_at)
    return Decision(DECIDE, state.phase, _terminate(state, trigger), trigger.now, actions=(Do(Action.WAKE),))


def terminate_running(state: State, trigger: Terminate) -> Decision:
    """Close the thread for good and end its execution as an interrupt does."""
    if state.facts.terminated_at is not None:
        return Decision(Verdict.REFUSE, state.phase, reply=state.facts.terminated_at)
    event = interruption(state, source="system", reason="aborted")
    return interrupt(event, _terminate(state, trigger), trigger.now)


def terminate_active(state: State, trigger: Terminate) -> Decision:
    """Close the thread for good; its execution is ending already."""
    if state.facts.terminated_at is not None:
        return Decision(Verdict.REFUSE, state.phase, reply=state.facts.terminated_at)
    return Decision(DECIDE, state.phase, _terminate(state, trigger), trigger.now)
