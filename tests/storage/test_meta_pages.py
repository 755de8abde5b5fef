"""Owns the proof of treadle.storage.meta_pages: a data file that was cut short is named, and nobody dies of it."""

from __future__ import annotations

import os
import struct
from contextlib import suppress
from typing import TYPE_CHECKING

import lmdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.protocol.errors import CorruptRecord
from treadle.storage import meta_pages
from treadle.storage.lmdb_store import LmdbStore
from treadle.storage.meta_pages import check_length, check_pages, count_on, last_transaction
from treadle.storage.tables import Table

from .driving import batch, contents, key, run, write

if TYPE_CHECKING:
    from pathlib import Path

PAGE = os.sysconf("SC_PAGESIZE")

# In a process of its own: without the check, each of these calls would end it by SIGBUS.
CUT = """
import os, sys
from pathlib import Path
from treadle.protocol.errors import TreadleError
from treadle.storage import LmdbStore
from treadle.storage.check import check, main
path = Path(sys.argv[1])
data = path / "data.mdb"
whole = data.read_bytes()
for size in map(int, sys.argv[2:]):
    for owned in (True, False):
        for call in (lambda: LmdbStore(path).open(), lambda: LmdbStore(path, read_only=True).open(), lambda: check(path)):
            data.write_bytes(whole[:size])
            (path / "treadle.lock").touch() if owned else (path / "treadle.lock").unlink(missing_ok=True)
            try:
                call()
            except TreadleError as error:
                assert data.read_bytes() == whole[:size]
                found, needed = error.details["size"], error.details["needed"]
                print(error.code, error.details["path"] == str(data), found, needed > size, "cut short" in str(error))
            else:
                print(size, "opened")
                sys.exit(1)
    print(main([str(path)]))
"""


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    """Return the data file of a store of some hundred pages."""
    store = LmdbStore(tmp_path / "store")
    store.open()
    write(store, *(batch(number, ops=[(Table.JOURNAL, key(number), bytes(3000))]) for number in range(1, 200)))
    store.close()
    return tmp_path / "store" / "data.mdb"


def test_a_store_that_was_cut_short_is_refused_by_everyone_who_opens_it(filled: Path) -> None:
    whole = filled.stat().st_size
    sizes = [whole - 1, whole // 2, 3 * PAGE, 2 * PAGE - 1, PAGE, 152]
    done = run(CUT, filled.parent, *sizes)

    said = [[f"corrupt_record True {size} True True"] * 6 + ["2"] for size in sizes]
    assert done.stdout.splitlines() == [line for lines in said for line in lines]
    assert done.returncode == 0


def test_the_error_says_how_long_the_file_is_and_how_long_it_must_be(filled: Path) -> None:
    whole = filled.stat().st_size
    os.truncate(filled, whole - PAGE)
    with pytest.raises(CorruptRecord) as caught:
        check_length(filled)

    assert caught.value.details == {"path": str(filled), "size": whole - PAGE, "needed": whole}


@pytest.mark.parametrize("size", [0, 1, 151])
def test_where_nothing_is_left_nothing_can_be_said(filled: Path, size: int) -> None:
    os.truncate(filled, size)

    check_length(filled)


def test_a_whole_store_and_a_missing_one_pass(filled: Path) -> None:
    check_length(filled)
    check_length(filled.with_name("missing"))


def test_damaged_pages_are_named_and_what_is_no_data_file_is_let_through(filled: Path) -> None:
    check_pages(filled)
    check_pages(filled.with_name("missing"))
    whole = filled.read_bytes()
    filled.write_bytes(whole[: 2 * PAGE] + b"\xff" * (len(whole) - 2 * PAGE))
    with pytest.raises(CorruptRecord, match=r"has damaged pages: .*, and \d+ more") as caught:
        check_pages(filled)
    assert caught.value.details["path"] == str(filled)
    assert 1 < len(caught.value.details["pages"]) <= 20
    for content in (b"", b"text" * 5_000, bytes(3 * PAGE)):
        filled.write_bytes(content)
        check_pages(filled)
    filled.write_bytes(whole[: 2 * PAGE])
    with pytest.raises(CorruptRecord, match="was cut short"):
        check_pages(filled)


def test_pages_that_a_commit_may_have_changed_are_not_called_damaged(
    filled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LmdbStore(filled.parent)
    boot = store.open()
    walk = ["a page of another commit"]

    def walk_beside_a_commit(_: str) -> list[str]:
        write(store, batch(1_000, by=(boot.number, 1)))
        return walk

    monkeypatch.setattr(meta_pages, "verify", walk_beside_a_commit)
    check_pages(filled)
    monkeypatch.setattr(meta_pages, "verify", lambda _: walk)
    with pytest.raises(CorruptRecord, match=r"damaged pages: a page of another commit$"):
        check_pages(filled)
    store.close()


def test_a_disk_that_was_full_when_the_store_was_made_leaves_nothing_to_complain_of(tmp_path: Path) -> None:
    lmdb.open(str(tmp_path)).close()
    for size in (2 * PAGE, PAGE + 10, PAGE, 152):
        os.truncate(tmp_path / "data.mdb", size)
        check_length(tmp_path / "data.mdb")


def test_pages_that_were_given_back_before_they_were_written_are_not_missing(filled: Path) -> None:
    with lmdb.open(str(filled.parent), max_dbs=len(Table), map_size=1 << 26) as env:
        journal = env.open_db(b"journal")
        for value in (b"so that there are free pages", b"and they may be used"):
            with env.begin(write=True) as txn:
                txn.put(b"a", value, db=journal)
        with env.begin(write=True) as txn:
            txn.put(b"large", bytes(1 << 20), db=journal)
            txn.delete(b"large", b"", journal)
    with filled.open("rb") as data:
        last_page = max(struct.unpack_from("=QQ", data.read(2 * PAGE), at + 136)[::-1] for at in (0, PAGE))[1]
    assert filled.stat().st_size < last_page * PAGE
    store = LmdbStore(filled.parent)
    store.open()

    assert len(contents(store, Table.JOURNAL)) == 200
    store.close()

    os.truncate(filled, filled.stat().st_size // 2)
    with pytest.raises(CorruptRecord):
        store.open()


@given(st.integers(0, 151), st.binary(min_size=1, max_size=16), st.integers(0, 2 * PAGE))
def test_whatever_the_metas_say_the_answer_is_yes_or_no(
    tmp_path_factory: pytest.TempPathFactory, at: int, noise: bytes, size: int
) -> None:
    path = tmp_path_factory.mktemp("metas")
    lmdb.open(str(path)).close()
    data = path / "data.mdb"
    whole = bytearray(data.read_bytes())
    whole[at : at + len(noise)] = noise
    data.write_bytes(whole[:size])

    with suppress(CorruptRecord):
        check_length(data)


@pytest.mark.parametrize("transaction", [1, 2, 7, 8])
def test_a_compacted_copy_counts_on_from_any_number_and_both_of_its_pages_say_the_same(
    filled: Path, tmp_path: Path, transaction: int
) -> None:
    store = LmdbStore(filled.parent, read_only=True)
    store.open()
    rows = contents(store, Table.JOURNAL)
    copy = tmp_path / "copy" / "data.mdb"
    copy.parent.mkdir()
    with copy.open("xb") as file:
        store.copy_to(file.fileno(), compact=True)
    store.close()
    assert last_transaction(copy) == 1

    count_on(copy, transaction)

    assert last_transaction(copy) == transaction
    with lmdb.open(str(copy.parent), readonly=True, lock=False) as env:
        assert env.info()["last_txnid"] == transaction
    pages = copy.read_bytes()[: 2 * PAGE]
    assert pages[16:144] == pages[PAGE + 16 : PAGE + 144]
    assert struct.unpack_from("=Q", pages, (transaction & 1) * PAGE + 144) == (transaction,)
    check_length(copy)
    for _ in range(2):  # a transaction on either page
        store = LmdbStore(copy.parent)
        store.open()
        assert contents(store, Table.JOURNAL) == rows
        store.close()


def test_what_has_no_meta_pages_counts_nothing(tmp_path: Path) -> None:
    (tmp_path / "data.mdb").write_bytes(bytes(2 * PAGE))
    with pytest.raises(CorruptRecord):
        last_transaction(tmp_path / "data.mdb")
    with pytest.raises(CorruptRecord):
        count_on(tmp_path / "data.mdb", 5)
