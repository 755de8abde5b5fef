"""Owns the run status and the one table of stop reasons (contract C, I.4). Decides nothing else.

`reason` is the code recorded when a thread last left `running`; an interruption's own text never becomes one.
Clients treat unknown codes as opaque.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

__all__ = ["FAILED_REASONS", "Outcome", "RunState", "ThreadStatus", "abort_code", "settled_state"]

RunState = Literal["idle", "running", "failed"]
Outcome = Literal["succeeded", "cancelled", "failed"]


class ThreadStatus(NamedTuple):
    """Whether an execution is in flight, and how the last one ended.

    `since` is in microseconds and changes only when `state` or `reason` does.
    """

    state: RunState
    since: int
    reason: str | None

    def to_wire(self) -> dict[str, object]:
        """Return the JSON form."""
        return {"state": self.state, "since": self.since, "reason": self.reason}


# Contract I.2 #37: the source's own table is lost; these four are failures of the loop, whatever the outcome says.
FAILED_REASONS: frozenset[str] = frozenset(
    {
        "step_error",
        "hook_blocked",
        "repeated_tool_error",
        "max_total_steps",
        "execution_lost",
        "timeout",
        "no_worker",
        "storage_full",
    }
)


def abort_code(source: str | None) -> str:
    """Return the code of an interruption, for the run status and a hold alike; its own text never becomes one."""
    return "aborted_by_user" if source == "user" else "aborted"


def settled_state(outcome: Outcome | None, reason: str | None) -> RunState:
    """Return the run state after an execution: `failed` for a failed outcome or a failing reason, else `idle`.

    Args:
        outcome: how the execution finished; None when it was lost.
        reason: its stop reason code.
    """
    if outcome == "failed" or outcome is None or reason in FAILED_REASONS:
        return "failed"
    return "idle"
