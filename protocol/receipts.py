"""Owns the typed answers: dispositions and the receipts that carry them. Judges nothing.

Dispositions are values, never exceptions. Only `accepted` and `queued` receipts are recorded, in the commit that they
speak of; a repeat with the same id and content returns the first receipt, equal in every field.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, NamedTuple

from .errors import InvalidInput
from .ids import check_id

__all__ = ["ActiveExecution", "ControlReceipt", "Disposition", "Receipt", "RespondStatus", "Withdrawal", "followed"]


class Disposition(StrEnum):
    """What became of an input or control (contract A.5, semantics 3)."""

    ACCEPTED = "accepted"
    QUEUED = "queued"
    BUSY = "busy"
    NO_ACTIVE_EXECUTION = "no_active_execution"
    ACTIVE_EXECUTION_MISMATCH = "active_execution_mismatch"
    ACTIVE_INPUT_NOT_STEERABLE = "active_input_not_steerable"
    EXECUTION_FINISHING = "execution_finishing"
    NOTHING_TO_RESUME = "nothing_to_resume"


class Withdrawal(StrEnum):
    """What became of an attempt to take an input back."""

    WITHDRAWN = "withdrawn"
    ALREADY_DELIVERED = "already_delivered"
    NOT_FOUND = "not_found"


class RespondStatus(StrEnum):
    """What became of an answer to a request (contract A.12).

    An answer has no type, names its thread, and finds its request by an id that is used once: so none of the contract's
    three mismatches can occur.
    """

    ACCEPTED = "accepted"
    NOT_FOUND = "not_found"
    ALREADY_RESOLVED = "already_resolved"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"


class ActiveExecution(NamedTuple):
    """The execution that owned the thread when the answer was decided; `started_at` in microseconds.

    Attributes:
        phase: where it stands; a `busy` answer says `waiting` where it runs and waits for the answer to a request.
    """

    execution_id: str
    agent_id: str
    started_at: int
    phase: Literal["starting", "running", "waiting", "stopping", "finishing"]


class Receipt(NamedTuple):
    """The answer to an input.

    Attributes:
        disposition: `accepted` (it runs, or joined as a steer), `queued` (stored, not started) or `busy` (nothing stored).
        input_id: the caller's id, or the one that was made; None on `busy` without an id.
        message_ids: ids of the input's messages, in order; empty when nothing was stored.
        execution_id: the execution that it started or joined; None while it waits.
        started_at: when that execution started, microseconds.
        active_execution: who owns the thread after this decision.
        delivered_as: `steer` where it joined the running execution, else `input`.
        interrupted: the execution that was interrupted for it.
        held: the thread is held; what waits starts at `resume()` or the next submit.
    """

    disposition: Disposition
    input_id: str | None
    message_ids: tuple[str, ...] = ()
    execution_id: str | None = None
    started_at: int | None = None
    active_execution: ActiveExecution | None = None
    delivered_as: Literal["input", "steer"] = "input"
    interrupted: str | None = None
    held: bool = False


class ControlReceipt(NamedTuple):
    """The answer to a control; `execution_id` is its target, `active_execution` who owned the thread."""

    disposition: Disposition
    control_id: str | None
    execution_id: str | None
    active_execution: ActiveExecution | None = None
    held: bool = False


_RECEIPTS = (Receipt, ControlReceipt)  # a union would be made anew for every wait


def followed(target: object) -> tuple[Literal["execution", "input"], str]:
    """Return what a wait is for, and its id: an execution, or the one that an input comes to.

    Args:
        target: an execution id, or a receipt.

    Raises:
        InvalidInput: a receipt that accepted nothing, or no id.
    """
    if isinstance(target, _RECEIPTS):
        if target.execution_id is not None and target.disposition == "accepted":
            return "execution", target.execution_id
        if isinstance(target, Receipt) and target.input_id is not None and target.disposition == "queued":
            return "input", target.input_id
        raise InvalidInput(
            f"nothing was accepted under this receipt ({target.disposition}), so there is nothing to wait for",
            code="invalid_receipt",
            disposition=str(target.disposition),
        )
    return "execution", check_id("execution_id", target)
