"""Owns the way of reports to the user's callback, which never runs on a worker of the runtime. Judges nothing.

A callback with a true attribute `immediate` is called on the spot: for callers who know that it returns at once.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from queue import SimpleQueue

__all__ = ["Reporter"]

logger = logging.getLogger("treadle")

Callback = Callable[[str, Mapping[str, object]], object]

_FLUSH_S = 1.0  # that closing waits for a callback: a report is no reason to hang


class Reporter:
    """Logs what the runtime reports and passes it on, in order."""

    def __init__(self, callback: Callback | None) -> None:
        self._callback = callback
        self._line: SimpleQueue[tuple[str, Mapping[str, object]] | None] = SimpleQueue()
        self._worker: threading.Thread | None = None
        self._lock = threading.Lock()

    def tell(self, name: str, details: Mapping[str, object]) -> None:
        """Report something; any worker, never blocks."""
        about = {"code": name, "thread_id": details.get("thread_id"), "execution_id": details.get("execution_id")}
        logger.warning("%s: %s", name, dict(details), extra=about)
        if self._callback is None:
            return
        if getattr(self._callback, "immediate", False):
            self._call(name, details)
            return
        with self._lock:
            if self._worker is None:
                self._worker = threading.Thread(target=self._work, name="treadle-reports", daemon=True)
                self._worker.start()
        self._line.put((name, details))

    def close(self) -> None:
        """Let what was reported reach the callback; blocks for at most a second."""
        with self._lock:
            worker = self._worker
        if worker is not None:
            self._line.put(None)
            worker.join(_FLUSH_S)

    def _work(self) -> None:
        while (report := self._line.get()) is not None:
            self._call(*report)

    def _call(self, name: str, details: Mapping[str, object]) -> None:
        assert self._callback is not None
        try:
            self._callback(name, details)
        except Exception:
            logger.exception("on_report failed")
