"""Owns the list of tables: their numbers and names. Never says what a row looks like (docs/storage.md does)."""

from __future__ import annotations

from enum import IntEnum, unique

__all__ = ["KEY_BYTES_MAX", "Table"]

# An LMDB key ends here; every implementation refuses a longer one, so that none hides another's fault.
KEY_BYTES_MAX = 511


@unique
class Table(IntEnum):
    """The ordered byte tables of a store: an op carries the number, the disk has the name in lower case."""

    META = 0
    THREADS = 1
    NAMES = 2
    JOURNAL = 3
    MESSAGES = 4
    MESSAGE_IDS = 5
    EXECUTIONS = 6
    INBOX = 7
    RECEIPTS = 8
    VALUES = 9
    OPEN = 10
    CHANGES = 11
    WORK = 12
    USERS = 13
    LOG = 14
