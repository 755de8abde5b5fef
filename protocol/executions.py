"""Owns the execution record and its projection from history. Never says who owns a thread now.

Replaying an old START never reserves a thread: only the live id passed in makes a record `active` (contract A.6).
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from .status import Outcome

__all__ = ["ExecutionError", "ExecutionRecord", "ExecutionStatus", "project"]

ExecutionStatus = Literal["active", "succeeded", "cancelled", "failed", "interrupted"]


class ExecutionError(NamedTuple):
    """A structured failure: a stable type name and a message, both non-blank (contract A.3)."""

    type: str
    message: str


class ExecutionRecord(NamedTuple):
    """One execution as history tells it; times in microseconds.

    Attributes:
        status: the projection; `interrupted` means a START without FINISH whose execution is not live.
        outcome: as FINISH says, None without one.
        error: set exactly when the outcome is `failed`.
        reason: the stop reason code that the run status took from it.
        abandoned: the body did not stop within its grace and was fenced off.
        leftovers: what could not be released in time, named.
        evidence: for a lost execution: boot id, last sequence, cause, dispatched.
    """

    execution_id: str
    agent_id: str
    status: ExecutionStatus
    started_at: int
    finished_at: int | None = None
    outcome: Outcome | None = None
    error: ExecutionError | None = None
    reason: str | None = None
    input_id: str | None = None
    cause: str = "submit"
    abandoned: bool = False
    leftovers: tuple[str, ...] = ()
    evidence: dict[str, object] | None = None


def project(execution_id: str, outcome: Outcome | None, live_id: str | None) -> ExecutionStatus:
    """Return the status of an execution: its outcome where it finished, `active` where it is the live one, else `interrupted`."""
    if outcome is not None:
        return outcome
    return "active" if execution_id == live_id else "interrupted"
