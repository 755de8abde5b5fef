"""Errors: one tree by fault, stable codes, ids in their details, across process boundaries."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest

from treadle.protocol import errors
from treadle.protocol.errors import (
    CallerError,
    InternalError,
    InvalidInput,
    StoreUnreadable,
    ThreadNotFound,
    TreadleError,
    Unavailable,
    shorten,
)


def all_errors(kind: type[TreadleError] = TreadleError) -> list[type[TreadleError]]:
    return [
        kind,
        *(one for below in kind.__subclasses__() if below.__module__ == kind.__module__ for one in all_errors(below)),
    ]


ERRORS = all_errors()


def test_every_error_is_public_and_has_a_code_of_its_own() -> None:
    assert {kind.__name__ for kind in ERRORS} <= set(errors.__all__)
    assert len({kind.code for kind in ERRORS}) == len(ERRORS)
    assert all(kind.code.replace("_", "").isalpha() and kind.code.islower() for kind in ERRORS)
    assert all(kind.__doc__ for kind in ERRORS)


@pytest.mark.parametrize("kind", ERRORS)
def test_an_error_survives_a_process_boundary_with_its_ids(kind: type[TreadleError]) -> None:
    error = kind("what happened", thread_id="t", met=5)

    again = pickle.loads(pickle.dumps(error))

    assert type(again) is kind
    assert (again.message, str(again), again.details, again.code) == (
        "what happened",
        "what happened",
        error.details,
        kind.code,
    )
    assert again.to_wire() == error.to_wire()


def test_a_code_given_when_raised_survives_as_well() -> None:
    error = InvalidInput("bad", code="invalid_cursor", value="x")

    again = pickle.loads(pickle.dumps(error))

    assert (again.code, again.details) == ("invalid_cursor", {"value": "x"})
    assert InvalidInput("bad").code == "invalid_input"
    assert InvalidInput.code == "invalid_input"


def test_an_error_said_again_says_the_same_with_more_details() -> None:
    first = InvalidInput("bad", code="invalid_cursor", value="x")

    again = first.again(applied=True)

    assert again is not first
    assert (type(again), again.message, again.code) == (InvalidInput, "bad", "invalid_cursor")
    assert (again.details, first.details) == ({"value": "x", "applied": True}, {"value": "x"})


def test_the_wire_form_is_json() -> None:
    wire = ThreadNotFound("no thread 'x'", thread_id="x").to_wire()

    assert wire == {"code": "thread_not_found", "message": "no thread 'x'", "details": {"thread_id": "x"}}
    assert json.loads(json.dumps(wire)) == wire


@pytest.mark.parametrize("kind", ERRORS[1:])
def test_each_error_is_of_one_fault(kind: type[TreadleError]) -> None:
    faults = (CallerError, Unavailable, StoreUnreadable, InternalError)

    assert sum(issubclass(kind, fault) for fault in faults) == 1


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("LimitExceeded", CallerError),
        ("IdempotencyConflict", CallerError),
        ("ThreadTerminated", CallerError),
        ("StorageFull", Unavailable),
        ("OutcomeUnknown", Unavailable),
        ("ThreadOverloaded", Unavailable),
        ("CorruptRecord", StoreUnreadable),
    ],
)
def test_what_is_worth_repeating_is_told_from_what_is_not(name: str, fault: type[TreadleError]) -> None:
    assert issubclass(getattr(errors, name), fault)


class Broken:
    def __repr__(self) -> str:
        raise ValueError


class Ending:
    """A value that would end the process, once it is looked at."""

    def __repr__(self) -> str:
        raise SystemExit

    @property
    def __class__(self) -> Any:
        raise SystemExit

    @__class__.setter
    def __class__(self, kind: Any) -> None:
        raise SystemExit


@pytest.mark.parametrize(
    "value",
    [
        "x" * 10**6,
        b"x" * 10**6,
        list(range(10**4)),
        Broken(),
        pytest.param(Ending(), id="ending"),
        pytest.param(10**9_999, id="endless integer"),
        "\ud800",
        None,
        "short",
    ],
)
def test_an_offending_value_is_shown_short_whatever_it_is(value: Any) -> None:
    assert 0 < len(shorten(value)) <= 80
    assert len(shorten(value, 20)) <= 20 or type(value) in (Broken, Ending, int)


def test_a_short_value_is_shown_whole() -> None:
    assert (shorten("abc"), shorten(5), shorten(None)) == ("'abc'", "5", "None")


def test_of_a_large_value_no_more_is_looked_at_than_is_shown() -> None:
    looked: list[None] = []

    class Part:
        def __repr__(self) -> str:
            looked.append(None)
            return "p"

    many = [Part()] * 10_000
    for value in (many, tuple(many), [[many], many], {0: many}, dict.fromkeys(range(1_000), many[:100])):
        shown = repr(value)[:79] + "…"
        looked.clear()

        assert shorten(value) == shown
        assert 0 < len(looked) <= 80


@pytest.mark.parametrize(
    "value",
    [
        [], (), {}, (1,), [[]], [()], {"a": [1, (2,)], (3,): {}}, ["x" * 100], {"x" * 200: 1}, [list(range(40))] * 3, [b"x" * 300],
        {n: str(n) for n in range(50)}, [True, None, 1.5],
    ],
    ids=repr,
)  # fmt: skip
@pytest.mark.parametrize("width", [20, 80, 200])
def test_a_value_is_shown_as_its_beginning(value: object, width: int) -> None:
    whole = repr(value)
    assert shorten(value, width) == (whole if len(whole) <= width else whole[: width - 1] + "…")
