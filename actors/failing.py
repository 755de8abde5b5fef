"""Owns `ExecutionFailed`, by which a body says how its execution failed. Ends nothing itself: it is raised and reported."""

from __future__ import annotations

from typing import final

from ..protocol.errors import InvalidInput, shorten
from ..protocol.limits import ERROR_TYPE_MAX
from ..protocol.status import check_failure

__all__ = ["ExecutionFailed"]


@final
class ExecutionFailed(Exception):
    """Raised by a body: its execution finishes `failed` with this type, message and stop reason.

    Any other exception does too, with its own type's name and `step_error`. Nothing that was written is taken back.

    Args:
        message: for people; blank gives the default of the contract.
        error_type: a stable name, not blank: what programs compare.
        reason: the run status's code, as `hook_blocked`, `repeated_tool_error`, `max_total_steps` (contract C.1).

    Raises:
        InvalidInput: `invalid_reason`, `invalid_name`.
    """

    # Slots of a final class: whoever reports the end of a body never runs what a body defined.
    __slots__ = ("error_type", "message", "reason")

    def __init__(self, message: str, *, error_type: str = "ThreadExecutionFailed", reason: str = "step_error") -> None:
        if not isinstance(error_type, str) or not error_type.strip() or len(error_type) > ERROR_TYPE_MAX:
            raise InvalidInput(
                f"error_type is a name of at most {ERROR_TYPE_MAX} characters, not {shorten(error_type)}",
                code="invalid_name",
                value=shorten(error_type),
            )
        super().__init__(message)
        self.message = str(message)
        self.error_type = error_type
        self.reason = check_failure(reason)

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (self.message, self.error_type, self.reason)


def _rebuild(message: str, error_type: str, reason: str) -> ExecutionFailed:
    return ExecutionFailed(message, error_type=error_type, reason=reason)
