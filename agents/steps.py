"""Owns one model step: request, streamed response, its row, its tools, what it came to. Decides no turn.

The order is that of contract F.2, 7 to 12. A response is stored with its calls before any of them runs; one that comes
after a stop is thrown away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from ..protocol.errors import LimitExceeded
from .bindings import argument_text, loose_arguments
from .context import assemble_request
from .hooks import HookBlocked
from .model_calls import CALLS_PER_STEP_MAX, INVALID_RESPONSE, StepCalls, bounded_calls
from .model_chain import models_of
from .models.calling import call
from .models.seam import ToolCall
from .queued_tools import run_queued, stored_form
from .rows import assistant_row
from .telemetry import Chunks, show
from .tool_answers import answer_calls
from .tool_run import refusal, uncancel
from .turns import Over, Trouble, judge_step

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..protocol.messages import Draft, Message
    from .flow import Flow
    from .models.errors import ModelError
    from .models.seam import ModelResponse
    from .prompt import Prompt
    from .thread_state import ThreadState
    from .tool_answers import Answered
    from .tool_result import ToolResult

__all__ = ["Step", "model_step"]

_JOINS_MAX: Final = 3  # times that steers are let join to make room for the calls of a step


class Step(NamedTuple):
    """What a model step came to: whether the turn is over, what went wrong, the text, the calls with their results."""

    over: Over
    trouble: Trouble = Trouble.NONE
    text: str = ""
    answered: Sequence[Answered] = ()


async def model_step(flow: Flow, state: ThreadState, prompt: Prompt, history: Sequence[Message]) -> Step:
    """Take one model step of the acting side; durable when it returns.

    Args:
        flow: of the loop, or of a sub-prompt.
        state: of the execution.
        prompt: the side's, or the sub-prompt.
        history: what the request is made of.

    Raises:
        ExecutionCancelled: interrupted; every stored call has a result.
        ModelError: no model answered.
    """
    flow.prompt = prompt
    flow.step_count += 1
    flow.side_steps[flow.side] += 1
    flow.message_id = message_id = flow.execution.new_id()
    show(flow, "step_started", step=flow.step_count, side=flow.side)
    try:
        response = await _ask(flow, state, prompt, history, message_id)
    except HookBlocked as error:
        said = state.scene.env.redactor.text(error.message)
        await state.append_hooked(assistant_row(flow, message_id, said))
        return Step(Over.NO, Trouble.BLOCKED, said)
    if flow.stopped:
        return Step(Over.NO)  # the response came after the stop
    step = await _answered(flow, state, response, message_id)
    show(flow, "step_completed", step=flow.step_count, stopped=flow.stopped)
    return step


async def _ask(
    flow: Flow, state: ThreadState, prompt: Prompt, history: Sequence[Message], message_id: str
) -> ModelResponse:
    execution = flow.execution
    models = models_of(flow.agent.definitions, prompt)
    request = await assemble_request(flow, state, prompt, history, state.scene.hooks)
    chunks = Chunks(flow, message_id, state.scene.env.redactor)
    attempt, began = 1, execution.services.clock.now_us()

    def failed(error: ModelError) -> None:
        nonlocal attempt
        attempt += 1
        if execution.entry.watch is not None:
            show(flow, "fallback_triggered", **{"from": error.model, "to": None, "attempt": attempt})

    show(flow, "llm_request", model=models[0].name, attempt=attempt)
    response = await call(
        models, request, begin=execution.begin, sleep=execution.sleep, clock=execution.services.timers,
        on_delta=chunks.take, on_restart=chunks.restart, on_failure=failed,
    )  # fmt: skip
    await uncancel(state)
    execution.begin("response")
    chunks.finish()
    took = execution.services.clock.now_us() - began
    tokens = None if response.usage is None else response.usage.input_tokens + response.usage.output_tokens
    show(flow, "llm_response", tokens=tokens, latency=took // 1_000)
    return response


async def _answered(flow: Flow, state: ThreadState, response: ModelResponse, message_id: str) -> Step:
    """Store a response, run its calls, and judge it."""
    side = flow.acting
    refused: dict[str, ToolResult] = {}
    if response.is_empty:
        calls = StepCalls((ToolCall(f"call_{flow.execution.new_id()}", INVALID_RESPONSE),))
        said = "The response was empty: it has neither text nor a tool call. Answer in text, or call a tool."
        refused[calls.ids[0]] = refusal(said, "invalid_response")
    else:
        redact = state.scene.env.redactor.text
        calls = bounded_calls(response.tool_calls, flow.execution.new_id, redact, taken=flow.course.open_calls)
        if calls.surplus:
            said = (
                f"{calls.surplus} further tool calls of this response were not run: it may have at most "
                f"{CALLS_PER_STEP_MAX - 1}, and their arguments are bounded. Ask for fewer at a time."
            )
            refused[calls.ids[-1]] = refusal(said, "too_many_calls")
    stop = next((one for one in calls.calls if one.name == side.stop_tool), None) if flow.depth == 0 else None
    text = response.text
    if stop is not None:
        text = argument_text(side.stop_tool_response_property, loose_arguments(stop.arguments)) or text
    draft = _row(flow, state, message_id, text, calls, response)
    answered = await answer_calls(flow, state, lambda: _store(flow, state, draft), calls.calls, refused=refused)
    answered += await run_queued(flow, state)
    over = judge_step(
        text=bool(text.strip()), calls=bool(calls.calls), stop_tool=stop is not None,
        stop_on_response=side.stop_on_response, has_stop_tool=side.stop_tool is not None,
        manual=side.manual_stop_condition,
    )  # fmt: skip
    return Step(over, _trouble(flow), text, answered)


def _trouble(flow: Flow) -> Trouble:
    errors = flow.recent_errors
    repeated = len(errors) == errors.maxlen and errors[0] is not None and len(set(errors)) == 1
    return Trouble.REPEATED if repeated else Trouble.NONE


def _row(
    flow: Flow, state: ThreadState, message_id: str, text: str, calls: StepCalls, response: ModelResponse
) -> Draft:  # fmt: skip
    """Return the row of a response, without secrets."""
    redactor = state.scene.env.redactor
    reasoning = flow.prompt.reasoning if flow.prompt is not None else None
    kept = response.reasoning if reasoning is not None and reasoning.include else ""
    return assistant_row(
        flow, message_id, redactor.said(text), calls, calls_text=stored_form(state, calls).text(),
        metadata={"reasoning": redactor.said(kept)} if kept else None,
    )  # fmt: skip


async def _store(flow: Flow, state: ThreadState, draft: Draft) -> None:
    """Store the row of a response."""
    for attempt in range(_JOINS_MAX + 1):
        try:
            await state.append_hooked(draft)
        except LimitExceeded as error:
            # Unread steers and open calls share a limit: those that wait join now, in front of this row.
            if error.details.get("limit") != "unread" or attempt == _JOINS_MAX:
                raise
            flow.course.arrived += await flow.execution.consume()
        else:
            return
