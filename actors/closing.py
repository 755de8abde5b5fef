"""Owns the end of a runtime: refuse, drain, interrupt, abandon. Every execution gets its FINISH, or the error names it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from ..protocol.errors import CloseIncomplete
from ..protocol.limits import RETRY_LAST_S
from ..protocol.triggers import Interrupt
from .mailbox import Mail

if TYPE_CHECKING:
    from .services import Services

__all__ = ["drain"]


class _Waiter:
    """Waits until no execution runs, on the runtime's own clock: the fake one lets tests drive it."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._changed = threading.Event()

    def until_idle(self, seconds: float) -> bool:
        if seconds <= 0:
            # Not a timer of no seconds: a fake clock fires none by itself, and no time is no wait on any clock.
            return not self._services.running
        expired = threading.Event()

        def expire() -> None:
            expired.set()
            self._changed.set()

        timer = self._services.timers.after(seconds, expire)
        self._services.idle_callbacks.append(self._changed.set)
        try:
            while self._services.running and not expired.is_set():
                self._changed.wait()
                self._changed.clear()
        finally:
            self._services.idle_callbacks.remove(self._changed.set)
            timer.cancel()
        return not self._services.running


def drain(services: Services, drain_timeout: float) -> None:
    """Let executions end by themselves for `drain_timeout` seconds, then interrupt them; blocks until all have ended.

    Raises:
        CloseIncomplete: the store refused their last commits; the next open settles them.
    """
    waiter = _Waiter(services)
    if waiter.until_idle(drain_timeout):
        return
    for live in list(services.running.values()):
        interrupt = Interrupt(live.id, reason="the runtime closes", source="system")
        live.entry.mailbox.put(Mail(interrupt), internal=True)
    options = services.options
    # Grace, release, and one more round of the slowest retry: by then only a store that refuses is in the way.
    if waiter.until_idle(options.interrupt_grace + options.release_timeout + RETRY_LAST_S):
        return
    left = sorted(live.thread_id for live in list(services.running.values()))
    if left:
        raise CloseIncomplete(
            f"{len(left)} executions could not be finished in the store; the next open settles them: {', '.join(left[:10])}",
            threads=left,
        )
