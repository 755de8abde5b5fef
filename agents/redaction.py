"""Owns the taking out of secrets: from a text, from JSON data, from a text that comes in pieces. Knows no variable.

What is taken out is every place where a secret stands, also where secrets overlap, touch or hold each other: the whole
stretch gives way to one mark. A stream gives the same text as the whole would, whatever the pieces. Errors show a long
value by its ends: beside a cut an end of a secret is taken out as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, TypeVar, cast

from .spellings import spellings

__all__ = ["SECRET_CHARACTERS_MIN", "RedactedStream", "Redactor"]

T = TypeVar("T")

SECRET_CHARACTERS_MIN: Final = 4  # contract I.4: a shorter value would take half of every text with it

_CUT: Final = re.compile(r"(…|\.\.\.)")  # ours, and that of pydantic and reprlib
_END_MIN: Final = 4


def _telling(value: str) -> int:
    """Return how many characters of an end of a secret are too many: half of it, and never more than 8."""
    return min(8, max(_END_MIN, len(value) // 2))


class Redactor:
    """Replaces the values of secrets by `[secret:NAME]`; never changes once made, so any worker may use it.

    A secret is also found as JSON, Python, URLs and HTML write it, one inside another up to three deep.

    Args:
        secrets: values by name, or pairs where a name has several; values of under 4 characters are left out.
    """

    __slots__ = ("_beginnings", "_ends", "_firsts", "_longest", "_marks", "_pattern", "_values")

    def __init__(self, secrets: Mapping[str, str] | Iterable[tuple[str, str]] = ()) -> None:
        pairs = secrets.items() if isinstance(secrets, Mapping) else secrets
        marks: dict[str, str] = {}
        for name, value in pairs:
            for spelling in spellings(value) if len(value) >= SECRET_CHARACTERS_MIN else ():
                marks.setdefault(spelling, f"[secret:{name}]")
        # The longest first: of those that begin at a place it is the one that names the mark.
        self._values = sorted(marks, key=len, reverse=True)
        self._marks = marks
        self._firsts = {value[0] for value in self._values}
        self._beginnings = {value[:_END_MIN] for value in self._values}
        self._ends = {value[-_END_MIN:] for value in self._values}
        self._longest = len(self._values[0]) if self._values else 0
        self._pattern = re.compile("|".join(map(re.escape, self._values))) if self._values else None

    def __bool__(self) -> bool:
        return self._pattern is not None

    def text(self, text: str) -> str:
        """Return a text without its secrets, nor their ends beside a cut; one that has none comes back as it is."""
        if self._pattern is None:
            return text
        text = self.said(text)
        return self._without_ends(text) if _CUT.search(text) is not None else text

    def said(self, text: str) -> str:
        """Return a text that nobody has cut without its secrets: what its stream comes to."""
        if self._pattern is None or not any(value in text for value in self._values):
            return text
        return self._take(text, 0, len(text))[0]

    def finds(self, text: object) -> bool:
        """Say whether a text holds a secret; what is no text holds none."""
        return isinstance(text, str) and any(value in text for value in self._values)

    def data(self, data: T) -> T:
        """Return JSON data without its secrets, keys included; what is neither text, list nor dict is left alone."""
        return data if self._pattern is None else cast("T", self._data(data))

    def stream(self) -> RedactedStream:
        """Begin a text that comes in pieces."""
        return RedactedStream(self)

    def _data(self, data: object) -> object:
        if isinstance(data, str):
            return self.text(data)
        if isinstance(data, dict):
            return {self._data(key): self._data(value) for key, value in data.items()}
        if isinstance(data, list | tuple):
            return [self._data(item) for item in data]
        return data

    def _take(self, text: str, covered: int, limit: int) -> tuple[str, int]:
        """Redact up to `limit`, where `covered` characters at the beginning belong to a stretch that has its mark.

        Returns:
            What may be shown, and how far beyond `limit` the last stretch reaches.
        """
        assert self._pattern is not None
        shown: list[str] = []
        at, end = 0, covered
        while (found := self._pattern.search(text, at)) is not None and found.start() < limit:
            if found.start() >= end:
                shown += text[end : found.start()], self._marks[found.group()]
            end = max(end, found.end())
            at = found.start() + 1  # not the end: the next secret may begin inside this one and reach further
        if end < limit:
            shown.append(text[end:limit])
        return "".join(shown), max(0, end - limit)

    def _without_ends(self, text: str) -> str:
        parts = _CUT.split(text)  # what stands between cuts, and every second one a cut
        for at in range(0, len(parts), 2):
            if at + 1 < len(parts):
                parts[at] = self._without_beginning(parts[at])
            if at:
                parts[at] = self._without_end(parts[at])
        return "".join(parts)

    def _without_beginning(self, part: str) -> str:
        """Return what stands before a cut without the beginning of a secret that it ends with."""
        for at in range(max(0, len(part) - self._longest + 1), len(part) - _END_MIN + 1):
            if part[at : at + _END_MIN] in self._beginnings:
                left = part[at:]
                for value in self._values:
                    if value.startswith(left) and len(left) >= _telling(value):
                        return part[:at] + self._marks[value]
        return part

    def _without_end(self, part: str) -> str:
        """Return what stands behind a cut without the end of a secret that it begins with."""
        for at in range(min(len(part), self._longest - 1), _END_MIN - 1, -1):
            if part[at - _END_MIN : at] in self._ends:
                left = part[:at]
                for value in self._values:
                    if value.endswith(left) and len(left) >= _telling(value):
                        return self._marks[value] + part[at:]
        return part

    def _open(self, text: str) -> int:
        """Return where the longest end of a text begins that could be the beginning of a secret; its length if none."""
        for at in range(max(0, len(text) - self._longest + 1), len(text)):
            if text[at] in self._firsts:
                end, size = text[at:], len(text) - at
                for value in self._values:
                    if len(value) <= size:
                        break  # they get shorter from here on
                    if value.startswith(end):
                        return at
        return len(text)

    def __repr__(self) -> str:
        # Never the values: this is what ends up in a traceback.
        return f"<Redactor of {len(set(self._marks.values()))} secrets>"


class RedactedStream:
    """One text that comes in pieces: what could be the beginning of a secret is held back until it cannot."""

    __slots__ = ("_covered", "_held", "_redactor")

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held = ""
        self._covered = 0  # so many of the held characters belong to a secret whose mark was given out

    def feed(self, piece: str) -> str:
        """Take the next piece; return what may be shown by now, perhaps nothing."""
        redactor = self._redactor
        if not redactor:
            return piece
        text = self._held + piece
        limit = redactor._open(text)  # noqa: SLF001 - one noun
        shown, self._covered = redactor._take(text, self._covered, limit)  # noqa: SLF001
        self._held = text[limit:]
        return shown

    def finish(self) -> str:
        """Return what is left once the text is over; the stream may be used for another one then."""
        if not self._held:
            return ""
        shown, _ = self._redactor._take(self._held, self._covered, len(self._held))  # noqa: SLF001
        self._held, self._covered = "", 0
        return shown
