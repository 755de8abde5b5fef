"""Owns one WebSocket connection below the app: what a client may make the server keep of it. Knows no route."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from .turns import turns

if TYPE_CHECKING:
    from uvicorn._types import ASGIReceiveEvent, ASGISendEvent
    from websockets.frames import Frame

__all__ = ["FRAGMENTS_MAX", "Socket"]

FRAGMENTS_MAX: Final = 64
"""Of one message: a fragment may be empty, so that no bound of bytes bounds them."""

_TOO_BIG: Final = 1009
_TURN_BYTES: Final = 2 << 10  # some 300 of the smallest frames: 3 ms


class Socket(WebSocketsSansIOProtocol):
    """uvicorn's WebSocket; what its client does not read is not answered for ever, a message has an end, and so has a turn."""

    _rest = b""  # came, and has its turn later

    def data_received(self, data: bytes) -> None:
        """Take as much as one turn has: tens of thousands of frames fit in what comes at once, and each takes its time."""
        if not self.handshake_complete:
            super().data_received(data)
        elif self._rest:
            self._rest += data
        else:
            self._rest = data
            turns().wait(self._take_more)
        self._pace()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget what had no turn."""
        self._rest = b""
        super().connection_lost(exc)

    def resume_writing(self) -> None:
        """Go on, now that the client has read."""
        super().resume_writing()
        self._go_on()

    def handle_ping(self) -> None:
        """Answer; but read no further while the client does not take its answers, which would fill the memory."""
        super().handle_ping()
        self._pace()

    async def receive(self) -> ASGIReceiveEvent:
        """Give the app its next message, after which uvicorn reads on."""
        message = await super().receive()
        self._pace()
        return message

    async def send(self, message: ASGISendEvent) -> None:
        """Send what the app says; behind its close uvicorn reads on."""
        await super().send(message)
        self._pace()

    def _take(self) -> None:
        """Parse what fits in a turn; the loop serves others before the next one."""
        turn, self._rest = self._rest[:_TURN_BYTES], self._rest[_TURN_BYTES:]
        super().data_received(turn)
        if self.transport.is_closing():
            self._rest = b""
        elif self._rest:
            turns().wait(self._take_more)

    def _take_more(self) -> None:
        if self._rest:
            self._take()
            self._go_on()

    def _pace(self) -> None:
        """Read no further before all that came had its turn, and the client takes its answers."""
        if self._rest or not self.writable.is_set():
            self.transport.pause_reading()

    def _go_on(self) -> None:
        if not self._rest and self.writable.is_set() and not self.read_paused:
            self.transport.resume_reading()

    def handle_cont(self, event: Frame) -> None:
        """Take one more fragment of a message."""
        if self.close_sent:
            return
        if len(self.frames) >= FRAGMENTS_MAX:
            self.conn.fail(_TOO_BIG, f"a message has {FRAGMENTS_MAX} fragments at most")
            self.handle_parser_exception()
            return
        super().handle_cont(event)
