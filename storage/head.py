"""Owns the fixed head of a thread's row and the judgement whether a batch fits it. Never reads or writes a store."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from ..protocol.errors import AppendConflict, CorruptRecord
from .tables import Table

if TYPE_CHECKING:
    from .batch import Batch

__all__ = ["HEAD_SIZE", "Head", "conflict_over", "judge", "pack_head", "pack_row", "thread_key", "unpack_head"]

_HEAD = struct.Struct(">IQIQQ")
HEAD_SIZE = _HEAD.size
pack_head = _HEAD.pack


class Head(NamedTuple):
    """The first 32 bytes of a row in THREADS: what the writer checks before the first put of a batch."""

    generation: int
    sequence: int
    boot: int
    life: int
    change: int  # the thread's row in CHANGES, 0 if it has none


def thread_key(number: int) -> bytes:
    """Return the key of a thread's row in THREADS."""
    return number.to_bytes(8, "big")


def pack_row(batch: Batch, change: int) -> bytes:
    """Return the thread's row as it is after `batch`, which took change number `change`."""
    return pack_head(batch.head_generation, batch.head_sequence, batch.boot, batch.life, change) + batch.record


def unpack_head(row: bytes, key: bytes) -> Head:
    """Return the head of a row; what follows it, from `HEAD_SIZE` on, is the thread record.

    Raises:
        CorruptRecord: the row is too short to hold one.
    """
    if len(row) < HEAD_SIZE:
        raise CorruptRecord(
            f"the row of thread {int.from_bytes(key, 'big')} has {len(row)} bytes, its head alone takes {HEAD_SIZE}",
            table=Table.THREADS.name.lower(),
            key=key.hex(),
        )
    return Head._make(_HEAD.unpack_from(row))


def judge(batch: Batch, row: bytes | None, key: bytes, barriers: dict[int, tuple[int, int]]) -> int:
    """Return the thread's change number before `batch` (0 if none), provided that the batch may be written.

    Args:
        batch: what wants to be written.
        row: the thread's stored row, or None.
        key: the row's key.
        barriers: thread numbers with the lowest incarnation that may still write.

    Raises:
        AppendConflict: another head is stored, or the batch comes from an incarnation that was replaced.
        CorruptRecord: the stored row has no head.
    """
    incarnation = (batch.boot, batch.life)
    if row is None:
        generation = sequence = change = 0
    else:
        # Spelled out rather than through `unpack_head`: this runs once a batch on the writer.
        try:
            generation, sequence, boot, life, change = _HEAD.unpack_from(row)
        except struct.error:
            generation, sequence, boot, life, change = unpack_head(row, key)
        if (boot, life) > incarnation:
            raise _replaced(batch, (boot, life))
    if generation != batch.generation or sequence != batch.sequence:
        raise AppendConflict(
            f"thread {batch.number} is at {generation}:{sequence}, the batch expected "
            f"{batch.generation}:{batch.sequence}",
            number=batch.number,
            expected=f"{batch.generation}:{batch.sequence}",
            actual=f"{generation}:{sequence}",
        )
    if barriers and incarnation < barriers.get(batch.number, incarnation):
        raise _replaced(batch, barriers[batch.number])
    return change


def conflict_over(batch: Batch, table: int, key: bytes) -> AppendConflict:
    """Return the refusal of a batch whose `absent` key exists."""
    return AppendConflict(
        f"a key that thread {batch.number} needs to be free is taken",
        number=batch.number,
        table=Table(table).name.lower(),
        key=key.hex(),
    )


def _replaced(batch: Batch, newest: tuple[int, int]) -> AppendConflict:
    return AppendConflict(
        f"incarnation {batch.boot}:{batch.life} of thread {batch.number} was replaced by {newest[0]}:{newest[1]}",
        number=batch.number,
        incarnation=f"{batch.boot}:{batch.life}",
        newest=f"{newest[0]}:{newest[1]}",
        expected=f"{batch.generation}:{batch.sequence}",
    )
