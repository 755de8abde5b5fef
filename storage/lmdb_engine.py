"""Owns how a group of batches becomes one LMDB write transaction, and what is done when that fails. Knows no queue.

A group is one record of the log (see `write_log`); now and then one puts what the log holds into the tables instead.

A group is written flat, without a child transaction for each batch: a child copies every page that it touches, which
cost 6 µs for a batch of ten puts, a third of the whole. Isolation comes from the redo instead: every batch is judged
before its first put, and when anything fails later on, the transaction is dropped and its batches are written one at a
time, so that only the guilty one is refused and nothing of it stays.
"""

from __future__ import annotations

import logging
from operator import attrgetter
from typing import TYPE_CHECKING, Final

import lmdb

from ..protocol.errors import InternalError, StorageFull, StoreFailed, TreadleError
from .batch import COMMITTED, Answer, Batch, refused
from .head import HEAD_SIZE, conflict_over, judge, pack_head
from .keys import numbered
from .lmdb_errors import Fault, classify, is_short_write
from .points import BEFORE_COMMIT, BEFORE_PUT, armed, reach
from .right_of_way import RIGHT_OF_WAY
from .schema import pack_boot
from .tables import Table
from .write_log import EMPTY, Changes, Layer, Missing, WriteLog, check_changes, in_pieces, pack_changes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lmdb import _Database as Database

    from .environment import Environment
    from .store import Boot
    from .writer import Barriers

__all__ = ["LmdbEngine"]

_log = logging.getLogger("treadle.storage")

# A reader that dies keeps its snapshot's pages from being used again until somebody looks.
_READER_CHECK_EVERY: Final = 1_000
_PAGE_HEADER: Final = 16  # bytes of a page that are not of its value
_WHOLE: Final = 1 << 32  # no record has as much
# Some four times what a load of 256 threads keeps free by itself. In so many LMDB finds a run of pages in no time.
_FREE_PAGES_FEW: Final = 8_192
_HEADS_KEPT_MAX: Final = 4_096
_FEW: Final = 24  # rows that are sorted sooner than they are taken apart
_size = attrgetter("size")
_tuple = tuple.__new__
_UNKNOWN: Final = (None, 0)  # a head that no batch expects

_THREADS, _CHANGES, _LOG = int(Table.THREADS), int(Table.CHANGES), int(Table.LOG)


class _Unjudged(Exception):
    """The commit failed, and so did the look at whether it had taken effect."""


class LmdbEngine:
    """Writes groups of batches into one environment; see `Engine`.

    Args:
        environment: where to; nobody else writes to it.
        boot: recorded with the first transaction that succeeds. Until then nothing is stored under its number, so the
            next open may use it again.
    """

    def __init__(self, environment: Environment, boot: Boot) -> None:
        self._environment = environment
        self._boot: Boot | None = boot
        with environment.env.begin() as txn:
            self._log = environment.log_in(txn)
            environment.expect_log(txn.id(), self._log)  # first: who asks for the last change would read it again
        self._change = self._change_in_tables = environment.last_change()
        self._room = _WHOLE  # bytes of a record that go together
        self._written = 0
        # Heads as the last commits left them, by key, with the thread's row in CHANGES: nobody else writes here, so what
        # is in it need not be read again.
        self._heads: dict[bytes, tuple[tuple[int, int, int, int], int]] = {}

    def write(self, batches: list[Batch], barriers: Barriers, answers: list[Answer]) -> TreadleError | None:
        """Write the batches together or, where that fails, one at a time; see `Engine.write`."""
        error = self._attempt(batches, barriers, answers)
        if error is None:
            return None
        fault = classify(error)
        if fault is Fault.FATAL or len(batches) <= 1:
            refusal = _refusal(fault, error)
            kind: Final = "unknown" if isinstance(error, _Unjudged) else "not_written"
            answers.extend(refused(refusal, kind) for _ in batches)
            return refusal if fault is Fault.FATAL else None
        _log.warning("a group of %d batches is redone one at a time after %r", len(batches), error)
        for done, batch in enumerate(batches, 1):
            failed = self.write([batch], barriers, answers)
            if failed is not None:
                answers.extend(refused(failed) for _ in batches[done:])
                return failed
        return None

    def is_tidy(self) -> bool:
        """Say whether everything is in its table; see `Engine.is_tidy`."""
        return not self._log.layers

    def tidy(self) -> TreadleError | None:
        """Put what the log holds into its tables; see `Engine.tidy`."""
        return self.write([], {}, [])

    def _attempt(self, batches: list[Batch], barriers: Barriers, answers: list[Answer]) -> BaseException | None:
        """Write the batches in one transaction, growing the map as needed.

        Returns:
            None with an answer for each appended, or why nothing is written, or `_Unjudged`; then without answers.
        """
        answered = len(answers)
        while True:
            error = self._transact(batches, barriers, answers)
            if error is None:
                return None
            del answers[answered:]
            if is_short_write(error):
                return self._want_of_room() or error
            if classify(error) is not Fault.GROW:
                return error
            try:
                if not self._environment.grow():
                    return error
            except lmdb.Error as lost:
                return lost

    def _transact(self, batches: list[Batch], barriers: Barriers, answers: list[Answer]) -> BaseException | None:
        txn_id = 0
        txn = None
        try:
            txn = self._environment.env.begin(write=True)
            change, log = self._go_first(txn, batches, barriers, answers)
            if self._boot is not None:
                for key, row in pack_boot(self._boot):
                    txn.put(key, row, db=self._environment.tables[Table.META])
            if batches or self._boot is not None:
                reach(BEFORE_COMMIT)
            txn_id = txn.id()
            self._environment.expect_log(txn_id, log)
            txn.commit()
        except BaseException as error:  # noqa: BLE001 - rule 1 of the writer: whatever it was, the batches get an answer
            if txn is not None:
                self._environment.abort(txn)
            self._heads.clear()
            landed = txn_id and self._landed(txn_id)
            if not landed:
                self._environment.forget_log(txn_id)
            if landed is None:
                unjudged = _Unjudged(f"the commit raised {error!r}, and the store cannot be read")
                unjudged.__cause__ = error
                return unjudged
            if not landed:
                return error
            _log.warning("a commit raised and had taken effect all the same", exc_info=error)
        self._change, self._log, self._boot = change, log, None
        if not log.layers:
            self._change_in_tables = change
            self._environment.drop_older_logs(txn_id)  # megabytes, which an idle process would keep
        self._written += 1
        if self._written % _READER_CHECK_EVERY == 0:
            self._clear_dead_readers()
        return None

    def _go_first(
        self, txn: lmdb.Transaction[bytes], batches: list[Batch], barriers: Barriers, answers: list[Answer]
    ) -> tuple[int, WriteLog]:
        is_first = RIGHT_OF_WAY.take()
        try:
            return self._put(txn, batches, barriers, answers)
        finally:
            if is_first:
                RIGHT_OF_WAY.leave()

    def _put(
        self, txn: lmdb.Transaction[bytes], batches: list[Batch], barriers: Barriers, answers: list[Answer]
    ) -> tuple[int, WriteLog]:
        """Judge the batches in order and put what they say; return the last change number, and what the log is then."""
        heads = self._heads
        if len(heads) > _HEADS_KEPT_MAX:
            heads.clear()
        change = self._change
        # What the group leaves in each table; None deletes. Later batches of a thread are judged by what is in here.
        writes: list[dict[bytes, bytes | None]] = [{} for _ in self._environment.tables]
        rows, changes = writes[_THREADS], writes[_CHANGES]
        watched = armed()
        for batch in batches:
            if watched:
                reach(BEFORE_PUT)
            key, boot, life = batch.prefix, batch.boot, batch.life
            head, own = heads.get(key, _UNKNOWN)
            try:
                # Exactly the head that the batch expects, and no barrier: what `judge` says of it is known.
                if head != (batch.generation, batch.sequence, boot, life) or barriers:
                    own = judge(batch, rows.get(key) or self._stored(txn, _THREADS, key), key, barriers)
                if batch.absent is not None and self._exists(txn, writes, *batch.absent):
                    raise conflict_over(batch, *batch.absent)
            except TreadleError as refusal:
                answers.append(Answer("not_written", 0, refusal))
                continue
            for table, name, value in batch.ops:
                writes[table][name] = value
            if batch.change is None:
                answers.append(COMMITTED)
            else:
                if own:
                    changes[numbered(own)] = None
                own = change = change + 1
                changes[numbered(own)] = key + batch.change
                # As a tuple: the constructor of a named one is a function of Python, and takes twice the time.
                answers.append(_tuple(Answer, ("committed", change, None)))
            generation, sequence = batch.head_generation, batch.head_sequence
            # Kept before the commit: where that fails, all of them are forgotten.
            heads[key] = (generation, sequence, boot, life), own
            rows[key] = pack_head(generation, sequence, boot, life, own) + batch.record
        return change, self._keep(txn, writes, batches)

    def _exists(self, txn: lmdb.Transaction[bytes], writes: Changes, table: int, key: bytes) -> bool:
        written = writes[table]
        return (written[key] if key in written else self._stored(txn, table, key)) is not None

    def _stored(self, txn: lmdb.Transaction[bytes], table: int, key: bytes) -> bytes | None:
        logged = self._log.get(table, key)
        return txn.get(key, None, self._environment.tables[table]) if isinstance(logged, Missing) else logged

    def _keep(self, txn: lmdb.Transaction[bytes], writes: Changes, batches: list[Batch]) -> WriteLog:
        """Put what a group leaves into the log or, with all that is there, into the tables; return the log then."""
        log, table = self._log, self._environment.tables[_LOG]
        # Never used before, so that a reader who has the layer of a number need not read its record again; and above
        # what is there, since the transactions of a compacted copy begin at 1.
        number = max(txn.id(), log.layers[0].number + 1 if log.layers else 0)
        layer = Layer(number, writes, sum(map(_size, batches)))
        if layer.count:
            check_changes(writes)
            if log.takes(layer.count, layer.size):
                pieces = in_pieces(number, pack_changes(writes), self._room)
                layer.pieces = len(pieces)
                if not _append(txn, table, pieces):
                    raise RuntimeError(f"record {number} of the log is taken")
                return log.under(layer)
        elif batches:
            return log  # all of them were refused
        self._fold(txn, log.under(layer))
        if txn.stat(table)["entries"] != sum(old.pieces for old in log.layers):
            # Somebody else wrote here, and what was folded may be older than what is there.
            raise RuntimeError(f"the log is not the {len(log.layers)} records that were written")
        txn.drop(table, delete=False)
        self._room = self._room_for_records(txn)
        return EMPTY

    def _room_for_records(self, txn: lmdb.Transaction[bytes]) -> int:
        """Return how many bytes of a record to put together: all, or what one page takes where much is free."""
        found = [txn.stat(table) for table in self._environment.tables]
        used = sum(one["branch_pages"] + one["leaf_pages"] + one["overflow_pages"] for one in found)
        free = self._environment.env.info()["last_pgno"] - used
        return _WHOLE if free <= _FREE_PAGES_FEW else found[0]["psize"] - _PAGE_HEADER

    def _fold(self, txn: lmdb.Transaction[bytes], log: WriteLog) -> None:
        """Put what all these layers say into the tables, each row once."""
        last = numbered(self._change_in_tables)
        for table, database in enumerate(self._environment.tables):
            rows = log.merged(table)
            if table == _CHANGES:
                # Most numbers were taken and outdated since: no table ever had them.
                rows = {key: value for key, value in rows.items() if value is not None or key <= last}
            elif table == _THREADS:
                for key, value in rows.items():
                    if value is not None and len(value) == HEAD_SIZE:
                        # All that is left of a deleted thread. A row that only shrinks leaves its page as it is: LMDB
                        # merges pages that are nearly empty when a row is deleted.
                        txn.delete(key, b"", database)
            if rows:
                _write_table(txn, database, rows)

    def _want_of_room(self) -> OSError | None:
        try:
            return self._environment.lacks_room()
        except OSError:
            _log.exception("after a failed commit the room that is left could not be looked at")
            return None

    def _clear_dead_readers(self) -> None:
        try:
            self._environment.clear_dead_readers()
        except lmdb.Error:
            # The commit before it stands, so its batches must not hear of this; the next thousand tries again.
            _log.exception("slots of dead readers could not be looked for")

    def _landed(self, txn_id: int) -> bool | None:
        """Return whether the transaction is what readers now see, or None where they see nothing any more."""
        # Nobody else writes here, so the id says what comparing each thread's head would.
        try:
            with self._environment.env.begin() as txn:
                return txn.id() >= txn_id
        except lmdb.Error:
            _log.exception("after a failed commit the store cannot be read")
            return None


def _append(txn: lmdb.Transaction[bytes], table: Database, rows: list[tuple[bytes, bytes]]) -> bool:
    if len(rows) == 1:
        [(key, value)] = rows
        return txn.put(key, value, db=table, append=True)
    return txn.cursor(table).putmulti(rows, append=True)[1] == len(rows)


def _write_table(txn: lmdb.Transaction[bytes], table: Database, ops: dict[bytes, bytes | None]) -> None:
    gone: list[bytes] = []
    if None in ops.values():
        gone = [key for key, value in ops.items() if value is None]
        ops = {key: value for key, value in ops.items() if value is not None}
    if ops:
        # In key order: neighbours share the pages that they touch.
        rows: Iterable[tuple[bytes, bytes | None]]
        if len(ops) < _FEW:
            rows = sorted(ops.items())
        else:
            keys = sorted(ops)  # without their values, which would take twice as long
            rows = zip(keys, map(ops.__getitem__, keys), strict=True)
        txn.cursor(table).putmulti(rows)  # type: ignore[arg-type]
    for key in gone:
        txn.delete(key, b"", table)


def _refusal(fault: Fault, error: BaseException) -> TreadleError:
    refusal: TreadleError
    if fault is Fault.BATCH:
        refusal = InternalError(f"the batch cannot be written: {error!r}")
    elif fault is Fault.FATAL:
        refusal = StoreFailed(f"the store met an error that it cannot judge: {error!r}", reason=str(error))
    elif fault is Fault.GROW:
        refusal = StorageFull("the map is full and the system has no address space for a larger one")
    else:
        refusal = StorageFull(f"the disk has no room: {error}", reason=str(error))
    refusal.__cause__ = error
    return refusal
