"""Owns the closing of what an execution owns, before its FINISH. Waits on workers of its own, never in an actor.

Last owned, first closed. What is not closed in time is named in FINISH and left to itself.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

from .processes import OwnedProcess
from .reply import Reply

if TYPE_CHECKING:
    from collections.abc import Callable

    from .clock import Timer
    from .services import Services

__all__ = ["release"]

logger = logging.getLogger("treadle")


class _Release:
    def __init__(self, services: Services, owned: list[object], done: Callable[[tuple[str, ...]], object]) -> None:
        self._services = services
        self._left = list(owned)
        self._failed: list[object] = []
        self._done = done
        self._lock = threading.Lock()
        self._over = False
        self.timer: Timer | None = None

    def run(self) -> None:
        while self._left:
            resource = self._left[0]
            failed = False
            try:
                self._close(resource)
            except BaseException:
                # A resource that does not close is the user's; the others still have to be.
                logger.exception("Closing %s, owned by an execution, failed", _name(resource))
                failed = True
            with self._lock:
                if self._over:
                    return
                self._left.pop(0)
                if failed:
                    self._failed.append(resource)

    def _close(self, resource: Any) -> None:
        if isinstance(resource, OwnedProcess):
            if not resource.close():
                raise OSError(f"process group {resource.pid} is still there")
        elif hasattr(resource, "aclose"):
            closed: Reply[None] = Reply()
            self._services.loop.run(
                "release", resource.aclose, lambda error: closed.fail(error) if error else closed.set(None)
            )
            closed.result()
        elif hasattr(resource, "close"):
            resource.close()
        else:
            resource.__exit__(None, None, None)

    def finish(self) -> None:
        """Say what is left, once: when all is closed, or when the time is up."""
        with self._lock:
            if self._over:
                return
            self._over = True
            left = tuple(map(_name, [*self._failed, *self._left]))
        if self.timer is not None:
            self.timer.cancel()
        self._done(left)


def _name(resource: object) -> str:
    if isinstance(resource, OwnedProcess):
        return f"process group {resource.pid}"
    return f"{type(resource).__module__}.{type(resource).__qualname__}"[:200]


def release(services: Services, key: str, owned: list[object], done: Callable[[tuple[str, ...]], object]) -> None:
    """Close what is owned; never blocks.

    Args:
        services: the runtime's parts.
        key: the execution's id.
        owned: what to close, in this order.
        done: called once, on some worker, with the names of what could not be closed in time.
    """
    work = _Release(services, owned, done)
    job = services.release_lane.submit(key, work.run, lambda _error: work.finish())

    def give_up() -> None:
        job.abandon()
        work.finish()

    work.timer = services.timers.after(services.options.release_timeout, give_up)
