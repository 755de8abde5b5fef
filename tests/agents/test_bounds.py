"""Tests agents/bounds.py: no definition takes a number that is none, or one beyond all clocks."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from treadle.agents import Agent, Model, Prompt, Reasoning, Side, agent
from treadle.agents.models import FunctionModel
from treadle.protocol.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable

MODEL = Model(name="m", model=FunctionModel(lambda _request: "yes"))
SIDE = Side(prompt=Prompt(name="p", prompt="Go.", model=MODEL))

COUNTS: dict[str, Callable[[Any], object]] = {
    "max_session_turns": lambda given: Agent(name="a", side_a=SIDE, max_session_turns=given),
    "max_steps": lambda given: Side(prompt="p", max_steps=given),
    "attempts": lambda given: Model(name="m", model="openai:x", attempts=given),
    "history_limit": lambda given: Prompt(name="p", prompt="Go.", model="m", history_limit=given),
    "recent_image_threshold": lambda given: Prompt(name="p", prompt="Go.", model="m", recent_image_threshold=given),
    "max_tokens": lambda given: Reasoning(max_tokens=given),
}
DURATIONS: dict[str, Callable[[Any], object]] = {
    "timeout": lambda given: Agent(name="a", side_a=SIDE, timeout=given),
    "first_delay": lambda given: Model(name="m", model="openai:x", first_delay=given),
}
NO_NUMBER = [True, "5", math.nan, math.inf, -math.inf, -1, 1e308, 10**30, [1], b"1"]


@pytest.mark.parametrize("given", [*NO_NUMBER, 1.5], ids=str)
@pytest.mark.parametrize("field", COUNTS)
def test_a_count_is_a_whole_number_of_a_size_that_can_be_reached(field: str, given: Any) -> None:
    with pytest.raises(ValidationError, match=field):
        COUNTS[field](given)
    COUNTS[field](3)


@pytest.mark.parametrize("given", NO_NUMBER, ids=str)
@pytest.mark.parametrize("field", DURATIONS)
def test_a_duration_is_a_number_of_seconds_that_a_clock_can_wait(field: str, given: Any) -> None:
    with pytest.raises(ValidationError, match=field):
        DURATIONS[field](given)
    DURATIONS[field](0.5)
    DURATIONS[field](1_000_000_000)


@pytest.mark.parametrize("given", [*NO_NUMBER, 0], ids=str)
def test_the_timeout_of_a_callable_is_bounded_alike(given: Any) -> None:
    def body(state: object) -> None: ...

    with pytest.raises(InvalidInput, match="at most 1000000000") as caught:
        agent(body, timeout=given)
    assert caught.value.code == "invalid_agent"
    assert agent(body, timeout=1_000_000_000).timeout == 1e9
