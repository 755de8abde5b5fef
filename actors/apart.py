"""Owns calls that run whole on a worker of their own: no signal and no cancellation cuts them in half. Knows no runtime.

An open that a `KeyboardInterrupt` or a cancelled task breaks off in the middle would hold its store for ever.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from typing import TYPE_CHECKING

from ..protocol.errors import WouldBlock
from .reply import Reply, blocking_forbidden, current_body

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["apart", "awaited_apart", "runs_loop"]

logger = logging.getLogger("treadle")


def apart(call: Callable[[], None], undo: Callable[[], None] | None = None, *, needs: object = None) -> None:
    """Run a call whole, and raise what it raises; blocks. Where the wait for it is interrupted, the call goes on.

    Args:
        undo: run, and waited for, after a call that succeeds all the same once its wait was interrupted.
        needs: the parts of a runtime whose workers and bodies the call waits for, so that none of these may make it.

    Raises:
        WouldBlock: one of them does.
    """
    if needs is not None and (blocking_forbidden() or _runs_a_body_of(needs)):
        raise WouldBlock("close() on a worker of the runtime would wait for itself; await aclose(), or close elsewhere")
    if threading.current_thread() is not threading.main_thread():
        call()  # signals come to the main one only
        return
    whole = _Whole(call)
    try:
        whole.start()
        whole.block()
    except BaseException:
        if undo is not None and whole.goes_on():
            back = _Whole(lambda: whole.take_back(undo))
            back.start()
            back.block()
        raise
    error = whole.done.error()
    if error is not None:
        raise error


async def awaited_apart(call: Callable[[], None], undo: Callable[[], None] | None = None) -> None:
    """As `apart`, without blocking the event loop: what interrupts is the cancellation of the task.

    That comes out once all is undone, however often the task is cancelled meanwhile: whoever cancels an open, and opens
    again, must not meet a store in use.
    """
    whole = _Whole(call)
    try:
        whole.start()
        await whole.done
    except BaseException:
        if undo is not None and whole.goes_on():
            back = _Whole(lambda: whole.take_back(undo))
            back.start()
            await _over(back.done)
        raise


async def _over(undone: Reply[None]) -> None:
    while not undone.done():
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await undone
    error = undone.error()
    if error is not None:
        logger.error("What a cancelled call had begun could not be undone", exc_info=error)


def _runs_a_body_of(services: object) -> bool:
    """Say whether this is the code of an execution that goes on: a plain function's worker, or what it handed on."""
    body = current_body.get()
    return getattr(body, "services", None) is services and not getattr(body, "fenced", True)


def runs_loop() -> bool:
    """Say whether this worker runs an event loop at this moment."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class _Whole:
    """A call on a worker of its own: not `to_thread`'s, which is joined at exit, while a call may wait for a hostile body."""

    def __init__(self, call: Callable[[], None]) -> None:
        self.done: Reply[None] = Reply()
        self._call = call
        self._lock = threading.Lock()
        self._began = False
        self._dropped = False

    def start(self) -> None:
        threading.Thread(target=self._work, name="treadle-open-close", daemon=True).start()

    def block(self) -> None:
        """Wait, also on a worker that runs an event loop: whoever opens without `async` has chosen so."""
        there = threading.Event()
        self.done.add_done_callback(lambda _done: there.set())
        there.wait()

    def goes_on(self) -> bool:
        """Say whether an interrupted call has begun and has not failed; where it has not begun, it never will."""
        with self._lock:
            self._dropped = True
            return self._began and not (self.done.done() and self.done.error())

    def take_back(self, undo: Callable[[], None]) -> None:
        self.block()
        if self.done.error() is None:
            undo()

    def _work(self) -> None:
        with self._lock:
            if self._dropped:
                return
            self._began = True
        try:
            self._call()
        except BaseException as error:  # noqa: BLE001 - it belongs to whoever waits
            self.done.fail(error)
        else:
            self.done.set(None)
