"""Owns what wakes one awaiting task on its own loop. Never knows what is waited for."""

from __future__ import annotations

import asyncio
from types import NoneType
from typing import TYPE_CHECKING, Any, ClassVar, Final

from .burst import burst_for

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Context

__all__ = ["LoopWaiter"]


_BECOME: Final[Any] = object.__dict__["__class__"].__set__  # makes an object one of another class


class LoopWaiter:
    """Wakes one awaiting task on its own loop: as much of a future as a task asks for.

    A future would hand its task to the loop, to be run in the next round. This one runs it where the loop comes to hear
    of the reply, which saves a future, a handle and a round for every await.
    """

    __slots__ = ("_asyncio_future_blocking", "_burst", "_callback", "_context", "_loop", "_words")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._asyncio_future_blocking = True  # the mark by which a task knows a future, and that it was yielded
        self._loop = loop  # by which a task knows that the future is its own loop's
        self._burst = burst_for(loop)
        self._callback: Callable[[LoopWaiter], object] | None = None

    def __call__(self, _reply: object) -> None:
        """Have the loop wake the task; any worker."""
        burst = self._burst
        if burst is not None:
            burst.pending.append(self._wake)
            if not burst.woken:
                burst.rouse()
            return
        try:
            self._loop.call_soon_threadsafe(self._wake)
        except RuntimeError:
            # A closed loop has no task left to wake, and whoever sets the reply must not suffer for it.
            if not self._loop.is_closed():
                raise

    def _wake(self) -> None:
        callback = self._callback
        if callback is None:
            _BECOME(self, _Early)
        else:
            self._callback = _over  # it may be woken once more
            self._context.run(callback, self)

    # What a task asks of a future, always on the loop's own worker.

    def add_done_callback(self, callback: Callable[[LoopWaiter], object], *, context: Context) -> None:
        """Take what steps the task."""
        self._callback = callback
        self._context = context

    def cancel(self, msg: object = None) -> bool:
        """Have the task step into a `CancelledError` with these words, by which some know their own cancellation."""
        callback = self._callback
        if callback is None or callback is _over:
            return False
        self._words = msg
        _BECOME(self, _Cancelled)
        self._callback = _over
        self._loop.call_soon(callback, self, context=self._context)
        return True

    # A result of None, from a callable of C: every task asks every one.
    result: ClassVar[Callable[[], None]] = NoneType

    # What others ask of the future that a task waits for: anyio, so as to cancel it once and not while it is being stepped.

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return asyncio.Future

    def done(self) -> bool:
        """Say whether the task was woken or cancelled."""
        return self._callback is _over

    def cancelled(self) -> bool:
        """Say whether the task was cancelled."""
        return False


# What is not common makes a waiter another one, so that the common one need not look whether it is.


class _Early(LoopWaiter):
    """What a waiter becomes that is woken before a task has taken it; its task goes on at once."""

    __slots__ = ()

    def add_done_callback(self, callback: Callable[[LoopWaiter], object], *, context: Context) -> None:
        self._loop.call_soon(callback, self, context=context)

    def done(self) -> bool:
        return True


class _Cancelled(LoopWaiter):
    """What a waiter becomes whose task was cancelled."""

    __slots__ = ()

    def result(self) -> None:
        words = self._words
        raise asyncio.CancelledError() if words is None else asyncio.CancelledError(words)

    def cancelled(self) -> bool:
        return True


def _over(_waiter: object) -> None:
    """Stand for the callback of a waiter whose task was woken or cancelled."""
