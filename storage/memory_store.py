"""Owns the store in memory: the same semantics as on disk, for tests and throw-away runs. Never touches a file.

A view shares the tables with the writer until the writer changes one; then that table is copied. So views are exact
snapshots, and cost nothing unless one is open while a group is written.
"""

from __future__ import annotations

import threading
import uuid
from bisect import bisect_left, insort
from typing import TYPE_CHECKING, Self

from ..protocol.errors import InternalError, StoreClosed, StoreInUse, TreadleError
from .batch import COMMITTED, Answer, Batch, Confirm, tell
from .head import conflict_over, judge, pack_row, thread_key
from .points import BEFORE_COMMIT, BEFORE_PUT, armed, reach
from .schema import pack_boot
from .store import Boot, Rows, StoreCounts
from .tables import KEY_BYTES_MAX, Table
from .writer import Barriers, Writer

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["MemoryStore"]


class _SortedTable:
    __slots__ = ("keys", "values")

    def __init__(self, keys: list[bytes], values: dict[bytes, bytes]) -> None:
        self.keys = keys
        self.values = values

    def put(self, key: bytes, value: bytes) -> None:
        if key not in self.values:
            insort(self.keys, key)
        self.values[key] = value

    def delete(self, key: bytes) -> None:
        if self.values.pop(key, None) is not None:
            del self.keys[bisect_left(self.keys, key)]


class _Snapshot:
    __slots__ = ("readers", "tables")

    def __init__(self, tables: list[_SortedTable]) -> None:
        self.tables = tables
        self.readers = 0


class _Draft:
    """The tables during one group: changed in place, or copied first where a view looks at them."""

    __slots__ = ("_copied", "_shared", "tables")

    def __init__(self, base: _Snapshot) -> None:
        # An armed point may end a group half-way, and a table that was changed in place could not be taken back.
        self._shared = base.readers > 0 or armed()
        self._copied: set[int] = set()
        self.tables = list(base.tables)

    def table(self, number: int) -> _SortedTable:
        table = self.tables[number]
        if self._shared and number not in self._copied:
            table = self.tables[number] = _SortedTable(table.keys.copy(), table.values.copy())
            self._copied.add(number)
        return table


class MemoryStore:
    """A store whose contents live as long as this object, across `close()` and `open()`.

    Args:
        manual: no writer worker; the next group is written and answered by `step()`, on the caller's worker.
    """

    def __init__(self, *, manual: bool = False) -> None:
        self._manual = manual
        self._lock = threading.Lock()
        self._now = _Snapshot([_SortedTable([], {}) for _ in Table])
        self._change = 0
        self._boots = 0
        self._writer: Writer | None = None

    def open(self) -> Boot:
        """Open the store; see `Store.open`."""
        with self._lock:
            if self._writer is not None:
                raise StoreInUse("this store is already open", holder="this process")
            self._boots += 1
            boot = Boot(self._boots, uuid.uuid4().hex)
            draft = _Draft(self._now)
            for key, row in pack_boot(boot):
                draft.table(Table.META).put(key, row)
            self._now = _Snapshot(draft.tables)
            self._writer = Writer(self)
            if not self._manual:
                self._writer.start()
            return boot

    def commit(self, batch: Batch) -> None:
        """Hand over a batch; see `Store.commit`."""
        writer = self._writer
        if writer is None:
            tell(batch.confirm, _closed())
        else:
            writer.commit(batch)

    def barrier(self, number: int, boot: int, life: int, confirm: Confirm) -> None:
        """Shut out older incarnations; see `Store.barrier`."""
        writer = self._writer
        if writer is None:
            tell(confirm, _closed())
        else:
            writer.barrier(number, boot, life, confirm)

    def view(self) -> _MemoryView:
        """Return a snapshot to enter; see `Store.view`."""
        return _MemoryView(self)

    def failure(self) -> TreadleError | None:
        """Return why the store takes no more writes, or None."""
        writer = self._writer
        return StoreClosed("the store is closed") if writer is None else writer.failure()

    def backlog(self) -> int:
        """Return how many batches and barriers have not been answered yet."""
        writer = self._writer
        return 0 if writer is None else writer.backlog()

    def counts(self) -> StoreCounts:
        """Count what this opening wrote."""
        writer = self._writer
        return StoreCounts() if writer is None else writer.counts()

    def close(self) -> None:
        """Write and answer all that waits, then close; the contents stay for the next `open()`."""
        writer = self._writer
        if writer is not None:
            writer.close()
            self._writer = None

    def step(self) -> int:
        """Write and answer the next group of a manual store; return how many batches and barriers that were."""
        assert self._manual, "a store with its own writer worker steps by itself"
        return 0 if self._writer is None else self._writer.step()

    def pending(self) -> int:
        """Return how many batches and barriers wait for a step."""
        return self.backlog()

    def crash(self) -> None:
        """Lose what waits, without any answer, as if the process had died; `open()` is then the next boot."""
        assert self._manual, "only a manual store can lose what waits at a known place"
        if self._writer is not None:
            self._writer.discard()
            self._writer = None

    def write(self, batches: list[Batch], barriers: Barriers, answers: list[Answer]) -> TreadleError | None:
        """Apply one group; called by the writer."""
        with self._lock:
            draft = _Draft(self._now)
            change = self._change
            for batch in batches:
                reach(BEFORE_PUT)
                try:
                    before = self._check(draft, batch, barriers)
                except TreadleError as error:
                    answers.append(Answer("not_written", 0, error))
                    continue
                if batch.change is None:
                    answers.append(COMMITTED)
                else:
                    change += 1
                    answers.append(Answer("committed", change))
                _apply(draft, batch, before, change)
            reach(BEFORE_COMMIT)
            self._change = change
            self._now = _Snapshot(draft.tables)
        return None

    def is_tidy(self) -> bool:
        """Say that nothing was put off; called by the writer."""
        return True

    def tidy(self) -> TreadleError | None:
        """Do nothing; called by the writer."""
        return None

    def _check(self, draft: _Draft, batch: Batch, barriers: Barriers) -> int:
        key = thread_key(batch.number)
        before = judge(batch, draft.tables[Table.THREADS].values.get(key), key, barriers)
        if batch.absent is not None and batch.absent[1] in draft.tables[batch.absent[0]].values:
            raise conflict_over(batch, *batch.absent)
        # Everything that could go wrong half-way is looked at before the first put.
        for table, name, value in batch.ops:
            if not 0 <= table < len(draft.tables) or not _fits(name, value):
                raise InternalError(f"a batch of thread {batch.number} cannot be written: {table}, {name!r}")
        return before

    def _enter(self) -> _Snapshot:
        with self._lock:
            if self._writer is None:
                raise StoreClosed("the store is closed")
            self._now.readers += 1
            return self._now

    def _leave(self, snapshot: _Snapshot) -> None:
        with self._lock:
            snapshot.readers -= 1


def _apply(draft: _Draft, batch: Batch, before: int, change: int) -> None:
    for table, key, value in batch.ops:
        if value is None:
            draft.table(table).delete(key)
        else:
            draft.table(table).put(key, value)
    row_key = thread_key(batch.number)
    if batch.change is None:
        change = before
    else:
        changes = draft.table(Table.CHANGES)
        if before:
            changes.delete(before.to_bytes(8, "big"))
        changes.put(change.to_bytes(8, "big"), row_key + batch.change)
    draft.table(Table.THREADS).put(row_key, pack_row(batch, change))


def _fits(key: bytes, value: bytes | None) -> bool:
    if not isinstance(key, bytes) or not key:
        return False
    # Deleting a key longer than any can be is deleting an absent one.
    return value is None or (isinstance(value, bytes) and len(key) <= KEY_BYTES_MAX)


def _closed() -> Answer:
    return Answer("not_written", 0, StoreClosed("the store is closed"))


class _MemoryView:
    """A snapshot of a MemoryStore; see `View`."""

    __slots__ = ("_snapshot", "_store", "_tables")

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._snapshot: _Snapshot | None = None
        self._tables: list[_SortedTable] = []

    def __enter__(self) -> Self:
        self._snapshot = self._store._enter()  # noqa: SLF001 - the view is the other half of the store
        self._tables = self._snapshot.tables
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._snapshot is not None:
            self._store._leave(self._snapshot)  # noqa: SLF001
            self._snapshot = None
            self._tables = []

    def get(self, table: int, key: bytes) -> bytes | None:
        """Return the value under `key`, or None."""
        return self._tables[table].values.get(key)

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
        rows = self._tables[table]
        start = bisect_left(rows.keys, low)
        end = len(rows.keys) if high is None else bisect_left(rows.keys, high)
        if reverse:
            end -= skip
            start = start if limit is None else max(start, end - limit)
        else:
            start += skip
            end = end if limit is None else min(end, start + limit)
        keys = rows.keys[start : max(start, end)]
        if reverse:
            keys.reverse()
        return [(key, rows.values[key]) for key in keys]
