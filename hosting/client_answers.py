"""Owns what is made of the JSON of answers: the receipts, records and pages that the runtime itself returns.

The other side of wire.py. Members that a newer server adds are left out. Judges nothing.
"""

from __future__ import annotations

from ..actors import (
    ActiveExecution,
    Blocked,
    ControlReceipt,
    Cursor,
    Disposition,
    ExecutionError,
    ExecutionPage,
    ExecutionRecord,
    Explanation,
    Message,
    MessagePage,
    Receipt,
    RespondStatus,
    ThreadLiveState,
    ThreadPage,
    ThreadStatus,
    ThreadSummary,
    ValueEntry,
    ValuePage,
    Withdrawal,
)
from ..protocol.values import JsonObject

__all__ = [
    "control_receipt_of", "execution_of", "executions_of", "explanation_of", "message_of", "messages_of", "receipt_of",
    "respond_of", "state_of", "thread_of", "threads_of", "values_of", "withdrawal_of",
]  # fmt: skip


def _only(names: tuple[str, ...], answer: JsonObject) -> JsonObject:
    return {name: answer[name] for name in names if name in answer}


def _active(answer: JsonObject | None) -> ActiveExecution | None:
    return None if answer is None else ActiveExecution(**_only(ActiveExecution._fields, answer))


def _status(answer: JsonObject) -> ThreadStatus:
    return ThreadStatus(**_only(ThreadStatus._fields, answer))


def receipt_of(answer: JsonObject) -> Receipt:
    """Return the receipt of an input."""
    known = _only(Receipt._fields, answer)
    return Receipt(**known)._replace(
        disposition=Disposition(answer["disposition"]),
        message_ids=tuple(answer["message_ids"]),
        active_execution=_active(answer["active_execution"]),
    )


def control_receipt_of(answer: JsonObject) -> ControlReceipt:
    """Return the receipt of a control."""
    known = _only(ControlReceipt._fields, answer)
    return ControlReceipt(**known)._replace(
        disposition=Disposition(answer["disposition"]), active_execution=_active(answer["active_execution"])
    )


def withdrawal_of(answer: JsonObject) -> Withdrawal:
    """Return what became of taking an input back."""
    return Withdrawal(answer["status"])


def respond_of(answer: JsonObject) -> RespondStatus:
    """Return what became of an answer to a request."""
    return RespondStatus(answer["status"])


def thread_of(answer: JsonObject) -> ThreadSummary:
    """Return a thread as lists show it."""
    return ThreadSummary(**_only(ThreadSummary._fields, answer))._replace(status=_status(answer["status"]))


def threads_of(answer: JsonObject) -> ThreadPage:
    """Return a page of threads."""
    unreadable = {int(number): said for number, said in answer["unreadable"].items()}
    return ThreadPage([thread_of(one) for one in answer["threads"]], answer["next"], unreadable)


def state_of(answer: JsonObject) -> ThreadLiveState:
    """Return who owns a thread now."""
    return ThreadLiveState(**_only(ThreadLiveState._fields, answer))._replace(
        status=_status(answer["status"]),
        cursor=Cursor.parse(answer["cursor"]),
        active_execution=_active(answer["active_execution"]),
        pending_requests=tuple(answer["pending_requests"]),
    )


def message_of(answer: JsonObject) -> Message:
    """Return a message."""
    return Message.model_validate(_only(tuple(Message.model_fields), answer))


def messages_of(answer: JsonObject) -> MessagePage:
    """Return a page of messages."""
    return MessagePage([message_of(one) for one in answer["messages"]], answer["total"], answer["has_more"])


def execution_of(answer: JsonObject) -> ExecutionRecord:
    """Return one execution's record."""
    error = answer["error"]
    return ExecutionRecord(**_only(ExecutionRecord._fields, answer))._replace(
        error=None if error is None else ExecutionError(error["type"], error["message"]),
        leftovers=tuple(answer["leftovers"]),
    )


def executions_of(answer: JsonObject) -> ExecutionPage:
    """Return a page of executions."""
    return ExecutionPage([execution_of(one) for one in answer["executions"]], answer["total"], answer["has_more"])


def values_of(answer: JsonObject) -> ValuePage:
    """Return a page of values."""
    return ValuePage([ValueEntry(one["key"], one["value"]) for one in answer["values"]], answer["has_more"])


def explanation_of(answer: JsonObject) -> Explanation:
    """Return what holds a thread, and what comes next."""
    blocked = answer["blocked"]
    return Explanation(**_only(Explanation._fields, answer))._replace(
        status=_status(answer["status"]),
        held_by=_active(answer["held_by"]),
        blocked=None if blocked is None else Blocked(**_only(Blocked._fields, blocked)),
        where=tuple(answer["where"]),
        calls=tuple(answer["calls"]),
        waits_on=tuple(answer["waits_on"]),
        requests=tuple(answer["requests"]),
        problems=tuple(answer["problems"]),
    )
