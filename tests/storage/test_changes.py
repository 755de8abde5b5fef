from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.actors.publishing import World, finish, message, start
from tests.storage.driving import batch
from treadle.protocol.cursors import Cursor
from treadle.protocol.errors import CorruptRecord
from treadle.protocol.status import ThreadStatus
from treadle.storage.changes import Change, last_change, read_changes
from treadle.storage.codec import pack
from treadle.storage.head import HEAD_SIZE
from treadle.storage.memory_store import MemoryStore
from treadle.storage.tables import Table


def read(
    changes: dict[int, bytes], threads: dict[bytes, bytes], after: int, through: int, limit: int = 10
) -> tuple[list[Change], int]:
    """Read the changes of a store that holds these rows."""
    store = MemoryStore(manual=True)
    store.open()
    ops = [(int(Table.CHANGES), number.to_bytes(8, "big"), data) for number, data in changes.items()]
    ops += [(int(Table.THREADS), key, row) for key, row in threads.items()]
    store.commit(batch(99, ops=ops))
    store.step()
    with store.view() as view:
        return read_changes(view, after, through, limit)


NUMBER = (7).to_bytes(8, "big")
THREAD = b"\0" * HEAD_SIZE + pack((1, "t7", "a", None))
GOOD = NUMBER + pack((1, 4, "idle", 12, "awaiting_human", False))
CHANGE = Change(3, "t7", Cursor(1, 4), ThreadStatus("idle", 12, "awaiting_human"), deleted=False)


def test_each_thread_stands_in_the_list_once_at_its_last_change() -> None:
    world = World()
    one, two = world.create("one"), world.create("two")
    world.run(one, start())
    world.run(two, start(), message())
    world.run(one, finish())

    with world.store.view() as view:
        changes, through = read_changes(view, 0, 5, 10)
        assert last_change(view) == 5

    assert through == 5
    assert [(c.number, c.thread_id, c.cursor, c.status.state) for c in changes] == [
        (4, "two", Cursor(1, 3), "running"),
        (5, "one", Cursor(1, 3), "idle"),
    ]
    assert [c.status for c in changes] == [two.facts.status, one.facts.status]
    world.close()


def test_an_empty_store_has_taken_no_change() -> None:
    world = World()
    with world.store.view() as view:
        assert last_change(view) == 0
        assert read_changes(view, 0, 0, 10) == ([], 0)
    world.close()


def test_a_full_page_says_how_far_it_goes() -> None:
    rows, threads = {3: GOOD, 5: GOOD, 9: GOOD}, {NUMBER: THREAD}

    assert read(rows, threads, 0, 20, 2) == ([CHANGE, CHANGE._replace(number=5)], 5)
    assert read(rows, threads, 5, 20, 2) == ([CHANGE._replace(number=9)], 20)
    assert read(rows, threads, 3, 8, 2) == ([CHANGE._replace(number=5)], 8)


def test_a_deleted_thread_is_named_by_its_tombstone_or_by_the_change_or_left_out() -> None:
    deleted = NUMBER + pack((1, 4, "idle", 12, None, True))
    named = NUMBER + pack((1, 4, "idle", 12, None, True, "t7"))

    assert [c.thread_id for c in read({1: deleted}, {NUMBER: THREAD}, 0, 1)[0]] == ["t7"]
    assert [c.thread_id for c in read({1: named}, {}, 0, 1)[0]] == ["t7"]
    assert read({1: deleted}, {}, 0, 1) == ([], 1)
    assert read({1: deleted}, {NUMBER: b"\0" * HEAD_SIZE}, 0, 1) == ([], 1)


@pytest.mark.parametrize(
    ("change", "thread", "table"),
    [
        (b"", THREAD, "changes"),
        (NUMBER, THREAD, "changes"),
        (NUMBER + b"\xc1", THREAD, "changes"),
        (NUMBER + pack((1, 4, "idle", 12, None)), THREAD, "changes"),
        (NUMBER + pack((1, 4, "busy", 12, None, False)), THREAD, "changes"),
        (NUMBER + pack((1, 4, "idle", 12, 3, False)), THREAD, "changes"),
        (NUMBER + pack((1, "4", "idle", 12, None, False)), THREAD, "changes"),
        (NUMBER + pack((1, 4, ["idle"], 12, None, False)), THREAD, "changes"),
        (GOOD, None, "threads"),
        (GOOD, b"short", "threads"),
        (GOOD, b"\0" * HEAD_SIZE + b"\xc1", "threads"),
        (GOOD, b"\0" * HEAD_SIZE + pack((1,)), "threads"),
        (GOOD, b"\0" * HEAD_SIZE + pack((1, 2)), "threads"),
        (GOOD, b"\0" * HEAD_SIZE + pack((1, "t7"))[:-1], "threads"),
    ],
)
def test_what_does_not_decode_is_a_corrupt_record(change: bytes, thread: bytes | None, table: str) -> None:
    with pytest.raises(CorruptRecord) as caught:
        read({3: change}, {} if thread is None else {NUMBER: thread}, 0, 5)

    assert caught.value.details["table"] == table


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_any_bytes_are_a_change_or_a_corrupt_record(change: bytes, thread: bytes) -> None:
    for data, row in ((change, THREAD), (NUMBER + change, THREAD), (GOOD, b"\0" * HEAD_SIZE + thread)):
        try:
            changes, through = read({3: data}, {NUMBER: row}, 0, 5)
        except CorruptRecord:
            continue
        assert through == 5
        assert all(isinstance(found.thread_id, str) for found in changes)
