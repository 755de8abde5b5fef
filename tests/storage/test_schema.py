"""Owns the proof of treadle.storage.schema: the stamp, the tables and the boot record are all or nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lmdb
import pytest

from treadle.protocol.errors import CorruptRecord, NotAStore, SchemaTooNew
from treadle.storage.schema import (
    BOOT_KEY,
    MAGIC,
    SCHEMA,
    SCHEMA_KEY,
    SCHEMA_ROW,
    create_tables,
    open_tables,
    pack_boot,
    unpack_boot,
    upgrade_tables,
)
from treadle.storage.store import Boot
from treadle.storage.tables import Table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def env(tmp_path: Path) -> Iterator[lmdb.Environment]:
    with lmdb.open(str(tmp_path), max_dbs=len(Table) + 1) as env:
        yield env


def test_an_empty_environment_has_no_tables_and_gets_them_all_in_one_transaction(
    env: lmdb.Environment, tmp_path: Path
) -> None:
    before = env.info()["last_txnid"]
    assert open_tables(env, tmp_path) == []

    made = create_tables(env)

    assert len(made) == len(open_tables(env, tmp_path)) == len(Table)
    assert env.dbs() == sorted(table.name.lower().encode() for table in Table)
    assert env.info()["last_txnid"] == before + 1


def test_the_stamp_is_pinned() -> None:
    assert (SCHEMA_KEY, SCHEMA_ROW.pack(MAGIC, SCHEMA)) == (b"schema", b"treadle\x00\x00\x00\x02")


def test_a_newer_schema_is_refused_by_number(env: lmdb.Environment, tmp_path: Path) -> None:
    meta = create_tables(env)[Table.META]
    with env.begin(write=True) as txn:
        txn.put(SCHEMA_KEY, SCHEMA_ROW.pack(MAGIC, SCHEMA + 1), db=meta)

    with pytest.raises(SchemaTooNew) as caught:
        open_tables(env, tmp_path)

    assert caught.value.details == {"path": str(tmp_path), "found": SCHEMA + 1, "known": SCHEMA}


@pytest.mark.parametrize("stamp", [None, b"", b"treadle", b"another\x00\x00\x00\x01", b"treadle\x00\x00\x00\x01\x00"])
def test_a_meta_table_without_our_stamp_is_another_programs(
    env: lmdb.Environment, tmp_path: Path, stamp: bytes | None
) -> None:
    meta = env.open_db(b"meta")
    if stamp is not None:
        with env.begin(write=True) as txn:
            txn.put(SCHEMA_KEY, stamp, db=meta)

    with pytest.raises(NotAStore):
        open_tables(env, tmp_path)


@pytest.mark.parametrize("name", [b"meta", b"other"])
def test_an_environment_with_rows_of_its_own_is_another_programs(
    env: lmdb.Environment, tmp_path: Path, name: bytes
) -> None:
    with env.begin(write=True) as txn:
        txn.put(name, b"a plain row")

    with pytest.raises(NotAStore):
        open_tables(env, tmp_path)


def test_a_store_that_lacks_a_table_is_corrupt(env: lmdb.Environment, tmp_path: Path) -> None:
    tables = create_tables(env)
    with env.begin(write=True) as txn:
        txn.drop(tables[Table.WORK])

    with pytest.raises(CorruptRecord):
        open_tables(env, tmp_path)


def of_schema_one(env: lmdb.Environment, *, with_log: bool) -> None:
    tables = create_tables(env)
    with env.begin(write=True) as txn:
        txn.put(SCHEMA_KEY, SCHEMA_ROW.pack(MAGIC, 1), db=tables[Table.META])
        if not with_log:
            txn.drop(tables[Table.LOG])


@pytest.mark.parametrize("with_log", [False, True])
def test_an_earlier_schema_is_brought_to_this_one_in_one_transaction(tmp_path: Path, with_log: bool) -> None:
    with lmdb.open(str(tmp_path), max_dbs=len(Table)) as env:
        of_schema_one(env, with_log=with_log)
    with lmdb.open(str(tmp_path), max_dbs=len(Table)) as env:
        before = env.info()["last_txnid"]
        found = open_tables(env, tmp_path)
        assert len(found) == len(Table) - 1

        tables = upgrade_tables(env, found)

        assert len(tables) == len(Table)
        with env.begin() as txn:
            assert txn.get(SCHEMA_KEY, None, tables[Table.META]) == SCHEMA_ROW.pack(MAGIC, SCHEMA)
            assert txn.stat(tables[Table.LOG])["entries"] == 0
        assert upgrade_tables(env, tables) is tables
        assert env.info()["last_txnid"] == before + 1


def test_an_earlier_schema_is_left_behind_in_a_map_that_is_full_as_well(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    with lmdb.open(str(tmp_path), max_dbs=len(Table)) as env:
        of_schema_one(env, with_log=False)
        env.copy(str(tmp_path / "full"), compact=True)
    with lmdb.open(str(tmp_path / "full"), max_dbs=len(Table), map_size=1) as env:
        size = env.info()["map_size"]

        tables = upgrade_tables(env, open_tables(env, tmp_path))

        assert env.info()["map_size"] == 2 * size
        assert len(tables) == len(open_tables(env, tmp_path)) == len(Table)


def test_an_earlier_schema_excuses_no_other_table(tmp_path: Path) -> None:
    with lmdb.open(str(tmp_path), max_dbs=len(Table)) as env:
        of_schema_one(env, with_log=True)
        with env.begin(write=True) as txn:
            txn.drop(env.open_db(b"work", txn=txn))
    with lmdb.open(str(tmp_path), max_dbs=len(Table)) as env, pytest.raises(CorruptRecord):
        open_tables(env, tmp_path)


def test_a_boot_comes_back_from_its_row() -> None:
    boot = Boot(2**32 - 1, "0123456789abcdef" * 2)

    assert unpack_boot(dict(pack_boot(boot))[BOOT_KEY]) == boot
    assert unpack_boot(None) == Boot(0, "0" * 32)


@pytest.mark.parametrize("row", [b"", b"x" * 19, b"x" * 21])
def test_a_boot_record_of_another_size_is_corrupt(row: bytes) -> None:
    with pytest.raises(CorruptRecord):
        unpack_boot(row)
