"""What a side binds to a tool is read from the arguments of its call, whatever a model writes there."""

from __future__ import annotations

import pytest

from tests.agents.looping import Play, beside_a_human, call, prompt
from treadle.agents.bindings import argument_text, loose_arguments
from treadle.agents.side import Binding
from treadle.agents.thread_state import ThreadState
from treadle.agents.tool import tool


@pytest.mark.parametrize(
    ("text", "arguments"), [("", {}), ("{}", {}), ('{"a": 1}', {"a": 1}), ("[1]", {}), ("{", {}), ("[" * 100_000, {})]
)
def test_arguments_that_are_no_object_are_none(text: str, arguments: dict[str, object]) -> None:
    assert loose_arguments(text) == arguments


@pytest.mark.parametrize(
    ("name", "text"),
    [("said", "hi"), ("number", "7"), ("list", '["ö"]'), ("null", None), ("missing", None), (None, None)],
)
def test_an_argument_is_told_as_text(name: str | None, text: str | None) -> None:
    assert argument_text(name, {"said": "hi", "number": 7, "list": ["ö"], "null": None}) == text


def test_a_tool_of_a_sub_prompt_is_none_of_the_sides() -> None:
    """Contract E.2 session_stop: a sub-prompt that calls a tool of that name ends nothing."""

    @tool
    async def finish(state: ThreadState) -> str:
        return "finished"

    sub, _ = prompt("sub", call("finish", "s1"), tools=[finish])
    agent, _ = beside_a_human(call("sub"), "Done.", tools=[sub, finish], side={"session_stop": Binding(name="finish")})
    with Play(agent) as play:
        assert play.say().reason == "stop_on_response"
