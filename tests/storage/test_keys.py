"""Tests storage/keys.py: keys sort as their tables are read, never collide, and never grow too long for LMDB."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from treadle.storage.keys import (
    id_part,
    inbox_key,
    journal_key,
    message_key,
    named_key,
    numbered,
    open_key,
    prefix_end,
    request_key,
    sequence_of,
    user_key,
    user_key_prefix,
    value_key,
)

LMDB_KEY_MAX = 511
numbers = st.integers(0, 2**63)
ids = st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1, max_size=128)
our_ids = st.binary(min_size=16, max_size=16).map(bytes.hex)
names = st.text(min_size=1, max_size=400).filter(lambda name: "\0" not in name and name.isprintable())


@given(st.tuples(numbers, st.integers(0, 2**32 - 1), numbers), st.tuples(numbers, st.integers(0, 2**32 - 1), numbers))
def test_events_sort_by_thread_generation_and_sequence(one: tuple[int, int, int], other: tuple[int, int, int]) -> None:
    assert (journal_key(*one) < journal_key(*other)) == (one < other)
    assert sequence_of(journal_key(*one)) == one[2]


@given(numbers, numbers, numbers)
def test_what_came_with_an_interruption_stands_before_all_other_rows(number: int, one: int, other: int) -> None:
    assert inbox_key(number, True, one) < inbox_key(number, False, other)
    assert (inbox_key(number, False, one) < inbox_key(number, False, other)) == (one < other)
    assert (message_key(number, 3, one) < message_key(number, 3, other)) == (one < other)


@given(st.integers(0, 2**63), st.binary(max_size=300))
def test_the_end_of_a_prefix_is_behind_all_that_begins_with_it_and_before_the_next(number: int, rest: bytes) -> None:
    prefix = numbered(number)

    assert prefix <= prefix + rest < prefix_end(prefix) == numbered(number + 1)


@given(ids | our_ids, ids | our_ids)
def test_ids_that_differ_have_keys_that_differ(one: str, other: str) -> None:
    assert (id_part(one) == id_part(other)) == (one == other)


def test_an_id_of_ours_takes_half_its_length_and_what_only_looks_like_one_is_itself() -> None:
    ours = "0" * 31 + "f"
    alike = ["0" * 31 + "F", "0" * 31 + "g", "0" * 30 + " f", "0" * 30, "0" * 34, "0f" * 15 + "  "]

    assert len(id_part(ours)) == 17
    assert all(id_part(one) == b"\x02" + one.encode() for one in alike)
    assert len({id_part(one) for one in [ours, *alike]}) == len(alike) + 1


@given(ids, ids)
def test_a_request_has_a_key_that_no_input_has_and_is_short_enough(one: str, other: str) -> None:
    prefix = numbered(7)

    assert (request_key(prefix, one) == request_key(prefix, other)) == (one == other)
    assert request_key(prefix, one) != named_key(prefix, other)
    assert len(request_key(prefix, one)) <= LMDB_KEY_MAX


@given(names, names)
def test_names_that_differ_have_keys_that_differ_and_are_short_enough(one: str, other: str) -> None:
    prefix = numbered(7)
    for make in (lambda name: value_key(prefix, name), lambda name: open_key(prefix, b"c", name)):
        assert (make(one) == make(other)) == (one == other)
        assert len(make(one)) <= LMDB_KEY_MAX


@given(ids, ids, numbers, numbers)
def test_the_threads_of_a_user_are_a_run_of_their_own(one: str, other: str, first: int, second: int) -> None:
    prefix = user_key_prefix(one)

    assert prefix <= user_key(one, first) < prefix_end(prefix)
    assert (user_key(one, first) < user_key(one, second)) == (first < second)
    if one != other:
        assert not user_key(other, first).startswith(prefix)
    assert len(user_key(one, first)) <= LMDB_KEY_MAX
    assert len(named_key(numbered(first), one)) <= LMDB_KEY_MAX
