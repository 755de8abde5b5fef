"""What ids callers may choose, and how ours look."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.protocol.errors import InvalidInput
from treadle.protocol.ids import check_id, check_name, format_id

PRINTABLE = "".join(map(chr, range(0x20, 0x7F)))


@given(st.text(PRINTABLE, min_size=1, max_size=128).filter(lambda text: text == text.strip(" ")))
def test_printable_ascii_without_blanks_at_its_ends_is_an_id(text: str) -> None:
    assert check_id("thread_id", text) is text


@pytest.mark.parametrize(
    "value",
    ["", " ", " a", "a ", "a\n", "a\tb", "é", "a\x7f", "a\0", "x" * 129, None, 5, b"a", ["a"], "\ud800", "\uff11"],
)
def test_anything_else_is_refused_with_kind_and_value(value: object) -> None:
    with pytest.raises(InvalidInput) as caught:
        check_id("input_id", value)

    assert (caught.value.code, caught.value.details["kind"]) == ("invalid_id", "input_id")
    assert len(caught.value.details["value"]) <= 80  # type: ignore[arg-type]


def test_an_id_is_at_most_128_characters() -> None:
    assert check_id("thread_id", "x" * 128)


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1))
def test_any_valid_text_is_a_name(text: str) -> None:
    assert check_name("key", text) is text


@pytest.mark.parametrize("value", ["", "a\0b", "\udfff", None, 5, b"a"])
def test_what_is_no_valid_text_is_no_name(value: object) -> None:
    with pytest.raises(InvalidInput) as caught:
        check_name("key", value)

    assert caught.value.code == "invalid_name"


@given(st.integers(0, 2**56 - 1), st.binary(min_size=9, max_size=9), st.integers(0, 2**56 - 1))
def test_our_ids_have_one_length_sort_by_time_and_are_ids(time: int, chance: bytes, later: int) -> None:
    made = format_id(time, chance.hex())

    assert len(made) == 32
    assert check_id("input_id", made) == made
    assert (made < format_id(later, bytes(9).hex())) == (time < later) or time == later


def test_our_ids_wrap_rather_than_grow() -> None:
    assert format_id(2**56 + 1, "0" * 18) == format_id(1, "0" * 18)
