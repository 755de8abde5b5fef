"""Owns the question whether a directory is a store or may become one. Changes nothing but to create it if missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import lmdb

from ..protocol.errors import NotAStore
from .lmdb_errors import open_error
from .owner import OWNER_FILE
from .schema import open_tables
from .tables import Table

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["DATA_FILE", "LOCK_FILE", "check_directory", "check_store"]

DATA_FILE: Final = "data.mdb"
LOCK_FILE: Final = "lock.mdb"
_OURS: Final = frozenset({OWNER_FILE, DATA_FILE, LOCK_FILE})
# mkfs makes lost+found; a file system of its own is a fine place for a store.
_NOBODYS: Final = frozenset({"lost+found"})


def check_directory(directory: Path) -> None:
    """Make sure that `directory` is a store or may become one.

    Raises:
        NotAStore: it is no directory, or holds other things, or a database that is not ours.
        SchemaTooNew, StorageFull, StoreFailed: see each.
    """
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = {entry.name for entry in directory.iterdir()} - _NOBODYS
        if OWNER_FILE in found or not found:
            return
        if DATA_FILE in found:
            # No owner file: a copy of a store, or somebody else's database. Looking must not leave a trace.
            _probe(directory)
        elif not found <= _OURS:
            foreign = ", ".join(sorted(found - _OURS)[:5])
            raise NotAStore(f"{directory} holds other files and no store: {foreign}", path=str(directory))
    except (lmdb.Error, OSError) as error:
        raise open_error(directory, error) from error


def check_store(directory: Path) -> None:
    """Make sure that `directory` is a store already; for those who only read.

    Raises:
        NotAStore: it is not, or not yet.
        SchemaTooNew, StoreFailed: see each.
    """
    try:
        if not (directory / DATA_FILE).stat().st_size:
            raise NotAStore(f"{directory} holds no store yet", path=str(directory))
        if not (directory / OWNER_FILE).exists():
            _probe(directory)
    except (lmdb.Error, OSError) as error:
        raise open_error(directory, error) from error


def _probe(directory: Path) -> None:
    if not (directory / DATA_FILE).stat().st_size:
        return
    env = lmdb.open(str(directory), readonly=True, lock=False, create=False, max_dbs=len(Table))
    try:
        open_tables(env, directory)
    finally:
        env.close()
