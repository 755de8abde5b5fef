"""Owns the event loop that bodies run on, its own or the caller's, and the tasks there. Never decides what an end means."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
import sys
import threading
import time
import traceback
from types import CoroutineType
from typing import TYPE_CHECKING

from .burst import forget_burst, register_burst
from .reply import forbid_blocking

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import FrameType

__all__ = ["LoopHost", "LoopTask", "stack_lines"]

logger = logging.getLogger("treadle")

STACK_DEPTH = 40
"""Innermost frames shown of a stack."""


def stack_lines(frame: FrameType | None) -> list[str]:
    """Show the innermost frames of a worker's stack, outermost first, one line of text each."""
    if frame is None:
        return []
    # Without source lines: reading files while something hangs is not worth it, and file and line say it all.
    walked = list(traceback.walk_stack(frame))[:STACK_DEPTH]
    return [f"{at.f_code.co_filename}:{line} {at.f_code.co_qualname}" for at, line in reversed(walked)]


class LoopTask:
    """One coroutine on the host's loop, from its hand-over to its end; of two callables, or of what a subclass says.

    Attributes:
        key: what its owner calls it, an execution id.
        task: the task, once the loop came to it.
    """

    __slots__ = ("_context", "_factory", "_host", "_on_end", "_wanted", "key", "task")

    def __init__(
        self,
        host: LoopHost,
        key: str,
        factory: Callable[[], object],
        on_end: Callable[[BaseException | None], object],
        context: contextvars.Context,
    ) -> None:
        self.key = key
        self.task: asyncio.Task[object] | None = None
        self._host = host
        self._factory = factory
        self._on_end = on_end
        self._context = context
        self._wanted = True

    def _made(self) -> object:
        """Return what to await: in the task's first step, so in its context."""
        return self._factory()

    def _over(self, error: BaseException | None) -> object:
        """Hear what ended it, None for a return: once, on the loop's worker, and never of a task lost with its loop."""
        return self._on_end(error)

    def cancel(self, still: Callable[[], bool] | None = None) -> None:
        """Ask the coroutine to end with `CancelledError`, as often as called; any worker, never blocks.

        Args:
            still: asked on the loop right before; False leaves the coroutine alone.
        """
        self._wanted = False
        self._host.submit(self._cancel if still is None else lambda: self._cancel() if still() else None)

    def is_current(self) -> bool:
        """Say whether the caller is the coroutine itself, and not another task or worker."""
        try:
            return self.task is not None and asyncio.current_task() is self.task
        except RuntimeError:
            return False

    def ended(self) -> bool:
        """Say whether its end was reported, or it was lost with its loop."""
        return self not in self._host.tasks

    def stack(self) -> list[str]:
        """Show where it is: the worker's stack while it runs, else the chain of what it awaits; any worker."""
        task = self.task
        if task is None or task.done():
            return []
        if asyncio.current_task(self._host.loop) is task:
            return self._host.stack()
        lines = _awaited(task.get_coro())
        return lines[1:] or lines  # what the host itself awaits is the body

    def _cancel(self) -> None:
        if self.task is not None:
            self.task.cancel()

    def _begin(self) -> None:
        if self.task is not None or self not in self._host.tasks:
            return  # begun before, or lost with its loop
        # An error that comes while the loop is being told is the body's, except those that end the loop as well.
        try:
            if not self._wanted:
                raise asyncio.CancelledError
            self.task = self._host.loop.create_task(self._run(), name=f"treadle {self.key}", context=self._context)
        except BaseException as error:
            self._end(error)
            if isinstance(error, SystemExit | KeyboardInterrupt):
                raise
            return
        # A task cancelled before its first step runs neither its body nor any `finally` in it; this callback it runs.
        self.task.add_done_callback(self._done)

    async def _run(self) -> None:
        made = self._made()
        if made.__class__ is not CoroutineType and not inspect.isawaitable(made):
            raise TypeError(f"a body on the loop must return an awaitable, not {type(made).__name__}")
        await made
        # Nearly all bodies return, and come this way: the callback would run one round of the loop later, for a handle. It
        # stays where the body cancelled its own task at last, which is about to end so.
        task = self.task
        if task is not None and not task.cancelling():
            self._end(None)
            task.remove_done_callback(self._done)

    def _done(self, task: asyncio.Task[object]) -> None:
        try:
            task.result()
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is the body's end
            self._end(error)
        else:
            self._end(None)

    def heal(self) -> None:
        """Begin it, or report its end, where a signal handler broke that off; on the loop's worker."""
        task = self.task
        if task is None:
            self._begin()
        elif task.done():
            self._done(task)

    def _end(self, error: BaseException | None) -> None:
        tasks = self._host.tasks
        if self not in tasks:
            return  # reported before, or taken by the one who found the loop closed
        try:
            tasks.discard(self)
            self._over(error)
        except Exception:
            logger.exception("Reporting the end of %s failed", self.key)
        except BaseException:
            # A signal handler's, who knows where: an end that is told once more is of a pass that is over, one that is not
            # told holds its thread for ever.
            tasks.add(self)
            raise


def _awaited(awaited: object) -> list[str]:
    """Follow a suspended coroutine down to what it waits for."""
    lines: list[str] = []
    while awaited is not None and len(lines) < STACK_DEPTH:
        for prefix, below in (("cr", "cr_await"), ("ag", "ag_await"), ("gi", "gi_yieldfrom")):
            if hasattr(type(awaited), below):  # not asked of the object, which may be as hostile as its body
                frame = getattr(awaited, f"{prefix}_frame")
                if frame is not None:
                    lines.append(f"{frame.f_code.co_filename}:{frame.f_lineno} {frame.f_code.co_qualname}")
                awaited = getattr(awaited, below)
                break
        else:
            lines.append(f"awaits {type(awaited).__qualname__}")
            break
    return lines


class LoopHost:
    """The loop that bodies run on.

    Args:
        loop: the caller's loop; None makes an own one on a daemon worker, started by `start`.
        on_closed: called with the tasks that were lost when the loop is found closed, on the worker that finds it; again
            for tasks handed over later.
        monotonic: seconds, for the pings.

    Attributes:
        loop: the loop.
        tasks: those handed over and not ended; this also keeps the loop's weak references to them alive.
        last_pong: when the loop last answered a ping; None before the first.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop | None = None,
        *,
        on_closed: Callable[[list[LoopTask]], object],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.own = loop is None
        self.loop = asyncio.new_event_loop() if loop is None else loop
        self.tasks: set[LoopTask] = set()
        self.last_pong: float | None = None
        self._burst = register_burst(self.loop)
        self._on_closed = on_closed
        self._monotonic = monotonic
        self._pinged_at: float | None = None
        self._ident: int | None = None
        self._closing = False
        self._told_closed = False
        self._worker: threading.Thread | None = None

    def start(self) -> None:
        """Start the own loop's worker; nothing to do for the caller's loop."""
        if self.own:
            self._worker = threading.Thread(target=self._work, name="treadle-loop", daemon=True)
            self._worker.start()

    def submit(self, call: Callable[[], object]) -> bool:
        """Have the loop run `call`, in the order of submission; any worker, never blocks.

        Returns:
            False when the loop is closed: `call` will never run, and all tasks were reported lost.
        """
        if self._burst.submit(call):
            return True
        self._lose()
        return False

    def run(
        self,
        key: str,
        factory: Callable[[], Awaitable[object]],
        on_end: Callable[[BaseException | None], object],
        context: contextvars.Context | None = None,
    ) -> LoopTask:
        """Make a task of what `factory` returns; any worker, never blocks.

        Args:
            key: what the task is called in logs, and in `on_closed`.
            factory: called in the task's first step, so in `context`.
            on_end: called once on the loop's worker with what ended the coroutine, None for a return, however it ended;
                never called for a task that was lost with its loop.
            context: what the coroutine runs in; by default a copy of the caller's.
        """
        task = LoopTask(self, key, factory, on_end, contextvars.copy_context() if context is None else context)
        self.launch(task)
        return task

    def launch(self, task: LoopTask) -> None:
        """Have a task begin; any worker, never blocks."""
        self.tasks.add(task)
        if not self._burst.submit(task._begin):  # noqa: SLF001 - a task is the host's own
            self._lose()

    def ping(self) -> None:
        """Ask the loop for a sign of life; any worker, never blocks. A ping still unanswered is not repeated."""
        if not self._burst.wake():
            self._lose()
        elif self._pinged_at is None:
            self._pinged_at = self._monotonic()
            self.submit(self._pong)
        elif not self._burst.pending:
            self.submit(self._pong)  # a signal handler broke that one off: it is neither answered nor on its way

    def silent_for(self) -> float:
        """Return the seconds for which a ping has gone unanswered; 0 when the last one was answered."""
        pinged_at = self._pinged_at
        return 0.0 if pinged_at is None else max(0.0, self._monotonic() - pinged_at)

    def stack(self) -> list[str]:
        """Show where the loop's worker is now; empty before the caller's loop answered its first ping."""
        return [] if self._ident is None else stack_lines(sys._current_frames().get(self._ident))  # noqa: SLF001

    def close(self, timeout: float = 5.0) -> bool:
        """Cancel what still runs; end and close the own loop, leave the caller's running.

        Args:
            timeout: seconds to wait for the own loop's worker.

        Returns:
            False when the worker did not end: a body blocks it. It is a daemon and dies with the process.
        """
        forget_burst(self.loop)
        self._closing = True
        for task in list(self.tasks):
            task.cancel()
        if self._worker is None:
            if self.own:
                self.loop.close()
            return True
        try:
            self.loop.call_soon_threadsafe(self.loop.stop)
        except RuntimeError:
            logger.debug("The loop was closed before its host")
        if self._worker is not threading.current_thread():
            self._worker.join(timeout)
        return not self._worker.is_alive()

    def _pong(self) -> None:
        self._ident = threading.get_ident()
        self.last_pong = self._monotonic()
        self._pinged_at = None
        for task in list(self.tasks):
            task.heal()

    def _work(self) -> None:
        forbid_blocking()
        self._ident = threading.get_ident()
        try:
            while not self._closing:
                self._enter(self.loop.run_forever)
            self._enter(lambda: self.loop.run_until_complete(self._settle()))
            self._enter(lambda: self.loop.run_until_complete(self.loop.shutdown_asyncgens()))
        finally:
            self.loop.close()
            self._lose()

    def _enter(self, run: Callable[[], object]) -> None:
        try:
            run()
        except BaseException as error:  # noqa: BLE001 - a child task's SystemExit ends run_forever for all bodies
            logger.warning("%r escaped from a body and ended the event loop, which is entered again", error)

    async def _settle(self) -> None:
        """Give cancelled tasks, of bodies and of their children, a last moment to clean up."""
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        if others:
            await asyncio.wait(others, timeout=1.0)

    def _lose(self) -> None:
        lost = []
        while self.tasks:
            try:
                lost.append(self.tasks.pop())
            except KeyError:  # the last one ended just now
                break
        if lost or not (self._told_closed or self._closing):
            self._told_closed = True
            self._on_closed(lost)
