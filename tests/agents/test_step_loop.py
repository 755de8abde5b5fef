"""The loop does what its table says, in the contract's order, and code sees where it stands."""

from __future__ import annotations

from typing import Any

import pytest

from tests.agents.ending_tools import add, forcing, over, two_prompts
from tests.agents.looping import PATIENCE_S, Play, beside_a_human, call, prompt
from treadle.agents.agent_definition import Agent
from treadle.agents.handler import handler
from treadle.agents.hook import hook
from treadle.agents.side import Side
from treadle.agents.testing.scripted_model import Pause
from treadle.agents.thread_state import ThreadState
from treadle.agents.tool import tool

# F.1, F.2: the order


def test_a_step_stores_its_calls_runs_its_tools_and_asks_again() -> None:
    """Contract F.1 order; F.2 row 12: the response is stored, its tools run, results are stored, then the next step."""
    agent, model = beside_a_human(["Let me see. ", call("add", a=1, b=2)], "Three.", tools=[add])
    with Play(agent) as play:
        record = play.say("1 + 2?")

        assert (record.outcome, record.reason) == ("succeeded", "stop_on_response")
        assert play.told() == [
            ("user", "1 + 2?"), ("assistant", "Let me see. "), ("tool", "3"), ("assistant", "Three."),
        ]  # fmt: skip
        assert play.results() == {"c1": [("success", "3")]}
        told = [(one.role, one.content) for one in model.requests[1].messages]
        assert told == [
            ("system", "This is p."), ("user", "1 + 2?"), ("assistant", "Let me see. "), ("tool", "3"),
        ]  # fmt: skip


def test_a_response_and_its_results_are_durable_before_anything_follows_them() -> None:
    """Contract F.1 stored first: a tool finds its own call in history, the next request finds the result there."""
    seen: list[list[tuple[str, str | None]]] = []

    @tool
    async def look(state: ThreadState) -> str:
        """Look at the stored history."""
        page = await state.get_messages()
        seen.append([(one.role, one.tool_calls and "calls") for one in page.messages])
        return "looked"

    agent, _ = beside_a_human(call("look"), lambda request: f"{len(seen)} looks", tools=[look])
    with Play(agent) as play:
        play.say()

        assert seen == [[("user", None), ("assistant", "calls")]]
        assert play.told()[-1] == ("assistant", "1 looks")


def test_what_waits_joins_before_the_next_model_step_and_never_between_a_call_and_its_result() -> None:
    """Contract F.2 row 2; D.4 active; D.4 drain: a queued message joins once the calls of the step have their results."""

    @tool
    async def queue(state: ThreadState) -> str:
        """Queue a message meanwhile."""
        await state.queue_message("and quickly")
        assert await state.checkpoint() == []
        return "queued"

    agent, model = beside_a_human([call("queue", "c1"), call("queue", "c2")], "Yes.", tools=[queue])
    with Play(agent) as play:
        record = play.say()

        assert record.reason == "stop_on_response"
        assert play.told() == [
            ("user", "go"), ("assistant", None), ("tool", "queued"), ("tool", "queued"), ("user", "and quickly"),
            ("user", "and quickly"), ("assistant", "Yes."),
        ]  # fmt: skip
        assert [one.status for one in play.messages()] == ["completed"] * 7
        assert [one.content for one in model.requests[1].messages][-2:] == ["and quickly"] * 2


def test_all_that_waits_joins_before_a_model_step_however_much_it_is() -> None:
    """Contract D.4 drain: also what is more than one batch may hold, and what waits behind a queued tool."""

    @tool
    async def wait(state: ThreadState) -> str:
        await state.request("go on")
        return "went on"

    @tool
    async def later(state: ThreadState) -> str:
        return "ran"

    agent, model = beside_a_human(call("wait"), "I read it all.", tools=[wait, later])
    with Play(agent) as play, play.thread.stream() as stream:
        execution_id = play.submit()
        opened = next(frame for frame in stream if frame["type"] == "REQUEST_OPENED")
        for number in range(6):
            play.thread.queue_message(f"{number}" * (1 << 20)).result(PATIENCE_S)
        ThreadState.at_rest(play.thread).queue_tool("later").result(PATIENCE_S)
        play.thread.queue_message("last").result(PATIENCE_S)
        play.thread.respond(opened["request_id"], True).result(PATIENCE_S)
        assert play.end(execution_id).reason == "stop_on_response"
        told = [str(one.content)[:4] for one in model.requests[1].messages if one.role in ("user", "tool")]
        assert told == ["go", "went", "0000", "1111", "2222", "3333", "4444", "5555", "ran", "last"]
        assert len(model.requests) == 2


def test_a_steer_that_was_accepted_while_the_model_spoke_is_answered_in_the_same_execution() -> None:
    """Contract F.2 row 2: a steer is read by one further step, although the response would have ended the turn."""
    pause = Pause()
    agent, _model = beside_a_human(["One mo", pause, "ment."], "As you wish.")
    with Play(agent) as play:
        execution_id = play.submit()
        pause.reached()
        steered = play.thread.steer(execution_id, "shorter").result(PATIENCE_S)
        pause.release()
        record = play.end(execution_id)

        assert steered.disposition == "accepted"
        assert record.reason == "stop_on_response"
        assert play.told() == [
            ("user", "go"), ("assistant", "One moment."), ("user", "shorter"), ("assistant", "As you wish."),
        ]  # fmt: skip


@pytest.mark.parametrize(("role", "sides"), [("user", "ab"), ("assistant", "ba")])
def test_the_role_of_the_first_message_chooses_the_side_that_acts(role: str, sides: str) -> None:
    """Contract D.4 role: a `user` message makes side A act, an `assistant` one side B."""
    acted: list[str] = []

    def says(side: str) -> Any:
        def said(request: Any) -> str:
            acted.append(side)
            return f"{side} speaks"

        return said

    first, _ = prompt("first", says("a"))
    second, _ = prompt("second", says("b"))
    agent = Agent(name="two", side_a=Side(prompt=first, max_steps=1), side_b=Side(prompt=second, max_steps=1))
    with Play(agent) as play:
        record = play.queue("begin", role)

        assert record.reason == "max_side_steps"
        assert "".join(acted) == sides


# B: what code sees


def test_code_sees_the_side_the_steps_and_the_path() -> None:
    """Contract B current_side; B step_count; B side_step_count; B prompt_path; B flow_id; B handler turns: as they are."""
    seen: list[Any] = []

    def note(state: ThreadState) -> None:
        one = state.execution
        assert one is not None
        seen.append((one.current_side, one.step_count, one.side_a_step_count, one.side_b_step_count, one.prompt_path))
        ids.add(one.flow_id)

    ids: set[str] = set()

    @tool
    async def look(state: ThreadState) -> str:
        """Look."""
        note(state)
        return "looked"

    @handler
    async def relay(state: ThreadState, message: Any) -> None:
        note(state)
        await state.inject_message("user", f"about {message.content}")
        if len(seen) > 3:
            await state.stop_session()

    made, _ = prompt("talker", call("look"), "First.", call("look", "c2"), "Second.", tools=[look])
    agent = Agent(name="two", side_a=Side(prompt=made), side_b=Side(handler=relay))
    with Play(agent) as play:
        record = play.say()

        assert seen == [
            ("a", 1, 1, 0, ["talker"]), ("b", 2, 2, 0, ["talker"]), ("a", 3, 3, 0, ["talker"]), ("b", 4, 4, 0, ["talker"]),
        ]  # fmt: skip
        assert ids == {record.execution_id}
        assert record.reason == "state_stop_session"


def test_what_a_tool_injects_is_in_the_live_history_of_later_tools() -> None:
    """Contract B history is live; B message_history: silent messages too, and what a hook makes up is not there."""
    seen: list[list[str | None]] = []

    @tool
    async def inject(state: ThreadState) -> str:
        """Inject."""
        await state.inject_message("system", "between", silent=True)
        return "injected"

    @tool
    async def look(state: ThreadState) -> str:
        """Look."""
        assert state.execution is not None
        seen.append([one.content for one in state.execution.message_history])
        return "looked"

    @hook("filter_messages", id="none_of_it")
    async def none_of_it(state: ThreadState, messages: list[Any]) -> list[Any]:
        return messages[-1:]

    agent, model = beside_a_human(
        [call("inject", "c1"), call("look", "c2")], "Done.", tools=[inject, look], hooks=[none_of_it]
    )
    with Play(agent) as play:
        play.say()

        assert seen == [["go", None, "between", "injected"]]
        assert next(one.role for one in model.requests[1].messages) == "system"


# B: forced turns


def test_forcing_the_own_side_goes_on_with_it_and_takes_a_stop_back() -> None:
    """Contract B force_turn own; B force_turn once: the response after it ends the turn as ever."""

    @tool
    async def stop_and_force(state: ThreadState) -> str:
        """Stop, then think again."""
        assert state.execution is not None
        state.execution.stop()
        state.execution.force_turn("a")
        return "on"

    agent, model = beside_a_human(call("stop_and_force"), "Said.", tools=[stop_and_force])
    with Play(agent) as play:
        assert play.say().reason == "stop_on_response"
        assert len(model.requests) == 2


def test_forcing_the_other_side_switches_past_the_stop_conditions() -> None:
    """Contract B force_turn other: A's turn is over although its response has calls."""
    agent, model_a, model_b = two_prompts([call("force_b")], [call("over", "c2")], tools=[forcing("b"), over])
    with Play(agent) as play:
        assert play.say().reason == "state_stop_session"
        assert (len(model_a.requests), len(model_b.requests)) == (1, 1)


def test_forcing_a_human_side_parks() -> None:
    """Contract B force_turn human; C.1 forced_human_turn: the human is next."""
    agent, model = beside_a_human(call("force_b"), tools=[forcing("b")])
    with Play(agent) as play:
        record = play.say()

        assert (record.outcome, record.reason, play.state()) == (
            "succeeded",
            "forced_human_turn",
            ("idle", "forced_human_turn"),
        )
        assert len(model.requests) == 1
