"""Tests agents/expected.py: one sentence says what a definition expects, where something else stands in its place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from treadle.agents import Agent, Model, Prompt, Side, ThreadState, hook, tool
from treadle.agents.models import FunctionModel
from treadle.protocol.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable

MODEL = Model(name="m", model=FunctionModel(lambda _request: "yes"))
PROMPT = Prompt(name="p", prompt="Go.", model=MODEL)
AGENT = Agent(name="a", side_a=Side(prompt=PROMPT))


def plain(state: object) -> None: ...


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Prompt(prompt="Go.", model=MODEL, tools=[plain]), "made by @tool"),
        (lambda: Prompt(prompt="Go.", model=MODEL, tools=[AGENT]), "names of tools, prompts and agents"),
        (lambda: Prompt(prompt="Go.", model=MODEL, hooks=[plain]), "made by @hook(kind, id=...)"),
        (lambda: Prompt(prompt="Go.", model=FunctionModel(lambda _request: "yes")), "a model is Model("),
        (lambda: Side(prompt=MODEL), "a prompt is Prompt("),
        (lambda: Side(handler=plain), "made by @handler"),
        (lambda: Agent(name="a", side_a=PROMPT), "a side is Side(prompt=...)"),
        (lambda: Agent(name="a", side_a=Side(prompt="p"), side_b=plain), "a side is Side(prompt=...)"),
        (lambda: Agent(name="a", side_a=Side(prompt="p"), hooks=[plain]), "made by @hook(kind, id=...)"),
    ],
)
def test_what_stands_in_the_place_of_another_is_told_how_that_is_made(make: Callable[[], object], said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        make()

    assert caught.value.error_count() == 1
    assert said in str(caught.value)


def test_what_is_expected_passes_as_it_is() -> None:
    @tool
    async def look(state: ThreadState) -> None: ...

    first = hook("tool_call_started", id="h")(plain)
    made: dict[str, Any] = {
        "prompt": "Go.",
        "model": {"name": "m", "model": "openai:x"},
        "tools": [look, "other", PROMPT],
    }
    prompt = Prompt(**made, hooks=[first, "second"])

    assert prompt.tools == (look, "other", PROMPT)
    assert prompt.hooks == (first, "second")
    assert Side(prompt=made).prompt == Prompt(**made)


def test_a_method_is_no_tool_and_a_bound_one_is() -> None:
    class Desk:
        def look(self, state: ThreadState, number: int) -> int:
            return number

    with pytest.raises(InvalidInput, match="is a method of a class"):
        tool(Desk.look)
    assert tool(Desk().look).validate('{"number": 3}') == {"number": 3}
