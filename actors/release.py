"""Owns the closing of what an execution owns, before its FINISH. Waits on workers of its own, never in an actor.

Last owned, first closed. What is not closed in time is named in FINISH. What stands behind it is closed all the same: its
process groups before FINISH, which takes them off the record, the rest when there is time.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

from ..protocol.errors import TreadleError
from ..protocol.limits import TERM_GRACE_S
from .processes import OwnedProcess
from .reply import Reply

if TYPE_CHECKING:
    from collections.abc import Callable

    from .clock import Timer
    from .execution import Execution
    from .services import Services
    from .workers import Job

__all__ = ["release", "write_off"]

logger = logging.getLogger("treadle")


class _Release:
    def __init__(self, services: Services, owned: list[object], done: Callable[[tuple[str, ...]], object]) -> None:
        self._services = services
        self._left = list(owned)
        self._failed: list[object] = []
        self._done = done
        self._lock = threading.Lock()
        self._began = False
        self.late = False
        self._over = False
        self.job: Job | None = None
        self.timer: Timer | None = None

    def run(self) -> None:
        while True:
            with self._lock:
                if self.late or not self._left:
                    return
                self._began = True
                resource = self._left[0]
            closed = self._try(resource)
            with self._lock:
                if self.late:
                    return
                self._left.pop(0)
                if not closed:
                    self._failed.append(resource)

    def give_up(self) -> list[object]:
        """Stop waiting for what is being closed; return what stands behind it."""
        with self._lock:
            self.late = True
            return self._left[1:] if self._began else list(self._left)

    def run_behind(self, behind: list[object]) -> None:
        """Close what stands behind a resource that does not close, without the time to be gentle."""
        for resource in behind:
            if isinstance(resource, OwnedProcess) and self._try(resource, term_grace=0):
                self._left = [left for left in self._left if left is not resource]
        self.finish()
        for resource in behind:
            if not isinstance(resource, OwnedProcess):
                self._try(resource)

    def _try(self, resource: object, term_grace: float = TERM_GRACE_S) -> bool:
        try:
            self._close(resource, term_grace)
        except BaseException:
            # A resource that does not close is the user's; the others still have to be.
            logger.exception("Closing %s, owned by an execution, failed", _name(resource))
            return False
        return True

    def _close(self, resource: Any, term_grace: float) -> None:
        if isinstance(resource, OwnedProcess):
            if not resource.close(term_grace):
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

    def ended(_error: BaseException | None) -> None:
        if not work.late:
            work.finish()

    def give_up() -> None:
        behind = work.give_up()
        if work.job is not None:
            work.job.abandon()
        if not behind:
            work.finish()
            return
        work.timer = services.timers.after(TERM_GRACE_S, work.finish)
        try:
            services.release_lane.submit(key, lambda: work.run_behind(behind), lambda _error: work.finish())
        except TreadleError:
            logger.exception("What execution %s still owns is not closed", key)
            work.finish()

    # Armed first: whoever sees something being closed, and then moves a clock on, finds its time running; and what is
    # closed at once finds its timer, to stop it.
    work.timer = services.timers.after(services.options.release_timeout, give_up)
    try:
        work.job = services.release_lane.submit(key, work.run, ended)
    except TreadleError:
        work.timer.cancel()
        raise
    if work.late:
        work.job.abandon()  # the time was up before there was a job to write off


def write_off(services: Services, live: Execution) -> list[object]:
    """Take an execution off that lost its actor: its body is aborted, and nothing it still does has an effect.

    Returns:
        What it owned, for `release`.
    """
    services.running.pop(live.id, None)
    live.abort(None, "system")
    owned = live.fence()
    if live.handle is not None:
        abandon: Callable[[], object] = getattr(live.handle, "abandon", live.handle.cancel)
        abandon()
    return owned
