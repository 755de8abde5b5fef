"""Owns the proof of how groups wait in the log: seen by all as if in their tables, and put there sooner or later.

What a log is by itself is proved beside `write_log`.
"""

from __future__ import annotations

import errno
import random
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lmdb
import pytest

from treadle.protocol.errors import CorruptRecord, StorageFull, StoreFailed
from treadle.storage import lmdb_engine, points, write_log, writer
from treadle.storage.check import check
from treadle.storage.copying import backup, compact
from treadle.storage.head import thread_key
from treadle.storage.lmdb_store import LmdbStore
from treadle.storage.memory_store import MemoryStore
from treadle.storage.schema import BOOT_KEY
from treadle.storage.survey import survey_store
from treadle.storage.tables import Table

from .driving import PATIENCE_S, Process, barrier, batch, contents, head, key, read, run, write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from treadle.storage.lmdb_engine import LmdbEngine

J = Table.JOURNAL


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LmdbStore]:
    store = LmdbStore(tmp_path / "store", durability="process")
    store.open()
    yield store
    points.disarm()
    store.close()


@pytest.fixture(autouse=True)
def _no_idling(monkeypatch: pytest.MonkeyPatch) -> None:
    # However slow the machine, the log is put away where a test says so.
    monkeypatch.setattr(writer, "IDLE_S", 10 * PATIENCE_S)


def engine(store: LmdbStore) -> LmdbEngine:
    assert store._writer is not None
    return store._writer._engine  # type: ignore[return-value]


def stored(store: LmdbStore, table: int) -> dict[bytes, bytes]:
    """Return what is in a table itself, without what the log has."""
    environment = store._environment
    assert environment is not None
    with environment.env.begin() as txn:
        return dict(txn.cursor(environment.tables[table]))


def tables_of(store: Any) -> list[dict[bytes, bytes]]:
    return [contents(store, table) for table in Table if table not in (Table.META, Table.LOG)]


def all_stored(store: LmdbStore) -> list[dict[bytes, bytes]]:
    return [stored(store, table) for table in Table if table not in (Table.META, Table.LOG)]


def test_a_group_is_one_record_of_the_log_and_is_seen_in_its_tables(store: LmdbStore) -> None:
    write(store, batch(1, ops=[(J, b"a", b"1"), (J, b"b", b"1")], change=b"c"))
    write(store, batch(1, at=(1, 1), ops=[(J, b"a", None)], change=b"d"))

    assert all_stored(store) == [{} for _ in range(len(Table) - 2)]
    assert len(stored(store, Table.LOG)) == 2
    assert contents(store, J) == {b"b": b"1"}
    assert read(store, J, b"a") is None
    assert head(store, 1) == (1, 2, 1, 1, 2)
    assert contents(store, Table.CHANGES) == {key(2): thread_key(1) + b"d"}


def test_a_close_leaves_everything_in_its_table(store: LmdbStore) -> None:
    write(store, batch(1, ops=[(J, b"a", b"1")], change=b"c"))
    expected = tables_of(store)
    store.close()
    readers = LmdbStore(store.path, read_only=True)
    readers.open()

    assert all_stored(readers) == expected
    assert stored(readers, Table.LOG) == {}
    readers.close()


@pytest.mark.parametrize("limit", ["LAYERS_MAX", "ROWS_MAX", "BYTES_MAX"])
def test_the_group_that_the_log_has_no_room_for_takes_all_of_it_into_the_tables(
    store: LmdbStore, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(write_log, limit, {"LAYERS_MAX": 3, "ROWS_MAX": 6, "BYTES_MAX": 300}[limit])
    logged = []
    for n in range(9):
        write(store, batch(1, at=(1, n) if n else (0, 0), ops=[(J, key(n), b"")]))
        logged.append(len(stored(store, Table.LOG)))
        assert len(contents(store, J)) == n + 1

    # The fourth goes with the three before it, and needs no record of its own.
    assert logged == [1, 2, 3, 0, 1, 2, 3, 0, 1]


def test_a_large_group_is_written_once(store: LmdbStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_log, "BYTES_MAX", 1_000)
    write(store, batch(1, ops=[(J, b"a", b"small")]))
    write(store, batch(2, ops=[(J, b"b", b"large" * 300)], size=1_500))

    assert stored(store, J) == {b"a": b"small", b"b": b"large" * 300}
    assert stored(store, Table.LOG) == {}


def test_an_idle_writer_puts_the_log_away(store: LmdbStore, monkeypatch: pytest.MonkeyPatch) -> None:
    tidied, tidy = threading.Event(), engine(store).tidy

    def telling() -> Any:
        failed = tidy()
        tidied.set()
        return failed

    monkeypatch.setattr(engine(store), "tidy", telling)
    monkeypatch.setattr(writer, "IDLE_S", 0.01)
    write(store, batch(1, ops=[(J, b"a", b"1")]))
    assert tidied.wait(PATIENCE_S)

    assert stored(store, J) == {b"a": b"1"}
    assert stored(store, Table.LOG) == {}
    assert write(store, batch(1, at=(1, 1), ops=[(J, b"a", b"2")]))[0].kind == "committed"
    assert read(store, J, b"a") == b"2"


@pytest.mark.parametrize("seed", range(8))
def test_whenever_the_log_is_put_away_the_store_reads_as_one_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    luck = random.Random(seed)
    monkeypatch.setattr(write_log, "LAYERS_MAX", luck.choice([1, 2, 5, 32]))
    store, memory = LmdbStore(tmp_path / "store", durability="process"), MemoryStore()
    boots = {store.open().number, memory.open().number}
    heads: dict[int, tuple[int, int]] = {}
    for _ in range(150):
        number = luck.randint(1, 6)
        at = heads.get(number, (0, 0))
        tables = (J, Table.MESSAGES, Table.NAMES, Table.WORK)
        given: dict[str, Any] = {
            "at": at,
            "by": (max(boots), 1),
            "change": luck.choice([None, b"c"]),
            "record": luck.choice([b"", b"record"]),
            "absent": (luck.choice(tables), bytes([luck.randint(1, 6)])) if luck.random() < 0.2 else None,
            "ops": [
                (
                    luck.choice(tables),
                    bytes([luck.randint(1, 6)]),
                    luck.choice([None, b"", b"v" * luck.randint(1, 3_000)]),
                )
                for _ in range(luck.randint(0, 5))
            ],
        }
        [answer], [other] = write(store, batch(number, **given)), write(memory, batch(number, **given))
        assert (answer.kind, answer.change) == (other.kind, other.change)
        if answer.kind == "committed":
            heads[number] = (max(1, at[0]), at[1] + 1)
        if luck.random() < 0.1:
            assert engine(store).tidy() is None
        if luck.random() < 0.05:
            store.close(), memory.close()
            boots = {store.open().number, memory.open().number}
        if luck.random() < 0.2:
            assert tables_of(store) == tables_of(memory)
            assert survey_store(store).tables["journal"].rows == len(contents(memory, J))
    store.close()
    store.open()
    assert tables_of(store) == tables_of(memory) == all_stored(store)
    store.close()
    memory.close()


def test_what_was_put_away_is_kept_in_memory_by_nobody(store: LmdbStore) -> None:
    assert store._environment is not None
    for n in range(3):
        write(store, batch(1, at=(1, n) if n else (0, 0), ops=[(J, key(n), b"large" * 1_000)]))
    assert [len(log.layers) for log in store._environment._logs.values()][-1] == 3

    assert engine(store).tidy() is None

    assert [log.layers for log in store._environment._logs.values()] == [()]


def test_a_view_keeps_what_it_saw_when_the_log_is_put_away(store: LmdbStore) -> None:
    write(store, batch(1, ops=[(J, b"a", b"1"), (J, b"b", b"1")]))
    with store.view() as early:
        write(store, batch(1, at=(1, 1), ops=[(J, b"a", b"2"), (J, b"b", None), (J, b"c", b"2")]))
        with store.view() as late:
            assert engine(store).tidy() is None
            write(store, batch(1, at=(1, 2), ops=[(J, b"a", b"3")]))

            assert early.scan(J, b"", None) == [(b"a", b"1"), (b"b", b"1")]
            assert late.scan(J, b"", None, reverse=True) == [(b"c", b"2"), (b"a", b"2")]
            assert (early.get(J, b"b"), late.get(J, b"b")) == (b"1", None)
    assert contents(store, J) == {b"a": b"3", b"c": b"2"}


def test_readers_see_whole_groups_while_the_log_comes_and_goes(
    store: LmdbStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_log, "LAYERS_MAX", 2)
    stop, errors, looks = threading.Event(), list[BaseException](), [0, 0]

    def look(reader: int) -> None:
        beside = store if reader == 0 else LmdbStore(store.path, read_only=True)
        seen = b""
        try:
            while not stop.is_set():
                with beside.view() as view:
                    rows = view.scan(J, b"", None)
                    newest, at = view.get(J, key(1)) or b"", view.get(Table.THREADS, thread_key(1)) or bytes(12)
                # All rows of one group, no older than what was seen before, and the head that belongs to them.
                assert len({value for _, value in rows}) <= 1
                assert seen <= newest
                assert newest == (at[4:12] if rows else b"")
                seen = newest
                looks[reader] += 1
        except BaseException as error:
            errors.append(error)

    readers = [threading.Thread(target=look, args=(0,)) for _ in range(3)]
    for reader in readers:
        reader.start()
    for n in range(600):
        write(store, batch(1, at=(1, n) if n else (0, 0), ops=[(J, key(one), key(n + 1)) for one in range(1, 5)]))
    stop.set()
    for reader in readers:
        reader.join(PATIENCE_S)

    assert errors == []
    assert looks[0] > 10


# --- other processes, deaths


OWNER = """
import os, sys
from treadle.storage import write_log, writer
from treadle.storage.batch import Batch
from treadle.storage.lmdb_store import LmdbStore

writer.IDLE_S = 1_000
store = LmdbStore(sys.argv[1])
boot = store.open().number
at, n = (0, 0), 0
while True:
    for _ in range(int(sys.stdin.readline())):
        answers = []
        import threading
        done = threading.Event()
        def confirm(answer):
            assert answer.kind == "committed", answer
            done.set()
        n += 1
        store.commit(Batch(number=1, generation=at[0], sequence=at[1], boot=boot, life=1, head_generation=1,
                           head_sequence=n, record=b"r", ops=[(3, n.to_bytes(8, "big"), b"v")], size=1, change=b"c",
                           confirm=confirm))
        done.wait()
        at = (1, n)
    print("done", flush=True)
"""


def killed_with_a_log(path: Path, commits: int) -> None:
    with Process(OWNER, path) as owner:
        owner.say(str(commits))
        assert owner.line() == "done"


def test_what_a_killed_owner_left_in_its_log_is_in_the_tables_after_the_next_open(tmp_path: Path) -> None:
    killed_with_a_log(tmp_path / "store", 50)
    store = LmdbStore(tmp_path / "store")
    readers = LmdbStore(tmp_path / "store", read_only=True)
    readers.open()
    assert len(stored(readers, Table.LOG)) == 50 % (write_log.LAYERS_MAX + 1)
    assert len(contents(readers, J)) == 50
    expected = tables_of(readers)
    readers.close()

    store.open()

    assert stored(store, Table.LOG) == {}
    assert all_stored(store) == tables_of(store) == expected
    assert store._environment is not None
    assert store._environment.last_change() == 50
    assert write(store, batch(2, by=(2, 1), change=b"c"))[0].change == 51
    store.close()


def test_a_reader_of_another_process_follows_the_log(tmp_path: Path) -> None:
    with Process(OWNER, tmp_path / "store") as owner:
        owner.say("1")
        assert owner.line() == "done"
        readers = LmdbStore(tmp_path / "store", read_only=True)
        readers.open()
        for count in (1, 2, 31, 32, 33, 34, 35, 66, 67, 100):
            have = len(contents(readers, J))
            owner.say(str(count - have))
            assert owner.line() == "done"
            assert len(contents(readers, J)) == count
            assert read(readers, J, key(count)) == b"v"
            assert list(contents(readers, Table.CHANGES)) == [key(count)]
        readers.close()


@pytest.fixture
def unpacked(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Return what grows by the key of each record that is read."""
    keys: list[bytes] = []

    def counting(key: bytes, data: bytes) -> write_log.Layer:
        keys.append(key)
        return write_log.unpack_changes(key, data)

    monkeypatch.setattr("treadle.storage.environment.unpack_changes", counting)
    return keys


def test_an_open_reads_a_record_of_the_log_once(tmp_path: Path, unpacked: list[bytes]) -> None:
    killed_with_a_log(tmp_path / "store", 20)
    store = LmdbStore(tmp_path / "store")
    store.open()
    store.close()

    assert len(unpacked) == len(set(unpacked)) == 20


def test_a_reader_of_another_process_reads_a_record_of_the_log_once(tmp_path: Path, unpacked: list[bytes]) -> None:
    with Process(OWNER, tmp_path / "store") as owner:
        readers = LmdbStore(tmp_path / "store", read_only=True)
        owner.say("20")
        assert owner.line() == "done"
        readers.open()
        for _ in range(3):
            contents(readers, J)
        owner.say("5")
        assert owner.line() == "done"
        for _ in range(3):
            contents(readers, J)
        readers.close()

    assert len(unpacked) == len(set(unpacked)) == 25


def test_a_reader_of_another_process_sorts_a_layer_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    merged: list[int] = []

    def counting(self: write_log.Layer, table: int) -> dict[bytes, bytes | None]:
        merged.append(table)
        return self.changes[table]

    with Process(OWNER, tmp_path / "store") as owner:
        readers = LmdbStore(tmp_path / "store", read_only=True)
        owner.say("20")
        assert owner.line() == "done"
        readers.open()
        contents(readers, J)
        monkeypatch.setattr(write_log.Layer, "of", counting)
        owner.say("3")
        assert owner.line() == "done"
        with readers.view() as view:
            assert view.scan(J, key(100), None) == []
        readers.close()

    assert merged == [int(J)] * 3


REUSED = """
import sys, lmdb

with lmdb.open(sys.argv[1], max_dbs=15) as env:
    log = env.open_db(b"log")
    with env.begin(write=True) as txn:
        txn.put(bytes.fromhex(sys.argv[2]), bytes.fromhex(sys.argv[3]), db=log)
"""


def test_a_reader_takes_no_record_for_a_later_one_of_its_number(tmp_path: Path) -> None:
    """In a copy whose transactions LMDB counts from 1 numbers come up again, once those of the old file were put away."""
    killed_with_a_log(tmp_path / "store", 20)
    (tmp_path / "copy").mkdir()
    with lmdb.open(str(tmp_path / "store")) as env:
        env.copy(str(tmp_path / "copy"), compact=True)
    readers = LmdbStore(tmp_path / "copy", read_only=True)
    readers.open()
    last = max(contents(readers, Table.LOG))
    rows: list[dict[bytes, bytes | None]] = [{} for _ in Table]
    rows[J] = {b"a": b"later"}

    done = run(REUSED, tmp_path / "copy", last.hex(), write_log.pack_changes(rows).hex())

    assert done.returncode == 0
    assert read(readers, J, b"a") == b"later"
    readers.close()


WORKING = """
import sys
from treadle.actors import Runtime
from treadle.agents import ThreadState, agent
from treadle.storage import LmdbStore, writer

writer.IDLE_S = 1_000

@agent
async def parrot(state: ThreadState) -> None:
    await state.inject_message(role="assistant", content="and again")

with Runtime(LmdbStore(sys.argv[1]), agents=[parrot]) as runtime:
    thread = runtime.create_thread("parrot").result()
    for n in range(5):
        thread.wait(thread.submit(f"input {n}").result()).result()
    print("done", flush=True)
    sys.stdin.readline()
"""


def test_copies_of_a_store_with_a_log_have_everything(tmp_path: Path) -> None:
    with Process(WORKING, tmp_path / "store") as owner:
        assert owner.line() == "done"
        backup(tmp_path / "store", tmp_path / "beside")
    backup(tmp_path / "store", tmp_path / "copy")
    expected = check(tmp_path / "copy")
    compact(tmp_path / "store")

    assert expected.broken == ()
    for path in (tmp_path / "store", tmp_path / "copy", tmp_path / "beside"):
        store = LmdbStore(path)
        store.open()
        assert stored(store, Table.LOG) == {}
        assert len(stored(store, J)) == expected.events > 10
        store.close()
        assert check(path) == expected


def test_a_record_stands_behind_all_older_ones_whatever_transactions_are_counted_from(
    tmp_path: Path, quiet: None
) -> None:
    """LMDB's own compacted copy counts them from 1, and where the disk is full the log is not put away at once."""
    killed_with_a_log(tmp_path / "store", 20)
    (tmp_path / "copy").mkdir()
    with lmdb.open(str(tmp_path / "store")) as env:
        env.copy(str(tmp_path / "copy"), compact=True)
    store = LmdbStore(tmp_path / "copy")

    def full() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    points.arm(points.BEFORE_COMMIT, 1, full)
    try:
        store.open()
    finally:
        points.disarm()
    assert len(stored(store, Table.LOG)) == 20
    assert store._environment is not None
    with store._environment.env.begin() as txn:
        number = txn.id()
    last = max(stored(store, Table.LOG))
    write(store, batch(1, at=(1, 20), by=(2, 1), ops=[(J, key(20), b"new")]))

    assert len(stored(store, Table.LOG)) == 21
    assert max(stored(store, Table.LOG)) > last
    assert int.from_bytes(last, "big") > number + 1  # else this has shown nothing
    assert read(store, J, key(20)) == b"new"
    store.close()
    store.open()
    assert stored(store, J)[key(20)] == b"new"
    store.close()


def test_a_damaged_record_of_the_log_is_named_and_nothing_is_changed(tmp_path: Path) -> None:
    killed_with_a_log(tmp_path / "store", 3)
    with lmdb.open(str(tmp_path / "store"), max_dbs=len(Table)) as env:
        log = env.open_db(b"log")
        with env.begin(write=True) as txn:
            cursor = txn.cursor(log)
            assert cursor.first()
            name = cursor.key()
            txn.put(name, b"\xc1", db=log)
    before = (tmp_path / "store" / "data.mdb").read_bytes()
    store = LmdbStore(tmp_path / "store")

    for look in (store.open, lambda: check(tmp_path / "store")):
        with pytest.raises(CorruptRecord) as caught:
            look()
        assert (caught.value.details["table"], caught.value.details["key"]) == ("log", name.hex())
    assert (tmp_path / "store" / "data.mdb").read_bytes() == before


FORK = """
import os, sys
sys.path.insert(0, sys.argv[2])
from tests.storage.driving import batch, contents, write
from treadle.storage import writer
from treadle.storage.lmdb_store import LmdbStore
from treadle.storage.tables import Table

writer.IDLE_S = 600
store = LmdbStore(sys.argv[1], durability="process")
store.open()
write(store, batch(1, ops=[(Table.JOURNAL, b"a", b"1")]))
asked, told = os.pipe(), os.pipe()
child = os.fork()
if not child:
    os.read(asked[0], 1)
    store.close()
    os.write(told[1], b"x")
    os._exit(0)
write(store, batch(1, at=(1, 1), ops=[(Table.JOURNAL, b"a", b"2")]))
os.write(asked[1], b"x")
os.read(told[0], 1)
print(os.waitpid(child, 0)[1], contents(store, Table.JOURNAL), len(contents(store, Table.LOG)))
store.close()
"""


def test_a_close_in_a_forked_child_leaves_the_log_of_its_parent_alone(tmp_path: Path) -> None:
    """The child has the log as it was at the fork: what it put into the tables would go over what came since."""
    done = run(FORK, tmp_path / "store", Path(__file__).parents[2], warnings="ignore")

    assert done.stdout == "0 {b'a': b'2'} 2\n"


@pytest.mark.parametrize("name", [lambda key: key[1:], lambda key: key + b"\0"])
def test_a_record_that_would_be_left_behind_is_found_by_the_open(
    tmp_path: Path, name: Callable[[bytes], bytes]
) -> None:
    """Put into the tables and not taken from the log, it would go over what is newer with the next open."""
    killed_with_a_log(tmp_path / "store", 3)
    with lmdb.open(str(tmp_path / "store"), max_dbs=len(Table)) as env:
        log = env.open_db(b"log")
        with env.begin(write=True) as txn:
            cursor = txn.cursor(log)
            assert cursor.last()
            wrong, record = name(cursor.key()), cursor.value()
            cursor.delete()
            txn.put(wrong, record, db=log)

    with pytest.raises(CorruptRecord) as caught:
        LmdbStore(tmp_path / "store").open()
    assert (caught.value.details["table"], caught.value.details["key"]) == ("log", wrong.hex())


# --- pieces


READ_BESIDE = """
import sys
from treadle.storage.lmdb_store import LmdbStore

store = LmdbStore(sys.argv[1], read_only=True)
store.open()
for _ in range(2):
    with store.view() as view:
        print({key.hex(): len(value) for key, value in view.scan(3, b"", None) if len(value) < 200})
store.close()
"""


def test_a_record_takes_no_run_of_pages_where_single_ones_are_free(
    store: LmdbStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LMDB looked through all of 150,000 for it, and wrote the list of them again with each group: 10 ms and 1.3 MB."""
    monkeypatch.setattr(lmdb_engine, "_FREE_PAGES_FEW", 40)
    write(store, batch(1, ops=[(J, key(n), bytes(2_500)) for n in range(300)]))
    assert engine(store).tidy() is None
    write(store, batch(1, at=(1, 1), ops=[(J, key(n), bytes(900)) for n in range(300, 400)]))
    assert len(stored(store, Table.LOG)) == 1
    write(store, batch(1, at=(1, 2), ops=[(J, key(n), None) for n in range(0, 300, 2)]))
    assert engine(store).tidy() is None
    assert store._environment is not None
    size = store._environment.env.info()["last_pgno"]
    new = {key(n): bytes(100) for n in range(1_000, 1_600)}
    write(store, batch(1, at=(1, 3), ops=[(J, *row) for row in new.items()]))
    write(store, batch(1, at=(1, 4), ops=[(J, key(1_000), b"newer")]))

    pieces = stored(store, Table.LOG)
    page = store._environment.env.stat()["psize"]
    assert len(pieces) > 10
    assert max(map(len, pieces.values())) < page
    with store._environment.env.begin() as txn:
        assert txn.stat(store._environment.tables[Table.LOG])["overflow_pages"] < len(pieces)
    assert store._environment.env.info()["last_pgno"] == size
    new[key(1_000)] = b"newer"
    shown = {name.hex(): len(value) for name, value in new.items()}
    assert run(READ_BESIDE, store.path).stdout == f"{shown}\n" * 2
    assert engine(store).tidy() is None
    assert stored(store, Table.LOG) == {}
    assert {name: value for name, value in stored(store, J).items() if len(value) < 200} == new


@pytest.mark.parametrize("harm", ["first", "middle", "last", "one too many", "no piece", "longer"])
def test_a_record_whose_pieces_are_not_its_own_is_named(store: LmdbStore, tmp_path: Path, harm: str) -> None:
    write(store, batch(1, ops=[(J, b"a", b"1")]))
    engine(store)._room = 100
    write(store, batch(1, at=(1, 1), ops=[(J, b"b", bytes(1_000))]))
    write(store, batch(1, at=(1, 2), ops=[(J, b"c", b"1")]))
    _, first, *others, _ = sorted(stored(store, Table.LOG))
    assert len(others) >= 10
    (tmp_path / "copy").mkdir()
    assert store._environment is not None
    store._environment.env.copy(str(tmp_path / "copy"))
    with lmdb.open(str(tmp_path / "copy"), max_dbs=len(Table)) as env:
        log = env.open_db(b"log")
        with env.begin(write=True) as txn:
            if harm in ("first", "middle", "last"):
                assert txn.delete({"first": first, "middle": others[4], "last": others[-1]}[harm], db=log)
            else:
                behind = write_log.piece_key(first, len(others) + 1)
                txn.put(
                    {"one too many": behind, "no piece": first + b"\0", "longer": behind + b"\0"}[harm], b"x", db=log
                )
    before = (tmp_path / "copy" / "data.mdb").read_bytes()

    for look in (LmdbStore(tmp_path / "copy").open, lambda: check(tmp_path / "copy")):
        with pytest.raises(CorruptRecord) as caught:
            look()
        assert caught.value.details["table"] == "log"
        assert str(caught.value.details["key"]).startswith(first.hex())
    assert (tmp_path / "copy" / "data.mdb").read_bytes() == before


def test_a_log_in_pieces_is_what_it_is_whole(store: LmdbStore) -> None:
    engine(store)._room = 64
    luck = random.Random(5)
    model: dict[bytes, bytes] = {}
    for n in range(70):
        rows = {luck.randbytes(1): luck.choice([None, luck.randbytes(luck.randint(0, 300))]) for _ in range(9)}
        write(store, batch(1, at=(1, n) if n else (0, 0), ops=[(J, *row) for row in rows.items()]))
        model = {name: value for name, value in {**model, **rows}.items() if value is not None}
        engine(store)._room = luck.choice([64, 100, 1 << 32])
        assert contents(store, J) == model
        if n % 10 == 5:
            shown = {name.hex(): len(value) for name, value in sorted(model.items()) if len(value) < 200}
            assert run(READ_BESIDE, store.path).stdout == f"{shown}\n" * 2
    store.close()
    store.open()
    assert stored(store, J) == model


# --- faults


def test_a_log_that_somebody_else_wrote_in_is_not_written_over(store: LmdbStore, quiet: None) -> None:
    write(store, batch(1, ops=[(J, b"a", b"1")]))
    environment = store._environment
    assert environment is not None
    with environment.env.begin(write=True) as txn:
        assert txn.drop(environment.tables[Table.LOG], delete=False) is None
        txn.put(b"a", b"2", db=environment.tables[J])

    failed = engine(store).tidy()

    assert isinstance(failed, StoreFailed)
    assert stored(store, J) == {b"a": b"2"}


def test_a_full_disk_leaves_the_log_as_it_was_and_it_is_put_away_once_there_is_room(
    store: LmdbStore, monkeypatch: pytest.MonkeyPatch, quiet: None
) -> None:
    monkeypatch.setattr(write_log, "LAYERS_MAX", 2)
    for n in range(2):
        write(store, batch(1, at=(1, n) if n else (0, 0), ops=[(J, key(n), b"v")]))
    fold, full = engine(store)._fold, [True]

    def folding(*given: Any) -> None:
        fold(*given)
        if full[0]:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(engine(store), "_fold", folding)
    [answer] = write(store, batch(1, at=(1, 2), ops=[(J, key(2), b"v")]))
    assert isinstance(answer.error, StorageFull)
    assert engine(store).tidy() is None
    assert store.failure() is None
    assert contents(store, J) == {key(0): b"v", key(1): b"v"}
    assert len(stored(store, Table.LOG)) == 2
    full[0] = False

    assert write(store, batch(1, at=(1, 2), ops=[(J, key(2), b"v")]))[0].kind == "committed"
    assert stored(store, J) == {key(n): b"v" for n in range(3)}


def test_a_store_that_cannot_be_closed_tidily_has_everything_all_the_same(
    store: LmdbStore, monkeypatch: pytest.MonkeyPatch, quiet: None
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(engine(store), "_fold", full)
    write(store, batch(1, ops=[(J, b"a", b"1")]))
    store.close()
    store.open()

    assert stored(store, J) == {b"a": b"1"}


def test_a_writer_that_cannot_be_tidied_says_why_and_takes_nothing_more(
    store: LmdbStore, monkeypatch: pytest.MonkeyPatch, quiet: None
) -> None:
    def broken(*_: Any) -> None:
        raise OSError(errno.EIO, "on purpose")

    monkeypatch.setattr(engine(store), "_fold", broken)
    write(store, batch(1, ops=[(J, b"a", b"1")]))
    assert isinstance(engine(store).tidy(), StoreFailed)
    # What is committed is there, whatever the tidying met.
    assert contents(store, J) == {b"a": b"1"}


def test_barriers_and_heads_are_those_of_the_log(store: LmdbStore) -> None:
    write(store, batch(1, by=(1, 5)))
    engine(store)._heads.clear()

    assert write(store, batch(1, at=(1, 1), by=(1, 4)))[0].kind == "not_written"
    assert barrier(store, 1, (1, 7)).kind == "committed"
    assert write(store, batch(1, at=(1, 1), by=(1, 6)))[0].kind == "not_written"
    assert write(store, batch(1, at=(1, 1), by=(1, 7)))[0].kind == "committed"


def test_the_boot_is_in_its_table_at_once(store: LmdbStore) -> None:
    assert BOOT_KEY in stored(store, Table.META)
