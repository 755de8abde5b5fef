"""Owns what every store holds besides its contents: the schema stamp, the list of tables, the boot record.

A new store gets its stamp and all its tables in one transaction, so a crash leaves an empty file or a whole store.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

import lmdb

from ..protocol.errors import CorruptRecord, NotAStore, SchemaTooNew
from .store import Boot, View
from .tables import Table

if TYPE_CHECKING:
    from pathlib import Path

    # The handle's class is private to lmdb; nothing of it is used but its identity.
    from lmdb import _Database as Database

__all__ = [
    "NO_BOOT_ID", "SCHEMA", "boot_id_of", "create_tables", "open_tables", "pack_boot", "unpack_boot", "upgrade_tables",
]  # fmt: skip

# 1 had no LOG. Who knows only that would read and write past what waits there, so the number shuts it out.
SCHEMA: Final = 2
_BEFORE_LOG: Final = 1
SCHEMA_KEY: Final = b"schema"
SCHEMA_ROW: Final = struct.Struct(">7sI")
MAGIC: Final = b"treadle"
BOOT_KEY: Final = b"boot"
NO_BOOT_ID: Final = "0" * 32
_BOOT_ROW: Final = struct.Struct(">I16s")


def open_tables(env: lmdb.Environment, directory: Path) -> list[Database]:
    """Return the tables of a store, an empty list if the environment is empty, all but LOG for one of schema 1.

    Raises:
        NotAStore: it is another program's.
        SchemaTooNew: a newer version wrote it.
        CorruptRecord: a table is missing.
    """
    try:
        meta = env.open_db(b"meta", create=False)
    except (lmdb.NotFoundError, lmdb.IncompatibleError) as error:
        if env.stat()["entries"]:
            raise _foreign(directory) from error
        return []
    with env.begin() as txn:
        schema = _check_stamp(txn.get(SCHEMA_KEY, None, meta), directory)
    there = [table for table in Table if schema > _BEFORE_LOG or table is not Table.LOG]
    try:
        return [env.open_db(_name(table), create=False) for table in there]
    except lmdb.NotFoundError as error:
        raise CorruptRecord(f"the store in {directory} lacks a table: {error}", path=str(directory)) from error


def create_tables(env: lmdb.Environment) -> list[Database]:
    """Make an empty environment a store, in one transaction, and return its tables."""
    with env.begin(write=True) as txn:
        tables = [env.open_db(_name(table), txn=txn) for table in Table]
        txn.put(SCHEMA_KEY, SCHEMA_ROW.pack(MAGIC, SCHEMA), db=tables[Table.META])
    return tables


def upgrade_tables(env: lmdb.Environment, tables: list[Database]) -> list[Database]:
    """Make a store of an earlier schema one of this, in one transaction, and return its tables; for its owner."""
    stamp = SCHEMA_ROW.pack(MAGIC, SCHEMA)
    with env.begin() as txn:
        if txn.get(SCHEMA_KEY, None, tables[Table.META]) == stamp:
            return tables
    while True:
        try:
            with env.begin(write=True) as txn:
                log = env.open_db(_name(Table.LOG), txn=txn)
                txn.put(SCHEMA_KEY, stamp, db=tables[Table.META])
        except lmdb.MapFullError:
            env.set_mapsize(env.info()["map_size"] * 2)  # nobody reads yet
        else:
            return [*tables[: Table.LOG], log]


def pack_boot(boot: Boot) -> tuple[tuple[bytes, bytes], ...]:
    """Return keys and values of the rows in META that record a boot: as the last one, and by its number."""
    boot_id = bytes.fromhex(boot.id)
    return (BOOT_KEY, _BOOT_ROW.pack(boot.number, boot_id)), (_numbered_boot(boot.number), boot_id)


def unpack_boot(row: bytes | None) -> Boot:
    """Return the boot that a row of META records; number 0 if there is none.

    Raises:
        CorruptRecord: the row is not a boot record.
    """
    if row is None:
        return Boot(0, NO_BOOT_ID)
    if len(row) != _BOOT_ROW.size:
        raise CorruptRecord("the boot record does not decode", table="meta", key=BOOT_KEY.hex())
    number, boot_id = _BOOT_ROW.unpack(row)
    return Boot(number, boot_id.hex())


def boot_id_of(view: View, number: int) -> str:
    """Return the id of an earlier boot, `NO_BOOT_ID` where the store has no record of it."""
    row = view.get(Table.META, _numbered_boot(number))
    return NO_BOOT_ID if row is None else row.hex()


def _numbered_boot(number: int) -> bytes:
    return BOOT_KEY + number.to_bytes(4, "big")


def _name(table: Table) -> bytes:
    return table.name.lower().encode()


def _check_stamp(row: bytes | None, directory: Path) -> int:
    magic, schema = SCHEMA_ROW.unpack(row) if row is not None and len(row) == SCHEMA_ROW.size else (b"", 0)
    if magic != MAGIC:
        raise _foreign(directory)
    if schema > SCHEMA:
        raise SchemaTooNew(
            f"the store in {directory} has schema {schema}; this version reads up to {SCHEMA}",
            path=str(directory),
            found=schema,
            known=SCHEMA,
        )
    return int(schema)


def _foreign(directory: Path) -> NotAStore:
    return NotAStore(f"{directory} holds another program's database", path=str(directory))
