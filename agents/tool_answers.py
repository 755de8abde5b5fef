"""Owns the answering of a step's tool calls: one after another, each with exactly one stored result. Asks no model."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

from ..protocol.errors import CallerError, InvalidInput
from ..protocol.open_calls import STOPPED_BY_USER
from ..protocol.values import check_value
from .bindings import run_bound
from .models.halves import clean
from .models.seam import ToolCall
from .rows import tool_row
from .telemetry import show
from .tool_result import ToolResult, tool_result
from .tool_run import refusal, uncancel

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from ..protocol.values import JsonObject
    from .flow import Flow
    from .thread_state import ThreadState

__all__ = ["Answered", "answer_calls", "close_calls"]

_STOPPED: Final = "Execution stopped"
_DEFAULT: Final = "Tool executed successfully"

# What these say is said to the model as it is; a tool's own failure gets the words of the contract around it.
_PLAIN: Final = frozenset(
    {"tool_arguments_invalid", "tool_not_available", "not_run", "interrupted", "too_many_calls", "invalid_response"}
)


class Answered(NamedTuple):
    """One call with its result."""

    call: ToolCall
    result: ToolResult

    @property
    def succeeded(self) -> bool:
        """Whether the call did what it was to do."""
        return self.result.status == "success"


async def answer_calls(
    flow: Flow, state: ThreadState, store: Callable[[], Awaitable[object]] | None, calls: Sequence[ToolCall], *,
    refused: Mapping[str, ToolResult], listed: bool = True, rows: Mapping[str, str] | None = None,
) -> list[Answered]:  # fmt: skip
    """Store the row of a step's calls, run them, and store their results in the same order.

    Args:
        flow: of the step.
        state: what the tools get.
        store: makes the row durable; None where it is.
        calls: all with different ids.
        refused: results by id of the calls that are not run.
        listed: whether only tools of the prompt may run; not so for queued ones.
        rows: by the id of a call the message that it stands in; without it all stand in the flow's own.

    Raises:
        ExecutionCancelled: interrupted; the calls that had no result have one that says so.
    """
    answered: list[Answered] = []
    open_calls = flow.course.open_calls
    open_calls.update(call.id for call in calls)
    try:
        if store is not None:
            await store()
        for call in calls:
            if rows is not None:
                flow.message_id = rows[call.id]
            one = await _answer(flow, state, call, refused.get(call.id), listed=listed)
            open_calls.discard(call.id)
            answered.append(one)
    except asyncio.CancelledError:
        if flow.execution.abort_signal.aborted:
            await _close_interrupted(flow, state, calls[len(answered) :])
        raise
    return answered


async def _answer(
    flow: Flow, state: ThreadState, call: ToolCall, refused: ToolResult | None, *, listed: bool
) -> Answered:
    execution, hooks, seen = flow.execution, state.scene.hooks, _seen(call)
    name = state.scene.env.redactor.text(call.name)
    if refused is None and flow.stopped:
        refused = refusal("This call was not run: the loop was stopped before it.", "not_run")
    if refused is None:
        await hooks.run("tool_call_started", state, seen)
        show(flow, "tool_started", tool=name)
        execution.begin("tool call")
        result = await run_bound(flow, state, call, listed=listed)
        await uncancel(state)
    else:
        execution.begin("tool call")
        result = refused
    result, dropped = await _hooked(state, seen, result)
    result = await _store(flow, state, call, result, dropped=dropped)
    flow.recent_errors.append(None if result.status == "success" else normalised(result.error or ""))
    show(flow, "tool_completed", tool=name, status=result.status)
    await hooks.run("tool_call_done", state, seen, result)
    return Answered(call, result)


def _seen(call: ToolCall) -> JsonObject:
    """Return a call as hooks get it."""
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


async def _hooked(state: ThreadState, seen: JsonObject, result: ToolResult) -> tuple[ToolResult, bool]:
    """Return a result as its hooks leave it, and whether they drop the call from what models read."""
    hooks = state.scene.hooks
    dropped = False
    for kind in ("before_store_tool_result", _after(result)):
        if hooks.has(kind):
            changed = await hooks.run(kind, state, seen, result)
            dropped = changed is None
            result = changed if isinstance(changed, ToolResult) else result
    return result, dropped


def _after(result: ToolResult) -> str:
    return "after_tool_call_success" if result.status == "success" else "after_tool_call_failure"


async def _store(flow: Flow, state: ThreadState, call: ToolCall, result: ToolResult, *, dropped: bool) -> ToolResult:
    """Store the one result of a call; one that cannot be stored gives way to an error that can."""
    redactor = state.scene.env.redactor
    shown = ToolCall(call.id, redactor.text(call.name), call.arguments)
    result = result.model_copy(
        update={
            "result": None if result.result is None else redactor.text(clean(result.result)),
            "error": None if result.error is None else redactor.text(clean(result.error)),
            "error_code": None if result.error_code is None else redactor.text(clean(result.error_code)),
            "error_data": redactor.data(result.error_data),
            "attachments": tuple(redactor.data(one) for one in result.attachments),
        }
    )
    try:
        await state.append_hooked(_row(flow, shown, result, dropped=dropped))
    except CallerError as error:
        if error.code == "call_not_open":
            # A tool has answered it with a message of its own: that is the one result, and stays.
            state._note(f"call {call.id} of {shown.name} was answered already", {"error_type": type(error).__name__})  # noqa: SLF001
            return result
        result = refusal(f"its result cannot be stored: {error.message}", "tool_result_invalid")
        await state.append_hooked(_row(flow, shown, result, dropped=dropped))
    return result


def _row(flow: Flow, call: ToolCall, result: ToolResult, *, dropped: bool) -> JsonObject:
    metadata: JsonObject = {}
    if dropped:
        metadata["dropped"] = True  # neither the call nor this is part of any request
    if result.error_code is not None:
        metadata["error_code"] = result.error_code
    if result.error_data is not None:
        metadata["error_data"] = check_value(result.error_data, path="$.error_data")
    return tool_row(
        flow, call.id, call.name, _text(result), failed=result.status == "error", attachments=result.attachments,
        metadata=metadata or None,
    )  # fmt: skip


def _text(result: ToolResult) -> str:
    """Return what the model reads (contract E.4)."""
    if result.status == "error":
        error = result.error or "unknown error"
        said = error if result.error_code in _PLAIN else f"Failed to execute tool: {error}"
    else:
        said = result.result or _DEFAULT
    paths = [
        f'Attachment path for "{one.get("name") or one["path"]}": {one["path"]}'
        for one in result.attachments
        if one.get("path")
    ]
    return "\n".join([said, *paths])


async def _close_interrupted(flow: Flow, state: ThreadState, left: Sequence[ToolCall]) -> None:
    """Answer what an interruption left open; a function that a worker still runs may say what it came to."""
    running, flow.running = flow.running, None
    await close_calls(flow, state, left if running is None else left[1:])
    if running is None:
        return
    try:
        await _store(flow, state, left[0], tool_result(await running), dropped=False)
    except BaseException:  # noqa: BLE001 - interrupted or failed: either way it has no result to tell of
        await close_calls(flow, state, left[:1])


async def close_calls(flow: Flow, state: ThreadState, calls: Sequence[ToolCall]) -> None:
    """Give each open call the result that the execution was stopped; one that is answered already stays so."""
    redactor = state.scene.env.redactor
    said = STOPPED_BY_USER if flow.execution.abort_signal.source == "user" else _STOPPED
    for call in calls:
        row = tool_row(
            flow, call.id, redactor.text(call.name), said, failed=True, metadata={"error_code": "interrupted"}
        )
        try:
            await flow.execution.append(row)
        except InvalidInput as error:
            if error.code != "call_not_open":
                raise


def normalised(error: str) -> str:
    """Return an error without what differs between two of the same kind: case, space, numbers."""
    folded = "".join("0" if char.isdigit() else char for char in error.casefold())
    return " ".join(folded.split())
