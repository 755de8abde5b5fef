"""Owns which execution waits for which thread, and refuses a wait that would close a circle. Ends no wait.

An execution waits on a thread when it waits for an execution or input there that has not ended: the one in the slot,
or one that cannot begin before it has left. So a circle of threads is a circle of waits, rows queued behind included.
"""

from __future__ import annotations

import threading

from ..protocol.errors import WaitCycle

__all__ = ["WaitGraph", "Waiting"]


class Waiting:
    """One wait of an execution of thread `waiting` on thread `target`."""

    __slots__ = ("target", "waiting")

    def __init__(self, waiting: str, target: str) -> None:
        self.waiting = waiting
        self.target = target


class WaitGraph:
    """The waits of all live executions of a runtime; any worker."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._waits: dict[str, list[Waiting]] = {}

    def enter(self, waiting: str, target: str, execution_id: str) -> Waiting:
        """Note that an execution of thread `waiting` waits on thread `target`.

        Raises:
            WaitCycle: `target` waits, over any number of threads, for `waiting`.
        """
        with self._lock:
            path = self._path(target, waiting)
            if path is not None:
                raise WaitCycle(
                    f"execution {execution_id!r} would wait for itself: {' -> '.join([waiting, *path])}",
                    execution_id=execution_id,
                    threads=[waiting, *path],
                )
            wait = Waiting(waiting, target)
            self._waits.setdefault(waiting, []).append(wait)
            return wait

    def leave(self, wait: Waiting) -> None:
        """Forget a wait; twice does no harm."""
        with self._lock:
            waits = self._waits.get(wait.waiting, [])
            if wait in waits:
                waits.remove(wait)
            if not waits:
                self._waits.pop(wait.waiting, None)

    def drop(self, waiting: str) -> None:
        """Forget all waits of a thread: the execution that waited is over."""
        if self._waits:
            with self._lock:
                self._waits.pop(waiting, None)

    def count(self) -> int:
        """Count the waits."""
        with self._lock:
            return sum(map(len, self._waits.values()))

    def targets(self, waiting: str) -> list[str]:
        """Return the threads that a thread's execution waits on now."""
        with self._lock:
            return [wait.target for wait in self._waits.get(waiting, ())]

    def _path(self, start: str, goal: str) -> list[str] | None:
        paths = [[start]]
        seen = {start}
        while paths:
            path = paths.pop()
            if path[-1] == goal:
                return path
            for following in self._waits.get(path[-1], ()):
                if following.target not in seen:
                    seen.add(following.target)
                    paths.append([*path, following.target])
        return None
