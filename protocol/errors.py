"""Owns the errors of Treadle: what went wrong, whose fault it is, and what to do. Raises nothing itself.

```
TreadleError                      code, details, to_wire()
├── CallerError                   the call cannot be right; nothing was written; repeating it changes nothing
│   ├── InvalidInput              invalid_id, empty_content, invalid_content, invalid_value, invalid_cursor, ...
│   ├── LimitExceeded             names the limit and the size met
│   ├── InvalidDefinitions        all that is wrong with a runtime's agents and what they name
│   ├── ThreadNotFound, ExecutionNotFound, AgentNotFound, InputNotFound, MessageNotFound
│   ├── ThreadExists, ThreadTerminated, IdempotencyConflict, InputWithdrawn
│   ├── CursorConflict            another generation, or beyond the head
│   └── WouldBlock, WaitCycle     waiting here could never end, or would stop an event loop
├── Unavailable                   not now; repeat with the same id
│   ├── StorageFull, StoreFailed, StoreInUse, StoreClosed, AppendConflict
│   ├── OutcomeUnknown, ThreadActorCrashed, ThreadQuarantined, ThreadOverloaded
│   ├── NoWorker, RuntimeClosed, CloseIncomplete
│   └── RequestExpired            nobody answered a body's request in its time
├── StoreUnreadable               stop: the bytes are not what this version can read
│   └── CorruptRecord, SchemaTooNew, NotAStore
└── InternalError                 a bug of ours; nothing was folded, the thread goes on
```

Catch by fault, not by name: `except CallerError` is a bug in the calling program, `except Unavailable` is worth
repeating with the same id, the rest is worth a report.
"""

from __future__ import annotations

from typing import ClassVar, Final, Self, cast

__all__ = [
    "AgentNotFound",
    "AppendConflict",
    "CallerError",
    "CloseIncomplete",
    "CorruptRecord",
    "CursorConflict",
    "ExecutionNotFound",
    "IdempotencyConflict",
    "InputNotFound",
    "InputWithdrawn",
    "InternalError",
    "InvalidDefinitions",
    "InvalidInput",
    "LimitExceeded",
    "MessageNotFound",
    "NoWorker",
    "NotAStore",
    "OutcomeUnknown",
    "RequestExpired",
    "RuntimeClosed",
    "SchemaTooNew",
    "StorageFull",
    "StoreClosed",
    "StoreFailed",
    "StoreInUse",
    "StoreUnreadable",
    "ThreadActorCrashed",
    "ThreadExists",
    "ThreadNotFound",
    "ThreadOverloaded",
    "ThreadQuarantined",
    "ThreadTerminated",
    "TreadleError",
    "Unavailable",
    "WaitCycle",
    "WouldBlock",
    "kind_of",
    "shorten",
    "text_of",
]

_NAME: Final = type.__dict__["__name__"].__get__  # a metaclass may answer for its own


def shorten(value: object, width: int = 80) -> str:
    """Show an offending value in at most `width` characters, so that an error stays readable and bounded."""
    try:
        # Cut first: the repr of a huge string or list costs its whole size.
        text = str.__str__(repr(_cut(value, width * 2, [width])))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a broken __repr__ must not hide our error, nor end a loop
        text = f"<{kind_of(value)} whose repr raised {kind_of(error)}>"
    return text if len(text) <= width else text[: width - 1] + "…"


def bad_option(said: str, value: object) -> InvalidInput:
    """Return the error of an option that is not what is `said` of it: `invalid_option`, with the value."""
    shown = shorten(value)
    return InvalidInput(f"{said}, not {shown}", code="invalid_option", value=shown)


def _cut(value: object, longest: int, left: list[int]) -> object:
    """Return what is shown as `value` is for as many characters as there are `left`: each part takes at least one."""
    left[0] -= 1
    if isinstance(value, str | bytes):
        return value[:longest]
    kind: object = type(value)
    if kind is list or kind is tuple:
        parts = []
        for part in cast("list[object]", value):
            if left[0] <= 0:
                break
            parts.append(_cut(part, longest, left))
        return parts if kind is list else tuple(parts)
    if kind is dict:
        members = {}
        for key, part in cast("dict[object, object]", value).items():
            if left[0] <= 0:
                break
            members[_cut(key, longest, left)] = _cut(part, longest, left)
        return members
    return value


def kind_of(value: object) -> str:
    """Return the name of a value's type, never empty, whatever its class says of itself."""
    return _NAME(type(value)) or "unnamed"


def text_of(error: BaseException) -> str:
    """Return an error's text, whatever its `__str__` does."""
    try:
        return str.__str__(str(error))
    except BaseException as broken:  # noqa: BLE001 - an error may be as broken as the code that raised it
        return f"(its text could not be had: {kind_of(broken)})"


class TreadleError(Exception):
    """Root of all errors of Treadle.

    Attributes:
        code: stable, snake_case; what programs compare and HTTP answers carry.
        details: the ids and values needed to act, JSON data.
    """

    code: ClassVar[str] = "treadle_error"

    def __init__(self, message: str, **details: object) -> None:
        super().__init__(message)
        self.message = message
        self.details = details

    def __reduce__(self) -> tuple[object, ...]:
        # An error must survive a process boundary with its ids; the default loses keyword arguments.
        return _rebuild, (type(self), self.message, self.details, self.__dict__.get("code"))

    def again(self, **more: object) -> Self:
        """Return a new error that says the same, with `more` details: one raised in many places keeps all their frames."""
        copy = _rebuild(type(self), self.message, {**self.details, **more}, self.__dict__.get("code"))
        assert isinstance(copy, type(self))
        return copy

    def to_wire(self) -> dict[str, object]:
        """Return the JSON form: code, message, details."""
        return {"code": self.code, "message": self.message, "details": self.details}


def _rebuild(kind: type[TreadleError], message: str, details: dict[str, object], code: str | None) -> TreadleError:
    error = kind.__new__(kind)
    TreadleError.__init__(error, message, **details)
    if code is not None:
        error.__dict__["code"] = code
    return error


class CallerError(TreadleError):
    """The call cannot be right; nothing was written, and repeating it changes nothing."""

    code = "caller_error"


class InvalidInput(CallerError):
    """An argument is malformed; `code` says how, `details` carries the offending value, shortened."""

    code = "invalid_input"

    def __init__(self, message: str, *, code: str = "invalid_input", **details: object) -> None:
        super().__init__(message, **details)
        self.__dict__["code"] = code


class LimitExceeded(CallerError):
    """A named limit was met; `details` has `limit`, `maximum` and `met`."""

    code = "limit_exceeded"


class InvalidDefinitions(CallerError):
    """A runtime's agents, or what they name, do not fit together; `details` has all `problems`, one sentence each."""

    code = "invalid_definitions"


class ThreadNotFound(CallerError):
    """No thread has this id: never created here, or deleted."""

    code = "thread_not_found"


class ExecutionNotFound(CallerError):
    """The thread has no execution with this id."""

    code = "execution_not_found"


class AgentNotFound(CallerError):
    """No agent of this name is registered with the runtime."""

    code = "agent_not_found"


class InputNotFound(CallerError):
    """The thread has recorded no input or control with this id."""

    code = "input_not_found"


class MessageNotFound(CallerError):
    """The thread has no message with this id."""

    code = "message_not_found"


class ThreadExists(CallerError):
    """A thread with this id was created before, even if deleted since."""

    code = "thread_exists"


class ThreadTerminated(CallerError):
    """The thread was terminated; it takes no further input. `details["terminated_at"]` is in microseconds."""

    code = "thread_terminated"


class IdempotencyConflict(CallerError):
    """This input or control id was accepted before with other content; use a new id for new content."""

    code = "idempotency_conflict"


class InputWithdrawn(CallerError):
    """The awaited input was taken back before it ran."""

    code = "input_withdrawn"


class CursorConflict(CallerError):
    """The cursor names another generation or lies beyond the head; start again from a snapshot."""

    code = "cursor_conflict"


class WouldBlock(CallerError):
    """`.result()` on a worker that runs an event loop would stop that loop; `await` the reply instead."""

    code = "would_block"


class WaitCycle(CallerError):
    """This wait would close a circle: each execution in it waits for the next."""

    code = "wait_cycle"


class Unavailable(TreadleError):
    """Not now, and not the caller's fault; repeat with the same id."""

    code = "unavailable"


class StorageFull(Unavailable):
    """The disk or the map has no room; nothing was written. Free space and repeat."""

    code = "storage_full"


class StoreFailed(Unavailable):
    """The store met an error that it cannot judge and takes no more writes; reopening it recovers."""

    code = "store_failed"


class StoreInUse(Unavailable):
    """Another process or runtime owns the data directory; `details` names the holder."""

    code = "store_in_use"


class StoreClosed(Unavailable):
    """The store is not open."""

    code = "store_closed"


class AppendConflict(Unavailable):
    """The thread's head is not where the writer expected it, or a newer incarnation writes; nothing was written."""

    code = "append_conflict"


class OutcomeUnknown(Unavailable):
    """Whether the call was written could not be told; repeat it with the same id."""

    code = "outcome_unknown"


class ThreadActorCrashed(Unavailable):
    """The thread's actor crashed while handling this call; it may have been written. Repeat with the same id."""

    code = "thread_actor_crashed"


class ThreadQuarantined(Unavailable):
    """The thread's actor crashed too often and rests until the store is opened again."""

    code = "thread_quarantined"


class ThreadOverloaded(Unavailable):
    """The thread's mailbox is full; nothing was stored. Let it work some off and repeat."""

    code = "thread_overloaded"


class NoWorker(Unavailable):
    """Too many workers were abandoned to late bodies; no plain-function execution can start."""

    code = "no_worker"


class RuntimeClosed(Unavailable):
    """The runtime is closing, closed, or not yet open."""

    code = "runtime_closed"


class CloseIncomplete(Unavailable):
    """The store refused some last commits; `details["threads"]` will be settled by the next open."""

    code = "close_incomplete"


class RequestExpired(Unavailable):
    """Nobody answered a request within its time, and nobody can any more; ask again with a new id, or go on without."""

    code = "request_expired"


class StoreUnreadable(TreadleError):
    """The bytes are not what this version can read; stop, and look at the store."""

    code = "store_unreadable"


class CorruptRecord(StoreUnreadable):
    """A stored record does not decode, and `details` names table and key; or the data file lacks pages, and it is named."""

    code = "corrupt_record"


class SchemaTooNew(StoreUnreadable):
    """The store was written by a newer version."""

    code = "schema_too_new"


class NotAStore(StoreUnreadable):
    """The path is not a Treadle store, or cannot be used as one; nothing in it was changed."""

    code = "not_a_store"


class InternalError(TreadleError):
    """A bug of ours; nothing was folded, and the thread goes on. Worth a report."""

    code = "internal_error"
