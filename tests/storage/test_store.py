"""Owns the conformance suite: what every implementation of `Store` does alike. Knows no implementation's insides."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

import pytest

from treadle.protocol.errors import (
    AppendConflict,
    CorruptRecord,
    InternalError,
    StoreClosed,
    StoreInUse,
)
from treadle.storage.faults import FaultyStore
from treadle.storage.head import Head, thread_key
from treadle.storage.lmdb_store import LmdbStore
from treadle.storage.memory_store import MemoryStore
from treadle.storage.schema import BOOT_KEY, NO_BOOT_ID, boot_id_of, unpack_boot
from treadle.storage.tables import KEY_BYTES_MAX, Table

from .driving import PATIENCE_S, Answers, barrier, batch, contents, head, key, read, write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from treadle.storage.batch import Answer
    from treadle.storage.store import Store

J, M, V = Table.JOURNAL, Table.MESSAGES, Table.VALUES


@pytest.fixture(params=["lmdb", "memory", "faulty"])
def closed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """Give a store that was never opened; whatever the test left open is closed."""
    made: dict[str, Store] = {
        "lmdb": LmdbStore(tmp_path / "store", durability="process"),
        "memory": MemoryStore(),
        "faulty": FaultyStore(MemoryStore()),
    }
    store = made[request.param]
    yield store
    store.close()


@pytest.fixture
def store(closed: Store) -> Store:
    closed.open()
    return closed


def error(answer: Answer) -> object:
    assert answer.kind == "not_written"
    assert answer.error is not None
    return answer.error


# --- writing


def test_a_committed_batch_is_what_the_next_view_sees(store: Store) -> None:
    [answer] = write(store, batch(ops=[(J, b"a", b"1"), (M, b"a", b"2")]))

    assert answer == ("committed", 0, None)
    assert (read(store, J, b"a"), read(store, M, b"a"), read(store, V, b"a")) == (b"1", b"2", None)
    assert head(store, 1) == Head(1, 1, 1, 1, 0)
    assert read(store, Table.THREADS, thread_key(1)) == bytes.fromhex("00000001000000000000000100000001") + (
        key(1) + key(0) + b"record"
    )


def test_ops_are_applied_in_their_order(store: Store) -> None:
    write(store, batch(ops=[(J, b"a", b"1"), (J, b"a", None), (J, b"b", None), (J, b"b", b"1"), (J, b"b", b"2")]))

    assert contents(store, J) == {b"b": b"2"}


def test_deleting_an_absent_key_is_fine(store: Store) -> None:
    [answer] = write(store, batch(ops=[(J, b"never there", None), (J, b"k" * (KEY_BYTES_MAX + 1), None)]))

    assert answer.kind == "committed"


def test_a_batch_sees_the_batches_handed_over_before_it(store: Store) -> None:
    chain = [batch(at=(1, n) if n else (0, 0), ops=[(J, b"last", key(n))]) for n in range(200)]

    assert {answer.kind for answer in write(store, *chain)} == {"committed"}
    assert read(store, J, b"last") == key(199)
    assert head(store, 1) == Head(1, 200, 1, 1, 0)


def test_empty_and_large_values_come_back_as_they_were(store: Store) -> None:
    large = bytes(range(256)) * 8192
    write(store, batch(ops=[(J, b"empty", b""), (J, b"large", large)]))

    assert (read(store, J, b"empty"), read(store, J, b"large")) == (b"", large)


def test_the_head_need_not_move(store: Store) -> None:
    write(store, batch())
    [answer] = write(store, batch(at=(1, 1), to=(1, 1), ops=[(J, b"a", None)]))

    assert answer.kind == "committed"
    assert head(store, 1) == Head(1, 1, 1, 1, 0)


def test_the_number_of_a_thread_may_use_all_its_bits(store: Store) -> None:
    [answer] = write(store, batch(number=2**64 - 1, by=(2**32 - 1, 2**64 - 1), to=(2**32 - 1, 2**64 - 1)))

    assert answer.kind == "committed"
    assert head(store, 2**64 - 1) == Head(2**32 - 1, 2**64 - 1, 2**32 - 1, 2**64 - 1, 0)


# --- judging


@pytest.mark.parametrize("at", [(0, 0), (1, 1), (1, 3), (2, 2)])
def test_another_head_than_expected_is_a_conflict_and_writes_nothing(store: Store, at: tuple[int, int]) -> None:
    write(store, batch(to=(1, 2)))

    [answer] = write(store, batch(at=at, ops=[(J, b"a", b"1")], change=b"c"))

    refusal = error(answer)
    assert isinstance(refusal, AppendConflict)
    assert refusal.details == {"number": 1, "expected": f"{at[0]}:{at[1]}", "actual": "1:2"}
    assert (contents(store, J), contents(store, Table.CHANGES)) == ({}, {})
    assert head(store, 1) == Head(1, 2, 1, 1, 0)


def test_a_batch_for_a_thread_that_is_not_there_is_a_conflict(store: Store) -> None:
    [answer] = write(store, batch(at=(1, 1)))

    refusal = error(answer)
    assert isinstance(refusal, AppendConflict)
    assert refusal.details["actual"] == "0:0"
    assert contents(store, Table.THREADS) == {}


def test_one_conflict_among_many_refuses_only_itself(store: Store) -> None:
    answers = write(
        store, *[batch(number=n, at=(1, 1) if n == 5 else (0, 0), ops=[(J, key(n), b"")]) for n in range(9)]
    )

    assert [n for n, answer in enumerate(answers) if answer.kind != "committed"] == [5]
    assert sorted(contents(store, J)) == [key(n) for n in range(9) if n != 5]


@pytest.mark.parametrize(
    ("by", "kind"),
    [
        ((1, 9), "not_written"),
        ((2, 4), "not_written"),
        ((2, 5), "committed"),
        ((2, 6), "committed"),
        ((3, 1), "committed"),
    ],
)
def test_only_an_incarnation_as_high_as_the_stored_one_may_write(store: Store, by: tuple[int, int], kind: str) -> None:
    write(store, batch(by=(2, 5)))

    [answer] = write(store, batch(at=(1, 1), by=by))

    assert answer.kind == kind
    if kind == "committed":
        assert head(store, 1) == Head(1, 2, *by, 0)
    else:
        refusal = error(answer)
        assert isinstance(refusal, AppendConflict)
        assert refusal.details["newest"] == "2:5"


def test_a_barrier_shuts_out_lower_incarnations_that_come_later_and_no_others(store: Store) -> None:
    answers = Answers()
    store.commit(batch(1, by=(1, 1), confirm=answers.confirm("older")))
    store.barrier(1, 1, 2, answers.confirm("barrier"))
    store.commit(batch(1, at=(1, 1), by=(1, 1), confirm=answers.confirm("late")))
    store.commit(batch(2, by=(1, 1), confirm=answers.confirm("other thread")))
    store.commit(batch(1, at=(1, 1), by=(1, 2), confirm=answers.confirm("equal")))
    store.commit(batch(1, at=(1, 2), by=(1, 3), confirm=answers.confirm("higher")))
    answers.wait(6)

    assert [(name, answer.kind) for name, answer in answers.all] == [
        ("older", "committed"),
        ("barrier", "committed"),
        ("late", "not_written"),
        ("other thread", "committed"),
        ("equal", "committed"),
        ("higher", "committed"),
    ]
    assert isinstance(error(answers.all[2][1]), AppendConflict)


def test_a_lower_barrier_does_not_lift_a_higher_one(store: Store) -> None:
    barrier(store, 1, (1, 5))
    barrier(store, 1, (1, 2))

    [answer] = write(store, batch(by=(1, 4)))

    assert isinstance(error(answer), AppendConflict)


def test_a_key_that_must_be_free_and_is_taken_is_a_conflict(store: Store) -> None:
    taken, free = (Table.NAMES, b"name"), (Table.NAMES, b"other")
    first, second, third = write(
        store,
        batch(1, absent=taken, ops=[(*taken, b"1")]),
        batch(2, absent=taken, ops=[(*taken, b"2")]),
        batch(3, absent=free, ops=[(*free, b"3")]),
    )

    assert (first.kind, third.kind) == ("committed", "committed")
    refusal = error(second)
    assert isinstance(refusal, AppendConflict)
    assert (refusal.details["table"], refusal.details["key"]) == ("names", b"name".hex())
    assert contents(store, Table.NAMES) == {b"name": b"1", b"other": b"3"}
    assert head(store, 2) is None


@pytest.mark.parametrize(
    ("bad", "value"),
    [(b"", b"x"), (b"", None), (b"k" * (KEY_BYTES_MAX + 1), b"x"), ("text", b"x"), ("text", None), (b"key", "text")],
)
def test_a_batch_that_cannot_be_written_hurts_only_itself(store: Store, bad: bytes, value: bytes | None) -> None:
    guilty = batch(2, ops=[(J, b"half", b"done"), (J, bad, value)], change=b"c")
    before, refused, after, longest = write(
        store,
        batch(1, ops=[(J, b"before", b"1")], change=b"a"),
        guilty,
        batch(3, ops=[(J, b"after", b"1")], change=b"b"),
        batch(4, ops=[(J, b"k" * KEY_BYTES_MAX, b"1")]),
    )

    assert (before.kind, after.kind, longest.kind) == ("committed", "committed", "committed")
    assert (before.change, after.change) == (1, 2)
    assert isinstance(error(refused), InternalError)
    assert sorted(contents(store, J)) == [b"after", b"before", b"k" * KEY_BYTES_MAX]
    assert head(store, 2) is None
    assert store.failure() is None


def test_a_row_without_a_head_is_reported_by_name(store: Store) -> None:
    write(store, batch(1, ops=[(Table.THREADS, thread_key(2), b"short")]))

    [answer, other] = write(store, batch(2), batch(1, at=(1, 1)))

    refusal = error(answer)
    assert isinstance(refusal, CorruptRecord)
    assert refusal.details == {"table": "threads", "key": thread_key(2).hex()}
    assert other.kind == "committed"


# --- changes


def test_each_announced_commit_takes_the_next_number_and_a_thread_keeps_one_row(store: Store) -> None:
    answers = write(
        store,
        batch(1, change=b"one"),
        batch(2, change=b"two"),
        batch(1, at=(1, 1)),
        batch(1, at=(1, 2), change=b"three"),
        batch(3),
    )

    assert [answer.change for answer in answers] == [1, 2, 0, 3, 0]
    assert contents(store, Table.CHANGES) == {key(2): key(2) + b"two", key(3): key(1) + b"three"}
    assert [head(store, n) for n in (1, 2, 3)] == [
        Head(1, 3, 1, 1, 3),
        Head(1, 1, 1, 1, 2),
        Head(1, 1, 1, 1, 0),
    ]


def test_a_commit_that_announces_nothing_keeps_the_row_of_its_thread(store: Store) -> None:
    write(store, batch(change=b"one"), batch(at=(1, 1)))

    assert contents(store, Table.CHANGES) == {key(1): key(1) + b"one"}
    assert head(store, 1) == Head(1, 2, 1, 1, 1)


def test_a_refused_batch_burns_no_number(store: Store) -> None:
    answers = write(store, batch(1, change=b"a"), batch(1, change=b"b"), batch(2, change=b"c"))

    assert [answer.change for answer in answers] == [1, 0, 2]


def test_numbers_go_on_after_a_restart(store: Store) -> None:
    write(store, batch(1, change=b"a"), batch(2, change=b"b"))
    store.close()
    store.open()

    [answer] = write(store, batch(1, at=(1, 1), change=b"c"))

    assert answer.change == 3
    assert sorted(contents(store, Table.CHANGES)) == [key(2), key(3)]


# --- reading


@pytest.fixture
def filled(store: Store) -> Store:
    write(store, batch(ops=[(J, bytes([n]), bytes([n, n])) for n in range(10, 20)]))
    return store


@pytest.mark.parametrize(
    ("low", "high", "options", "expected"),
    [
        (b"", None, {}, range(10, 20)),
        (b"\x0c", b"\x0f", {}, [12, 13, 14]),
        (b"\x0c", b"\x0e\x00", {}, [12, 13, 14]),
        (b"\x0b\x01", b"\x0f", {}, [12, 13, 14]),
        (b"", b"\x0c", {}, [10, 11]),
        (b"\x12", None, {}, [18, 19]),
        (b"\x20", None, {}, []),
        (b"", b"\x05", {}, []),
        (b"", b"", {}, []),
        (b"\x0f", b"\x0c", {}, []),
        (b"\x0c", b"\x0c", {}, []),
        (b"", None, {"limit": 3}, [10, 11, 12]),
        (b"", None, {"limit": 0}, []),
        (b"", None, {"skip": 8}, [18, 19]),
        (b"", None, {"skip": 10}, []),
        (b"", None, {"skip": 99}, []),
        (b"\x0c", b"\x0f", {"skip": 1, "limit": 1}, [13]),
        (b"\x0c", b"\x0f", {"skip": 3}, []),
        (b"", None, {"reverse": True}, range(19, 9, -1)),
        (b"\x0c", b"\x0f", {"reverse": True}, [14, 13, 12]),
        (b"\x0c", b"\x0e\x00", {"reverse": True}, [14, 13, 12]),
        (b"\x12", b"\xff", {"reverse": True}, [19, 18]),
        (b"", b"\x0a", {"reverse": True}, []),
        (b"", b"", {"reverse": True}, []),
        (b"\x0f", b"\x0c", {"reverse": True}, []),
        (b"", None, {"reverse": True, "limit": 2}, [19, 18]),
        (b"", None, {"reverse": True, "limit": 0}, []),
        (b"", None, {"reverse": True, "skip": 8}, [11, 10]),
        (b"", None, {"reverse": True, "skip": 99}, []),
        (b"\x0c", b"\x0f", {"reverse": True, "skip": 1, "limit": 1}, [13]),
        (b"\x0c", b"\x0f", {"reverse": True, "skip": 3}, []),
    ],
)
def test_a_scan_gives_the_rows_between_its_bounds(
    filled: Store, low: bytes, high: bytes | None, options: dict[str, int], expected: list[int]
) -> None:
    with filled.view() as view:
        rows = view.scan(J, low, high, **options)  # type: ignore[arg-type]

    assert rows == [(bytes([n]), bytes([n, n])) for n in expected]


def test_a_scan_of_an_empty_table_is_empty(store: Store) -> None:
    with store.view() as view:
        assert view.scan(J, b"", None) == view.scan(J, b"", None, reverse=True) == view.scan(J, b"a", b"b") == []


@pytest.mark.parametrize("impossible", [b"", b"k" * 2000])
def test_a_key_that_no_row_can_have_is_simply_not_there(filled: Store, impossible: bytes) -> None:
    assert read(filled, J, impossible) is None


def test_a_view_sees_nothing_of_what_is_committed_while_it_is_open(store: Store) -> None:
    write(store, batch(1, ops=[(J, b"a", b"1"), (J, b"b", b"1")]))
    with store.view() as view:
        before = view.scan(J, b"", None)
        write(store, batch(1, at=(1, 1), ops=[(J, b"a", b"2"), (J, b"b", None), (J, b"c", b"2")]))

        assert view.scan(J, b"", None) == before == [(b"a", b"1"), (b"b", b"1")]
        assert (view.get(J, b"a"), view.get(J, b"c")) == (b"1", None)
        with store.view() as newer:
            assert newer.scan(J, b"", None) == [(b"a", b"2"), (b"c", b"2")]
        assert view.get(J, b"b") == b"1"


def test_a_view_sees_whole_batches_only(store: Store) -> None:
    torn: list[object] = []
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            with store.view() as view:
                if view.get(J, b"one") != view.get(M, b"two"):
                    torn.append(view.scan(J, b"", None))

    reader = threading.Thread(target=look)
    reader.start()
    for n in range(15):
        write(store, batch(at=(1, n) if n else (0, 0), ops=[(J, b"one", key(n)), (M, b"two", key(n))]))
    done.set()
    reader.join(PATIENCE_S)

    assert torn == []


# --- confirming


@pytest.mark.parametrize("raised", [ValueError, SystemExit, KeyboardInterrupt, GeneratorExit])
def test_a_confirm_that_raises_is_logged_and_hurts_nobody(
    store: Store, raised: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[Answer] = []

    def broken(answer: Answer) -> None:
        calls.append(answer)
        raise raised("on purpose")

    with caplog.at_level(logging.CRITICAL, "treadle.storage"):
        store.commit(batch(1, confirm=broken))
        store.barrier(1, 0, 0, broken)
        [after] = write(store, batch(2))

    assert after.kind == "committed"
    assert [answer.kind for answer in calls] == ["committed", "committed"]
    assert head(store, 1) is not None


def test_answers_come_in_the_order_of_the_batches(store: Store) -> None:
    answers = Answers()
    for n in range(500):
        store.commit(batch(n, at=(0, 0) if n % 3 else (1, 1), confirm=answers.confirm(n)))
    answers.wait(500)

    assert [name for name, _ in answers.all] == list(range(500))


def test_a_confirm_may_hand_over_the_next_batch(store: Store) -> None:
    done = threading.Event()

    def go_on(at: int) -> None:
        def confirm(answer: Answer) -> None:
            assert answer.kind == "committed"
            if at == 20:
                done.set()
            else:
                go_on(at + 1)

        store.commit(batch(at=(1, at) if at else (0, 0), confirm=confirm))

    go_on(0)

    assert done.wait(PATIENCE_S)
    assert head(store, 1) == Head(1, 21, 1, 1, 0)


def test_nothing_is_left_unanswered_once_the_last_answer_came(store: Store) -> None:
    seen: list[int] = []
    write(store, batch(1), batch(2))
    answers = Answers()

    def confirm(answer: Answer) -> None:
        seen.append(store.backlog())
        answers.confirm("last")(answer)

    store.commit(batch(3, confirm=confirm))
    answers.wait(1)

    assert seen == [0]


def test_many_workers_write_at_once_and_each_gets_its_own_answers(store: Store) -> None:
    workers, rounds = 16, 25
    answers = [Answers() for _ in range(workers)]
    start = threading.Barrier(workers)

    def work(number: int) -> None:
        start.wait()
        for n in range(rounds):
            store.commit(
                batch(number, at=(1, n) if n else (0, 0), change=b"", confirm=answers[number].confirm((number, n)))
            )

    crew = [threading.Thread(target=work, args=(n,)) for n in range(workers)]
    for worker in crew:
        worker.start()
    for worker in crew:
        worker.join(PATIENCE_S)
    for n in range(workers):
        answers[n].wait(rounds)

    assert [[name for name, _ in a.all] for a in answers] == [[(w, n) for n in range(rounds)] for w in range(workers)]
    assert {answer.kind for a in answers for _, answer in a.all} == {"committed"}
    numbers = sorted(answer.change for a in answers for _, answer in a.all)
    assert numbers == list(range(1, workers * rounds + 1))
    assert len(contents(store, Table.CHANGES)) == workers


# --- opening and closing


def test_before_it_is_opened_a_store_refuses_everything(closed: Store) -> None:
    refused = [*write(closed, batch()), barrier(closed, 1, (1, 1))]

    assert all(isinstance(error(answer), StoreClosed) for answer in refused)
    assert isinstance(closed.failure(), StoreClosed)
    assert closed.backlog() == 0
    with pytest.raises(StoreClosed), closed.view():
        pass


def test_after_it_is_closed_a_store_refuses_everything_on_the_spot(store: Store) -> None:
    write(store, batch(1))
    store.close()
    workers: list[threading.Thread] = []

    store.commit(batch(2, confirm=lambda answer: workers.append(threading.current_thread())))
    refused = [*write(store, batch()), barrier(store, 1, (1, 1))]

    assert workers == [threading.current_thread()]
    assert all(isinstance(error(answer), StoreClosed) for answer in refused)
    assert isinstance(store.failure(), StoreClosed)
    assert store.backlog() == 0
    with pytest.raises(StoreClosed), store.view():
        pass


def test_close_writes_and_answers_everything_it_holds(store: Store) -> None:
    answers = Answers()
    for n in range(300):
        store.commit(batch(n, ops=[(J, key(n), b"")], confirm=answers.confirm(n)))
    store.barrier(1, 1, 1, answers.confirm("barrier"))

    store.close()

    assert answers.kinds() == ["committed"] * 301
    store.open()
    assert len(contents(store, J)) == 300


def test_close_is_idempotent_and_may_be_called_by_several_workers(store: Store) -> None:
    answers = Answers()
    store.commit(batch(confirm=answers.confirm(0)))
    crew = [threading.Thread(target=store.close) for _ in range(8)]
    for worker in crew:
        worker.start()
    for worker in crew:
        worker.join(PATIENCE_S)
    store.close()

    assert answers.kinds() == ["committed"]


def test_every_batch_that_races_with_close_is_answered(closed: Store) -> None:
    for _ in range(10):
        closed.open()
        answers = Answers()
        start = threading.Barrier(5)

        def work(name: int, start: threading.Barrier = start, answers: Answers = answers) -> None:
            start.wait()
            for n in range(20):
                closed.commit(batch(name, at=(9, 9), confirm=answers.confirm((name, n))))

        crew = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for worker in crew:
            worker.start()
        start.wait()
        closed.close()
        for worker in crew:
            worker.join(PATIENCE_S)

        assert sorted(map(str, (name for name, _ in answers.all))) == sorted(
            str((name, n)) for name in range(4) for n in range(20)
        )


def test_a_store_cannot_be_closed_from_a_confirm(store: Store) -> None:
    caught: list[BaseException] = []
    answers = Answers()

    def confirm(answer: Answer) -> None:
        try:
            store.close()
        except InternalError as refusal:
            caught.append(refusal)
        answers.confirm("closing")(answer)

    store.commit(batch(confirm=confirm))
    answers.wait(1)

    assert len(caught) == 1
    assert store.failure() is None


def test_each_open_is_a_new_boot_and_keeps_the_contents(closed: Store) -> None:
    boots = []
    for n in range(3):
        boots.append(closed.open())
        write(closed, batch(n, ops=[(J, key(n), b"kept")]))
        closed.close()

    assert [boot.number for boot in boots] == [1, 2, 3]
    assert len({boot.id for boot in boots}) == 3
    assert all(len(bytes.fromhex(boot.id)) == 16 for boot in boots)
    last = closed.open()
    assert len(contents(closed, J)) == 3
    with closed.view() as view:
        assert [boot_id_of(view, boot.number) for boot in boots] == [boot.id for boot in boots]
        assert unpack_boot(view.get(Table.META, BOOT_KEY)) == last
        assert boot_id_of(view, 5) == NO_BOOT_ID


def test_barriers_end_with_the_boot(store: Store) -> None:
    barrier(store, 1, (9, 9))
    store.close()
    store.open()

    [answer] = write(store, batch(by=(2, 1)))

    assert answer.kind == "committed"


def test_an_open_store_cannot_be_opened_again(store: Store) -> None:
    with pytest.raises(StoreInUse):
        store.open()

    assert write(store, batch())[0].kind == "committed"


def test_refusals_do_not_share_one_exception(store: Store) -> None:
    store.close()

    first, second = write(store, batch(1), batch(2))

    assert error(first) is not error(second)
    assert store.failure() is not store.failure()
