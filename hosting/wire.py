"""Owns the JSON of answers: their form, and what makes it of a receipt, a record, a page. Reads nothing, judges nothing.

Snake case throughout; times are microseconds. The models describe what the functions beside them make.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict

from ..actors import ActiveExecution, ControlReceipt, Message, Receipt
from ..protocol.executions import ExecutionStatus
from ..protocol.receipts import Disposition, RespondStatus, Withdrawal
from ..protocol.status import Outcome, RunState
from ..protocol.values import JsonObject

if TYPE_CHECKING:
    from ..actors import (
        ExecutionPage,
        ExecutionRecord,
        Explanation,
        MessagePage,
        ThreadLiveState,
        ThreadPage,
        ValuePage,
    )
    from ..actors.listing import ThreadSummary

__all__ = [
    "Active", "ControlReceiptAnswer", "DeletedAnswer", "ExecutionAnswer", "ExecutionsAnswer", "ExplanationAnswer",
    "MessagesAnswer", "ReceiptAnswer", "RespondAnswer", "StateAnswer", "Status", "ThreadAnswer",
    "ThreadDetailAnswer", "ThreadsAnswer", "ValueAnswer", "ValuesAnswer", "WithdrawalAnswer", "execution_json",
    "executions_json", "explanation_json", "message_json", "messages_json", "receipt_json", "state_json",
    "thread_json", "threads_json", "values_json",
]  # fmt: skip


class Answer(BaseModel):
    """What an answer holds: exactly these members."""

    model_config = ConfigDict(extra="forbid")


class Status(Answer):
    """The run status (contract C); `since` changes only with the others."""

    state: RunState
    since: int
    reason: str | None


class Active(Answer):
    """The execution that owns the thread."""

    execution_id: str
    agent_id: str
    started_at: int
    phase: Literal["starting", "running", "waiting", "stopping", "finishing"]


class ReceiptAnswer(Answer):
    """The answer to an input: what became of it, and who owns the thread now."""

    disposition: Disposition
    input_id: str | None
    message_ids: list[str]
    execution_id: str | None
    started_at: int | None
    active_execution: Active | None
    delivered_as: Literal["input", "steer"]
    interrupted: str | None
    held: bool


class ControlReceiptAnswer(Answer):
    """The answer to a control: what became of it, and who owned the thread."""

    disposition: Disposition
    control_id: str | None
    execution_id: str | None
    active_execution: Active | None
    held: bool


class WithdrawalAnswer(Answer):
    """What became of an attempt to take an input back."""

    status: Withdrawal


class RespondAnswer(Answer):
    """What became of an answer to a request."""

    status: RespondStatus


class DeletedAnswer(Answer):
    """Whether the message was there."""

    deleted: bool


class ThreadAnswer(Answer):
    """A thread with its run status; `messages` counts its history."""

    id: str
    agent_id: str
    user_id: str | None
    created_at: int
    status: Status
    held: bool
    terminated_at: int | None
    messages: int


class ThreadDetailAnswer(ThreadAnswer):
    """A thread with its tags."""

    tags: list[str]


class ThreadsAnswer(Answer):
    """A page of threads; `next` is the `after` of the following one. `unreadable` is for admins: by number, why."""

    threads: list[ThreadAnswer]
    next: str | None
    unreadable: dict[str, str]


class PendingRequest(BaseModel):
    """A request of the live execution that waits for an answer."""

    model_config = ConfigDict(extra="allow")

    request_id: str
    kind: str


class StateAnswer(Answer):
    """Who owns the thread now, what is pending, and up to where history is published (contract A.10)."""

    status: Status
    cursor: str
    active_execution: Active | None
    pending_requests: list[PendingRequest]
    held: bool
    hold_reason: str | None
    terminated_at: int | None
    waiting: int
    boot_id: str


class MessagesAnswer(Answer):
    """A page of messages; `total` counts all that the filter lets through."""

    messages: list[Message]
    total: int
    has_more: bool


class ErrorAnswer(Answer):
    """Why an execution failed."""

    type: str
    message: str


class ExecutionAnswer(Answer):
    """One execution as history tells it."""

    execution_id: str
    agent_id: str
    status: ExecutionStatus
    started_at: int
    finished_at: int | None
    outcome: Outcome | None
    error: ErrorAnswer | None
    reason: str | None
    input_id: str | None
    cause: str
    abandoned: bool
    leftovers: list[str]
    evidence: JsonObject | None


class ExecutionsAnswer(Answer):
    """A page of executions."""

    executions: list[ExecutionAnswer]
    total: int
    has_more: bool


class ValueAnswer(Answer):
    """A value under its key; null where there is none."""

    key: str
    value: Any


class ValuesAnswer(Answer):
    """A page of values."""

    values: list[ValueAnswer]
    has_more: bool


class BlockedAnswer(Answer):
    """The commit that the store refuses."""

    what: str
    attempts: int
    error: str
    next_attempt_at: int


class ExplanationAnswer(Answer):
    """Who holds the thread, where it is, what waits, and what comes next."""

    thread_id: str
    status: Status
    held_by: Active | None
    where: list[str]
    waits_for_worker: bool
    interrupted: str | None
    calls: list[str]
    waits_on: list[str]
    requests: list[str]
    waiting: int
    mail: int
    in_flight: str | None
    held: bool
    hold_reason: str | None
    blocked: BlockedAnswer | None
    problems: list[str]
    next: str


def _active(active: ActiveExecution | None) -> JsonObject | None:
    return None if active is None else active._asdict()


def receipt_json(receipt: Receipt | ControlReceipt) -> JsonObject:
    """Return the JSON of a receipt: its fields, by name."""
    return {**receipt._asdict(), "active_execution": _active(receipt.active_execution)}


def thread_json(summary: ThreadSummary) -> JsonObject:
    """Return the JSON of a thread."""
    return {**summary._asdict(), "status": summary.status.to_wire()}


def threads_json(page: ThreadPage, *, unreadable: bool) -> JsonObject:
    """Return the JSON of a page of threads; `unreadable` says whether to name those that do not decode."""
    named = {str(number): said for number, said in page.unreadable.items()} if unreadable else {}
    return {"threads": [thread_json(one) for one in page.threads], "next": page.next, "unreadable": named}


def state_json(state: ThreadLiveState) -> JsonObject:
    """Return the JSON of who owns a thread."""
    return {
        **state._asdict(),
        "status": state.status.to_wire(),
        "cursor": str(state.cursor),
        "active_execution": _active(state.active_execution),
    }


def message_json(message: Message) -> JsonObject:
    """Return the JSON of a message."""
    return message.model_dump()


def messages_json(page: MessagePage) -> JsonObject:
    """Return the JSON of a page of messages."""
    return {**page._asdict(), "messages": [message_json(one) for one in page.messages]}


def execution_json(record: ExecutionRecord) -> JsonObject:
    """Return the JSON of an execution."""
    return {**record._asdict(), "error": None if record.error is None else record.error._asdict()}


def executions_json(page: ExecutionPage) -> JsonObject:
    """Return the JSON of a page of executions."""
    return {**page._asdict(), "executions": [execution_json(one) for one in page.executions]}


def values_json(page: ValuePage) -> JsonObject:
    """Return the JSON of a page of values."""
    return {**page._asdict(), "values": [one._asdict() for one in page.values]}


def explanation_json(said: Explanation) -> JsonObject:
    """Return the JSON of an explanation."""
    return {
        **said._asdict(),
        "status": said.status.to_wire(),
        "held_by": _active(said.held_by),
        "blocked": None if said.blocked is None else said.blocked._asdict(),
    }
