"""Owns the proof of treadle.storage.directory: what is ours opens, what is not is refused and left as it was."""

from __future__ import annotations

import shutil
import stat
from typing import TYPE_CHECKING

import lmdb
import pytest

from treadle.protocol.errors import NotAStore, SchemaTooNew, TreadleError
from treadle.storage.directory import check_directory
from treadle.storage.lmdb_store import LmdbStore
from treadle.storage.owner import OWNER_FILE
from treadle.storage.schema import MAGIC, SCHEMA, SCHEMA_KEY, SCHEMA_ROW
from treadle.storage.tables import Table

from .driving import batch, contents, head, run, write

if TYPE_CHECKING:
    from pathlib import Path


def snapshot(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def refused(directory: Path) -> TreadleError:
    """Return why opening is refused, having made sure that it changed nothing."""
    before = snapshot(directory)
    with pytest.raises(TreadleError) as caught:
        LmdbStore(directory).open()
    assert snapshot(directory) == before
    return caught.value


def test_a_missing_directory_is_created_with_its_parents_for_its_user_only(tmp_path: Path) -> None:
    store = LmdbStore(tmp_path / "a" / "b")
    store.open()
    store.close()

    assert stat.S_IMODE((tmp_path / "a" / "b").stat().st_mode) == 0o700
    assert sorted(snapshot(tmp_path / "a" / "b")) == ["data.mdb", "lock.mdb", OWNER_FILE]


def test_a_path_that_is_no_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")

    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        for read_only in (False, True):
            with pytest.raises(NotAStore, match=r"a file and no directory|Not a directory"):
                LmdbStore(path, read_only=read_only).open()

    assert snapshot(tmp_path) == {"file": b"text"}


def test_a_link_that_leads_nowhere_is_called_so(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "unmounted")

    for read_only in (False, True):
        with pytest.raises(NotAStore, match="a link that leads nowhere"):
            LmdbStore(tmp_path / "link", read_only=read_only).open()


def test_who_only_reads_is_told_whether_the_directory_or_the_store_is_missing(tmp_path: Path) -> None:
    with pytest.raises(NotAStore, match="holds no store yet"):
        LmdbStore(tmp_path, read_only=True).open()
    with pytest.raises(NotAStore, match="No such file or directory"):
        LmdbStore(tmp_path / "missing", read_only=True).open()


def test_a_directory_with_other_files_is_refused_by_their_names(tmp_path: Path) -> None:
    (tmp_path / "holiday.jpg").write_bytes(b"sea")

    error = refused(tmp_path)

    assert isinstance(error, NotAStore)
    assert "holiday.jpg" in str(error)


def test_a_file_system_made_for_the_store_is_a_fine_place(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()

    check_directory(tmp_path)


@pytest.mark.parametrize(
    ("content", "owned"),
    [
        (b"text" * 5000, False),
        (b"text" * 5000, True),
        (b"\0" * 100, False),
        (b"\0" * 8192, False),
        (b"\0" * 8192, True),
    ],
)
def test_a_data_file_that_is_no_database_is_refused(tmp_path: Path, content: bytes, owned: bool) -> None:
    (tmp_path / "data.mdb").write_bytes(content)
    if owned:
        (tmp_path / OWNER_FILE).write_bytes(b"")

    with pytest.raises(NotAStore):
        LmdbStore(tmp_path).open()

    assert (tmp_path / "data.mdb").read_bytes() == content
    if not owned:
        assert sorted(snapshot(tmp_path)) == ["data.mdb"]


def test_another_programs_database_is_refused_and_not_even_a_lock_file_is_left(tmp_path: Path) -> None:
    with lmdb.open(str(tmp_path), max_dbs=1) as env:
        env.open_db(b"theirs")
    (tmp_path / "lock.mdb").unlink()

    assert isinstance(refused(tmp_path), NotAStore)


def filled(directory: Path) -> None:
    store = LmdbStore(directory)
    store.open()
    write(store, batch(ops=[(Table.JOURNAL, b"a", b"1")], change=b"c"))
    store.close()


def test_a_newer_store_is_refused_by_its_schema_and_left_as_it_was(tmp_path: Path) -> None:
    filled(tmp_path)
    with lmdb.open(str(tmp_path), max_dbs=len(Table)) as env:
        meta = env.open_db(b"meta")
        with env.begin(write=True) as txn:
            txn.put(SCHEMA_KEY, SCHEMA_ROW.pack(MAGIC, SCHEMA + 1), db=meta)
    data = (tmp_path / "data.mdb").read_bytes()

    with pytest.raises(SchemaTooNew):
        LmdbStore(tmp_path).open()
    assert (tmp_path / "data.mdb").read_bytes() == data

    (tmp_path / OWNER_FILE).unlink()
    (tmp_path / "lock.mdb").unlink()
    assert isinstance(refused(tmp_path), SchemaTooNew)


def test_a_store_from_before_the_log_is_opened_to_write_and_then_read_by_all(tmp_path: Path) -> None:
    filled(tmp_path)
    with lmdb.open(str(tmp_path), max_dbs=len(Table)) as env:
        meta, log = env.open_db(b"meta"), env.open_db(b"log")
        with env.begin(write=True) as txn:
            txn.put(SCHEMA_KEY, SCHEMA_ROW.pack(MAGIC, 1), db=meta)
            txn.drop(log)
    reader, store = LmdbStore(tmp_path, read_only=True), LmdbStore(tmp_path)

    with pytest.raises(NotAStore, match="opening it once to write") as caught:
        reader.open()
    assert (caught.value.details["found"], caught.value.details["known"]) == (1, SCHEMA)
    store.open()
    assert write(store, batch(at=(1, 1), by=(2, 1), ops=[(Table.JOURNAL, b"b", b"2")]))[0].kind == "committed"
    store.close()
    reader.open()
    assert contents(reader, Table.JOURNAL) == {b"a": b"1", b"b": b"2"}
    reader.close()


def test_a_copy_of_the_data_file_alone_is_a_store(tmp_path: Path) -> None:
    filled(tmp_path / "first")
    (tmp_path / "copy").mkdir()
    shutil.copy(tmp_path / "first" / "data.mdb", tmp_path / "copy")
    store = LmdbStore(tmp_path / "copy")

    assert store.open().number == 2

    assert contents(store, Table.JOURNAL) == {b"a": b"1"}
    assert write(store, batch(at=(1, 1), by=(2, 1), change=b"d"))[0].change == 2
    assert head(store, 1) == (1, 2, 2, 1, 2)
    store.close()


@pytest.mark.parametrize(
    "files",
    [
        {},
        {OWNER_FILE: b""},
        {OWNER_FILE: b"", "lock.mdb": b""},
        {OWNER_FILE: b"", "lock.mdb": bytes(8192), "data.mdb": b""},
        {OWNER_FILE: b"", "data.mdb": b"half of the meta pages" * 50},
        {"lock.mdb": b""},
        {"data.mdb": b""},
    ],
    ids=str,
)
def test_what_a_crash_in_the_first_open_leaves_becomes_a_store(tmp_path: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    store = LmdbStore(tmp_path)

    assert store.open().number == 1

    assert write(store, batch())[0].kind == "committed"
    store.close()


def test_a_store_keeps_working_with_other_files_beside_it(tmp_path: Path) -> None:
    filled(tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    store = LmdbStore(tmp_path)

    assert store.open().number == 2

    store.close()
    assert (tmp_path / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("files", [{}, {"data.mdb": b""}, {"data.mdb": b"text" * 5000}, {"holiday.jpg": b"sea"}])
def test_who_only_reads_makes_no_store_and_no_file(tmp_path: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)

    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(NotAStore):
            LmdbStore(path, read_only=True).open()

    assert snapshot(tmp_path) == files


def test_who_only_reads_makes_no_store_of_an_empty_database(tmp_path: Path) -> None:
    lmdb.open(str(tmp_path)).close()
    (tmp_path / OWNER_FILE).write_bytes(b"")

    with pytest.raises(NotAStore):
        LmdbStore(tmp_path, read_only=True).open()


READ_ONLY = """
import os, shutil, sys, tempfile
from pathlib import Path
from treadle.storage.lmdb_store import LmdbStore
from treadle.protocol.errors import NotAStore
path = Path(tempfile.mkdtemp())
path.chmod(0o555)
mine = os.getuid()
if mine == 0:
    os.seteuid(65534)  # permissions do not bind root
try:
    LmdbStore(path).open()
except NotAStore as error:
    print(error.details["reason"], list(path.iterdir()))
os.seteuid(mine)
path.rmdir()
"""


def test_a_directory_that_may_not_be_written_is_refused() -> None:
    assert run(READ_ONLY).stdout == "Permission denied []\n"
