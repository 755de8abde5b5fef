"""Owns the proof of treadle.storage.head: the bytes of a row's head, and which batch fits which head."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.protocol.errors import AppendConflict, CorruptRecord
from treadle.storage.head import HEAD_SIZE, Head, judge, pack_row, thread_key, unpack_head

from .driving import batch

U32 = st.integers(0, 2**32 - 1)
U64 = st.integers(0, 2**64 - 1)


def row(generation: int, sequence: int, boot: int, life: int, change: int = 0) -> bytes:
    return pack_row(batch(to=(generation, sequence), by=(boot, life)), change)


@given(U32, U64, U32, U64, U64, st.binary(max_size=20))
def test_a_row_gives_back_its_head_and_its_record(
    generation: int, sequence: int, boot: int, life: int, change: int, record: bytes
) -> None:
    packed = pack_row(batch(to=(generation, sequence), by=(boot, life), record=record), change)

    assert unpack_head(packed, b"") == Head(generation, sequence, boot, life, change)
    assert packed[HEAD_SIZE:] == record


@given(st.binary(max_size=2 * HEAD_SIZE))
def test_any_bytes_are_a_head_or_a_corrupt_record_that_is_named(data: bytes) -> None:
    if len(data) < HEAD_SIZE:
        with pytest.raises(CorruptRecord) as caught:
            unpack_head(data, thread_key(7))
        assert caught.value.details == {"table": "threads", "key": thread_key(7).hex()}
    else:
        assert row(*unpack_head(data, b""))[:HEAD_SIZE] == data[:HEAD_SIZE]


@given(U32, U64, U32, U64, st.none() | st.tuples(U32, U64, U32, U64, U64), st.none() | st.tuples(U32, U64))
def test_a_batch_fits_exactly_the_head_it_expects_from_no_older_incarnation(
    generation: int,
    sequence: int,
    boot: int,
    life: int,
    stored: tuple[int, int, int, int, int] | None,
    barrier: tuple[int, int] | None,
) -> None:
    one = batch(5, at=(generation, sequence), to=(1, 1), by=(boot, life))
    cursor, lowest, change = (stored[:2], stored[2:4], stored[4]) if stored else ((0, 0), (0, 0), 0)
    fits = cursor == (generation, sequence) and (boot, life) >= max(lowest, barrier or (0, 0))
    packed = row(*stored) if stored else None
    barriers = {5: barrier} if barrier else {}

    if fits:
        assert judge(one, packed, thread_key(5), barriers) == change
    else:
        with pytest.raises(AppendConflict) as caught:
            judge(one, packed, thread_key(5), barriers)
        assert caught.value.details["number"] == 5


def test_the_border_cases_of_judging_are_what_they_say() -> None:
    stored = row(1, 5, 2, 3, 9)

    assert judge(batch(at=(1, 5), by=(2, 3)), stored, b"", {}) == 9
    assert judge(batch(at=(1, 5), by=(2, 3)), stored, b"", {1: (2, 3), 2: (9, 9)}) == 9
    assert judge(batch(at=(0, 0)), None, b"", {}) == 0
    for at, by, barriers in [
        ((1, 4), (2, 3), {}),
        ((2, 5), (2, 3), {}),
        ((1, 5), (2, 2), {}),
        ((1, 5), (1, 9), {}),
        ((1, 5), (2, 3), {1: (2, 4)}),
    ]:
        with pytest.raises(AppendConflict):
            judge(batch(at=at, by=by), stored, b"", barriers)
