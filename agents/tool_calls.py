"""Owns the tool calls in a message that a body injects: their form, their ids, what answers them. Runs no tool."""

from __future__ import annotations

import json
from typing import Final, NoReturn

from ..protocol.errors import InvalidInput, LimitExceeded, shorten
from ..protocol.ids import check_name
from ..protocol.limits import MESSAGE_BYTES_MAX
from ..protocol.messages import Draft, draft_message
from ..protocol.values import Value, check_value

__all__ = ["check_tool_calls", "draft_injected"]

_PATH: Final = "$.tool_calls"


def draft_injected(
    message_id: str, role: str, content: object, silent: bool, metadata: object, attachments: object, name: object,
    tool_calls: object, tool_call_id: object, tool_status: object,
) -> Draft:  # fmt: skip
    """Check a message that a body injects and return its draft, marked with the calls that it opens or closes.

    Raises:
        InvalidInput: as `draft_message` and `check_tool_calls`; `invalid_role` where a field belongs to another role.
        LimitExceeded: something is too large.
    """
    if tool_calls is None and tool_call_id is None and tool_status is None and name is None:
        return draft_message(message_id, role, content, silent=silent, metadata=metadata, attachments=attachments)
    text: str | None = None
    ids: list[str] = []
    if tool_calls is not None:
        _check_owner(role, "assistant", "tool_calls")
        text, ids = check_tool_calls(tool_calls)
    if tool_call_id is not None:
        _check_owner(role, "tool", "tool_call_id")
        tool_call_id = check_name("tool_call_id", tool_call_id)
    if tool_status is not None:
        _check_owner(role, "tool", "tool_status")
        if tool_status not in ("success", "error"):
            raise InvalidInput(
                f"tool_status must be 'success' or 'error', not {shorten(tool_status)}",
                code="invalid_content",
                field="tool_status",
                value=shorten(tool_status),
            )
    draft = draft_message(
        message_id, role, content, silent=silent, metadata=metadata, attachments=attachments, name=name, tool_calls=text,
        tool_call_id=tool_call_id, tool_status=tool_status,
    )  # fmt: skip
    if ids:
        draft["calls"] = ids
    if tool_call_id is not None:
        draft["closes"] = True
    return draft


def _check_owner(role: str, owner: str, field: str) -> None:
    if role != owner:
        raise InvalidInput(
            f"{field} belongs to a message of role {owner}, not {shorten(role)}",
            code="invalid_role",
            field=field,
            value=shorten(role),
        )


def check_tool_calls(value: object) -> tuple[str | None, list[str]]:
    """Check the calls of one assistant message.

    Args:
        value: a list of `{"id", "type": "function", "function": {"name", "arguments"}}`, or its JSON text; `arguments` is
            text that nothing here reads, since models write what is no JSON. `type` may be left out.

    Returns:
        The JSON text to store, a given one unchanged, and the ids in order; None and no ids for an empty list.

    Raises:
        InvalidInput: `invalid_tool_calls` for another form or an id used twice, `invalid_name` for what is no id,
            `invalid_value` for what is not JSON data.
        LimitExceeded: the text is too large for a message.
    """
    if isinstance(value, str):
        text, calls = value, check_value(_parse(value), path=_PATH)
    else:
        calls = check_value(value, path=_PATH)
        text = json.dumps(calls, ensure_ascii=False, separators=(",", ":"))
    if not isinstance(calls, list):
        raise _refuse(_PATH, value, "tool_calls must be a list of calls or its JSON text")
    if not calls:
        return None, []
    ids: list[str] = []
    known: set[str] = set()
    for rank, call in enumerate(calls):
        call_id = _check_call(call, f"{_PATH}[{rank}]")
        if call_id in known:
            # Each call gets exactly one result, found by its id.
            raise _refuse(f"{_PATH}[{rank}].id", call_id, "two calls of a message have the same id")
        known.add(call_id)
        ids.append(call_id)
    return text, ids


def _refuse(path: str, value: object, why: str) -> InvalidInput:
    return InvalidInput(
        f"{why} at {path}: {shorten(value)}", code="invalid_tool_calls", path=path, value=shorten(value)
    )


def _parse(text: str) -> object:
    if len(text) > MESSAGE_BYTES_MAX:
        raise LimitExceeded(
            f"tool_calls has {len(text)} characters; the limit message_bytes is {MESSAGE_BYTES_MAX}",
            limit="message_bytes",
            maximum=MESSAGE_BYTES_MAX,
            met=len(text),
        )
    try:
        parsed: object = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise _refuse(_PATH, text, f"tool_calls is not JSON ({shorten(str(error))})") from None
    return parsed


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _check_call(call: Value, path: str) -> str:
    if not isinstance(call, dict):
        raise _refuse(path, call, "a tool call must be a dict")
    if call.get("type", "function") != "function":
        raise _refuse(f"{path}.type", call["type"], 'the type of a tool call must be "function"')
    function = call.get("function")
    if not isinstance(function, dict):
        raise _refuse(f"{path}.function", function, "the function of a tool call must be a dict")
    for key in ("name", "arguments"):
        if not isinstance(function.get(key), str):
            raise _refuse(f"{path}.function.{key}", function.get(key), f"the {key} of a tool call must be text")
    return check_name(f"{path}.id", call.get("id"))
