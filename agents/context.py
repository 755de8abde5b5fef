"""Owns the assembly of one model request: system message, history, tools. Changes no history and asks no model.

The request is made of a snapshot (contract F.2, rows 8 and 9): what hooks make of it stays in this request and never
reaches the thread. The cost is that of what is sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from .environment import VariableNotFound
from .models.seam import ModelMessage, ModelRequest, ToolSpec
from .prompt import Prompt, PromptTool, flag_is_on
from .rendering import Values, render_prompt
from .request_history import in_order, in_roles, recent_images_only
from .rows import author
from .tool import Tool
from .toolbox import listed_tools

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..protocol.messages import Message
    from .flow import Flow
    from .hook_runner import HookRunner
    from .thread_state import ThreadState
    from .toolbox import Found

__all__ = ["assemble_request", "offered_tools"]


async def assemble_request(
    flow: Flow, state: ThreadState, prompt: Prompt, messages: Sequence[Message], hooks: HookRunner
) -> ModelRequest:
    """Return what the model is asked for the next step of a flow.

    Args:
        flow: whose step it is.
        state: of the thread, for the hooks and for variables.
        prompt: what the acting side runs.
        messages: the thread's stored history, of every depth.
        hooks: those that hold here.

    Raises:
        HookBlocked: a `prefilter_llm_history` hook ended the run.
        PromptVariableMissing, DefinitionNotFound: the prompt cannot be rendered.
    """
    system = await hooks.run("after_system_message", state, _system(flow, state, prompt))
    snapshot = await hooks.run("filter_messages", state, _snapshot(flow, prompt, messages))
    # Side A versus a human is stored as its model reads it; a sub-prompt is told by the side that it runs for.
    transform = not (flow.side == "a" and flow.sibling.backing == "human")
    ordered = in_order(cast("Sequence[Message]", snapshot))
    speaker = author(flow.side)
    told = in_roles(ordered, speaker, transform=transform)  # type: ignore[arg-type]
    told = recent_images_only(told, prompt.recent_image_threshold)
    if system:
        told.insert(0, ModelMessage("system", str(system)))
    tools = tuple(map(_spec, offered_tools(state, prompt)))
    filtered = await hooks.run("prefilter_llm_history", state, told)
    return ModelRequest(
        messages=tuple(cast("Sequence[ModelMessage]", filtered)),
        tools=tools,
        tool_choice=prompt.tool_choice if tools else "auto",
        parallel_tool_calls=prompt.parallel_tool_calls,
        reasoning=prompt.reasoning,
        provider_options=prompt.provider_options,
    )


def _system(flow: Flow, state: ThreadState, prompt: Prompt) -> str:
    environment = state.scene.env

    def variable(name: str) -> str | None:
        try:
            return environment.find(name).value
        except VariableNotFound:
            return None

    values = Values({**state.arguments, **flow.arguments}, flow.context, variable)
    return render_prompt(prompt, values, flow.agent.definitions.prompt)


def _snapshot(flow: Flow, prompt: Prompt, messages: Sequence[Message]) -> list[Message]:
    """Return the stored rows that this request speaks of: of its own depth, and of the conversation where it reads it."""
    rows = [message for message in messages if message.status != "pending" and _is_read(flow, prompt, message)]
    if prompt.include_past_tools:
        return rows
    # A step must see what this execution's tools said, whatever joined meanwhile; earlier ones are past.
    since = flow.execution.started_at if flow.course.since is None else flow.course.since
    return [
        row.model_copy(update={"tool_calls": None}) if row.tool_calls and row.created_at < since else row
        for row in rows
        if row.role != "tool" or row.created_at >= since
    ]


def _is_read(flow: Flow, prompt: Prompt, message: Message) -> bool:
    if message.depth == flow.depth:
        return flow.depth == 0 or message.parent_id == flow.parent_message_id
    return flow.depth > 0 and prompt.include_chat and message.depth == 0


def offered_tools(state: ThreadState, prompt: Prompt) -> list[Found]:
    """Return what a prompt offers its model now: all that it lists, but for entries whose variable is off."""
    environment = state.scene.env

    def is_on(found: Found) -> bool:
        entry = found.entry
        if not isinstance(entry, PromptTool) or entry.optional is None:
            return True
        try:
            return flag_is_on(environment.find(entry.optional).value)
        except VariableNotFound:
            return False

    return [found for found in listed_tools(state.scene.definitions, prompt) if is_on(found)]


_MESSAGE_ONLY = {
    "type": "object",
    "properties": {"message": {"type": "string", "description": "What the other agent is to begin with."}},
    "additionalProperties": True,
}


def _spec(found: Found) -> ToolSpec:
    target = found.target
    if isinstance(target, Tool):
        return ToolSpec(found.name, target.description, target.schema)
    if isinstance(target, Prompt):
        return ToolSpec(found.name, target.tool_description, target.arguments_schema)
    described = getattr(target, "tool_description", "")
    return ToolSpec(found.name, described or f"Hand the conversation to {target.name}.", _MESSAGE_ONLY)
