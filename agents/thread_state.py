"""Owns `ThreadState`, what an agent's code sees of its thread and may do to it. Keeps nothing durable itself.

Its parts are a file each: messages, variables, logs, tools. Children, effects, files, streams and `run_code` have no part
yet; they will be further ones.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from ..actors.fence import ExecutionFenced
from ..actors.reply import Reply
from ..protocol.errors import InvalidInput, TreadleError, shorten
from ..protocol.ids import check_key
from ..protocol.limits import SECONDS_MAX
from ..protocol.values import JsonObject, Value, check_thread_value, check_value
from .at_rest import RestAccess, ThreadAccess
from .execution_state import ExecutionState
from .flow import SessionEnd
from .thread_logs import ThreadLogs
from .thread_messages import ThreadMessages
from .thread_tools import ThreadTools
from .thread_variables import ThreadVariables

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..actors.execution import Execution
    from ..actors.handle import Thread
    from ..actors.reads import ValuePage
    from ..protocol.messages import Message
    from ..protocol.status import ThreadStatus

__all__ = ["ThreadAccess", "ThreadState"]

SESSION_STOPPED: Final = "Session stopped."


class ThreadState(ThreadMessages, ThreadVariables, ThreadTools, ThreadLogs):
    """A thread as its agent sees it; one object for all passes of an execution.

    Whatever reads or writes returns a `Reply`: `await` it in a coroutine, `.result()` it in a plain function. Bad input
    comes through the reply, before anything is written. Any worker may call.

    Attributes:
        context: scratch space of one execution, shared by all its passes, tools and hooks; never durable.
    """

    __slots__ = ("_arguments", "_running", "context")

    def __init__(self, access: ThreadAccess, execution: Execution | None = None) -> None:
        self._access = access
        self._execution = execution
        self._scene = None
        self._arguments: Mapping[str, Value] | None = None
        self._running: ExecutionState | None = None
        self.context: JsonObject = {}

    @classmethod
    def of(cls, execution: Execution) -> ThreadState:
        """Return the one state of an execution: made for its first pass, the same object in all that follow."""
        state = execution.body_state
        if state is None or not isinstance(state, ThreadState):
            state = execution.body_state = cls(execution, execution)
        return state

    @classmethod
    def at_rest(cls, thread: Thread) -> ThreadState:
        """Return the state of a thread as endpoints and other outsiders have it: without an execution, whoever runs."""
        return cls(RestAccess(thread))

    @property
    def execution(self) -> ExecutionState | None:
        """The execution that runs, one object for all its passes; None at rest."""
        running = self._running
        if running is None and self._execution is not None:
            running = self._running = ExecutionState(self._execution)
        return running

    @property
    def thread_id(self) -> str:
        """The thread's id."""
        return self._access.thread_id

    @property
    def agent_id(self) -> str:
        """The name of the agent that runs the thread; another one after a handoff."""
        flow = None if self.execution is None else self.execution.flow
        return self._access.agent_id if flow is None else flow.agent.name

    @property
    def user_id(self) -> str | None:
        """The user whom the thread belongs to."""
        return self._access.user_id

    @property
    def created_at(self) -> int:
        """When the thread was created, in microseconds."""
        return self._access.created_at

    @property
    def terminated(self) -> int | None:
        """When the thread was terminated, in microseconds; None while it takes input."""
        return self._access.terminated_at

    @property
    def arguments(self) -> Mapping[str, Value]:
        """What the thread was created with, read-only; read from the store when first looked at."""
        if self._arguments is None:
            self._arguments = MappingProxyType(dict(self._access.arguments))
        return self._arguments

    # Values

    def get_value(self, key: str) -> Reply[Value]:
        """Return a value of the thread, None where there is none.

        Fails with InvalidInput: `invalid_name`, or `reserved_name` for one of the runtime's own.
        """
        try:
            check_key(key)
        except TreadleError as error:
            return Reply.failed(error)
        return self._access.get_value(key)

    def set_value(self, key: str, value: object) -> Reply[None]:
        """Set a value of the thread; None deletes it.

        Args:
            key: a non-empty string that does not begin with `treadle:`.
            value: JSON data of at most 1 MiB, 64 deep; a copy is taken.

        Returns:
            A reply once it is durable. Fails with:
            InvalidInput: `invalid_name`, `reserved_name`, `secret_in_name` for a key that holds a secret, or `invalid_value`
                with the path of what is not JSON data.
            LimitExceeded: the value is too large.
            ExecutionFenced: the execution no longer owns its thread.
        """
        try:
            check_key(key)
            checked = check_thread_value(value)
            self._check_names(key=key)
        except TreadleError as error:
            return Reply.failed(error)
        return self._access.set_value(key, checked)

    def list_values(self, search: str | None = None, limit: int = 100, offset: int = 0) -> Reply[ValuePage]:
        """Return a page of the thread's values in the order of their keys.

        Args:
            search: only keys that contain it.
            limit: at most so many, up to 200.
            offset: how many to skip.

        Returns:
            A reply with `values`, each a `key` and its `value`, and `has_more`. Fails with InvalidInput: `invalid_page`.
        """
        return self._access.list_values(search, limit, offset)

    # Inside an execution

    def checkpoint(self) -> Reply[list[Message]]:
        """Join what has arrived for this execution since it was last looked at, in order.

        Returns:
            A reply with the joined messages, empty while tool calls are open. Fails with:
            ExecutionCancelled: the execution was interrupted; what waits stays unread.
            ExecutionFenced: the execution no longer owns its thread.
            InvalidInput: `no_active_execution`, at rest.
        """
        if self._execution is None:
            return Reply.failed(_at_rest("checkpoint"))
        return self._execution.consume()

    def sleep(self, seconds: float) -> Reply[None]:
        """Wait on the runtime's clock, so that an interrupt ends it at once and a fake clock drives it.

        Args:
            seconds: from 0 to 1e9.

        Returns:
            A reply after that time. Fails with:
            InvalidInput: `invalid_value`, or `no_active_execution` at rest.
            ExecutionCancelled, ExecutionFenced: the execution was interrupted, or is over.
        """
        # `type` on purpose: True is no number of seconds.
        if type(seconds) not in {int, float} or not 0 <= seconds <= SECONDS_MAX:
            why = f"seconds must be a number from 0 to {SECONDS_MAX}, not {shorten(seconds)}"
            return Reply.failed(InvalidInput(why, code="invalid_value", value=shorten(seconds)))
        if self._execution is None:
            return Reply.failed(_at_rest("sleep"))
        return self._execution.sleep(float(seconds))

    def request(
        self, kind: str, payload: object = None, timeout: float | None = None, *, request_id: str | None = None
    ) -> Reply[Value]:
        """Ask somebody outside (for an approval, a clarification, a tool's result) and wait for the answer.

        The execution goes on running. The request is durable, is pushed to whoever watches, and is listed in the thread's
        `state().pending_requests` until `Thread.respond` answers it.

        Args:
            kind: what is asked for, a code of at most 128 printable ASCII characters: `approval`.
            payload: JSON data of at most 1 MiB for whoever answers; a copy is taken, without secrets.
            timeout: seconds on the runtime's clock until it expires; None waits without end.
            request_id: never used before in this thread; made where none is given.

        Returns:
            A reply with the answer, once that is durable. Fails with:
            RequestExpired: nobody answered in time.
            ExecutionCancelled: the execution is or was interrupted; the request is abandoned.
            ExecutionFenced: the execution no longer owns its thread.
            InvalidInput: an argument is wrong, `secret_in_name` for a kind or an id, `request_exists`, or `no_active_execution` at rest.
            LimitExceeded: the payload is too large, or too much is open.
        """
        if self._execution is None:
            return Reply.failed(_at_rest("request"))
        try:
            self._check_names(kind=kind, request_id=request_id)
            redactor = self._redactor()
            if redactor is not None:
                # Checked first: a circle has no end that it could come to.
                payload = redactor.data(check_value(payload))
        except TreadleError as error:
            return Reply.failed(error)
        return self._execution.request(kind, payload, request_id=request_id, timeout=timeout)

    def stop_session(
        self, result: str | None = None, notify_parent: str | None = None, status: str | None = None
    ) -> Reply[None]:
        """End the agent's session after the current operation, also from a sub-prompt; never the thread.

        The execution ends as `succeeded` with reason `state_stop_session`. The first call counts.

        Args:
            result: what the session came to, by default "Session stopped.".
            notify_parent: text for the parent thread; without a parent it is only checked.
            status: the label that this thread has in its parent's list from then on.

        Returns:
            A reply that is there. Fails with:
            InvalidInput: `no_active_execution` at rest, `empty_content` for an empty text.
            ExecutionFenced: the execution is over.
        """
        execution = self._execution
        if execution is None:
            return Reply.failed(_at_rest("stop_session"))
        if execution.fenced:
            return Reply.failed(ExecutionFenced(execution.id))
        try:
            for name, text in (("result", result), ("notify_parent", notify_parent), ("status", status)):
                if text is not None:
                    _check_label(name, text)
        except InvalidInput as error:
            return Reply.failed(error)
        flow = self.scene.flow
        if flow is None:
            execution.stop("state_stop_session")
        else:
            flow.end_session(SessionEnd("state_stop_session", result or SESSION_STOPPED, status))
        return Reply.of(None)

    # Lifecycle

    def status(self) -> Reply[ThreadStatus]:
        """Return the thread's run status as it was last published; the label of `set_status` is something else."""
        return self._access.status()

    def set_status(self, label: str) -> Reply[None]:
        """Set the label that this thread has in its parent's list; without a parent it is only checked.

        Returns:
            A reply once it is durable. Fails with InvalidInput: `empty_content`.
        """
        try:
            _check_label("the label", label)
        except InvalidInput as error:
            return Reply.failed(error)
        return Reply.of(None)  # no thread has a parent yet

    def terminate(self) -> Reply[int]:
        """Take no further input, ever. Repeats change nothing.

        The execution that runs goes the way of an interrupt: its own wait for this reply too ends as cancelled.

        Returns:
            A reply with the time of the first termination, in microseconds, once it is durable.
        """
        return self._access.terminate()

    def emit(self, event: str, data: object = None) -> Reply[bool]:
        """Show `{"type": "event", "event": event, "data": data}` to those who watch the thread now; stored nowhere.

        Args:
            event: a name of the caller's own.
            data: JSON data of at most 256 KiB; secrets are taken out.

        Returns:
            A reply that is there: whether anybody watches. Fails with InvalidInput, LimitExceeded: it is no such frame.
        """
        try:
            if not isinstance(event, str) or not event:
                raise InvalidInput(
                    f"an event's name is a non-empty string, not {shorten(event)}",
                    code="invalid_frame",
                    value=shorten(event),
                )
            frame: JsonObject = {"type": "event", "event": event, "data": check_value(data)}
            return Reply.of(self._access.emit(self.scene.env.redactor.data(frame)))
        except TreadleError as error:
            return Reply.failed(error)

    def __repr__(self) -> str:
        return f"<ThreadState {self.thread_id} {'at rest' if self.execution is None else self.execution.id}>"


def _at_rest(verb: str) -> InvalidInput:
    return InvalidInput(f"{verb} requires active execution; the thread is at rest", code="no_active_execution")


def _check_label(name: str, text: object) -> None:
    if not isinstance(text, str) or not text.strip():
        raise InvalidInput(
            f"{name} is text and not empty, not {shorten(text)}", code="empty_content", value=shorten(text)
        )
