"""Owns `Reply`, the one-shot answer to a mail, taken by blocking or by awaiting. Never knows who sets it or why.

A `Reply` is made for every mail, so it holds no lock and no event: settling is guarded by one lock for all, and what a
waiter needs is made when it waits. That lock is reentrant, since a signal handler or a finaliser may send mail while
its own worker is inside.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from contextvars import Context, ContextVar
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar, cast

from ..protocol.errors import WouldBlock
from .burst import burst_for

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from types import TracebackType

__all__ = ["Reply", "WaitGuard", "current_wait", "forbid_blocking"]

T = TypeVar("T")

logger = logging.getLogger("treadle")

_PENDING, _VALUE, _ERROR = 0, 1, 2
_LOCK = threading.RLock()
_TRACEBACK: Final[Any] = BaseException.__dict__["__traceback__"]


class WaitGuard(Protocol):
    """What a body's worker does about a blocking `Reply.result()`; found through `current_wait`."""

    def enter(self, reply: Reply[Any], abort: Callable[[BaseException], object]) -> None:
        """Note the wait, or raise to refuse it.

        Args:
            reply: what is waited for.
            abort: ends this wait with an error; any worker may call it, at any time, without harm after the wait.
        """

    def leave(self, abort: Callable[[BaseException], object]) -> None:
        """Forget the wait; always called after an `enter` that returned."""


class Interruptible(Protocol):
    """The execution whose body runs here, as a waiting reply knows it."""

    def interruption(self) -> BaseException | None:
        """Return what an interrupted body is told, None while it was not interrupted."""


current_body: ContextVar[Interruptible | None] = ContextVar("treadle_execution", default=None)
"""The execution whose body runs here; None outside bodies."""

current_wait: ContextVar[WaitGuard | None] = ContextVar("treadle_current_wait", default=None)
"""The guard of the execution whose body runs here; None outside bodies."""


class _Worker(threading.local):
    may_block = True


_this_worker = _Worker()


def forbid_blocking() -> None:
    """Make every blocking `result()` on this worker raise `WouldBlock`: it is one that others wait for."""
    _this_worker.may_block = False


def blocking_forbidden() -> bool:
    """Say whether this worker is one that others wait for."""
    return not _this_worker.may_block


class _Failure:
    """An error on its way to whoever takes it; logged when it is collected untaken."""

    __slots__ = ("error", "taken", "traceback")

    def __init__(self, error: BaseException) -> None:
        self.error = error
        # Not by the error's own attributes, here and below: one as hostile as its body may have none that can be had.
        self.traceback: TracebackType | None = _TRACEBACK.__get__(error)
        self.taken = False

    def take(self) -> BaseException:
        self.taken = True
        # Each raise adds frames; starting from the first traceback keeps an error taken often from growing.
        return BaseException.with_traceback(self.error, self.traceback)

    def __del__(self) -> None:
        # That a body was interrupted is no failure of the call that it abandoned.
        if not self.taken and not issubclass(type(self.error), asyncio.CancelledError):
            # Without its traceback: this may run inside the collector, where reading source lines is not safe.
            logger.error("Nobody took the error of a reply: %r", self.error)


class _Waived:
    """Stands in a pending reply whose waiter was interrupted."""


_WAIVED: Final = _Waived()


class Reply(Generic[T]):
    """The answer to a call: `await` it from any event loop, or `.result()` it on a worker without one.

    Abandoning a reply undoes nothing. It is set once; a second setting is ignored.
    """

    __slots__ = ("_content", "_state", "_waiters")

    def __init__(self) -> None:
        self._state = _PENDING
        self._content: T | _Failure | _Waived | None = None
        self._waiters: list[Callable[[Reply[T]], object]] | None = None

    @classmethod
    def of(cls, value: T) -> Reply[T]:
        """Make a reply that already has its value."""
        reply = cls()
        reply.set(value)
        return reply

    @classmethod
    def failed(cls, error: BaseException) -> Reply[T]:
        """Make a reply that already has its error."""
        reply = cls()
        reply.fail(error)
        return reply

    def set(self, value: T) -> bool:
        """Give the value; any worker, never blocks, never raises.

        Returns:
            False when it was set before: nothing was changed.
        """
        with _LOCK:
            if self._state:
                return False
            self._content = value
            self._state = _VALUE
            waiters = self._waiters
            self._waiters = None
        if waiters is not None:
            _notify(self, waiters)
        return True

    def fail(self, error: BaseException) -> bool:
        """Give the error; any worker, never blocks, never raises.

        Returns:
            False when it was set before: nothing was changed.
        """
        failure = _Failure(error)
        with _LOCK:
            if self._state:
                failure.taken = True
                return False
            failure.taken = self._content is _WAIVED
            self._content = failure
            self._state = _ERROR
            waiters = self._waiters
            self._waiters = None
        if waiters is not None:
            _notify(self, waiters)
        return True

    def _waive(self) -> None:
        """Note that whoever waited for it was interrupted: an error that comes all the same is no longer theirs to take."""
        with _LOCK:
            if self._state == _PENDING:
                self._content = _WAIVED
            elif self._state == _ERROR:
                cast("_Failure", self._content).taken = True

    def done(self) -> bool:
        """Say whether the value or the error is there."""
        return self._state != _PENDING

    def error(self) -> BaseException | None:
        """Return the error, which then counts as taken; None while pending or when there is a value."""
        return cast("_Failure", self._content).take() if self._state == _ERROR else None

    def result(self, timeout: float | None = None) -> T:
        """Wait for the answer, blocking this worker.

        Args:
            timeout: seconds; None waits for ever.

        Returns:
            The value.

        Raises:
            WouldBlock: it is not there yet, and this worker runs an event loop or is the runtime's own.
            TimeoutError: it did not come in time; the call goes on all the same.
            ExecutionCancelled: this worker runs a body whose execution was interrupted while it waited.
        """
        try:
            if self._state == _PENDING:
                _block(self, timeout)
            if self._state == _VALUE:
                return cast("T", self._content)
            raise cast("_Failure", self._content).take()
        finally:
            # The error's traceback holds this frame, and this frame the reply that holds the error.
            del self

    def __await__(self) -> Generator[object, None, T]:
        try:
            if self._state == _PENDING:
                waiter = _LoopWaiter(asyncio.get_running_loop())
                if self._enlist(waiter):
                    try:
                        yield waiter
                    except asyncio.CancelledError:
                        # An interrupt cancels the task of its body: whoever waits for a reply there is told which it was.
                        body = current_body.get()
                        error = None if body is None else body.interruption()
                        if error is None:
                            raise
                        self._waive()
                        raise error from None
                    finally:
                        if self._waiters is not None:
                            # Cancelled while waiting: a reply that stays pending must not collect dead waiters.
                            self._delist(waiter)
            if self._state == _VALUE:
                return cast("T", self._content)
            raise cast("_Failure", self._content).take()
        finally:
            del self

    def add_done_callback(self, callback: Callable[[Reply[T]], object]) -> None:
        """Call `callback(reply)` once it is set: on the worker that sets it, or here and now if it is set already.

        Args:
            callback: must be quick and must not block; what it raises is logged.
        """
        if not self._enlist(callback):
            _notify(self, [callback])

    def remove_done_callback(self, callback: Callable[[Reply[T]], object]) -> None:
        """Take a callback back; does no harm once it was called."""
        self._delist(callback)

    def _enlist(self, waiter: Callable[[Reply[T]], object]) -> bool:
        with _LOCK:
            if self._state:
                return False
            if self._waiters is None:
                self._waiters = [waiter]
            else:
                self._waiters.append(waiter)
        return True

    def _delist(self, waiter: Callable[[Reply[T]], object]) -> None:
        with _LOCK:
            if self._waiters is not None and waiter in self._waiters:
                self._waiters.remove(waiter)

    def __repr__(self) -> str:
        return f"<Reply {('pending', 'value', 'error')[self._state]}>"


class _LoopWaiter:
    """Wakes one awaiting task on its own loop: as much of a future as a task asks for.

    A future would hand its task to the loop, to be run in the next round. This one runs it where the loop comes to hear
    of the reply, which saves a future, a handle and a round for every await.
    """

    __slots__ = ("_asyncio_future_blocking", "_callback", "_cancelled", "_context", "_done", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._asyncio_future_blocking = True  # the mark by which a task knows a future, and that it was yielded
        self._loop = loop
        self._callback: Callable[[_LoopWaiter], object] | None = None
        self._context: Context | None = None
        self._done = self._cancelled = False

    def __call__(self, _reply: object) -> None:
        loop = self._loop
        burst = burst_for(loop)
        if burst is not None:
            burst.submit(self._wake)
            return
        try:
            loop.call_soon_threadsafe(self._wake)
        except RuntimeError:
            # A closed loop has no task left to wake, and whoever sets the reply must not suffer for it.
            if not loop.is_closed():
                raise

    def _wake(self) -> None:
        if self._done:
            return
        self._done = True
        callback, self._callback = self._callback, None
        if callback is not None and self._context is not None:
            self._context.run(callback, self)

    # What a task asks of a future, always on the loop's own worker.

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    def add_done_callback(self, callback: Callable[[_LoopWaiter], object], *, context: Context) -> None:
        if self._done:
            self._loop.call_soon(callback, self, context=context)
        else:
            self._callback, self._context = callback, context

    def cancel(self, msg: object = None) -> bool:  # noqa: ARG002 - an interrupt's words come from its execution
        if self._done:
            return False
        self._done = self._cancelled = True
        callback, self._callback = self._callback, None
        if callback is not None:
            self._loop.call_soon(callback, self, context=self._context)
        return True

    def result(self) -> None:
        if self._cancelled:
            raise asyncio.CancelledError


def _notify(reply: Reply[T], waiters: list[Callable[[Reply[T]], object]]) -> None:
    for waiter in waiters:
        try:
            waiter(reply)
        except BaseException:  # the setting worker serves every thread: no callback may end it
            logger.exception("A done callback of a reply failed")


def _block(reply: Reply[T], timeout: float | None) -> None:
    """Hold this worker until `reply` is set, its guard aborts, or the time is up."""
    _refuse_to_stop_a_loop()
    # A SimpleQueue is the one blocking primitive that may be woken twice, and from a signal handler of its own worker.
    woken: SimpleQueue[Reply[T] | BaseException] = SimpleQueue()
    wake = woken.put
    guard = current_wait.get()
    if guard is not None:
        guard.enter(reply, wake)
    try:
        if not reply._enlist(wake):  # noqa: SLF001 - one noun, split for its length
            return
        try:
            limit = None if timeout is None else min(max(timeout, 0.0), threading.TIMEOUT_MAX)
            cause = woken.get(timeout=limit)
        except Empty:
            raise TimeoutError(f"no reply within {timeout} seconds; the call goes on") from None
        finally:
            reply._delist(wake)  # noqa: SLF001
    finally:
        if guard is not None:
            guard.leave(wake)
    if isinstance(cause, BaseException):
        reply._waive()  # noqa: SLF001
        raise cause


def _refuse_to_stop_a_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        if _this_worker.may_block:
            return
        raise WouldBlock("result() on a worker of the runtime would stop it; use add_done_callback") from None
    raise WouldBlock("result() on a worker that runs an event loop would stop that loop; await the reply instead")
