"""Owns what a `ThreadState` asks of its thread, and how a thread at rest answers it: through its handle. Keeps nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol

from ..actors.digests import input_digest
from ..actors.reads import read_created
from ..actors.services import new_id
from ..protocol.frames import live_frame
from ..protocol.messages import Draft, Message, draft_size
from ..protocol.triggers import Inject, Queue

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..actors.directory import Entry
    from ..actors.handle import Thread
    from ..actors.reads import MessagePage, ValuePage
    from ..actors.reply import Reply
    from ..actors.services import Services
    from ..actors.snapshot import Snapshot
    from ..protocol.receipts import Receipt
    from ..protocol.status import ThreadStatus
    from ..protocol.values import JsonObject, Value

__all__ = ["RestAccess", "ThreadAccess"]


class ThreadAccess(Protocol):
    """What a `ThreadState` asks of its thread: an `Execution` while one runs, a `RestAccess` at rest."""

    @property
    def services(self) -> Services: ...  # noqa: D102 - the runtime's own
    @property
    def entry(self) -> Entry: ...  # noqa: D102
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

    def append(self, draft: Draft, size: int | None = None) -> Reply[Message]:
        """Put a checked message into history at once; its size, where that is known, need not be measured."""

    def queue(self, drafts: list[Draft], size: int, input_id: str | None = None) -> Reply[Receipt]:
        """Store checked messages to be read at the next boundary."""

    def update_message(self, message_id: str, changes: JsonObject) -> Reply[Message]:
        """Change content or metadata of a message."""

    def delete_message(self, message_id: str) -> Reply[bool]:
        """Take a message out."""

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

    def list_values(self, search: str | None = None, limit: int = 100, offset: int = 0) -> Reply[ValuePage]:
        """Return a page of values by key."""

    def get_internal(self, key: str) -> Reply[Value]:
        """Return a value of the runtime's own."""

    def set_internal(self, key: str, value: Value) -> Reply[None]:
        """Set a value of the runtime's own; None deletes it."""

    def status(self) -> Reply[ThreadStatus]:
        """Return the run status."""

    def terminate(self) -> Reply[int]:
        """Take no further input, ever."""

    def emit(self, frame: dict[str, object]) -> bool:
        """Show a frame to those who watch now."""


class RestAccess:
    """A thread at rest, or one whose execution is somebody else's: what is done here belongs to no execution."""

    __slots__ = ("_thread",)

    def __init__(self, thread: Thread) -> None:
        self._thread = thread

    # The handle's inner face is used throughout: this is the same handle for other eyes.

    @property
    def services(self) -> Services:
        """The parts of the thread's runtime."""
        return self._thread._services  # noqa: SLF001

    @property
    def entry(self) -> Entry:
        """The thread as its runtime knows it. Raises: ThreadNotFound, RuntimeClosed."""
        return self._thread._resolve()  # noqa: SLF001

    def _shown(self) -> Snapshot:
        return self.services.directory.snapshot(self.entry)

    @property
    def thread_id(self) -> str:
        """The thread's id."""
        return self._thread.id

    @property
    def agent_id(self) -> str:
        """The name of the thread's agent; blocks for one read where the thread is not in use, as what follows."""
        return self._shown().agent_id

    @property
    def user_id(self) -> str | None:
        """The user whom it belongs to."""
        return self._shown().user_id

    @property
    def created_at(self) -> int:
        """When it was created, microseconds."""
        return self._shown().created_at

    @property
    def terminated_at(self) -> int | None:
        """When it was terminated, microseconds."""
        return self._shown().terminated_at

    @property
    def arguments(self) -> dict[str, Value]:
        """What it was created with."""
        return dict(read_created(self.services, self.entry).arguments or {})

    def new_id(self) -> str:
        """Return an unused message id."""
        return new_id(self.services.clock.now_us())

    def append(self, draft: Draft, size: int | None = None) -> Reply[Message]:  # noqa: ARG002 - measured without its calls
        """Put a message into history; it opens and closes no calls, which only an execution has."""
        plain = {key: value for key, value in draft.items() if key not in ("calls", "closes")}
        return self._thread._send(lambda: (Inject(plain), draft_size(plain)))  # noqa: SLF001

    def queue(self, drafts: list[Draft], size: int, input_id: str | None = None) -> Reply[Receipt]:
        """Queue a message; it starts an execution."""
        digest = None if input_id is None else input_digest("queue", None, drafts, "", hold=False)
        return self._thread._send(lambda: (Queue(input_id or self.new_id(), drafts, size, digest, None), size))  # noqa: SLF001

    def update_message(self, message_id: str, changes: JsonObject) -> Reply[Message]:
        """Change content or metadata of a message."""
        return self._thread.update_message(message_id, **changes)

    def delete_message(self, message_id: str) -> Reply[bool]:
        """Take a message out."""
        return self._thread.delete_message(message_id)

    def read_messages(self, **options: Any) -> Reply[MessagePage]:
        """Return a page of history."""
        return self._thread.messages(**options)

    def read_message(self, message_id: str) -> Reply[Message | None]:
        """Return one message."""
        return self._thread.message(message_id)

    def get_value(self, key: str) -> Reply[Value]:
        """Return a value."""
        return self._thread.get_value(key)

    def set_value(self, key: str, value: Value) -> Reply[None]:
        """Set a value."""
        return self._thread.set_value(key, value)

    def list_values(self, search: str | None = None, limit: int = 100, offset: int = 0) -> Reply[ValuePage]:
        """Return a page of values."""
        return self._thread.list_values(search, limit, offset)

    def get_internal(self, key: str) -> Reply[Value]:
        """Return a value of the runtime's own."""
        return self._thread.get_internal(key)

    def set_internal(self, key: str, value: Value) -> Reply[None]:
        """Set a value of the runtime's own."""
        return self._thread.set_internal(key, value)

    def status(self) -> Reply[ThreadStatus]:
        """Return the run status."""
        return self._thread.status()

    def terminate(self) -> Reply[int]:
        """Close the thread for good."""
        return self._thread.terminate()

    def queue_tool(self, name: str, arguments: dict[str, object]) -> Reply[Receipt]:
        """Start an execution that runs one tool."""
        return self._thread.queue_tool(name, arguments)

    def emit(self, frame: dict[str, object]) -> bool:
        """Show a frame to those who watch now."""
        return self.services.hub.live(self.entry, live_frame(frame))

    def __repr__(self) -> str:
        return f"<RestAccess to {self.thread_id}>"
