"""Owns the rows of VALUES: what stands under a key, and the page that people read. Decides nothing, commits nothing.

A user's values are one run of keys, so that a page of them costs that page; those of the runtime's own layers stand
before it. A long name is stored under its SHA-256, so its row carries the name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ..protocol.errors import CorruptRecord
from ..protocol.limits import VALUES_PAGE_BYTES
from .codec import pack, unpack
from .keys import HASHED, VALUES_FROM, numbered, prefix_end, value_key
from .tables import Table

if TYPE_CHECKING:
    from ..protocol.values import Value
    from .store import View

__all__ = ["ValueEntry", "read_value", "read_values", "value_row"]

_RUN = 64  # rows read at once: each may have a megabyte


class ValueEntry(NamedTuple):
    """One value of a thread, under its key."""

    key: str
    value: Value


def value_row(prefix: bytes, name: str, encoded: bytes | None) -> tuple[bytes, bytes | None]:
    """Return the row of a value that was packed before; None deletes it."""
    key = value_key(prefix, name)
    if encoded is not None and key[8:9] == HASHED:
        return key, b"\x92" + pack(name) + encoded  # the array of both
    return key, encoded


def read_value(view: View, number: int, name: str) -> Any:
    """Return a value, or None."""
    key = value_key(numbered(number), name)
    data = view.get(Table.VALUES, key)
    return None if data is None else _entry(key, data).value


def read_values(
    view: View, number: int, *, search: str | None, offset: int, limit: int
) -> tuple[list[ValueEntry], bool]:
    """Return a page of a user's values in the order of their keys, and whether there are more.

    Without `search` it costs the page, and a step for each row that `offset` skips. A page may be cut short by the bytes
    in it, but holds one value at least.

    Args:
        view: to read from.
        number: the thread's.
        search: only keys that contain it; then all keys up to the page are looked at.
        offset: how many of those to skip.
        limit: at most so many.
    """
    prefix = numbered(number)
    low, end = prefix + VALUES_FROM, prefix_end(prefix)
    page: list[ValueEntry] = []
    size, skip = 0, offset if search is None else 0
    offset -= skip
    while True:
        rows = view.scan(Table.VALUES, low, end, limit=_RUN, skip=skip)
        for key, data in rows:
            if search is not None and key[8:9] != HASHED and search.encode() not in key[8:]:
                continue
            entry = _entry(key, data)
            if search is not None and search not in entry.key:
                continue
            if offset:
                offset -= 1
                continue
            if len(page) == limit or (page and size + len(data) > VALUES_PAGE_BYTES):
                return page, True
            page.append(entry)
            size += len(data)
        if len(rows) < _RUN:
            return page, False
        low, skip = rows[-1][0] + b"\0", 0


def _entry(key: bytes, data: bytes) -> ValueEntry:
    value = unpack(data, Table.VALUES, key)
    if key[8:9] != HASHED:
        return ValueEntry(key[8:].decode(), value)
    if not isinstance(value, list) or len(value) != 2 or not isinstance(value[0], str):
        raise CorruptRecord(
            f"record {key.hex()} of table values is corrupt: no name with its value", table="values", key=key.hex()
        )
    return ValueEntry(value[0], value[1])
