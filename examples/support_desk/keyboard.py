"""Owns what is typed: reads lines on a worker of its own and hands them to the event loop. Understands none."""

from __future__ import annotations

import asyncio
import threading
from typing import TextIO

__all__ = ["Keyboard"]


class Keyboard:
    """Lines of a terminal or a pipe; a pipe's come all at once, so they wait for their turn.

    Attributes:
        is_a_person: whether somebody types; else the lines are a script.
    """

    def __init__(self, source: TextIO) -> None:
        self.is_a_person = source.isatty()
        self._source = source
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()

    def start(self) -> None:
        """Begin to read; on the loop that is to get the lines."""
        loop = asyncio.get_running_loop()

        def read() -> None:
            for line in self._source:
                loop.call_soon_threadsafe(self._lines.put_nowait, line.strip())
            loop.call_soon_threadsafe(self._lines.put_nowait, None)

        # A daemon, since nothing can wake a worker that reads a terminal.
        threading.Thread(target=read, name="keyboard", daemon=True).start()

    async def line(self) -> str | None:
        """Return the next line, None once there are no more."""
        return await self._lines.get()

    def put(self, line: str | None) -> None:
        """Add a line as if it was typed; None is the end."""
        self._lines.put_nowait(line)
