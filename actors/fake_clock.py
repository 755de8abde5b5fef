"""Owns `FakeClock`, time that moves only when a test says so. Never sleeps, and reads the machine's clock for guards alone."""

from __future__ import annotations

import logging
import sys
import threading
from typing import TYPE_CHECKING, TypeVar

from ..protocol.errors import InvalidInput, shorten
from .bell import Bell
from .clock import Timer, TimerHeap

if TYPE_CHECKING:
    from collections.abc import Callable

    from .reply import Reply

__all__ = ["FakeClock", "FakeTimers"]

T = TypeVar("T")

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
        self._lock = threading.RLock()
        self._bell = Bell()
        self._stopped = False

    def now_us(self) -> int:
        """Return the fake wall-clock time in microseconds."""
        return self._start_us + round(self._now * 1_000_000)

    def monotonic(self) -> float:
        """Return the seconds advanced so far."""
        return self._now

    def timers(self) -> FakeTimers:
        """Make timers that this clock drives; stopping them leaves those made before and after alone."""
        return FakeTimers(self)

    def after(self, seconds: float, call: Callable[[], object]) -> Timer:
        """Run `call` once the clock was advanced by this many seconds."""
        with self._lock:
            return self.at(self._now + seconds, call)

    def at(self, due: float, call: Callable[[], object]) -> Timer:
        """Run `call` once `monotonic()` reaches `due`, at the next `advance`, be it by nothing."""
        timer = Timer(due, call, self._note_cancelled)
        with self._lock:
            if not self._stopped:
                self._heap.add(timer)
        self._bell.ring()
        return timer

    def advance(self, seconds: float) -> int:
        """Move time on, stopping at each timer that falls due, those set on the way included, to run it.

        Args:
            seconds: finite, at least 0.

        Returns:
            How many went off.

        Raises:
            InvalidInput: `invalid_value`; no timer went off.
        """
        # Time without end never arrives where a timer sets the next, and neither does what is no number.
        if type(seconds) not in {int, float} or not 0 <= seconds <= sys.float_info.max:
            why = f"seconds must be a finite number of at least 0, not {shorten(seconds)}"
            raise InvalidInput(why, code="invalid_value", value=shorten(seconds))
        with self._lock:
            end = self._now + seconds
        fired = 0
        while (call := self._step(end)) is not None:
            fired += 1
            try:
                call()
            # As on the real timers' worker: one call's failure is not another's. An interrupt is the test's, and ends it.
            except (Exception, SystemExit):
                logger.exception("A timer's call failed")
        return fired

    def wait_for_timers(self, count: int = 1, timeout: float = 30.0) -> None:
        """Block until at least `count` timers are pending.

        Args:
            count: how many.
            timeout: seconds, a guard only.

        Raises:
            TimeoutError: the guard ran out.
        """
        if not self._bell.wait_until(lambda: self.pending() >= count, timeout):
            raise TimeoutError(f"{self.pending()} timers pending, not {count}, after {timeout} seconds")

    def next_due(self) -> float | None:
        """Return the seconds until the first pending timer is due; None when there is none."""
        with self._lock:
            due, now = self._heap.first_due(), self._now
        return None if due is None else max(0.0, due - now)

    def pending(self) -> int:
        """Count the timers that may still go off."""
        with self._lock:
            return self._heap.pending()

    def stop(self) -> None:
        """Drop all timers; none goes off any more."""
        with self._lock:
            self._stopped = True
            self._heap.clear()

    def run_until(self, reply: Reply[T], timeout: float = 30.0) -> T:
        """Move time on, from timer to timer, until a reply is there; return its value or raise its error.

        For what only time can bring about: other workers get no more of it than they need, but no less either, so a
        body that works meanwhile may find its deadline passed.

        Args:
            reply: what to wait for.
            timeout: real seconds, a guard only.

        Raises:
            TimeoutError: the guard ran out, or nothing is left that time could bring about.
        """
        reply.add_done_callback(lambda _reply: self._bell.ring())
        while not reply.done():
            if not self._bell.wait_until(lambda: reply.done() or self.next_due() is not None, timeout):
                raise TimeoutError(f"no reply and no timer within {timeout} seconds")
            due = self.next_due()
            if due is not None and not reply.done():
                self.advance(due)
        return reply.result(timeout)

    def _step(self, end: float) -> Callable[[], object] | None:
        with self._lock:
            due = self._heap.first_due()
            if due is None or due > end:
                self._now = max(self._now, end)
                return None
            self._now = max(self._now, due)
            return self._heap.pop_due(self._now)

    def _note_cancelled(self) -> None:
        with self._lock:
            self._heap.cancelled()
        self._bell.ring()


class FakeTimers:
    """The timers of one runtime on a fake clock, so that a test can close it and open the next on the same clock."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self._lock = threading.RLock()  # a signal handler may interrupt an execution while its worker is inside
        self._stopped = False
        self._set: list[Timer] = []
        self._prune_at = 64

    def after(self, seconds: float, call: Callable[[], object]) -> Timer:
        """Run `call` once the clock was advanced by this many seconds."""
        return self._keep(self._clock.after(seconds, call))

    def at(self, due: float, call: Callable[[], object]) -> Timer:
        """Run `call` once the clock's `monotonic()` reaches `due`, at the next `advance`."""
        return self._keep(self._clock.at(due, call))

    def stop(self) -> None:
        """Drop these timers; none goes off any more."""
        with self._lock:
            self._stopped = True
            left, self._set = self._set, []
        for timer in left:
            timer.cancel()

    def _keep(self, timer: Timer) -> Timer:
        with self._lock:
            stopped = self._stopped
            if not stopped:
                self._set.append(timer)
                if len(self._set) >= self._prune_at:
                    self._set = [one for one in self._set if one.pending()]
                    self._prune_at = 64 + 2 * len(self._set)
        if stopped:
            timer.cancel()
        return timer
