"""A view with a batch under way laid over it shows what will be there once that is written."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from treadle.storage import MemoryStore
from treadle.storage.memory_store import _Snapshot, _SortedTable
from treadle.storage.overlay import Overlay
from treadle.storage.tables import Table

KEYS = st.text("abc", min_size=1, max_size=2).map(str.encode)
ROWS = st.dictionaries(KEYS, st.binary(max_size=2))
CHANGES = st.dictionaries(KEYS, st.none() | st.binary(max_size=2))


def store_of(rows: dict[bytes, bytes]) -> MemoryStore:
    store = MemoryStore(manual=True)
    tables = [
        _SortedTable(sorted(rows), dict(rows)) if table is Table.OPEN else _SortedTable([], {}) for table in Table
    ]
    store._now = _Snapshot(tables)
    store.open()
    return store


@given(
    ROWS, CHANGES, st.sampled_from([b"", b"a", b"b"]), st.sampled_from([None, b"b", b"cb"]), st.booleans(),
    st.none() | st.integers(1, 4), st.integers(0, 3),
)  # fmt: skip
def test_it_is_as_if_the_changes_were_written(
    rows: dict[bytes, bytes],
    changes: dict[bytes, bytes | None],
    low: bytes,
    high: bytes | None,
    reverse: bool,
    limit: int | None,
    skip: int,
) -> None:
    written = {key: value for key, value in (rows | changes).items() if value is not None}
    with Overlay(store_of(rows).view(), {Table.OPEN: changes}) as over, store_of(written).view() as view:
        expected = view.scan(Table.OPEN, low, high, reverse=reverse, limit=limit, skip=skip)

        assert over.scan(Table.OPEN, low, high, reverse=reverse, limit=limit, skip=skip) == expected
        assert [over.get(Table.OPEN, key) for key in rows | changes] == [written.get(key) for key in rows | changes]
        assert over.scan(Table.USERS, b"", None) == []


def test_it_lets_the_view_below_go() -> None:
    store = store_of({b"a": b"1"})

    with Overlay(store.view(), {}):
        assert store._now.readers == 1

    assert store._now.readers == 0
