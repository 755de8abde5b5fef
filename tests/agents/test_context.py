from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.agents.looping import PATIENCE_S, Play, beside_a_human, call, prompt
from treadle.agents import Agent, PromptTool, Side, hook, tool
from treadle.agents.models.seam import ModelMessage

if TYPE_CHECKING:
    from treadle.agents import ThreadState
    from treadle.agents.testing.scripted_model import ScriptedModel


@tool
async def look(state: ThreadState, what: str) -> str:
    """Look something up."""
    return f"found {what}"


def told(model: ScriptedModel, rank: int) -> list[tuple[str, str | None]]:
    return [(one.role, one.content) for one in model.requests[rank].messages]


def test_a_request_has_the_system_message_the_history_and_the_tools() -> None:
    """Contract F.1 context: interpolated system prompt, filtered history, tool configuration."""
    agent, model = beside_a_human(
        call("look", what="7"),
        "here",
        tools=[look],
        prompt_options={"prompt": "Help {{name}}.", "tool_choice": "required"},
    )
    with Play(agent) as play:
        play.thread = play.runtime.create_thread("agent", arguments={"name": "Ann"}).result(PATIENCE_S)
        play.say("where?")
        assert told(model, 0) == [("system", "Help Ann."), ("user", "where?")]
        assert told(model, 1) == [
            ("system", "Help Ann."), ("user", "where?"), ("assistant", None), ("tool", "found 7"),
        ]  # fmt: skip
        (spec,) = model.requests[0].tools
        assert (spec.name, spec.description, model.requests[0].tool_choice) == (
            "look",
            "Look something up.",
            "required",
        )
        assert spec.schema["properties"] == {"what": {"type": "string"}}


def test_what_earlier_executions_called_is_read_only_where_the_prompt_asks_for_it() -> None:
    """Contract E.3 include_past_tools: past calls and results only where the prompt says so."""
    for include, last in (
        (False, [("assistant", "one")]),
        (True, [("assistant", None), ("tool", "found 7"), ("assistant", "one")]),
    ):
        agent, model = beside_a_human(
            call("look", what="7"), "one", "two", tools=[look], prompt_options={"include_past_tools": include}
        )
        with Play(agent) as play:
            play.say("first")
            play.say("second")
            assert told(model, 2)[1:] == [("user", "first"), *last, ("user", "second")]


def test_a_steer_between_two_steps_hides_no_result_of_this_execution() -> None:
    @tool
    async def steer_me(state: ThreadState) -> str:
        """Have the own thread steered while it runs."""
        assert state.execution is not None
        await play.thread.steer(state.execution.id, "shorter")
        return "steered"

    agent, model = beside_a_human(call("steer_me"), "done", tools=[steer_me])
    with Play(agent) as play:
        play.say("go")
        assert told(model, 1)[1:] == [("user", "go"), ("assistant", None), ("tool", "steered"), ("user", "shorter")]


def test_what_hooks_make_of_a_request_stays_in_it() -> None:
    """Contract B request is a snapshot: what filter_messages and prefilter_llm_history make never replaces history."""
    seen: list[list[str | None]] = []

    @hook("after_system_message", id="loud")
    async def loud(state: ThreadState, text: str) -> str:
        return text.upper()

    @hook("filter_messages", id="last_only")
    async def last_only(state: ThreadState, messages: list[Any]) -> list[Any]:
        return messages[-1:]

    @hook("prefilter_llm_history", id="add")
    async def add(state: ThreadState, messages: list[Any]) -> list[Any]:
        assert state.execution is not None
        seen.append([one.content for one in state.execution.message_history])
        return [*messages, ModelMessage("user", "be kind")]

    agent, model = beside_a_human("one", "two", hooks=[loud, last_only, add])
    with Play(agent) as play:
        play.say("first")
        play.say("second")
        assert told(model, 1) == [("system", "THIS IS P."), ("user", "second"), ("user", "be kind")]
        assert seen[1] == ["first", "one", "second"]
        assert play.told() == [("user", "first"), ("assistant", "one"), ("user", "second"), ("assistant", "two")]


def test_each_side_of_two_models_is_told_the_other_as_a_user() -> None:
    """Contract F.2 row 9: the role transform, by side."""
    first, model_a = prompt("a", "from a", "a again")
    second, model_b = prompt("b", call("look", what="b's own"), "from b", tools=[look])
    agent = Agent(name="pair", side_a=Side(prompt=first), side_b=Side(prompt=second), max_session_turns=1)
    with Play(agent) as play:
        play.say("begin")
        assert told(model_a, 0) == [("system", "This is a."), ("user", "begin")]
        assert told(model_b, 0) == [("system", "This is b."), ("assistant", "begin"), ("user", "from a")]
        assert told(model_b, 1)[-2:] == [("assistant", None), ("tool", "found b's own")]


def test_an_entry_is_offered_only_while_its_variable_is_on() -> None:
    """Contract E.3 tools: an `optional` env flag is on when its value is `true`, `1` or `yes`."""
    for value, names in (("yes", ["look"]), ("on", []), (None, [])):
        agent, model = beside_a_human(
            "ok",
            tools=[look, PromptTool(name="look", optional="CAN_LOOK")][1:],
            env={} if value is None else {"CAN_LOOK": value},
        )
        with Play(agent, definitions={"tools": [look]}) as play:
            play.say()
            assert [one.name for one in model.requests[0].tools] == names


def test_silent_messages_are_told_and_waiting_ones_are_not() -> None:
    """Contract F.2 row 9: the snapshot is without pending rows; silent rows are in the model's context."""
    agent, model = beside_a_human("ok")
    with Play(agent) as play:
        play.thread.inject_message("user", "psst", silent=True).result(PATIENCE_S)
        play.say("hi")
        assert told(model, 0)[1:] == [("user", "psst"), ("user", "hi")]
