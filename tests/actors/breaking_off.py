"""A signal handler that raises at a chosen step of a call: for tests of what such a call leaves behind."""

from __future__ import annotations

import contextlib
import dis
import functools
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from types import CodeType


class Raised(BaseException):
    """By a signal handler."""


@functools.cache
def _table(code: CodeType) -> list[Any]:
    return dis._parse_exception_table(code)  # type: ignore[attr-defined, no-any-return]


def _handler(code: CodeType, offset: int) -> int | None:
    return next((entry.target for entry in _table(code) if entry.start <= offset < entry.end), None)


def broken_off(
    call: Callable[[], object], step: int, within: Collection[str], error: type[BaseException] = Raised
) -> bool:
    """Make a call into which a handler raises at a step: where a function of these files begins, or behind a call there.

    Returns:
        False when the call has no such step any more, and went through.
    """
    left, at, offset = step, "", 0

    def trace(frame: Any, event: str, _given: object) -> Any:
        nonlocal left, at, offset
        if frame.f_code.co_filename not in within:
            return None
        frame.f_trace_opcodes = True
        before, called = at, offset
        if event == "opcode":
            offset = frame.f_lasti
            at = dis.opname[frame.f_code.co_code[offset]]
        # A handler's error comes out of the call itself: behind the last one in a block it is still the block's.
        if event == "call" or (
            event == "opcode"
            and before.startswith("CALL")
            and _handler(frame.f_code, called) == _handler(frame.f_code, offset)
        ):
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
