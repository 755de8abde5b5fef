"""Owns how much of one thing may be held at once, by everybody together and by each principal. Holds nothing itself."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from .problems import Refused

if TYPE_CHECKING:
    from collections.abc import Hashable

__all__ = ["Shares"]


class Shares:
    """What is held of one thing; every method may be called by any worker, and none blocks.

    Args:
        name: of the limit, as `Limits` calls it; that of each principal is `name_per_principal`.
        total: that everybody together may hold.
        each: that one principal may hold, so that nobody takes it from all others.
        retry_after: seconds after which to ask again.
    """

    __slots__ = ("_each", "_held", "_lock", "_name", "_retry", "_total", "held")

    def __init__(self, name: str, *, total: float, each: float, retry_after: int = 1) -> None:
        self._name = name
        self._total = total
        self._each = each
        self._retry = {"retry-after": str(retry_after)}
        self._lock = threading.Lock()
        self._held: dict[Hashable, int] = {}
        self.held = 0

    def take(self, who: Hashable, amount: int = 1) -> None:
        """Hold more, until it is given back.

        Args:
            who: the principal.
            amount: of the thing.

        Raises:
            Refused: `overloaded`: 429 where it is more than the principal may hold, 503 where it is more than there is.
        """
        with self._lock:
            own = self._held.get(who, 0) + amount
            if own <= self._each and self.held + amount <= self._total:
                self._held[who] = own
                self.held += amount
                return
        if own > self._each:
            limit, maximum, status = f"{self._name}_per_principal", self._each, 429
        else:
            limit, maximum, status = self._name, self._total, 503
        raise Refused(
            status, "overloaded", f"too much at once; the limit {limit} is {maximum:g}",
            headers=self._retry, limit=limit, maximum=maximum,
        )  # fmt: skip

    def give(self, who: Hashable, amount: int = 1) -> None:
        """Give back what was taken."""
        with self._lock:
            self.held -= amount
            left = self._held[who] - amount
            if left:
                self._held[who] = left
            else:
                del self._held[who]
