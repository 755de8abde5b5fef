"""Owns the store-wide list of changes as it is read: one row a thread, in the order of the last change. Writes nothing."""

from __future__ import annotations

from typing import NamedTuple

import msgpack

from ..protocol.cursors import Cursor
from ..protocol.errors import CorruptRecord
from ..protocol.status import ThreadStatus
from .codec import unpack
from .head import HEAD_SIZE
from .store import View
from .tables import Table

__all__ = ["Change", "last_change", "latest_changes", "read_changes"]

_STATES = ("idle", "running", "failed")  # not a set: what is looked up may be anything


class Change(NamedTuple):
    """The last change of one thread's status: its number, the thread, and the status at that cursor."""

    number: int
    thread_id: str
    cursor: Cursor
    status: ThreadStatus
    deleted: bool


def last_change(view: View) -> int:
    """Return the highest change number that was taken, 0 if none."""
    rows = view.scan(Table.CHANGES, b"", None, reverse=True, limit=1)
    return int.from_bytes(rows[0][0], "big") if rows else 0


def read_changes(view: View, after: int, through: int, limit: int) -> tuple[list[Change], int]:
    """Return the changes with `after < number <= through` in order, and the number up to which that is all of them.

    A deleted thread whose id is stored nowhere any more is left out.

    Args:
        view: what to read.
        after: the last number seen.
        through: the last number that may be seen.
        limit: rows to look at, at most.

    Raises:
        CorruptRecord: a row of the list, or of the thread it names, does not decode.
    """
    rows = view.scan(Table.CHANGES, (after + 1).to_bytes(8, "big"), (through + 1).to_bytes(8, "big"), limit=limit)
    changes = []
    for key, data in rows:
        change = _decode(view, key, data)
        if change is not None:
            changes.append(change)
    return changes, through if len(rows) < limit else int.from_bytes(rows[-1][0], "big")


def latest_changes(view: View, after: int, through: int, limit: int) -> tuple[int, list[Change]]:
    """Return the last changes with `after < number <= through`, in order, and the number behind which these are all of them.

    Args:
        view: what to read.
        after: no earlier ones are looked for.
        through: the last number that may be seen.
        limit: rows to look at, at most.

    Raises:
        CorruptRecord: as `read_changes`.
    """
    low, high = ((number + 1).to_bytes(8, "big") for number in (after, through))
    rows = view.scan(Table.CHANGES, low, high, reverse=True, limit=limit)
    if len(rows) == limit:
        after = int.from_bytes(rows[-1][0], "big") - 1
    return after, read_changes(view, after, through, limit)[0]


def _decode(view: View, key: bytes, data: bytes) -> Change | None:
    record = unpack(data[8:], Table.CHANGES, key)
    if len(data) <= 8 or not isinstance(record, list) or len(record) not in (6, 7):
        raise _corrupt(Table.CHANGES, key, "not a change")
    generation, sequence, state, since, reason, deleted = record[:6]
    numbers = all(type(item) is int for item in (generation, sequence, since))
    if not numbers or state not in _STATES or type(deleted) is not bool or not isinstance(reason, str | None):
        raise _corrupt(Table.CHANGES, key, "not a change")
    # The tombstone of a thread may go; then only the change itself can name it.
    thread_id = record[6] if len(record) == 7 else _thread_id(view, data[:8])
    if thread_id is None and deleted:
        return None
    if not isinstance(thread_id, str):
        raise _corrupt(Table.THREADS, data[:8], "no thread where a change names one")
    status = ThreadStatus(state, since, reason)
    return Change(int.from_bytes(key, "big"), thread_id, Cursor(generation, sequence), status, deleted)


def _thread_id(view: View, key: bytes) -> object:
    """Return the second value of a thread's record: the rest of it is not needed, and decoding it costs ten times this."""
    row = view.get(Table.THREADS, key)
    if row is None or len(row) == HEAD_SIZE:
        return None  # deleted, and its record is removed
    unpacker = msgpack.Unpacker(raw=False)
    unpacker.feed(row[HEAD_SIZE:])
    try:
        if unpacker.read_array_header() < 2:
            return None
        unpacker.skip()
        return unpacker.unpack()
    except (ValueError, TypeError, RecursionError, msgpack.UnpackException) as error:
        raise _corrupt(Table.THREADS, key, f"not msgpack: {error}") from error


def _corrupt(table: Table, key: bytes, why: str) -> CorruptRecord:
    name = table.name.lower()
    return CorruptRecord(f"record {key.hex()} of table {name} is corrupt: {why}", table=name, key=key.hex())
