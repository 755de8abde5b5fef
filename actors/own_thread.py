"""Owns what a body may ask of its own thread and write to it, by mail that carries its execution's id. Decides nothing.

Whatever comes after the fence is refused here at once, and by the table where it was on its way already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from ..protocol.errors import AgentNotFound, TreadleError, shorten
from ..protocol.frames import live_frame
from ..protocol.handoffs import ChangeAgent
from ..protocol.ids import check_internal, check_key
from ..protocol.messages import Draft, Message, draft_size
from ..protocol.queued_tools import draft_queued_tool
from ..protocol.triggers import Append, Consume, Queue, SetValue, Terminate, Trigger
from ..protocol.trusted import added
from ..storage.codec import pack
from .digests import input_digest
from .fence import ExecutionFenced
from .mailbox import Mail
from .message_edits import deleting, updating
from .message_history import MessageHistory
from .reads import (
    MessagePage,
    ValuePage,
    read_created,
    read_internal,
    read_message,
    read_messages,
    read_thread_value,
    value_page,
)
from .reply import Reply
from .services import new_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..protocol.receipts import Receipt
    from ..protocol.status import ThreadStatus
    from ..protocol.values import JsonObject, Value
    from .directory import Entry
    from .services import Services

__all__ = ["OwnThread", "answer"]

T = TypeVar("T")


class OwnThread:
    """The thread that an execution owns, as its body reaches it; `Execution` is one."""

    __slots__ = ()

    services: Services
    entry: Entry
    id: str
    thread_created_at: int
    _fenced: bool

    @property
    def thread_id(self) -> str:
        """The thread that it owns."""
        return self.entry.thread_id

    @property
    def created_at(self) -> int:
        """When the thread was created, microseconds."""
        return self.thread_created_at

    @property
    def history(self) -> MessageHistory:
        """The thread's live history, read when looked at."""
        return MessageHistory(self.services, self.entry)

    @property
    def arguments(self) -> dict[str, Value]:
        """What the thread was created with; blocks for one read."""
        return dict(read_created(self.services, self.entry).arguments or {})

    def environment(self) -> dict[str, str]:
        """Return the variables that the thread was created with, by name; blocks for one read."""
        return dict(read_created(self.services, self.entry).env or {})

    @property
    def terminated_at(self) -> int | None:
        """When the thread was terminated, microseconds; None while it takes input."""
        return self.services.directory.snapshot(self.entry).terminated_at

    def new_id(self) -> str:
        """Return a fresh message id."""
        return new_id(self.services.clock.now_us())

    def append(self, draft: Draft, size: int | None = None) -> Reply[Message]:
        """Put a message into history; durable and visible when the reply is there. `size`: as `draft_size` measures it."""
        # Spelled out, as the one thing that nearly every body does.
        reply: Reply[Message] = Reply()
        if self._fenced:
            reply.fail(ExecutionFenced(self.id))
            return reply
        if size is None:
            size = draft_size(draft)
        self.entry.mailbox.put(Mail(Append(self.id, added(self.id, draft), size), reply, size))
        return reply

    def consume(self) -> Reply[list[Message]]:
        """Let what has arrived join history and return it: a step boundary. Ends with ExecutionCancelled once interrupted."""
        return self._send(Consume(self.id))

    def queue(self, drafts: list[Draft], size: int, input_id: str | None = None) -> Reply[Receipt]:
        """Queue a message to the own thread; it joins at the next boundary, or starts the next execution."""
        digest = input_digest("queue", None, drafts, "", hold=False) if input_id is not None else None
        trigger = Queue(input_id or self.new_id(), drafts, size, digest, originating=self.id)
        trigger.execution_id = self.id
        return self._send(trigger, size)

    def update_message(self, message_id: str, changes: JsonObject) -> Reply[Message]:
        """Change `content` or `metadata` of a message of the thread; what they do and raise: `Thread.update_message`."""
        return self._edit(lambda: updating(message_id, changes, self.id))

    def delete_message(self, message_id: str) -> Reply[bool]:
        """Take a message out of the thread; what that does and raises: `Thread.delete_message`."""
        return self._edit(lambda: deleting(message_id, self.id))

    def queue_tool(self, name: str, args: JsonObject | None = None) -> Reply[Receipt]:
        """Have a tool called at the thread's next boundary, in this execution or the next one; as `Thread.queue_tool`."""
        try:
            draft, size = draft_queued_tool(self.new_id(), self.new_id(), name, args)
        except TreadleError as error:
            return Reply.failed(error)
        trigger = Queue(self.new_id(), [draft], size, None, self.id, self.id)
        trigger.tool = True
        return self._send(trigger, size)

    def get_value(self, key: str) -> Reply[Value]:
        """Return a value of the thread, None where there is none; blocks for one read."""
        return answer(lambda: read_thread_value(self.services, self.entry, key))

    def set_value(self, key: str, value: Value) -> Reply[None]:
        """Set a value of the thread, or delete it with None; durable when the reply is there.

        Fails with InvalidInput: `reserved_name`; it is one of the runtime's own.
        """
        return self._set(check_key, key, value)

    def list_values(self, search: str | None = None, limit: int = 100, offset: int = 0) -> Reply[ValuePage]:
        """Return a page of the thread's values; blocks for one page of reads."""
        return answer(lambda: value_page(self.services, self.entry, search=search, limit=limit, offset=offset))

    def get_internal(self, key: str) -> Reply[Value]:
        """Return a value of the runtime's own layers, None where there is none; blocks for one read."""
        return answer(lambda: read_internal(self.services, self.entry, key))

    def set_internal(self, key: str, value: Value) -> Reply[None]:
        """Set a value that no user sees, under a key of at most 256 bytes that begins with `treadle:`; as `set_value`."""
        return self._set(check_internal, key, value)

    def _set(self, check: Callable[[object], str], key: str, value: Value) -> Reply[None]:
        try:
            name, encoded = check(key), None if value is None else pack(value)
        except TreadleError as error:
            return Reply.failed(error)
        return self._send(SetValue(name, encoded, self.id), len(encoded or b""))

    def read_messages(self, **options: Any) -> Reply[MessagePage]:
        """Return a page of messages; blocks for one page of reads."""
        return answer(lambda: read_messages(self.services, self.entry, **options))

    def read_message(self, message_id: str) -> Reply[Message | None]:
        """Return a message by id; blocks for one read."""
        return answer(lambda: read_message(self.services, self.entry, message_id))

    def status(self) -> Reply[ThreadStatus]:
        """Return the thread's run status."""
        return answer(lambda: self.services.directory.snapshot(self.entry).status)

    def emit(self, frame: object) -> bool:
        """Show a frame to those who watch the thread now; stored nowhere, never blocks.

        Args:
            frame: JSON data of at most 256 KiB with a `type` of its own, as `{"type": "message_chunk", ...}`.

        Returns:
            Whether anybody watches. A slow watcher may be told of a gap instead. False once the execution is over.

        Raises:
            InvalidInput, LimitExceeded: it is no such frame.
        """
        shown = live_frame(frame)
        return not self._fenced and self.services.hub.live(self.entry, shown)

    def change_agent(self, name: str) -> Reply[None]:
        """Give the thread to another registered agent; durable when the reply is there.

        This execution goes on, with its body and its options; what starts next is the new agent's.

        Fails with AgentNotFound: nothing was stored. ExecutionCancelled, ExecutionFenced: interrupted, or over.
        """
        if not isinstance(name, str) or name not in self.services.agents:
            return Reply.failed(AgentNotFound(f"no agent {shorten(name)} is registered", agent=shorten(name)))
        return self._send(ChangeAgent(self.id, name))

    def terminate(self) -> Reply[int]:
        """Close the own thread for good; the execution then goes the way of an interrupt."""
        return self._send(Terminate("system"))

    def _edit(self, make: Callable[[], tuple[Trigger, int]]) -> Reply[Any]:
        try:
            trigger, size = make()
        except TreadleError as error:
            reply: Reply[Any] = Reply()
            reply.fail(error)
            return reply
        return self._send(trigger, size)

    def _send(self, trigger: Trigger, size: int = 0) -> Reply[Any]:
        reply: Reply[Any] = Reply()
        if self._fenced:
            reply.fail(ExecutionFenced(self.id))
            return reply
        self.entry.mailbox.put(Mail(trigger, reply, size))
        return reply


def answer(read: Callable[[], T]) -> Reply[T]:
    """Return a reply with what a read gives, or its error: errors of a call come through its reply."""
    reply: Reply[T] = Reply()
    try:
        reply.set(read())
    except TreadleError as error:
        reply.fail(error)
    return reply
