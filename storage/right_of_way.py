"""Owns who goes first where a worker makes many calls that each give up the interpreter lock. Guards no data.

Theory of operation: a put into LMDB lets go of that lock for less than a microsecond. Beside a worker that computes, one
put in fifty loses it, and has it back only after the switch interval, 5 ms: what takes 7 µs a batch alone took 50. The
time is not lost while the other worker has something to do; but that is then missing behind the puts, where the sync
leaves the lock to everybody for milliseconds. So whoever takes turns, as the dispatcher does, looks here between two of
them and lets the puts go first. It is a courtesy and bounded: what is correct without it is correct with it.
"""

from __future__ import annotations

import os
import threading
from typing import Final

__all__ = ["PATIENCE_S", "RIGHT_OF_WAY", "RightOfWay"]

PATIENCE_S: Final = 0.02
"""How long anybody waits for one passage: puts that take longer wait for the disk, and not for the lock."""


class RightOfWay:
    """One for each interpreter lock.

    Attributes:
        taken: says whether somebody passes; costs no more than that look.
    """

    def __init__(self) -> None:
        self.free()

    def free(self) -> None:
        """Begin anew, with nobody passing: in a forked child, where the one who passed does not exist."""
        self._lock = threading.Lock()
        self._passage = 0
        self.taken = self._lock.locked

    def take(self) -> bool:
        """Pass first, unless somebody else does; never blocks. Who took it has to `leave`.

        Returns:
            Whether it was taken: of two who would both go first neither waits for the other.
        """
        if not self._lock.acquire(blocking=False):
            return False
        self._passage += 1
        return True

    def leave(self) -> None:
        """Let the others go on."""
        self._lock.release()

    def give(self, waited_for: int, patience: float = PATIENCE_S) -> int:
        """Wait until nobody passes, for at most `patience` seconds, and only once for each passage.

        Args:
            waited_for: what the last call returned, 0 before the first.
            patience: seconds.

        Returns:
            The passage that was waited for.
        """
        passage = self._passage
        if passage != waited_for and self._lock.acquire(timeout=patience):
            self._lock.release()
        return passage


RIGHT_OF_WAY: Final = RightOfWay()

os.register_at_fork(after_in_child=RIGHT_OF_WAY.free)
