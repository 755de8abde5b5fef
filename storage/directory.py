"""Owns the question whether a directory is a store or may become one. Changes nothing but to create it if missing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import lmdb

from ..protocol.errors import InvalidInput, NotAStore, shorten
from .lmdb_errors import open_error
from .meta_pages import check_length
from .owner import DATA_FILE, OWNER_FILE
from .schema import open_tables
from .tables import Table

__all__ = ["DATA_FILE", "LOCK_FILE", "check_directory", "check_store", "store_path"]

LOCK_FILE: Final = "lock.mdb"
_OURS: Final = frozenset({OWNER_FILE, DATA_FILE, LOCK_FILE})
# mkfs makes lost+found; a file system of its own is a fine place for a store.
_NOBODYS: Final = frozenset({"lost+found"})


def store_path(path: object) -> Path:
    """Return the path that a caller gave for a store. Looks at no file.

    Raises:
        InvalidInput: `invalid_path`; no system and no LMDB could open it, or it is empty: that would be wherever the
            process happens to stand.
    """
    try:
        text = os.fspath(path)  # type: ignore[call-overload]  # whatever the caller gave
        if isinstance(text, str) and text and b"\0" not in text.encode():
            return Path(text)
    except (TypeError, UnicodeEncodeError) as error:
        raise _no_path(path) from error
    raise _no_path(path)


def _no_path(path: object) -> InvalidInput:
    return InvalidInput(
        f"the path of a store is non-empty Unicode text without NUL, or a path object, not {shorten(path)}",
        code="invalid_path",
        value=shorten(path),
    )


def check_directory(directory: Path) -> None:
    """Make sure that `directory` is a store or may become one.

    Raises:
        NotAStore: it is no directory, or holds other things, or a database that is not ours.
        SchemaTooNew, CorruptRecord, StorageFull, StoreFailed: see each.
    """
    try:
        _refuse_file(directory)
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
        SchemaTooNew, CorruptRecord, StoreFailed: see each.
    """
    try:
        _refuse_file(directory)
        data = directory / DATA_FILE
        if directory.is_dir() and not (data.exists() and data.stat().st_size):
            raise NotAStore(f"{directory} holds no store yet", path=str(directory))
        data.stat()  # where the directory is missing, the system says so
        if not (directory / OWNER_FILE).exists():
            _probe(directory)
    except (lmdb.Error, OSError) as error:
        raise open_error(directory, error) from error


def _refuse_file(directory: Path) -> None:
    # The system's own word for it is "File exists", of whatever stands in the way.
    if directory.is_dir() or not os.path.lexists(directory):
        return
    what = "a file and no directory" if directory.exists() else "a link that leads nowhere"
    raise NotAStore(f"{directory} is {what}", path=str(directory))


def _probe(directory: Path) -> None:
    if not (directory / DATA_FILE).stat().st_size:
        return
    check_length(directory / DATA_FILE)
    env = lmdb.open(str(directory), readonly=True, lock=False, create=False, max_dbs=len(Table))
    try:
        open_tables(env, directory)
    finally:
        env.close()
