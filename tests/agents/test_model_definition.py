"""Tests agents/model_definition.py: what a model is, and what else is asked when it does not answer."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from treadle.agents import Model
from treadle.agents.models import FunctionModel

ECHO = FunctionModel(lambda request: "yes", name="echo")


def test_a_model_is_asked_twice_with_a_second_between_by_default() -> None:
    """Contract E.5 attempts; E.5 wait: 2 attempts per model, the first wait 1000 ms."""
    model = Model(name="main", model=ECHO, fallbacks=["spare", Model(name="last", model="openai:gpt-4o")])

    assert (model.attempts, model.first_delay, model.vision) == (2, 1.0, True)
    assert model.model is ECHO
    assert isinstance(model.fallbacks, tuple)


@pytest.mark.parametrize("wrong", ["gpt-4o", "", ":x", "openai:", "open ai:x", 3, None, object(), FunctionModel])
def test_what_is_no_model_is_refused(wrong: Any) -> None:
    with pytest.raises(ValidationError):
        Model(name="main", model=wrong)


@pytest.mark.parametrize(
    "wrong", [{"attempts": 0}, {"first_delay": -1}, {"first_delay": float("inf")}, {"fallbacks": "spare"}]
)
def test_what_is_no_setting_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Model(name="main", model=ECHO, **wrong)
