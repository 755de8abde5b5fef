"""Tests agents/patterns.py: regular expressions of definitions, in time linear in the text."""

from __future__ import annotations

import re
from typing import Annotated

import pytest
from pydantic import BaseModel, Field, TypeAdapter

from treadle.agents.patterns import matches, pattern_problem, python_patterns


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+$", "(.*a){20}$", r"^(\w+\s?)*$"])
def test_a_pattern_over_which_python_would_never_end_is_answered(pattern: str) -> None:
    # With Python's engine this would be no slow test but a dead one.
    assert not matches(pattern, "a" * 10_000 + "!\n")


def test_a_pattern_is_looked_for_anywhere() -> None:
    assert matches("b+", "abba")
    assert not matches("^b+$", "abba")
    assert matches(r"^\d{4}$", "1234")


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(?=a)", "look-around, including look-ahead and look-behind, is not supported"),
        (r"(a)\1", "backreferences are not supported"),
        ("(", "unclosed group"),
        ("a{1000}{1000}", "Compiled regex exceeds size limit of 10485760 bytes."),
    ],
)
def test_a_pattern_that_cannot_be_used_is_named_with_the_reason(pattern: str, why: str) -> None:
    problem = pattern_problem(pattern)

    assert problem is not None
    assert repr(pattern) in problem
    assert why in problem
    assert matches(pattern, "anything")


class Slow(BaseModel, regex_engine="python-re"):
    word: str = Field(pattern="(a+)+$")


class Holds(BaseModel):
    some: list[Slow] = []
    fine: str = Field("x", pattern="(b+)+$")


def test_patterns_of_pydantic_that_python_would_match_are_found_wherever_they_stand() -> None:
    compiled = Annotated[str, Field(pattern=re.compile("c"))]

    assert list(python_patterns(TypeAdapter(Holds).core_schema)) == ["(a+)+$"]
    assert list(python_patterns(TypeAdapter(dict[str, compiled | None]).core_schema)) == ["c"]  # type: ignore[valid-type]
    assert list(python_patterns(TypeAdapter(Annotated[str, Field(pattern="c")]).core_schema)) == []
    assert list(python_patterns(None)) == []
