"""Owns the read snapshot of an LMDB store. Never writes, and outlives no growth: the growth lock sees to that."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import lmdb

from ..protocol.errors import StoreClosed, Unavailable
from .lmdb_errors import read_error
from .tables import Table
from .write_log import EMPTY, Missing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType
    from typing import Self

    from .environment import Environment
    from .store import Rows

__all__ = ["LmdbView", "TableSize"]


class TableSize(NamedTuple):
    """What a table holds: rows, and bytes of the pages that those of them take that are not in the log alone."""

    rows: int
    size: int


class LmdbView:
    """One read transaction; see `View`.

    py-lmdb ties a reader slot to the transaction *object*, not to its end: a finished one that is still referenced
    keeps its slot. So every reference is dropped on leaving.
    """

    __slots__ = ("_environment", "_get", "_log", "_txn", "_worker")

    def __init__(self, environment: Environment | None) -> None:
        self._environment = environment
        self._txn: lmdb.Transaction[bytes] | None = None
        self._log = EMPTY
        self._worker = 0

    def __enter__(self) -> Self:
        environment = self._environment
        if environment is None:
            raise StoreClosed("the store is not open")
        self._worker = environment.lock.enter()
        try:
            txn = environment.env.begin()
        except lmdb.Error as error:
            environment.lock.leave(self._worker)
            txn = self._begin_again(environment, error)
        self._txn = txn
        self._get = txn.get
        try:
            self._log = environment.log_in(txn)
        except BaseException as error:
            del txn
            self.__exit__(None, None, None)
            if isinstance(error, lmdb.Error):
                raise read_error(error, Table.LOG) from error
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        environment = self._environment
        txn, self._txn = self._txn, None
        assert environment is not None
        assert txn is not None
        del self._get
        self._log = EMPTY
        # In a forked child the slot is the parent's: ending the transaction here would take it from under its reader.
        if not environment.orphaned:
            txn.abort()
            environment.lock.leave(self._worker)

    def get(self, table: int, key: bytes) -> bytes | None:
        """Return the value under `key`, or None."""
        assert self._environment is not None
        logged = self._log.get(table, key)
        if not isinstance(logged, Missing) and not self._environment.closed:
            return logged
        try:
            return self._get(key, None, self._environment.tables[table])
        except lmdb.BadValsizeError:
            # Empty, or longer than any key can be: certainly not there.
            return None
        except lmdb.Error as error:
            raise read_error(error, table, key) from error

    def scan(
        self,
        table: int,
        low: bytes,
        high: bytes | None,
        *,
        reverse: bool = False,
        limit: int | None = None,
        skip: int = 0,
    ) -> Rows:
        """Return rows with `low <= key < high`; see `View.scan`."""
        assert self._environment is not None
        assert self._txn is not None
        if limit is not None and limit <= 0:
            return []
        try:
            below = partial(_backward if reverse else _forward, self._txn.cursor(self._environment.tables[table]))
            return self._log.scan(below, table, low, high, reverse=reverse, limit=limit, skip=skip)
        except lmdb.Error as error:
            raise read_error(error, table, low) from error

    def size(self, table: int) -> TableSize:
        """Return how large a table is, at the cost of one look, and one for each of its rows that the log has."""
        assert self._environment is not None
        assert self._txn is not None
        rows = 0
        try:
            database = self._environment.tables[table]
            found = self._txn.stat(database)
            for key, value in self._log.merged(table).items():
                rows += (value is not None) - (self._txn.get(key, None, database) is not None)
        except lmdb.Error as error:
            raise read_error(error, table) from error
        pages = found["branch_pages"] + found["leaf_pages"] + found["overflow_pages"]
        return TableSize(found["entries"] + rows, pages * found["psize"])

    def _begin_again(self, environment: Environment, error: lmdb.Error) -> lmdb.Transaction[bytes]:
        """Remove what kept the transaction from beginning, where that can be done, and begin it once more."""
        if isinstance(error, lmdb.ReadersFullError):
            environment.clear_dead_readers()
        elif isinstance(error, lmdb.MapResizedError):
            if environment.lock.reads():
                # Moving the map would end the view that this worker has open.
                raise Unavailable("the store has grown; end the outer view first") from error
            environment.adopt_size()
        else:
            raise read_error(error) from error
        self._worker = environment.lock.enter()
        try:
            return environment.env.begin()
        except lmdb.Error as second:
            environment.lock.leave(self._worker)
            raise read_error(second) from second


def _forward(
    cursor: lmdb.Cursor[bytes], low: bytes, high: bytes | None, limit: int | None, skip: int
) -> tuple[Rows, int]:
    """Return rows, and how many there were too few to skip."""
    rows: Rows = []
    if not cursor.set_range(low):
        return rows, skip
    if skip:
        skip, behind = _skipped(
            cursor.iternext(keys=True, values=False), b"".__gt__ if high is None else high.__le__, skip
        )
        if not behind:
            return rows, skip
    for row in cursor.iternext():
        if high is not None and row[0] >= high:
            break
        rows.append(row)
        if len(rows) == limit:
            break
    return rows, 0


def _backward(
    cursor: lmdb.Cursor[bytes], low: bytes, high: bytes | None, limit: int | None, skip: int
) -> tuple[Rows, int]:
    rows: Rows = []
    beyond = high is not None and cursor.set_range(high)
    if not (cursor.prev() if beyond else cursor.last()):
        return rows, skip
    if skip:
        skip, behind = _skipped(cursor.iterprev(keys=True, values=False), low.__gt__, skip)
        if not behind:
            return rows, skip
    for row in cursor.iterprev():
        if row[0] < low:
            break
        rows.append(row)
        if len(rows) == limit:
            break
    return rows, 0


def _skipped(keys: Iterator[bytes], outside: Callable[[bytes], bool], skip: int) -> tuple[int, bool]:
    """Step over rows; return how many there were too few, and whether the cursor stands on the one behind them."""
    for key in keys:
        if outside(key):
            return skip, False
        if not skip:
            return 0, True
        skip -= 1
    return skip, False
