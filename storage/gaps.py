"""Owns where the positions of deleted messages lie, so that a place in history is found at a cost that no length changes.

A message keeps its position for good, and a deletion leaves a gap. Beside the messages stand counters of gaps, one for
each block of positions that has any, in three levels of blocks: a message of a given rank is found by going down them.
They are rows of MESSAGES under a class that no message has. Never says which message is gone: its row is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ..protocol.errors import CorruptRecord
from .codec import unpack
from .keys import message_key
from .tables import Table

if TYPE_CHECKING:
    from .store import View

__all__ = ["GAPS_CLASS", "gap_keys", "locate", "read_gaps"]

GAPS_CLASS: Final = 255
_SHIFTS: Final = (21, 14, 7)  # blocks of 2 Mi, 16 Ki and 128 positions
_LEVEL_SHIFT: Final = 56  # the level stands in the first of the eight bytes where a message has its position


def _key(number: int, level: int, block: int) -> bytes:
    return message_key(number, GAPS_CLASS, level << _LEVEL_SHIFT | block)


def gap_keys(number: int, position: int) -> list[bytes]:
    """Return the keys of the counters of a position, from the largest block to the smallest."""
    return [_key(number, level, position >> shift) for level, shift in enumerate(_SHIFTS)]


def read_gaps(data: bytes | None, key: bytes) -> int:
    """Return a counter; 0 where there is no row. Raises: CorruptRecord."""
    count: Any = 0 if data is None else unpack(data, Table.MESSAGES, key)
    if type(count) is not int or not 0 <= count <= 1 << _SHIFTS[0]:
        raise CorruptRecord(
            f"record {key.hex()} of table messages is corrupt: not a number of gaps", table="messages", key=key.hex()
        )
    return count


def locate(view: View, number: int, rank: int) -> tuple[int, int]:
    """Return where to look for the message of a rank in history: a position, and how many messages to skip from there."""
    position, end = 0, None
    for level, shift in enumerate(_SHIFTS):
        size = 1 << shift
        high = _key(number, level + 1, 0) if end is None else _key(number, level, end >> shift)
        inside = False
        for key, data in view.scan(Table.MESSAGES, _key(number, level, position >> shift), high):
            start = (int.from_bytes(key[-7:], "big")) << shift
            if rank < start - position:
                break
            rank -= start - position
            held = size - read_gaps(data, key)
            if rank < held:
                position, end, inside = start, start + size, True
                break
            rank -= held
            position = start + size
        if not inside:
            return position + rank, 0  # no gap lies between
    return position, rank
