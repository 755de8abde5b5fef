"""Owns the halves of characters that models and tools send: pairs are joined, what is left alone is replaced. Reads no stream.

JSON writes a character beyond the first 65,536 as two halves (surrogates), and a stream may be cut between them. No
UTF-8 has a half, so none can be stored or shown.
"""

from __future__ import annotations

from typing import Final

__all__ = ["JoinedStream", "clean"]

_FIRST: Final = ("\ud800", "\udbff")  # the range of first halves


def clean(text: str) -> str:
    """Return text that can be stored: halves that follow each other are one character, one alone is a question mark."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
        return joined.encode("utf-8", "replace").decode()
    return text


class JoinedStream:
    """One text that comes in pieces: a first half at the end of one waits for the next piece."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held = ""

    def feed(self, piece: str) -> str:
        """Take the next piece; return what can be shown by now, perhaps nothing."""
        text = self._held + piece
        self._held = ""
        if text and _FIRST[0] <= text[-1] <= _FIRST[1]:
            text, self._held = text[:-1], text[-1]
        return clean(text)

    def finish(self) -> str:
        """Return what is left once the text is over."""
        held, self._held = self._held, ""
        return clean(held)
