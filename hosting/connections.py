"""Owns one HTTP connection below the app: how long a client may take to say what it wants. Knows no route.

uvicorn waits for a request line without end: a client that says nothing, or a byte a minute, would hold a connection for
as long as it likes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from .problems import PROBLEM_TYPE, problem_of

if TYPE_CHECKING:
    import asyncio

__all__ = ["Connection"]

HEAD_SECONDS: Final = 10.0
"""From the first byte that is awaited of a request to the end of its headers."""


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
        """Hand the connection on."""
        self._upgraded = True
        self._head_is_there()
        super().handle_websocket_upgrade(event)

    def send_400_response(self, msg: str) -> None:
        """Say that this was no request, or that its head is too large."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.close()  # in the middle of an answer; there is nothing to say it in
            return
        document = problem_of(400, "invalid_request", "this is no HTTP request, or its head is too large")
        headers = [(b"content-type", PROBLEM_TYPE.encode()), (b"connection", b"close")]
        for event in (
            h11.Response(status_code=400, headers=headers, reason=msg.encode("ascii")),
            h11.Data(data=bytes(document.body)),
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
