"""Owns the proof of treadle.storage.memory_store beyond the conformance suite: stepping by hand, crashing, restarting."""

from __future__ import annotations

import threading

from treadle.storage.memory_store import MemoryStore
from treadle.storage.tables import Table

from .driving import Answers, batch, contents, key

J = Table.JOURNAL


def test_a_manual_store_does_nothing_until_it_is_stepped() -> None:
    store, answers = MemoryStore(manual=True), Answers()
    before = {*threading.enumerate()}
    store.open()
    for n in range(3):
        store.commit(batch(n, ops=[(J, key(n), b"")], confirm=answers.confirm(n)))
    store.barrier(1, 1, 2, answers.confirm("barrier"))
    store.commit(batch(1, at=(1, 1), confirm=answers.confirm("late")))

    assert (store.pending(), answers.all, contents(store, J)) == (5, [], {})
    assert {*threading.enumerate()} <= before

    assert store.step() == 3
    assert (store.pending(), answers.kinds()) == (2, ["committed"] * 3)
    assert (store.step(), store.step(), store.step()) == (1, 1, 0)
    assert answers.kinds() == ["committed"] * 4 + ["not_written"]
    store.close()


def test_what_a_confirm_hands_over_waits_for_the_next_step() -> None:
    store, answers = MemoryStore(manual=True), Answers()
    store.open()

    store.commit(batch(1, confirm=lambda _: store.commit(batch(2, confirm=answers.confirm("next")))))

    assert store.step() == 1
    assert (store.pending(), answers.all) == (1, [])
    assert store.step() == 1
    assert answers.kinds() == ["committed"]
    store.close()


def test_a_crash_loses_what_waited_and_nothing_else_and_the_next_open_is_a_new_boot() -> None:
    store, answers = MemoryStore(manual=True), Answers()
    assert store.open().number == 1
    store.commit(batch(1, ops=[(J, b"kept", b"1")], change=b"c", confirm=answers.confirm("kept")))
    store.step()
    store.barrier(1, 9, 9, answers.confirm("lost"))
    store.commit(batch(2, ops=[(J, b"lost", b"1")], change=b"c", confirm=answers.confirm("lost")))

    store.crash()

    assert store.open().number == 2
    assert contents(store, J) == {b"kept": b"1"}
    store.commit(batch(1, at=(1, 1), by=(2, 1), change=b"d", confirm=answers.confirm("after")))
    store.step()
    assert [(name, answer.change) for name, answer in answers.all] == [("kept", 1), ("after", 2)]
    store.close()


def test_closing_a_manual_store_writes_and_answers_what_waits() -> None:
    store, answers = MemoryStore(manual=True), Answers()
    store.open()
    store.commit(batch(1, confirm=answers.confirm(1)))
    store.barrier(1, 1, 1, answers.confirm(2))
    store.commit(batch(2, confirm=answers.confirm(3)))

    store.close()

    assert answers.kinds() == ["committed"] * 3
    assert (store.step(), store.pending()) == (0, 0)


def test_stepping_and_crashing_a_store_that_is_not_open_does_nothing() -> None:
    store = MemoryStore(manual=True)

    store.crash()

    assert (store.step(), store.pending()) == (0, 0)


def test_tables_are_copied_only_while_a_view_looks_at_them() -> None:
    store = MemoryStore(manual=True)
    store.open()
    store.commit(batch(1, ops=[(J, b"a", b"1")]))
    store.step()
    journal = store._now.tables[J]
    store.commit(batch(1, at=(1, 1), ops=[(J, b"b", b"1")]))
    store.step()
    assert store._now.tables[J] is journal

    with store.view() as view:
        store.commit(batch(1, at=(1, 2), ops=[(J, b"c", b"1"), (J, b"a", None)]))
        store.step()
        assert [name for name, _ in view.scan(J, b"", None)] == [b"a", b"b"]
    assert store._now.tables[J] is not journal
    assert store._now.tables[Table.VALUES] is not None
    assert sorted(contents(store, J)) == [b"b", b"c"]
    store.close()
