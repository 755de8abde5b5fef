"""Tests agents/variable.py: what is said of an environment variable."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from treadle.agents import Agent, Prompt, PromptTool, Side, Variable


def test_a_variable_is_text_and_optional_by_default() -> None:
    """Contract E.3 variables: variables are {name, type text|secret, required, description, scoped?}."""
    variable = Variable(name="REGION")

    assert variable.model_dump() == {
        "name": "REGION", "type": "text", "required": False, "description": "", "scoped": False,
    }  # fmt: skip
    with pytest.raises(ValidationError):
        Variable.model_validate({"name": "REGION", "type": "number"})
    with pytest.raises(ValidationError):
        Variable(name="")


@pytest.mark.parametrize(("name", "value"), [("A=B", "sesame"), ("", "sesame"), ("A", "sesame\0"), ("A\0", "sesame")])
def test_definitions_refuse_variables_that_no_process_can_have_and_show_no_value(name: str, value: str) -> None:
    for make in (
        lambda: Agent(name="a", side_a=Side(human=True), env={name: value}),
        lambda: Prompt(name="p", prompt="", model="m", env={name: value}),
        lambda: PromptTool(name="t", env={name: value}),
    ):
        with pytest.raises(ValidationError) as refused:
            make()
        assert "variable" in str(refused.value)
        assert "sesame" not in refused.value.errors()[0]["msg"]
