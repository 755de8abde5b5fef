"""Owns what clients that send much may have of an event loop: a share in each round, for all together. Parses nothing.

One client's turn is short; those of three hundred in one round were seconds, in which nobody else was served.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["SHARE_S", "Turns", "turns"]

SHARE_S: Final = 0.005
"""Of one round of the loop; the last turn that begins in it ends beyond it."""


class Turns:
    """Who waits for a turn on one loop, in the order in which they came; only on that loop.

    Args:
        clock: monotonic, in seconds.
    """

    __slots__ = ("_clock", "_is_due", "_waiting")

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._waiting: deque[Callable[[], object]] = deque()
        self._is_due = False

    def wait(self, take: Callable[[], object]) -> None:
        """Have a turn taken, in this round or a later one; one that has more to take waits anew."""
        self._waiting.append(take)
        self._go_on()

    def _go_on(self) -> None:
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._serve)

    def _serve(self) -> None:
        self._is_due = False
        until = self._clock() + SHARE_S
        try:
            while self._waiting:
                self._waiting.popleft()()
                if self._clock() >= until:
                    break
        finally:
            # Also where a turn failed: that is its connection's end, and nobody else's.
            if self._waiting:
                self._go_on()


_TURNS: WeakKeyDictionary[asyncio.AbstractEventLoop, Turns] = WeakKeyDictionary()


def turns() -> Turns:
    """Return the turns of the loop that runs, made where there are none."""
    loop = asyncio.get_running_loop()
    found = _TURNS.get(loop)
    if found is None:
        found = _TURNS[loop] = Turns()
    return found
