"""Owns what the requests of one body wait for: each registered before anybody can see it, and ended once. Decides nothing.

A request is opened, answered and expired by mail; the actor ends the body's wait once that is durable. An interrupt ends
it like any wait of the body, and the fence ends what is left, so nothing waits for an execution that is over.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from ..protocol.errors import InvalidInput, RequestExpired, TreadleError, Unavailable
from ..protocol.ids import check_id
from ..protocol.triggers import Ask, Expire
from ..protocol.values import check_value
from ..storage.codec import pack
from .checks import check_seconds
from .fence import ExecutionCancelled, ExecutionFenced
from .forking import renew_in_child
from .intensity import retry_delay
from .mailbox import Mail
from .reply import Reply

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..protocol.events import RequestEnd
    from ..protocol.values import Value
    from .clock import Timer
    from .execution import Execution

__all__ = ["Requests"]

# One for all: it is held for two assignments; reentrant, since a signal handler may move a clock.
_LOCK = threading.RLock()
renew_in_child(globals(), _LOCK=threading.RLock)


class Requests:
    """The requests of one execution that its body waits on."""

    __slots__ = ("_execution", "_waits")

    def __init__(self, execution: Execution) -> None:
        self._execution = execution
        self._waits: dict[str, _Wait] = {}

    def ask(self, kind: object, payload: object, request_id: object, timeout: object) -> Reply[Value]:
        """Open a request; any worker, never blocks. What the reply gives and raises: `Execution.request`."""
        execution = self._execution
        reply: Reply[Value] = Reply()
        try:
            given = execution.new_id() if request_id is None else check_id("request_id", request_id)
            trigger = Ask(
                execution.id, given, check_id("kind", kind), check_value(payload, path="$.payload"),
                check_seconds("timeout", timeout), made=request_id is None,
            )  # fmt: skip
            size = len(pack(trigger.payload))
            wait = self._register(given, reply)
        except (TreadleError, ExecutionCancelled, ExecutionFenced) as error:
            reply.fail(error)
            return reply
        opened: Reply[Any] = Reply()
        opened.add_done_callback(wait.opened)
        if trigger.timeout is not None:
            wait.arm(trigger.timeout)
        try:
            execution.entry.mailbox.put(Mail(trigger, opened, size))
        except BaseException:
            wait.over(reply)
            raise
        wait.sent()
        return reply

    def _register(self, request_id: str, reply: Reply[Value]) -> _Wait:
        wait = _Wait(self._execution, request_id, reply, self._forget)
        if self._waits.setdefault(request_id, wait) is not wait:
            raise InvalidInput(
                f"execution {self._execution.id!r} waits for an answer to request {request_id!r} already; use a new id",
                code="request_exists",
                thread_id=self._execution.thread_id,
                request_id=request_id,
            )
        try:
            # Registered first: a fence that falls between the two finds the wait, or is found by it.
            self._execution.enlist(reply)
        except BaseException:
            self._forget(request_id)
            raise
        reply.add_done_callback(wait.over)
        return wait

    def _forget(self, request_id: str) -> None:
        self._waits.pop(request_id, None)

    # The runtime's side

    def end(self, request_id: str, status: RequestEnd, value: Value) -> None:
        """Give the body what a request came to, once that is durable; on the actor."""
        wait = self._waits.get(request_id)
        if wait is None:
            return  # nobody waits any more
        if status == "resolved":
            wait.reply.set(value)
        else:
            wait.reply.fail(
                RequestExpired(
                    f"nobody answered request {request_id!r} of thread {self._execution.thread_id!r} in its time",
                    thread_id=self._execution.thread_id,
                    execution_id=self._execution.id,
                    request_id=request_id,
                )
            )

    def fence(self) -> None:
        """End every wait that is left: its execution reads nothing more."""
        execution = self._execution
        for wait in list(self._waits.values()):
            # The loop may not have come to ending the waits of an interrupted body yet.
            wait.reply.fail(execution.interruption() or ExecutionFenced(execution.id))
            wait.reply.error()  # a body may ask without waiting: that nobody takes this one is no failure to be logged


class _Wait:
    """One request that a body waits on: its reply, and the timer that ends it."""

    __slots__ = ("_attempts", "_execution", "_forget", "_is_due", "_is_sent", "_request_id", "_timer", "reply")

    def __init__(
        self, execution: Execution, request_id: str, reply: Reply[Value], forget: Callable[[str], object]
    ) -> None:
        self.reply = reply
        self._execution = execution
        self._request_id = request_id
        self._forget = forget
        self._timer: Timer | None = None
        self._attempts = 0
        self._is_sent = self._is_due = False

    def arm(self, seconds: float) -> None:
        """Let the request expire after `seconds`. Before it is sent: whoever sees it finds its time running."""
        self._set(seconds, self._due)

    def _set(self, seconds: float, call: Callable[[], object]) -> None:
        self._timer = timer = self._execution.services.timers.after(seconds, call)
        if self.reply.done():
            timer.cancel()  # an interrupt came in between

    def sent(self) -> None:
        """Note that the request is on its way; a time that was over before is told now, behind it."""
        with _LOCK:
            self._is_sent, due = True, self._is_due
        if due:
            self._expire()

    def _due(self) -> None:
        with _LOCK:
            self._is_due, sent = True, self._is_sent
        if sent:
            self._expire()

    def _expire(self) -> None:
        tried: Reply[Any] = Reply()
        tried.add_done_callback(self._tried)
        mail = Mail(Expire(self._execution.id, self._request_id), tried)
        self._execution.entry.mailbox.put(mail, internal=True)

    def _tried(self, tried: Reply[Any]) -> None:
        """Try again where the store refused: a body must not wait for ever because its time ran out on a full disk."""
        error = tried.error()
        if error is None or self.reply.done():
            return
        if not isinstance(error, Unavailable) or self._execution.services.store.failure() is not None:
            self.reply.fail(error)
            return
        self._attempts += 1
        self._set(retry_delay(self._attempts), self._expire)

    def opened(self, opened: Reply[Any]) -> None:
        """End the wait where the request was not opened."""
        error = opened.error()
        if error is not None:
            # As in `fence`: what an interrupted body is told is that.
            self.reply.fail(self._execution.interruption() or error)

    def over(self, _reply: Reply[Value]) -> None:
        """Let go of the timer and the registration."""
        timer = self._timer
        if timer is not None:
            timer.cancel()
        self._forget(self._request_id)
        self._execution.delist(_reply)
