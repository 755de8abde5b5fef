"""Owns who may use the map: all readers together, or one worker that moves it, alone. Never touches the map.

Growing a map beside live readers breaks their reads, so growth waits for them and is preferred to new ones. The same
lock bounds how many workers read at once, by which no read ever fails for want of a reader slot: it waits for one.
"""

from __future__ import annotations

import logging
import threading
from typing import Final

from ..protocol.errors import StoreClosed
from ..protocol.limits import RELEASE_TIMEOUT_S

__all__ = ["GrowthLock"]

_log = logging.getLogger("treadle.storage")
_LOOK_AGAIN_S: Final = 5.0  # seldom, since who has looked in vain stands last in the queue again
_WARN_AFTER_S: Final = RELEASE_TIMEOUT_S  # a view should be gone within one page of results, long before this


class GrowthLock:
    """Shared by readers, exclusive for growth and close.

    A worker that already reads may enter again whatever waits: making it wait for itself would never end.
    """

    def __init__(self, readers_max: int) -> None:
        self._readers_max = readers_max
        self._lock = threading.Lock()
        # Two queues: a reader that leaves wakes one other, not the hundreds that may wait (500 readers took 3 s so).
        self._room = threading.Condition(self._lock)
        self._moved = threading.Condition(self._lock)
        self._held: dict[int, int] = {}  # worker -> how many views it has open
        self._waiting = 0
        self._alone = False
        self._closed: StoreClosed | None = None

    def enter(self) -> int:
        """Begin to read; waits while the map is moved or too many workers read. Return what `leave` needs.

        Raises:
            StoreClosed: there is no map any more.
        """
        worker = threading.get_ident()
        with self._lock:
            held = self._held
            depth = held.get(worker)
            if depth is not None:
                held[worker] = depth + 1
                return worker
            while self._alone or len(held) >= self._readers_max:
                self._turn_away()
                self._waiting += 1
                try:
                    # Not for ever: a signal handler that raises inside a `notify` leaves nobody woken by it.
                    self._wait(self._room, _LOOK_AGAIN_S)
                except BaseException:
                    # Ctrl-C may have met the one that was woken; its place goes to the next.
                    self._room.notify()
                    raise
                finally:
                    self._waiting -= 1
            held[worker] = 1
            return worker

    def leave(self, worker: int) -> None:
        """End one `enter`."""
        with self._lock:
            depth = self._held[worker]
            if depth > 1:
                self._held[worker] = depth - 1
                return
            del self._held[worker]
            if self._alone:
                self._moved.notify_all()
            elif self._waiting:
                self._room.notify()

    def reads(self) -> bool:
        """Return whether the calling worker is inside."""
        with self._lock:
            return threading.get_ident() in self._held

    def seize(self, patience: float | None = None) -> bool:
        """Have the map alone; new readers wait from now on, and the readers inside are waited for.

        Args:
            patience: seconds to wait for them; None for as long as it takes.

        Returns:
            Whether they all left. The map is the caller's in any case; only `close` may go on without them.

        Raises:
            StoreClosed: there is no map any more.
        """
        worker = threading.get_ident()
        with self._lock:
            while self._alone:
                self._turn_away()
                self._wait(self._moved)
            self._alone = True
            while len(self._held) > (worker in self._held):
                if not self._wait(self._moved, patience or _WARN_AFTER_S):
                    _log.warning("views have been open for long; workers %s hold up the store", list(self._held))
                    if patience is not None:
                        return False
        return True

    def hold_off(self) -> None:
        """Let no further reader in until `release`; those inside go on, and are not waited for.

        Raises:
            StoreClosed: there is no map any more.
        """
        with self._lock:
            while self._alone:
                self._turn_away()
                self._wait(self._moved)
            self._alone = True

    def release(self, closed: StoreClosed | None = None) -> None:
        """Let readers in again, or turn them away for good because there is no map any more."""
        with self._lock:
            self._closed = closed
            self._alone = closed is not None
            self._moved.notify_all()
            self._room.notify_all()

    def orphan(self, closed: StoreClosed) -> None:
        """Turn everyone away, in a forked child: other workers of the parent may hold the lock for ever here."""
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        self._moved = threading.Condition(self._lock)
        self._held = {}
        self._alone = True
        self._closed = closed

    def _turn_away(self) -> None:
        if self._closed is not None:
            raise StoreClosed(self._closed.message)

    def _wait(self, queue: threading.Condition, seconds: float | None = None) -> bool:
        return queue.wait(seconds)
