"""Owns the reading of server-sent events: bytes in, whole events out. Knows no cursor, opens no connection.

Bytes are split at line ends of the format alone. What splits text takes U+2028 and other characters inside of JSON for
line ends as well, and would tear an event apart.
"""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["SseEvent", "SseReader"]

_LINE_END = re.compile(rb"\r\n|\n|\r")


class SseEvent(NamedTuple):
    """One event as sent; `id` is None where its block has no id line."""

    event: str
    data: str
    id: str | None


class SseReader:
    """Takes what arrives on one connection. An event that was cut off by its end never comes out."""

    __slots__ = ("_data", "_event", "_held", "_id", "_pieces")

    def __init__(self) -> None:
        self._pieces: list[bytes] = []  # of an unfinished line; joined once, or a long line costs its square
        self._held = False  # the last byte was a carriage return, whose newline may still come
        self._event = ""
        self._data: list[str] = []
        self._id: str | None = None

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """Take the next bytes of a connection and return the events that are whole by now."""
        if self._held and chunk:
            self._held = False
            chunk = chunk.removeprefix(b"\n")
        events: list[SseEvent] = []
        start = 0
        for end in _LINE_END.finditer(chunk):
            self._pieces.append(chunk[start : end.start()])
            start = end.end()
            event = self._line(b"".join(self._pieces))
            self._pieces.clear()
            if event is not None:
                events.append(event)
        if start < len(chunk):
            self._pieces.append(chunk[start:])
        elif chunk:
            self._held = chunk.endswith(b"\r")
        return events

    def _line(self, line: bytes) -> SseEvent | None:
        if not line:
            return self._dispatch()
        name, _, rest = line.partition(b":")
        value = rest.removeprefix(b" ").decode(errors="replace")
        # A line without a name is a comment: the heartbeat.
        if name == b"event":
            self._event = value
        elif name == b"data":
            self._data.append(value)
        elif name == b"id" and "\0" not in value:
            self._id = value
        return None

    def _dispatch(self) -> SseEvent | None:
        event, data, given = self._event, self._data, self._id
        self._event, self._data, self._id = "", [], None
        return SseEvent(event or "message", "\n".join(data), given) if data else None
