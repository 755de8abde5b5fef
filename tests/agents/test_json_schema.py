"""Tests agents/json_schema.py: JSON data against the part of JSON schema that tools use."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from treadle.agents.json_schema import breaches

ORDER: dict[str, Any] = {
    "type": "object",
    "properties": {
        "id": {"type": "integer", "minimum": 1},
        "note": {"type": ["string", "null"], "maxLength": 3},
        "tags": {"type": "array", "items": {"enum": ["a", "b", 1]}, "minItems": 1},
        "to": {"$ref": "#/$defs/Place"},
        "how": {"anyOf": [{"type": "string", "pattern": "^x"}, {"type": "boolean"}]},
        "kind": {"const": True},
        "one": {"oneOf": [{"type": "integer"}, {"type": "number"}]},
        "all": {"allOf": [{"type": "integer"}, {"maximum": 3}]},
    },
    "required": ["id"],
    "additionalProperties": False,
    "$defs": {
        "Place": {"type": "object", "required": ["zip"], "properties": {"zip": {"type": "string", "minLength": 2}}}
    },
}


@pytest.mark.parametrize(
    "value",
    [
        {"id": 1},
        {"id": 1.0},
        {
            "id": 2,
            "note": None,
            "tags": ["a", 1],
            "to": {"zip": "12", "more": 1},
            "how": True,
            "kind": True,
            "one": 1.5,
        },
        {"id": 1, "how": "x1", "note": "abc", "all": 3},
    ],
)
def test_what_fits_has_no_breaches(value: object) -> None:
    assert breaches(value, ORDER) == []


@pytest.mark.parametrize(
    ("value", "path", "msg"),
    [
        ([], "$", "Input should be of type object"),
        ({}, "id", "Field required"),
        ({"id": True}, "id", "Input should be of type integer"),
        ({"id": 1.5}, "id", "Input should be of type integer"),
        ({"id": 0}, "id", "Input should be at least 1"),
        ({"id": 1, "x": 1}, "x", "Unexpected argument"),
        ({"id": 1, "note": 3}, "note", "Input should be of type string or null"),
        ({"id": 1, "note": "abcd"}, "note", "Input should be at most 3 characters"),
        ({"id": 1, "tags": []}, "tags", "Input should be at least 1 items"),
        ({"id": 1, "tags": ["a", True]}, "tags.1", "Input should be one of ['a', 'b', 1]"),
        ({"id": 1, "to": {}}, "to.zip", "Field required"),
        ({"id": 1, "how": "y"}, "how", "Input should fit one of the allowed forms"),
        ({"id": 1, "kind": 1}, "kind", "Input should be True"),
        ({"id": 1, "one": 1}, "one", "Input fits more than one form"),
        ({"id": 1, "all": 4}, "all", "Input should be at most 3"),
    ],
)
def test_what_does_not_fit_is_named_by_path(value: object, path: str, msg: str) -> None:
    assert breaches(value, ORDER) == [(path, msg)]


def test_a_schema_that_refers_to_itself_ends() -> None:
    knot = {"$ref": "#"}
    tree = {"properties": {"below": {"$ref": "#"}}, "required": ["name"]}

    assert breaches({}, knot) == [("$", "Input is too deep to be held against its schema")]
    assert breaches({"name": 1, "below": {"below": {"name": 1}}}, tree) == [("below.name", "Field required")]


def test_a_long_key_is_not_written_out_for_each_problem_below_it() -> None:
    lists = {"additionalProperties": {"type": "array", "items": {"type": "string"}}}
    value = {"k" * 500_000: [1] * 1_000}

    found = breaches(value, lists)

    assert (len(found), len(breaches(value, lists, 20))) == (1_000, 20)
    assert {len(path) for path, _ in found} == {200}
    assert (found[0][0][0], found[-1][0][-5:]) == ("…", "k.999")


def test_what_the_check_of_definitions_refuses_holds_nothing_back() -> None:
    assert breaches(1, {"$ref": "https://example.com/x", "format": "date", "type": "unknown"}) == []
    assert breaches(1, {"$ref": "#/$defs/none", "items": {}, "anyOf": 3, "required": 4, "properties": 5}) == []


WORDS: list[tuple[dict[str, Any], object, object, str]] = [
    ({"exclusiveMinimum": 1}, 1.5, 1, "Input should be above 1"),
    ({"exclusiveMaximum": 1}, 0.5, 1, "Input should be below 1"),
    ({"multipleOf": 0.1}, 0.3, 0.35, "Input should be a multiple of 0.1"),
    ({"uniqueItems": True}, [1, True, "1", [1], [True]], [{"a": [1]}, {"a": [1.0]}], "Input should have no item twice"),
    ({"minProperties": 1}, {"a": 1}, {}, "Input should be at least 1 members"),
    ({"maxProperties": 1}, {"a": 1}, {"a": 1, "b": 2}, "Input should be at most 1 members"),
    ({"enum": [[1]]}, [1.0], [True], "Input should be one of [[1]]"),
    ({"not": {"type": "string"}}, 1, "x", "Input has a form that is not allowed"),
    ({"propertyNames": {"pattern": "^a"}}, {"ab": 1}, {"b": 1}, "Input has a name that is not allowed"),
    ({"patternProperties": {"^a": {"type": "null"}}}, {"a": None, "b": 1}, {"a": 1}, "Input should be of type null"),
    ({"dependentRequired": {"a": ["b"]}}, {"b": 1}, {"a": 1}, "Field required"),
    ({"prefixItems": [{"const": 1}], "items": False}, [1], [1, 2], "Unexpected argument"),
    ({"if": {"const": 1}, "then": {"type": "string"}}, 2, 1, "Input should be of type string"),
    ({"if": {"const": 1}, "else": {"type": "string"}}, 1, 2, "Input should be of type string"),
]


@pytest.mark.parametrize(("schema", "fitting", "breaching", "msg"), WORDS)
def test_each_word_holds_what_the_standard_says(
    schema: dict[str, Any], fitting: object, breaching: object, msg: str
) -> None:
    assert breaches(fitting, schema) == []
    assert [said for _, said in breaches(breaching, schema)] == [msg]


def test_data_as_deep_as_any_may_be_is_held_against_a_schema_of_itself() -> None:
    tree = {"properties": {"below": {"anyOf": [{"$ref": "#"}, {"const": 0}]}}, "additionalProperties": False}
    value: dict[str, Any] = {"below": 0}
    wrong: dict[str, Any] = {"other": 0}
    for _ in range(62):
        value, wrong = {"below": value}, {"below": wrong}

    assert breaches(value, tree) == []
    assert breaches(wrong, tree) == [("below", "Input should fit one of the allowed forms")]


@pytest.mark.parametrize("word", ["oneOf", "anyOf", "allOf"])
def test_alternatives_that_hold_the_same_below_them_take_no_longer_for_each_level(word: str) -> None:
    forms = [{"properties": {"below": {"$ref": "#"}, "kind": {"enum": kinds}}} for kinds in (["a", "c"], ["b", "c"])]
    value: dict[str, Any] = {"kind": "c" if word == "allOf" else "a"}
    wrong: dict[str, Any] = {"kind": "d"}
    for _ in range(60):
        value, wrong = {"below": value, "kind": value["kind"]}, {"below": wrong, "kind": "c"}

    # Twice as long for each level would be no slow test but a dead one.
    assert breaches(value, {word: forms}) == []
    assert breaches(wrong, {word: forms}, 20) != []


class Point(BaseModel, strict=True):
    x: int
    name: str | None = None
    tags: list[str] = []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["", "a"]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["x", "name", "tags"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(["x", "name", "tags", "other"]), JSON))
def test_it_judges_as_pydantic_does_whose_schema_it_is(value: dict[str, object]) -> None:
    try:
        Point.model_validate(value)
    except ValidationError:
        fits = False
    else:
        fits = True

    assert (breaches(value, Point.model_json_schema()) == []) == fits
