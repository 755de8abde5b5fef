"""Owns the cursor: a place in one thread's journal. Never reads the journal."""

from __future__ import annotations

from typing import NamedTuple

from .errors import InvalidInput, shorten

__all__ = ["Cursor"]

_GENERATION_MAX = 2**32 - 1
_SEQUENCE_MAX = 2**63 - 1


class Cursor(NamedTuple):
    """A place in a journal: everything up to and including `sequence` of `generation` has been seen.

    Sequences are contiguous from 1 within a generation; sequence 0 is the start (contract A.8).
    """

    generation: int
    sequence: int

    def __str__(self) -> str:
        return f"{self.generation}:{self.sequence}"

    @classmethod
    def parse(cls, text: str | Cursor) -> Cursor:
        """Read `generation:sequence`.

        Raises:
            InvalidInput: `invalid_cursor`; the text is anything else.
        """
        if isinstance(text, Cursor):
            return text
        if isinstance(text, str):
            left, colon, right = text.partition(":")
            if colon and _is_number(left) and _is_number(right):
                cursor = cls(int(left), int(right))
                if 1 <= cursor.generation <= _GENERATION_MAX and cursor.sequence <= _SEQUENCE_MAX:
                    return cursor
        raise InvalidInput(
            f"a cursor is 'generation:sequence' with generation >= 1 and sequence >= 0, not {shorten(text)}",
            code="invalid_cursor",
            value=shorten(text),
        )


def _is_number(text: str) -> bool:
    # `str.isdigit` alone also takes digits of other scripts; 19 digits hold every 63-bit number. One place has one text.
    return text.isascii() and text.isdigit() and len(text) <= 19 and (text == "0" or text[0] != "0")


START_SEQUENCE = 0
