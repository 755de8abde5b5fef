"""Owns how a body is read: whole, in its time, and no more of it at once than there is room for. Knows no form."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from .problems import Refused
from .shares import Shares

if TYPE_CHECKING:
    from collections.abc import Hashable

    from starlette.types import Message, Receive, Scope

    from .hosted import Limits

__all__ = ["Bodies", "Body", "Gone", "header_values"]


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
        _check_items(body, limits.body_items)
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


def _check_items(body: bytes, limit: float) -> None:
    if len(body) <= limit:
        return
    met = sum(map(body.count, (b",", b"[", b"{")))
    if met > limit:
        raise Refused(
            413, "limit_exceeded", f"the body has {met} commas and brackets; the limit body_items is {limit}",
            limit="body_items", maximum=limit, met=met,
        )  # fmt: skip


def _replayed(body: bytes, receive: Receive) -> Receive:
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return first.pop() if first else await receive()

    return replay
