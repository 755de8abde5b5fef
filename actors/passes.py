"""Owns the calling of bodies: one pass on the loop or on a worker, and the report of how it ended. Decides nothing.

The end is reported from where the call is made, so that `SystemExit`, a lost worker, or a task cancelled before its
first step are ends like any other.
"""

from __future__ import annotations

import asyncio
from contextvars import Context
from functools import partial
from typing import TYPE_CHECKING

from ..protocol.errors import TreadleError, kind_of, text_of
from ..protocol.triggers import BodyEnded, Lost
from .execution import Execution, current_execution
from .failing import ExecutionFailed
from .fence import ExecutionFenced
from .loops import LoopTask
from .mailbox import Mail
from .reply import current_wait
from .workers import WorkerLost

if TYPE_CHECKING:
    from .loops import LoopHost
    from .services import Services

__all__ = ["begin_pass", "describe_error", "report_lost"]

_REASONS = frozenset({"no_worker", "storage_full"})  # errors that are stop reasons themselves
_MESSAGE_MAX = 4_096  # characters of an error's text kept in FINISH


def begin_pass(services: Services, execution: Execution) -> None:
    """Call the body once more; never blocks and never raises. Its end comes back as mail."""
    execution.passes += 1
    try:
        if execution.body.runs_on == "loop":
            execution.handle = task = _Pass(services.loop, execution)
            services.loop.launch(task)
        else:
            context = Context()
            context.run(current_execution.set, execution)
            report = partial(_report, execution, execution.passes)
            context.run(current_wait.set, execution.guard())
            execution.withdrawable(lambda: report(execution.cancelled()))
            execution.handle = services.pool.submit(execution.id, partial(_call, execution), report, context)
    except Exception as error:  # noqa: BLE001 - no worker, or closing: the execution ends with it
        _report(execution, execution.passes, error)


class _Pass(LoopTask):
    """A call of a body that runs on the loop."""

    __slots__ = ("_execution", "_number")

    def __init__(self, host: LoopHost, execution: Execution) -> None:
        self.key = execution.id
        self.task = None
        self._host = host
        self._context = Context()
        self._wanted = True
        self._execution = execution
        self._number = execution.passes

    def _made(self) -> object:
        execution = self._execution
        current_execution.set(execution)
        # Here and not when the task is made: an interrupt may be accepted in between.
        execution.begin("pass")
        made = execution.body.run(execution)
        if made is None:
            raise TypeError(f"agent {execution.body.name!r} runs on the loop and returned no awaitable")
        return made

    def _over(self, error: BaseException | None) -> None:
        _report(self._execution, self._number, error)


def _call(execution: Execution) -> None:
    execution.begin("pass")
    execution.body.run(execution)


def _report(execution: Execution, number: int, error: BaseException | None) -> None:
    # Told once more, behind a signal handler's error: a later pass runs.
    if number != execution.passes:
        return
    beside = execution._beside  # noqa: SLF001 - one noun, split for its length
    if error is None:
        ended = BodyEnded(execution.id)
        if beside is not None:
            ended.reason, ended.stopped, ended.limit = beside.stop_reason, beside.stopped, beside.limit
    elif type(error) is WorkerLost:
        report_lost(execution, "worker_lost", dispatched=error.began, of_pass=number)
        return
    elif execution.fenced and type(error) is ExecutionFenced:
        return  # unfenced, the body met the fence of another execution, whose state it had kept: an error like any other
    else:
        ended = _ended_by(execution.id, error)
    ended.of_pass = number
    # Looked up once: the end of an execution that did not wait for its body drops it meanwhile.
    calls = None if beside is None else beside.calls
    if calls is None:
        execution.entry.mailbox.put(Mail(ended), internal=True)
    else:
        calls.when_over(lambda: execution.entry.mailbox.put(Mail(ended), internal=True))


def _ended_by(execution_id: str, error: BaseException) -> BodyEnded:
    # By `type` and not `isinstance`, which asks the error itself: a body's error may be as hostile as the body.
    if issubclass(type(error), asyncio.CancelledError):
        return BodyEnded(execution_id, "cancelled")
    kind, message = describe_error(error)
    if type(error) is ExecutionFailed:
        # Whatever the body made of them since: a report that cannot be decided would hold its thread for ever.
        named, reason = getattr(error, "error_type", None), getattr(error, "reason", None)
        if type(named) is str and type(reason) is str:
            return BodyEnded(execution_id, "raised", error_type=named, error_message=message, reason=reason)
    code = error.code if issubclass(type(error), TreadleError) else None  # type: ignore[attr-defined]
    reason = code if type(code) is str and code in _REASONS else None
    return BodyEnded(execution_id, "raised", error_type=kind, error_message=message, reason=reason)


def report_lost(execution: Execution, cause: str, *, dispatched: bool, of_pass: int | None = None) -> None:
    """Say that the loop or worker under an execution is gone."""
    lost = Lost(execution.id, boot_id=execution.services.boot.id, cause=cause, dispatched=dispatched)
    lost.of_pass = of_pass
    execution.entry.mailbox.put(Mail(lost), internal=True)


def describe_error(error: BaseException) -> tuple[str, str]:
    """Return an error's type name and a non-blank, valid, bounded text, whatever its `__str__` does."""
    kind = kind_of(error)
    text = text_of(error).strip()
    if (
        len(text) > _MESSAGE_MAX
    ):  # first, since the rest costs its length; always marked, for that shows where a secret was cut
        text = text[: _MESSAGE_MAX - 1] + "…"
    return kind, text.encode("utf-8", "replace").decode().replace("\0", "\ufffd") or kind
