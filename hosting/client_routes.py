"""Owns which call goes to which route, with which members; all that both clients send is made here. Sends nothing.

An input gets an id where the caller gave none, as in process: so a repeat of it is harmless.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from ..protocol.ids import check_id, check_key
from ..protocol.message_edits import UNCHANGED
from ..protocol.messages import Message
from ..protocol.receipts import ControlReceipt, Receipt
from . import client_answers as answers
from .client_calls import Call, new_id, path

if TYPE_CHECKING:
    from ..actors import (
        ExecutionPage,
        ExecutionRecord,
        Explanation,
        MessagePage,
        RespondStatus,
        ThreadLiveState,
        ThreadPage,
        ThreadSummary,
        ValuePage,
        Withdrawal,
    )
    from ..protocol.values import JsonObject, Value

__all__ = [
    "EVENTS", "create_thread", "delete_message", "delete_thread", "ended_execution", "events", "execution",
    "execution_of_input", "executions", "explain", "get_value", "interrupt", "message", "messages", "queue_message",
    "queue_tool", "receipt", "respond", "resume", "set_tags",
    "set_value", "state", "steer", "stop", "submit", "tags", "terminate", "thread", "threads", "update_message",
    "values", "withdraw",
]  # fmt: skip

EVENTS: Final = "/events"
_CONFLICT: Final = frozenset({409})
_OF_MESSAGES: Final = {"role", "content", "silent", "metadata", "attachments", "name", "tool_calls", "tool_call_id"}


def _thread(thread_id: str, *rest: str) -> str:
    return path("threads", check_id("thread_id", thread_id), *rest)


def _without_none(**members: object) -> JsonObject:
    return {name: value for name, value in members.items() if value is not None}


def _content(content: object) -> object:
    """Return content as JSON data; what is none is refused where the request is made."""
    if isinstance(content, list | tuple):
        return [_content(item) for item in content]
    if isinstance(content, Message):
        return content.model_dump(include=_OF_MESSAGES, exclude_defaults=True)
    return content


# Threads


def create_thread(
    agent: str, thread_id: str | None, user_id: str | None, arguments: object, tags: Iterable[str], env: object
) -> Call[ThreadSummary]:
    """Create a thread. It is not repeated: the second time would say that the thread is there."""
    body = {"agent_id": agent, "tags": list(tags)}
    body |= _without_none(thread_id=thread_id, user_id=user_id, arguments=arguments, env=env)
    return Call("POST", "/threads", answers.thread_of, body=body)


def threads(
    user_id: str | None, agent: str | None, state: str | None, order: str, limit: int, after: str | None
) -> Call[ThreadPage]:
    """Read a page of threads."""
    query = {"user_id": user_id, "agent_id": agent, "state": state, "order": order, "limit": limit, "after": after}
    return Call("GET", "/threads", answers.threads_of, query, repeatable=True)


def thread(thread_id: str) -> Call[ThreadSummary]:
    """Read one thread."""
    return Call("GET", _thread(thread_id), answers.thread_of, repeatable=True)


def tags(thread_id: str) -> Call[list[str]]:
    """Read a thread's tags."""
    return Call("GET", _thread(thread_id), _tags, repeatable=True)


def set_tags(thread_id: str, tags: Iterable[str]) -> Call[list[str]]:
    """Replace a thread's tags."""
    return Call("PATCH", _thread(thread_id), _tags, body={"tags": list(tags)}, repeatable=True)


def _tags(answer: JsonObject) -> list[str]:
    return list(answer["tags"])


def terminate(thread_id: str) -> Call[int]:
    """Close a thread for good; the first time counts, so it may be repeated."""

    def since(answer: JsonObject) -> int:
        return int(answer["terminated_at"])

    return Call("PATCH", _thread(thread_id), since, body={"terminated": True}, repeatable=True)


def delete_thread(thread_id: str) -> Call[None]:
    """Delete a thread. It is not repeated: the second time would say that there is none."""
    return Call("DELETE", _thread(thread_id), _nothing)


def state(thread_id: str) -> Call[ThreadLiveState]:
    """Read who owns a thread."""
    return Call("GET", _thread(thread_id, "state"), answers.state_of, repeatable=True)


def explain(thread_id: str) -> Call[Explanation]:
    """Read what holds a thread."""
    return Call("GET", _thread(thread_id, "explain"), answers.explanation_of, repeatable=True)


def events(thread_id: str) -> str:
    """Return the path of a thread's stream."""
    return _thread(thread_id, "events")


# Inputs and controls


def submit(thread_id: str, content: object, input_id: str | None, on_busy: str, timeout: float | None) -> Call[Receipt]:
    """Hand in an input."""
    members = {"type": "USER_MESSAGES_INPUT", "messages": _content(content), "on_busy": on_busy}
    return _input(_thread(thread_id, "inputs"), {**members, **_without_none(timeout=timeout)}, input_id)


def queue_message(
    thread_id: str,
    content: object,
    role: str,
    input_id: str | None,
    metadata: object,
    attachments: object,
    *,
    silent: bool,
) -> Call[Receipt]:
    """Queue a message."""
    members = {"content": _content(content), "role": role, "silent": silent}
    given = _without_none(metadata=metadata, attachments=attachments)
    return _input(_thread(thread_id, "messages"), {**members, **given}, input_id)


def queue_tool(thread_id: str, name: str, args: object, input_id: str | None) -> Call[Receipt]:
    """Have a tool called."""
    members = {"type": "QUEUED_TOOL_INPUT", "name": name, **_without_none(args=args)}
    return _input(_thread(thread_id, "inputs"), members, input_id)


def _input(where: str, members: JsonObject, input_id: str | None) -> Call[Receipt]:
    chosen = new_id() if input_id is None else input_id
    body, names = {**members, "input_id": chosen}, {"input_id": chosen}
    return Call("POST", where, answers.receipt_of, body=body, refusals=_CONFLICT, repeatable=True, names=names)


def receipt(thread_id: str, given_id: str) -> Call[Receipt | ControlReceipt]:
    """Read the first receipt under an id."""

    def read(answer: JsonObject) -> Receipt | ControlReceipt:
        return answers.control_receipt_of(answer) if "control_id" in answer else answers.receipt_of(answer)

    return Call("GET", _thread(thread_id, "inbox", given_id), read, repeatable=True)


def withdraw(thread_id: str, input_id: str) -> Call[Withdrawal]:
    """Take an input back."""
    return Call("DELETE", _thread(thread_id, "inbox", input_id), answers.withdrawal_of)


def steer(thread_id: str, execution_id: str, content: object, control_id: str | None) -> Call[ControlReceipt]:
    """Give an execution something to read."""
    chosen = new_id() if control_id is None else control_id
    body = {"type": "STEERING_INPUT", "execution_id": execution_id, "messages": _content(content), "control_id": chosen}
    where, names = _thread(thread_id, "inputs"), {"control_id": chosen}
    read = answers.control_receipt_of
    return Call("POST", where, read, body=body, refusals=_CONFLICT, repeatable=True, names=names)


def interrupt(
    thread_id: str, execution_id: str, reason: str | None, source: str, control_id: str | None, *, hold: bool
) -> Call[ControlReceipt]:
    """End an execution."""
    body = {"type": "INTERRUPTION_REQUEST", "execution_id": execution_id, "source": source, "hold": hold}
    body |= _without_none(reason=reason, control_id=control_id)
    # One that names its execution does no more the second time; only its receipt may differ where it has no id.
    repeatable = control_id is not None
    where = _thread(thread_id, "inputs")
    return Call("POST", where, answers.control_receipt_of, body=body, refusals=_CONFLICT, repeatable=repeatable)


def stop(thread_id: str) -> Call[ControlReceipt]:
    """Interrupt whatever is active, and hold the thread."""
    return Call("POST", _thread(thread_id, "stop"), answers.control_receipt_of, refusals=_CONFLICT)


def resume(thread_id: str) -> Call[Receipt]:
    """Lift the hold. It is not repeated: the second time may run the thread once more."""
    return Call("POST", _thread(thread_id, "resume"), answers.receipt_of, refusals=_CONFLICT)


def respond(thread_id: str, request_id: str, value: object) -> Call[RespondStatus]:
    """Answer a request. It is not repeated: the second time would say that it is answered."""
    body = {"request_id": request_id, "value": value}
    return Call("POST", _thread(thread_id, "responses"), answers.respond_of, body=body, refusals=_CONFLICT)


# Messages, executions, values


def messages(
    thread_id: str, limit: int, offset: int, order: str | None, max_depth: int, before: str | None, after: str | None, *,
    include_silent: bool,
) -> Call[MessagePage]:  # fmt: skip
    """Read a page of messages."""
    query = {"limit": limit, "offset": offset, "order": order, "include_silent": include_silent, "max_depth": max_depth}
    query |= {"before": before, "after": after}
    return Call("GET", _thread(thread_id, "messages"), answers.messages_of, query, repeatable=True)


def message(thread_id: str, message_id: str) -> Call[Message]:
    """Read one message."""
    return Call("GET", _thread(thread_id, "messages", message_id), answers.message_of, repeatable=True)


def update_message(thread_id: str, message_id: str, content: object, metadata: object) -> Call[Message]:
    """Change a message; what is unchanged is left out, since null says something."""
    given = {"content": content, "metadata": metadata}
    body = {name: value for name, value in given.items() if value is not UNCHANGED}
    return Call("PATCH", _thread(thread_id, "messages", message_id), answers.message_of, body=body, repeatable=True)


def delete_message(thread_id: str, message_id: str) -> Call[bool]:
    """Delete a message. It is not repeated: the second time would say that it was not there."""

    def deleted(answer: JsonObject) -> bool:
        return bool(answer["deleted"])

    return Call("DELETE", _thread(thread_id, "messages", message_id), deleted)


def executions(thread_id: str, limit: int, offset: int, order: str) -> Call[ExecutionPage]:
    """Read a page of executions."""
    query = {"limit": limit, "offset": offset, "order": order}
    return Call("GET", _thread(thread_id, "executions"), answers.executions_of, query, repeatable=True)


def execution(thread_id: str, execution_id: str) -> Call[ExecutionRecord]:
    """Read one execution."""
    return Call("GET", _thread(thread_id, "executions", execution_id), answers.execution_of, repeatable=True)


def ended_execution(thread_id: str, execution_id: str, seconds: float) -> Call[ExecutionRecord | None]:
    """Read one execution's record at its end, or as it is after a time."""
    where = _thread(thread_id, "executions", execution_id)
    return Call("GET", where, answers.execution_of, {"wait": f"{seconds:.3f}"}, repeatable=True, patience=seconds)


def execution_of_input(thread_id: str, input_id: str, seconds: float) -> Call[ExecutionRecord | None]:
    """Read the execution that an input came to, None while it waits; at its end, or as it is after a time."""

    def read(answer: JsonObject) -> ExecutionRecord | None:
        return answers.execution_of(answer) if answer else None

    where = _thread(thread_id, "inputs", input_id)
    return Call("GET", where, read, {"wait": f"{seconds:.3f}"}, repeatable=True, patience=seconds)


def get_value(thread_id: str, key: str) -> Call[Value]:
    """Read a value."""

    def value(answer: JsonObject) -> Value:
        found: Value = answer["value"]
        return found

    return Call("GET", _thread(thread_id, "values", check_key(key)), value, repeatable=True)


def set_value(thread_id: str, key: str, value: object) -> Call[None]:
    """Set a value, or delete it."""
    where = _thread(thread_id, "values", check_key(key))
    if value is None:
        return Call("DELETE", where, _nothing, repeatable=True)
    return Call("PUT", where, _nothing, body={"value": value}, repeatable=True)


def values(thread_id: str, search: str | None, limit: int, offset: int) -> Call[ValuePage]:
    """Read a page of values."""
    query = {"search": search, "limit": limit, "offset": offset}
    return Call("GET", _thread(thread_id, "values"), answers.values_of, query, repeatable=True)


def _nothing(_answer: JsonObject) -> None:
    return None
