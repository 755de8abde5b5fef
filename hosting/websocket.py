"""Owns the message stream over a WebSocket (contract H.2): who may open it, its frames, its pings, its end.

The first frame is `thread_status`, with all that a client needs to begin. What a client sends is a ping or a mistake.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING
from urllib.parse import quote

from anyio import to_thread
from fastapi import APIRouter, WebSocket
from starlette.responses import Response
from starlette.websockets import WebSocketDisconnect

from ..protocol.errors import InvalidInput, TreadleError, shorten
from ..protocol.frames import Frame
from . import paths  # noqa: F401 - what a route takes an id as
from .auth import Principal, authenticate, visible
from .hosted import Limits, hosted
from .message_frames import MessageFrames, Wanted
from .outlet import batches, close_when, failure_frame, written
from .problems import Refused, problem, problem_of, problems
from .strict_route import check_query

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

    from ..actors import Thread
    from ..actors.subscription import StreamSubscription

__all__ = ["MessageStream", "router"]

logger = logging.getLogger("treadle")

_PONGS = {"ping": "pong", "stream_ping": "stream_pong"}
_FLAGS = {"true": True, "1": True, "false": False, "0": False, "": False}
_DEPTH_MAX = 64
_PARAMETERS = frozenset({"include_silent", "includeSilent", "depth", "reasoning", "journal", "after", "ticket"})

# RFC 6455, 7.4.1, and the registry that it began
_NORMAL, _GOING_AWAY, _UNSUPPORTED, _BROKEN, _TRY_AGAIN = 1000, 1001, 1003, 1011, 1013
_ENDS = {"closed": (_GOING_AWAY, "closed"), "thread_deleted": (_NORMAL, "thread_deleted")}

router = APIRouter()


@router.get("/threads/{thread_id:id}/stream", responses=problems(), tags=["streams"], status_code=101)
async def stream_without_upgrade(thread_id: str) -> Response:
    """Answer a request that asks for no WebSocket: the stream is one (contract H.1)."""
    return problem_of(400, "upgrade_required", "this address is a WebSocket", thread_id=thread_id)


@router.websocket("/threads/{thread_id:id}/stream")
async def message_stream(websocket: WebSocket, thread_id: str) -> None:
    """Send a thread's frames until it ends; a request that is refused is answered with a problem document."""
    try:
        check_query(websocket, _PARAMETERS)
        who = _caller(websocket)
        wanted, after = _wanted(websocket.query_params)
    except TreadleError as error:
        await websocket.send_denial_response(problem(error))
        return
    try:
        leave = hosted(websocket).enter(who)
    except Refused as error:
        # A browser is shown no answer to a handshake, and this one it should know: the same later may well do.
        await websocket.accept()
        await websocket.close(_TRY_AGAIN, str(error))
        return
    try:
        await _serve(websocket, who, thread_id, wanted, after)
    finally:
        leave()


async def _serve(websocket: WebSocket, who: Principal, thread_id: str, wanted: Wanted, after: str | None) -> None:
    try:
        thread, feed, first = await to_thread.run_sync(_begin, who, thread_id, after)
    except TreadleError as error:
        await websocket.send_denial_response(problem(error))
        return
    served = hosted(websocket)
    frames = MessageFrames(thread, wanted, served.runtime.clock, feed.message)
    await MessageStream(websocket, feed, frames, served.limits).run(first)


@router.websocket("/{path:path}")
async def no_such_stream(websocket: WebSocket) -> None:
    """Answer a WebSocket to any other address as a request to it: Starlette's own refusal is a bare 403."""
    await websocket.send_denial_response(problem_of(404, "route_not_found", "there is no WebSocket at this address"))


class MessageStream:
    """One client's connection, from its handshake to its close code."""

    __slots__ = ("_feed", "_frames", "_limits", "_refused", "_websocket")

    def __init__(self, websocket: WebSocket, feed: StreamSubscription, frames: MessageFrames, limits: Limits) -> None:
        self._websocket = websocket
        self._feed = feed
        self._frames = frames
        self._limits = limits
        self._refused = False  # the client said what nobody understands

    async def run(self, first: Frame) -> None:
        """Send until the feed ends, the client goes or speaks garbage, or it takes nothing for too long."""
        try:
            await self._websocket.accept()
            listening = close_when(self._listen, self._feed)
            try:
                end = await self._send_all(first)
            finally:
                listening.cancel()
                await asyncio.wait((listening,))
        finally:
            self._feed.close()
        if end is not None:
            await self._write(self._websocket.close(*end))

    async def _send_all(self, first: Frame) -> tuple[int, str] | None:
        """Return the close code and why; None where there is nobody to tell."""
        last = first
        try:
            if not await self._write(self._websocket.send_text(first.text)):
                return None
            # The protocol's own pings are the sign of life here, and the server's: nothing is sent in quiet.
            async for frames in batches(self._feed):
                if not await self._write(self._send(frames)):
                    return None
                last = frames[-1]
        except TreadleError as error:
            logger.warning("A stream ended with %s: %s", error.code, error, extra={"code": error.code})
            last = failure_frame(error)
            told = await self._write(self._websocket.send_text(last.text))
            return _ENDS.get(last["type"], (_BROKEN, error.code)) if told else None
        if self._refused:
            return _UNSUPPORTED, "only ping and stream_ping are understood"
        return _ENDS.get(last["type"])

    async def _send(self, frames: list[Frame]) -> None:
        for frame in frames:
            if self._frames.needs_read(frame):
                made = await to_thread.run_sync(self._frames.of, frame)
            else:
                made = self._frames.of(frame)
            for each in made:
                await self._websocket.send_text(each.text)

    async def _write(self, sending: Coroutine[object, object, None]) -> bool:
        return await written(_or_gone(sending), self._limits.write_seconds)

    async def _listen(self) -> None:
        """Answer pings until the client goes, or says something else."""
        while True:
            message = await self._websocket.receive()
            if message["type"] == "websocket.disconnect":
                return
            pong = _PONGS.get(message.get("text") or "")
            if pong is None:
                self._refused = True
                return
            # Waits as every write: a client that pings and takes nothing is not read any further.
            if not await self._write(self._websocket.send_text(pong)):
                return
            # Neither of the two waits while there is more: a crowd of pings would have the loop for itself.
            await asyncio.sleep(0)


async def _or_gone(sending: Coroutine[object, object, None]) -> None:
    """Send to a client; one that is gone is an error of the connection, however the server says so."""
    try:
        await sending
    except (WebSocketDisconnect, RuntimeError) as error:
        # The second: the handshake was answered to nobody, or a close went before.
        raise ConnectionResetError("the client is gone") from error


def _caller(websocket: WebSocket) -> Principal:
    ticket = websocket.query_params.get("ticket")
    if ticket is None:
        return authenticate(websocket)
    # As it came: decoded, an encoded slash is one between segments. Not every server hands it on.
    raw = websocket.scope.get("raw_path") or quote(websocket.scope["path"]).encode()
    return hosted(websocket).tickets.redeem(ticket, raw.partition(b"?")[0].decode("latin-1"))


def _wanted(query: Mapping[str, str]) -> tuple[Wanted, str | None]:
    """Read what a client asks for, in our words or in those of the contract."""
    depth = query.get("depth", "0")
    if not (depth.isascii() and depth.isdigit() and len(depth) <= 2 and int(depth) <= _DEPTH_MAX):
        raise InvalidInput(
            f"depth is a whole number from 0 to {_DEPTH_MAX}, not {shorten(depth)}",
            code="invalid_request",
            path="$.depth",
        )
    if "include_silent" in query and "includeSilent" in query:
        raise InvalidInput(
            "include_silent and includeSilent are one parameter", code="invalid_request", path="$.include_silent"
        )
    silent = _flag(query, "include_silent") or _flag(query, "includeSilent")
    after = query.get("after") or None
    journal = _flag(query, "journal") or after is not None
    return Wanted(silent, int(depth), _flag(query, "reasoning"), journal), after


def _flag(query: Mapping[str, str], name: str) -> bool:
    given = query.get(name, "")
    if given not in _FLAGS:
        raise InvalidInput(f"{name} is true or false, not {shorten(given)}", code="invalid_request", path=f"$.{name}")
    return _FLAGS[given]


def _begin(who: Principal, thread_id: str, after: str | None) -> tuple[Thread, StreamSubscription, Frame]:
    """Return the thread, its stream and the first frame of it: what is wrong is said before the handshake. Blocks for reads."""
    thread = visible(who, thread_id)
    feed = thread.stream(after)
    first = feed.next(0)
    assert first is not None, "a stream begins with its snapshot"
    return thread, feed, first
