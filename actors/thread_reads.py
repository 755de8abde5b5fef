"""Owns what a thread's handle reads and shows: status, history, values, streams. Writes nothing that lasts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from ..protocol.cursors import Cursor
from ..protocol.errors import RuntimeClosed
from ..protocol.frames import emitted_frame
from ..protocol.ids import check_id
from ..protocol.messages import Message
from ..protocol.receipts import ControlReceipt, Receipt
from ..protocol.values import Value
from .explain import Explanation, explain
from .listing import ThreadSummary, summarise
from .live_state import ThreadLiveState
from .own_thread import answer
from .reads import (
    ExecutionPage,
    MessagePage,
    ValuePage,
    execution_page,
    execution_record,
    read_beside,
    read_created,
    read_internal,
    read_message,
    read_messages,
    read_recorded,
    read_thread_value,
    value_page,
)
from .reply import Reply
from .waiting import execution_of

if TYPE_CHECKING:
    from ..protocol.executions import ExecutionRecord
    from ..protocol.status import ThreadStatus
    from .directory import Entry
    from .services import Services
    from .subscription import EventSubscription, StreamSubscription

__all__ = ["TAGS_KEY", "ThreadReads"]

TAGS_KEY = "treadle:tags"  # where tags stand once they were replaced

T = TypeVar("T")


class ThreadReads:
    """The reading side of a handle; `Thread` is one. Usable from any worker; a reply here blocks for the reads it says."""

    __slots__ = ("_entry", "_services", "id")

    def __init__(self, services: Services, thread_id: str, entry: Entry | None = None) -> None:
        self._services = services
        self._entry = entry
        self.id = thread_id

    def __repr__(self) -> str:
        return f"<Thread {self.id!r}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ThreadReads) and (other.id, other._services) == (self.id, self._services)

    def __hash__(self) -> int:
        return hash(self.id)

    def get_value(self, key: str) -> Reply[Value]:
        """Return a value of the thread, None where there is none; blocks for one read."""
        return self._read(lambda entry: read_thread_value(self._services, entry, key))

    def list_values(self, search: str | None = None, limit: int = 100, offset: int = 0) -> Reply[ValuePage]:
        """Return a page of the thread's values in the order of their keys, long keys last (contract D.5).

        Args:
            search: only keys that contain it; then all keys up to the page are looked at, else the page is what it costs.
            limit: at most 200; large values make a page shorter.
            offset: how many to skip.
        """
        return self._read(lambda entry: value_page(self._services, entry, search=search, limit=limit, offset=offset))

    def get_internal(self, key: str) -> Reply[Value]:
        """Return a value of the runtime's own layers (`treadle:...`), None where there is none; blocks for one read."""
        return self._read(lambda entry: read_internal(self._services, entry, key))

    def environment(self) -> Reply[dict[str, str]]:
        """Return the variables that the thread was created with, by name; no frame ever shows their values."""
        return self._read(lambda entry: dict(read_created(self._services, entry).env or {}))

    def tags(self) -> Reply[list[str]]:
        """Return the names to find the thread by: those that were set last, else those of its creation; two reads."""

        def read(entry: Entry) -> list[str]:
            replaced = read_internal(self._services, entry, TAGS_KEY)
            return list(read_created(self._services, entry).tags if replaced is None else replaced)

        return self._read(read)

    def receipt(self, given_id: str) -> Reply[Receipt | ControlReceipt]:
        """Return the first receipt under an input or control id. Raises: InputNotFound."""
        return self._read(lambda entry: read_recorded(self._services, entry, given_id))

    def user_id(self) -> Reply[str | None]:
        """Return whom the thread belongs to, None where nobody; blocks for one read where the thread is not in use."""
        return self._read(lambda entry: self._services.directory.snapshot(entry).user_id)

    def summary(self) -> Reply[ThreadSummary]:
        """Return the thread as `runtime.threads()` lists it: whose it is, since when, its status; blocks for one read."""
        return self._read(lambda entry: summarise(self._services, entry))

    def status(self) -> Reply[ThreadStatus]:
        """Return the run status (contract C); blocks for one read where the thread is not in use."""
        return self._read(lambda entry: self._services.directory.snapshot(entry).status)

    def state(self) -> Reply[ThreadLiveState]:
        """Return who owns the thread now, what is pending, and up to where history is published."""

        def read(entry: Entry) -> ThreadLiveState:
            shown = self._services.directory.snapshot(entry)
            pending = self._services.hub.pending(shown)
            return ThreadLiveState(
                shown.status, shown.cursor, shown.active, tuple(pending), shown.held, shown.hold_reason, shown.terminated_at,
                shown.waiting, self._services.boot.id,
            )  # fmt: skip

        return self._read(read)

    def explain(self) -> Reply[Explanation]:
        """Say who holds the thread, since when and where, what waits behind, and what will happen next."""
        return self._read(lambda entry: explain(self._services, entry))

    def messages(
        self, *, limit: int = 100, offset: int = 0, order: str | None = None, include_silent: bool = False, max_depth: int = 0,
        before: str | None = None, after: str | None = None, bytes_max: int | None = None,
    ) -> Reply[MessagePage]:  # fmt: skip
        """Return a page of messages (contract D.3); with `before` or `after` a message id, those next to it.

        Args:
            bytes_max: a page ends before it has more than this, but for one message that is larger: then it is shorter
                than `limit`, and `has_more` says that it goes on behind. None for no bound.
        """
        options: dict[str, Any] = {
            "limit": limit, "offset": offset, "order": order, "include_silent": include_silent, "max_depth": max_depth,
            "bytes_max": bytes_max,
        }  # fmt: skip
        if before is None and after is None:
            return self._read(lambda entry: read_messages(self._services, entry, **options))
        return self._read(lambda entry: read_beside(self._services, entry, before, after, **options))

    def message(self, message_id: str) -> Reply[Message | None]:
        """Return a message by id, at any depth, waiting ones included; None where there is none."""
        return self._read(lambda entry: read_message(self._services, entry, message_id))

    def executions(
        self, *, limit: int = 100, offset: int = 0, order: str = "desc", bytes_max: int | None = None
    ) -> Reply[ExecutionPage]:
        """Return a page of execution records, newest first; `bytes_max` as for `messages`."""
        return self._read(
            lambda entry: execution_page(
                self._services, entry, limit=limit, offset=offset, order=order, bytes_max=bytes_max
            )
        )

    def execution(self, execution_id: str) -> Reply[ExecutionRecord]:
        """Return one execution's record. Raises: ExecutionNotFound."""
        return self._read(lambda entry: execution_record(self._services, entry, execution_id))

    def execution_of(self, input_id: str) -> Reply[ExecutionRecord | None]:
        """Return the record of the execution that an input came to, None while it waits; `wait(receipt)` waits for its end.

        Raises:
            InputNotFound, InputWithdrawn, ThreadTerminated: there is none, and there will be none.
        """
        return self._read(lambda entry: execution_of(self._services, entry, input_id))

    def events(self, after: str | Cursor | None = None) -> EventSubscription:
        """Follow the committed events after a cursor, each once and in order; iterate with `for` or `async for`.

        What is the runtime's own is an `Internal` event, and the variables that a thread was created with have no values.

        Args:
            after: the cursor of the last event that the reader has; None for all from the first on.
        """
        return self._services.hub.events(self.id, after)

    def stream(self, after: str | Cursor | None = None) -> StreamSubscription:
        """Follow the thread's frames: a snapshot, then status, committed and live frames (design, section 7).

        The frames of type `thread_status` and the live ones move no cursor. What the snapshot calls `cursor` is the head,
        from where to go on without a past; who gave `after` has yet to read up to there. It begins where its `with` or
        `async with` is entered, without one at the first read: what is done to the thread before that is past.

        Args:
            after: the cursor of the last committed frame that the reader has, or the subscription's own `cursor`; None
                for nothing of the past.
        """
        return self._services.hub.stream(self.id, after)

    def emit(self, event: str, data: object = None) -> bool:
        """Show `{"type": "event", "event": event, "data": data}` to those who watch now; stored nowhere, at rest too.

        Args:
            event: a name of the caller's own.
            data: JSON data of at most 256 KiB.

        Returns:
            Whether anybody watches. Blocks for one read where the thread is not in use.

        Raises:
            InvalidInput, LimitExceeded: it is no such frame.
            ThreadNotFound, RuntimeClosed: nobody can watch.
        """
        shown = emitted_frame(event, data)
        return self._services.hub.live(self._resolve(), shown)

    def _resolve(self) -> Entry:
        if self._services.closing:
            raise RuntimeClosed("the runtime is closing or closed", thread_id=self.id)
        entry = self._entry
        if entry is None or entry.gone:
            entry = self._entry = self._services.directory.entry(check_id("thread_id", self.id))
        return entry

    def _read(self, read: Callable[[Entry], T]) -> Reply[T]:
        return answer(lambda: read(self._resolve()))
