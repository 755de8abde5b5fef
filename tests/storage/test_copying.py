"""Owns the proof of treadle.storage.copying: copies are whole or not there, whoever works beside, whenever it is killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from treadle.actors import Runtime
from treadle.protocol.errors import CorruptRecord, InvalidInput, NotAStore, StoreInUse
from treadle.storage import LmdbStore
from treadle.storage.check import check
from treadle.storage.copying import CHECKED, COMPACTING, COPIED, PLACED, PLACING, SYNCED, backup, compact
from treadle.storage.meta_pages import last_transaction
from treadle.storage.tables import Table

from .driving import PATIENCE_S, Process, batch, contents, write
from .test_check import break_it, echo

POINTS = [COPIED, SYNCED, CHECKED, PLACING, PLACED]
TEXT = "a line of some length, so that there are pages to copy " * 60

# Makes a copy, and dies or meets a full disk on the way.
COPIER = """
import resource, signal, sys
from treadle.protocol.errors import TreadleError
from treadle.storage.copying import backup, compact
from treadle.storage.points import arm
what, how, *paths = sys.argv[1:]
if how.isdigit():
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(how), int(how)))
elif how.startswith("kill "):
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(how[5:]), int(how[5:])))
elif how:
    arm(how)
try:
    (backup if what == "backup" else compact)(*paths)
except TreadleError as error:
    print(error.code)
    sys.exit(1)
print("done")
"""

# Works without a pause from its first line until it is told to stop, and then says how much it did.
OWNER = """
import sys, threading
from treadle.actors import Runtime
from treadle.storage import LmdbStore
class Body:
    name, runs_on = "body", "worker"
    def run(self, execution):
        pass
told = threading.Event()
threading.Thread(target=lambda: (sys.stdin.readline(), told.set())).start()
with Runtime(LmdbStore(sys.argv[1], durability="process"), agents=[Body()]) as runtime:
    done = 0
    while not told.is_set():
        thread = runtime.create_thread("body", thread_id=f"new-{done}").result()
        thread.wait(thread.submit("x" * 2000).result()).result(60)
        if done % 3 == 0:
            runtime.delete_thread(thread.id).result()
        done += 1
        if done == 5:
            print("works", flush=True)
print(done, flush=True)
"""

READER = """
import sys
from treadle.storage import LmdbStore
from treadle.storage.tables import Table
store = LmdbStore(sys.argv[1], read_only=True)
store.open()
def rows():
    with store.view() as view:
        return len(view.scan(Table.JOURNAL, b"", None))
print(rows(), flush=True)
sys.stdin.readline()
print(rows(), flush=True)
sys.stdin.readline()
"""


def fill(path: Path, commits: int = 0) -> None:
    """Make a store with threads, with waiting input, and with free pages of threads that were deleted."""
    with Runtime(LmdbStore(path, durability="process"), agents=[echo]) as runtime:
        for rank in range(6):
            thread = runtime.create_thread("echo", thread_id=f"t{rank}", user_id="u").result()
            thread.wait(thread.submit([TEXT] * 8).result()).result(60)
            if rank % 2:
                thread.stop().result()
                thread.queue_message("later").result()
            else:
                runtime.delete_thread(thread.id).result()
        for rank in range(commits):
            runtime.thread("t1").set_value("rank", rank).result()


def tables_of(path: Path) -> list[dict[bytes, bytes]]:
    store = LmdbStore(path, read_only=True)
    store.open()
    try:
        return [contents(store, table) for table in Table]
    finally:
        store.close()


def copier(what: str, how: str, *paths: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", COPIER, what, how, *map(str, paths)]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def names(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.iterdir())


@pytest.fixture
def store(tmp_path: Path) -> Path:
    fill(tmp_path / "store")
    return tmp_path / "store"


def test_a_backup_is_a_store_with_the_same_rows(store: Path, tmp_path: Path) -> None:
    made = backup(store, tmp_path / "copy")

    assert made.path == str(tmp_path / "copy")
    assert (made.report.threads, made.report.waiting, made.report.broken) == (3, 3, ())
    assert names(tmp_path) == ["copy", "store"]
    assert names(tmp_path / "copy") == ["data.mdb"]
    assert made.size == (tmp_path / "copy" / "data.mdb").stat().st_size
    assert tables_of(tmp_path / "copy") == tables_of(store)
    # A backup is restored as it was made, and a runtime opens what that gives.
    backup(tmp_path / "copy", tmp_path / "restored")
    with Runtime(LmdbStore(tmp_path / "restored"), agents=[echo]) as runtime:
        assert runtime.thread("t1").messages().result().total == 17


@pytest.mark.slow
def test_a_backup_beside_an_owner_at_work_is_one_moment_of_it(tmp_path: Path) -> None:
    with Process(OWNER, tmp_path / "store") as owner:
        assert owner.line() == "works"
        copies = [backup(tmp_path / "store", tmp_path / f"copy{rank}") for rank in range(5)]
        owner.say()
        done = int(owner.line())

    seen = [copy.report.threads + copy.report.deleted for copy in copies]
    assert all(copy.report.broken == () for copy in copies)
    assert seen == sorted(seen)
    assert 5 <= seen[0] <= seen[-1] <= done
    assert seen[0] < done, "the owner stood still"
    assert check(tmp_path / "store").broken == ()


def test_a_backup_replaces_nothing_and_leaves_nothing_of_what_it_refuses(store: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    before = names(tmp_path)
    for name in ("file", "empty", "link", "store"):
        with pytest.raises(InvalidInput) as caught:
            backup(store, tmp_path / name)
        assert caught.value.code in ("target_exists", "invalid_path")
    for target in (store / "copy", store / "." / "copy", tmp_path / "..", tmp_path / "missing" / "copy"):
        with pytest.raises(InvalidInput):
            backup(store, target)
    with pytest.raises(NotAStore):
        backup(tmp_path / "empty", tmp_path / "copy")
    with pytest.raises(InvalidInput):
        backup(store, "")

    assert names(tmp_path) == before
    assert names(tmp_path / "empty") == []
    assert COMPACTING not in names(store)


def test_a_store_that_is_open_in_this_process_is_copied_and_compacted_by_no_one_here(
    store: Path, tmp_path: Path
) -> None:
    with Runtime(LmdbStore(store), agents=[echo]):
        with pytest.raises(StoreInUse):
            backup(store, tmp_path / "copy")
        with pytest.raises(StoreInUse):
            compact(store)

    assert names(tmp_path) == ["store"]


def test_a_broken_store_is_copied_only_where_that_was_asked_for(tmp_path: Path) -> None:
    fill(tmp_path / "store")
    break_it(tmp_path / "store")
    before = (tmp_path / "store" / "data.mdb").read_bytes()
    with pytest.raises(CorruptRecord, match="broken invariants"):
        backup(tmp_path / "store", tmp_path / "copy")
    with pytest.raises(CorruptRecord, match="broken invariants"):
        compact(tmp_path / "store")
    assert names(tmp_path) == ["store"]
    assert (tmp_path / "store" / "data.mdb").read_bytes() == before

    made = backup(tmp_path / "store", tmp_path / "copy", broken_too=True)

    assert made.report.broken
    assert tables_of(tmp_path / "copy") == tables_of(tmp_path / "store")


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
def test_a_backup_that_is_killed_is_whole_or_not_there(point: str, store: Path, tmp_path: Path) -> None:
    rows = tables_of(store)
    assert copier("backup", point, store, tmp_path / "copy").returncode == -signal.SIGKILL

    assert tables_of(store) == rows
    assert (tmp_path / "copy").exists() == (point == PLACED)
    again = copier("backup", "", store, tmp_path / "copy")
    assert again.stdout.strip() == ("target_exists" if point == PLACED else "done")
    assert tables_of(tmp_path / "copy") == rows
    assert names(tmp_path) == ["copy", "store"]


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
def test_a_compaction_that_is_killed_leaves_the_old_store_or_the_new_one(point: str, store: Path) -> None:
    rows, before = tables_of(store), (store / "data.mdb").stat().st_size
    assert copier("compact", point, store).returncode == -signal.SIGKILL

    assert tables_of(store) == rows
    assert ((store / "data.mdb").stat().st_size < before) == (point == PLACED)
    with Runtime(LmdbStore(store), agents=[echo]) as runtime:
        assert runtime.thread("t1").messages().result().total == 17
    assert copier("compact", "", store).stdout.strip() == "done"
    assert names(store) == ["data.mdb", "lock.mdb", "treadle.lock"]
    assert check(store).broken == ()


@pytest.mark.slow
@pytest.mark.parametrize("what", ["backup", "compact"])
def test_a_copy_that_dies_or_finds_no_room_half_way_costs_nothing(what: str, store: Path, tmp_path: Path) -> None:
    rows = tables_of(store)
    paths = (store, tmp_path / "copy") if what == "backup" else (store,)
    place = tmp_path / ".copy.partial" if what == "backup" else store / COMPACTING
    half = str(40_960)

    assert copier(what, f"kill {half}", *paths).returncode == -signal.SIGXFSZ
    assert (place / "data.mdb").stat().st_size == int(half)
    full = copier(what, half, *paths)
    assert (full.stdout.strip(), full.stderr) == ("storage_full", "")
    assert not place.exists()
    assert not (tmp_path / "copy").exists()
    assert tables_of(store) == rows
    assert copier(what, "", *paths).stdout.strip() == "done"


def test_a_compacted_store_is_smaller_and_has_the_same_rows(store: Path) -> None:
    (store / "data.mdb").chmod(0o640)
    rows = tables_of(store)
    count = last_transaction(store / "data.mdb")
    done = compact(store)

    assert done.after == (store / "data.mdb").stat().st_size < done.before
    assert done.report.broken == ()
    assert tables_of(store) == rows
    assert (store / "data.mdb").stat().st_mode & 0o777 == 0o640
    assert names(store) == ["data.mdb", "lock.mdb", "treadle.lock"]
    # Its transactions count on: see `count_on`.
    assert last_transaction(store / "data.mdb") == count
    assert compact(store).after == done.after
    with Runtime(LmdbStore(store), agents=[echo]) as runtime:
        thread = runtime.thread("t1")
        thread.wait(thread.submit("more").result()).result(60)
        assert thread.messages().result().total == 20
    assert check(store).broken == ()


def test_a_backup_can_be_compacted_and_a_link_to_a_data_file_is_not_replaced(store: Path, tmp_path: Path) -> None:
    backup(store, tmp_path / "copy")
    compact(tmp_path / "copy")
    assert tables_of(tmp_path / "copy") == tables_of(store)

    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "data.mdb").symlink_to(store / "data.mdb")
    with pytest.raises(NotAStore, match="is a link"):
        compact(tmp_path / "linked")


@pytest.mark.slow
def test_nobody_compacts_under_an_owner_and_nobody_opens_under_a_compaction(tmp_path: Path) -> None:
    with Process(OWNER, tmp_path / "store") as owner:
        assert owner.line() == "works"
        with pytest.raises(StoreInUse) as caught:
            compact(tmp_path / "store")
        assert caught.value.details["pid"] == owner.pid
    compacting = COPIER.replace("arm(how)", "arm(how, 1, lambda: (print('stands', flush=True), sys.stdin.readline()))")
    with Process(compacting, "compact", CHECKED, tmp_path / "store") as one:
        assert one.line() == "stands"
        with pytest.raises(StoreInUse) as caught:
            LmdbStore(tmp_path / "store").open()
        assert caught.value.details["pid"] == one.pid
        with pytest.raises(StoreInUse):
            compact(tmp_path / "store")
        rows = tables_of(tmp_path / "store")
        one.say()
        assert one.line() == "done"

    assert tables_of(tmp_path / "store") == rows


@pytest.mark.slow
@pytest.mark.parametrize("commits", [0, 1])
def test_a_reader_that_stays_through_a_compaction_confuses_nobody(commits: int, tmp_path: Path) -> None:
    # Readers keep LMDB's lock file counting, and by that number the next owner chooses its meta page: of both parities.
    store = tmp_path / "store"
    fill(store, commits)
    rows = len(tables_of(store)[Table.JOURNAL])
    with Process(READER, store) as reader:
        assert int(reader.line()) == rows
        compact(store)
        with Process(READER, store) as later:
            assert int(later.line()) == rows
            with Runtime(LmdbStore(store, durability="process"), agents=[echo]) as runtime:
                assert runtime.thread("t1").messages().result().total == 17
                for rank in range(20):
                    runtime.thread("t1").set_value("rank", rank).result()
                later.say()
                assert int(later.line()) == rows + 20
            reader.say()
            assert int(reader.line()) <= rows  # of the old file, which is whole

    assert len(tables_of(store)[Table.JOURNAL]) == rows + 20
    assert check(store).broken == ()


FOLLOWER = """
import sys
from treadle.storage import LmdbStore
from treadle.storage.tables import Table
store = LmdbStore(sys.argv[1], read_only=True)
store.open()
for _ in sys.stdin:
    with store.view() as view:
        print(len(view.scan(Table.JOURNAL, b"", None)), flush=True)
"""


def test_a_reader_of_the_file_that_was_compacted_never_falls_back(tmp_path: Path) -> None:
    """Its last commit was a group's, since its owner was killed: the one before it says something else."""
    with Process(OWNER, tmp_path / "store") as owner:
        assert owner.line() == "works"
    rows = len(tables_of(tmp_path / "store")[Table.JOURNAL])
    with Process(FOLLOWER, tmp_path / "store") as reader:
        reader.say()
        assert int(reader.line()) == rows
        compact(tmp_path / "store")
        store = LmdbStore(tmp_path / "store", durability="process")
        number = store.open().number
        seen = []
        for sequence in range(4):
            reader.say()
            seen.append(int(reader.line()))
            write(store, batch(9_999, at=(1, sequence) if sequence else (0, 0), by=(number, 1)))
        store.close()

    assert seen == [rows] * 4


@pytest.mark.slow
@pytest.mark.parametrize("room", [4_096, 20_480])
def test_a_copy_that_dies_or_finds_no_room_does_not_stop_the_owner(room: int, tmp_path: Path) -> None:
    # LMDB holds the owner's write lock while it copies the first two pages, and so may the death of the copy.
    with Process(OWNER, tmp_path / "store") as owner:
        assert owner.line() == "works"
        assert copier("backup", f"kill {room}", tmp_path / "store", tmp_path / "copy").returncode == -signal.SIGXFSZ
        assert copier("backup", str(room), tmp_path / "store", tmp_path / "copy").stdout.strip() == "storage_full"
        made = backup(tmp_path / "store", tmp_path / "copy")
        seen = made.report.threads + made.report.deleted
        # It goes on, as soon as it has a turn; the thread that it was at may have been counted.
        while (now := check(tmp_path / "store")).threads + now.deleted <= seen + 1:
            assert now.broken == ()
        owner.say()
        done = int(owner.line())

    assert made.report.broken == ()
    assert seen < done
    assert check(tmp_path / "store").broken == ()
