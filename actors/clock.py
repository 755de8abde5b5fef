"""Owns time: the clock that is read and the timers that go off. Never decides what happens then.

Deadlines live on the timers' own worker, never on an event loop, which a hostile body can block.
"""

from __future__ import annotations

import heapq
import logging
import threading
import time
from typing import TYPE_CHECKING, Protocol

from .forking import renew_in_child
from .reply import forbid_blocking

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Clock", "SystemClock", "Timer", "TimerService", "Timers"]

logger = logging.getLogger("treadle")


class Clock(Protocol):
    """What the runtime reads time from, and where its timers come from."""

    def now_us(self) -> int:
        """Return the wall-clock time in microseconds since 1970, UTC."""

    def monotonic(self) -> float:
        """Return seconds that never go back, from an arbitrary start."""

    def timers(self) -> TimerService:
        """Make timers that go by this clock's `monotonic`."""


class TimerService(Protocol):
    """Where timers are set."""

    def after(self, seconds: float, call: Callable[[], object]) -> Timer:
        """Run `call` once, this many seconds from now."""

    def at(self, due: float, call: Callable[[], object]) -> Timer:
        """Run `call` once, when `monotonic()` reaches `due`."""

    def stop(self) -> None:
        """Drop all timers; none goes off any more."""


class Timer:
    """One call that is due at a time; made by a `TimerService`."""

    __slots__ = ("_call", "_cancelled", "due")

    def __init__(self, due: float, call: Callable[[], object], cancelled: Callable[[], object]) -> None:
        self.due = due
        self._call: Callable[[], object] | None = call
        self._cancelled = cancelled

    def cancel(self) -> bool:
        """Take the timer back; any worker, O(1).

        Returns:
            False when it went off before, or was cancelled before.
        """
        if self.take() is None:
            return False
        self._cancelled()
        return True

    def take(self) -> Callable[[], object] | None:
        """Return the call to whoever comes first, its service or `cancel`; None to the second."""
        with _LOCK:
            call, self._call = self._call, None
            return call

    def pending(self) -> bool:
        """Say whether it may still go off."""
        return self._call is not None


# One for all timers, since it is held for two bytecodes; reentrant, since a signal handler may cancel a timer.
_LOCK = threading.RLock()
renew_in_child(globals(), _LOCK=threading.RLock)


class TimerHeap:
    """Timers ordered by when they are due, cancelled ones dropped before they pile up. Its owner locks."""

    __slots__ = ("_cancelled", "_entries", "_made")

    def __init__(self) -> None:
        self._entries: list[tuple[float, int, Timer]] = []
        self._made = 0
        self._cancelled = 0

    def precedes(self, due: float) -> bool:
        """Say whether a timer that is due then would be the first one due."""
        return not self._entries or due < self._entries[0][0]

    def add(self, timer: Timer) -> None:
        """Add a timer."""
        self._made += 1  # timers that are due together go off in the order in which they were set
        heapq.heappush(self._entries, (timer.due, self._made, timer))

    def cancelled(self) -> None:
        """Note that one of the timers was cancelled."""
        self._cancelled += 1
        # Half of them gone pays for the rebuild; the floor keeps a handful from being rebuilt all the time.
        if self._cancelled > 64 and self._cancelled * 2 > len(self._entries):
            self._entries = [entry for entry in self._entries if entry[2].pending()]
            heapq.heapify(self._entries)
            self._cancelled = 0

    def first_due(self) -> float | None:
        """Return when the first pending timer is due; None when there is none."""
        while self._entries and not self._entries[0][2].pending():
            heapq.heappop(self._entries)
            self._cancelled = max(0, self._cancelled - 1)
        return self._entries[0][0] if self._entries else None

    def pop_due(self, now: float) -> Callable[[], object] | None:
        """Remove the first timer that is due and return its call; None when none is."""
        while (due := self.first_due()) is not None and due <= now:
            call = heapq.heappop(self._entries)[2].take()
            if call is not None:
                return call
        return None

    def clear(self) -> None:
        """Drop all timers."""
        self._entries.clear()
        self._cancelled = 0

    def pending(self) -> int:
        """Count the timers that may still go off."""
        return sum(entry[2].pending() for entry in self._entries)

    def __len__(self) -> int:
        return len(self._entries)


class SystemClock:
    """The machine's clocks."""

    def now_us(self) -> int:
        """Return the wall-clock time in microseconds since 1970, UTC."""
        return time.time_ns() // 1000

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        return time.monotonic()

    def timers(self) -> Timers:
        """Make timers with a worker of their own, started with the first timer."""
        return Timers()


class Timers:
    """Timers on the monotonic clock, each run by the one daemon worker.

    What runs there must be quick and must not block; what it raises is logged.
    """

    def __init__(self) -> None:
        self._heap = TimerHeap()
        # No condition, whose parts are code of Python's: a signal handler that raises there leaves a lock taken, or the
        # worker asleep, and no deadline would come any more.
        self._lock = threading.RLock()
        self._bell = threading.Lock()  # taken by the worker before it sleeps, given back to wake it
        self._worker: threading.Thread | None = None
        self._stopped = False

    def after(self, seconds: float, call: Callable[[], object]) -> Timer:
        """Run `call` once, this many seconds from now; any worker, never blocks."""
        return self.at(time.monotonic() + seconds, call)

    def at(self, due: float, call: Callable[[], object]) -> Timer:
        """Run `call` once, when the monotonic clock reaches `due`; any worker, never blocks.

        After `stop` the timer is accepted and never goes off.
        """
        timer = Timer(due, call, self._note_cancelled)
        with self._lock:
            if self._stopped:
                return timer
            if self._worker is None:
                self._start()
            # Only a timer that is due before all others changes how long the worker may sleep. Woken first: where a handler
            # raises in between it has looked in vain, the other way round it would not look at all.
            if self._heap.precedes(due):
                self._ring()
            self._heap.add(timer)
        return timer

    def stop(self) -> None:
        """Drop all timers and end the worker, waiting for a call that is running; no timer goes off after this."""
        with self._lock:
            self._stopped = True
            self._heap.clear()
            self._ring()
            worker = self._worker
        if worker is not None and worker is not threading.current_thread():
            worker.join()

    def __len__(self) -> int:
        return len(self._heap)

    def _note_cancelled(self) -> None:
        with self._lock:
            self._heap.cancelled()

    def _start(self) -> None:
        self._worker = worker = threading.Thread(target=self._work, name="treadle-timers", daemon=True)
        try:
            worker.start()
        except BaseException:
            self._worker = None  # whoever comes first is it, this one too
            raise

    def _ring(self) -> None:
        try:
            self._bell.release()
        except RuntimeError:
            return  # rung already

    def _work(self) -> None:
        with self._lock:
            if self._worker is None:
                self._worker = threading.current_thread()
            if self._worker is not threading.current_thread():
                return  # another was started where a handler left open whether this one comes
        forbid_blocking()
        while (call := self._wait()) is not None:
            try:
                call()
            except BaseException:  # every deadline hangs on this worker
                logger.exception("A timer's call failed")

    def _wait(self) -> Callable[[], object] | None:
        while True:
            with self._lock:
                if self._stopped:
                    return None
                now = time.monotonic()
                call = self._heap.pop_due(now)
                if call is not None:
                    return call
                due = self._heap.first_due()
            self._bell.acquire(timeout=-1 if due is None else min(max(due - now, 0.0), threading.TIMEOUT_MAX))
