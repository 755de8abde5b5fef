"""Owns committed events as server-sent events: resumable, each exactly once by its id. Never sends an id but a cursor.

The first event is `snapshot`, without an id: all that a client needs to begin. Committed events have their cursor for an
id; what has none, as a change of status, moves no client's place.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated

from anyio import to_thread
from fastapi import APIRouter, Depends, Header, Query, Request
from starlette.responses import Response

from ..protocol.cursors import Cursor
from ..protocol.errors import TreadleError
from ..protocol.frames import Frame
from . import paths  # noqa: F401 - what a route takes an id as
from .auth import Principal, principal, visible
from .hosted import Limits, hosted
from .outlet import batches, close_when, failure_frame, written
from .problems import problems
from .strict_route import StrictRoute

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from ..actors.feed import Feed
    from ..actors.subscription import StreamSubscription

__all__ = ["EVENT_STREAM", "EventStream", "gone", "router", "sse_event"]

logger = logging.getLogger("treadle")

EVENT_STREAM = "text/event-stream"
_HEARTBEAT = b": heartbeat\n\n"
_NAME = re.compile(r"[A-Za-z0-9_.:-]{1,128}")
# Of a thread's own frames these are shown to everybody who asks for what is committed.
_CONTROL = frozenset({"thread_status", "thread_deleted", "closed"})

Encode = Callable[[Frame], bytes]


def sse_event(frame: Frame, *, name: str | None = None, given_id: object = None) -> bytes:
    """Return one event on the wire.

    Args:
        frame: its data.
        name: of the event; by default the frame's type.
        given_id: what a client resumes after; None for what moves no cursor.
    """
    lines = "" if given_id is None else f"id: {given_id}\n"
    kind = name or frame.get("type")
    # A live frame's type is its sender's own text, and a line end in it would begin a field of the sender's choice.
    if isinstance(kind, str) and _NAME.fullmatch(kind):
        lines += f"event: {kind}\n"
    # Escapes of half a pair are JSON's own, so that no text can break a stream.
    return f"{lines}data: {frame.text}\n\n".encode("utf-8", "backslashreplace")


class EventStream(Response):
    """The answer that lasts as long as its feed, or its client.

    Args:
        feed: begun by now, so that what is wrong with a request was said in an answer of its own.
        opening: what is sent first.
        encode: an event of a frame; nothing for one that is not shown here.
        limits: the times of heartbeats and writes.
        leave: called once it is over.
    """

    media_type = EVENT_STREAM

    def __init__(
        self, feed: Feed[Frame], opening: bytes, encode: Encode, limits: Limits, leave: Callable[[], object]
    ) -> None:
        super().__init__(media_type=EVENT_STREAM)
        del self.headers["content-length"]
        self.headers["cache-control"] = "no-cache"
        self.headers["connection"] = "keep-alive"
        self.headers["x-accel-buffering"] = "no"  # a proxy that collects an answer would hold it back for ever
        self._feed = feed
        self._opening = opening
        self._encode = encode
        self._limits = limits
        self._leave = leave
        self._due = 0.0  # when the next heartbeat is, unless something is sent before

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - as ASGI calls it
        """Send until the feed ends, the client goes, or it takes nothing for too long."""
        watching = close_when(partial(gone, receive), self._feed)
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            await self._send_all(send)
        finally:
            self._feed.close()
            self._leave()
            watching.cancel()
            await asyncio.wait((watching,))

    async def _send_all(self, send: Send) -> None:
        if not await self._write(send, self._opening):
            return
        loop = asyncio.get_running_loop()
        try:
            async for frames in batches(self._feed, lambda: self._due):
                data = b"".join(map(self._encode, frames))
                # What is not shown here is quiet, too, however much of it there is.
                if not data and loop.time() < self._due:
                    continue
                if not await self._write(send, data or _HEARTBEAT):
                    return
        except TreadleError as error:
            logger.warning("A stream ended with %s: %s", error.code, error, extra={"code": error.code})
            if not await self._write(send, sse_event(failure_frame(error))):
                return
        await self._write(send, b"", last=True)

    async def _write(self, send: Send, data: bytes, *, last: bool = False) -> bool:
        message = {"type": "http.response.body", "body": data, "more_body": not last}
        self._due = asyncio.get_running_loop().time() + self._limits.heartbeat_seconds
        return await written(send(message), self._limits.write_seconds)


async def gone(receive: Receive) -> None:
    """Return when a client has left."""
    while (await receive())["type"] != "http.disconnect":
        continue


def _begin(who: Principal, thread_id: str, after: str | None) -> tuple[StreamSubscription, Frame]:
    """Return the stream and its first frame; blocks for reads."""
    thread = visible(who, thread_id)
    # None would mean "from now on", here it means "from the beginning" (contract A.11).
    start = Cursor.parse(after) if after else Cursor(thread.state().result().cursor.generation, 0)
    feed = thread.stream(start)
    first = feed.next(0)
    assert first is not None, "a stream begins with its snapshot"
    return feed, first


def _committed(frame: Frame) -> bytes:
    kind = frame["type"]
    if kind in _CONTROL:
        return sse_event(frame)
    return sse_event(frame, given_id=frame["cursor"]) if "cursor" in frame else b""


def _with_live(frame: Frame) -> bytes:
    return _committed(frame) or sse_event(frame)


router = APIRouter(route_class=StrictRoute)


@router.get(
    "/threads/{thread_id:id}/events",
    response_class=EventStream,
    status_code=200,
    responses={200: {"content": {EVENT_STREAM: {"schema": {"type": "string"}}}}, **problems(404, 409, 429)},
    tags=["streams"],
)
async def thread_events(
    request: Request,
    thread_id: str,
    who: Annotated[Principal, Depends(principal)],
    after: Annotated[str | None, Query(description="the last cursor applied, `generation:sequence`")] = None,
    last_event_id: Annotated[
        str | None, Header(description="the same, as a browser sends it; `after` wins over it")
    ] = None,
    live: Annotated[bool, Query(description="whether live frames, as chunks of messages, are sent too")] = False,
) -> Response:
    """Follow the committed events of a thread after a cursor, from the beginning of its journal without one.

    A browser that reconnects sends the id that it saw last beside the address that it began with, and `after` there would
    win: it is for clients that keep the cursor themselves (contract A.11).
    """
    served = hosted(request)
    leave = served.enter(who)
    try:
        feed, first = await to_thread.run_sync(_begin, who, thread_id, last_event_id if after is None else after)
    except BaseException:
        leave()
        raise
    opening = sse_event(first, name="snapshot")
    return EventStream(feed, opening, _with_live if live else _committed, served.limits, leave)
