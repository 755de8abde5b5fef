"""Owns the proof of treadle.storage.tables: numbers and names are on disks, so they never change."""

from __future__ import annotations

from treadle.storage.tables import KEY_BYTES_MAX, Table


def test_the_numbers_and_names_of_the_tables_are_pinned() -> None:
    assert [(table.value, table.name) for table in Table] == [
        (0, "META"),
        (1, "THREADS"),
        (2, "NAMES"),
        (3, "JOURNAL"),
        (4, "MESSAGES"),
        (5, "MESSAGE_IDS"),
        (6, "EXECUTIONS"),
        (7, "INBOX"),
        (8, "RECEIPTS"),
        (9, "VALUES"),
        (10, "OPEN"),
        (11, "CHANGES"),
        (12, "WORK"),
        (13, "USERS"),
        (14, "LOG"),
    ]
    assert KEY_BYTES_MAX == 511
