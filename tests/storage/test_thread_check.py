"""storage/thread_check.py: every row of a thread that is not what its journal gives is named, whatever the table."""

from __future__ import annotations

import random

import pytest

from treadle.protocol.facts import STORED
from treadle.storage.check import check_tables
from treadle.storage.codec import decode_facts, encode_facts, pack, unpack
from treadle.storage.encoding import WORK_DELETING
from treadle.storage.head import HEAD_SIZE
from treadle.storage.tables import Table
from treadle.storage.thread_check import Broken, ThreadCheck

from .filled import THREAD, Tables, changed, filled_tables, store_of

WITH_ROWS = [table for table in Table if table not in (Table.META, Table.LOG)]
# What follows from the journal to the byte. Not so: the journal itself, values, and at which batch a status changed.
NOT_GIVEN = (Table.JOURNAL, Table.VALUES, Table.CHANGES, Table.USERS)
GIVEN = [table for table in WITH_ROWS if table not in NOT_GIVEN]


def broken_by(tables: Tables) -> list[Broken]:
    return list(check_tables(store_of(tables)).broken)


def a_copy() -> Tables:
    return [dict(rows) for rows in filled_tables()]


def number_of(thread_id: str) -> bytes:
    return filled_tables()[Table.NAMES][thread_id.encode()]


def facts_row(thread_id: str) -> tuple[bytes, bytes, bytes]:
    key = number_of(thread_id)
    row = filled_tables()[Table.THREADS][key]
    return key, row[:HEAD_SIZE], row[HEAD_SIZE:]


def test_a_store_in_the_midst_of_work_is_whole_and_has_rows_in_every_table() -> None:
    tables = filled_tables()

    assert broken_by(tables) == []
    assert [table.name for table in WITH_ROWS if not tables[table]] == []
    # Of each kind that OPEN and INBOX can hold.
    assert {key[8:9] for key in tables[Table.OPEN]} == {b"c", b"p", b"r"}
    assert len(tables[Table.INBOX]) == 3


@pytest.mark.parametrize("table", WITH_ROWS, ids=lambda table: table.name)
def test_a_missing_row_is_named(table: Table) -> None:
    silent = []
    for key in filled_tables()[table]:
        tables = a_copy()
        del tables[table][key]
        named = {broken.table for broken in broken_by(tables)}
        # Without its row in THREADS a thread's other rows are what is left over; a deleted id may be forgotten.
        due = named if table is Table.THREADS else named & {table.name.lower()}
        if not due and filled_tables()[table][key] != b"":
            silent.append(key)

    assert silent == []


@pytest.mark.parametrize("table", WITH_ROWS, ids=lambda table: table.name)
def test_a_row_too_many_is_named(table: Table) -> None:
    tables = a_copy()
    key, value = max(tables[table].items())
    tables[table][key + b"\x01"] = value or b"\x01"

    assert table.name.lower() in {broken.table for broken in broken_by(tables)}


@pytest.mark.parametrize("table", GIVEN, ids=lambda table: table.name)
def test_a_changed_byte_is_noticed(table: Table) -> None:
    chance = random.Random(20260101)
    silent = []
    for key, value in filled_tables()[table].items():
        first = HEAD_SIZE if table is Table.THREADS else 0
        if len(value) == first:
            continue
        place = chance.randrange(first, len(value))
        tables = a_copy()
        tables[table][key] = value[:place] + bytes([value[place] ^ 1 << chance.randrange(8)]) + value[place + 1 :]
        if not broken_by(tables):
            silent.append((key, place))

    assert silent == []


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("table", GIVEN, ids=lambda table: table.name)
def test_every_changed_byte_is_noticed(table: Table) -> None:
    silent = []
    for key, value in filled_tables()[table].items():
        for place in range(HEAD_SIZE if table is Table.THREADS else 0, len(value)):
            tables = a_copy()
            tables[table][key] = value[:place] + bytes([value[place] ^ 0x15]) + value[place + 1 :]
            if not broken_by(tables):
                silent.append((key, place))

    assert silent == []


@pytest.mark.parametrize("name", STORED)
def test_a_fact_that_the_journal_does_not_give_is_named(name: str) -> None:
    key, head, record = facts_row(THREAD)
    facts = decode_facts(record, key)
    value = getattr(facts, name)
    wrong = {bool: not value, str: f"{value}x", int: 77, dict: {0: 99}, list: [5], float: 9.5, type(None): None}[
        type(value)
    ]
    if value is None:
        wrong = {"user_id": "u", "reason": "stopped", "hold_reason": "x", "interrupted_by": "user"}.get(name, 5)
    setattr(facts, name, wrong)
    tables = a_copy()
    tables[Table.THREADS][key] = head + encode_facts(facts)

    named = [broken for broken in broken_by(tables) if broken.table == "threads"]
    assert any(name in broken.why or "record" in broken.why for broken in named), named


@pytest.mark.parametrize(
    ("place", "wrong"), [(0, 2), (1, 999), (2, "idle"), (3, 1), (4, "stopped"), (5, True)], ids=lambda item: str(item)
)
def test_a_change_that_is_not_the_threads_last_is_named(place: int, wrong: object) -> None:
    number = number_of(THREAD)
    key, row = next((key, row) for key, row in filled_tables()[Table.CHANGES].items() if row[:8] == number)
    change = unpack(row[8:], Table.CHANGES, key)
    change[place] = wrong

    store = changed(lambda tables: tables[Table.CHANGES].update({key: number + pack(change)}))
    assert {broken.table for broken in check_tables(store).broken} == {"changes"}


def test_a_value_that_does_not_decode_is_named() -> None:
    store = changed(lambda tables: tables[Table.VALUES].update({max(tables[Table.VALUES]): b"\xc1"}))

    assert {broken.table for broken in check_tables(store).broken} == {"values"}


def test_a_head_of_a_later_boot_than_the_last_is_named() -> None:
    with store_of(filled_tables()).view() as view:
        number = int.from_bytes(number_of(THREAD), "big")

        assert ThreadCheck(view, number, last_boot=1).broken == []
        # MemoryStore counts its boots from 1; this asks as if the store had been opened never.
        checked = ThreadCheck(store_of(_boot_of(9)).view().__enter__(), number, last_boot=2)

    assert ["boot 9" in broken.why for broken in checked.broken] == [True]


def _boot_of(boot: int) -> Tables:
    tables = a_copy()
    key, head, record = facts_row(THREAD)
    tables[Table.THREADS][key] = head[:12] + boot.to_bytes(4, "big") + head[16:] + record
    return tables


def test_a_thread_half_deleted_is_whole_only_while_work_says_so() -> None:
    key, _, _ = facts_row(THREAD)

    def delete(tables: Tables) -> None:
        tables[Table.NAMES][THREAD.encode()] = b""
        tables[Table.WORK][key] = WORK_DELETING
        tables[Table.USERS].clear()

    broken = check_tables(changed(delete)).broken
    assert [one.table for one in broken] == ["changes"]  # its last change does not say that it is gone

    tables = a_copy()
    delete(tables)
    del tables[Table.WORK][key]
    assert "work" in {one.table for one in broken_by(tables)}


def test_what_a_deleted_thread_left_behind_is_named() -> None:
    gone = next(key for key, row in filled_tables()[Table.THREADS].items() if len(row) == HEAD_SIZE)
    for table in (Table.JOURNAL, Table.MESSAGES, Table.INBOX, Table.VALUES, Table.OPEN, Table.WORK):
        tables = a_copy()
        tables[table][gone if table is Table.WORK else gone + b"\x00\x01"] = b"\x01"

        assert [broken.table for broken in broken_by(tables)] == [table.name.lower()]


def test_what_is_broken_is_told_with_thread_table_and_key() -> None:
    key, _, _ = facts_row(THREAD)
    [found] = check_tables(changed(lambda tables: tables[Table.WORK].pop(key))).broken

    assert (found.table, found.key, found.thread) == ("work", key.hex(), int.from_bytes(key, "big"))
    assert str(found).startswith(f"thread {found.thread}, work {key.hex()}: ")
