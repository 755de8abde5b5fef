"""Owns the end of a runtime: refuse, drain, interrupt, abandon. Every execution gets its FINISH, or the error names it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from ..protocol.decision import Phase
from ..protocol.errors import CloseIncomplete
from ..protocol.limits import RETRY_LAST_S
from ..protocol.triggers import Interrupt
from .mailbox import Mail

if TYPE_CHECKING:
    from .services import Services

__all__ = ["drain"]


class _Waiter:
    """Waits until every thread is at rest, on the runtime's own clock: the fake one lets tests drive it."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._changed = threading.Event()

    def until_idle(self, seconds: float, *, interrupting: bool = False) -> bool:
        if seconds <= 0:
            # Not a timer of no seconds: a fake clock fires none by itself, and no time is no wait on any clock.
            return self._is_idle()
        expired = threading.Event()

        def expire() -> None:
            expired.set()
            self._changed.set()

        timer = self._services.timers.after(seconds, expire)
        self._services.idle_callbacks.append(self._look_again)
        try:
            while True:
                if interrupting:
                    self._interrupt()
                if self._is_idle():
                    return True
                if expired.is_set():
                    return False
                self._changed.wait()
                self._changed.clear()
        finally:
            self._services.idle_callbacks.remove(self._look_again)
            timer.cancel()

    def _look_again(self) -> None:
        # Behind the turn under way: within it the actor that came to rest still counts as taking mail.
        self._services.dispatcher.call(self._changed.set)

    def _is_idle(self) -> bool:
        """Say whether nothing runs and nothing is on its way that could still start: mail, or a batch in flight."""
        services = self._services
        if services.running or services.supervisor.clearing:
            return False
        if not services.dispatcher.has_workers:
            return True  # its mail has its turn only when somebody says so, and nobody will while this waits
        for entry in services.directory.known_entries():
            actor = entry.actor
            if not entry.mailbox.is_idle():
                self._look_again()
                return False
            if actor is not None and (actor.in_flight is not None or actor.state.phase is not Phase.IDLE):
                return False
        return True

    def _interrupt(self) -> None:
        for live in list(self._services.running.values()):
            if not live.abort_signal.aborted:
                interrupt = Interrupt(live.id, reason="the runtime closes", source="system")
                live.entry.mailbox.put(Mail(interrupt), internal=True)


def drain(services: Services, drain_timeout: float) -> None:
    """Let executions end by themselves for `drain_timeout` seconds, then interrupt them; blocks until all have ended.

    Raises:
        CloseIncomplete: the store refused their last commits; the next open settles them.
    """
    waiter = _Waiter(services)
    if waiter.until_idle(drain_timeout):
        return
    options = services.options
    # Grace, release, and one more round of the slowest retry: by then only a store that refuses is in the way.
    if waiter.until_idle(options.interrupt_grace + options.release_timeout + RETRY_LAST_S, interrupting=True):
        return
    left = sorted(live.thread_id for live in list(services.running.values()))
    if left:
        raise CloseIncomplete(
            f"{len(left)} executions could not be finished in the store; the next open settles them: {', '.join(left[:10])}",
            threads=left,
        )
