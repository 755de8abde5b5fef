"""A signal handler that raises at a chosen step of a call: for tests of what such a call leaves behind."""

from __future__ import annotations

import contextlib
import dis
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Collection


class Raised(BaseException):
    """By a signal handler."""


def broken_off(
    call: Callable[[], object], step: int, within: Collection[str], error: type[BaseException] = Raised
) -> bool:
    """Make a call into which a handler raises at a step: where a function of these files begins, or behind a call there.

    Returns:
        False when the call has no such step any more, and went through.
    """
    left, at = step, ""

    def trace(frame: Any, event: str, _given: object) -> Any:
        nonlocal left, at
        if frame.f_code.co_filename not in within:
            return None
        frame.f_trace_opcodes = True
        before = at
        if event == "opcode":
            at = dis.opname[frame.f_code.co_code[frame.f_lasti]]
        if event == "call" or (event == "opcode" and before.startswith("CALL")):
            left -= 1
            if not left:
                raise error
        return trace

    traced = sys.gettrace()
    sys.settrace(trace)
    try:
        with contextlib.suppress(error):
            call()
    finally:
        sys.settrace(traced)
    return left <= 0
