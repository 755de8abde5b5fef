"""Owns how long one awaitable may take on the injected clock. Knows no models, and never decides what comes next."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Generator

    from ...actors.clock import TimerService

__all__ = ["Overdue", "within"]

T = TypeVar("T")

logger = logging.getLogger("treadle")


class Overdue(Exception):
    """An awaitable did not come in its time; it was cancelled, and has cleaned up."""


async def within(awaitable: Awaitable[T], seconds: float, timers: TimerService) -> T:
    """Await something for so long at most, in the caller's task; a result that is there at once costs no timer.

    Args:
        awaitable: what to wait for; cancelled when its time is over.
        seconds: on the clock behind `timers`, whose worker it is that notices.
        timers: where the limit is set.

    Raises:
        Overdue: the time was over. A cancellation of the task by others wins over it.
    """
    return await _Within(awaitable, seconds, timers)


class _Within(Generic[T]):
    __slots__ = ("_awaitable", "_expired", "_loop", "_over", "_seconds", "_task", "_timers")

    def __init__(self, awaitable: Awaitable[T], seconds: float, timers: TimerService) -> None:
        self._awaitable = awaitable
        self._seconds = seconds
        self._timers = timers
        self._over = self._expired = False

    def __await__(self) -> Generator[object, None, T]:
        steps = self._awaitable.__await__()
        try:
            waits_for = next(steps)
        except StopIteration as done:
            result: T = done.value
            return result
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a time limit needs a task that can be cancelled")
        self._task, self._loop = task, task.get_loop()
        cancelled_before = task.cancelling()
        timer = self._timers.after(self._seconds, self._due)
        try:
            result = yield from _drive(steps, waits_for)
        except asyncio.CancelledError:
            # As asyncio.timeout does: what is left beyond our own cancellation is somebody else's, and wins.
            if self._expired and task.uncancel() <= cancelled_before:
                raise Overdue from None
            raise
        except Exception:
            if self._expired and task.uncancel() <= cancelled_before:
                raise Overdue from None  # what broke under our cancellation
            raise
        finally:
            self._over = True
            timer.cancel()
        if self._expired and task.uncancel() <= cancelled_before:
            raise Overdue  # it took no notice of its cancellation, and came too late
        return result

    def _due(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._expire)
        except RuntimeError:
            logger.debug("A time limit was over after its loop was closed")

    def _expire(self) -> None:
        # On the loop, where the wait cannot end in between.
        if not self._over:
            self._expired = True
            self._task.cancel()


def _drive(steps: Generator[object, None, T], waits_for: object) -> Generator[object, None, T]:
    """Go on with an awaitable whose first step was made already."""
    while True:
        try:
            yield waits_for
        except GeneratorExit:
            steps.close()
            raise
        except BaseException as error:  # noqa: BLE001 - handed on to where it was meant for
            thrown: BaseException | None = error
        else:
            thrown = None
        try:
            waits_for = next(steps) if thrown is None else steps.throw(thrown)
        except StopIteration as done:
            result: T = done.value
            return result
