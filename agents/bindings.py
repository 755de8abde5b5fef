"""Owns what a side binds to tools (contract E.2): the end of the session, its failure, its status. Runs tools by `run_tool`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ..protocol.errors import shorten
from .flow import SessionEnd
from .tool_run import refusal, run_tool

if TYPE_CHECKING:
    from ..protocol.values import JsonObject
    from .flow import Flow
    from .models.seam import ToolCall
    from .side import Binding, Side
    from .thread_state import ThreadState
    from .tool_result import ToolResult

__all__ = ["argument_text", "loose_arguments", "run_bound"]


async def run_bound(flow: Flow, state: ThreadState, call: ToolCall, *, listed: bool) -> ToolResult:
    """Run a call, and then what the acting side binds to a tool of its name; only a success ends a session.

    Raises:
        ExecutionCancelled, ExecutionFenced: the execution is over.
    """
    # Bindings are the side's, not those of a sub-prompt that one of its tools runs.
    bound = [] if flow.depth else _bindings(flow.acting, call.name)
    if not bound:
        return await run_tool(flow, state, call, listed=listed)
    arguments = loose_arguments(call.arguments)
    for _, binding in bound:
        missing = _missing_attachment(binding, arguments)
        if missing is not None:
            return refusal(f"attachment path does not exist: {missing}", "attachment_not_found")
    result = await run_tool(flow, state, call, listed=listed)
    if result.status != "success":
        return result
    for reason, binding in bound:
        text = argument_text(binding.message_property, arguments)
        if reason is None:
            if text:
                await state.set_status(text)
            continue
        if text is not None:
            result = result.model_copy(update={"result": text})
        flow.end_session(SessionEnd(reason, result.result))
    return result


def _bindings(side: Side, name: str) -> list[tuple[str | None, Binding]]:
    """Return what a side binds to a tool, with the stop code where that ends the session."""
    named = (("session_stop", side.session_stop), ("session_fail", side.session_fail), (None, side.session_status))
    return [(reason, binding) for reason, binding in named if binding is not None and binding.name == name]


def loose_arguments(text: str) -> JsonObject:
    """Return the arguments of a call; none where they are no object."""
    try:
        parsed = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    return parsed if isinstance(parsed, dict) else {}


def argument_text(name: str | None, arguments: JsonObject) -> str | None:
    """Return an argument as text; None where there is none."""
    value = None if name is None else arguments.get(name)
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _missing_attachment(binding: Binding, arguments: JsonObject) -> str | None:
    """Return the first attachment path that is not there: threads have no files yet, so any that is named."""
    given = arguments.get(binding.attachments_property) if binding.attachments_property else None
    paths = given if isinstance(given, list) else [given] if given else []
    return shorten(paths[0]) if paths else None
