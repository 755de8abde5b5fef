"""Counters of gaps: a place in history is found exactly, whatever was deleted, and no length of history makes that dearer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.protocol.errors import CorruptRecord
from treadle.storage import MemoryStore
from treadle.storage.codec import pack
from treadle.storage.gaps import GAPS_CLASS, gap_keys, locate, read_gaps
from treadle.storage.keys import message_key
from treadle.storage.memory_store import _Snapshot, _SortedTable
from treadle.storage.tables import Table

if TYPE_CHECKING:
    from collections.abc import Iterable

NUMBER = 7


def store_of(gaps: Iterable[int]) -> MemoryStore:
    counters: dict[bytes, int] = {}
    for position in gaps:
        for key in gap_keys(NUMBER, position):
            counters[key] = counters.get(key, 0) + 1
    rows = {key: pack(count) for key, count in counters.items()}
    # Rows of others before and behind must not be met.
    for number, kind in ((NUMBER - 1, GAPS_CLASS), (NUMBER + 1, GAPS_CLASS), (NUMBER, 3)):
        rows[message_key(number, kind, 0)] = b"not a counter"
    store = MemoryStore(manual=True)
    store._now = _Snapshot(
        [_SortedTable(sorted(rows), rows) if table is Table.MESSAGES else _SortedTable([], {}) for table in Table]
    )
    store.open()
    return store


@given(st.data(), st.integers(1, 100_000_000), st.sets(st.integers(0, 300)))
def test_a_place_leads_to_the_position_that_counting_gives(data: st.DataObject, first: int, near: set[int]) -> None:
    far = data.draw(st.sets(st.integers(0, first + 400), max_size=40))
    gaps = {first + gap for gap in near} | far
    rank = data.draw(st.integers(0, first + 300))

    with store_of(gaps).view() as view:
        position, skip = locate(view, NUMBER, rank)

    # Walk on from there over what is present.
    assert skip < 128
    place = position
    for _ in range(skip):
        while place in gaps:
            place += 1
        place += 1
    while place in gaps:
        place += 1
    assert place - sum(gap < place for gap in gaps) == rank


def test_without_gaps_a_place_is_a_position() -> None:
    with store_of([]).view() as view:
        assert [locate(view, NUMBER, rank) for rank in (0, 5, 10**9)] == [(0, 0), (5, 0), (10**9, 0)]


def test_whole_blocks_that_are_gone_are_passed_over() -> None:
    with store_of(range(70_000)).view() as view:
        assert locate(view, NUMBER, 0) == (69_888, 0)  # behind the last whole block that is gone
        assert locate(view, NUMBER, 100) == (70_100, 0)


def test_looking_reads_few_rows_however_long_the_history() -> None:
    class Counted:
        def __init__(self, view: Any) -> None:
            self.view, self.rows = view, 0

        def scan(self, *where: Any, **how: Any) -> Any:
            found = self.view.scan(*where, **how)
            self.rows += len(found)
            return found

    with store_of(range(0, 6_000_000, 97)).view() as view:
        counted = Counted(view)
        locate(counted, NUMBER, 5_000_000)  # type: ignore[arg-type]

    assert counted.rows <= 3 + 2 * 128


@pytest.mark.parametrize("stored", [b"", pack("x"), pack(-1), pack([1]), b"\xc1"])
def test_what_is_no_counter_is_corrupt(stored: bytes) -> None:
    with pytest.raises(CorruptRecord):
        read_gaps(stored, b"key")

    assert read_gaps(None, b"key") == 0
