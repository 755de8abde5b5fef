"""Owns the form of ids: what a caller may choose and how ours look. Never makes one: ids arrive from outside."""

from __future__ import annotations

import re

from .errors import InvalidInput, shorten
from .limits import ID_LENGTH_MAX

__all__ = ["check_id", "check_name", "format_id"]

_PRINTABLE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?\Z")


def check_id(kind: str, value: object) -> str:
    """Return a caller's id unchanged: 1 to 128 printable ASCII characters, no blank at either end.

    Args:
        kind: what it names (`thread_id`, `input_id`, ...), for the error.
        value: what the caller gave.

    Raises:
        InvalidInput: `invalid_id`, with the kind and the value.
    """
    if isinstance(value, str) and len(value) <= ID_LENGTH_MAX and _PRINTABLE.match(value):
        return value
    raise InvalidInput(
        f"{kind} must be 1 to {ID_LENGTH_MAX} printable ASCII characters without blanks at its ends, not {shorten(value)}",
        code="invalid_id",
        kind=kind,
        value=shorten(value),
    )


def check_name(kind: str, value: object) -> str:
    """Return a user-chosen name (value key, tag) unchanged: a non-empty string without surrogates or NUL.

    Raises:
        InvalidInput: `invalid_name`, with the kind and the value.
    """
    if isinstance(value, str) and value and "\0" not in value and _is_unicode(value):
        return value
    raise InvalidInput(
        f"{kind} must be a non-empty string of valid Unicode without NUL, not {shorten(value)}",
        code="invalid_name",
        kind=kind,
        value=shorten(value),
    )


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def format_id(time_us: int, chance: bytes) -> str:
    """Return 32 hex digits that sort by time: 56 bits of microseconds, then nine bytes of chance.

    Ordered ids keep a thread's index rows together as they grow, which halves the pages that a commit touches.
    """
    return f"{time_us & (1 << 56) - 1:014x}{chance.hex()}"
