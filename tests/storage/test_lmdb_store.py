"""Owns the proof of treadle.storage.lmdb_store: one owner, opening that fails cleanly, readers beside the owner."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any, NoReturn

import pytest

from treadle.protocol.errors import CorruptRecord, InvalidInput, StoreClosed, StoreFailed, StoreInUse, shorten
from treadle.storage import lmdb_store
from treadle.storage.batch import COMMITTED, Answer
from treadle.storage.check import check, main
from treadle.storage.lmdb_store import LmdbStore, open_here
from treadle.storage.schema import BOOT_KEY
from treadle.storage.tables import Table
from treadle.storage.writer import Writer

from .driving import PATIENCE_S, Answers, Process, batch, contents, key, read, run, write

J = Table.JOURNAL

OPEN = """
import sys
from treadle.protocol.errors import StoreInUse
from treadle.storage.lmdb_store import LmdbStore
store = LmdbStore(sys.argv[1])
try:
    store.open()
    print("open", flush=True)
    sys.stdin.readline()
except StoreInUse as error:
    print(error.details["pid"], error.details["boot_id"], flush=True)
"""


def test_a_second_process_is_refused_by_the_name_of_the_holder_and_changes_nothing(tmp_path: Path) -> None:
    """Scenario 20."""
    store = LmdbStore(tmp_path)
    boot = store.open()
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    done = run(OPEN, tmp_path)

    assert done.stdout.split() == [str(os.getpid()), boot.id]
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    store.close()


def test_a_second_store_object_in_the_same_process_is_refused_and_hurts_nobody(tmp_path: Path) -> None:
    """Scenario 20."""
    first, second = LmdbStore(tmp_path), LmdbStore(tmp_path)
    first.open()

    with pytest.raises(StoreInUse, match="owned by this process"):
        second.open()
    with pytest.raises(StoreInUse, match="open in this process"):
        LmdbStore(tmp_path, read_only=True).open()

    assert write(first, batch())[0].kind == "committed"
    first.close()
    assert second.open().number == 2
    second.close()


def test_a_store_held_by_another_process_can_be_opened_once_that_is_killed(tmp_path: Path) -> None:
    store = LmdbStore(tmp_path)
    with Process(OPEN, tmp_path) as other:
        assert other.line() == "open"
        with pytest.raises(StoreInUse) as caught:
            store.open()
        assert caught.value.details["pid"] == other.pid

    assert store.open().number == 2
    store.close()


@pytest.mark.slow
def test_no_writer_meets_an_error_while_others_try_to_open(tmp_path: Path) -> None:
    """Scenario 31: 64 writers and a second opener."""
    store = LmdbStore(tmp_path, durability="process")
    store.open()
    stop, refused = threading.Event(), []

    def open_again() -> None:
        while not stop.is_set():
            with pytest.raises(StoreInUse):
                LmdbStore(tmp_path).open()
            refused.append(1)

    answers = Answers()

    def chain(number: int, n: int) -> None:
        def confirm(answer: Answer) -> None:
            answers.confirm((number, n))(answer)
            if n < 20:
                chain(number, n + 1)

        store.commit(batch(number, at=(1, n) if n else (0, 0), ops=[(J, key(number) + key(n), b"x")], confirm=confirm))

    opener = threading.Thread(target=open_again)
    opener.start()
    for number in range(64):
        chain(number, 0)
    other = run(OPEN, tmp_path)
    answers.wait(64 * 21)
    stop.set()
    opener.join(PATIENCE_S)

    assert {answer.kind for _, answer in answers.all} == {"committed"}
    assert other.stdout.split()[0] == str(os.getpid())
    assert refused
    assert len(contents(store, J)) == 64 * 21
    store.close()


READ = """
import sys
from treadle.storage.lmdb_store import LmdbStore
store = LmdbStore(sys.argv[1], read_only=True)
boot = store.open()
with store.view() as view:
    rows = len(view.scan(3, b"", None))
print(boot.number, boot.id, rows, store.failure().code)
store.close()
"""


def test_a_tool_reads_beside_the_owner_and_after_it(tmp_path: Path) -> None:
    store = LmdbStore(tmp_path)
    boot = store.open()
    write(store, batch(ops=[(J, b"a", b"1"), (J, b"b", b"2")]))
    beside = run(READ, tmp_path)
    assert write(store, batch(at=(1, 1), ops=[(J, b"c", b"3")]))[0].kind == "committed"
    store.close()

    after = run(READ, tmp_path)

    assert beside.stdout.split() == ["1", boot.id, "2", "store_closed"]
    assert after.stdout.split() == ["1", boot.id, "3", "store_closed"]


def test_a_read_only_store_takes_no_batches_and_no_barriers(tmp_path: Path) -> None:
    owner = LmdbStore(tmp_path)
    owner.open()
    owner.close()
    store = LmdbStore(tmp_path, read_only=True)
    assert store.open().number == 1

    [refused] = write(store, batch())

    assert isinstance(refused.error, StoreClosed)
    assert "for reading only" in str(refused.error)
    assert isinstance(store.failure(), StoreClosed)
    assert store.backlog() == 0
    assert read(store, J, b"a") is None
    store.close()
    assert owner.open().number == 2
    owner.close()


@pytest.mark.parametrize(
    "options",
    [
        {"durability": "some"}, {"map_size": -1}, {"map_size": "1"}, {"map_size": 2**64}, {"max_readers": 0},
        {"max_readers": 2**31},
    ],
    ids=str,
)  # fmt: skip
def test_an_option_that_is_none_is_refused_with_its_value(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as caught:
        LmdbStore(tmp_path, **options)

    assert caught.value.code == "invalid_option"
    assert caught.value.details["value"] == repr(next(iter(options.values())))


class BytesPath:
    def __fspath__(self) -> bytes:
        return b"data"

    def __repr__(self) -> str:
        return "BytesPath()"


class NumberPath:
    def __fspath__(self) -> int:
        return 5

    def __repr__(self) -> str:
        return "NumberPath()"


@pytest.mark.parametrize(
    "path",
    [
        "a\0b",
        "",
        "\ud800",
        b"data",
        b"a\0b",
        5,
        None,
        True,
        ["data"],
        BytesPath(),
        NumberPath(),
        Path("a\0b"),
    ],
    ids=ascii,
)
def test_what_is_no_path_is_refused_with_its_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: Any) -> None:
    monkeypatch.chdir(tmp_path)

    for take in (LmdbStore, check, open_here):
        with pytest.raises(InvalidInput) as caught:
            take(path)
        assert caught.value.code == "invalid_path"
        assert caught.value.details == {"value": shorten(path)}
    assert main([path]) == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("durability", "sync"), [("full", True), ("process", False)])
def test_only_full_durability_syncs(tmp_path: Path, durability: str, sync: bool) -> None:
    store = LmdbStore(tmp_path, durability=durability)  # type: ignore[arg-type]
    store.open()

    assert store._environment is not None
    assert store._environment.env.flags()["sync"] is sync
    store.close()


def test_full_durability_is_the_default(tmp_path: Path) -> None:
    store = LmdbStore(tmp_path)
    store.open()

    assert store._environment is not None
    assert store._environment.env.flags()["sync"] is True
    store.close()


def broken_start(_: Writer) -> NoReturn:
    raise RuntimeError("can't start new thread")


def broken_boot(*_: object) -> NoReturn:
    raise CorruptRecord("on purpose", table="meta", key="")


@pytest.mark.parametrize(
    ("patched", "broken", "error"),
    [
        ((Writer, "start"), broken_start, StoreFailed),
        ((lmdb_store, "LmdbEngine"), broken_boot, CorruptRecord),
    ],
)
def test_an_opening_that_fails_half_way_lets_go_of_everything(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    patched: tuple[object, str],
    broken: object,
    error: type[Exception],
) -> None:
    store = LmdbStore(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(*patched, broken)
        with pytest.raises(error):
            store.open()
    assert isinstance(write(store, batch())[0].error, StoreClosed)

    other = LmdbStore(tmp_path)
    other.open()

    assert write(other, batch()) == [COMMITTED]
    other.close()


def test_a_boot_record_that_does_not_decode_is_reported_by_name(tmp_path: Path) -> None:
    store = LmdbStore(tmp_path)
    store.open()
    write(store, batch(ops=[(Table.META, BOOT_KEY, b"garbage")]))
    store.close()

    with pytest.raises(CorruptRecord) as caught:
        store.open()

    assert caught.value.details == {"table": "meta", "key": BOOT_KEY.hex()}


def test_a_store_dropped_at_the_end_of_the_process_keeps_what_it_confirmed(tmp_path: Path) -> None:
    done = run(
        """
import sys, threading
from treadle.storage.batch import Batch
from treadle.storage.lmdb_store import LmdbStore
store = LmdbStore(sys.argv[1])
store.open()
done = threading.Event()
store.commit(Batch(number=1, generation=0, sequence=0, boot=1, life=1, head_generation=1, head_sequence=1, record=b"",
                   ops=[(3, b"a", b"1")], size=1, confirm=lambda answer: done.set()))
done.wait()
""",
        tmp_path,
    )
    store = LmdbStore(tmp_path)
    store.open()

    assert done.returncode == 0
    assert read(store, J, b"a") == b"1"
    store.close()
