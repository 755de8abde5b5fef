"""Owns what errors of LMDB and the file system mean for us. Never handles one: it only names the fault.

LMDB passes on the code of whatever failed beneath it, and only some codes have a class of their own: EFBIG arrives as
a bare `lmdb.Error`. So the code decides, never the class.
"""

from __future__ import annotations

import errno
import os
import struct
from enum import Enum
from typing import TYPE_CHECKING

import lmdb

from ..protocol.errors import (
    CorruptRecord,
    NotAStore,
    StorageFull,
    StoreClosed,
    StoreFailed,
    StoreInUse,
    TreadleError,
    Unavailable,
)
from .tables import Table

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["FULL", "Fault", "classify", "copy_error", "is_short_write", "open_error", "read_error"]

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_UNUSABLE_PATH = frozenset(
    {
        errno.EACCES,
        errno.EEXIST,
        errno.EISDIR,
        errno.ELOOP,
        errno.ENAMETOOLONG,
        errno.ENOENT,
        errno.ENOTDIR,
        errno.EPERM,
        errno.EROFS,
    }
)
_NOT_LMDB = (lmdb.InvalidError, lmdb.VersionMismatchError, lmdb.CorruptedError, lmdb.PageNotFoundError)
# What a batch can cause by its own contents; LMDB looks at sizes before it changes anything.
_OF_THE_BATCH = (
    lmdb.BadValsizeError,
    lmdb.TxnFullError,
    TreadleError,
    TypeError,
    ValueError,
    OverflowError,
    LookupError,
    struct.error,
)


class Fault(Enum):
    """Whose fault an error in a write transaction is, and so what to do."""

    GROW = "the map is too small: grow it and redo"
    FULL = "the disk has no room: the batch was not written, the store stays usable"
    BATCH = "this batch cannot be written by any store"
    FATAL = "nobody can judge it: take no more writes"


def classify(error: BaseException) -> Fault:
    """Return what kind of fault ended a write transaction."""
    if isinstance(error, lmdb.MapFullError):
        return Fault.GROW
    if _code(error) in FULL:
        return Fault.FULL
    if isinstance(error, _OF_THE_BATCH):
        return Fault.BATCH
    return Fault.FATAL


def is_short_write(error: BaseException) -> bool:
    """Return whether the disk may have filled up in the middle of one write of many pages.

    LMDB reports that as EIO, which is also what a dying disk says; only a look at the room that is left can tell.
    """
    return isinstance(error, lmdb.Error) and _code(error) == errno.EIO


def open_error(path: Path, error: lmdb.Error | OSError) -> TreadleError:
    """Return what it means that a file or environment under `path` could not be opened or created."""
    code = _code(error)
    reason = os.strerror(code) if code > 0 else str(error)
    details = {"path": str(path), "reason": reason}
    if code in FULL:
        return StorageFull(f"no room to open a store in {path}: {reason}", **details)
    if code in _UNUSABLE_PATH:
        return NotAStore(f"{path} cannot be used as a store: {reason}", **details)
    if isinstance(error, _NOT_LMDB):
        return NotAStore(f"{path} holds a file that is not of a store: {reason}", **details)
    if "already open in this process" in str(error):
        return StoreInUse(f"{path} is open in this process", holder="this process", **details)
    return StoreFailed(f"the store in {path} could not be opened: {reason}", **details)


def copy_error(path: Path, error: lmdb.Error | OSError) -> TreadleError:
    """Return what it means that a store could not be copied; `path` is named in it."""
    code = _code(error)
    reason = os.strerror(code) if code > 0 else str(error)
    details = {"path": str(path), "reason": reason}
    if code in FULL:
        return StorageFull(f"no room for a copy of {path}: {reason}", **details)
    return StoreFailed(f"{path} could not be copied: {reason}", **details)


def read_error(error: lmdb.Error, table: int | None = None, key: bytes = b"") -> TreadleError:
    """Return what it means that a read failed."""
    if isinstance(error, lmdb.CorruptedError | lmdb.PageNotFoundError) and table is not None:
        name = Table(table).name.lower()
        return CorruptRecord(f"table {name} is damaged near {key.hex()}: {error}", table=name, key=key.hex())
    if isinstance(error, lmdb.ReadersFullError):
        return Unavailable("other processes hold all reader slots of the store", reason=str(error))
    if "closed/deleted/dropped" in str(error):
        return StoreClosed("the store was closed while this view was open")
    return StoreFailed(f"the store cannot be read: {error}", reason=str(error))


def _code(error: BaseException) -> int:
    if isinstance(error, lmdb.Error):
        # Set on what LMDB itself raises only, whatever the type stub says.
        return int(getattr(error, "code", 0))
    return (error.errno or 0) if isinstance(error, OSError) else 0
