"""Owns `Bell`, which wakes whoever blocks until something has changed. Knows not what, and decides nothing.

In place of `threading.Condition`, whose parts are code of Python's: a signal handler that raises there leaves its lock taken
or released, and its waiter listed. What is called here is one step each; locks are the owner's, and never held meanwhile.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Bell"]


class Bell:
    """Rung after each change; any worker, also from a signal handler."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        # A lock each, which who waits takes and who rings gives back. No queue: up to Python 3.12 its `get` waits for ever
        # where the time is up as it looks a second time.
        self._waiting: set[threading.Lock] = set()

    def __len__(self) -> int:
        return len(self._waiting)

    def ring(self) -> None:
        """Have all who wait look again; never blocks."""
        for waiting in list(self._waiting):
            try:
                waiting.release()
            except RuntimeError:
                continue  # rung already, and not heard yet

    def wait_until(self, there: Callable[[], bool], timeout: float) -> bool:
        """Block until `there()`.

        Args:
            there: looks, and takes what locks it needs.
            timeout: real seconds.

        Returns:
            What it said at last.
        """
        until = time.monotonic() + timeout
        waiting = threading.Lock()
        waiting.acquire()
        try:
            self._waiting.add(waiting)  # before the first look: what changes behind that rings
            while not there():
                left = until - time.monotonic()
                if not waiting.acquire(timeout=min(max(left, 0.0), threading.TIMEOUT_MAX)):
                    return there()
            return True
        finally:
            self._waiting.discard(waiting)
