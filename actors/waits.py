"""Owns the blocking waits of one body: ends them when its execution is interrupted. Never interrupts anything itself."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from .forking import renew_in_child

if TYPE_CHECKING:
    from collections.abc import Callable

    from .workers import WorkerPool

__all__ = ["BodyWait"]

_LOCK = threading.RLock()
renew_in_child(globals(), _LOCK=threading.RLock)


class BodyWait:
    """The `WaitGuard` of one plain-function body; set `current_wait` to it in the context that the body runs in."""

    __slots__ = ("_aborts", "_pool")

    def __init__(self, pool: WorkerPool) -> None:
        self._pool = pool
        self._aborts: list[Callable[[BaseException], object]] = []

    def enter(self, reply: object, abort: Callable[[BaseException], object]) -> None:  # noqa: ARG002 - a subclass may judge
        """Note a wait, and let the pool replace the worker meanwhile."""
        with _LOCK:
            self._aborts.append(abort)
        self._pool.begin_blocking()

    def leave(self, abort: Callable[[BaseException], object]) -> None:
        """Forget the wait."""
        with _LOCK:
            self._aborts.remove(abort)
        self._pool.end_blocking()

    def abort(self, error: Callable[[], BaseException]) -> int:
        """End every wait that goes on now, each with a new error; any worker, never blocks.

        Waits that begin later are left alone: an interrupted body may still append and set values.

        Returns:
            How many there were.
        """
        with _LOCK:
            aborts = list(self._aborts)
        for abort in aborts:
            abort(error())
        return len(aborts)
