"""Owns the history that one execution's requests are made of: read once, then only what is new. Changes nothing.

Without it each model step would read the whole thread again. An edit anywhere has it read anew.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..actors.message_history import MessageHistory
    from ..protocol.messages import Message

__all__ = ["Transcript"]

_PAGE: Final = 100
"""Messages read at once; between two pages the loop serves others."""


class Transcript:
    """A thread's durable messages, oldest first, silent ones and those of every depth included.

    Args:
        history: the thread's live history.
    """

    __slots__ = ("_edited", "_first", "_history", "_known")

    def __init__(self, history: MessageHistory) -> None:
        self._history = history
        self._known: list[Message] = []
        self._first = 0  # the place in history of the first one known
        self._edited = -1

    async def messages(self, newest: int | None = None) -> Sequence[Message]:
        """Return all messages up to now; reads those that were not there at the last look, on the loop, a page at a time.

        Args:
            newest: only so many of them, at their cost.

        Returns:
            Perhaps the same list each time: read it before the next look, and never change it.
        """
        while True:
            edited, total = self._history.mark()
            low = 0 if newest is None else max(0, total - newest)
            known = self._first + len(self._known)
            if edited != self._edited or not low <= known <= total:
                self._edited, self._first, self._known = edited, low, []
            if low < self._first:
                self._known = await self._read(low, self._first) + self._known
                self._first = low
            self._known += await self._read(self._first + len(self._known), total)
            if self._history.mark()[0] == edited:
                return self._known if low == self._first else self._known[low - self._first :]

    async def _read(self, low: int, high: int) -> list[Message]:
        found: list[Message] = []
        while low < high:
            if found:
                await asyncio.sleep(0)
            page = self._history.between(low, min(low + _PAGE, high))
            if not page:
                break  # it was edited meanwhile, which the next look at the mark will tell
            found += page
            low += len(page)
        return found
