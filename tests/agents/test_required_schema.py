"""Tests agents/required_schema.py: what a prompt requires of its call, as a pydantic model or a JSON schema."""

from __future__ import annotations

import math
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field

from treadle.agents import ToolArgumentsInvalid
from treadle.agents.required_schema import check_against, schema_of


class Question(BaseModel):
    text: str
    depth: int = Field(2, ge=1)


QUESTION: dict[str, Any] = {
    "type": "object", "properties": {"text": {"type": "string"}, "depth": {"type": "integer"}}, "required": ["text"],
}  # fmt: skip


def test_both_forms_show_a_schema_of_an_object() -> None:
    """Contract E.3 required_schema: requiredSchema is what a prompt's call has to fit."""
    assert schema_of(Question)["required"] == ["text"]
    assert schema_of(QUESTION) is QUESTION
    assert schema_of(None) == {"type": "object", "properties": {}}


class Tree(BaseModel):
    below: Tree | None = None


def test_a_model_that_holds_itself_shows_an_object_too() -> None:
    schema = schema_of(Tree)

    assert (schema["type"], list(schema["properties"])) == ("object", ["below"])
    assert "Tree" in schema["$defs"]


class Loose(BaseModel):
    model_config = ConfigDict(extra="allow")

    share: float = math.nan


@pytest.mark.parametrize(
    "given", ["{}", '{"share": NaN}', '{"share": "inf"}', '{"share": 1, "more": 18446744073709551616}']
)
def test_what_a_model_makes_of_a_call_is_json_data_too(given: str) -> None:
    """Contract E.3 required_schema: a sub-prompt's arguments are stored and rendered, whoever has checked them."""
    with pytest.raises(ToolArgumentsInvalid):
        check_against(Loose, given)
    assert check_against(Loose, '{"share": 0.5}') == {"share": 0.5}
    assert "default" not in schema_of(Loose)["properties"]["share"]


@pytest.mark.parametrize("required", [Question, QUESTION])
@pytest.mark.parametrize(
    ("given", "path", "msg"),
    [
        ("{}", "text", "Field required"),
        ("[]", "$", "The arguments must be a JSON object"),
        ("{", "$", None),
        ({"text": 3}, "text", None),
        ({"text": "x", "depth": "y"}, "depth", None),
    ],
)
def test_arguments_that_do_not_fit_are_named(required: Any, given: object, path: str, msg: str | None) -> None:
    """Contract E.3 sub-prompt arguments: args of a prompt that is called are validated."""
    with pytest.raises(ToolArgumentsInvalid) as caught:
        check_against(required, given)

    assert caught.value.path == path
    assert msg in {None, caught.value.msg}


def test_what_fits_is_json_data_with_the_defaults_of_a_model() -> None:
    assert check_against(Question, '{"text": "x"}') == {"text": "x", "depth": 2}
    assert check_against(QUESTION, '{"text": "x"}') == {"text": "x"}
    assert check_against(None, {"any": [1]}) == {"any": [1]}
    assert check_against(None, "") == {}


@pytest.mark.parametrize("given", ["3", "null", '"x"', "x", '{"x": NaN}', '{"x": ' + "[" * 80 + "]" * 80 + "}"])
def test_without_a_schema_the_arguments_are_still_an_object(given: str) -> None:
    with pytest.raises(ToolArgumentsInvalid):
        check_against(None, given)
