"""Owns how far the store-wide list of changes may be read: up to the last number that its actor has published.

Numbers are given out by the writer and published by different actors, so they come out of order. A reader that went by
the store would see a FINISH whose slot is still owned.
"""

from __future__ import annotations

from .wakeups import Wakeups

__all__ = ["Watermark"]


class Watermark(Wakeups):
    """The highest change number below which every number was published.

    Attributes:
        number: that number.
        closed: nothing further will be published.
    """

    __slots__ = ("_early", "closed", "number")

    def __init__(self, number: int = 0) -> None:
        super().__init__()
        self.number = number
        self.closed = False
        self._early: set[int] = set()

    def publish(self, number: int) -> None:
        """Note that a change was published, or that nobody will publish it; any worker, in any order, also twice."""
        with self.lock:
            reached = self.number + 1
            if number != reached:
                if number > reached:
                    self._early.add(number)
                return
            early = self._early
            while early and reached + 1 in early:
                reached += 1
                early.discard(reached)
            self.number = reached
            self.version += 1

    def close(self) -> None:
        """Say that nothing further will be published."""
        with self.lock:
            self.closed = True
            self.version += 1

    def missing(self) -> int:
        """Return how many published numbers wait for an earlier one."""
        return len(self._early)
