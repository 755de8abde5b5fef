"""Owns what is known of a tool call that has no result: where its message stands, so that the result stands there too. Pure."""

from __future__ import annotations

import json
from typing import Final, NamedTuple

from .messages import Draft

__all__ = ["STOPPED_BY_USER", "OpenCall", "calls_of", "result_of"]

STOPPED_BY_USER: Final = "Execution stopped by user"
"""What an open call is answered with, and a system row says, after a user's interrupt (contract F.3)."""


class OpenCall(NamedTuple):
    """One call without a result; `name`, `depth` and `parent_id` are those of its message."""

    call_id: str
    name: str | None = None
    depth: int = 0
    parent_id: str | None = None


def calls_of(draft: Draft) -> list[OpenCall]:
    """Return the calls that a message makes, in its order."""
    names = _names(draft.get("tool_calls"))
    depth, parent_id = draft.get("depth", 0), draft.get("parent_id")
    return [OpenCall(call_id, names.get(call_id), depth, parent_id) for call_id in draft.get("calls", ())]


def result_of(call: OpenCall, message_id: str, content: str) -> Draft:
    """Return the error that answers a call whose body gave it no result."""
    draft: Draft = {
        "id": message_id,
        "role": "tool",
        "content": content,
        "tool_call_id": call.call_id,
        "tool_status": "error",
        "closes": True,
    }
    if call.name:
        draft["name"] = call.name
    if call.depth:
        draft["depth"], draft["parent_id"] = call.depth, call.parent_id
    return draft


def _names(text: object) -> dict[str, str]:
    try:
        found = json.loads(text) if isinstance(text, str) else ()
    except ValueError:
        return {}  # a loop may store the text of its calls with something taken out; the result needs no name
    names: dict[str, str] = {}
    for call in found if isinstance(found, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        name = function.get("name") if isinstance(function, dict) else None
        if isinstance(name, str) and "\0" not in name:
            names[str(call.get("id"))] = name
    return names
