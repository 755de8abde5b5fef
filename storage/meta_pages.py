"""Owns what the meta pages of a data file say: is it as long as what it holds, where does it count. Never maps it.

LMDB reads through a map, and touching a page beyond the end of the file ends the process by SIGBUS: no error could be
caught. So a file that a copy or a full disk has cut short must be found before it is mapped. A page that is none, of
zeros say, ends the process by LMDB's own assertion; to find one takes a walk through all pages.

The layout is that of LMDB 0.9 on a 64-bit system, in the machine's own byte order: two meta pages stand first, written
in turn, and the one with the higher transaction counts.
"""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple

from lmdb.verify import VerifyError, verify

from ..protocol.errors import CorruptRecord

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["check_length", "check_pages", "count_on", "last_transaction"]

# The page's header: number, pad, flags, two bounds. Then MDB_meta: magic, version, an address, the map's size, and two
# MDB_db, the first of which begins with the page size; last the highest page in use, and the transaction.
_META: Final = struct.Struct("=10xH4xII16xI44x48xQQ")
_HEADER_BYTES: Final = 16
_NUMBER: Final = struct.Struct("=Q")
_IS_META: Final = 0x08
_MAGIC: Final = 0xBEEFC0DE
_VERSION: Final = 1
_PAGES_NAMED: Final = 20
_PAGE_SIZES: Final = frozenset(1 << bits for bits in range(8, 17))


class _Meta(NamedTuple):
    page_size: int
    last_page: int
    transaction: int


def check_length(file: Path) -> None:
    """Make sure that LMDB may map a data file, as far as its length is concerned; a missing one it may.

    What is no data file of this LMDB is let through: LMDB looks at that itself, before it maps.

    Raises:
        CorruptRecord: pages are missing; `details` has `path`, `size` and `needed`, both in bytes.
        OSError: it cannot be read.
    """
    try:
        with file.open("rb") as data:
            first = _read_meta(data, 0)
            metas = [] if first is None else [first, _read_meta(data, first.page_size) or first]
            # After the metas: beside a living owner the file grows before they say so.
            size = os.fstat(data.fileno()).st_size
    except FileNotFoundError:
        return
    if not metas:
        return
    newest = max(metas, key=lambda meta: meta.transaction)
    needed = (newest.last_page + 1) * newest.page_size
    # Before the first transaction there is nothing to lose: a disk that was full when the store was made does that.
    if size >= needed or not newest.transaction or _is_whole(file):
        return
    raise CorruptRecord(
        f"{file} was cut short: it has {size} bytes, and what it holds takes {needed}",
        path=str(file),
        size=size,
        needed=needed,
    )


def check_pages(file: Path) -> None:
    """Make sure that LMDB may read all pages of a data file; costs reading all of it. A missing one it may.

    Beside an owner at work nothing is said of pages that may have changed meanwhile.

    Raises:
        CorruptRecord: as `check_length`; or pages are damaged, and `details` has `path` and, of what is wrong, `pages`.
        OSError: it cannot be read.
    """
    check_length(file)
    try:
        before = last_transaction(file)
        damaged = verify(str(file))  # type: ignore[no-untyped-call]
        # A commit leaves the pages of the one before it alone, and no other.
        if not damaged or last_transaction(file) != before:
            return
    except (FileNotFoundError, VerifyError, CorruptRecord):
        return  # what is no data file LMDB refuses itself
    raise CorruptRecord(
        f"{file} has damaged pages: {damaged[0]}" + (f", and {len(damaged) - 1} more" if damaged[1:] else ""),
        path=str(file),
        pages=damaged[:_PAGES_NAMED],
    )


def last_transaction(file: Path) -> int:
    """Return the number of the last transaction in a whole data file. Raises: OSError: it cannot be read."""
    with file.open("rb") as data:
        return max(meta.transaction for meta in _both(data))


def count_on(file: Path, transaction: int) -> None:
    """Have a compacted copy count its transactions on from `transaction`, that of the file which it will replace.

    A copy begins at 1. But the lock file, by which readers and the writer of all processes agree, goes on counting while
    anybody has it open, and which meta page counts follows from that number. So both pages say the same here, under the
    two numbers that end with `transaction`, each in the place where LMDB looks for it. Unsynced.
    """
    with file.open("r+b") as data:
        metas = _both(data)
        newest = max(range(2), key=lambda rank: metas[rank].transaction)
        page_size = metas[0].page_size
        data.seek(newest * page_size + _HEADER_BYTES)
        body = data.read(_META.size - _HEADER_BYTES - _NUMBER.size)
        for number in (transaction - 1, transaction):
            data.seek((number & 1) * page_size + _HEADER_BYTES)
            data.write(body + _NUMBER.pack(number))


def _both(data: BinaryIO) -> list[_Meta]:
    first = _read_meta(data, 0)
    second = None if first is None else _read_meta(data, first.page_size)
    if first is None or second is None:
        raise CorruptRecord(f"{data.name} has no two meta pages", path=str(data.name))
    return [first, second]


def _read_meta(data: BinaryIO, offset: int) -> _Meta | None:
    """Return what a meta page says; None where there is none, or it is not of a kind that we know."""
    data.seek(offset)
    found = data.read(_META.size)
    if len(found) < _META.size:
        return None
    flags, magic, version, page_size, last_page, transaction = _META.unpack(found)
    if not flags & _IS_META or magic != _MAGIC or version != _VERSION or page_size not in _PAGE_SIZES:
        return None
    return _Meta(page_size, last_page, transaction)


def _is_whole(file: Path) -> bool:
    """Walk through everything that the file holds, without a map; costs reading all of it.

    Pages at the end that were taken and given back within one transaction are never written, so a file may be shorter
    than its metas say and yet lack nothing.
    """
    try:
        return not verify(str(file))  # type: ignore[no-untyped-call]
    except VerifyError:
        return False
