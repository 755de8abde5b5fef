"""Owns `ThreadState`, what an agent's code sees of its thread and may do to it. Keeps nothing durable itself."""

from __future__ import annotations

import sys
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, Protocol

from ..actors.reply import Reply
from ..protocol.errors import InvalidInput, TreadleError, shorten
from ..protocol.ids import check_id, check_name
from ..protocol.limits import PAGE_DEFAULT
from ..protocol.messages import Draft, Message, check_message_id, draft_message, draft_size
from ..protocol.values import JsonObject, Value, check_value
from .execution_state import ExecutionState
from .tool_calls import draft_injected

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..actors.execution import Execution
    from ..actors.reads import MessagePage
    from ..protocol.receipts import Receipt
    from ..protocol.status import ThreadStatus

__all__ = ["ThreadAccess", "ThreadState"]

QUEUE_ROLES: Final = frozenset({"user", "assistant"})


class ThreadAccess(Protocol):
    """What a `ThreadState` asks of its thread: an `Execution` while one runs, something else at rest."""

    @property
    def thread_id(self) -> str: ...  # noqa: D102 - as in `ThreadState`
    @property
    def agent_id(self) -> str: ...  # noqa: D102
    @property
    def user_id(self) -> str | None: ...  # noqa: D102
    @property
    def created_at(self) -> int: ...  # noqa: D102
    @property
    def terminated_at(self) -> int | None: ...  # noqa: D102
    @property
    def arguments(self) -> Mapping[str, Value]: ...  # noqa: D102

    def new_id(self) -> str:
        """Return an unused message id."""

    def append(self, draft: Draft) -> Reply[Message]:
        """Put a checked message into history at once."""

    def queue(self, drafts: list[Draft], size: int, *, input_id: str | None = None) -> Reply[Receipt]:
        """Store checked messages to be read at the next boundary."""

    def read_messages(
        self, *, limit: int, offset: int, order: Literal["asc", "desc"] | None, include_silent: bool, max_depth: int
    ) -> Reply[MessagePage]:
        """Return a page of history; judges its arguments."""

    def read_message(self, message_id: str) -> Reply[Message | None]:
        """Return one message."""

    def get_value(self, key: str) -> Reply[Value]:
        """Return a value, None where there is none."""

    def set_value(self, key: str, value: Value) -> Reply[None]:
        """Set a checked value; None deletes it."""

    def status(self) -> Reply[ThreadStatus]:
        """Return the run status."""

    def terminate(self) -> Reply[int]:
        """Take no further input, ever."""


class ThreadState:
    """A thread as its agent sees it; one object for all passes of an execution.

    Whatever reads or writes returns a `Reply`: `await` it in a coroutine, `.result()` it in a plain function. Bad input
    comes through the reply, before anything is written. Any worker may call.

    Attributes:
        context: scratch space of one execution, shared by all its passes; never durable.
        execution: the execution that runs; None at rest.
    """

    __slots__ = ("_access", "_arguments", "_execution", "context", "execution")

    def __init__(self, access: ThreadAccess, execution: Execution | None = None) -> None:
        self._access = access
        self._execution = execution
        self._arguments: Mapping[str, Value] | None = None
        self.context: JsonObject = {}
        self.execution = None if execution is None else ExecutionState(execution)

    @classmethod
    def of(cls, execution: Execution) -> ThreadState:
        """Return the one state of an execution: made for its first pass, the same object in all that follow."""
        state = execution.body_state
        if not isinstance(state, ThreadState):
            state = execution.body_state = cls(execution, execution)
        return state

    @property
    def thread_id(self) -> str:
        """The thread's id."""
        return self._access.thread_id

    @property
    def agent_id(self) -> str:
        """The name of the agent that runs the thread."""
        return self._access.agent_id

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

    def inject_message(
        self,
        role: str,
        content: str | None = None,
        *,
        silent: bool = False,
        metadata: Mapping[str, object] | None = None,
        attachments: Sequence[Mapping[str, object]] | None = None,
        name: str | None = None,
        tool_calls: str | Sequence[Mapping[str, object]] | None = None,
        tool_call_id: str | None = None,
        tool_status: Literal["success", "error"] | None = None,
    ) -> Reply[Message]:
        """Put a message into history at once; it never starts an execution.

        An assistant message with `tool_calls` opens these calls for the execution: waiting messages join only after each
        has its one result, a `tool` message with its `tool_call_id`. What is open at the end gets an error result.

        Args:
            role: `system`, `user`, `assistant` or `tool`.
            content: at most 1 MiB of UTF-8; may be left out beside tool calls and attachments, and on a tool message.
            silent: kept from people's view, still in history and in what a model reads.
            metadata: JSON data.
            attachments: at most 256 dicts of JSON data.
            name: of a tool, on its message.
            tool_calls: of an assistant message: a list of calls, or its JSON text.
            tool_call_id: the call that a tool message answers; without one it closes none.
            tool_status: of a tool message.

        Returns:
            A reply with the message once it is durable. Fails with:
            InvalidInput, LimitExceeded: the message is not one; `call_not_open` where the call is answered or unknown.
            ExecutionFenced: the execution no longer owns its thread.
        """
        access = self._access
        try:
            draft = draft_injected(
                access.new_id(), role, content, silent=silent, metadata=metadata, attachments=attachments, name=name,
                tool_calls=tool_calls, tool_call_id=tool_call_id, tool_status=tool_status,
            )  # fmt: skip
        except TreadleError as error:
            return Reply.failed(error)
        return access.append(draft)

    def queue_message(
        self,
        content: str,
        role: str = "user",
        *,
        silent: bool = False,
        metadata: Mapping[str, object] | None = None,
        attachments: Sequence[Mapping[str, object]] | None = None,
        input_id: str | None = None,
    ) -> Reply[Receipt]:
        """Store a message to be read at the next boundary: `checkpoint()`, a further pass, or the next execution.

        Args:
            content: at most 1 MiB of UTF-8.
            role: `user` or `assistant`.
            silent: kept from people's view.
            metadata: JSON data.
            attachments: at most 256 dicts of JSON data.
            input_id: makes a repeat harmless: the same id with the same content gets the first receipt.

        Returns:
            A reply with a `queued` receipt once it is durable. Fails with:
            InvalidInput, LimitExceeded: the message or the id is not one, or too much waits.
            IdempotencyConflict: the id was used for other content.
            ThreadTerminated: the thread takes no further input.
            ExecutionFenced: the execution no longer owns its thread.
        """
        access = self._access
        try:
            if input_id is not None:
                check_id("input_id", input_id)
            draft = draft_message(
                access.new_id(),
                role,
                content,
                roles=QUEUE_ROLES,
                silent=silent,
                metadata=metadata,
                attachments=attachments,
            )
        except TreadleError as error:
            return Reply.failed(error)
        return access.queue([draft], draft_size(draft), input_id=input_id)

    def get_messages(
        self,
        limit: int = PAGE_DEFAULT,
        offset: int = 0,
        order: Literal["asc", "desc"] | None = None,
        *,
        include_silent: bool = False,
        max_depth: int = 0,
    ) -> Reply[MessagePage]:
        """Return a page of history; what waits in the inbox is listed after it and counted.

        Args:
            limit: at most so many messages, up to 1,000.
            offset: how many to skip: the oldest with `asc`, else the newest.
            order: of the page: `asc` oldest first, `desc` newest first; None is the newest page, oldest first.
            include_silent: silent messages too.
            max_depth: messages of sub-prompts down to this depth too.

        Returns:
            A reply with `messages`, `total` and `has_more`. Fails with InvalidInput: `invalid_page`.
        """
        return self._access.read_messages(
            limit=limit, offset=offset, order=order, include_silent=include_silent, max_depth=max_depth
        )

    def get_message(self, message_id: str) -> Reply[Message | None]:
        """Return a message by id, at any depth, one that waits included; None where there is none."""
        try:
            check_message_id(message_id)
        except TreadleError as error:
            return Reply.failed(error)
        return self._access.read_message(message_id)

    def get_value(self, key: str) -> Reply[Value]:
        """Return a value of the thread, None where there is none. Fails with InvalidInput: `invalid_name`."""
        try:
            check_name("key", key)
        except TreadleError as error:
            return Reply.failed(error)
        return self._access.get_value(key)

    def set_value(self, key: str, value: object) -> Reply[None]:
        """Set a value of the thread; None deletes it.

        Args:
            key: a non-empty string.
            value: JSON data of at most 1 MiB, 64 deep; a copy is taken.

        Returns:
            A reply once it is durable. Fails with:
            InvalidInput: `invalid_name`, or `invalid_value` with the path of what is not JSON data.
            LimitExceeded: the value is too large.
            ExecutionFenced: the execution no longer owns its thread.
        """
        try:
            check_name("key", key)
            checked = check_value(value)
        except TreadleError as error:
            return Reply.failed(error)
        return self._access.set_value(key, checked)

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
            seconds: finite, at least 0.

        Returns:
            A reply after that time. Fails with:
            InvalidInput: `invalid_value`, or `no_active_execution` at rest.
            ExecutionCancelled: the execution is or was interrupted.
        """
        # `type` on purpose: True is no number of seconds.
        if type(seconds) not in {int, float} or not 0 <= seconds <= sys.float_info.max:
            why = f"seconds must be a finite number of at least 0, not {shorten(seconds)}"
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
            payload: JSON data of at most 1 MiB for whoever answers; a copy is taken.
            timeout: seconds on the runtime's clock until it expires; None waits without end.
            request_id: never used before in this thread; made where none is given.

        Returns:
            A reply with the answer, once that is durable. Fails with:
            RequestExpired: nobody answered in time.
            ExecutionCancelled: the execution is or was interrupted; the request is abandoned.
            ExecutionFenced: the execution no longer owns its thread.
            InvalidInput: an argument is wrong, `request_exists`, or `no_active_execution` at rest.
            LimitExceeded: the payload is too large, or too much is open.
        """
        if self._execution is None:
            return Reply.failed(_at_rest("request"))
        return self._execution.request(kind, payload, request_id=request_id, timeout=timeout)

    def status(self) -> Reply[ThreadStatus]:
        """Return the thread's run status as it was last published."""
        return self._access.status()

    def terminate(self) -> Reply[int]:
        """Take no further input, ever. Repeats change nothing.

        The execution that runs goes the way of an interrupt: its own wait for this reply too ends as cancelled.

        Returns:
            A reply with the time of the first termination, in microseconds, once it is durable.
        """
        return self._access.terminate()

    def __repr__(self) -> str:
        return f"<ThreadState {self.thread_id} {'at rest' if self.execution is None else self.execution.id}>"


def _at_rest(verb: str) -> InvalidInput:
    return InvalidInput(f"{verb} needs an active execution; the thread is at rest", code="no_active_execution")
