"""Owns the execution record and its projection from history. Never says who owns a thread now.

Replaying an old START never reserves a thread: only the live id passed in makes a record `active` (contract A.6).
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from .events import ExecutionFinished, ExecutionLost, ExecutionStarted
from .status import Outcome

__all__ = ["ExecutionError", "ExecutionRecord", "ExecutionStatus", "project", "record_of"]

_tuple = tuple.__new__
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
        evidence: for a lost execution: id of the boot that it was lost with, last sequence, cause, dispatched.
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


def record_of(
    start: ExecutionStarted, started_at: int, last: ExecutionFinished | ExecutionLost | None, live_id: str | None
) -> ExecutionRecord:
    """Return the record that a START and what ended it tell together; `last` is None where nothing has."""
    if isinstance(last, ExecutionFinished):
        # Its fields at once, and the record as a tuple: a model gives them away at three times the cost, and the constructor
        # of a named tuple is a function of Python.
        began, end = start.__dict__, last.__dict__
        outcome, kind, message = end["outcome"], end["error_type"], end["error_message"]
        error = ExecutionError(kind, message) if kind and message else None
        return _tuple(ExecutionRecord, (
            began["execution_id"], began["agent_id"], outcome, started_at, end["finished_at"], outcome, error, end["reason"],
            began["input_id"], began["cause"], end["abandoned"], tuple(end["leftovers"]), None,
        ))  # fmt: skip
    status: ExecutionStatus = (
        "interrupted" if isinstance(last, ExecutionLost) else project(start.execution_id, None, live_id)
    )
    evidence: dict[str, object] | None = None
    leftovers: tuple[str, ...] = ()
    if isinstance(last, ExecutionLost):
        leftovers = tuple(last.leftovers)
        evidence = {
            "boot_id": last.boot_id,
            "last_sequence": last.last_sequence,
            "cause": last.cause,
            "dispatched": last.dispatched,
        }
    return ExecutionRecord(
        start.execution_id, start.agent_id, status, started_at, None, None, None, "execution_lost" if last else None,
        start.input_id, start.cause, False, leftovers, evidence,
    )  # fmt: skip


def project(execution_id: str, outcome: Outcome | None, live_id: str | None) -> ExecutionStatus:
    """Return the status of an execution: its outcome where it finished, `active` where it is the live one, else `interrupted`."""
    if outcome is not None:
        return outcome
    return "active" if execution_id == live_id else "interrupted"
