"""Owns one HTTP connection below the app: how long a client may take to say what it wants. Knows no route.

uvicorn waits for a request line without end: a client that says nothing, or a byte a minute, would hold a connection for
as long as it likes.
"""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from .problems import PROBLEM_TYPE, problem_of

if TYPE_CHECKING:
    import asyncio

    from starlette.responses import Response

__all__ = ["Connection"]

HEAD_SECONDS: Final = 10.0
"""From the first byte that is awaited of a request to the end of its headers."""

_KEY: Final = b"sec-websocket-key"
_KEY_FORM: Final = re.compile(rb"[A-Za-z0-9+/]{22}==")
_VERSION: Final = b"sec-websocket-version"


class Connection(H11Protocol):
    """uvicorn's connection with a deadline for the head of each request, and problem documents for what is no request."""

    _head_timer: asyncio.TimerHandle | None = None
    _upgraded = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin the first head's time."""
        super().connection_made(transport)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the timer."""
        self._head_is_there()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take bytes; between two requests they are the begin of a head, which has its time from now on."""
        super().data_received(data)
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
