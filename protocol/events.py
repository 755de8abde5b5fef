"""Owns the journal's events: what can be said about a thread, once and for ever. Folds nothing, numbers nothing.

Events are flat, frozen and validated when made, but for those that `trusted` makes. An event's sequence is its place in
the journal and its time is that of its batch (semantics 11); both are stored beside it, so an event is equal to itself
wherever it is read.
Fields are only ever added, at the end and with a default: the stored form is the list of values in order.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, NamedTuple, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator

from .cursors import Cursor
from .ids import is_internal
from .status import Outcome
from .values import JsonObject

__all__ = [
    "EVENT_TYPES",
    "AgentChanged",
    "ControlRecorded",
    "Event",
    "ExecutionFinished",
    "ExecutionInterrupted",
    "ExecutionLost",
    "ExecutionStarted",
    "HoldChanged",
    "InboxFailed",
    "InputQueued",
    "InputWithdrawn",
    "Internal",
    "JournalEvent",
    "MessageAdded",
    "MessageDeleted",
    "MessagePlace",
    "MessageUpdated",
    "MessagesJoined",
    "ProcessRecorded",
    "RequestEnd",
    "RequestOpened",
    "RequestTerminated",
    "RowKind",
    "StoredRow",
    "ThreadCreated",
    "ThreadTerminated",
    "ValueChanged",
]

NonBlank = Annotated[str, Field(pattern=r"\S")]  # contract A.3
RowKind = Literal["submit", "message", "steer", "tool"]
# [sequence, kind, messages, silent, size] of a row, and `[[rank, sequence], ...]` behind them where messages of it were
# changed: the event that holds the new one, 0 for one that was deleted. What a fold must know of a row that goes.
StoredRow: TypeAlias = list[Any]
MessagePlace: TypeAlias = list[Any]  # [content, rank, joined, position] of a message; 0 and null while it waits
ActiveFields: TypeAlias = list[Any]  # [execution_id, agent_id, started_at, phase] of a receipt
RequestEnd = Literal["resolved", "expired", "abandoned"]


class Event(BaseModel):
    """Something that happened to a thread. `type` is the tag on the wire, `code` the number in the store."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    type: ClassVar[str]
    code: ClassVar[int]

    def shown(self) -> Event:
        """Return what anybody outside sees of it, in this process too: itself, unless it holds what is the runtime's own."""
        return self

    def to_wire(self) -> JsonObject:
        """Return the JSON form of what is shown of it; the digest of a repeat check stays inside."""
        shown = self.shown()
        return {"type": shown.type, **{key: value for key, value in shown.__dict__.items() if key != "digest"}}


class ThreadCreated(Event):
    """A thread exists, at rest."""

    type = "THREAD_CREATED"
    code = 1
    thread_id: str
    agent_id: str
    user_id: str | None
    arguments: JsonObject | None
    tags: list[str]
    env: dict[str, str] | None

    def shown(self) -> Event:
        """Return it without the values of its variables, since these may be secrets."""
        return self.model_copy(update={"env": dict.fromkeys(self.env, "")}) if self.env else self

    def to_wire(self) -> JsonObject:
        """Return the JSON form; of its variables the names alone."""
        return {**super().to_wire(), "env": None if self.env is None else sorted(self.env)}


class ExecutionStarted(Event):
    """An accepted input owns the thread's slot from here on (contract A.3)."""

    type = "THREAD_EXECUTION_STARTED"
    code = 2
    execution_id: NonBlank
    agent_id: NonBlank
    cause: Literal["submit", "rows", "resume", "recovery"]
    input_id: str | None
    messages: list[JsonObject]
    digest: bytes | None
    steerable: bool
    timeout: float | None


class ExecutionFinished(Event):
    """The execution reached its one outcome and the slot is free (contract A.3)."""

    type = "THREAD_EXECUTION_FINISHED"
    code = 3
    execution_id: NonBlank
    agent_id: NonBlank
    outcome: Outcome
    finished_at: int
    error_type: str | None
    error_message: str | None
    reason: str | None
    abandoned: bool
    leftovers: list[str]

    @model_validator(mode="after")
    def _error_exactly_when_failed(self) -> ExecutionFinished:
        # Contract A.3 asks this of the constructor, so that no other pair can ever be stored.
        if self.error_type is None and self.error_message is None and self.outcome != "failed":
            return self
        named = bool((self.error_type or "").strip() and (self.error_message or "").strip())
        if named != (self.outcome == "failed") or (self.error_type is None) != (self.error_message is None):
            raise ValueError(f"outcome {self.outcome} with error {self.error_type!r}: {self.error_message!r}")
        return self


class ExecutionLost(Event):
    """The executor is gone; there is no finish, history projects `interrupted` (semantics 7)."""

    type = "THREAD_EXECUTION_LOST"
    code = 4
    execution_id: str
    boot_id: str
    last_sequence: int
    cause: str
    dispatched: bool
    leftovers: list[str]
    resume: bool = False  # its agent asked to run again; wanted until the next START


class ExecutionInterrupted(Event):
    """An interruption of the active execution was accepted, or its deadline passed."""

    type = "THREAD_EXECUTION_INTERRUPTED"
    code = 5
    execution_id: str
    source: Literal["user", "system", "parent", "deadline"]
    reason: str | None
    hold: bool
    control_id: str | None
    digest: bytes | None
    active: ActiveFields


class MessageAdded(Event):
    """A message joined history at once: injected, or appended by the body."""

    type = "MESSAGE_ADDED"
    code = 6
    execution_id: str | None
    message: JsonObject


class InputQueued(Event):
    """An input was stored to wait: the content of an inbox row."""

    type = "INPUT_QUEUED"
    code = 7
    input_id: str
    kind: RowKind
    verb: Literal["submit", "steer", "queue"]
    execution_id: str | None
    messages: list[JsonObject]
    digest: bytes | None
    first: bool
    interrupted: str | None
    active: ActiveFields | None
    held: bool
    originating_execution_id: str | None
    timeout: float | None
    size: int


class MessagesJoined(Event):
    """Waiting rows joined history; `consumed` says whether a pass or step of the body begins with them."""

    type = "MESSAGES_JOINED"
    code = 8
    execution_id: str | None
    rows: list[StoredRow]
    consumed: bool
    reason: str | None


class InputWithdrawn(Event):
    """A waiting input was taken back before it was delivered."""

    type = "INPUT_WITHDRAWN"
    code = 9
    input_id: str
    row: StoredRow


class InboxFailed(Event):
    """Every row up to `through` failed, since the thread was terminated; they are moved to history later."""

    type = "INBOX_FAILED"
    code = 10
    through: int


class ControlRecorded(Event):
    """The receipt of an accepted control that changed nothing else (an interrupt while stopping)."""

    type = "CONTROL_RECORDED"
    code = 11
    execution_id: str
    control_id: str
    digest: bytes | None
    active: ActiveFields
    held: bool


class HoldChanged(Event):
    """The thread was held, or the hold was lifted (semantics 5)."""

    type = "HOLD_CHANGED"
    code = 12
    held: bool
    reason: str | None


class ValueChanged(Event):
    """A value was set or deleted; its content is not part of the journal."""

    type = "VALUE_CHANGED"
    code = 13
    key: str
    deleted: bool

    def shown(self) -> Event:
        """Return it, or where the value is one of the runtime's own layers only that there was something."""
        return Internal() if is_internal(self.key) else self


class Internal(Event):
    """What is shown of an event that is the runtime's own, so that cursors move on without a hole. Never stored."""

    type = "internal"


class ProcessRecorded(Event):
    """A process group belongs to the execution; recorded before it runs, so that recovery can end it."""

    type = "PROCESS_RECORDED"
    code = 14
    execution_id: str
    group: int
    start_time: int


class ThreadTerminated(Event):
    """The thread takes no further input."""

    type = "THREAD_TERMINATED"
    code = 15


class RequestOpened(Event):
    """The execution waits for an answer from outside."""

    type = "REQUEST_OPENED"
    code = 16
    execution_id: str
    request_id: str
    kind: str
    payload: object
    timeout: float | None = None  # seconds from its opening until it expires


class RequestTerminated(Event):
    """A request ended: `resolved` with its one answer, `expired`, or `abandoned` with its execution."""

    type = "REQUEST_TERMINATED"
    code = 17
    request_id: str
    status: RequestEnd
    value: object


class MessageUpdated(Event):
    """A message has other content or metadata from here on; `message` is the whole of it.

    Of a message that waits `row` is its row as it is now, grown by `grown` bytes.
    """

    type = "MESSAGE_UPDATED"
    code = 18
    execution_id: str | None
    message: JsonObject
    place: MessagePlace
    row: StoredRow | None
    grown: int


class MessageDeleted(Event):
    """A message is gone from history, or from the row in which it waits with others; the rows are as in an update."""

    type = "MESSAGE_DELETED"
    code = 19
    execution_id: str | None
    message_id: str
    message_class: int
    place: MessagePlace
    row: StoredRow | None
    grown: int


class AgentChanged(Event):
    """The body gave its thread to another agent: executions that start from here on are that agent's."""

    type = "AGENT_CHANGED"
    code = 20
    execution_id: NonBlank
    agent_id: NonBlank


EVENT_TYPES: dict[int, type[Event]] = {
    kind.code: kind
    for kind in (
        ThreadCreated,
        ExecutionStarted,
        ExecutionFinished,
        ExecutionLost,
        ExecutionInterrupted,
        MessageAdded,
        InputQueued,
        MessagesJoined,
        InputWithdrawn,
        InboxFailed,
        ControlRecorded,
        HoldChanged,
        ValueChanged,
        ProcessRecorded,
        ThreadTerminated,
        RequestOpened,
        RequestTerminated,
        MessageUpdated,
        MessageDeleted,
        AgentChanged,
    )
}


class JournalEvent(NamedTuple):
    """An event at its place: cursor, time of its batch plus its rank (microseconds), and what happened."""

    cursor: Cursor
    created_at: int
    event: Event

    def shown(self) -> JournalEvent:
        """Return it as anybody outside sees it."""
        event = self.event.shown()
        return self if event is self.event else self._replace(event=event)

    def to_wire(self) -> JsonObject:
        """Return the JSON form of a committed frame."""
        return {**self.event.to_wire(), "cursor": str(self.cursor), "created_at": self.created_at}
