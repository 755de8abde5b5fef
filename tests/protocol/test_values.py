"""What a value may be: it comes back equal, or the documented error says where it is not one (semantics 11)."""

from __future__ import annotations

import enum
import json
import math
import time
from collections import OrderedDict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treadle.protocol.errors import InvalidInput, LimitExceeded, TreadleError
from treadle.protocol.limits import VALUE_BYTES_MAX, VALUE_DEPTH_MAX
from treadle.protocol.values import check_value

NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
STRINGS = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | STRINGS,
    lambda inner: st.lists(inner) | st.dictionaries(STRINGS, inner),
    max_leaves=30,
)
ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.binary()
    | st.complex_numbers()
    | st.dates(),
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner)
        | st.sets(st.integers())
        | st.dictionaries(st.text() | st.integers() | st.none(), inner)
    ),
    max_leaves=30,
)


@settings(max_examples=50)
@given(VALUES)
def test_a_value_comes_back_equal_and_of_the_same_types(value: Any) -> None:
    assert json.dumps(check_value(value)) == json.dumps(value)


@settings(max_examples=50)
@given(ANYTHING)
def test_anything_else_is_the_documented_error_and_never_another(value: Any) -> None:
    checked, error = attempted(value)

    if error is not None:
        assert error.code == "invalid_value"
        assert str(error.details["path"]).startswith("$")
        assert isinstance(error.details["value"], str)
    else:
        # Taken: then it is JSON, and nothing but tuples was converted.
        assert json.loads(json.dumps(checked, allow_nan=False)) == checked
        assert check_value(checked) == checked


def attempted(value: Any) -> tuple[Any, InvalidInput | None]:
    try:
        return check_value(value), None
    except InvalidInput as error:
        return None, error


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


class Text(str):
    __slots__ = ()


class Colour(enum.IntEnum):
    RED = 1


class Broken:
    def __repr__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (2**63, "$"),
        (-(2**63) - 1, "$"),
        pytest.param(10**9_999, "$", id="endless integer"),
        (math.inf, "$"),
        (math.nan, "$"),
        ("\ud800", "$"),
        (b"x", "$"),
        ({1}, "$"),
        (object(), "$"),
        (Broken(), "$"),
        (Text("x"), "$"),
        (Colour.RED, "$"),
        (OrderedDict(a=1), "$"),
        ({1: 2}, "$"),
        ({"\udfff": 1}, "$.'\\udfff'"),
        ({"a": [1, {"b": b"x"}]}, "$.a[1].b"),
        (([[1], (2, 2**64)],), "$[0][1][1]"),
    ],
)
def test_the_error_names_the_place_and_the_value(value: Any, path: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        check_value(value)

    assert (caught.value.code, caught.value.details["path"]) == ("invalid_value", path)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("value", [-(2**63), 2**63 - 1, -0.0, True, "", "a\0b", [], {}, {"": None}])
def test_the_edges_are_values(value: Any) -> None:
    assert repr(check_value(value)) == repr(value)


def test_tuples_are_taken_as_lists_and_nothing_else_is_converted() -> None:
    assert check_value((1, (2, [3]))) == [1, [2, [3]]]


def test_a_value_is_a_copy() -> None:
    given_value = {"a": [1]}

    checked = check_value(given_value)
    given_value["a"].append(2)

    assert checked == {"a": [1]}


def test_a_value_is_at_most_64_deep() -> None:
    assert check_value(nested(VALUE_DEPTH_MAX)) == nested(VALUE_DEPTH_MAX)
    with pytest.raises(InvalidInput, match="at most 64 deep"):
        check_value(nested(VALUE_DEPTH_MAX + 1))


def test_a_circle_is_too_deep() -> None:
    circle: list[Any] = []
    circle.append(circle)

    with pytest.raises(InvalidInput, match="at most 64 deep"):
        check_value(circle)


def test_a_value_is_at_most_a_mebibyte() -> None:
    assert check_value("x" * (VALUE_BYTES_MAX - 5))
    with pytest.raises(LimitExceeded) as caught:
        check_value("x" * VALUE_BYTES_MAX)
    details = caught.value.details
    assert (details["limit"], details["maximum"]) == ("value_bytes", VALUE_BYTES_MAX)
    assert details["met"] == VALUE_BYTES_MAX + 5


def test_a_limit_of_its_own_is_named_in_the_error() -> None:
    with pytest.raises(LimitExceeded) as caught:
        check_value({"a": ["é" * 60]}, bytes_max=100)

    assert (caught.value.details["maximum"], caught.value.details["path"]) == (100, "$.a[0]")


def test_many_names_for_one_list_cost_what_they_would_take() -> None:
    level: list[Any] = []
    for _ in range(40):
        level = [level] * 2

    with pytest.raises(LimitExceeded):
        check_value(level, bytes_max=10_000)


def test_a_long_key_costs_once_and_not_for_each_item_below_it() -> None:
    def seconds(key: str) -> float:
        began = time.process_time()
        check_value({key: [True] * 20_000})
        return time.process_time() - began

    seconds("k")
    # A mebibyte of hostile body must not take seconds of whoever checks it, as an event loop.
    assert seconds("k" * 500_000) < 10 * seconds("k") + 0.05


def test_long_keys_do_not_make_long_errors() -> None:
    value: Any = b"x"
    for _ in range(20):
        value = {"k" * 10_000: value}

    with pytest.raises(InvalidInput) as caught:
        check_value(value)
    assert len(str(caught.value)) < 500
    assert len(caught.value.details["path"]) <= 200  # type: ignore[arg-type]


def test_the_path_starts_where_the_caller_says() -> None:
    with pytest.raises(TreadleError) as caught:
        check_value([b"x"], path="$.metadata")

    assert caught.value.details["path"] == "$.metadata[0]"
