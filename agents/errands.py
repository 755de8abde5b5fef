"""Owns the coroutines that a state's calls run beside its body: writes with hooks, invoked tools. None outlives its end.

A plain function can make such a call too: it gets a reply, and the coroutine runs on the runtime's loop.
"""

from __future__ import annotations

import asyncio
import threading
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, TypeVar

from ..actors.fence import ExecutionCancelled, ExecutionFenced
from ..actors.reply import Reply
from ..protocol.errors import RuntimeClosed, TreadleError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ..actors.execution import Execution
    from ..actors.services import Services

__all__ = ["Errands"]

T = TypeVar("T")


class Errands:
    """What runs for one state; owned by its execution, so that a finish finds nothing of it running.

    Args:
        services: of the runtime.
        execution: whose body calls; None at rest.
    """

    __slots__ = ("__weakref__", "_closed", "_execution", "_last", "_lock", "_owned", "_running", "_services")

    def __init__(self, services: Services, execution: Execution | None) -> None:
        self._services = services
        self._execution = execution
        self._running: dict[Reply[Any], asyncio.Task[None] | None] = {}
        self._last: Reply[None] | None = None
        self._lock = threading.Lock()
        self._owned = execution is None
        self._closed = False

    def run(self, make: Callable[[], Awaitable[T]], *, ends_with_interrupt: bool) -> Reply[T]:
        """Run a coroutine on the runtime's loop, in the caller's context; any worker, never blocks.

        Args:
            make: makes it, on the loop.
            ends_with_interrupt: whether an interrupt of the execution ends it at once, and lets none begin.

        Returns:
            A reply with what it returns or raises. Fails with ExecutionFenced once the execution is over.
        """
        reply: Reply[T] = Reply()
        try:
            self._take(reply)
            if ends_with_interrupt and self._execution is not None:
                self._execution.enlist(reply)
        except (ExecutionCancelled, ExecutionFenced) as error:
            self._drop(reply)
            reply.fail(error)
            return reply
        reply.add_done_callback(self._over)
        context = copy_context()
        if not self._services.loop.submit(lambda: self._begin(reply, make, context)):
            reply.fail(RuntimeClosed("the loop of the runtime is closed"))
        return reply

    def run_in_line(self, make: Callable[[], Awaitable[T]]) -> Reply[T]:
        """Run a coroutine after those that were given here before; an interrupt does not end it."""
        done: Reply[None] = Reply()
        with self._lock:
            before, self._last = self._last, done

        async def in_line() -> T:
            if before is not None:
                await before
            return await make()

        reply = self.run(in_line, ends_with_interrupt=False)
        reply.add_done_callback(lambda _reply: done.set(None))
        return reply

    def call(self, function: Callable[..., T], /, *args: object, **named: object) -> Reply[T]:
        """Run a plain function on a worker of the pool, under the execution where there is one; never blocks.

        Returns:
            A reply with what it returns or raises.
        """
        if self._execution is not None:
            return self._execution.call(function, *args, **named)
        reply: Reply[T] = Reply()

        def run() -> None:
            reply.set(function(*args, **named))

        def ended(error: BaseException | None) -> None:
            if error is not None:
                reply.fail(error)

        try:
            self._services.pool.submit("a tool at rest", run, ended)
        except TreadleError as error:
            reply.fail(error)
        return reply

    def _take(self, reply: Reply[Any]) -> None:
        with self._lock:
            owned, self._owned = self._owned, True
            if self._closed and self._execution is not None:
                raise ExecutionFenced(self._execution.id)
            self._running[reply] = None
        if not owned and self._execution is not None:
            self._execution.own(self)

    def _begin(self, reply: Reply[T], make: Callable[[], Awaitable[T]], context: Any) -> None:
        if reply.done():
            return
        task = asyncio.get_running_loop().create_task(_carry(reply, make), context=context)
        with self._lock:
            if reply in self._running:
                self._running[reply] = task
        # One that is cancelled before its first step runs nothing of itself.
        task.add_done_callback(lambda _task: reply.done() or reply.fail(self._gone()))
        if reply.done():
            task.cancel()

    def _gone(self) -> BaseException:
        if self._execution is None:
            return RuntimeClosed("the runtime closed before the call was over")
        return self._execution.interruption() or ExecutionFenced(self._execution.id)

    def _over(self, reply: Reply[Any]) -> None:
        task = self._drop(reply)
        if self._execution is not None:
            self._execution.delist(reply)
        if task is not None and not task.done():
            self._services.loop.submit(task.cancel)

    def _drop(self, reply: Reply[Any]) -> asyncio.Task[None] | None:
        with self._lock:
            return self._running.pop(reply, None)

    def close(self) -> None:
        """End what still runs; the runtime's to call, before the execution's finish is durable."""
        with self._lock:
            self._closed = True
            left = list(self._running)
        for reply in left:
            reply.fail(self._gone())


async def _carry(reply: Reply[T], make: Callable[[], Awaitable[T]]) -> None:
    # What it raises is its caller's, also a SystemExit, which else would end the loop of all bodies.
    try:
        reply.set(await make())
    except BaseException as error:  # noqa: BLE001
        reply.fail(error)
