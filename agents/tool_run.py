"""Owns the running of one tool of any class, here and now: whatever it does becomes a result. Stores nothing.

Every escape of a tool (an exception, `SystemExit`, a cancellation of its own, a value that is no result) is an error
result. Only the end of the execution passes.
"""

from __future__ import annotations

import asyncio
from contextvars import copy_context
from typing import TYPE_CHECKING, Final, cast

from ..actors.fence import ExecutionFenced
from ..actors.reply import Reply
from .agent_definition import Agent
from .environment import entry_env
from .flow import Handoff
from .prompt import Prompt, PromptTool, SubPrompt
from .required_schema import check_against
from .tool import Tool, ToolArgumentsInvalid
from .tool_result import ToolResult, failed_result, tool_result
from .toolbox import find_tool

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from ..protocol.values import JsonObject
    from .flow import Flow
    from .models.seam import ToolCall
    from .thread_state import ThreadState
    from .toolbox import Found

__all__ = ["refusal", "run_tool", "uncancel"]

_NAME_SHOWN: Final = 80  # characters of a name that no tool has


def refusal(error: str, code: str) -> ToolResult:
    """Return the result of a call that was not run, or failed by what the loop itself says."""
    return ToolResult(status="error", error=error, error_code=code)


async def run_tool(flow: Flow | None, state: ThreadState, call: ToolCall, *, listed: bool = False) -> ToolResult:
    """Run one tool; on the loop.

    Args:
        flow: of the calling step; None at rest.
        state: what the tool gets.
        call: names a function tool, a prompt, or an agent to hand over to.
        listed: whether it has to be one of the current prompt's.

    Returns:
        Its result; whatever it raised is an error result.

    Raises:
        ExecutionCancelled, ExecutionFenced: the execution is over.
    """
    try:
        found = find_tool(flow, state, call.name, listed=listed)
        if found is None:
            name = call.name if len(call.name) <= _NAME_SHOWN else call.name[: _NAME_SHOWN - 1] + "…"
            return refusal(f'Tool "{name}" is not available for this prompt', "tool_not_available")
        return await _run_with_env(flow, state, found, call)
    except ExecutionFenced as error:
        if flow is None or flow.execution.fenced:
            raise
        return failed_result(error)  # it used the state of an execution that is over: an error like any other
    except asyncio.CancelledError as error:
        if state.execution is not None and state.execution.abort_signal.aborted:
            raise
        await uncancel(state)
        return failed_result(error)
    except BaseException as error:  # noqa: BLE001 - whatever a tool raises is its result
        return failed_result(error)


async def uncancel(state: ThreadState) -> None:
    """Take back the cancellations that code asked of its own task, delivered or not: the loop goes on.

    Raises:
        ExecutionCancelled: the execution was interrupted meanwhile.
    """
    task, execution = asyncio.current_task(), state.execution
    if task is None or not task.cancelling() or (execution is not None and execution.abort_signal.aborted):
        return
    while task.cancelling():
        task.uncancel()
    try:
        await asyncio.sleep(0)  # here, and not in the middle of the loop, one that is still to come arrives
    except asyncio.CancelledError:
        if execution is not None and execution.abort_signal.aborted:
            raise


async def _run_with_env(flow: Flow | None, state: ThreadState, found: Found, call: ToolCall) -> ToolResult:
    """Run what was found with the variables that its entry in the prompt sets for it."""
    if not isinstance(found.entry, PromptTool) or not found.entry.env:
        return await _run_found(flow, state, found, call)
    token = entry_env.set(found.entry.env)
    try:
        return await _run_found(flow, state, found, call)
    finally:
        entry_env.reset(token)


async def _run_found(flow: Flow | None, state: ThreadState, found: Found, call: ToolCall) -> ToolResult:
    target = found.target
    kind = "Prompt tool" if isinstance(target, Prompt) else "Tool"
    try:
        if isinstance(target, Tool):
            arguments = target.validate(call.arguments)
        elif isinstance(target, Prompt):
            arguments = target.check_arguments(call.arguments)
        else:
            arguments = check_against(None, call.arguments)
    except ToolArgumentsInvalid as error:
        return refusal(f"{kind} argument validation failed: {error}", "tool_arguments_invalid")
    if isinstance(target, Tool):
        return await _run_function(flow, state, target, arguments)
    if flow is None:
        return refusal(f"{found.name!r} requires active execution", "no_active_execution")
    if isinstance(target, Prompt):
        from .sub_prompts import run_sub_prompt

        config = found.entry if isinstance(found.entry, SubPrompt) else None
        return await run_sub_prompt(flow, state, target, config, arguments)
    if not isinstance(target, Agent):
        return refusal(f"agent {found.name!r} is a plain function, which takes over no thread", "no_step_loop")
    message = arguments.get("message")
    flow.hand_off(Handoff(target.name, arguments, message if isinstance(message, str) and message else None))
    return ToolResult(status="success", result="Handoff complete")


async def _run_function(flow: Flow | None, state: ThreadState, tool: Tool, named: JsonObject) -> ToolResult:
    if flow is None:
        return tool_result(await _call_at_rest(state, tool, named))
    caller, flow.caller = flow.caller, tool
    try:
        if tool.runs_on == "loop":
            return tool_result(await cast("Awaitable[object]", tool.function(state, **named)))
        return tool_result(await _call(flow, state, tool, named))
    finally:
        flow.caller = caller


async def _call(flow: Flow, state: ThreadState, tool: Tool, named: JsonObject) -> object:
    running: Reply[object] = flow.execution.call(tool.function, state, **named)
    outermost = flow.running is None  # else a tool of this step invokes another one
    if outermost:
        flow.running = running
    keep = False
    try:
        return await running
    except asyncio.CancelledError:
        # An interrupt ends this wait, and not the function: what it comes to is asked of it once more.
        keep = flow.execution.abort_signal.aborted
        raise
    finally:
        if outermost and not keep:
            flow.running = None


async def _call_at_rest(state: ThreadState, tool: Tool, named: JsonObject) -> object:
    if tool.runs_on == "loop":
        return await cast("Awaitable[object]", tool.function(state, **named))
    reply: Reply[object] = Reply()

    def ended(error: BaseException | None) -> None:
        if error is not None:
            reply.fail(error)

    pool = state._access.services.pool  # noqa: SLF001 - where plain functions run, execution or not
    pool.submit(f"tool {tool.name}", lambda: reply.set(tool.function(state, **named)), ended, copy_context())
    return await reply
