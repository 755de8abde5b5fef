"""Owns the socket that clients connect to: whom it takes while files are left, and whom it turns away. Reads nothing.

asyncio accepts until the system has no file left, tries on as often as its backlog is long, and writes a traceback each
time: gigabytes in an hour, for whoever opens connections and says nothing.
"""

from __future__ import annotations

import logging
import resource
import socket
import time
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Listening"]

logger = logging.getLogger("treadle")

_KEPT_FILES: Final = 64
"""For the store, the agents and whatever else the process opens."""

_TURNED_AWAY_MAX: Final = 64  # in one round of the loop, which has others to serve
_TELL_S: Final = 60.0


class Listening(socket.socket):
    """A listening socket that closes a new connection at once where it would take one of the last files.

    Args:
        family, kind, protocol: as a socket's.
        clock: monotonic, in seconds.
    """

    def __init__(
        self, family: int, kind: int, protocol: int = 0, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(family, kind, protocol)
        self._clock = clock
        self._told_at: float | None = None

    def accept(self) -> tuple[socket.socket, Any]:
        """Return the next client and its address. Raises: BlockingIOError: there is none, or nobody more can be taken."""
        for _ in range(_TURNED_AWAY_MAX):
            client, address = super().accept()
            # The system gives the lowest number that is free.
            if client.fileno() < _files():
                return client, address
            client.close()
            self._tell()
        raise BlockingIOError

    def _tell(self) -> None:
        now = self._clock()
        if self._told_at is None or now - self._told_at >= _TELL_S:
            self._told_at = now
            logger.warning("All %d files that connections may take are open; new ones are closed at once", _files())


def _files() -> float:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return float("inf") if soft == resource.RLIM_INFINITY else max(soft - _KEPT_FILES, soft // 2)
