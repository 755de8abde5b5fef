"""Owns the run status and the one table of stop reasons (contract C, I.4). Decides nothing else.

`reason` is the code recorded when a thread last left `running`; an interruption's own text never becomes one.
Clients treat unknown codes as opaque.
"""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple

from .errors import InvalidInput, shorten
from .ids import plain

__all__ = [
    "FAILED_REASONS", "PARKED_REASONS", "Outcome", "RunState", "ThreadStatus", "abort_code", "check_failure", "check_stop",
    "settled_state",
]  # fmt: skip

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

# Contract C.1: the turn went to somebody else, who may have spoken already; what has arrived is read by one more pass.
PARKED_REASONS: frozenset[str] = frozenset(
    {"awaiting_human", "stop_on_response", "stop_tool", "forced_human_turn", "handler_idle"}
)
# Said of an execution, and never by its own body: others ended it, or its executor is gone.
_OTHERS: Final = frozenset({"aborted", "aborted_by_user", "execution_lost"})
_CODE: Final = re.compile(r"[a-z][a-z0-9_]{0,63}\Z")


def _check_code(reason: object, refused: frozenset[str], why: str) -> str:
    if isinstance(reason, str) and _CODE.match(code := plain(reason)) and code not in refused:
        return code
    raise InvalidInput(
        f"a stop reason is a code of at most 64 of a-z, 0-9 and _, {why}, not {shorten(reason)}",
        code="invalid_reason",
        value=shorten(reason),
    )


def check_stop(reason: object) -> str:
    """Return the stop reason of a succeeded end. Raises: InvalidInput: `invalid_reason`; no code, or that of another end."""
    return _check_code(reason, FAILED_REASONS | _OTHERS, "and none of a failure or an interruption")


def check_failure(reason: object) -> str:
    """Return the stop reason of a failed end. Raises: InvalidInput: `invalid_reason`; no code, or that of another end."""
    return _check_code(reason, _OTHERS, "and none of an interruption or a loss")


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
