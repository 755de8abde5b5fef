"""Owns the triggers: everything that may happen to a thread. Carries what a row of the table needs, looked up before.

`now` and `new_id` come from the actor just before the decision; `now` is later than everything the thread has recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Literal, NamedTuple, TypeAlias

from .events import ExecutionInterrupted, MessageAdded
from .inbox import Row
from .messages import Draft
from .open_calls import OpenCall

__all__ = [
    "Answer", "Append", "Ask", "BodyEnded", "Consume", "Deadline", "Delete", "Expire", "GraceExpired", "Inject", "Interrupt",
    "Kind", "Lost", "Prior", "Queue", "RecordProcess", "Released", "Respond", "Resume", "RetryDue", "SetValue", "Standing", "Steer",
    "Stop", "Submit", "Terminate", "Trigger", "Wake", "Withdraw",
]  # fmt: skip


class Kind(StrEnum):
    """A row of the lifecycle table. A control is classified by its target before the table is asked."""

    SUBMIT = "submit"
    STEER = "steer, same id"
    CONTROL_OTHER = "control, other id"
    INTERRUPT = "interrupt, same id"
    QUEUE = "queue message"
    STOP = "stop"
    RESUME = "resume"
    TERMINATE = "terminate"
    DELETE = "delete"
    WITHDRAW = "withdraw"
    INJECT = "outside inject"
    SET_VALUE = "set value"
    UPDATE_MESSAGE = "update message"
    DELETE_MESSAGE = "delete message"
    APPEND = "append by the body"
    CONSUME = "consume"
    RECORD_PROCESS = "process record"
    REQUEST = "request by the body"
    RESPOND = "respond"
    REQUEST_EXPIRED = "request expired"
    CHANGE_AGENT = "change agent"
    BODY_ENDED = "body ended"
    DEADLINE = "deadline"
    GRACE_EXPIRED = "grace expired"
    RELEASED = "resources released"
    RETRY_DUE = "retry due"
    WAKE = "wake"
    LOST = "lost"
    START_COMMITTED = "START committed"
    START_NOT_WRITTEN = "START not written"
    FINISH_COMMITTED = "FINISH committed"
    FINISH_NOT_WRITTEN = "FINISH not written"
    INTERRUPTION_COMMITTED = "interruption committed"
    INTERRUPTION_NOT_WRITTEN = "interruption not written"
    JOIN_COMMITTED = "join before a pass committed"
    JOIN_NOT_WRITTEN = "join before a pass not written"
    OTHER_COMMITTED = "other batch committed"
    OTHER_NOT_WRITTEN = "other batch not written"


class Prior(NamedTuple):
    """What is recorded under an input or control id: the digest of its content and its first receipt."""

    digest: bytes | None
    receipt: Any


class Trigger:
    """Something that happened. `kind` is its row; `now` is microseconds, `new_id` an unused execution id."""

    # What most triggers leave as it is stands on the class: one is made for every mail. What each of a busy kind is given
    # later on is there from the beginning: attributes that come late make all that an instance has a dict of its own.
    kind: Kind
    execution_id: str | None = None
    now: int = 0
    new_id: str = ""

    def __init__(self, execution_id: str | None = None) -> None:
        self.execution_id = execution_id


OnBusy = Literal["reject", "queue", "steer", "interrupt"]
Standing: TypeAlias = Literal["pending", "resolved", "expired", "abandoned"]  # of a request


class Input(Trigger):
    """What `submit`, `steer` and `queue_message` have in common: content under an id, judged once."""

    prior: Prior | None = None
    rows: Sequence[Row] = ()

    def __init__(
        self, input_id: str, messages: list[Draft], size: int, digest: bytes | None, execution_id: str | None = None
    ) -> None:
        self.execution_id = execution_id
        self.input_id = input_id
        self.messages = messages
        self.size, self.now, self.new_id = size, 0, ""
        self.digest = digest  # None: the id was made here, so no repeat can carry it


class Submit(Input):
    """An input that wants an execution of its own."""

    kind = Kind.SUBMIT

    def __init__(
        self, input_id: str, messages: list[Draft], size: int, digest: bytes | None, on_busy: OnBusy = "reject",
        timeout: float | None = None,
    ) -> None:  # fmt: skip
        self.input_id = input_id
        self.messages = messages
        self.size, self.now, self.new_id = size, 0, ""
        self.digest = digest
        self.on_busy = on_busy
        self.timeout = timeout


class Steer(Input):
    """Messages for the execution `execution_id`, and no other; `input_id` is the control id."""

    kind = Kind.STEER


class Queue(Input):
    """A message that joins the active execution or starts one; `originating` names the execution that sent it.

    With an execution id it comes from a body of this very thread, and is fenced like all that body says.
    """

    kind = Kind.QUEUE
    tool: bool = False  # its one message calls a tool, which the execution that it joins is to run

    def __init__(
        self, input_id: str, messages: list[Draft], size: int, digest: bytes | None, originating: str | None = None,
        execution_id: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(input_id, messages, size, digest, execution_id)
        self.originating = originating


class Interrupt(Trigger):
    """A request to end the execution `execution_id`; `control_id` makes it repeatable."""

    kind = Kind.INTERRUPT
    prior: Prior | None = None

    def __init__(
        self, execution_id: str, *, reason: str | None = None, source: Literal["user", "system", "parent"] = "user",
        hold: bool = False, control_id: str | None = None, digest: bytes | None = None,
    ) -> None:  # fmt: skip
        super().__init__(execution_id)
        self.reason = reason
        self.source = source
        self.hold = hold
        self.control_id = control_id
        self.digest = digest


class Stop(Trigger):
    """Interrupt whatever is active, and hold."""

    kind = Kind.STOP


class Resume(Trigger):
    """Lift the hold and start what waits, or run on the history there is."""

    kind = Kind.RESUME
    rows: Sequence[Row] = ()


class Terminate(Trigger):
    """Take no further input, ever."""

    kind = Kind.TERMINATE

    def __init__(self, source: str | None = None) -> None:
        super().__init__()
        self.source = source


class Delete(Trigger):
    """Remove a thread that is terminated and at rest."""

    kind = Kind.DELETE


class Withdraw(Trigger):
    """Take a waiting input back; `row` is it, `known` says whether the id was ever recorded, `withdrawn` before."""

    kind = Kind.WITHDRAW

    def __init__(self, input_id: str) -> None:
        super().__init__()
        self.input_id = input_id
        self.row: Row | None = None
        self.known = False
        self.withdrawn = False


class Inject(Trigger):
    """Put a message into history at once, from outside any execution."""

    kind = Kind.INJECT

    def __init__(self, message: Draft) -> None:
        super().__init__()
        self.message = message


class SetValue(Trigger):
    """Set or delete a value; the encoded content travels beside the trigger. With an execution id it is a body's."""

    kind = Kind.SET_VALUE

    def __init__(self, key: str, encoded: bytes | None, execution_id: str | None = None) -> None:
        super().__init__(execution_id)
        self.key = key
        self.encoded = encoded
        self.deleted = encoded is None


class Append(Trigger):
    """A message that the body of `execution_id` adds."""

    kind = Kind.APPEND
    open_call: bool = True  # whether the call that it answers is open
    doubled: str | None = None  # a call that it opens and that is open already

    def __init__(self, execution_id: str, event: MessageAdded, size: int) -> None:
        self.execution_id = execution_id
        self.event = event
        self.size, self.now = size, 0


class Consume(Trigger):
    """The body of `execution_id` asks for what has arrived."""

    kind = Kind.CONSUME
    rows: Sequence[Row] = ()


class RecordProcess(Trigger):
    """The body of `execution_id` is about to run a process group."""

    kind = Kind.RECORD_PROCESS

    def __init__(self, execution_id: str, group: int, start_time: int) -> None:
        super().__init__(execution_id)
        self.group = group
        self.start_time = start_time


class Ask(Trigger):
    """The body of `execution_id` opens a request; `standing` is that of an earlier one under its id."""

    kind = Kind.REQUEST
    standing: Standing | None = None

    def __init__(
        self, execution_id: str, request_id: str, about: str, payload: object, timeout: float | None = None, *, made: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(execution_id)
        self.request_id = request_id
        self.about = about  # the request's own kind
        self.payload = payload
        self.timeout = timeout
        self.made = made  # the id was made here, so nothing can stand under it


class Respond(Trigger):
    """An answer from outside to the request `request_id`, whose `standing` was looked up; None: there is no such request.

    `copy` equals `value` and is the body's to change.
    """

    kind = Kind.RESPOND
    standing: Standing | None = None

    def __init__(self, request_id: str, value: object, copy: object) -> None:
        super().__init__()
        self.request_id = request_id
        self.value = value
        self.copy = copy


class Expire(Trigger):
    """The time given to a request of `execution_id` is over."""

    kind = Kind.REQUEST_EXPIRED
    standing: Standing | None = None

    def __init__(self, execution_id: str, request_id: str) -> None:
        super().__init__(execution_id)
        self.request_id = request_id


class BodyEnded(Trigger):
    """A pass of the body of `execution_id` is over, the `of_pass`-th: `how` it ended, with the error where there was one."""

    kind = Kind.BODY_ENDED
    rows: Sequence[Row] = ()
    open_calls: Sequence[OpenCall] = ()
    pending: Sequence[str] = ()
    limit: str | None = None  # a stop code: why nothing further begins, where `reason` does not say so

    def __init__(
        self, execution_id: str, how: Literal["returned", "cancelled", "raised"] = "returned", reason: str | None = None,
        stopped: bool = False, error_type: str | None = None, error_message: str | None = None,
    ) -> None:  # fmt: skip
        self.execution_id = execution_id
        self.how, self.now, self.of_pass = how, 0, 1
        self.reason = reason  # a stop code of the loop, None for a plain return
        self.stopped = stopped  # by `execution.stop()`, a limit or a session boundary: nothing further begins
        self.error_type, self.error_message = error_type, error_message


class Deadline(Trigger):
    """The time given to `execution_id` is over."""

    kind = Kind.DEADLINE


class GraceExpired(Trigger):
    """The body of `execution_id` did not stop within its grace; `said` is what a row says for it where a user stopped it."""

    kind = Kind.GRACE_EXPIRED
    said: str | None = None


class Closing(Trigger):
    """What a FINISH or a settling batch must close: unread steers, open calls, pending requests."""

    rows: Sequence[Row] = ()
    open_calls: Sequence[OpenCall] = ()
    pending: Sequence[str] = ()
    leftovers: tuple[str, ...] = ()


class Released(Closing):
    """What `execution_id` owned is closed, or given up as `leftovers`."""

    kind = Kind.RELEASED

    def __init__(self, execution_id: str, leftovers: tuple[str, ...] = ()) -> None:
        self.execution_id = execution_id
        self.leftovers = leftovers


class RetryDue(Closing):
    """The time has come to try a refused commit again."""

    kind = Kind.RETRY_DUE
    unmade: Sequence[tuple[int, OpenCall]] = ()


class Wake(Trigger):
    """Look whether waiting rows can start; a lost or doubled wake costs latency only."""

    kind = Kind.WAKE
    rows: Sequence[Row] = ()
    unmade: Sequence[tuple[int, OpenCall]] = ()  # of the queued tools of a terminated thread, by row


class Lost(Closing):
    """The executor of `execution_id` is gone: process death, actor crash, loss of a loop or worker."""

    kind = Kind.LOST
    of_pass: int | None = None  # whose worker is gone; None where it is the execution's loop

    def __init__(
        self, execution_id: str, *, boot_id: str, cause: str, dispatched: bool, leftovers: tuple[str, ...] = ()
    ) -> None:
        super().__init__(execution_id)
        self.boot_id = boot_id
        self.cause = cause
        self.dispatched = dispatched
        self.leftovers = leftovers


class Answer(Trigger):
    """What the store said of the batch in flight."""

    def __init__(
        self, kind: Kind, error_code: str | None = None, error_message: str | None = None,
        interruption: ExecutionInterrupted | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.kind = kind
        self.interruption = interruption  # the first one that the refused batch held
        self.error_code = error_code
        self.error_message = error_message
