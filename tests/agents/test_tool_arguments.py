"""Tests agents/tool_arguments.py: what a function's hints make a model give, and what becomes of what it gives."""

from __future__ import annotations

import datetime as dt
import enum
import json
import pickle
import re
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from treadle.agents.tool_arguments import Arguments, ToolArgumentsInvalid, arguments_text
from treadle.protocol.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable

    from treadle.agents import ThreadState


class Size(enum.Enum):
    SMALL = "small"
    LARGE = "large"


class Customer(BaseModel):
    email: str
    age: int | None = Field(None, ge=0, description="in years")


def of(function: Callable[..., object], **local: object) -> Arguments:
    return Arguments(function, "it", local)


def refused(arguments: Arguments, given: object) -> ToolArgumentsInvalid:
    with pytest.raises(ToolArgumentsInvalid) as caught:
        arguments.check(given)
    return caught.value


def order(
    state: ThreadState,
    order_id: Annotated[int, Field(description="on the receipt", ge=1)],
    customer: Customer | None = None,
    size: Size = Size.SMALL,
    when: dt.date | None = None,
    tags: list[str] = [],  # noqa: B006 - pydantic copies it
    anything=None,  # type: ignore[no-untyped-def]
) -> None: ...


def test_the_schema_is_made_of_hints_defaults_and_fields() -> None:
    """Contract E.4 tool: args of a tool are declared; here by the function's type hints."""
    schema = of(order).schema

    assert (schema["type"], schema["required"], schema["additionalProperties"]) == ("object", ["order_id"], False)
    assert schema["properties"]["order_id"] == {"description": "on the receipt", "minimum": 1, "type": "integer"}
    assert schema["properties"]["tags"] == {"default": [], "items": {"type": "string"}, "type": "array"}
    assert schema["properties"]["anything"] == {"default": None}
    assert schema["$defs"]["Customer"]["properties"]["age"]["description"] == "in years"
    assert json.loads(json.dumps(schema)) == schema


def test_arguments_become_what_the_function_asks_for() -> None:
    text = '{"order_id": 5, "customer": {"email": "a@b"}, "size": "large", "when": "2024-02-29", "anything": [1]}'

    assert of(order).check(text) == {
        "order_id": 5, "customer": Customer(email="a@b", age=None), "size": Size.LARGE, "when": dt.date(2024, 2, 29),
        "tags": [], "anything": [1],
    }  # fmt: skip


def test_text_and_dict_are_read_alike() -> None:
    given = {"order_id": "7", "customer": {"email": "a@b", "age": 3}}

    assert of(order).check(given) == of(order).check(json.dumps(given))


def test_a_default_is_made_anew_for_each_call() -> None:
    arguments = of(order)
    first = arguments.check({"order_id": 1})["tags"]
    assert isinstance(first, list)
    first.append("x")

    assert arguments.check({"order_id": 1})["tags"] == []


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"order_id": "x"}, "[order_id] Input should be a valid integer, unable to parse string as an integer"),
        ({}, "[order_id] Field required"),
        ({"order_id": 0}, "[order_id] Input should be greater than or equal to 1"),
        ({"order_id": 1, "id": 2}, "[id] Unexpected argument"),
        ({"order_id": 1, "customer": {"age": 2}}, "[customer.email] Field required"),
        ({"order_id": 1, "tags": ["a", 2]}, "[tags.1] Input should be a valid string"),
        ({"tags": 3, "id": 2}, "[order_id] Field required; [tags] Input should be a valid array; [id] Unexpected argument"),
    ],
)  # fmt: skip
def test_bad_arguments_are_named_by_path_and_message(given: object, said: str) -> None:
    """Contract E.4 bad arguments: bad args are an error result: [<path>] <msg>."""
    error = refused(of(order), given)

    assert str(error) == said
    assert said.startswith(f"[{error.path}] {error.msg}")
    assert error.details == {"path": error.path, "msg": error.msg}


@pytest.mark.parametrize("given", ["[1]", "[]", " [", "3", '"x"', "null", "true", [1], 3, ("a",)])
def test_what_is_no_object_is_refused_as_a_whole(given: object) -> None:
    def nothing(state: object) -> None: ...

    for function in (order, nothing):
        error = refused(of(function), given)
        assert (error.path, error.msg) == ("$", "The arguments must be a JSON object")


@pytest.mark.parametrize("text", ["{", "x", '{"order_id": }', "[" * 10_000, '{"a": "\ud800"}'])
def test_text_that_is_no_json_is_refused_as_a_whole(text: str) -> None:
    assert refused(of(order), text).path == "$"


def test_a_value_that_is_no_json_data_is_refused_with_its_path() -> None:
    error = refused(of(order), {"order_id": 1, "tags": [object()]})

    assert error.path.startswith("$.")


def test_nothing_at_all_stands_for_no_arguments() -> None:
    def nothing(state: object) -> None: ...

    assert [of(nothing).check(given) for given in (None, "", "  \n", "{}", {})] == [{}] * 5
    assert of(nothing).schema == {"additionalProperties": False, "properties": {}, "type": "object"}


def test_an_error_shows_no_values_since_they_may_be_secret() -> None:
    error = refused(of(order), {"order_id": "hunter22hunter22", "customer": {"email": ["hunter22hunter22"]}})

    assert "hunter22" not in f"{error} {error.details} {error!r}"


def test_very_many_problems_are_cut() -> None:
    def many(state: object, numbers: list[int]) -> None: ...

    assert len(refused(of(many), {"numbers": ["x"] * 10_000}).problems) == 20


def test_an_error_survives_a_process_boundary() -> None:
    error = refused(of(order), {"order_id": "x", "id": 2})

    copied = pickle.loads(pickle.dumps(error))

    assert (str(copied), copied.problems) == (str(error), error.problems)


def test_parameters_may_be_called_like_the_members_of_a_model() -> None:
    def odd(state: object, schema: int, copy: int, model_config: int, _private: int, self: int = 0) -> None: ...

    given = {"schema": 1, "copy": 2, "model_config": 3, "_private": 4, "self": 5}

    assert of(odd).check(given) == given


def test_keywords_of_any_name_can_be_asked_for() -> None:
    def open_(state: object, /, first: int, **more: int) -> None: ...

    assert of(open_).check({"first": 1, "other": "2"}) == {"first": 1, "other": 2}
    assert refused(of(open_), {"first": 1, "other": "x"}).path == "other"


def test_a_hint_may_name_what_only_the_defining_function_knows() -> None:
    class Local(BaseModel):
        x: int

    def local(state: object, it: Local) -> None: ...

    assert of(local, Local=Local).check({"it": {"x": 1}}) == {"it": Local(x=1)}
    with pytest.raises(InvalidInput, match="type hint that cannot be read: NameError"):
        of(local)


def test_methods_partials_and_callable_objects_are_read() -> None:
    import functools

    class Desk:
        def look(self, state: object, order_id: int) -> None: ...

        def __call__(self, state: object, order_id: int) -> None: ...

    def bound(where: str, state: object, order_id: int) -> None: ...

    for function in (Desk().look, Desk(), functools.partial(bound, "here")):
        assert of(function).check('{"order_id": "3"}') == {"order_id": 3}


def test_what_cannot_be_given_by_name_or_as_json_is_refused_at_once() -> None:
    def none() -> None: ...
    def only_keywords(*, state: object) -> None: ...
    def positional(state: object, order_id: int, /) -> None: ...
    def many(state: object, *orders: int) -> None: ...
    def no_json(state: object, call: Callable[[], int]) -> None: ...
    def no_type(state: object, lock: Foreign) -> None: ...
    def broken(state: object, it: 1 / 0) -> None: ...  # type: ignore[valid-type]

    class Foreign: ...

    import collections.abc

    for function in (none, only_keywords, positional, many, no_json, no_type, broken):
        with pytest.raises(InvalidInput) as caught:
            of(function, Foreign=Foreign, Callable=collections.abc.Callable)
        assert caught.value.code == "invalid_tool"


def test_a_default_that_json_cannot_show_is_still_the_functions_own() -> None:
    missing: Any = object()

    def f(state: object, it: int = missing) -> None: ...

    assert of(f).schema["properties"]["it"] == {"type": "integer"}
    assert of(f).check({})["it"] is missing


@pytest.mark.parametrize(
    "number",
    ["NaN", "-Infinity", "1e999", "-1E0400", "9" * 400 + ".0", '"nan"', '"inf"', "[NaN]", '{"deep": [1, 2e400]}'],
)
def test_no_number_passes_every_comparison_by_being_none(number: str) -> None:
    """A check like `cents > limit` lets NaN through; in JSON there is no such number."""

    def pay(state: ThreadState, cents: float, more: Any = None) -> None: ...

    name = "more" if number[0] in "[{" else "cents"
    path, msg = refused(of(pay), f'{{"cents": 1, "{name}": {number}}}').problems[0]

    assert path in ("$", "cents")
    assert "finite" in msg


def test_words_and_large_numbers_are_no_endless_numbers() -> None:
    def note(state: ThreadState, text: str, much: float) -> None: ...

    given = {"text": "NaN, Infinity, 1e999", "much": 1.5e300}
    assert of(note).check(json.dumps(given)) == given


def test_a_schema_that_no_request_could_hold_is_refused_and_an_endless_default_left_out() -> None:
    def wait(state: ThreadState, seconds: float = float("inf")) -> None: ...
    def odd(state: ThreadState, x: Annotated[int, Field(description="\ud800")]) -> None: ...

    assert of(wait).schema["properties"] == {"seconds": {"type": "number"}}
    assert of(wait).check("{}") == {"seconds": float("inf")}
    with pytest.raises(InvalidInput, match="schema is not JSON data"):
        of(odd)


def test_literals_are_shown_and_held() -> None:
    def f(state: object, how: Literal["fast", "slow"]) -> None: ...

    assert of(f, Literal=Literal).schema["properties"]["how"] == {"enum": ["fast", "slow"], "type": "string"}
    assert refused(of(f, Literal=Literal), {"how": "x"}).path == "how"


ORDER = of(order)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=30)
@given(
    st.one_of(JSON, st.dictionaries(st.sampled_from(["order_id", "customer", "size", "tags", "x"]), JSON), st.text())
)
def test_whatever_a_model_writes_is_taken_or_refused_in_words(given: object) -> None:
    found: dict[str, object] | None = None
    said: list[tuple[str, str]] = []
    try:
        found = ORDER.check(given)
    except ToolArgumentsInvalid as error:
        said = error.problems

    assert (found is None) == bool(said)
    assert all(path and msg for path, msg in said)


@settings(max_examples=30)
@given(st.dictionaries(st.text(), JSON))
def test_the_text_of_a_dict_is_its_json(given: dict[str, object]) -> None:
    assert json.loads(arguments_text(given)) == given


def test_a_long_name_is_shown_by_its_end() -> None:
    def function(state: ThreadState, sizes: dict[str, list[int]]) -> None: ...

    arguments = Arguments(function, "t", {"ThreadState": object})
    with pytest.raises(ToolArgumentsInvalid) as refused:
        arguments.check({"sizes": {"k" * 500_000: ["x"] * 100}})

    assert {len(path) for path, _ in refused.value.problems} == {200}
    assert len(str(refused.value)) < 10_000


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        (
            "(?=a)b",
            r"the pattern '(?=a)b' cannot be used: look-around, including look-ahead and look-behind, is not supported",
        ),
        (re.compile("(a+)+$"), "the pattern '(a+)+$' cannot be used: Python's own engine would match it"),
    ],
    ids=str,
)
def test_a_pattern_that_could_hold_the_loop_or_cannot_be_had_is_refused_where_the_tool_is_made(
    pattern: Any, why: str
) -> None:
    word = Annotated[str, Field(pattern=pattern)]

    def look(state: object, words: list[word]) -> None: ...  # type: ignore[valid-type]

    with pytest.raises(InvalidInput) as caught:
        of(look, word=word)
    assert caught.value.code == "invalid_tool"
    assert why in str(caught.value)
