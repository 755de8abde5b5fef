"""Owns `Reply`, the one-shot answer to a mail, taken by blocking or by awaiting. Never knows who sets it or why.

A `Reply` is made for every mail, so it holds no event, and no lock is taken for it, which costs as much as all the rest:
what must be one step is one bytecode. Whoever deletes `_open` settles, once for all. A waiter puts itself in the list first
and looks at the content second, the setter the other way round: so at least one of the two sees the other. Both may, hence
whatever is in the list bears to be woken once too often, also in vain. A signal handler may come in anywhere, and may raise:
who waits is called first and taken out second.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from asyncio import get_running_loop
from contextvars import ContextVar
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar, cast

from ..protocol.errors import WouldBlock
from .loop_waiter import LoopWaiter

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from types import TracebackType

__all__ = ["Reply", "WaitGuard", "current_wait", "forbid_blocking"]

T = TypeVar("T")

logger = logging.getLogger("treadle")

_PENDING: Final[Any] = object()  # what stands in a reply that is not settled
_BROKEN: Final = "A done callback of a reply failed"
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

    def is_told(self) -> bool:
        """Say whether the task that runs here has met its interruption otherwise, so that it is not cancelled for that."""


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


def _may_block_in_child() -> None:
    _this_worker.may_block = True


# Who forked is the one worker of the child, where nobody waits for it.
os.register_at_fork(after_in_child=_may_block_in_child)


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


class Reply(Generic[T]):
    """The answer to a call: `await` it from any event loop, or `.result()` it on a worker without one.

    Abandoning a reply undoes nothing. It is set once; a second setting is ignored.
    """

    __slots__ = ("_content", "_open", "_waiters")

    def __init__(self) -> None:
        self._content: T | _Failure = _PENDING
        self._open = None
        self._waiters: list[Callable[[Reply[T]], object]] = []

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
        """Give the value; any worker, never blocks, raises nothing of its own or of whoever is told.

        Returns:
            False when it was set before: nothing was changed.
        """
        try:
            del self._open
        except AttributeError:
            return False
        self._content = value
        waiters = self._waiters
        try:
            while waiters:
                try:
                    waiter = waiters[0]
                except IndexError:
                    break  # the last one left in this moment
                try:
                    waiter(self)
                except BaseException:  # the setting worker serves every thread: no callback may end it
                    logger.exception(_BROKEN)
                    _call(
                        self, waiter
                    )  # once more: it may have been a signal handler's, before the waiter had its turn
                if waiters and waiters[0] is waiter:
                    del waiters[0]
        finally:
            if waiters:
                # What a signal handler raises in between goes its way, and leaves nobody behind who waits.
                for waiter in waiters[:]:
                    _call(self, waiter)
                waiters.clear()
        return True

    def fail(self, error: BaseException) -> bool:
        """Give the error; any worker, never blocks, never raises.

        Returns:
            False when it was set before: nothing was changed.
        """
        failure = _Failure(error)
        # What is set tells an error from a value.
        if self.set(cast("T", failure)):
            return True
        failure.taken = True
        return False

    def _waive(self) -> None:
        """Note that whoever waited for it was interrupted: an error that comes all the same is no longer theirs to take."""
        if _disown not in self._waiters:
            self._waiters.append(_disown)
        _disown(self)

    def done(self) -> bool:
        """Say whether the value or the error is there."""
        return self._content is not _PENDING

    def error(self) -> BaseException | None:
        """Return the error, which then counts as taken; None while pending or when there is a value."""
        content = self._content
        return content.take() if type(content) is _Failure else None

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
            if self._content is _PENDING:
                _block(self, timeout)
            if type(self._content) is not _Failure:
                return cast("T", self._content)
            raise self._content.take()
        finally:
            # The error's traceback holds this frame, and this frame the reply that holds the error.
            del self

    def __await__(self) -> Generator[object, None, T]:
        try:
            if self._content is _PENDING:
                waiter = LoopWaiter(get_running_loop())
                try:
                    self._waiters.append(waiter)
                    if self._content is _PENDING:
                        yield waiter
                    else:
                        self._delist(waiter)  # set in this moment, maybe by one who did not find it
                except asyncio.CancelledError as cancelled:
                    self._delist(waiter)
                    # An interrupt cancels the task of its body: whoever waits for a reply there is told which it was.
                    error = _interruption(cancelled)
                    if error is None:
                        raise
                    self._waive()
                    raise error from None
                except BaseException:
                    # A reply must not collect dead waiters.
                    self._delist(waiter)
                    raise
            if type(self._content) is not _Failure:
                return cast("T", self._content)
            raise self._content.take()
        finally:
            del self

    def add_done_callback(self, callback: Callable[[Reply[T]], object]) -> None:
        """Call `callback(reply)` once it is set: on the worker that sets it, or here and now if it is set already.

        Args:
            callback: must be quick and must not block; what it raises is logged.
        """
        if self._content is not _PENDING:
            _call(self, callback)
            return
        once = _Once(callback)
        self._waiters.append(once)
        if self._content is not _PENDING:
            self._delist(once)
            _call(self, once)

    def remove_done_callback(self, callback: Callable[[Reply[T]], object]) -> None:
        """Take a callback back; does no harm once it was called."""
        for once in self._waiters[:]:
            if isinstance(once, _Once) and once.callback == callback:
                self._delist(once)
                return

    def _listeners(self) -> list[Callable[[Reply[T]], object]]:
        """Return who waits for it, and the callbacks that it was given."""
        return [waiter.callback if isinstance(waiter, _Once) else waiter for waiter in self._waiters[:]]

    def _delist(self, waiter: Callable[[Reply[T]], object]) -> None:
        try:
            # One step, too: comparing the kinds that are in the list runs no code of Python's.
            self._waiters.remove(waiter)
        except ValueError:
            return  # the setter took them all

    def __repr__(self) -> str:
        content = self._content
        return f"<Reply {'pending' if content is _PENDING else 'error' if type(content) is _Failure else 'value'}>"


class _Once:
    """A callback, which is called once whoever calls this."""

    __slots__ = ("_open", "callback")

    def __init__(self, callback: Callable[[Reply[Any]], object]) -> None:
        self.callback = callback
        self._open = None

    def __call__(self, reply: Reply[Any]) -> None:
        try:
            del self._open
        except AttributeError:
            return
        self.callback(reply)


def _interruption(cancelled: asyncio.CancelledError) -> BaseException | None:
    """Return the error of the interrupt that cancelled the task which runs here; None where somebody else did.

    A time limit or a scope in the clean-up of an interrupted body has to know its own cancellation: it comes on top of the
    interrupt's, or has words, which that has not.
    """
    body, task = current_body.get(), asyncio.current_task()
    if body is None or cancelled.args or (task is not None and task.cancelling() > 1) or body.is_told():
        return None
    return body.interruption()


def _disown(reply: Reply[Any]) -> None:
    content = reply._content  # noqa: SLF001 - one noun, split for its length
    if type(content) is _Failure:
        content.taken = True


def _call(reply: Reply[T], callback: Callable[[Reply[T]], object]) -> None:
    try:
        callback(reply)
    except BaseException:  # as where it is set
        logger.exception(_BROKEN)


def _block(reply: Reply[T], timeout: float | None) -> None:
    """Hold this worker until `reply` is set, its guard aborts, or the time is up."""
    _refuse_to_stop_a_loop()
    # A SimpleQueue is the one blocking primitive that may be woken twice, and from a signal handler of its own worker.
    woken: SimpleQueue[Reply[T] | BaseException] = SimpleQueue()
    wake: Callable[[Any], object] = woken.put
    gate = None
    if timeout is not None:
        # Not by its own `get`: up to Python 3.12 that waits for ever where the time is up as it looks a second time.
        gate = threading.Lock()
        gate.acquire()
        wake = partial(_open, woken, gate)
    guard = current_wait.get()
    if guard is not None:
        guard.enter(reply, wake)
    try:
        try:
            reply._waiters.append(wake)  # noqa: SLF001 - one noun, split for its length
            if reply._content is not _PENDING:  # noqa: SLF001
                return
            if gate is not None and timeout is not None:
                gate.acquire(timeout=min(max(timeout, 0.0), threading.TIMEOUT_MAX))
            cause = woken.get(block=gate is None)
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


def _open(woken: SimpleQueue[Any], gate: threading.Lock, cause: object) -> None:
    woken.put(cause)
    try:
        gate.release()
    except RuntimeError:
        return  # it was woken before


def _refuse_to_stop_a_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        if _this_worker.may_block:
            return
        raise WouldBlock("result() on a worker of the runtime would stop it; use add_done_callback") from None
    raise WouldBlock("result() on a worker that runs an event loop would stop that loop; await the reply instead")
