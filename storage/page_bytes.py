"""Owns how much one page of a read may hold in bytes. Reads nothing itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

__all__ = ["PageBytes"]

T = TypeVar("T")
P = TypeVar("P")


class PageBytes:
    """How many bytes one page may hold, and at which end it begins; what has no more room is not read.

    Args:
        bytes_max: of the items together, as they are stored; the first one always fits.
        from_end: the page begins with the last of the places that it is offered, so that it is the first ones that lack.
    """

    __slots__ = ("_is_empty", "_left", "from_end", "is_full")

    def __init__(self, bytes_max: int, *, from_end: bool) -> None:
        self._left = bytes_max
        self.from_end = from_end
        self._is_empty = True
        self.is_full = False

    def filled(self, places: Sequence[P], make: Callable[[P], T], size: Callable[[T], int]) -> list[T]:
        """Return what `make` makes of as many places as there is room for, in the order of the places."""
        made: list[T] = []
        for place in reversed(places) if self.from_end else places:
            if self.is_full:
                break
            one = make(place)
            self._left -= size(one)
            if self._left < 0 and not self._is_empty:
                self.is_full = True
                break
            self._is_empty = False
            made.append(one)
        if self.from_end:
            made.reverse()
        return made
