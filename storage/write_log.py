"""Owns what is committed and not yet in its tables: the rows of the last groups, as records of LOG. Knows no batches.

A group of many threads touches a page for almost every row. Written at once into the tables that is several times what
the bare rows take, and the sync waits for all of it. So a group is one record of LOG, in one run of pages, and is as durable
by that. Its rows go into their tables with those of the groups around it, all at once: most of what one execution
changes has been changed again by then, and neighbours share their pages.

Until then a snapshot of the store is its tables with these rows over them. All here is immutable once it is made, and
what is in LOG within a snapshot is the truth: whoever has the records has the layers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from typing import TYPE_CHECKING, Final

import msgpack

from ..protocol.errors import CorruptRecord
from .tables import KEY_BYTES_MAX, Table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeAlias

    from .store import Rows

__all__ = [
    "EMPTY",
    "MISSING",
    "Changes",
    "Layer",
    "WriteLog",
    "behind",
    "check_changes",
    "in_pieces",
    "log_key",
    "pack_changes",
    "piece_key",
    "unpack_changes",
]

VERSION: Final = 1
# What waits in memory, and what an open has to read: a few megabytes, and some ten milliseconds to put it away.
LAYERS_MAX: Final = 32
ROWS_MAX: Final = 32_768
BYTES_MAX: Final = 8 << 20
_PAGE: Final = 256
_RUN: Final = 8
_KEY_BYTES: Final = 8
_PIECE_BYTES: Final = 4

Changes: TypeAlias = "Sequence[dict[bytes, bytes | None]]"
"""By the number of a table the rows that are other than in it; None: the row is gone."""
Below: TypeAlias = "Callable[[bytes, bytes | None, int | None, int], tuple[Rows, int]]"

_BYTES: Final = {bytes}
_BYTES_OR_GONE: Final = {bytes, type(None)}
_NEVER_LOGGED: Final = (Table.META, Table.LOG)


class Missing:
    """Says that the log has nothing about a row."""


MISSING: Final = Missing()


class Run(ABC):
    """Rows that differ from their tables, by number of the table. Any worker may read it."""

    __slots__ = ("_keys",)

    def __init__(self) -> None:
        self._keys: dict[int, list[bytes]] = {}

    @abstractmethod
    def of(self, table: int) -> dict[bytes, bytes | None]:
        """Return the rows of a table; not to be changed."""

    def touches(self, table: int, low: bytes, high: bytes | None) -> bool:
        """Say whether it changes a row with `low <= key < high`."""
        keys = self._sorted(table)
        first = bisect_left(keys, low)
        return first < len(keys) and (high is None or keys[first] < high)

    def between(self, table: int, low: bytes, high: bytes | None, *, reverse: bool, limit: int | None) -> list[bytes]:
        """Return the first keys of changed rows with `low <= key < high`; with `reverse` the last ones, backwards."""
        keys = self._sorted(table)
        start, end = bisect_left(keys, low), len(keys) if high is None else bisect_left(keys, high)
        if limit is None:
            limit = len(keys)
        return keys[max(start, end - limit) : end][::-1] if reverse else keys[start : min(end, start + limit)]

    def _sorted(self, table: int) -> list[bytes]:
        # Made when it is first asked for: most are never scanned. Two workers at once make equal lists.
        keys = self._keys.get(table)
        if keys is None:
            keys = self._keys[table] = sorted(self.of(table))
        return keys


class Layer(Run):
    """What one group changed.

    Args:
        number: its record in LOG.
        changes: belongs to the layer from now on.
        size: bytes of the record.

    Attributes:
        pieces: rows that the record takes in LOG.
    """

    __slots__ = ("changes", "count", "number", "pieces", "size")

    def __init__(self, number: int, changes: Changes, size: int) -> None:
        super().__init__()
        self.number = number
        self.changes = changes
        self.count = sum(map(len, changes))
        self.pieces = 1
        self.size = size

    def of(self, table: int) -> dict[bytes, bytes | None]:
        """Return the rows of a table; not to be changed."""
        return self.changes[table]


class _Several(Run):
    """Layers as one: a scan looks into a few runs instead of into every layer. The oldest is the first."""

    __slots__ = ("_rows", "_runs")

    def __init__(self, runs: tuple[Run, ...]) -> None:
        super().__init__()
        self._runs = runs
        self._rows: dict[int, dict[bytes, bytes | None]] = {}

    def of(self, table: int) -> dict[bytes, bytes | None]:
        rows = self._rows.get(table)
        if rows is None:
            rows = {}
            for run in self._runs:
                rows.update(run.of(table))
            self._rows[table] = rows
        return rows


class WriteLog:
    """The layers that lie over the tables, the newest first."""

    __slots__ = ("_runs", "count", "layers", "size")

    def __init__(self) -> None:
        self.layers: tuple[Layer, ...] = ()
        self._runs: tuple[Run, ...] = ()  # the same, the oldest first, and full runs of them as one
        self.count = 0
        self.size = 0

    def takes(self, count: int, size: int) -> bool:
        """Say whether a layer of so many rows and bytes may wait with the others."""
        return (
            len(self.layers) < LAYERS_MAX and self.count + count <= ROWS_MAX and self.size + size <= BYTES_MAX
        )  # fmt: skip

    def under(self, layer: Layer) -> WriteLog:
        """Return this log with one more layer over it."""
        log = WriteLog()
        log.layers = (layer, *self.layers)
        log._runs = (*self._runs, layer)
        if len(log.layers) % _RUN == 0:
            log._runs = (*log._runs[:-_RUN], _Several(log._runs[-_RUN:]))
        log.count = self.count + layer.count
        log.size = self.size + layer.size
        return log

    def get(self, table: int, key: bytes) -> bytes | Missing | None:
        """Return the value of a row, None where it is gone, `MISSING` where its table says what it is."""
        for layer in self.layers:
            changes = layer.changes[table]
            if key in changes:
                return changes[key]
        return MISSING

    def merged(self, table: int) -> dict[bytes, bytes | None]:
        """Return all that differs from a table."""
        merged: dict[bytes, bytes | None] = {}
        for layer in reversed(self.layers):
            merged.update(layer.changes[table])
        return merged

    def scan(
        self,
        below: Below,
        table: int,
        low: bytes,
        high: bytes | None,
        *,
        reverse: bool,
        limit: int | None,
        skip: int,
    ) -> Rows:
        """Return rows with `low <= key < high`; see `View.scan`.

        Args:
            below: reads the table itself, in the same direction: from, below what key, how many at most, skipping how many.
                Returns the rows, and how many there were too few to skip.
        """
        runs = [run for run in self._runs if run.touches(table, low, high)]
        found: Rows = []
        page = span = limit
        while runs:
            if skip:
                # What stands before the first change is skipped as where there is no log: unread, however much it is.
                firsts = [run.between(table, low, high, reverse=reverse, limit=1)[0] for run in runs]
                edge = max(firsts) + b"\0" if reverse else min(firsts)
                rows, skip = below(edge, high, limit, skip) if reverse else below(low, edge, limit, skip)
                found += rows
                low, high = (low, edge) if reverse else (edge, high)
                limit = None if limit is None else limit - len(rows)
                if limit == 0:
                    return found
            rows, last = _page_over(runs, below, table, low, high, reverse=reverse, page=page, span=span)
            taken = rows[skip : None if limit is None else skip + limit]
            found += taken
            skip = max(0, skip - len(rows))
            limit = None if limit is None else limit - len(taken)
            if last is None or page is None or span is None or limit == 0:
                return found
            low, high = (low, last) if reverse else (last + b"\0", high)
            # Rows that are gone, or to be skipped, filled it: where there were some there are more. Of the table no more
            # than that, since each may have a megabyte; keys of the log are at hand.
            page, span = max(page, min(2 * page, _PAGE)), 4 * span
            runs = [run for run in runs if run.touches(table, low, high)]
        return found + below(low, high, limit, skip)[0]


def _page_over(
    runs: list[Run],
    below: Below,
    table: int,
    low: bytes,
    high: bytes | None,
    *,
    reverse: bool,
    page: int | None,
    span: int | None,
) -> tuple[Rows, bytes | None]:
    """Return the rows up to a key, and that key, None where these are all: of `page` below, and `span` of each run."""
    rows: dict[bytes, bytes | None] = dict(below(low, high, page, 0)[0])
    # Where one of them may have more, only what comes before its last key is known of all.
    edges = [next(reversed(rows))] if len(rows) == page else []
    for run in runs:
        keys, changes = run.between(table, low, high, reverse=reverse, limit=span), run.of(table)
        if len(keys) == span:
            edges.append(keys[-1])
        for key in keys:
            rows[key] = changes[key]
    edge = None if not edges else max(edges) if reverse else min(edges)
    known = sorted(
        (
            (key, value)
            for key, value in rows.items()
            if value is not None and (edge is None or (key >= edge if reverse else key <= edge))
        ),
        reverse=reverse,
    )
    return known, edge


EMPTY: Final = WriteLog()


def check_changes(changes: Changes) -> None:
    """Make sure that every table will take these rows: once they are in the log, nobody is left to be told.

    Raises:
        TypeError, ValueError: what one batch can cause by its own contents.
    """
    for rows in changes:
        if not rows:
            continue
        if set(map(type, rows)) != _BYTES or not set(map(type, rows.values())) <= _BYTES_OR_GONE:
            raise TypeError("a key or a value is not bytes")
        if b"" in rows:
            raise ValueError("a key is empty")
        if max(map(len, rows)) > KEY_BYTES_MAX and any(
            len(key) > KEY_BYTES_MAX for key, value in rows.items() if value is not None
        ):
            raise ValueError(f"a key is longer than {KEY_BYTES_MAX} bytes")


def log_key(number: int) -> bytes:
    """Return the key of a record in LOG."""
    return number.to_bytes(_KEY_BYTES, "big")


def piece_key(key: bytes, piece: int) -> bytes:
    """Return the key of a piece of the record that begins under `key`."""
    return key + piece.to_bytes(_PIECE_BYTES, "big") if piece else key


def behind(key: bytes) -> bytes:
    """Return a key behind the last piece of a record, and before the next."""
    last = key[:_KEY_BYTES] + b"\xff" * _PIECE_BYTES
    return last if last > key else key + b"\0"


def in_pieces(number: int, record: bytes, room: int) -> list[tuple[bytes, bytes]]:
    """Return the rows of LOG that a record takes, of so many bytes each.

    Where what is free is single pages, by the hundred thousand after many threads were deleted, LMDB looks through all of
    them for a run, and writes the list of all of them again with each commit: 10 ms a group, and a megabyte. A piece that
    fits a page needs no run.
    """
    key = log_key(number)
    return [(piece_key(key, at // room), record[at : at + room]) for at in range(0, len(record), room)]


def pack_changes(changes: Changes) -> bytes:
    """Return the record of what a group changed."""
    record: bytes = msgpack.packb([VERSION, {table: rows for table, rows in enumerate(changes) if rows}])
    return record


def unpack_changes(key: bytes, data: bytes) -> Layer:
    """Return the layer that a record of LOG holds. Raises: CorruptRecord: it is none."""
    changes: list[dict[bytes, bytes | None]] = [{} for _ in Table]
    try:
        if len(key) != _KEY_BYTES:
            raise ValueError(f"its key has {len(key)} bytes, not {_KEY_BYTES}")
        version, stored = msgpack.unpackb(data, strict_map_key=False)
        if version != VERSION or type(version) is not int:
            raise ValueError(f"version {version!r}")
        for table, rows in stored.items():
            if Table(table) in _NEVER_LOGGED or not isinstance(rows, dict):
                raise ValueError(f"rows of table {table}")
            changes[table] = rows
        check_changes(changes)
    except (ValueError, TypeError, AttributeError, RecursionError, msgpack.UnpackException) as error:
        name = Table.LOG.name.lower()
        raise CorruptRecord(
            f"record {key.hex()} of table {name} is corrupt: {error}", table=name, key=key.hex()
        ) from error
    return Layer(int.from_bytes(key, "big"), changes, len(data))
