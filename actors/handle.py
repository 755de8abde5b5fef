"""Owns `Thread`, the handle through which everybody outside speaks to a thread. Keeps no state of the thread.

Whatever crosses the mailbox returns a `Reply`; every input is checked on the caller's worker, before the mailbox, so that
bad input gets its error before anything is stored. All errors of a call come through its reply; only `TypeError` and
`ThreadOverloaded` come at the call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from ..protocol.cursors import Cursor
from ..protocol.errors import InvalidInput, RuntimeClosed, TreadleError, shorten
from ..protocol.ids import check_id, check_name
from ..protocol.messages import ROLES, Content, Message, draft_message, draft_messages, draft_size
from ..protocol.receipts import ControlReceipt, Receipt, RespondStatus, Withdrawal
from ..protocol.triggers import (
    Inject,
    Interrupt,
    Queue,
    Respond,
    Resume,
    SetValue,
    Steer,
    Stop,
    Submit,
    Terminate,
    Trigger,
    Withdraw,
)
from ..protocol.values import JsonObject, Value, check_value
from ..storage.codec import pack
from .checks import awaited, check_one_of, check_reason, check_seconds
from .digests import control_digest, input_digest
from .execution import current_execution
from .explain import Explanation, explain
from .live_state import ThreadLiveState
from .mailbox import Mail
from .own_thread import answer
from .reads import (
    ExecutionPage,
    MessagePage,
    execution_page,
    execution_record,
    read_beside,
    read_message,
    read_messages,
    read_recorded,
    read_thread_value,
)
from .reply import Reply
from .services import new_id
from .waiting import over_or_noted

if TYPE_CHECKING:
    from ..protocol.executions import ExecutionRecord
    from ..protocol.status import ThreadStatus
    from .directory import Entry
    from .services import Services
    from .subscription import EventSubscription, StreamSubscription

__all__ = ["Thread", "ThreadLiveState"]

T = TypeVar("T")

_USER = frozenset({"user"})
_QUEUED = frozenset({"user", "assistant"})
_ON_BUSY = ("reject", "queue", "steer", "interrupt")
_SOURCES = ("user", "system", "parent")

OnBusy = Literal["reject", "queue", "steer", "interrupt"]


class Thread:
    """A handle on one conversation. Cheap; usable from any worker and any event loop; two handles on one id are equal."""

    __slots__ = ("_entry", "_services", "id")

    def __init__(self, services: Services, thread_id: str, entry: Entry | None = None) -> None:
        self._services = services
        self._entry = entry
        self.id = thread_id

    def __repr__(self) -> str:
        return f"<Thread {self.id!r}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Thread) and (other.id, other._services) == (self.id, self._services)

    def __hash__(self) -> int:
        return hash(self.id)

    # Inputs

    def submit(
        self, content: Content, *, input_id: str | None = None, on_busy: OnBusy = "reject", timeout: float | None = None
    ) -> Reply[Receipt]:
        """Hand in an input that wants an execution of its own (contract A.4, semantics 3).

        Args:
            content: a text, or a list of texts and messages; user messages only, at most 1 MiB each.
            input_id: makes the call repeatable: the same id with the same content gets the first receipt again.
            on_busy: what to do where an execution owns the thread: `reject` it, `queue` it behind, `steer` the
                execution with it, or `interrupt` the execution and run next.
            timeout: seconds that its execution may take.

        Returns:
            A receipt `accepted`, `queued` or `busy`. Accepted and queued inputs are durable when it is there.

        Raises:
            InvalidInput, LimitExceeded, ThreadNotFound, ThreadTerminated, AgentNotFound, IdempotencyConflict: nothing
                was stored.
            Unavailable: repeat with the same `input_id`.
        """

        def make() -> tuple[Trigger, int]:
            check_one_of("on_busy", on_busy, _ON_BUSY)
            drafts, size = draft_messages(content, self._new_id, role="user", roles=_USER)
            given, digest = self._id("input_id", input_id), None
            if input_id is not None:
                digest = input_digest("submit", None, drafts, on_busy, hold=False)
            return Submit(given, drafts, size, digest, on_busy, check_seconds("timeout", timeout)), size

        return self._send(make)

    def queue_message(
        self, content: Content, *, role: str = "user", input_id: str | None = None, silent: bool = False,
        metadata: JsonObject | None = None, attachments: list[JsonObject] | None = None,
    ) -> Reply[Receipt]:  # fmt: skip
        """Queue a message: it joins the active execution at its next boundary, or starts one (contract D.4).

        Returns:
            A receipt `queued`; `held` says that it waits for `resume()` or the next submit. Durable when it is there.

        Raises:
            As `submit`.
        """

        def make() -> tuple[Trigger, int]:
            if isinstance(content, str):
                draft = draft_message(
                    self._new_id(),
                    role,
                    content,
                    roles=_QUEUED,
                    silent=silent,
                    metadata=metadata,
                    attachments=attachments,
                )
                drafts, size = [draft], draft_size(draft)
            else:
                if silent or metadata is not None or attachments is not None:
                    raise InvalidInput(
                        "silent, metadata and attachments go with a text; a list of messages carries its own",
                        code="invalid_content",
                        value=shorten(content),
                    )
                drafts, size = draft_messages(content, self._new_id, role=role, roles=_QUEUED)
            given, digest = self._id("input_id", input_id), None
            if input_id is not None:
                digest = input_digest("queue", None, drafts, "", hold=False)
            sender = current_execution.get()
            return Queue(given, drafts, size, digest, sender.id if sender is not None else None), size

        return self._send(make)

    def withdraw(self, input_id: str) -> Reply[Withdrawal]:
        """Take a waiting input back as a whole: `withdrawn`, `already_delivered` or `not_found`."""
        return self._send(lambda: (Withdraw(check_id("input_id", input_id)), 0))

    def inject_message(
        self, role: str, content: str | None, *, silent: bool = False, metadata: JsonObject | None = None,
        attachments: list[JsonObject] | None = None,
    ) -> Reply[Message]:  # fmt: skip
        """Put a message into history at once; it starts nothing (contract D.3). Durable when the reply is there.

        Raises:
            InvalidInput, LimitExceeded, ThreadNotFound, ThreadTerminated: nothing was stored.
        """

        def make() -> tuple[Trigger, int]:
            draft = draft_message(
                self._new_id(), role, content, roles=ROLES, silent=silent, metadata=metadata, attachments=attachments
            )
            return Inject(draft), draft_size(draft)

        return self._send(make)

    # Controls

    def steer(self, execution_id: str, content: Content, *, control_id: str | None = None) -> Reply[ControlReceipt]:
        """Give the execution `execution_id`, and no other, something to read (contract A.5).

        Returns:
            A receipt: `accepted` (durable; one further pass or step of this execution begins with it), or why not.

        Raises:
            As `submit`.
        """

        def make() -> tuple[Trigger, int]:
            target = check_id("execution_id", execution_id)
            drafts, size = draft_messages(content, self._new_id, role="user", roles=_USER)
            given, digest = self._id("control_id", control_id), None
            if control_id is not None:
                digest = input_digest("steer", target, drafts, "", hold=False)
            return Steer(given, drafts, size, digest, target), size

        return self._send(make)

    def interrupt(
        self, execution_id: str, *, reason: str | None = None, source: Literal["user", "system", "parent"] = "user",
        hold: bool = False, control_id: str | None = None,
    ) -> Reply[ControlReceipt]:  # fmt: skip
        """End the execution `execution_id`, and no other (contract A.5).

        Args:
            reason: text for people, at most 1,024 characters.
            source: who asks; a user's interrupt settles with reason `aborted_by_user`, others with `aborted`.
            hold: let nothing that waits start by itself afterwards.
            control_id: makes the call repeatable.

        Returns:
            A receipt: `accepted` (recorded; no pass, model request or tool call begins after it), or why not.
        """

        def make() -> tuple[Trigger, int]:
            target = check_id("execution_id", execution_id)
            check_reason(reason)
            check_one_of("source", source, _SOURCES)
            if type(hold) is not bool:
                raise InvalidInput(f"hold is a bool, not {shorten(hold)}", code="invalid_hold", value=shorten(hold))
            given = None if control_id is None else check_id("control_id", control_id)
            digest = None if control_id is None else control_digest("interrupt", target, hold=hold)
            return Interrupt(target, reason=reason, source=source, hold=hold, control_id=given, digest=digest), 0

        return self._send(make)

    def stop(self) -> Reply[ControlReceipt]:
        """Interrupt whatever is active, and hold the thread: nothing that waits starts by itself."""
        return self._send(lambda: (Stop(), 0))

    def resume(self) -> Reply[Receipt]:
        """Lift the hold and start what waits or, with nothing waiting, run on the history there is."""
        return self._send(lambda: (Resume(), 0))

    def terminate(self) -> Reply[int]:
        """Close the thread for good: it takes no further input. Returns since when, microseconds; idempotent."""
        return self._send(lambda: (Terminate("user"), 0))

    # Requests and values

    def respond(self, request_id: str, value: object) -> Reply[RespondStatus]:
        """Answer a request of the live execution (`state().pending_requests`); the first answer is the one.

        Returns:
            `accepted` (durable, and its body gets it), `already_resolved`, `timed_out`, `cancelled` (its execution was
            interrupted or is over) or `not_found`. Fails with InvalidInput or LimitExceeded: `value` is no JSON data.
        """

        def make() -> tuple[Trigger, int]:
            given, checked = check_id("request_id", request_id), check_value(value)
            return Respond(given, checked, check_value(checked)), len(pack(checked))

        return self._send(make)

    def get_value(self, key: str) -> Reply[Value]:
        """Return a value of the thread, None where there is none; blocks for one read."""
        return self._read(lambda entry: read_thread_value(self._services, entry, key))

    def set_value(self, key: str, value: object) -> Reply[None]:
        """Set a value, or delete it with None; durable when the reply is there.

        Raises:
            InvalidInput, LimitExceeded: `value` is no JSON data within the limits; nothing was stored.
        """

        def make() -> tuple[Trigger, int]:
            name = check_name("key", key)
            encoded = None if value is None else pack(check_value(value))
            return SetValue(name, encoded), len(encoded or b"")

        return self._send(make)

    # Looking and waiting

    def wait(self, target: str | Receipt | ControlReceipt) -> Reply[ExecutionRecord]:
        """Wait for an execution, or the one that an input comes to, to end; return its record.

        Args:
            target: an execution id, or a receipt: a queued one follows its input into its execution.

        Raises:
            ExecutionNotFound, InputNotFound, InputWithdrawn, ThreadTerminated: there is nothing to wait for.
            WaitCycle: called inside an execution, it would close a circle of waits.
        """
        reply: Reply[ExecutionRecord] = Reply()
        try:
            entry = self._resolve()
            wanted = awaited(target)
            sender = current_execution.get()
            if sender is not None and not sender.fenced and over_or_noted(self._services, entry, sender, wanted, reply):
                return reply
        except TreadleError as error:
            reply.fail(error)
            return reply
        entry.mailbox.put(Mail(wanted, reply))
        return reply

    def receipt(self, given_id: str) -> Reply[Receipt | ControlReceipt]:
        """Return the first receipt under an input or control id. Raises: InputNotFound."""
        return self._read(lambda entry: read_recorded(self._services, entry, given_id))

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
        before: str | None = None, after: str | None = None,
    ) -> Reply[MessagePage]:  # fmt: skip
        """Return a page of messages (contract D.3); with `before` or `after` a message id, those next to it."""
        options: dict[str, object] = {
            "limit": limit, "offset": offset, "order": order, "include_silent": include_silent, "max_depth": max_depth,
        }  # fmt: skip
        if before is None and after is None:
            return self._read(lambda entry: read_messages(self._services, entry, **options))
        return self._read(lambda entry: read_beside(self._services, entry, before, after, **options))

    def message(self, message_id: str) -> Reply[Message | None]:
        """Return a message by id, at any depth, waiting ones included; None where there is none."""
        return self._read(lambda entry: read_message(self._services, entry, message_id))

    def executions(self, *, limit: int = 100, offset: int = 0, order: str = "desc") -> Reply[ExecutionPage]:
        """Return a page of execution records, newest first."""
        return self._read(lambda entry: execution_page(self._services, entry, limit=limit, offset=offset, order=order))

    def execution(self, execution_id: str) -> Reply[ExecutionRecord]:
        """Return one execution's record. Raises: ExecutionNotFound."""
        return self._read(lambda entry: execution_record(self._services, entry, execution_id))

    def events(self, after: str | Cursor | None = None) -> EventSubscription:
        """Follow the committed events after a cursor, each once and in order; iterate with `for` or `async for`."""
        return self._services.hub.events(self.id, after)

    def stream(self, after: str | Cursor | None = None) -> StreamSubscription:
        """Follow the thread's frames: a snapshot, then status, committed and live frames (design, section 7)."""
        return self._services.hub.stream(self.id, after)

    # Sending

    def _new_id(self) -> str:
        return new_id(self._services.clock.now_us())

    def _id(self, kind: str, given: str | None) -> str:
        return self._new_id() if given is None else check_id(kind, given)

    def _resolve(self) -> Entry:
        if self._services.closing:
            raise RuntimeClosed("the runtime is closing or closed", thread_id=self.id)
        entry = self._entry
        if entry is None or entry.gone:
            entry = self._entry = self._services.directory.entry(check_id("thread_id", self.id))
        return entry

    def _send(self, make: Callable[[], tuple[Trigger, int]]) -> Reply[Any]:
        reply: Reply[Any] = Reply()
        try:
            entry = self._resolve()
            trigger, size = make()
        except TreadleError as error:
            reply.fail(error)
            return reply
        entry.mailbox.put(Mail(trigger, reply, size))
        return reply

    def _read(self, read: Callable[[Entry], T]) -> Reply[T]:
        return answer(lambda: read(self._resolve()))
