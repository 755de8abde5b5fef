"""Owns one WebSocket connection below the app: what a client may make the server keep of it. Knows no route."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

if TYPE_CHECKING:
    from websockets.frames import Frame

__all__ = ["FRAGMENTS_MAX", "Socket"]

FRAGMENTS_MAX: Final = 64
"""Of one message: a fragment may be empty, so that no bound of bytes bounds them."""

_TOO_BIG: Final = 1009


class Socket(WebSocketsSansIOProtocol):
    """uvicorn's WebSocket; what its client does not read is not answered for ever, and a message has an end."""

    def resume_writing(self) -> None:
        """Go on, now that the client has read."""
        super().resume_writing()
        if not self.read_paused:
            self.transport.resume_reading()

    def handle_ping(self) -> None:
        """Answer; but read no further while the client does not take its answers, which would fill the memory."""
        super().handle_ping()
        if not self.writable.is_set():
            self.transport.pause_reading()

    def handle_cont(self, event: Frame) -> None:
        """Take one more fragment of a message."""
        if self.close_sent:
            return
        if len(self.frames) >= FRAGMENTS_MAX:
            self.conn.fail(_TOO_BIG, f"a message has {FRAGMENTS_MAX} fragments at most")
            self.handle_parser_exception()
            return
        super().handle_cont(event)
