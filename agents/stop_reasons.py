"""Owns what each stop reason means (contract C.1, I.2, I.4): how a loop ends with it. The run state is `settled_state`'s.

One table of codes. Codes that the loop gives are carried out by `end_with`; those of the heart are listed, so that the
page of the contract has all of them, and can never be given by a loop.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from ..actors.failing import ExecutionFailed
from ..protocol.errors import InternalError
from ..protocol.status import Outcome, RunState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..actors.execution import Execution

__all__ = ["STOP_REASONS", "StopReason", "end_with"]


class StopReason(NamedTuple):
    """What a code means.

    Attributes:
        how: `park`: the turn is somebody else's, and what has arrived is read all the same; `end`: the loop ended well;
            `fail`: it failed; `heart`: the heart gives it, no loop.
        state: the run state that it settles in.
        outcome: of the execution; None for one that was lost.
        because: when it is given.
    """

    how: Literal["park", "end", "fail", "heart"]
    state: RunState
    outcome: Outcome | None
    because: str


def _park(because: str) -> StopReason:
    return StopReason("park", "idle", "succeeded", because)


def _end(because: str) -> StopReason:
    return StopReason("end", "idle", "succeeded", because)


def _fail(because: str) -> StopReason:
    return StopReason("fail", "failed", "failed", because)


STOP_REASONS: Final[Mapping[str, StopReason]] = MappingProxyType(
    {
        "stop_on_response": _park("a side answered in text, without tool calls, and the other side is human"),
        "stop_tool": _park("a side called its stop tool, and the other side is human"),
        "awaiting_human": _park("a human's turn"),
        "forced_human_turn": _park("`force_turn` to a human side"),
        "handler_idle": _park("two handler sides, and no message that they were not called with"),
        "session_stop": _end("a successful call of the side's `session_stop` tool"),
        "session_fail": _end(
            "a successful call of the side's `session_fail` tool: the session failed, the loop did not"
        ),
        "state_stop_session": _end("`state.stop_session()`"),
        "max_session_turns": _end("both sides completed as many turns as the agent allows a session"),
        "max_side_steps": _end("a side took as many model steps as it may in one execution"),
        "stopped": _end("`state.execution.stop()`"),
        "queued_tool": _end("queued tools have run, and there was no message to answer"),
        "max_total_steps": _fail("as many model steps as an execution may take"),
        "repeated_tool_error": _fail("the last eight tool results are the same error"),
        "hook_blocked": _fail("a `prefilter_llm_history` hook raised an error with `block`"),
        "step_error": _fail("an error that nothing in the loop takes"),
        "aborted_by_user": StopReason("heart", "idle", "cancelled", "a user's interrupt or stop"),
        "aborted": StopReason("heart", "idle", "cancelled", "an interrupt by the system or a parent, and termination"),
        "timeout": StopReason("heart", "failed", "failed", "the agent's or the input's deadline passed"),
        "no_worker": StopReason("heart", "failed", "failed", "no worker for a plain function"),
        "storage_full": StopReason("heart", "failed", "failed", "the store refused what the loop had to write"),
        "execution_lost": StopReason("heart", "failed", None, "its process, actor, loop or worker is gone"),
    }
)
"""Every stop reason that this runtime gives."""

_MESSAGES: Final = MappingProxyType(
    {
        "max_total_steps": "The execution took as many model steps as it may.",
        "repeated_tool_error": "The same tool error came back too often.",
        "hook_blocked": "A hook blocked the request.",
        "step_error": "A step failed.",
    }
)


def end_with(execution: Execution, reason: str, message: str | None = None, *, limit: str | None = None) -> None:
    """Say how the execution ends once this pass returns, or raise how it failed.

    Args:
        execution: the loop's own.
        reason: a code of the table that a loop may give.
        message: of a failure; by default one for its code.
        limit: the code of a limit that is met besides, so that no further pass can read anything.

    Raises:
        ExecutionFailed: the code is that of a failure.
        InternalError: the code is not a loop's to give.
    """
    meaning = STOP_REASONS.get(reason)
    if meaning is None or meaning.how == "heart":
        raise InternalError(f"a step loop cannot end with {reason!r}", reason=reason)
    if meaning.how == "fail":
        error_type = "".join(word.capitalize() for word in reason.split("_"))
        raise ExecutionFailed(message or _MESSAGES[reason], error_type=error_type, reason=reason)
    execution.stop(reason, limit=limit)
