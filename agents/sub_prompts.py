"""Owns sub-prompts: a prompt that is called as a tool makes one model request, runs its tools, and is a result. No turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..protocol.messages import draft_message
from .bindings import argument_text
from .flow import current_flow
from .rows import fitting, placed, reader
from .tool_result import ToolResult
from .tool_run import refusal
from .turns import Trouble

if TYPE_CHECKING:
    from ..protocol.messages import Message
    from ..protocol.values import JsonObject
    from .flow import Flow
    from .prompt import Prompt, SubPrompt
    from .steps import Step
    from .thread_state import ThreadState

__all__ = ["SUB_PROMPTS_MAX", "SUB_PROMPT_DEPTH_MAX", "run_sub_prompt"]

SUB_PROMPT_DEPTH_MAX: Final = 8
"""Sub-prompts inside one another (contract I.4)."""

SUB_PROMPTS_MAX: Final = 1_000
"""Model requests of sub-prompts in one execution; steps are bounded by their own limits."""

_DEFAULT: Final = "Prompt executed successfully"


async def run_sub_prompt(
    flow: Flow, state: ThreadState, prompt: Prompt, config: SubPrompt | None, arguments: JsonObject
) -> ToolResult:  # fmt: skip
    """Run a prompt for one call of the flow's step.

    Args:
        flow: of the calling step.
        state: of the execution; what runs inside sees the sub-prompt's flow on it.
        prompt: what is run.
        config: how the calling prompt lists it, None for by its name alone.
        arguments: checked.

    Raises:
        ExecutionCancelled: interrupted; what the sub-prompt called has results.
        ModelError: no model answered.
    """
    from .steps import model_step

    if flow.depth >= SUB_PROMPT_DEPTH_MAX:
        return refusal(f"sub-prompts are at most {SUB_PROMPT_DEPTH_MAX} deep", "sub_prompt_depth")
    if flow.course.sub_prompts >= SUB_PROMPTS_MAX:
        return refusal(f"an execution runs at most {SUB_PROMPTS_MAX} sub-prompts", "sub_prompt_limit")
    flow.course.sub_prompts += 1
    child = flow.child(prompt, arguments)
    token = current_flow.set(child)
    try:
        history = [one for one in await flow.history(prompt) if one.depth == 0] if prompt.include_chat else []
        said = await _say_first(child, state, config, arguments)
        step = await model_step(child, state, prompt, history if said is None else [*history, said])
    finally:
        current_flow.reset(token)
    return _result(step, config)


async def _say_first(
    child: Flow, state: ThreadState, config: SubPrompt | None, arguments: JsonObject
) -> Message | None:
    """Store what the sub-prompt is to answer: the argument that is named for it, by default all arguments."""
    if config is not None and config.init_user_message_property is not None:
        text = argument_text(config.init_user_message_property, arguments)
    else:
        text = argument_text("arguments", {"arguments": arguments}) if arguments else None
    named = None if config is None else config.init_attachments_property
    given = arguments.get(named) if named is not None else None
    attachments = [one for one in given if isinstance(one, dict)] if isinstance(given, list) else []
    if not text and not attachments:
        return None
    redacted = fitting(state.scene.env.redactor.text(text or ""))
    draft = draft_message(
        child.execution.new_id(), reader(child.side), redacted or None, attachments=attachments or None
    )
    return await state.append_hooked(placed(draft, child))


def _result(step: Step, config: SubPrompt | None) -> ToolResult:
    if step.trouble is Trouble.BLOCKED:
        return refusal(step.text or "a hook blocked the request", "hook_blocked")
    parts = [step.text] if config is None or config.include_text_response else []
    for call, result in step.answered:
        if result.status == "success":
            if config is None or config.include_tool_calls:
                parts.append(result.result or "")
        elif config is None or config.include_errors:
            parts.append(f"{call.name} failed: {result.error or 'unknown error'}")
    return ToolResult(status="success", result="\n".join(part for part in parts if part.strip()) or _DEFAULT)
