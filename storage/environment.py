"""Owns the LMDB environment of one data directory: opening, growing and closing it. Knows no batches."""

from __future__ import annotations

import errno
import logging
import mmap
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

import lmdb

from ..protocol.errors import NotAStore, StoreClosed, StoreInUse
from ..protocol.limits import GROUP_BYTES_MAX, RELEASE_TIMEOUT_S
from .directory import DATA_FILE, LOCK_FILE
from .growth_lock import GrowthLock
from .lmdb_errors import FULL, is_short_write, open_error
from .meta_pages import check_length
from .schema import BOOT_KEY, SCHEMA, create_tables, open_tables, unpack_boot, upgrade_tables
from .tables import Table
from .write_log import EMPTY, Layer, WriteLog, behind, log_key, piece_key, unpack_changes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lmdb import _Database as Database

    from .store import Boot

__all__ = ["Environment", "lacks_room", "open_environment"]

_log = logging.getLogger("treadle.storage")

MAP_SIZE_FIRST: Final = 1 << 40  # address space, not disk; opening it took 0.3-1.5 ms
MAP_SIZE_LEAST: Final = 1 << 26  # below this a refusal is about something else
_MAP_SIZE_NEW: Final = 16 * mmap.PAGESIZE  # what a new store takes, and a page or two to grow from
_SPARE_READERS: Final = 32  # slots beyond our own readers: tools in other processes, nested views, the writer's check
_READER_SLOT_BYTES: Final = 64
_LOCK_HEADER_BYTES: Final = 4096
_META_BYTES_LEAST: Final = 2 * 4096
_LOGS_KEPT: Final = 4


class Environment:
    """An open LMDB environment with its tables. Any worker may read it; one at a time may write, grow or close it."""

    __slots__ = ("_directory", "_logs", "closed", "env", "lock", "orphaned", "read_only", "tables")

    def __init__(
        self,
        env: lmdb.Environment,
        tables: Sequence[Database],
        directory: tuple[int, int],
        readers: int,
        *,
        read_only: bool,
    ) -> None:
        self.env = env
        self.tables = tables
        self.lock = GrowthLock(readers)
        self.orphaned = False
        self.read_only = read_only
        self.closed = False
        # By the transactions that left them: what a snapshot of one of the last few need not read. Whoever writes here
        # enters them, else whoever reads; never both.
        self._logs: dict[int, WriteLog] = {}
        self._directory = directory
        _open_here.add(directory)

    def lacks_room(self) -> OSError | None:
        """Return the error by which the system refuses one more group, or None if there is room for it."""
        return lacks_room(Path(self.env.path()))

    def last_boot(self) -> Boot:
        """Return the boot that was recorded last; number 0 if none was."""
        with self.env.begin() as txn:
            row = txn.get(BOOT_KEY, None, self.tables[Table.META])
        return unpack_boot(row)

    def last_change(self) -> int:
        """Return the highest number that was ever in CHANGES, 0 if there was none."""
        with self.env.begin() as txn:
            logged = self.log_in(txn).merged(Table.CHANGES)
            cursor = txn.cursor(self.tables[Table.CHANGES])
            stored = cursor.key() if cursor.last() else b""
        return int.from_bytes(max([stored, *logged]), "big")

    def log_in(self, txn: lmdb.Transaction[bytes]) -> WriteLog:
        """Return what lies over the tables in the snapshot of a transaction. Raises: CorruptRecord."""
        number = txn.id()
        log = self._logs.get(number)
        if log is None:
            # Where a copy counts its transactions anew, a record may have the number of one that is still to come. One whose
            # number is not above its own transaction is never another's.
            known = [log for seen, log in list(self._logs.items()) if log.layers and log.layers[0].number <= seen]
            log = self._read_log(txn, known)
            if self.read_only:
                self._logs = {number: log}
        return log

    def expect_log(self, transaction: int, log: WriteLog) -> None:
        """Take note of what a write transaction leaves over the tables, just before it is committed."""
        self._logs[transaction] = log
        if len(self._logs) > _LOGS_KEPT:
            del self._logs[min(self._logs)]

    def forget_log(self, transaction: int) -> None:
        """Undo `expect_log`, where the transaction came to nothing."""
        self._logs.pop(transaction, None)

    def drop_older_logs(self, transaction: int) -> None:
        """Let go of what transactions before this one left over the tables; who still has such a snapshot reads it there."""
        self._logs = {transaction: self._logs[transaction]}

    def _read_log(self, txn: lmdb.Transaction[bytes], known: list[WriteLog]) -> WriteLog:
        cursor = txn.cursor(self.tables[Table.LOG])
        keys: list[bytes] = []
        found = cursor.first()
        while found:
            keys.append(cursor.key())
            found = cursor.set_range(behind(keys[-1]))
        layers = {log_key(layer.number): layer for log in known for layer in log.layers}
        # With the log that it goes on from comes what is sorted of that already.
        earlier = [log for log in known if [log_key(one.number) for one in log.layers[::-1]] == keys[: len(log.layers)]]
        log = max(earlier, key=lambda log: len(log.layers), default=EMPTY)
        for key in keys[len(log.layers) :]:
            log = log.under(layers.get(key) or _read_layer(cursor, key))
        return log

    def grow(self) -> bool:
        """Double the map, alone; return False, with nothing changed, where the system has no address space for that.

        Waits for all views. No write transaction may be open.
        """
        size = self.env.info()["map_size"] * 2
        self.lock.seize()
        try:
            # LMDB unmaps first and maps then; where that second step fails the environment is lost. So ask before.
            try:
                mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ).close()
            except (OSError, OverflowError):
                return False
            self.env.set_mapsize(size)
        finally:
            self.lock.release()
        _log.info("the map of %s has grown to %d MiB", self.env.path(), size >> 20)
        return True

    def abort(self, txn: lmdb.Transaction[bytes]) -> None:
        """Drop a write transaction. New views wait meanwhile."""
        # py-lmdb aborts at a moment in which nobody reads, and waits for one: with four busy readers it never came.
        self.lock.hold_off()
        try:
            txn.abort()
        finally:
            self.lock.release()

    def adopt_size(self) -> None:
        """Follow the map of the owning process, which has grown; for readers of another process."""
        self.lock.seize()
        try:
            self.env.set_mapsize(0)
        finally:
            self.lock.release()

    def copy_to(self, file: int, *, compact: bool) -> None:
        """Write all that is committed at this moment to an open, empty file; blocks for all of it, unsynced.

        Others read and write meanwhile; what they free is used again only afterwards, so the data file may grow.

        Args:
            file: a descriptor; what a failed attempt wrote is cut off before the next.
            compact: leave free pages out.

        Raises:
            lmdb.Error: it could not be read or written.
            StoreClosed: there is no map any more.
        """
        while True:
            worker = self.lock.enter()
            try:
                self.env.copyfd(file, compact)
            except lmdb.MapResizedError:
                os.ftruncate(file, 0)
                os.lseek(file, 0, os.SEEK_SET)
            else:
                return
            finally:
                self.lock.leave(worker)
            self.adopt_size()

    def clear_dead_readers(self) -> int:
        """Free the reader slots of processes that died; what such a reader saw can be reclaimed again."""
        return self.env.reader_check()

    def close(self) -> None:
        """Close, after waiting a while for views; one still open then raises `StoreClosed` when it is used."""
        if self.orphaned or self.closed:
            return
        self.lock.seize(RELEASE_TIMEOUT_S)
        self.closed = True
        try:
            self.env.close()
        finally:
            _open_here.discard(self._directory)
            self.lock.release(StoreClosed("the store is closed"))

    def orphan(self) -> None:
        """Turn everyone away, in a forked child. The environment is not closed: its locks are the parent's."""
        self.orphaned = True
        self.lock.orphan(StoreClosed("the store belongs to the parent of this process"))


def _read_layer(cursor: lmdb.Cursor[bytes], key: bytes) -> Layer:
    pieces: list[bytes] = []
    cursor.set_key(key)
    for name, piece in cursor.iternext():
        if name != piece_key(key, len(pieces)):
            if name.startswith(key):
                unpack_changes(name, piece)  # is none, and is named
            break
        pieces.append(piece)
    layer = unpack_changes(key, b"".join(pieces))
    layer.pieces = len(pieces)
    return layer


def lacks_room(directory: Path) -> OSError | None:
    """Return the error by which the system refuses one more group in the data file, or None if there is room for it."""
    file = os.open(directory / DATA_FILE, os.O_WRONLY | os.O_CLOEXEC)
    try:
        size = os.fstat(file).st_size
        if not hasattr(os, "posix_fallocate"):  # macOS has none; free blocks are then the best that can be asked for
            free = os.fstatvfs(file)
            full = free.f_bavail * free.f_frsize < GROUP_BYTES_MAX
            return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) if full else None
        try:
            # Asks quotas and limits of the process too, which no figure of free blocks knows.
            os.posix_fallocate(file, size, GROUP_BYTES_MAX)
        except OSError as error:
            return error if error.errno in FULL else None
        finally:
            os.ftruncate(file, size)
    finally:
        os.close(file)
    return None


def open_environment(
    directory: Path, *, sync: bool, map_size: int | None, readers: int, read_only: bool
) -> Environment:
    """Open or create the environment in a checked directory. The caller owns it, or opens it to read only.

    Raises:
        StoreInUse, NotAStore, SchemaTooNew, CorruptRecord, StorageFull, StoreFailed: see each.
    """
    try:
        status = directory.stat()
        key = (status.st_dev, status.st_ino)
        if key in _open_here:
            raise StoreInUse(f"{directory} is open in this process", path=str(directory), holder="this process")
        check_length(directory / DATA_FILE)
        slots = readers + _SPARE_READERS
        _reserve_lock_file(directory / LOCK_FILE, slots, read_only=read_only)
        if not read_only:
            _clear_half_made(directory / DATA_FILE)
        env = _map(directory, sync=sync, map_size=map_size, slots=slots, read_only=read_only)
    except (lmdb.Error, OSError) as error:
        raise open_error(directory, error) from error
    try:
        env.reader_check()
        tables = open_tables(env, directory)
        if not tables and read_only:
            raise NotAStore(f"{directory} holds no store yet", path=str(directory))
        if tables and len(tables) < len(Table) and read_only:
            raise NotAStore(
                f"the store in {directory} has schema 1 and cannot be read beside others yet; opening it once to write, as "
                f"a runtime does, makes it one of schema {SCHEMA}",
                path=str(directory),
                found=1,
                known=SCHEMA,
            )
        if not read_only:
            tables = upgrade_tables(env, tables) if tables else create_tables(env)
        return Environment(
            env, tables, key, max(1, min(readers, env.max_readers() - _SPARE_READERS)), read_only=read_only
        )
    except lmdb.Error as error:
        full = lacks_room(directory) if is_short_write(error) else None
        env.close()
        raise open_error(directory, full or error) from error
    except BaseException:
        env.close()
        raise


def _map(directory: Path, *, sync: bool, map_size: int | None, slots: int, read_only: bool) -> lmdb.Environment:
    size = MAP_SIZE_FIRST if map_size is None else max(map_size, _MAP_SIZE_NEW)
    while True:
        try:
            return lmdb.open(
                str(directory),
                map_size=size,
                max_dbs=len(Table),
                max_readers=slots,
                max_spare_txns=0,
                mode=0o700,
                readonly=read_only,
                create=not read_only,
                # Pinned by a test: with these, what LMDB has confirmed survives the machine (design, section 5).
                sync=sync,
                metasync=sync,
                writemap=False,
                map_async=False,
            )
        except lmdb.MemoryError:
            if map_size is not None or size <= MAP_SIZE_LEAST:
                raise
            size //= 2


def _reserve_lock_file(path: Path, slots: int, *, read_only: bool) -> None:
    # LMDB writes its reader table through a map. On a full disk a hole in that file would kill the process by SIGBUS,
    # so a new one gets its blocks first. An existing one is left alone: closing any descriptor of it would drop the
    # locks by which LMDB tells living readers of this process from dead ones.
    try:
        file = path.open("xb")
    except FileExistsError:
        return
    except OSError as error:
        if read_only and error.errno not in FULL:
            return  # LMDB reads without one where nobody can write, and says itself where it cannot
        raise
    with file:
        try:
            _give_blocks(file.fileno(), _LOCK_HEADER_BYTES + slots * _READER_SLOT_BYTES)
        except OSError:
            # Whoever has it open as well meanwhile has given it its size.
            if not os.fstat(file.fileno()).st_size:
                path.unlink(missing_ok=True)
            raise


def _give_blocks(file: int, size: int) -> None:
    if hasattr(os, "posix_fallocate"):
        # Leaves alone what others have written into it already.
        os.posix_fallocate(file, 0, size)
    else:
        os.pwrite(file, bytes(size), 0)


def _clear_half_made(path: Path) -> None:
    # A disk that was full when the store was made leaves half of the two meta pages. Nothing can be stored in less.
    if path.exists() and path.stat().st_size < _META_BYTES_LEAST:
        os.truncate(path, 0)


# LMDB must not open one file twice in a process. Ours is asked first, since its answer names the directory.
_open_here: set[tuple[int, int]] = set()
os.register_at_fork(after_in_child=_open_here.clear)
