"""Owns the proof of treadle.storage.lmdb_engine: one sync a group, growth, full and broken disks, unknown outcomes.

Broken disks are real: the descriptors that LMDB writes through are replaced by ones that cannot be written.
"""

from __future__ import annotations

import contextlib
import errno
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lmdb
import pytest
from lmdb.verify import verify

from treadle.protocol.errors import AppendConflict, InternalError, StorageFull, StoreFailed
from treadle.storage import lmdb_engine, points
from treadle.storage.batch import Answer, Batch
from treadle.storage.environment import Environment, open_environment
from treadle.storage.head import Head, judge, thread_key
from treadle.storage.lmdb_store import LmdbStore
from treadle.storage.memory_store import MemoryStore
from treadle.storage.store import Boot
from treadle.storage.tables import Table

from .driving import PATIENCE_S, Answers, barrier, batch, contents, head, key, read, run, write

if TYPE_CHECKING:
    from collections.abc import Iterator


J = Table.JOURNAL


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LmdbStore]:
    store = LmdbStore(tmp_path / "store")
    store.open()
    yield store
    points.disarm()
    store.close()


def environment(store: LmdbStore) -> Environment:
    assert store._environment is not None
    return store._environment


def transactions(store: LmdbStore) -> int:
    return environment(store).env.info()["last_txnid"]


def hold(store: LmdbStore) -> threading.Event:
    """Keep the writer busy until the event is set, so that what follows is one group."""
    busy, go_on = threading.Event(), threading.Event()

    def confirm(_: object) -> None:
        busy.set()
        assert go_on.wait(PATIENCE_S)

    store.barrier(2**64 - 1, 0, 0, confirm)
    assert busy.wait(PATIENCE_S)
    return go_on


# --- groups


def test_a_group_of_many_batches_is_one_transaction_and_so_one_sync(store: LmdbStore) -> None:
    answers = Answers()
    before = transactions(store)
    go_on = hold(store)
    for n in range(100):
        store.commit(batch(n, ops=[(J, key(n), b"")], change=b"c", confirm=answers.confirm(n)))
    go_on.set()
    answers.wait(100)

    assert transactions(store) == before + 1
    assert [answer.change for _, answer in answers.all] == list(range(1, 101))


def test_a_group_in_which_everything_is_refused_writes_nothing(store: LmdbStore) -> None:
    before = transactions(store)

    write(store, batch(1, at=(1, 1)), batch(2, at=(1, 1)))

    assert transactions(store) == before


def test_a_group_is_redone_batch_by_batch_and_burns_no_change_number(store: LmdbStore, quiet: None) -> None:
    answers = Answers()
    before = transactions(store)
    go_on = hold(store)
    for n in range(10):
        ops = [(J, key(n), b""), (J, b"" if n == 6 else b"k", b"v")]
        store.commit(batch(n, ops=ops, change=key(n), confirm=answers.confirm(n)))
    go_on.set()
    answers.wait(10)

    assert [name for name, answer in answers.all if answer.kind == "committed"] == [0, 1, 2, 3, 4, 5, 7, 8, 9]
    assert isinstance(answers.all[6][1].error, InternalError)
    assert [answer.change for _, answer in answers.all] == [1, 2, 3, 4, 5, 6, 0, 7, 8, 9]
    assert sorted(contents(store, Table.CHANGES)) == [key(n) for n in range(1, 10)]
    assert transactions(store) == before + 9


@pytest.mark.slow
def test_a_group_is_dropped_beside_readers_that_never_stop(store: LmdbStore, quiet: None) -> None:
    stop = threading.Event()
    write(store, batch(1, ops=[(J, key(n), key(n) * 20) for n in range(200)]))

    def look() -> None:
        while not stop.is_set():
            with store.view() as view:
                view.scan(J, b"", None)

    readers = [threading.Thread(target=look) for _ in range(4)]
    for reader in readers:
        reader.start()
    try:
        for number in range(2, 22):
            # A key that LMDB refuses once the transaction is under way.
            [answer] = write(store, batch(number, ops=[(J, b"x" * 600, b"v")]))
            assert isinstance(answer.error, InternalError)
    finally:
        stop.set()
        for reader in readers:
            reader.join()
    assert head(store, 1) is not None
    assert head(store, 2) is None


def test_a_chain_within_a_redone_group_keeps_its_order(store: LmdbStore, quiet: None) -> None:
    answers = Answers()
    go_on = hold(store)
    store.commit(batch(1, confirm=answers.confirm("first")))
    store.commit(batch(1, at=(1, 1), ops=[(J, b"", b"bad")], confirm=answers.confirm("bad")))
    store.commit(batch(1, at=(1, 2), confirm=answers.confirm("after bad")))
    store.commit(batch(1, at=(1, 1), ops=[(J, b"a", b"1")], confirm=answers.confirm("instead")))
    go_on.set()
    answers.wait(4)

    # The third expected what the guilty one would have made, and it is a conflict without it.
    assert answers.kinds() == ["committed", "not_written", "not_written", "committed"]
    assert head(store, 1) == (1, 2, 1, 1, 0)


def test_heads_that_are_kept_judge_as_the_rows_in_the_store_do(tmp_path: Path) -> None:
    store, luck, judged = LmdbStore(tmp_path / "quick", durability="process"), random.Random(7), []
    store.open()
    with contextlib.closing(store):
        assert store._writer is not None
        for n in range(400):
            number = luck.randint(1, 3)
            now, newest = head(store, number) or Head(0, 0, 0, 0, 0), 2 + n // 50
            at = now[:2] if luck.random() < 0.8 else (luck.randint(0, 2), luck.randint(0, 2))
            by = now[2:4] if luck.random() < 0.7 else (luck.randint(1, newest), luck.randint(1, newest))
            if n > 200 and luck.random() < 0.2:
                assert barrier(store, number, (now.boot, now.life + luck.randint(0, 1))).kind == "committed"
            one = batch(number, at=at, by=by, change=luck.choice([None, b"c"]))
            row = read(store, Table.THREADS, thread_key(number))
            try:
                change, fits = judge(one, row, thread_key(number), store._writer._barriers), True
            except AppendConflict:
                fits = False

            [answer] = write(store, one)

            assert (answer.kind == "committed") == fits
            judged.append(fits)
            if fits:
                assert head(store, number) == (max(1, at[0]), at[1] + 1, *by, answer.change or change)
        assert len(contents(store, Table.CHANGES)) == 3
    assert 100 < sum(judged) < 300


class FailingEnvironment:
    """An environment whose commits fail as they are told, before they take effect or after."""

    def __init__(self, env: lmdb.Environment) -> None:
        self.env = env
        self.plan: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.env, name)

    def begin(self, *, write: bool = False) -> Any:
        txn = self.env.begin(write=write)
        return FailingTransaction(txn, self) if write else txn


class FailingTransaction:
    def __init__(self, txn: lmdb.Transaction[bytes], env: FailingEnvironment) -> None:
        self._txn = txn
        self._env = env

    def __getattr__(self, name: str) -> Any:
        return getattr(self._txn, name)

    def commit(self) -> None:
        fails = self._env.plan.pop() if self._env.plan else ""
        if fails == "full":
            raise OSError(errno.ENOSPC, "on purpose")
        if fails == "grow":
            raise lmdb.MapFullError("on purpose")
        number = self._txn.id()
        self._txn.commit()
        if fails == "late" and self._env.env.info()["last_txnid"] >= number:  # one that writes nothing takes no effect
            raise OSError("on purpose, after the commit")


def some_group(luck: random.Random, heads: dict[int, tuple[tuple[int, int], tuple[int, int]]]) -> list[Batch]:
    """Return batches of few threads and keys: chains, refusals, deletes and puts of one key, threads that are gone."""
    group, heads = [], dict(heads)
    for _ in range(luck.choice([1, 1, 2, 3, 9])):
        number = luck.randint(1, 5)
        at, by = heads.get(number, ((0, 0), (1, 1)))
        if luck.random() < 0.1:
            at = (luck.randint(0, 2), luck.randint(0, 3))
        if luck.random() < 0.2:
            by = luck.choice([(by[0], by[1] + 1), (luck.randint(1, 2), luck.randint(1, 6))])
        taken, tables = bytes([luck.randint(1, 5)]) + luck.choice([b"", b"a"]), (J, Table.MESSAGES, Table.NAMES)
        one = batch(
            number, at, by=by, to=(max(1, at[0]), at[1] + luck.choice([0, 1, 2])), change=luck.choice([None, b"c"]),
            record=luck.choice([b"", b"r" * luck.randint(1, 900)]),
            absent=(luck.choice(tables), taken) if luck.random() < 0.2 else None,
            ops=[
                (luck.choice(tables), bytes([number]) + luck.choice([b"", b"a", b"b"]), luck.choice([None, b"", b"v" * 3_000]))
                for _ in range(luck.randint(0, 5))
            ],
        )  # fmt: skip
        if luck.random() < 0.03:
            one.ops.append((J, luck.randbytes(512), b"no key is as long"))
        heads[number] = (one.head_generation, one.head_sequence), by
        group.append(one)
    return group


@pytest.mark.parametrize("seed", range(6))
def test_whatever_commits_fail_the_groups_come_out_as_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quiet: None, seed: int
) -> None:
    monkeypatch.setattr(lmdb_engine, "_HEADS_KEPT_MAX", 3)
    monkeypatch.setattr(lmdb_engine, "_FEW", 4)
    luck, barriers = random.Random(seed), dict[int, tuple[int, int]]()
    place = open_environment(tmp_path, sync=False, map_size=1 << 16, readers=2, read_only=False)
    failing = FailingEnvironment(place.env)
    place.env = failing  # type: ignore[assignment]
    engine, memory = lmdb_engine.LmdbEngine(place, Boot(1, "ab" * 16)), MemoryStore()
    heads: dict[int, tuple[tuple[int, int], tuple[int, int]]] = {}
    kinds: Counter[str] = Counter()
    for _ in range(80):
        group, answers, expected = some_group(luck, heads), list[Answer](), list[Answer]()
        if luck.random() < 0.08:
            barriers = luck.choice([{}, {**barriers, luck.randint(1, 5): (luck.randint(1, 2), luck.randint(1, 6))}])
        if luck.random() < 0.4:
            failing.plan = [luck.choice(["", "", "full", "grow", "late"]) for _ in range(9)]
        assert engine.write(group, barriers, answers) is None
        # What had no room is as if it had never come.
        written = [
            (one, answer)
            for one, answer in zip(group, answers, strict=True)
            if not isinstance(answer.error, StorageFull)
        ]
        assert memory.write([one for one, _ in written], barriers, expected) is None
        for (one, answer), other in zip(written, expected, strict=True):
            assert (answer.kind, answer.change, type(answer.error)) == (other.kind, other.change, type(other.error))
            if answer.kind == "committed":
                heads[one.number] = (one.head_generation, one.head_sequence), (one.boot, one.life)
        kinds.update(answer.kind for answer in answers)
    failing.plan = []
    assert engine.tidy() is None
    assert engine.is_tidy()
    with failing.env.begin() as txn:
        for table in Table:
            if table is not Table.META:
                assert dict(txn.cursor(place.tables[table])) == memory._now.tables[table].values, table
    place.env = failing.env
    place.close()
    assert min(kinds["committed"], kinds["not_written"]) > 30


def test_an_op_of_a_batch_undoes_those_before_it_under_the_same_key(store: LmdbStore) -> None:
    write(store, batch(1, ops=[(J, b"old", b"1"), (J, b"gone", b"1")]))
    back = [(J, b"old", None), (J, b"old", b"2"), (J, b"new", b"1"), (J, b"new", None), (J, b"gone", None)]

    write(store, batch(1, at=(1, 1), ops=[*back, (J, b"last", None), (J, b"last", b""), (J, b"never", None)]))

    assert contents(store, J) == {b"old": b"2", b"last": b""}


# --- growth


@pytest.fixture
def _impatient_workers() -> Iterator[None]:
    # py-lmdb lets go of the interpreter at every put. Beside workers that compute, each then costs a switch interval.
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.0002)
    yield
    sys.setswitchinterval(before)


@pytest.mark.slow
@pytest.mark.usefixtures("_impatient_workers")
def test_a_small_map_grows_under_load_and_no_read_fails(tmp_path: Path) -> None:
    """Scenario 29: a 1 MiB map, 64 writers, 4 readers in a loop."""
    writers, rounds = 64, 20
    store = LmdbStore(tmp_path / "store", map_size=1 << 20, durability="process")
    store.open()
    assert environment(store).env.info()["map_size"] == 1 << 20
    errors: list[BaseException] = []
    answers = Answers()
    stop = threading.Event()

    def chain(number: int, n: int) -> None:
        def confirm(answer: Any) -> None:
            answers.confirm((number, n))(answer)
            if n + 1 < rounds:
                chain(number, n + 1)

        ops = [(J, key(number) + key(n), bytes(12_000)), (Table.VALUES, key(number), key(n))]
        store.commit(batch(number, at=(1, n) if n else (0, 0), ops=ops, change=b"c", confirm=confirm))

    def look() -> None:
        try:
            while not stop.is_set():
                with store.view() as view:
                    for number in random.sample(range(writers), 8):
                        rows = view.scan(J, key(number), key(number + 1))
                        last = view.get(Table.VALUES, key(number))
                        assert [name for name, _ in rows] == [key(number) + key(n) for n in range(len(rows))]
                        assert last == (key(len(rows) - 1) if rows else None)
                time.sleep(0)
        except BaseException as error:
            errors.append(error)

    crew = [threading.Thread(target=chain, args=(n, 0)) for n in range(writers)]
    readers = [threading.Thread(target=look) for _ in range(4)]
    for worker in readers + crew:
        worker.start()
    answers.wait(writers * rounds)
    stop.set()
    for worker in readers + crew:
        worker.join(PATIENCE_S)

    assert errors == []
    assert {answer.kind for _, answer in answers.all} == {"committed"}
    assert len(contents(store, J)) == writers * rounds
    assert environment(store).env.info()["map_size"] >= 4 << 20
    numbers = sorted(answer.change for _, answer in answers.all)
    assert numbers == list(range(1, writers * rounds + 1))
    store.close()
    assert sound(store.path)


def sound(path: Path) -> bool:
    """Return whether LMDB's own verifier finds nothing to complain about."""
    problems: list[str] = verify(str(path))  # type: ignore[no-untyped-call]
    print(problems)
    return not problems


def test_a_batch_larger_than_the_whole_map_grows_it_until_it_fits(tmp_path: Path) -> None:
    store = LmdbStore(tmp_path / "store", map_size=1 << 20)
    store.open()

    [answer] = write(store, batch(ops=[(J, b"large", bytes(9 << 20))]))

    assert answer.kind == "committed"
    assert len(read(store, J, b"large") or b"") == 9 << 20
    store.close()


# --- a full disk

FULL = """
import os, resource, sys, threading
from treadle.storage.batch import Batch
from treadle.storage.lmdb_store import LmdbStore

path, how = sys.argv[1], sys.argv[2]
store = LmdbStore(path)
boot = store.open()
at = {}

def commit(numbers, value, drop=0):
    got, came = [], threading.Semaphore(0)
    for number in numbers:
        sequence = at.get(number, 0)
        ops = [(3, number.to_bytes(8, "big") + sequence.to_bytes(8, "big"), value)] if value else []
        ops += [(3, number.to_bytes(8, "big") + n.to_bytes(8, "big"), None) for n in range(drop)]
        def confirm(answer, number=number, sequence=sequence):
            got.append((number, answer))
            if answer.kind == "committed":
                at[number] = sequence + 1
            came.release()
        store.commit(Batch(number=number, generation=1 if sequence else 0, sequence=sequence, boot=boot.number, life=1,
                           head_generation=1, head_sequence=sequence + 1, record=b"r", ops=ops, size=1,
                           change=b"c", confirm=confirm))
    for _ in numbers:
        came.acquire()
    return got

def rows():
    with store.view() as view:
        return {k: len(v) for k, v in view.scan(3, b"", None)}

assert all(a.kind == "committed" for _, a in commit(range(8), b"x" * 1000))
if how == "limit":
    size = os.path.getsize(path + "/data.mdb")
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 300_000, resource.RLIM_INFINITY))

# Fill it, eight threads at a time.
refused = []
while not refused:
    refused = [a for _, a in commit(range(8), b"x" * 20_000) if a.kind != "committed"]
for _ in range(40):
    last = commit(range(8), b"x" * 20_000)
assert all(a.kind == "not_written" and a.error.code == "storage_full" for _, a in last), last
assert store.failure() is None, store.failure()
kept = rows()
assert len(kept) == sum(at.values()), (len(kept), at)
print("full", flush=True)

# It opens all the same, and everything acknowledged can be read.
store.close()
boot = store.open()
assert boot.number == 2
assert rows() == kept
print("open", flush=True)

# What goes on needs room, which the limit or the deletion of a foreign file gives back.
if how == "limit":
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
else:
    os.unlink(path + "/../ballast")
assert all(a.kind == "committed" for _, a in commit(range(8), b"x" * 20_000))
changes = [a.change for _, a in commit(range(8), b"y")]
assert sorted(changes) == list(range(min(changes), min(changes) + 8))
with store.view() as view:
    numbers = [int.from_bytes(k, "big") for k, _ in view.scan(11, b"", None)]
assert numbers == sorted(changes), numbers
store.close()
assert store.open().number == 3
store.close()
print("free", flush=True)
"""


@pytest.mark.slow
def test_a_full_disk_refuses_before_anything_is_acknowledged_and_all_works_again_after(tmp_path: Path) -> None:
    """Scenario 30, everywhere: a process that may not let its file grow."""
    done = run(FULL, tmp_path / "store", "limit")

    assert done.stdout.split() == ["full", "open", "free"]
    assert sound(tmp_path / "store")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = shutil.which("mount")
    if (
        mount is None
        or subprocess.run(
            [mount, "-t", "tmpfs", "-o", "size=4m", "tmpfs", disk], check=False, capture_output=True
        ).returncode
    ):
        pytest.skip("mounting is not allowed here")
    yield disk
    subprocess.run(["umount", disk], check=True)


@pytest.mark.slow
def test_a_full_file_system_is_treated_like_that_too(small_disk: Path) -> None:
    """Scenario 30, where mounting is allowed: a tmpfs of 4 MB."""
    (small_disk / "ballast").write_bytes(bytes(1 << 20))

    done = run(FULL, small_disk / "store", "mount")

    assert done.stdout.split() == ["full", "open", "free"]
    assert sound(small_disk / "store")


@pytest.mark.slow
def test_a_store_is_made_wherever_there_is_room_for_one_and_refused_by_name_elsewhere(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    outcomes = []
    for pages in range(40):
        ballast.write_bytes(bytes((1023 - pages) * 4096))
        store = LmdbStore(small_disk / "store", max_readers=1)
        try:
            store.open()
        except StorageFull:
            outcomes.append("full")
        else:
            outcomes.append("open")
            assert read(store, J, b"a") is None
        store.close()
        ballast.unlink()
        # What the attempt left behind is no obstacle.
        assert store.open().number in {1, 2}
        store.close()
        shutil.rmtree(store.path)

    assert outcomes == sorted(outcomes)
    assert {*outcomes} == {"full", "open"}


# --- a broken disk


def break_descriptors(store: LmdbStore, which: slice) -> None:
    """Make some of LMDB's descriptors of the data file unwritable: the first is for pages, the last for the meta page."""
    data = str(store.path / "data.mdb")
    mine = sorted(int(link.name) for link in Path("/proc/self/fd").iterdir() if os.path.realpath(link) == data)
    mine.remove(store._owner._data)  # type: ignore[arg-type]  # the owner's lock, by which nobody writes
    assert len(mine) == 2, mine
    for descriptor in mine[which]:
        unwritable = os.open(data, os.O_RDONLY)
        os.dup2(unwritable, descriptor)
        os.close(unwritable)


def test_an_error_that_nobody_can_judge_ends_all_writing_until_the_store_is_reopened(
    store: LmdbStore, quiet: None
) -> None:
    write(store, batch(1, ops=[(J, b"kept", b"1")]))
    break_descriptors(store, slice(0, 1))
    answers = Answers()
    go_on = hold(store)
    for n in (2, 3):
        store.commit(batch(n, ops=[(J, key(n), b"1")], confirm=answers.confirm(n)))
    go_on.set()
    answers.wait(2)
    later = [*write(store, batch(4)), barrier(store, 1, (1, 1))]

    # The look at the heads after the failed commit says for certain that nothing was written.
    assert answers.kinds() == ["not_written"] * 2
    refused = [answer for _, answer in answers.all] + later
    assert all(isinstance(answer.error, StoreFailed) for answer in refused)
    assert isinstance(store.failure(), StoreFailed)
    assert read(store, J, b"kept") == b"1"

    store.close()
    assert store.open().number == 2
    assert contents(store, J) == {b"kept": b"1"}
    assert write(store, batch(2, by=(2, 1)))[0].kind == "committed"


def test_where_even_looking_fails_the_outcome_is_unknown(store: LmdbStore, quiet: None) -> None:
    write(store, batch(1, ops=[(J, b"kept", b"1")]))
    # LMDB then can write neither the new meta page nor the old one back, and trusts its map no longer.
    break_descriptors(store, slice(1, 2))

    [answer] = write(store, batch(2, ops=[(J, b"lost", b"1")]))
    [later] = write(store, batch(3))

    assert answer.kind == "unknown"
    assert isinstance(answer.error, StoreFailed)
    assert (later.kind, type(later.error)) == ("not_written", StoreFailed)
    with pytest.raises(StoreFailed), store.view():
        pass
    store.close()
    store.open()
    assert contents(store, J) == {b"kept": b"1"}


class RaisingTransaction:
    """A write transaction that commits for real and raises all the same; no disk can be made to do that."""

    def __init__(self, txn: lmdb.Transaction[bytes]) -> None:
        self._txn = txn

    def __getattr__(self, name: str) -> Any:
        return getattr(self._txn, name)

    def commit(self) -> None:
        self._txn.commit()
        raise OSError("on purpose, after the commit")


class RaisingEnvironment:
    def __init__(self, env: lmdb.Environment) -> None:
        self._env = env

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)

    def begin(self, *, write: bool = False) -> Any:
        txn = self._env.begin(write=write)
        return RaisingTransaction(txn) if write else txn


def test_a_commit_that_raised_and_took_effect_is_answered_committed(store: LmdbStore, quiet: None) -> None:
    real = environment(store).env
    environment(store).env = RaisingEnvironment(real)  # type: ignore[assignment]

    [answer] = write(store, batch(1, ops=[(J, b"a", b"1")], change=b"c"))

    environment(store).env = real
    assert answer == ("committed", 1, None)
    assert read(store, J, b"a") == b"1"
    assert write(store, batch(1, at=(1, 1), change=b"c"))[0].change == 2


@pytest.mark.parametrize("raised", [RuntimeError, MemoryError, SystemExit])
@pytest.mark.parametrize("point", [points.BEFORE_PUT, points.BEFORE_COMMIT])
def test_whatever_is_raised_before_the_commit_nothing_is_written_and_everything_is_answered(
    store: LmdbStore, quiet: None, point: str, raised: type[BaseException]
) -> None:
    def explode() -> None:
        raise raised("on purpose")

    answers = Answers()
    go_on = hold(store)
    for n in range(3):
        store.commit(batch(n, ops=[(J, key(n), b"")], confirm=answers.confirm(n)))
    points.arm(point, 1, explode)
    go_on.set()
    answers.wait(3)

    assert answers.kinds() == ["not_written"] * 3
    assert isinstance(store.failure(), StoreFailed)
    assert contents(store, J) == {}
    store.close()
    store.open()
    assert write(store, batch(1))[0].kind == "committed"


# --- the boot record


def test_a_boot_that_could_not_be_recorded_is_recorded_with_the_first_commit(
    store: LmdbStore, monkeypatch: pytest.MonkeyPatch, quiet: None
) -> None:
    store.close()

    def full() -> None:
        error = OSError(28, "No space left on device")
        raise error

    points.arm(points.BEFORE_COMMIT, 1, full)
    assert store.open().number == 2
    store.close()
    # Nothing was written under the number 2, so it is free.
    points.arm(points.BEFORE_COMMIT, 1, full)
    boot = store.open()
    assert boot.number == 2
    write(store, batch(1, by=(2, 1)))
    assert environment(store).last_boot() == boot
    store.close()

    assert store.open().number == 3


@pytest.mark.parametrize("fails", [False, True])
def test_dead_readers_are_looked_for_now_and_then_and_that_spoils_no_answer(
    store: LmdbStore, monkeypatch: pytest.MonkeyPatch, quiet: None, fails: bool
) -> None:
    looked: list[None] = []

    def look(self: Environment) -> int:
        looked.append(None)
        if fails:
            raise lmdb.Error("on purpose")
        return 0

    monkeypatch.setattr(lmdb_engine, "_READER_CHECK_EVERY", 2)
    monkeypatch.setattr(Environment, "clear_dead_readers", look)

    assert {write(store, batch(n))[0].kind for n in range(7)} == {"committed"}

    assert len(looked) >= 3
    assert store.failure() is None
