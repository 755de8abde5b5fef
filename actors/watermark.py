"""Owns how far the store-wide list of changes may be read: up to the last number that its actor has published.

Numbers are given out by the writer and published by different actors, so they come out of order. A reader that went by
the store would see a FINISH whose slot is still owned.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from .wakeups import Wakeups

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..storage.changes import Change

__all__ = ["Watermark"]


class Watermark(Wakeups):
    """The highest change number below which every number was published.

    Attributes:
        number: that number.
        closed: nothing further will be published.
    """

    __slots__ = ("_early", "_kept", "_kept_after", "_kept_through", "closed", "number")

    def __init__(self, number: int = 0) -> None:
        super().__init__()
        self.number = number
        self.closed = False
        self._early: set[int] = set()
        self._kept: Sequence[Change] = ()
        self._kept_after = self._kept_through = 0

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

    def keep(self, after: int, kept: Sequence[Change], through: int) -> None:
        """Keep the last changes for readers that come to them once the store is closed; before `close`.

        Args:
            after: the number behind which these are all.
            kept: in order.
            through: the number up to which they are all.
        """
        self._kept_after, self._kept, self._kept_through = after, kept, through

    def kept(self, after: int, through: int, limit: int) -> Sequence[Change] | None:
        """Return kept changes with `after < number <= through`, as many as the limit; None where some were not kept."""
        if after < self._kept_after or through > self._kept_through:
            return None
        low = bisect_right(self._kept, after, key=_number)
        return self._kept[low : min(low + limit, bisect_right(self._kept, through, key=_number))]

    def close(self) -> None:
        """Say that nothing further will be published."""
        with self.lock:
            self.closed = True
            self.version += 1

    def missing(self) -> int:
        """Return how many published numbers wait for an earlier one."""
        return len(self._early)


def _number(change: Change) -> int:
    return change.number
