"""Owns the abort signal of one execution: set once, seen everywhere. Stops nothing by itself: cancelling is a request."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from .fence import ExecutionCancelled
from .forking import renew_in_child
from .reply import Reply

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["AbortSignal"]

# One for all signals, since it is held for two bytecodes; reentrant, since a signal handler may interrupt.
_LOCK = threading.RLock()
renew_in_child(globals(), _LOCK=threading.RLock)


class AbortSignal:
    """Says whether the execution was interrupted; any worker may look, wait or add a callback.

    Attributes:
        aborted: set once, never taken back.
        reason: the interruption's own text, if it gave one.
        source: `user`, `system`, `parent` or `deadline`; empty before.
    """

    __slots__ = ("_raised", "aborted", "reason", "source")

    def __init__(self) -> None:
        self.aborted = False
        self.reason: str | None = None
        self.source = ""
        self._raised: Reply[None] | None = None  # made for the first who waits: most executions have nobody

    def __bool__(self) -> bool:
        raise TypeError("an abort signal is neither true nor false; look at .aborted")

    def mark(self, reason: str | None, source: str) -> bool:
        """Raise the signal and tell nobody yet; the runtime's to call. Returns False when it was raised before."""
        if self.aborted:
            return False
        self.reason, self.source = reason, source
        with _LOCK:
            self.aborted = True
        return True

    def tell(self) -> None:
        """Tell all who wait for the signal: their callbacks run here, so no lock may be held. The runtime's to call."""
        with _LOCK:
            raised = self._raised
        if raised is not None:
            raised.set(None)

    def _awaited(self) -> Reply[None]:
        with _LOCK:
            if self._raised is None:
                self._raised = Reply()
                if self.aborted:
                    self._raised.set(None)
            return self._raised

    async def wait(self) -> None:
        """Return once the signal is raised."""
        await self._awaited()

    def wait_blocking(self, timeout: float | None = None) -> bool:
        """Block this worker until the signal is raised, at most `timeout` seconds; return whether it is."""
        try:
            self._awaited().result(timeout)
        except TimeoutError:
            return self.aborted
        except ExecutionCancelled:
            # A plain function's waits end so; but this one waits for just that.
            if not self.aborted:
                raise
        return True

    def add_callback(self, call: Callable[[], object]) -> Callable[[object], object]:
        """Call `call()` once the signal is raised, on the worker that raises it, or here and now if it is raised already.

        Returns:
            What `remove_callback` takes.
        """

        def raised(_reply: object) -> None:
            call()

        self._awaited().add_done_callback(raised)
        return raised

    def remove_callback(self, added: Callable[[object], object]) -> None:
        """Take a callback back; does no harm once it was called."""
        self._awaited().remove_done_callback(added)
