"""Owns how a subscription is read: `for`, `async for`, `next`, `with`, `close`. Never knows what it delivers.

A feed makes one item at a time, when asked. A read of the store happens on the worker or loop that asks, one bounded
page at a time.
"""

from __future__ import annotations

import asyncio
import threading
import time
from abc import ABC, abstractmethod
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING, Generic, Self, TypeVar

from ..protocol.errors import InvalidInput, WouldBlock
from .reply import Reply
from .wakeups import LoopWaker

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from .burst import Burst
    from .hub import Hub
    from .wakeups import Wakeups

__all__ = ["Feed", "Pause"]

T = TypeVar("T")

_STREAK_MAX = 64
"""Items handed to a loop before its other tasks have their turn."""


class Pause(Enum):
    """What a step finds that is not an item."""

    WAIT = auto()
    END = auto()


class Feed(ABC, Generic[T]):
    """Items in order, for one reader at a time, on any worker or loop.

    Iterate with `for` or `async for`; leave with `with`, `async with` or `close()`. An error leaves the feed where it
    stands: reading on tries again.
    """

    __slots__ = ("_burst", "_closed", "_hub", "_loop", "_streak", "_turn", "_waker")

    def __init__(self, hub: Hub) -> None:
        self._closed = False
        self._waker: Callable[[], object] | None = None
        self._hub = hub
        self._turn = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._burst: Burst | None = None
        self._streak = 0

    def next(self, timeout: float | None = None) -> T | None:
        """Return the next item, blocking this worker until there is one.

        Args:
            timeout: seconds; None waits for ever, 0 only looks and may be used on a loop.

        Returns:
            The item; None once the feed has ended.

        Raises:
            TimeoutError: none came in time; nothing was lost.
            WouldBlock: there is none yet, and this worker runs an event loop or is the runtime's own.
            ExecutionCancelled: this worker runs a body whose execution was interrupted while it waited.
            InvalidInput: `already_reading`; another worker or task is reading this feed.
            StoreClosed, StoreFailed, CorruptRecord: the store could not be read.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        self._begin()
        try:
            while True:
                item = self._step()
                if item is Pause.WAIT:
                    self._wait(timeout, deadline)
                elif item is Pause.END:
                    self._end()
                    return None
                else:
                    return item
        finally:
            self._turn.release()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        item = self.next()
        if item is None:
            raise StopIteration
        return item

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        self._begin()
        try:
            if self._streak >= _STREAK_MAX:
                # A backlog would otherwise keep the loop from everything else until it is read.
                self._streak = 0
                await asyncio.sleep(0)
            while True:
                item = self._step()
                if item is Pause.WAIT:
                    self._streak = 0
                    await self._wait_on_loop()
                elif item is Pause.END:
                    self._end()
                    raise StopAsyncIteration
                else:
                    self._streak += 1
                    return item
        finally:
            self._turn.release()

    def close(self) -> None:
        """End the feed; any worker, never blocks, idempotent. Whoever reads it now finds the end."""
        self._closed = True
        # The reader shows its waker before it looks at the flag, so one of the two sees the other.
        waker = self._waker
        if waker is not None:
            waker()
        self._leave()
        if self._turn.acquire(blocking=False):
            try:
                self._forget()
            finally:
                self._turn.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        # A call with the wrong arguments leaves an object that was never set up.
        if hasattr(self, "_streak"):
            self.close()

    @abstractmethod
    def _step(self) -> T | Pause:
        """Return the next item if it is there; once closed, `END`."""

    @abstractmethod
    def _source(self) -> tuple[Wakeups, int]:
        """Return what to sleep on, and the version of it that the last `WAIT` was found in."""

    @abstractmethod
    def _leave(self) -> None:
        """Stop being counted as a reader; any worker, idempotent."""

    def _forget(self) -> None:
        """Let go of everything that the feed holds; only whoever has the turn."""
        self._loop = self._burst = None

    def _end(self) -> None:
        self._closed = True
        self._leave()
        self._forget()

    def _begin(self) -> None:
        if not self._turn.acquire(blocking=False):
            raise InvalidInput("another worker or task is reading this subscription", code="already_reading")

    def _wait(self, timeout: float | None, deadline: float | None) -> None:
        remaining = None if deadline is None else deadline - time.monotonic()
        if remaining is not None and remaining <= 0:
            raise TimeoutError(f"no frame within {timeout} seconds")
        reply: Reply[None] = Reply()
        wakeups, version = self._source()
        waker = self._waker = partial(reply.set, None)
        try:
            if not self._closed and wakeups.enlist(version, waker):
                reply.result(remaining)
        except TimeoutError:
            raise TimeoutError(f"no frame within {timeout} seconds") from None
        except WouldBlock:
            raise WouldBlock("waiting for a frame would stop the event loop of this worker; use `async for`") from None
        finally:
            self._waker = None
            wakeups.delist(waker)

    async def _wait_on_loop(self) -> None:
        loop = asyncio.get_running_loop()
        if self._burst is None or self._loop is not loop:
            self._loop, self._burst = loop, self._hub.burst(loop)
        wakeups, version = self._source()
        waker = self._waker = LoopWaker(loop.create_future(), self._burst)
        try:
            if not self._closed and wakeups.enlist(version, waker):
                await waker.future
        finally:
            self._waker = None
            wakeups.delist(waker)
