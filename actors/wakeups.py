"""Owns how a reader sleeps until something changes, on a worker or on a loop. Never knows what changes.

A reader remembers the version of what it looked at. To sleep it enlists with that version, and is turned away if
there is a newer one: so no wake is lost between looking and sleeping. A wake says only "look again".
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from .burst import Burst

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

__all__ = ["LoopWaker", "Wakeups", "WeakBurst"]

logger = logging.getLogger("treadle")


class Wakeups:
    """Those who sleep until the next version of one thing.

    Attributes:
        lock: guards the thing itself too. Reentrant, since a finaliser may close a subscription in the middle of it.
        version: rises with every change, under the lock.
    """

    __slots__ = ("_sleepers", "lock", "version")

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.version = 0
        self._sleepers: dict[Callable[[], object], None] = {}

    def enlist(self, version: int, wake: Callable[[], object]) -> bool:
        """Have `wake` called at the next wake-up; False, and nothing done, where the version is not that one any more."""
        with self.lock:
            if version != self.version:
                return False
            self._sleepers[wake] = None
            return True

    def delist(self, wake: Callable[[], object]) -> None:
        """Forget a sleeper, whether it was woken or not."""
        with self.lock:
            self._sleepers.pop(wake, None)

    def wake(self) -> None:
        """Wake everybody who sleeps; any worker, never blocks, never raises."""
        # Without the lock: whoever enlisted before the version rose is seen here, whoever comes later sees that version.
        if not self._sleepers:
            return
        with self.lock:
            sleepers, self._sleepers = self._sleepers, {}
        for wake in sleepers:
            try:
                wake()
            except Exception:
                logger.exception("Waking a reader failed")


class WeakBurst(Burst):
    """The burst of a loop that only readers use; it goes with the last of them."""

    __slots__ = ("__weakref__",)


class LoopWaker:
    """Wakes one reader on its own loop."""

    __slots__ = ("_burst", "future")

    def __init__(self, future: asyncio.Future[None], burst: Burst) -> None:
        self.future = future
        self._burst = burst

    def __call__(self) -> None:
        """Wake it; any worker, never blocks."""
        # A closed loop has no reader left to wake; the burst says so and forgets the call.
        self._burst.submit(self._wake)

    def _wake(self) -> None:
        if not self.future.done():
            self.future.set_result(None)
