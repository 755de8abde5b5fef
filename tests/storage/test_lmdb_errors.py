"""Owns the proof of treadle.storage.lmdb_errors: errors are told apart by code, and each becomes one of ours."""

from __future__ import annotations

import errno
import os
import struct
from pathlib import Path

import lmdb
import pytest

from treadle.protocol.errors import (
    AppendConflict,
    CorruptRecord,
    NotAStore,
    StorageFull,
    StoreClosed,
    StoreFailed,
    StoreInUse,
    TreadleError,
    Unavailable,
)
from treadle.storage.lmdb_errors import Fault, classify, open_error, read_error


def of_lmdb(kind: type[lmdb.Error], code: int) -> lmdb.Error:
    """Return an error as LMDB raises it: it alone sets the code."""
    error = kind(f"mdb_txn_commit: {os.strerror(code)}")
    error.__dict__["code"] = code
    return error


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (lmdb.MapFullError("mdb_put"), Fault.GROW),
        (of_lmdb(lmdb.Error, errno.EFBIG), Fault.FULL),
        (of_lmdb(lmdb.Error, errno.ENOSPC), Fault.FULL),
        (of_lmdb(lmdb.DiskError, errno.ENOSPC), Fault.FULL),
        (of_lmdb(lmdb.Error, errno.EDQUOT), Fault.FULL),
        (OSError(errno.ENOSPC, "full"), Fault.FULL),
        (lmdb.BadValsizeError("mdb_put"), Fault.BATCH),
        (lmdb.TxnFullError("mdb_put"), Fault.BATCH),
        (AppendConflict("no"), Fault.BATCH),
        (TypeError("a key of text"), Fault.BATCH),
        (struct.error("a number too large"), Fault.BATCH),
        (OverflowError("a number too large"), Fault.BATCH),
        (IndexError("no such table"), Fault.BATCH),
        (of_lmdb(lmdb.Error, errno.EIO), Fault.FATAL),
        (of_lmdb(lmdb.DiskError, errno.EIO), Fault.FATAL),
        (lmdb.PanicError("mdb_txn_begin"), Fault.FATAL),
        (lmdb.CorruptedError("mdb_get"), Fault.FATAL),
        (lmdb.BadTxnError("mdb_put"), Fault.FATAL),
        (of_lmdb(lmdb.MemoryError, errno.ENOMEM), Fault.FATAL),
        (OSError(errno.EIO, "broken"), Fault.FATAL),
        (MemoryError(), Fault.FATAL),
        (RuntimeError("a bug"), Fault.FATAL),
        (KeyboardInterrupt(), Fault.FATAL),
    ],
    ids=repr,
)
def test_a_fault_is_told_by_its_code(error: BaseException, fault: Fault) -> None:
    assert classify(error) is fault


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (OSError(errno.ENOSPC, "x"), StorageFull),
        (of_lmdb(lmdb.Error, errno.EDQUOT), StorageFull),
        (OSError(errno.EACCES, "x"), NotAStore),
        (OSError(errno.EROFS, "x"), NotAStore),
        (OSError(errno.ENOTDIR, "x"), NotAStore),
        (of_lmdb(lmdb.Error, errno.ENOENT), NotAStore),
        (lmdb.InvalidError("x"), NotAStore),
        (lmdb.VersionMismatchError("x"), NotAStore),
        (lmdb.Error("The environment 'x' is already open in this process."), StoreInUse),
        (OSError(errno.EMFILE, "x"), StoreFailed),
        (OSError(errno.EIO, "x"), StoreFailed),
        (of_lmdb(lmdb.MemoryError, errno.ENOMEM), StoreFailed),
    ],
    ids=repr,
)
def test_an_error_of_opening_names_the_path(error: lmdb.Error | OSError, kind: type[TreadleError]) -> None:
    refusal = open_error(Path("some/where"), error)

    assert type(refusal) is kind
    assert refusal.details["path"] == "some/where"
    assert "some/where" in str(refusal)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (lmdb.CorruptedError("mdb_get"), CorruptRecord),
        (lmdb.PageNotFoundError("mdb_get"), CorruptRecord),
        (lmdb.ReadersFullError("mdb_txn_begin"), Unavailable),
        (lmdb.Error("Attempt to operate on closed/deleted/dropped object."), StoreClosed),
        (lmdb.PanicError("mdb_txn_begin"), StoreFailed),
        (of_lmdb(lmdb.Error, errno.EIO), StoreFailed),
    ],
    ids=repr,
)
def test_an_error_of_reading_is_one_of_ours(error: lmdb.Error, kind: type[TreadleError]) -> None:
    refusal = read_error(error, 3, b"\x01")

    assert type(refusal) is kind
    if kind is CorruptRecord:
        assert refusal.details == {"table": "journal", "key": "01"}


def test_damage_found_outside_any_table_is_a_failed_store() -> None:
    assert type(read_error(lmdb.CorruptedError("mdb_txn_begin"))) is StoreFailed
