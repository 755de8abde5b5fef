"""Owns the live side of one execution: what its body may call, its abort signal, what it started. Decides nothing.

A body runs outside its thread's actor and reaches it only by mail that carries the execution's id. Two flags, once raised,
stay raised: `aborted` (nothing further begins) and `fenced` (nothing has any effect). The first is raised before the answer,
which makes the promise "no begin succeeds after an accepted interrupt" true. What begins looks without the lock; with it
whoever is refused, and whatever is put beside the body, which an interrupt or the end must find.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from ..protocol.errors import TreadleError
from ..protocol.messages import Message
from ..protocol.status import PARKED_REASONS, check_stop
from ..protocol.triggers import RecordProcess
from .abort import AbortSignal
from .asking import Requests
from .beside import Beside
from .calling import Calls
from .fence import ExecutionCancelled, ExecutionFenced
from .loops import LoopTask
from .own_thread import OwnThread
from .processes import OwnedProcess
from .reply import Reply, current_body
from .waits import BodyWait

if TYPE_CHECKING:
    from ..protocol.values import Value
    from .directory import Entry
    from .services import Body, Services
    from .workers import Job

__all__ = ["Execution", "current_execution"]

T = TypeVar("T")
R = TypeVar("R")
P = ParamSpec("P")

current_execution = cast("contextvars.ContextVar[Execution | None]", current_body)
"""The execution whose body runs here; None outside bodies."""


class Execution(OwnThread):
    """One accepted input that owns a thread, as its body sees it.

    Attributes:
        id: 32 hex digits.
        started_at: microseconds; `thread_created_at` likewise.
        passes: calls of the body so far, this one included.
        body_state, body_flow: places for whoever wraps bodies; the heart never looks at them.
    """

    __slots__ = (
        "_beside", "_fenced", "_lock", "_messages", "_signal", "agent_id", "body", "body_flow", "body_state", "entry", "handle",
        "id", "passes", "services", "started_at", "thread_created_at", "user_id",
    )  # fmt: skip

    def __init__(
        self, services: Services, entry: Entry, body: Body, execution_id: str, agent_id: str, started_at: int,
        user_id: str | None, thread_created_at: int, messages: Callable[[], list[Message]],
    ) -> None:  # fmt: skip
        self.services = services
        self.entry = entry
        self.body = body
        self.id = execution_id
        self.agent_id = agent_id
        self.started_at = started_at
        self.user_id = user_id
        self.thread_created_at = thread_created_at
        self.passes = 0
        self.body_state: object | None = None
        self.body_flow: object | None = None
        self.handle: LoopTask | Job | None = None
        self._messages: Callable[[], list[Message]] | list[Message] = messages
        self._lock = Lock()
        self._fenced = False
        self._signal: AbortSignal | None = None
        self._beside: Beside | None = None

    @property
    def new_messages(self) -> list[Message]:
        """What this pass was called for: the input and what joined with it, or what arrived since the last pass."""
        if callable(self._messages):
            self._messages = self._messages()
        return self._messages

    @property
    def fenced(self) -> bool:
        """Whether nothing that this body does has an effect any more."""
        return self._fenced

    @property
    def abort_signal(self) -> AbortSignal:
        """Raised once the execution was interrupted; made when it is first looked at."""
        signal = self._signal
        if signal is None:
            with self._lock:
                signal = self._signal
                if signal is None:
                    signal = self._signal = AbortSignal()
        return signal

    @property
    def stopped(self) -> bool:
        """Whether `stop()` was called, or a limit met: no further pass begins."""
        beside = self._beside
        return beside is not None and beside.stopped

    @property
    def stop_reason(self) -> str | None:
        """The stop code of its end, as its body gave it."""
        beside = self._beside
        return None if beside is None else beside.stop_reason

    @property
    def requests(self) -> Requests | None:
        """Those that its body waits on, None before the first."""
        beside = self._beside
        return None if beside is None else beside.requests

    @property
    def calls(self) -> Calls | None:
        """The functions that it has workers run, None before the first."""
        beside = self._beside
        return None if beside is None else beside.calls

    def _made(self) -> Beside:
        """Return what is beside the body, made if it was not; the lock is held."""
        beside = self._beside
        if beside is None:
            beside = self._beside = Beside()
        return beside

    def begin(self, kind: str) -> None:  # noqa: ARG002 - what begins is the caller's to name, for those who read the call
        """Ask to begin a pass, a model request or a tool call; never blocks.

        Raises:
            ExecutionCancelled: the execution was interrupted.
            ExecutionFenced: it no longer owns its thread.
        """
        signal = self._signal
        if self._fenced or (signal is not None and signal.aborted):
            with self._lock:
                self._admit()

    def _admit(self) -> None:
        """Raise what `begin` raises; the lock is held."""
        if self._fenced:
            raise ExecutionFenced(self.id)
        signal = self._signal
        if signal is not None and signal.aborted:
            if isinstance(self.handle, LoopTask) and self.handle.is_current():
                self._made().told = True
            raise self.cancelled()

    def interruption(self) -> ExecutionCancelled | None:
        """Return the error of the interrupted body, None while it was not interrupted."""
        signal = self._signal
        return self.cancelled() if signal is not None and signal.aborted else None

    def is_told(self) -> bool:
        """Say whether the body's task, which runs here, met the interruption in a refusal: it is not cancelled for that."""
        beside, handle = self._beside, self.handle
        return beside is not None and beside.told and isinstance(handle, LoopTask) and handle.is_current()

    def cancelled(self) -> ExecutionCancelled:
        """Return the error of an interrupted body."""
        return ExecutionCancelled(self.id, self.abort_signal.reason, self.abort_signal.source or "user")

    def stop(self, reason: str | None = None, *, limit: str | None = None) -> None:
        """Say how the execution ends, `succeeded` with this reason, once the pass returns. Never blocks.

        No further pass begins; what is unread joins history without being consumed. With a code that hands the turn to
        somebody else (`PARKED_REASONS`) what is unread is read by a further pass all the same, which has an end of its own;
        not so where a `limit` is met, a code too: then steers are not consumed because of that.

        Raises:
            InvalidInput: `invalid_reason`; what fails is raised, as `ExecutionFailed`.
        """
        code = None if reason is None else check_stop(reason)
        with self._lock:
            beside = self._made()
        if code in PARKED_REASONS and limit is None:
            beside.stop_reason = beside.stop_reason if beside.stopped else code
        else:
            # The first code that was given; a turn that was parked before is none of a stop.
            beside.stop_reason = (beside.stop_reason if beside.stopped else None) or code
            beside.stopped, beside.limit = True, limit

    def sleep(self, seconds: float) -> Reply[None]:
        """Return a reply that is there after `seconds` on the runtime's clock; an interrupt, or the end, ends it before."""
        reply: Reply[None] = Reply()
        try:
            self.enlist(reply)
        except BaseException as error:  # noqa: BLE001 - errors of a call come through its reply
            reply.fail(error)
            return reply
        timer = self.services.timers.after(seconds, lambda: reply.set(None))

        def over(_reply: Reply[None]) -> None:
            timer.cancel()
            self.delist(reply)

        reply.add_done_callback(over)
        return reply

    def enlist(self, reply: Reply[Any]) -> None:
        """Have an interrupt end a wait with ExecutionCancelled. Raises: what `begin` raises."""
        with self._lock:
            self._admit()
            self._made().waits.add(reply)

    def delist(self, reply: Reply[Any]) -> None:
        """Forget a wait that is over."""
        with self._lock:
            if self._beside is not None:
                self._beside.waits.discard(reply)

    def request(
        self, kind: str, payload: object = None, *, request_id: str | None = None, timeout: float | None = None
    ) -> Reply[Value]:
        """Ask somebody outside, and wait for the answer: `Thread.respond`. Durable before anybody can see it.

        The reply has the answer once that is durable. Fails with:
        RequestExpired: nobody answered within `timeout` seconds of the runtime's clock; None waits without end.
        ExecutionCancelled, ExecutionFenced: interrupted, or over; the request is abandoned in the finishing commit.
        InvalidInput, LimitExceeded: `request_exists`, or `kind` (as an id), `payload` or `timeout` is none.
        """
        with self._lock:
            beside = self._made()
            requests = beside.requests = beside.requests or Requests(self)
        return requests.ask(kind, payload, request_id, timeout)

    def call(self, function: Callable[P, R], *args: P.args, **named: P.kwargs) -> Reply[R]:
        """Have a worker of the pool run a plain function under this execution; never blocks.

        It runs in a copy of the caller's context, in which this is the current execution. An interrupt takes it out of the
        line, or ends its waits for replies; one that goes on all the same is abandoned after the grace, with the execution.
        The pass is not over before it is.

        Returns:
            A reply with what it returned. Fails with what it raised, and with:
            NoWorker: too many workers are abandoned, or its own is gone.
            ExecutionCancelled, ExecutionFenced: interrupted before it began, or abandoned.
            LimitExceeded: `calls`.
        """
        with self._lock:
            beside = self._made()
            calls = beside.calls = beside.calls or Calls(self)
        return calls.call(function, args, named)

    def own(self, resource: T) -> T:
        """Have a resource closed before FINISH, last first: by its `aclose`, `close` or `__exit__`.

        Raises:
            ExecutionFenced: too late; the resource is the caller's to close.
            TypeError: it has none of these.
        """
        if not any(hasattr(resource, name) for name in ("aclose", "close", "__exit__")):
            raise TypeError(f"{type(resource).__name__} has neither aclose, close nor __exit__")
        with self._lock:
            # Made before the look at the flag: the end raises that first, and takes what is owned here second.
            owned = self._made().owned
            if self._fenced:
                raise ExecutionFenced(self.id)
            owned.append(resource)
        return resource

    def start_process(self, args: Sequence[str], **options: Any) -> Reply[OwnedProcess]:
        """Start a program in a process group of its own that does not outlive the execution.

        The group is on record before the program runs, so that recovery can end it after a crash. Never blocks: a worker
        of the runtime starts it.
        """
        reply: Reply[OwnedProcess] = Reply()

        def launch() -> None:
            try:
                self.begin("process")
                process = OwnedProcess(args, **options)
            except BaseException as error:  # noqa: BLE001 - errors of a call come through its reply
                reply.fail(error)
                return
            try:
                self.own(process)
            except ExecutionFenced as error:
                process.close()
                reply.fail(error)
                return
            recorded: Reply[bool] = self._send(RecordProcess(self.id, process.pid, process.start_time))
            recorded.add_done_callback(lambda done: _released(done, process, reply))

        try:
            self.services.release_lane.submit(self.id, launch, lambda error: reply.fail(error) if error else None)
        except TreadleError as error:
            reply.fail(error)
        return reply

    # The runtime's side: only the actor calls what follows.

    def abort(self, reason: str | None, source: str) -> None:
        """Raise the abort signal and interrupt the body, once: its blocking waits, or its task."""
        handle, signal = self.handle, self.abort_signal
        with self._lock:
            # Who began before is told, who comes after is refused. The body is interrupted under the lock of a refusal:
            # whoever meets one is told by that, and is not interrupted again while it cleans up.
            if not signal.mark(reason, source):
                return
            beside = self._made()
            if beside.guard is not None:
                beside.guard.abort(self.cancelled)
            if isinstance(handle, LoopTask):
                handle.cancel(lambda: not beside.told)
        if isinstance(handle, LoopTask):
            # Behind the task's own cancellation, which must not find it awake already.
            self.services.loop.submit(self._end_waits)
        else:
            self._end_waits()
        if beside.calls is not None:
            beside.calls.abort()
        signal.tell()
        if (
            handle is not None
            and not isinstance(handle, LoopTask)
            and handle.cancel()
            and beside.on_withdrawn is not None
        ):
            # It stood in line for a worker: it will never run, so its end has to be told here.
            beside.on_withdrawn()

    def _end_waits(self) -> None:
        with self._lock:
            beside = self._beside
            if beside is None:
                return
            waits, beside.waits = beside.waits, set()
        for reply in waits:
            reply.fail(self.interruption() or ExecutionFenced(self.id))
            reply.error()  # a body may give a wait up: that nobody takes this one is no failure to be logged

    def fence(self) -> list[object]:
        """Let nothing have an effect any more, and return what is owned, last first."""
        self._fenced = True
        beside = self._beside
        if beside is None:
            return []  # whoever makes it from here on finds the flag
        with self._lock:
            owned, beside.owned = beside.owned, []
        if beside.requests is not None:
            beside.requests.fence()
        if beside.calls is not None:
            beside.calls.fence()
        if beside.waits:
            self._end_waits()  # a sleep that was given up would keep all of this until its time comes
        return owned[::-1]

    def orphan(self) -> None:
        """Fence the copy of a body in a forked child, where another worker may have held the lock at the fork."""
        self._lock = Lock()
        self._fenced = True

    def forget(self) -> None:
        """Drop what only a running execution needs: all of it refers back to this, and would wait for the collector."""
        self.handle = self.body_state = self.body_flow = None
        if self._beside is not None:
            self._beside.forget()

    def guard(self) -> BodyWait:
        """Return the guard of the blocking waits of plain functions: the body's own, and those that it calls."""
        with self._lock:  # two callers must not get two, of which an interrupt would know one
            beside = self._made()
            guard = beside.guard = beside.guard or BodyWait(self.services.pool)
        return guard

    def withdrawable(self, on_withdrawn: Callable[[], object]) -> None:
        """Have an interrupt say how the body ended that it took out of the line for a worker."""
        with self._lock:
            self._made().on_withdrawn = on_withdrawn

    def next_pass(self, messages: Callable[[], list[Message]]) -> None:
        """Set what the next pass is called for; how the last one would have ended is over with it."""
        if self._beside is not None:
            self._beside.stop_reason = None
        self._messages = messages


def _released(recorded: Reply[bool], process: OwnedProcess, reply: Reply[OwnedProcess]) -> None:
    error = recorded.error()
    if error is None:
        process.release()
        reply.set(process)
    else:
        # Never on record, so it must never run: the gate still holds it.
        process.kill()
        reply.fail(error)
