"""Tests actors/removal.py: a deleted thread's contents go in the background, in batches, across crashes, to the last row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from treadle.actors import removal
from treadle.actors.testing import Puppet, Stage
from treadle.storage.keys import numbered, prefix_end
from treadle.storage.tables import Table

if TYPE_CHECKING:
    from collections.abc import Callable

    Enter = Callable[..., Stage]

CONTENTS = removal._TABLES


def full(on: Stage, puppet: Puppet, thread_id: str) -> int:
    """Make a thread that has rows in every table of contents, and return its number."""
    thread = on.thread(thread_id=thread_id, user_id="u1")
    receipt = on.ask(thread.submit("go", input_id=f"{thread_id}-i"))
    on.settle()
    for rank in range(20):
        thread.inject_message("user", "x" * 100 + str(rank))
    on.ask(thread.set_value("v", [1, 2, 3]))
    call = {"id": "m1", "role": "assistant", "content": "", "calls": ["c"], "tool_calls": '[{"id": "c"}]'}
    on.ask(puppet.execution.append(call))
    on.ask(thread.submit("waits", on_busy="queue"))
    assert receipt.execution_id is not None
    return on.services.directory.entry(thread.id).number


def rows(on: Stage, number: int) -> dict[str, int]:
    """Count the bytes that are left of a thread, by table."""
    low, high = numbered(number), prefix_end(numbered(number))
    with on.store.view() as view:
        return {
            table.name: sum(len(key) + len(value) for key, value in found)
            for table in Table
            if (found := view.scan(table, low, high))
        }


def delete(on: Stage, thread_id: str) -> None:
    """Delete up to the tombstone; the contents are still there."""
    deleted = on.runtime.delete_thread(thread_id)
    while not deleted.done():
        assert on.turn() or on.body() or on.release() or on.commit()


def test_contents_go_in_batches_and_nothing_is_left_but_the_tombstone(
    on: Stage, puppet: Puppet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removal, "DELETE_ROWS", 10)
    number = full(on, puppet, "t")
    assert {table.name for table in CONTENTS} <= set(rows(on, number))
    delete(on, "t")
    sizes = []
    while on.services.supervisor.removing:
        sizes.append(sum(rows(on, number).values()))
        assert on.act() + on.commit() > 0
    assert len(sizes) > 5
    assert sizes == sorted(sizes, reverse=True)

    left = rows(on, number)
    with on.store.view() as view:
        assert view.get(Table.NAMES, b"t") == b""
        assert view.scan(Table.USERS, b"", None) == []
        changes = view.scan(Table.CHANGES, b"", None)
        assert sum(len(key) + len(value) for key, value in changes) + sum(left.values()) + len(b"t") < 256
    assert set(left) <= {"THREADS"}


def test_a_removal_goes_on_where_a_crash_ended_it_and_other_threads_keep_all(
    on: Stage, puppet: Puppet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removal, "DELETE_ROWS", 7)
    other = full(on, puppet, "other")
    number = full(on, puppet, "t")
    puppet.returns()
    on.settle()
    delete(on, "t")
    lives = 0
    while True:
        on.act()
        on.commit()
        on.kill()
        report = on.reopen().opened
        assert report is not None
        if report.removing == 0:
            break
        lives += 1
        assert lives < 50
        assert {"JOURNAL", "MESSAGES", "MESSAGE_IDS", "EXECUTIONS", "RECEIPTS", "VALUES"} <= set(rows(on, other))
        on.act()
        on.commit()
    assert lives > 2

    assert set(rows(on, number)) <= {"THREADS"}
    kept = on.runtime.thread("other")
    assert kept.messages(order="asc").result().messages[20].content == "x" * 100 + "19"
    assert kept.get_value("v").result() == [1, 2, 3]


def test_a_store_that_has_no_room_keeps_the_rest_for_the_next_open(
    on: Stage, puppet: Puppet, caplog: pytest.LogCaptureFixture
) -> None:
    number = full(on, puppet, "t")
    delete(on, "t")
    on.act()
    on.refuse()
    on.settle()
    assert "stopped" in caplog.text
    assert on.services.supervisor.removing == 0
    assert "JOURNAL" in rows(on, number)

    on.kill()
    assert on.reopen().opened.removing == 1  # type: ignore[union-attr]
    on.settle()
    assert set(rows(on, number)) <= {"THREADS"}


def test_many_threads_are_removed_beside_each_other(on: Stage, puppet: Puppet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(removal, "DELETE_ROWS", 5)
    numbers = []
    for thread_id in "abc":
        numbers.append(full(on, puppet, thread_id))
        delete(on, thread_id)
    on.settle()

    assert [set(rows(on, number)) <= {"THREADS"} for number in numbers] == [True] * 3
    assert on.services.supervisor.removing == 0
    with on.store.view() as view:
        assert view.scan(Table.WORK, b"", None) == []
