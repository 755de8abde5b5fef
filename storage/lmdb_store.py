"""Owns the store on disk: who may open it, and its life from open to close. Writing and reading are its parts' work."""

from __future__ import annotations

import os
import sys
import threading
import uuid
from typing import Final, Literal

import lmdb

from ..protocol.errors import StoreClosed, StoreFailed, StoreInUse, TreadleError, bad_option
from ..protocol.limits import ABANDONED_MAX, WORKERS_MAX
from .batch import Answer, Batch, Confirm, tell
from .directory import check_directory, check_store, store_path
from .environment import Environment, open_environment
from .lmdb_engine import LmdbEngine
from .lmdb_errors import copy_error, read_error
from .lmdb_view import LmdbView
from .owner import OwnerLock
from .store import Boot, StoreCounts
from .writer import Writer

__all__ = ["READERS_MAX", "LmdbStore", "open_here"]

# Workers with a body, written-off ones, and ours: the dispatcher, the loop, the timer, the wire.
READERS_MAX: Final = WORKERS_MAX + ABANDONED_MAX + 32
READERS_LIMIT: Final = 1 << 16  # each has 64 bytes in the lock file, which is written out when the store is made


class LmdbStore:
    """A store in one data directory, owned by one process; see `Store`.

    Args:
        path: the directory; created on opening. Its content is readable by its user only.
        durability: `full` survives the death of the machine; `process` only that of the process, a machine crash may
            then lose the tail or the whole store.
        map_size: bytes of address space, rounded up to what the store needs; by default 1 TiB, halved while the
            system refuses it. It grows by itself.
        max_readers: workers of this process that read at once, at most 65,536; more of them wait for each other.
        read_only: no writes and no owner lock, so it may be opened beside its owner, from another process.

    Raises:
        InvalidInput: `invalid_path` or `invalid_option`; the path or an option is none of these.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        durability: Literal["full", "process"] = "full",
        map_size: int | None = None,
        max_readers: int = READERS_MAX,
        read_only: bool = False,
    ) -> None:
        if durability not in {"full", "process"}:
            raise bad_option("durability is 'full' or 'process'", durability)
        if map_size is not None and (type(map_size) is not int or not 1 <= map_size <= sys.maxsize):
            raise bad_option("map_size is a number of bytes", map_size)
        if type(max_readers) is not int or not 1 <= max_readers <= READERS_LIMIT:
            raise bad_option(f"max_readers is a whole number from 1 to {READERS_LIMIT:,}", max_readers)
        self.path = store_path(path)
        self._sync = durability == "full"
        self._map_size = map_size
        self._max_readers = max_readers
        self._read_only = read_only
        self._lock = threading.Lock()
        self._owner = OwnerLock(self.path)
        self._environment: Environment | None = None
        self._writer: Writer | None = None

    def open(self) -> Boot:
        """Open the store; see `Store.open`. Read only, it returns the owner's last boot.

        Raises:
            StoreInUse: another process, or another store object of this one, has it open.
            NotAStore, SchemaTooNew, CorruptRecord, StorageFull, StoreFailed: see each.
        """
        with self._lock:
            if self._environment is not None:
                raise StoreInUse(f"{self.path} is open already", path=str(self.path), holder="this store object")
            if self._read_only:
                check_store(self.path)
                self._environment = self._map()
                _open_stores.add(self)
                return self._environment.last_boot()
            check_directory(self.path)
            boot_id = uuid.uuid4().hex
            self._owner.acquire(boot_id)
            try:
                return self._start(boot_id)
            except BaseException:
                self._owner.release()
                raise

    def commit(self, batch: Batch) -> None:
        """Hand over a batch; see `Store.commit`."""
        writer = self._writer
        if writer is None:
            tell(batch.confirm, self._not_open())
        else:
            writer.commit(batch)

    def barrier(self, number: int, boot: int, life: int, confirm: Confirm) -> None:
        """Shut out older incarnations of a thread; see `Store.barrier`."""
        writer = self._writer
        if writer is None:
            tell(confirm, self._not_open())
        else:
            writer.barrier(number, boot, life, confirm)

    def view(self) -> LmdbView:
        """Return a read snapshot to enter; see `Store.view`."""
        return LmdbView(self._environment)

    def copy_to(self, file: int, *, compact: bool = False) -> None:
        """Write all that is committed at this moment to an open, empty file, unsynced; blocks for all of it.

        For a store that is opened to read only: in its owner, a batch that fails would wait for the end of the copy.

        Raises:
            StorageFull, StoreFailed, StoreClosed: the file then holds no copy.
        """
        environment = self._environment
        if environment is None:
            raise StoreClosed("the store is not open", path=str(self.path))
        try:
            environment.copy_to(file, compact=compact)
        except lmdb.Error as error:
            raise copy_error(self.path, error) from error

    def failure(self) -> TreadleError | None:
        """Return why the store takes no more writes, or None."""
        writer = self._writer
        return self._not_open().error if writer is None else writer.failure()

    def backlog(self) -> int:
        """Return how many batches and barriers have not been answered yet."""
        writer = self._writer
        return 0 if writer is None else writer.backlog()

    def counts(self) -> StoreCounts:
        """Count what this opening wrote."""
        writer = self._writer
        return StoreCounts() if writer is None else writer.counts()

    def close(self) -> None:
        """Write and answer everything handed over, wait a while for views, let go of the directory; idempotent.

        Raises:
            InternalError: called from a `confirm`.
        """
        writer = self._writer
        if writer is not None:
            # Outside the lock: a confirm that closes must be told so, not wait here for the close that waits for it.
            writer.close()
        with self._lock:
            environment, self._environment = self._environment, None
            if environment is None:
                return
            try:
                environment.close()
            finally:
                _open_stores.discard(self)
                self._owner.release()

    def _map(self) -> Environment:
        return open_environment(
            self.path,
            sync=self._sync,
            map_size=self._map_size,
            readers=self._max_readers,
            read_only=self._read_only,
        )

    def _start(self, boot_id: str) -> Boot:
        environment = self._map()
        try:
            boot = Boot(environment.last_boot().number + 1, boot_id)
            engine = LmdbEngine(environment, boot)
            # Records the boot. On a full disk that is put off to the first transaction that gets through, since a
            # store must open there: what can be read is needed then most of all.
            failed = engine.tidy()
            if failed is not None:
                raise failed
            writer = Writer(engine)
            writer.start()
        except BaseException as error:
            environment.close()
            if isinstance(error, lmdb.Error):
                raise read_error(error) from error
            if isinstance(error, RuntimeError):
                raise StoreFailed(f"the writer could not be started: {error}") from error
            raise
        self._environment, self._writer = environment, writer
        _open_stores.add(self)
        return boot

    def _not_open(self) -> Answer:
        reason = "open for reading only" if self._read_only else "not open"
        return Answer("not_written", 0, StoreClosed(f"the store is {reason}", path=str(self.path)))

    def _orphan(self) -> None:
        self._lock = threading.Lock()
        if self._writer is not None:
            self._writer.forget()
        if self._environment is not None:
            self._environment.orphan()


# Strong references in a plain set, for the reason given in owner.py.
_open_stores: set[LmdbStore] = set()


def open_here(path: str | os.PathLike[str]) -> LmdbStore | None:
    """Return the store object by which this process has a directory open, or None: LMDB must not open a file twice."""
    try:
        wanted = store_path(path).stat()
    except OSError:
        return None
    for store in list(_open_stores):
        try:
            if os.path.samestat(wanted, store.path.stat()):
                return store
        except OSError:
            continue
    return None


def _orphan_in_child() -> None:
    for store in list(_open_stores):
        store._orphan()  # noqa: SLF001 - the hook is the store's own
    _open_stores.clear()


os.register_at_fork(after_in_child=_orphan_in_child)
