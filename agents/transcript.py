"""Owns the history that one execution's requests are made of: read once, then only what is new. Changes nothing.

Without it each model step would read the whole thread again. An edit anywhere has it read anew.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..actors.reads import MessageHistory
    from ..protocol.messages import Message

__all__ = ["Transcript"]

_PAGE: Final = 100
"""Messages read at once; between two pages the loop serves others."""


class Transcript:
    """A thread's durable messages, oldest first, silent ones and those of every depth included.

    Args:
        history: the thread's live history.
    """

    __slots__ = ("_edited", "_history", "_known")

    def __init__(self, history: MessageHistory) -> None:
        self._history = history
        self._known: list[Message] = []
        self._edited = -1

    async def messages(self) -> Sequence[Message]:
        """Return all messages up to now; reads those that were not there at the last look, on the loop, a page at a time.

        Returns:
            The same list each time: read it before the next look, and never change it.
        """
        while True:
            edited, total = self._history.mark()
            if edited != self._edited or total < len(self._known):
                self._edited, self._known = edited, []
            while len(self._known) < total:
                low = len(self._known)
                page = self._history[low : min(low + _PAGE, total)]
                if not page:
                    break
                self._known += page
                if len(self._known) < total:
                    await asyncio.sleep(0)
            if self._history.mark()[0] == edited:
                return self._known
