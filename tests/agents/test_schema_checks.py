"""Tests agents/schema_checks.py: what is refused of a JSON schema when definitions are checked."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from tests.agents.test_json_schema import ORDER, WORDS
from treadle.agents.schema_checks import problems_of


def of(**words: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"x": words}}


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({}, ["its type is not 'object'"]),
        ({"type": "object", "properties": {"x": 3}}, ["properties.x: 3 is no schema"]),
        (
            {"type": "array", "properties": [], "required": "x"},
            [
                "its type is not 'object'",
                "its properties is not made of schemas by name",
                "its required is not a list of names",
            ],
        ),
        (of(type="strin"), [("properties.x: its type is not a name, or a list of names, out of object, array, string, "
                            "integer, number, boolean, null")]),
        (of(pattern="("), ["properties.x: the pattern '(' cannot be used: unclosed group"]),
        (of(patternProperties={"(?!a)": {}}), [("properties.x: the pattern '(?!a)' cannot be used: look-around, including "
                                               "look-ahead and look-behind, is not supported")]),
        (of(exclusiveMinimun=3), ["properties.x: 'exclusiveMinimun' is not held, and would be passed over"]),
        (of(contains={}), ["properties.x: 'contains' is not held, and would be passed over"]),
        (of(maxLength=-1), ["properties.x: its maxLength is not a whole number from 0 on"]),
        (of(minimum=True), ["properties.x: its minimum is not a number"]),
        (of(multipleOf=0), ["properties.x: its multipleOf is not a number above 0"]),
        (of(anyOf=[]), ["properties.x: its anyOf is not a list of schemas"]),
        (of(items=[{}]), ["properties.x: its items is not a schema", "properties.x.items: [{}] is no schema"]),
        ({"$ref": "https://example.com/x", "type": "object"}, ["its $ref is not a reference within this schema"]),
        ({"$ref": "#/$defs/x", "type": "object"}, ["its $ref '#/$defs/x' leads nowhere in this schema"]),
        ({"$ref": "#", "type": "object"}, ["$: refers to itself without an end"]),
        (
            of(anyOf=[{"not": {"$ref": "#/properties/x"}}, {"type": "string"}]),
            ["$.properties.x: refers to itself without an end"],
        ),
    ],
)  # fmt: skip
def test_a_malformed_schema_is_told_with_the_place(schema: dict[str, Any], said: list[str]) -> None:
    assert problems_of(schema) == said


@pytest.mark.parametrize("word", [schema for schema, *_ in WORDS])
def test_every_word_that_is_held_is_taken(word: dict[str, Any]) -> None:
    assert problems_of({"type": "object", "properties": {"x": word}}) == []
    assert problems_of(ORDER) == []


def test_what_pydantic_writes_of_a_model_is_taken() -> None:
    class Cat(BaseModel):
        kind: Literal["cat"] = "cat"

    class Dog(BaseModel):
        kind: Literal["dog"] = "dog"
        pup: Dog | None = None

    class Home(BaseModel, extra="forbid"):
        pet: Cat | Dog = Field(discriminator="kind")
        pair: tuple[int, str] = (1, "x")
        some: set[float] = Field(default=set(), max_length=3)
        named: dict[str, bytes] = Field(default={}, description="by name", examples=[{}])
        even: int = Field(2, multiple_of=2, gt=0, le=10, json_schema_extra={"x-shown": True})

    assert problems_of(Home.model_json_schema()) == []


def test_a_schema_deeper_than_any_data_is_refused() -> None:
    deep: dict[str, Any] = {"type": "object"}
    for _ in range(80):
        deep = {"type": "object", "properties": {"x": deep}}

    assert len(problems_of(deep)) == 1
    assert problems_of(deep)[0].endswith("is more than 64 schemas deep")


@pytest.mark.parametrize(
    "word", [{"title": {1}}, {"default": float("nan")}, {"minimum": float("inf")}, {"title": "\ud800"}]
)
def test_a_schema_that_no_request_could_hold_is_refused(word: dict[str, Any]) -> None:
    (problem,) = problems_of(of(**word))
    assert problem.startswith("is not JSON data: ")


def test_no_more_problems_are_told_than_one_reads() -> None:
    assert len(problems_of({"type": "object", **{f"no{index}": 1 for index in range(500)}})) == 20
