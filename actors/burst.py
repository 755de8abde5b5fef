"""Owns the hand-over of calls from any worker to one event loop, one wake for many. Never creates or closes a loop.

Waking a loop costs a system call (4.1 µs measured); a queue before it makes that one wake a burst (0.19 µs a call). The
call costs more than itself: it lets go of the interpreter lock, and the loop, awake with one call to run, takes it. So a
worker with more to do collects the wakes that it owes, and gives them when it is done.
"""

from __future__ import annotations

import logging
import os
from collections import deque
from contextvars import Context
from threading import get_ident
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable

__all__ = ["Burst", "burst_for", "collect_wakes", "forget_burst", "register_burst", "settle_wakes", "stop_collecting"]

logger = logging.getLogger("treadle")


class Burst:
    """The calls on their way to one loop, run there in the order they were submitted.

    Attributes:
        pending: where a call may be put straight away, by whoever looks at `woken` then, and calls `rouse` where it is not.
        woken: what is pending will be run.
    """

    __slots__ = ("_context", "_loop", "pending", "woken")

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self.pending: deque[Callable[[], object]] = deque()
        self.woken = False
        # Without a context of its own the loop would run each burst in that of whoever happened to wake it.
        self._context = Context()

    def submit(self, call: Callable[[], object]) -> bool:
        """Have the loop run `call`; any worker, never blocks.

        Returns:
            False when the loop is closed: `call` will never run.
        """
        self.pending.append(call)
        # The append comes before this look, and a drain lowers the flag before it takes: who sees it raised is served.
        if self.woken and not self._loop.is_closed():
            return True
        self.woken = True
        owed = _OWED.get(get_ident())
        if owed is not None and not self._loop.is_closed():
            owed.append(self)
            return True
        return self.wake()

    def rouse(self) -> None:
        """Have what is pending run; unlike `submit`, nobody hears whether the loop is closed."""
        self.woken = True
        owed = _OWED.get(get_ident())
        if owed is not None:
            owed.append(self)
        else:
            self.wake()

    def wake(self) -> bool:
        """Wake the loop whatever the flag says, which also heals a wake lost to a `KeyboardInterrupt`.

        Returns:
            False when the loop is closed.
        """
        try:
            self._loop.call_soon_threadsafe(self._drain, context=self._context)
        except RuntimeError:
            if not self._loop.is_closed():
                raise
            self.pending.clear()
            return False
        return True

    def _drain(self) -> None:
        self.woken = False
        pending = self.pending
        try:
            # Only what is here now: producers faster than this loop must not keep it from its timers and sockets.
            for _ in range(len(pending)):
                # Not by `popleft`: a signal handler raises behind a call, and would take the one that was taken out along.
                call = pending[0]
                del pending[0]
                try:
                    call()
                except Exception:
                    logger.exception("A call handed to an event loop failed")
        finally:
            # SystemExit and KeyboardInterrupt go on to the loop, as from any callback; the calls behind are kept.
            if pending and not self.woken:
                self.woken = True
                self.wake()


# By worker: the bursts that it has yet to wake.
_OWED: dict[int, list[Burst]] = {}


# A worker of a forked child may have the ident that one of its parent had: nobody would settle what it owes.
os.register_at_fork(after_in_child=_OWED.clear)


def collect_wakes() -> list[Burst]:
    """Have the wakes that the calling worker owes collected from now on; it gives them before it waits for anything.

    Returns:
        The bursts to wake: pass them to `settle_wakes` while there are any.
    """
    return _OWED.setdefault(get_ident(), [])


def settle_wakes(owed: list[Burst]) -> None:
    """Wake the loops of these bursts and empty the list; what waits for a loop closed meanwhile is found by its ping."""
    while owed:
        owed.pop().wake()


def stop_collecting() -> None:
    """Give all wakes that the calling worker owes, and let it wake at once from now on: it is about to end."""
    settle_wakes(_OWED.pop(get_ident(), []))


_BURSTS: dict[AbstractEventLoop, Burst] = {}


def register_burst(loop: AbstractEventLoop) -> Burst:
    """Give a runtime's loop its burst, or return the one it has."""
    return _BURSTS.setdefault(loop, Burst(loop))


burst_for: Final[Callable[[AbstractEventLoop], Burst | None]] = _BURSTS.get
"""Return the burst of a runtime's loop; None for a loop that no runtime uses."""


def forget_burst(loop: AbstractEventLoop) -> None:
    """Drop the loop's burst from the registry; those who hold it may go on using it."""
    _BURSTS.pop(loop, None)
