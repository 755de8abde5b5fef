"""Owns one HTTP connection below the app: how long a client may take to say what it wants. Knows no route.

uvicorn waits for a request line without end: a client that says nothing, or a byte a minute, would hold a connection for
as long as it likes.
"""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import h11
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.h11_impl import H11Protocol

from .problems import PROBLEM_TYPE, problem_of
from .turns import turns

if TYPE_CHECKING:
    import asyncio

    from starlette.responses import Response

__all__ = ["Connection"]

HEAD_SECONDS: Final = 10.0
"""From the first byte that is awaited of a request to the end of its headers."""

_HEAD_TURN_BYTES: Final = 8 << 10
_HEAD_END: Final = b"\r\n\r\n"
_CHUNKED_TURN_BYTES: Final = 4 << 10  # some 700 of the smallest chunks: 7 ms
_KEY: Final = b"sec-websocket-key"
_KEY_FORM: Final = re.compile(rb"[A-Za-z0-9+/]{22}==")
_VERSION: Final = b"sec-websocket-version"


class _Flow(FlowControl):
    """uvicorn's say in what is read, which does not read on before all that came had its turn."""

    _held = False

    def hold(self) -> None:
        """Read no further."""
        self._held = True
        self._transport.pause_reading()

    def release(self) -> None:
        """Read on, unless there is another reason not to."""
        if self._held:
            self._held = False
            if not self.read_paused:
                self._transport.resume_reading()

    def resume_reading(self) -> None:
        """Read on, unless something waits for its turn."""
        if self._held:
            self.read_paused = False
        else:
            super().resume_reading()


class Connection(H11Protocol):
    """uvicorn's connection with a deadline for the head of each request, and problem documents for what is no request."""

    _head_timer: asyncio.TimerHandle | None = None
    _upgraded = False
    _rest = b""  # came, and has its turn later

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin the first head's time."""
        super().connection_made(transport)
        self.flow: _Flow = _Flow(transport)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the timer, and what had no turn."""
        self._rest = b""
        self._head_is_there()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take as much as one turn has: tens of thousands of chunks fit in what comes at once, and each takes its time."""
        if self._rest:
            self._rest += data
            return
        self._rest = data
        if self._is_chunked():
            self._wait()
        else:
            self._take()

    def _take(self) -> None:
        if not self._rest:
            return  # the connection went meanwhile
        size = self._turn()
        turn, self._rest = self._rest[:size], self._rest[size:]
        super().data_received(turn)
        self._time_head()
        if self._upgraded or self.transport.is_closing():
            self._rest = b""
        if self._rest:
            self._wait()
        else:
            self.flow.release()

    def _wait(self) -> None:
        self.flow.hold()
        turns().wait(self._take)

    def _turn(self) -> int:
        """Return the bytes of the next turn; a body of a known length is one piece, however much of it comes at once."""
        if self.conn.their_state is not h11.SEND_BODY:
            # What is behind the head may be chunks.
            end = self._rest.find(_HEAD_END, 0, _HEAD_TURN_BYTES)
            return _HEAD_TURN_BYTES if end < 0 else end + len(_HEAD_END)
        return _CHUNKED_TURN_BYTES if self._is_chunked() else len(self._rest)

    def _is_chunked(self) -> bool:
        """Say whether chunks are awaited: of a few bytes there are some hundreds in a turn."""
        return self.conn.their_state is h11.SEND_BODY and any(name == b"transfer-encoding" for name, _ in self.headers)

    def _time_head(self) -> None:
        """Between two requests whatever comes is the begin of a head, which has its time from now on."""
        if (
            self._upgraded
            or self.transport.is_closing()
            or (self.cycle is not None and not self.cycle.response_complete)
        ):
            self._head_is_there()
        elif self._head_timer is None and self.timeout_keep_alive_task is None:
            self._expect_head()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """Hand the connection on, or say what its handshake lacks (RFC 6455, 4.2.1)."""
        self._head_is_there()
        values = {name: [value for key, value in self.headers if key == name] for name in (_KEY, _VERSION)}
        if values[_VERSION] != [b"13"]:
            document = problem_of(426, "upgrade_required", "a WebSocket here speaks version 13")
            self._say(document, (b"upgrade", b"websocket"), (_VERSION, b"13"))
        elif event.method != b"GET" or len(values[_KEY]) != 1 or not _KEY_FORM.fullmatch(values[_KEY][0]):
            self._say(
                problem_of(400, "invalid_request", "the handshake of a WebSocket is a GET with one key of 16 bytes")
            )
        else:
            self._upgraded = True
            super().handle_websocket_upgrade(event)
            self._check_taken()

    def _check_taken(self) -> None:
        """Answer a handshake that the WebSocket's own parser refuses: a line of 8 KiB, 128 lines, a body.

        It says nothing then, and neither does uvicorn: the connection would stay open for as long as its client likes.
        """
        protocol = self.transport.get_protocol()
        refused = getattr(getattr(protocol, "conn", None), "handshake_exc", None)
        if refused is not None and not self.transport.is_closing():
            self._say(problem_of(400, "invalid_request", f"this is no handshake of a WebSocket: {refused}"[:200]))

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - as uvicorn calls it
        """Say that this was no request, or that its head is too large."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.close()  # in the middle of an answer; there is nothing to say it in
            return
        self._say(problem_of(400, "invalid_request", "this is no HTTP request, or its head is too large"))

    def _say(self, document: Response, *more: tuple[bytes, bytes]) -> None:
        """Answer with a problem document, and end the connection."""
        body = bytes(document.body)
        headers = [
            (b"content-type", PROBLEM_TYPE.encode()), (b"content-length", str(len(body)).encode()), (b"connection", b"close"),
            *more,
        ]  # fmt: skip
        reason = HTTPStatus(document.status_code).phrase.encode()
        for event in (
            h11.Response(status_code=document.status_code, headers=headers, reason=reason),
            h11.Data(data=body),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _expect_head(self) -> None:
        self._head_timer = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _head_is_there(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
