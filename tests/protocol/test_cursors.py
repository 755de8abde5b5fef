"""The cursor: one text for one place, and nothing else is one."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treadle.protocol.cursors import START_SEQUENCE, Cursor
from treadle.protocol.errors import InvalidInput


@given(st.integers(1, 2**32 - 1), st.integers(0, 2**63 - 1))
def test_a_cursor_reads_back_equal(generation: int, sequence: int) -> None:
    cursor = Cursor(generation, sequence)

    assert Cursor.parse(str(cursor)) == cursor
    assert str(Cursor.parse(str(cursor))) == str(cursor)
    assert Cursor.parse(cursor) is cursor


@settings(max_examples=50)
@given(st.text() | st.from_regex(r"[0-9:+\- _]{0,25}"))
def test_a_text_is_a_cursor_or_the_documented_error(text: str) -> None:
    cursor, error = parsed(text)

    assert (str(cursor) == text) == (error is None)
    if error is not None:
        assert (error.code, set(error.details)) == ("invalid_cursor", {"value"})


def parsed(text: str) -> tuple[Cursor | None, InvalidInput | None]:
    try:
        return Cursor.parse(text), None
    except InvalidInput as error:
        return None, error


@pytest.mark.parametrize(
    "text",
    [
        "", ":", "1", "1:", ":1", "0:0", "0:5", "-1:5", "1:-5", "+1:5", "1:5:6", " 1:5", "1:5 ", "1:5\n", "1.0:5", "1_0:5", "٣:٤",
        "01:5", "1:05", "4294967296:0", "1:9223372036854775808", "9" * 5_000 + ":1", "1:" + "9" * 5_000, "generation:sequence",
    ],
)  # fmt: skip
def test_what_is_not_a_cursor_is_named(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        Cursor.parse(text)

    assert caught.value.code == "invalid_cursor"
    assert len(str(caught.value)) < 250


@pytest.mark.parametrize("value", [None, 5, 1.5, b"1:5", ["1:5"], (1, 5)])
def test_what_is_no_text_is_no_cursor(value: object) -> None:
    with pytest.raises(InvalidInput):
        Cursor.parse(value)  # type: ignore[arg-type]


def test_cursors_compare_by_generation_then_sequence() -> None:
    assert Cursor(1, 9) < Cursor(2, START_SEQUENCE) < Cursor(2, 1)
