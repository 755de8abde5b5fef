"""Owns the plain functions that a body has workers run: their contexts, their ends, what becomes of them with it.

A pass is over when its body is and every such function has ended: an execution that is finished runs nothing. One that
ignores the abort is abandoned with its execution, as a plain body is, and what it then comes to is thrown away.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
import threading
from typing import TYPE_CHECKING, Any

from ..protocol.errors import LimitExceeded, NoWorker, TreadleError, kind_of
from ..protocol.limits import CALLS_MAX
from .fence import ExecutionCancelled, ExecutionFenced
from .reply import Reply, current_body, current_wait
from .workers import WAITING, WorkerLost

if TYPE_CHECKING:
    from collections.abc import Callable

    from .execution import Execution
    from .workers import Job

__all__ = ["Calls"]

logger = logging.getLogger("treadle")

_NAME_MAX = 120  # characters of a function's name in an explanation


class Calls:
    """The functions of one execution that have not ended."""

    __slots__ = ("_execution", "_lock", "_over", "_running")

    def __init__(self, execution: Execution) -> None:
        self._execution = execution
        self._lock = threading.Lock()
        self._running: list[_Call] = []
        self._over: Callable[[], object] | None = None  # what waits for the last one to end

    def call(self, function: Callable[..., Any], args: tuple[object, ...], named: dict[str, object]) -> Reply[Any]:
        """Have a worker run a function; any worker, never blocks. What the reply gives and raises: `Execution.call`."""
        execution = self._execution
        call = _Call(self, execution, function, args, named)
        try:
            execution.begin("call")
            self._add(call)
        except (TreadleError, ExecutionCancelled, ExecutionFenced) as error:
            call.reply.fail(error)
            return call.reply
        context = contextvars.copy_context()
        context.run(current_body.set, execution)
        context.run(current_wait.set, execution.guard())
        try:
            call.job = job = execution.services.pool.submit(execution.id, call.run, call.ended, context)
            if execution.fenced:
                # The fence fell in between and could not find it.
                if job.cancel():
                    call.ended(execution.interruption() or ExecutionFenced(execution.id))
                else:
                    job.abandon()
        except BaseException as error:  # noqa: BLE001 - errors of a call come through its reply
            call.reply.fail(error)
            self.remove(call)
        return call.reply

    def _add(self, call: _Call) -> None:
        with self._lock:
            met = len(self._running)
            if met >= CALLS_MAX:
                raise LimitExceeded(
                    f"execution {self._execution.id!r} has {met} functions that have not ended; the limit calls is {CALLS_MAX}",
                    limit="calls",
                    maximum=CALLS_MAX,
                    met=met + 1,
                    execution_id=self._execution.id,
                )
            self._running.append(call)

    def remove(self, call: _Call) -> None:
        """Forget a function that has ended; the last one lets go what waits for it."""
        over: Callable[[], object] | None = None
        with self._lock:
            if call in self._running:
                self._running.remove(call)
            if not self._running:
                over, self._over = self._over, None
        if over is not None:
            over()

    # The runtime's side

    def when_over(self, call: Callable[[], object]) -> None:
        """Call once none runs: here and now, or on the worker of the last one."""
        with self._lock:
            if self._running:
                self._over = call
                return
        call()

    def abort(self) -> None:
        """Take those out of the line that have not begun; what began is told by its guard and its abort signal."""
        for call in self._copy():
            job = call.job
            if job is not None and job.cancel():
                call.ended(self._execution.cancelled())

    def fence(self) -> None:
        """Write those off that still run: nothing that they do has an effect, and nobody waits for them any more."""
        with self._lock:
            left, self._running, self._over = self._running, [], None
        for call in left:
            if call.job is not None and not call.job.cancel():
                call.job.abandon()
            call.reply.fail(self._execution.interruption() or ExecutionFenced(self._execution.id))

    def explained(self) -> tuple[str, ...]:
        """Say of each what it is and where, one line each."""
        return tuple(call.explained() for call in self._copy())

    def _copy(self) -> list[_Call]:
        with self._lock:
            return list(self._running)


class _Call:
    """One function on its way to a worker, on it, or over."""

    __slots__ = ("_args", "_calls", "_execution", "_function", "_name", "_named", "_value", "job", "reply")

    def __init__(
        self, calls: Calls, execution: Execution, function: Callable[..., Any], args: tuple[object, ...], named: dict[str, object]
    ) -> None:  # fmt: skip
        self.reply: Reply[Any] = Reply()
        self.job: Job | None = None
        self._calls = calls
        self._execution = execution
        self._function: Callable[..., Any] | None = function
        self._args = args
        self._named = named
        self._value: object = None
        self._name = str(getattr(function, "__qualname__", type(function).__qualname__))[:_NAME_MAX]

    def run(self) -> None:
        """Run it; on a worker."""
        # Again, since an interrupt may have come while it stood in line.
        self._execution.begin("call")
        function = self._function
        assert function is not None
        value = function(*self._args, **self._named)
        if inspect.iscoroutine(value):
            value.close()
            raise TypeError(f"{self._name} returned a coroutine; call() runs plain functions, a coroutine is awaited")
        self._value = value

    def ended(self, error: BaseException | None) -> None:
        """Give its answer; on its worker, or where it was taken out of the line."""
        # Nothing of it is kept: the reply may be, for long.
        value, self._value = self._value, None
        self._function, self._args, self._named = None, (), {}
        if type(error) is WorkerLost:
            error = NoWorker(
                f"the worker under {self._name} is gone; whether it finished cannot be told",
                execution_id=self._execution.id,
            )
        taken = self.reply.set(value) if error is None else self.reply.fail(error)
        if not taken and not issubclass(type(error), asyncio.CancelledError | ExecutionFenced):
            came = "its result" if error is None else f"its error {kind_of(error)}"
            logger.warning("%s of execution %s ended too late: %s is thrown away", self._name, self._execution.id, came)
        self._calls.remove(self)

    def explained(self) -> str:
        job = self.job
        if job is None or job.state == WAITING:
            return f"{self._name} waits for a worker"
        stack = job.stack()
        return f"{self._name} at {stack[-1]}" if stack else self._name
