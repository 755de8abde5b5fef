"""What ids callers may choose, and how ours look."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.protocol.errors import InvalidInput
from treadle.protocol.ids import check_id, check_key, check_name, format_id
from treadle.protocol.message_edits import check_changes
from treadle.protocol.messages import draft_message, draft_messages
from treadle.protocol.status import check_stop

if TYPE_CHECKING:
    from collections.abc import Callable

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


class Liar(str):
    """A string that says of itself what is not so; what is stored is its characters."""

    __slots__ = ()

    def isascii(self) -> bool:
        return True

    def __len__(self) -> int:
        return 1

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return hash("user")

    def __contains__(self, part: str) -> bool:  # type: ignore[override]
        return False

    def encode(self, *_given: object) -> bytes:
        return b"a"


CHECKS: list[Callable[[str], Any]] = [
    lambda text: check_id("thread_id", text),
    lambda text: check_name("tag", text),
    check_key,
    check_stop,
    lambda text: draft_message("m", "user", text)["content"],
    lambda text: draft_message("m", "user", "x", name=text)["name"],
    lambda text: draft_messages([text], lambda: "m", "user", frozenset({"user"}))[0][0]["content"],
    lambda text: draft_messages([{"content": text}], lambda: "m", "user", frozenset({"user"}))[0][0]["content"],
    lambda text: check_changes({"content": text})[0].content,
]


@pytest.mark.parametrize("check", CHECKS)
def test_a_string_of_a_type_of_its_own_comes_out_as_what_is_stored_of_it(check: Callable[[str], Any]) -> None:
    checked = check(Liar("text"))

    assert type(checked) is str
    assert str.__eq__("text", checked)


@pytest.mark.parametrize("check", CHECKS)
def test_what_a_string_says_of_itself_passes_no_check(check: Callable[[str], Any]) -> None:
    with pytest.raises(InvalidInput):
        check(Liar("\ud800"))


def test_the_role_of_a_message_is_judged_by_its_characters() -> None:
    with pytest.raises(InvalidInput):
        draft_message("m", Liar("nobody"), "x")
    assert type(draft_message("m", Liar("tool"), "x")["role"]) is str
