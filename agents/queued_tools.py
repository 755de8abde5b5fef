"""Owns the running of queued tools: those of a step, and those that were queued at rest and have joined. Queues none."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Final

from .model_calls import StepCalls, bounded_calls
from .models.seam import ToolCall
from .request_history import stored_calls
from .rows import assistant_row
from .tool_answers import answer_calls
from .tool_run import refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..protocol.messages import Message
    from .flow import Flow
    from .thread_state import ThreadState
    from .tool_answers import Answered

__all__ = ["QUEUED_PER_STEP_MAX", "is_queued_tool", "run_joined_tools", "run_queued"]

QUEUED_PER_STEP_MAX: Final = 200
"""Tools that one step may queue; a tool that always queues another must not keep its step for ever."""


def is_queued_tool(message: Message) -> bool:
    """Say whether a message is a tool call that was queued at rest."""
    return bool(message.tool_calls) and (message.metadata or {}).get("queued_tool") is True


async def run_joined_tools(flow: Flow, state: ThreadState, messages: Sequence[Message]) -> None:
    """Run the calls of messages that have joined, and what these queue."""
    calls = [(call, message.id) for message in messages for call in stored_calls(message)]
    rows = {call.id: row for call, row in calls}
    await answer_calls(flow, state, None, [call for call, _ in calls], refused={}, listed=False, rows=rows)
    await run_queued(flow, state)


async def run_queued(flow: Flow, state: ThreadState) -> list[Answered]:
    """Run what tools queued in this step, each on record as a call of its own; contract D.7."""
    answered: list[Answered] = []
    over = False
    while flow.tool_queue and not over:
        queued = flow.tool_queue.pop(0)
        call = ToolCall(queued.call_id, queued.name, json.dumps(queued.arguments, ensure_ascii=False))
        made = bounded_calls([call], flow.execution.new_id)
        refused = {}
        if len(answered) >= QUEUED_PER_STEP_MAX:
            said = f"This call was not run: one step may queue {QUEUED_PER_STEP_MAX} tools."
            refused = {made.ids[0]: refusal(said, "too_many_calls")}
            over = True
        flow.message_id = message_id = flow.execution.new_id()
        row = assistant_row(
            flow, message_id, "", made, calls_text=stored_form(state, made).text(), silent=True,
            metadata={"queued_tool": True},
        )  # fmt: skip
        answered += await answer_calls(
            flow, state, partial(state.append_hooked, row), made.calls, refused=refused, listed=False
        )
    if over:
        flow.tool_queue.clear()  # also what hooks have queued meanwhile: they may do so with each row
    return answered


def stored_form(state: ThreadState, calls: StepCalls) -> StepCalls:
    """Return calls as they are stored: tools get what the model wrote, and nobody else does a secret in it."""
    redactor = state.scene.env.redactor
    if not (calls.calls and redactor):
        return calls
    return StepCalls(
        tuple(ToolCall(one.id, redactor.text(one.name), redactor.text(one.arguments)) for one in calls.calls)
    )
