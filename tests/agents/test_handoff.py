"""Another agent takes a thread over after the step whose tool asked for it, beginning with its side A."""

from __future__ import annotations

from typing import Any

from tests.agents.looping import Play, beside_a_human, call, prompt
from treadle.agents.agent import agent as plain_agent
from treadle.agents.agent_definition import Agent
from treadle.agents.handler import handler
from treadle.agents.side import Side
from treadle.agents.thread_state import ThreadState
from treadle.agents.tool import tool


def test_an_agent_called_as_a_tool_takes_the_thread_over() -> None:
    """Contract E.3 handoff; E.3 handoff context; B prompt_path: its prompt answers, the path begins anew."""
    seen: list[Any] = []

    @tool
    async def look(state: ThreadState) -> str:
        assert state.execution is not None
        seen.append((state.agent_id, state.execution.prompt_path, dict(state.context)))
        return "looked"

    other_prompt, other_model = prompt("expert", call("look", "d1"), "Refunded.", tools=[look])
    other = Agent(name="billing", side_a=Side(prompt=other_prompt))
    agent, model = beside_a_human(
        [call("billing", "c1", message="They want a refund.", order=7), call("look", "c2")], tools=["billing", look]
    )
    with Play(agent, other) as play:
        record = play.say()

        assert record.reason == "stop_on_response"
        assert play.results()["c1"] == [("success", "Handoff complete")]
        assert seen == [
            ("agent", ["p"], {}), ("billing", ["expert"], {"message": "They want a refund.", "order": 7}),
        ]  # fmt: skip
        assert ("user", "They want a refund.") in play.told()
        assert ThreadState.at_rest(play.thread).agent_id == "billing"
        other_model.add("More.")
        assert play.say("and again").reason == "stop_on_response"  # the next execution is the new agent's
        assert (len(model.requests), len(other_model.requests)) == (1, 3)


def test_a_handoff_is_no_turn() -> None:
    """Contract E.3 handoff turns: the cap of the new agent is met by its own turns."""
    other_prompt, _ = prompt("expert", "One.", "Two.")
    other = Agent(name="billing", side_a=Side(prompt=other_prompt), max_session_turns=1)
    agent, _ = beside_a_human(call("billing"), tools=["billing"], max_session_turns=1)
    with Play(agent, other) as play:
        assert play.say().reason == "max_session_turns"
        assert play.told()[-1] == ("assistant", "One.")


def test_a_forced_turn_with_a_handoff_is_the_new_agents() -> None:
    """Contract B force_turn handoff: its human side parks, its prompt is not asked."""

    @tool
    async def force(state: ThreadState) -> str:
        assert state.execution is not None
        state.execution.force_turn("b")
        return "forced"

    other_prompt, other_model = prompt("expert")
    other = Agent(name="billing", side_a=Side(prompt=other_prompt))
    agent, _ = beside_a_human([call("force", "c1"), call("billing", "c2")], tools=["billing", force])
    with Play(agent, other) as play:
        assert play.say().reason == "forced_human_turn"
        assert ThreadState.at_rest(play.thread).agent_id == "billing"
        assert other_model.requests == []


def test_a_handler_that_takes_over_is_not_called_with_what_was_said_before() -> None:
    """Contract E.3 handoff: what stands in history was the old agent's to answer."""
    seen: list[Any] = []

    @handler(name="clerk")
    async def clerk(state: ThreadState, message: Any) -> None:
        seen.append(message.content)

    other = Agent(name="billing", side_a=Side(handler=clerk))
    agent, _ = beside_a_human(call("billing", message="Over to you."), tools=["billing"])
    with Play(agent, other) as play:
        assert play.say("long ago").reason == "awaiting_human"
        assert seen == ["Over to you."]


def test_a_plain_function_takes_over_no_thread() -> None:
    """Contract E.3 handoff: only a declared agent has sides; the call is an error result."""

    @plain_agent(name="plain")
    async def plain(state: ThreadState) -> None:
        return None

    agent, _ = beside_a_human(call("plain"), "I see.", tools=["plain"])
    with Play(agent, plain) as play:
        assert play.say().reason == "stop_on_response"
        ((status, _),) = play.results()["c1"]
        assert status == "error"
