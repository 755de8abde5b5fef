"""Owns the bytes of a record: msgpack with a schema version in front. Knows no key and no table layout.

Decoding returns a value that encodes to an equal record, or raises `CorruptRecord`; nothing else, whatever the bytes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import msgpack
from pydantic import ValidationError

from ..protocol.errors import CorruptRecord, shorten
from ..protocol.events import EVENT_TYPES, Event
from ..protocol.facts import LIVELY, STEADY, STORED, Facts
from .tables import Table

__all__ = [
    "VERSION",
    "WORKER",
    "Pack",
    "decode_event",
    "decode_facts",
    "encode_event",
    "encode_facts",
    "pack",
    "unpack",
]

VERSION = 1  # of every record; a later version reads the earlier ones


Pack: TypeAlias = Callable[[object], bytes]


class _Worker(threading.local):
    """Holds one packer a worker: making one for each record costs more than packing it (measured 1.2 µs against 0.5)."""

    def __init__(self) -> None:
        self.pack: Pack = msgpack.Packer(use_bin_type=True).pack


# Where one worker makes several records in a row it looks its packer up once, and keeps it no longer than that.
WORKER: Final = _Worker()


def pack(value: object) -> bytes:
    """Return msgpack bytes of plain data that was checked before."""
    return WORKER.pack(value)


def unpack(data: bytes, table: Table, key: bytes) -> Any:
    """Return plain data.

    Raises:
        CorruptRecord: the bytes are not exactly one msgpack value of ours; names table and key.
    """
    try:
        return msgpack.unpackb(data, raw=False, strict_map_key=True, use_list=True)
    except (ValueError, TypeError, RecursionError, UnicodeDecodeError, msgpack.UnpackException) as error:
        raise _corrupt(table, key, f"not msgpack: {error}") from error


def _corrupt(table: Table, key: bytes, why: str) -> CorruptRecord:
    name = table.name.lower()
    return CorruptRecord(f"record {key.hex()} of table {name} is corrupt: {why}", table=name, key=key.hex())


def encode_event(event: Event, at: int) -> bytes:
    """Return an event's record: version, type code, time, then its fields in order."""
    return pack([VERSION, event.code, at, *event.__dict__.values()])


def decode_event(data: bytes, key: bytes) -> tuple[int, Event]:
    """Return an event's time (microseconds) and the event.

    Raises:
        CorruptRecord: the record is not an event.
    """
    record = unpack(data, Table.JOURNAL, key)
    if not isinstance(record, list) or len(record) < 3 or type(record[0]) is not int or type(record[1]) is not int:
        raise _corrupt(Table.JOURNAL, key, "not an event record")
    version, code, at, *values = record
    kind = EVENT_TYPES.get(code)
    if version != VERSION or kind is None or type(at) is not int or len(values) > len(kind.model_fields):
        raise _corrupt(Table.JOURNAL, key, f"version {shorten(version)}, type {shorten(code)}, {len(values)} fields")
    try:
        return at, kind.model_validate(dict(zip(kind.model_fields, values, strict=False)))
    except (ValidationError, RecursionError) as error:
        raise _corrupt(Table.JOURNAL, key, f"{kind.type}: {shorten(str(error), 300)}") from error


def encode_facts(facts: Facts, packer: Pack | None = None) -> bytes:
    """Return the thread record that stands behind the head in the thread's row: the steady values, and a list of the others.

    Args:
        facts: the thread's.
        packer: this worker's own, for one who has looked it up.
    """
    stem = facts.stem
    if stem is None:
        # With something in the place of the list, and without it again: one byte.
        stem = facts.stem = pack((VERSION, *facts.steady(), None))[:-1]
    return stem + (packer or WORKER.pack)(facts.lively())


_KINDS: dict[str, type | tuple[type, ...]] = {
    "thread_id": str, "agent_id": str, "state": str, "held": bool, "steerable": bool, "resuming": bool, "counts": dict, "lost_at": list,
    "user_id": (str, type(None)), "reason": (str, type(None)), "hold_reason": (str, type(None)),
    "terminated_at": (int, type(None)), "execution_id": (str, type(None)), "timeout": (float, int, type(None)),
    "interrupted_by": (str, type(None)),
}  # fmt: skip
_CHECKS = [(name, _KINDS.get(name, int)) for name in STORED]


def decode_facts(data: bytes, key: bytes) -> Facts:
    """Return the facts of a thread record.

    Raises:
        CorruptRecord: the record is not one.
    """
    try:
        record = msgpack.unpackb(data, raw=False, strict_map_key=False)  # the counts have numbers as keys
    except (ValueError, TypeError, RecursionError, msgpack.UnpackException) as error:
        raise _corrupt(Table.THREADS, key, f"not msgpack: {error}") from error
    if (
        not isinstance(record, list)
        or len(record) != len(STEADY) + 2
        or record[0] != VERSION
        or type(record[0]) is not int
        or not isinstance(record[-1], list)
        or len(record[-1]) != len(LIVELY)
    ):
        raise _corrupt(Table.THREADS, key, "not a thread record")
    record += record.pop()
    for value, (name, kind) in zip(record[1:], _CHECKS, strict=True):
        if not isinstance(value, kind) or (kind is int and type(value) is not int):
            raise _corrupt(Table.THREADS, key, f"{name} is {shorten(value)}")
    counts, lost_at = record[1 + STORED.index("counts")], record[1 + STORED.index("lost_at")]
    plain = all(type(number) is int for pair in counts.items() for number in pair) and all(
        type(at) is int for at in lost_at
    )
    if not plain:
        raise _corrupt(Table.THREADS, key, "counts or lost_at hold what is not a number")
    return Facts.from_values(record[1:])
