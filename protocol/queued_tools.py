"""Owns the message of a queued tool: one call that nobody has made yet, to be run at the next boundary. Runs no tool."""

from __future__ import annotations

import json

from .errors import InvalidInput, shorten
from .ids import check_id
from .messages import Draft, draft_message, draft_size
from .values import check_value

__all__ = ["draft_queued_tool"]

_MARK = {"queued_tool": True}


def draft_queued_tool(message_id: str, call_id: str, name: object, args: object) -> tuple[Draft, int]:
    """Return the draft that a queued tool waits as, and its size in bytes.

    Args:
        message_id, call_id: both unused.
        name: of the tool, 1 to 128 printable ASCII characters; whether there is one, is seen when it runs.
        args: a dict of JSON data, None for none.

    Raises:
        InvalidInput, LimitExceeded: they are not.
    """
    tool = check_id("tool", name)
    checked = check_value({} if args is None else args, path="$.args")
    if not isinstance(checked, dict):
        raise InvalidInput(
            f"a tool's args are a dict, not {shorten(args)}", code="invalid_value", path="$.args", value=shorten(args)
        )
    arguments = json.dumps(checked, ensure_ascii=False, separators=(",", ":"))
    call = {"id": call_id, "type": "function", "function": {"name": tool, "arguments": arguments}}
    text = json.dumps([call], ensure_ascii=False, separators=(",", ":"))
    draft = draft_message(message_id, "assistant", None, silent=True, metadata=_MARK, tool_calls=text)
    draft["calls"] = [call_id]
    return draft, draft_size(draft)
