"""Owns how a body is read: whole, in its time, and no more of it at once than there is room for. Knows no form."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from anyio import to_thread

from .problems import Refused
from .shares import Shares

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from starlette.types import Message, Receive, Scope

    from .hosted import Limits

__all__ = ["Bodies", "Body", "Gone", "header_values"]

_COUNTED_BYTES: Final = 1 << 20  # at once, in 1 ms
_READ_BYTES: Final = 64 << 10
_LIST_WEIGHS: Final = 4  # as much as so many numbers: to make, to collect and to let go


class Gone(Exception):
    """The client left before its request was there."""


class Bodies:
    """The bodies that one app holds at once.

    Args:
        limits: of each, and of all together.
    """

    __slots__ = ("bytes", "count", "limits")

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.count = Shares("bodies", total=limits.bodies, each=limits.bodies_per_principal)
        self.bytes = Shares("bodies_bytes", total=limits.bodies_bytes, each=limits.bodies_bytes_per_principal)

    def hold(self, who: Hashable) -> Body:
        """Return a body that a principal is about to send; release it. Raises: Refused: there are too many."""
        self.count.take(who)
        return Body(self, who)


class Body:
    """One request's body, from before it is read until its request was answered."""

    __slots__ = ("_bodies", "_size", "_who")

    def __init__(self, bodies: Bodies, who: Hashable) -> None:
        self._bodies = bodies
        self._who = who
        self._size = 0

    def release(self) -> None:
        """Make room for others."""
        self._bodies.count.give(self._who)
        if self._size:
            self._bodies.bytes.give(self._who, self._size)

    async def read(self, scope: Scope, receive: Receive) -> Receive:
        """Return what gives the body in one piece, then what the connection has: its end.

        Raises:
            Refused: it is too large, too slow or of too many parts; or all bodies together are too much.
            Gone: nobody is there any more.
        """
        limits = self._bodies.limits
        declared = header_values(scope, b"content-length")
        if declared and int(declared[0]) > limits.body_bytes:
            raise _too_large(int(declared[0]), limits.body_bytes)
        chunks: list[bytes] = []
        try:
            async with asyncio.timeout(limits.body_seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Gone
                    if chunk := message.get("body", b""):
                        self._add(len(chunk))
                        chunks.append(chunk)
                    if not message.get("more_body", False):
                        break
        except TimeoutError:
            raise Refused(
                408, "request_timeout", f"the body was not there within {limits.body_seconds:g} s",
                limit="body_seconds", maximum=limits.body_seconds,
            ) from None  # fmt: skip
        body = b"".join(chunks)
        if len(body) * _LIST_WEIGHS > min(limits.body_items, limits.body_members, limits.body_run):
            await to_thread.run_sync(_check_parts, body, limits)
        return _replayed(body, receive)

    def _add(self, amount: int) -> None:
        limit = self._bodies.limits.body_bytes
        if self._size + amount > limit:
            raise _too_large(self._size + amount, limit)
        # Of what came and not of what was announced: nobody holds room by a promise.
        self._bodies.bytes.take(self._who, amount)
        self._size += amount


def header_values(scope: Scope, name: bytes) -> list[str]:
    """Return what a request says under the name of a header, in lower case, each time that it does."""
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]


def _too_large(met: int, limit: float) -> Refused:
    return Refused(
        413, "limit_exceeded", f"the body has {met} bytes or more; the limit body_bytes is {limit}",
        limit="body_bytes", maximum=limit, met=met,
    )  # fmt: skip


def _check_parts(body: bytes, limits: Limits) -> None:
    """Refuse a body of too many parts, before anything is made of them; in pieces, between which others have the interpreter."""
    commas, lists = _counted(body, b","), _counted(body, b"[")
    met = commas + lists + _counted(body, b"{")
    if met > limits.body_items:
        raise _too_many("commas and brackets", met, "body_items", limits.body_items)
    # These count what stands in texts, too, of which there may be as much as there are bytes.
    if _counted(body, b":") > limits.body_members:
        met = _members(body)
        if met > limits.body_members:
            raise _too_many("members", met, "body_members", limits.body_members)
    if commas + _LIST_WEIGHS * lists > limits.body_run:
        met = _longest_run(body, limits.body_run)
        if met > limits.body_run:
            raise _too_many("values and more between two ends of objects", met, "body_run", limits.body_run)


def _too_many(what: str, met: int, name: str, maximum: float) -> Refused:
    return Refused(
        413, "limit_exceeded", f"the body has {met} {what}; the limit {name} is {maximum}",
        limit=name, maximum=maximum, met=met,
    )  # fmt: skip


def _counted(body: bytes, marks: bytes) -> int:
    places = range(0, len(body), _COUNTED_BYTES)
    return sum(body.count(mark, place, place + _COUNTED_BYTES) for place in places for mark in marks)


def _members(body: bytes, size: int = _READ_BYTES) -> int:
    """Count the colons outside of texts: in what is JSON, each is a member of an object."""
    return sum(outside.count(b":") for outside in _outside(body, size))


def _longest_run(body: bytes, limit: float, size: int = _READ_BYTES) -> int:
    """Return the most that stands outside of texts between two ends of objects, exact beyond the limit: commas, and lists."""
    most = run = 0
    for outside in _outside(body, size):
        before, end, behind = outside.partition(b"}")
        run += _weight(before)
        most = max(most, run)
        if end:
            inner, _, last = behind.rpartition(b"}")
            run = _weight(last)
            most = max(most, run)
            # Of thousands of small objects none has to be looked at where a whole piece is too small.
            if len(inner) * _LIST_WEIGHS > limit:
                most = max(most, *map(_weight, inner.split(b"}")))
    return most


def _weight(outside: bytes) -> int:
    return outside.count(b",") + _LIST_WEIGHS * outside.count(b"[")


def _outside(body: bytes, size: int) -> Iterator[bytes]:
    """Yield what stands outside of texts, piece by piece."""
    inside, rest = 0, b""
    for place in range(0, len(body), size):
        piece = rest + body[place : place + size]
        rest = b""
        if (len(piece) - len(piece.rstrip(b"\\"))) % 2:  # half of an escape
            piece, rest = piece[:-1], piece[-1:]
        parts = piece.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        yield b"".join(parts[inside::2])
        inside ^= (len(parts) - 1) % 2


def _replayed(body: bytes, receive: Receive) -> Receive:
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return first.pop() if first else await receive()

    return replay
