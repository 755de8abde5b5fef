"""Owns `Thread`, the handle through which everybody outside speaks to a thread. Keeps no state of the thread.

Whatever crosses the mailbox returns a `Reply`; every input is checked on the caller's worker, before the mailbox, so that
bad input gets its error before anything is stored. All errors of a call come through its reply; only `TypeError` and
`ThreadOverloaded` come at the call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from ..protocol.errors import InvalidInput, TreadleError, shorten
from ..protocol.ids import check_id, check_internal, check_key
from ..protocol.message_edits import UNCHANGED, Unchanged
from ..protocol.messages import OVERHEAD, ROLES, Content, Message, draft_message, draft_messages, draft_size, draft_text
from ..protocol.queued_tools import draft_queued_tool
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
from ..protocol.values import JsonObject, check_thread_value, check_value
from ..storage.codec import pack
from .checks import awaited, check_one_of, check_reason, check_seconds, check_tags
from .digests import control_digest, input_digest
from .execution import current_execution
from .live_state import ThreadLiveState
from .mailbox import Mail
from .message_edits import deleting, updating
from .reply import Reply
from .services import new_id
from .thread_reads import TAGS_KEY, ThreadReads
from .waiting import kept_here, over_or_noted, sent

if TYPE_CHECKING:
    from ..protocol.executions import ExecutionRecord

__all__ = ["Thread", "ThreadLiveState"]

T = TypeVar("T")

_USER = frozenset({"user"})
_QUEUED = frozenset({"user", "assistant"})
_REJECT: Final = "reject"
_ON_BUSY = ("reject", "queue", "steer", "interrupt")
_SOURCES = ("user", "system", "parent")

OnBusy = Literal["reject", "queue", "steer", "interrupt"]


class Thread(ThreadReads):
    """A handle on one conversation. Cheap; usable from any worker and any event loop; two handles on one id are equal."""

    __slots__ = ()

    # Inputs

    def submit(
        self, content: Content, *, input_id: str | None = None, on_busy: OnBusy = "reject", timeout: float | None = None
    ) -> Reply[Receipt]:
        """Hand in an input that wants an execution of its own (contract A.4, semantics 3).

        Args:
            content: a text, or a list of texts and messages; user messages only, at most 1 MiB each.
            input_id: makes the call repeatable: the same id with the same content and `on_busy` gets the first receipt
                again.
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
        # Spelled out: nearly every call is this one.
        reply: Reply[Receipt] = Reply()
        try:
            entry = self._entry
            if entry is None or entry.gone or self._services.closing:
                entry = self._resolve()
            if on_busy is not _REJECT:
                check_one_of("on_busy", on_busy, _ON_BUSY)
            now = self._services.clock.now_us()
            draft = draft_text(new_id(now), "user", content, _USER)
            if draft is None:
                drafts, size = draft_messages(content, self._new_id, "user", _USER)
            else:
                drafts, size = [draft], OVERHEAD + len(content)
            digest = None
            if input_id is None:
                given = new_id(now)
            else:
                given = check_id("input_id", input_id)
                digest = input_digest("submit", None, drafts, on_busy, hold=False)
            seconds = None if timeout is None else check_seconds("timeout", timeout)
            trigger = Submit(given, drafts, size, digest, on_busy, seconds)
        except TreadleError as error:
            reply.fail(error)
            return reply
        entry.mailbox.put(Mail(trigger, reply, size))
        return reply

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
                drafts, size = draft_messages(content, self._new_id, role, _QUEUED)
            given, digest = self._id("input_id", input_id), None
            if input_id is not None:
                digest = input_digest("queue", None, drafts, "", hold=False)
            sender = current_execution.get()
            return Queue(given, drafts, size, digest, sender.id if sender is not None else None), size

        return self._send(make)

    def queue_tool(self, name: str, args: JsonObject | None = None, *, input_id: str | None = None) -> Reply[Receipt]:
        """Have a tool called: by the active execution at its next boundary, or by one that this starts (contract D.7).

        It waits as a silent message with one call, marked `queued_tool`; once that has joined history, the call has exactly
        one result. An execution that it starts takes no steers.

        Args:
            name: of the tool; an unknown one comes to an error as its result.
            args: JSON data of at most 1 MiB.
            input_id: makes the call repeatable, as for `submit`.

        Returns:
            A receipt `queued`; `held` says that it waits for `resume()` or the next submit. Durable when it is there.

        Raises:
            As `submit`.
        """

        def make() -> tuple[Trigger, int]:
            draft, size = draft_queued_tool(self._new_id(), self._new_id(), name, args)
            given, digest = self._id("input_id", input_id), None
            if input_id is not None:
                # Of what was asked for: the draft has the id of a call, and each call makes a new one.
                asked = [{"tool": name, "args": {} if args is None else args}]
                digest = input_digest("queue_tool", None, asked, "", hold=False)
            sender = current_execution.get()
            trigger = Queue(given, [draft], size, digest, sender.id if sender is not None else None)
            trigger.tool = True
            return trigger, size

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

    # Edits

    def update_message(
        self, message_id: str, *, content: str | None | Unchanged = UNCHANGED, metadata: JsonObject | None | Unchanged = UNCHANGED
    ) -> Reply[Message]:  # fmt: skip
        """Change a message of the thread, waiting or in history, whoever runs; it keeps its place and its time.

        A body that was given the message already keeps what it was given. Repeating an update changes nothing more.

        Args:
            message_id: whose; a terminated thread's, too.
            content: the new text; under the rules of a new message.
            metadata: merged with the stored one, key by key: None deletes a key. None itself deletes all keys.

        Returns:
            The message as it is now. Durable when the reply is there.

        Raises:
            MessageNotFound: the thread has no such message.
            InvalidInput, LimitExceeded, ThreadNotFound: nothing was stored.
        """
        given = {"content": content, "metadata": metadata}
        changes = {key: value for key, value in given.items() if value is not UNCHANGED}
        return self._send(lambda: updating(message_id, changes))

    def delete_message(self, message_id: str) -> Reply[bool]:
        """Take a message out of the thread, whoever runs; of a terminated thread, too.

        A message that waits is cancelled: with the only one that is left of an input the input is withdrawn, else the input
        goes on with the others. A message with tool calls takes their results with it.

        Returns:
            Whether it was there; so a repeat gets False. Durable when the reply is there.

        Raises:
            InvalidInput: `call_open`, a call of it has no result yet; `call_needs_result`, it is such a result itself.
        """
        return self._send(lambda: deleting(message_id))

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
            drafts, size = draft_messages(content, self._new_id, "user", _USER)
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
            `accepted` (durable, and its body gets it), `already_resolved` (also for the same answer again), `timed_out`,
            `cancelled` (its execution was interrupted or is over) or `not_found`. Fails with InvalidInput or
            LimitExceeded: `value` is no JSON data.
        """

        def make() -> tuple[Trigger, int]:
            given, checked = check_id("request_id", request_id), check_value(value)
            return Respond(given, checked, check_value(checked)), len(pack(checked))

        return self._send(make)

    def set_value(self, key: str, value: object) -> Reply[None]:
        """Set a value, or delete it with None; durable when the reply is there.

        Raises:
            InvalidInput, LimitExceeded: `value` is no JSON data within the limits; nothing was stored.
        """

        return self._send(lambda: _set_value(check_key(key), value))

    def set_internal(self, key: str, value: object) -> Reply[None]:
        """Set a value that no user sees, under a key that begins with `treadle:`; for the runtime's own layers, at rest."""
        return self._send(lambda: _set_value(check_internal(key), value))

    def set_tags(self, tags: Iterable[str]) -> Reply[None]:
        """Replace the names to find the thread by; durable when the reply is there. Raises: InvalidInput, LimitExceeded."""
        return self._send(lambda: _set_value(TAGS_KEY, check_tags(tags)))

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
            entry = self._entry
            if entry is None or entry.gone or self._services.closing:
                entry = self._resolve()
            wanted = awaited(target)
            sender = current_execution.get()
            if sender is not None and not sender.fenced and over_or_noted(self._services, entry, sender, wanted, reply):
                return reply
        except TreadleError as error:
            reply.fail(error)
            return reply
        if not kept_here(self._services, entry, wanted, reply):
            sent(entry, wanted, reply)
        return reply

    # Sending

    def _new_id(self) -> str:
        return new_id(self._services.clock.now_us())

    def _id(self, kind: str, given: str | None) -> str:
        return self._new_id() if given is None else check_id(kind, given)

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


def _set_value(name: str, value: object) -> tuple[Trigger, int]:
    encoded = None if value is None else pack(check_thread_value(value))
    return SetValue(name, encoded), len(encoded or b"")
