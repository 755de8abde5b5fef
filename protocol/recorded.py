"""Owns how a recorded receipt is read back from its event. A decision answers with the same, so a repeat is equal."""

from __future__ import annotations

from .events import ControlRecorded, Event, ExecutionInterrupted, ExecutionStarted, InputQueued
from .receipts import ActiveExecution, ControlReceipt, Disposition, Receipt

__all__ = ["receipt_of", "receipt_of_start", "recorded_id"]

_ACCEPTED = Disposition.ACCEPTED
_tuple = tuple.__new__


def receipt_of(event: Event, at: int) -> Receipt | ControlReceipt | None:
    """Return the receipt that an event recorded, or None where it recorded none.

    Args:
        event: from the journal, or about to enter it.
        at: its time, microseconds.
    """
    if isinstance(event, ExecutionStarted):
        return receipt_of_start(event, at) if event.cause == "submit" else None
    if isinstance(event, InputQueued):
        return _queued(event)
    if isinstance(event, ExecutionInterrupted):
        return _control(event, event.hold)
    if isinstance(event, ControlRecorded):
        return _control(event, event.held)
    return None


def receipt_of_start(event: ExecutionStarted, at: int) -> Receipt:
    """Return the receipt that the START of a submit recorded `at`, microseconds."""
    fields = event.__dict__  # what a model gives away one by one costs three times as much
    execution_id, drafts = fields["execution_id"], fields["messages"]
    ids = (drafts[0]["id"],) if len(drafts) == 1 else tuple([draft["id"] for draft in drafts])
    # All fields in order, and as a tuple: the constructor of a named one is a function of Python, and takes twice the time.
    active = _tuple(ActiveExecution, (execution_id, fields["agent_id"], at, "running"))
    return _tuple(Receipt, (_ACCEPTED, fields["input_id"], ids, execution_id, at, active, "input", None, False))


def recorded_id(event: Event) -> str | None:
    """Return the input or control id under which an event's receipt is found, or None."""
    if isinstance(event, ExecutionStarted):
        return event.input_id if event.cause == "submit" else None
    if isinstance(event, InputQueued):
        return event.input_id
    if isinstance(event, ExecutionInterrupted | ControlRecorded):
        return event.control_id
    return None


def _queued(event: InputQueued) -> Receipt | ControlReceipt:
    active = ActiveExecution(*event.active) if event.active is not None else None
    if event.verb == "steer":
        return ControlReceipt(Disposition.ACCEPTED, event.input_id, event.execution_id, active, event.held)
    ids = tuple(draft["id"] for draft in event.messages)
    if event.kind == "steer":
        started_at = active.started_at if active else None
        return Receipt(Disposition.ACCEPTED, event.input_id, ids, event.execution_id, started_at, active, "steer")
    return Receipt(Disposition.QUEUED, event.input_id, ids, None, None, active, "input", event.interrupted, event.held)


def _control(event: ExecutionInterrupted | ControlRecorded, held: bool) -> ControlReceipt:
    return ControlReceipt(
        Disposition.ACCEPTED, event.control_id, event.execution_id, ActiveExecution(*event.active), held
    )
