"""Tools and agents for the tests of how a step loop goes on and ends: each tool does what it is called after."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.agents.looping import prompt
from treadle.agents.agent_definition import Agent
from treadle.agents.side import Side
from treadle.agents.testing.scripted_model import ScriptedModel
from treadle.agents.tool import tool
from treadle.agents.tool_result import ToolResult

if TYPE_CHECKING:
    from treadle.agents.thread_state import ThreadState


@tool
async def add(state: ThreadState, a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


@tool
async def broken(state: ThreadState) -> str:
    """Fail."""
    raise ValueError("no such order 17")


@tool
async def stop(state: ThreadState) -> str:
    """Stop the loop."""
    assert state.execution is not None
    state.execution.stop()
    return "stopping"


@tool
async def over(state: ThreadState, text: str | None = None) -> str:
    """End the session."""
    await state.stop_session(result=text)
    return "over"


@tool
async def done(state: ThreadState, summary: str = "") -> ToolResult:
    """Finish, unless there is nothing to say."""
    if summary == "bad":
        return ToolResult(status="error", error="say something")
    return ToolResult(status="success", result="noted")


def forcing(side: str) -> Any:
    @tool(name=f"force_{side}")
    async def force(state: ThreadState) -> str:
        """Force a turn."""
        assert state.execution is not None
        state.execution.force_turn(side)
        return f"to {side}"

    return force


def two_prompts(
    first: Any, second: Any, *, tools: Any = (), **options: Any
) -> tuple[Agent, ScriptedModel, ScriptedModel]:
    one, model_a = prompt("one", *first, tools=tools)
    two, model_b = prompt("two", *second, tools=tools)
    return Agent(**{"name": "two", "side_a": Side(prompt=one), "side_b": Side(prompt=two), **options}), model_a, model_b
