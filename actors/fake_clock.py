"""Owns `FakeClock`, time that moves only when a test says so. Never sleeps and never reads the machine's clock."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Self

from .clock import Timer, TimerHeap

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["FakeClock"]

logger = logging.getLogger("treadle")


class FakeClock:
    """A clock and its timers in one: `advance` moves both and runs what falls due, in order, on the caller's worker.

    Args:
        now_us: the wall-clock time at the start, in microseconds.
    """

    def __init__(self, now_us: int = 1_700_000_000_000_000) -> None:
        self._start_us = now_us
        self._now = 0.0
        self._heap = TimerHeap()
        self._changed = threading.Condition(threading.RLock())
        self._stopped = False

    def now_us(self) -> int:
        """Return the fake wall-clock time in microseconds."""
        with self._changed:
            return self._start_us + round(self._now * 1_000_000)

    def monotonic(self) -> float:
        """Return the seconds advanced so far."""
        with self._changed:
            return self._now

    def timers(self) -> Self:
        """Return itself."""
        return self

    def after(self, seconds: float, call: Callable[[], object]) -> Timer:
        """Run `call` once the clock was advanced by this many seconds."""
        with self._changed:
            return self.at(self._now + seconds, call)

    def at(self, due: float, call: Callable[[], object]) -> Timer:
        """Run `call` once `monotonic()` reaches `due`, at the next `advance`, be it by nothing."""
        timer = Timer(due, call, self._note_cancelled)
        with self._changed:
            if not self._stopped:
                self._heap.add(timer)
                self._changed.notify_all()
        return timer

    def advance(self, seconds: float) -> int:
        """Move time on, stopping at each timer that falls due, those set on the way included, to run it.

        Returns:
            How many went off.
        """
        with self._changed:
            end = self._now + seconds
        fired = 0
        while (call := self._step(end)) is not None:
            fired += 1
            try:
                call()
            except BaseException:  # as on the real timers' worker: one call's failure is not another's
                logger.exception("A timer's call failed")
        return fired

    def wait_for_timers(self, count: int = 1, timeout: float = 10.0) -> None:
        """Block until at least `count` timers are pending.

        Args:
            count: how many.
            timeout: seconds, a guard only.

        Raises:
            TimeoutError: the guard ran out.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self._heap.pending() >= count, timeout):
                raise TimeoutError(f"{self._heap.pending()} timers pending, not {count}, after {timeout} seconds")

    def next_due(self) -> float | None:
        """Return the seconds until the first pending timer is due; None when there is none."""
        with self._changed:
            due = self._heap.first_due()
            return None if due is None else max(0.0, due - self._now)

    def pending(self) -> int:
        """Count the timers that may still go off."""
        with self._changed:
            return self._heap.pending()

    def stop(self) -> None:
        """Drop all timers; none goes off any more."""
        with self._changed:
            self._stopped = True
            self._heap.clear()

    def _step(self, end: float) -> Callable[[], object] | None:
        with self._changed:
            due = self._heap.first_due()
            if due is None or due > end:
                self._now = max(self._now, end)
                return None
            self._now = max(self._now, due)
            return self._heap.pop_due(self._now)

    def _note_cancelled(self) -> None:
        with self._changed:
            self._heap.cancelled()
            self._changed.notify_all()
