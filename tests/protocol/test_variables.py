"""Tests protocol/variables.py: what a process could be given is a variable, and nothing else is."""

from __future__ import annotations

import pytest

from treadle.protocol.variables import is_variable_name, is_variable_value


@pytest.mark.parametrize("name", ["A", "a b", "ÄÖ", "1"])
def test_a_name_is_any_text_that_a_process_takes(name: str) -> None:
    assert is_variable_name(name)


@pytest.mark.parametrize("name", ["", "A=B", "=", "A\0", "\ud800", 7, None, b"A"])
def test_what_no_process_takes_is_no_name(name: object) -> None:
    assert not is_variable_name(name)


@pytest.mark.parametrize(
    ("value", "is_one"), [("", True), ("a=b", True), ("a\0", False), ("\ud800", False), (7, False)]
)
def test_a_value_is_any_text_without_nul(value: object, is_one: bool) -> None:
    assert is_variable_value(value) is is_one
