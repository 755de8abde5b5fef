"""Owns the proof of treadle.storage.faults: each kind of failure is exactly what it says, at exactly the n-th commit."""

from __future__ import annotations

import pytest

from treadle.protocol.errors import OutcomeUnknown, StorageFull, StoreClosed
from treadle.storage.faults import FaultyStore, Kind
from treadle.storage.memory_store import MemoryStore
from treadle.storage.tables import Table

from .driving import Answers, batch, contents, key

J = Table.JOURNAL


def faulty(
    fail_at: int | None, kind: Kind = "not_written", *, persistent: bool = False
) -> tuple[FaultyStore, MemoryStore]:
    inner = MemoryStore(manual=True)
    store = FaultyStore(inner, fail_at, kind, persistent=persistent)
    store.open()
    return store, inner


def play(store: FaultyStore, inner: MemoryStore, count: int = 5) -> tuple[Answers, list[bytes]]:
    """Hand over `count` batches of as many threads; return their answers and what is written."""
    answers = Answers()
    for n in range(count):
        store.commit(batch(n, ops=[(J, key(n), b"")], confirm=answers.confirm(n)))
    while inner.step():
        pass
    return answers, sorted(contents(store, J))


def test_without_a_fault_it_is_the_store_behind_it() -> None:
    store, inner = faulty(None)

    answers, written = play(store, inner)

    assert answers.kinds() == ["committed"] * 5
    assert written == [key(n) for n in range(5)]
    assert (store.fired, store.commits) == (False, 5)


@pytest.mark.parametrize("at", [1, 2, 3, 4, 5])
def test_not_written_is_refused_in_its_place_and_nothing_of_it_is_stored(at: int) -> None:
    store, inner = faulty(at)

    answers, written = play(store, inner)

    assert [name for name, _ in answers.all] == list(range(5))
    assert [name for name, answer in answers.all if answer.kind == "not_written"] == [at - 1]
    assert isinstance(answers.all[at - 1][1].error, StorageFull)
    assert written == [key(n) for n in range(5) if n != at - 1]
    assert store.fired
    assert store.failure() is None


@pytest.mark.parametrize("at", [1, 3, 5])
def test_written_is_stored_and_yet_unknown(at: int) -> None:
    store, inner = faulty(at, "written")

    answers, written = play(store, inner)

    assert [name for name, answer in answers.all if answer.kind == "unknown"] == [at - 1]
    assert isinstance(answers.all[at - 1][1].error, OutcomeUnknown)
    assert written == [key(n) for n in range(5)]


def test_a_conflict_at_the_failing_commit_stays_a_conflict() -> None:
    store, inner = faulty(1, "written")
    answers = Answers()

    store.commit(batch(at=(9, 9), confirm=answers.confirm(0)))
    inner.step()

    assert answers.kinds() == ["not_written"]


@pytest.mark.parametrize("at", [1, 3, 5])
def test_after_a_stop_nothing_is_written_or_answered_any_more(at: int) -> None:
    store, inner = faulty(at, "stop")

    answers, written = play(store, inner)
    store.barrier(1, 9, 9, answers.confirm("barrier"))
    inner.step()

    assert [name for name, _ in answers.all] == list(range(at - 1))
    assert written == [key(n) for n in range(at - 1)]
    assert store.fired
    assert store.backlog() == 0


def test_a_persistent_fault_lasts_until_it_is_healed() -> None:
    store, inner = faulty(3, persistent=True)
    answers, _ = play(store, inner)
    assert answers.kinds() == ["committed"] * 2 + ["not_written"] * 3

    store.heal()

    store.commit(batch(9, confirm=answers.confirm("healed")))
    inner.step()
    assert answers.kinds()[-1] == "committed"


def test_a_fault_can_be_ordered_for_later() -> None:
    store, inner = faulty(None)
    play(store, inner)
    store.fail(2, "written")
    answers = Answers()

    for n in range(10, 13):
        store.commit(batch(n, confirm=answers.confirm(n)))
    inner.step()

    assert answers.kinds() == ["committed", "unknown", "committed"]


def test_looping_over_the_nth_commit_ends_when_a_run_meets_no_fault() -> None:
    for fail_at in range(1, 99):
        store, inner = faulty(fail_at)
        play(store, inner)
        if not store.fired:
            break

    assert fail_at == 6


def test_a_closed_store_behind_it_is_not_hidden() -> None:
    store, _ = faulty(1)
    store.close()
    answers = Answers()

    store.commit(batch(confirm=answers.confirm(0)))
    store.commit(batch(confirm=lambda _: store.commit(batch(confirm=answers.confirm(1)))))

    assert [type(answer.error) for _, answer in answers.all] == [StoreClosed, StoreClosed]
    assert isinstance(store.failure(), StoreClosed)
