"""Owns the proof that what is read of a damaged row is a value or `CorruptRecord`, by name, whatever stands in the row."""

from __future__ import annotations

from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgpack
import pytest

from treadle.actors.requests import pending_requests
from treadle.protocol.errors import CorruptRecord, MessageNotFound
from treadle.storage.check import check_tables
from treadle.storage.exporting import export
from treadle.storage.keys import numbered
from treadle.storage.pages import MessageReader, read_executions, unpublished_executions
from treadle.storage.reading import read_journal, read_open, read_prior, read_request, read_rows, read_thread
from treadle.storage.standing import StandingReader
from treadle.storage.survey import survey_thread
from treadle.storage.tables import Table
from treadle.storage.thread_check import OWN

from .filled import THREAD, Tables, changed, filled_tables, store_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from treadle.storage.memory_store import MemoryStore
    from treadle.storage.store import View

GARBAGE: list[Any] = [None, -1, 200, (1 << 64) - 1, 1.5, "x", b"x", [], {}]
CLASSES = [0, 1]
ASKED = ["r-1", "r-expired", "r-resolved", "r-abandoned"]
GIVEN = ["i-1", "i-2", "c-9", "q-1", "s-1", "s-2"]


def message_ids(tables: Tables, number: int) -> list[str]:
    with store_of(tables).view() as view:
        found = MessageReader(view, number, 1)
        joined = found.page(CLASSES, offset=0, limit=100, newest_first=False)
        return [message.id for message in joined + queued(found)]


def queued(reader: MessageReader) -> list[Any]:
    return reader.queued(include_silent=True, offset=0, limit=100, failed_through=0)


def readers(view: View, store: MemoryStore, number: int, ids: list[str]) -> Iterator[Callable[[], object]]:
    """Yield what is asked of a thread: by its actor, by people, by tools."""
    found = read_thread(view, number)
    assert found is not None
    facts = found[1]
    ends, live = facts.sequence, facts.execution_id

    class Shown:
        cursor, pending = facts.cursor, facts.pending

    Shown.number = number  # type: ignore[attr-defined]
    for newest_first in (False, True):
        yield lambda newest_first=newest_first: MessageReader(view, number, 1).page(
            CLASSES, offset=0, limit=50, newest_first=newest_first
        )
    yield lambda: MessageReader(view, number, 1).ranked(CLASSES, 1, 4)
    yield lambda: MessageReader(view, number, 1).placed(CLASSES, 0, 50)
    yield lambda: queued(MessageReader(view, number, 1))
    for one in ids:
        yield lambda one=one: MessageReader(view, number, 1).find(one, 0)
        yield lambda one=one: MessageReader(view, number, 1).beside(one, CLASSES, limit=2, before=True)
        yield lambda one=one: StandingReader(view, number, 1).find_standing(one, CLASSES, 0)
    yield lambda: read_executions(
        view, number, 1, offset=0, limit=50, newest_first=True, live_id=live, through=ends
    )  # fmt: skip
    yield lambda: unpublished_executions(view, number, ends)
    yield lambda: read_rows(view, number, kinds=("submit", "message", "steer", "tool"))
    yield lambda: read_journal(view, number, 1, 0, ends, 1_000)
    for kind in (b"c", b"r", b"p"):
        yield lambda kind=kind: read_open(view, number, kind)
    yield lambda: pending_requests(view, Shown)  # type: ignore[arg-type]
    yield from (lambda one=one: read_request(view, number, one) for one in ASKED)
    yield from (lambda one=one: read_prior(view, number, 1, one) for one in GIVEN)
    yield lambda: survey_thread(store, THREAD)
    for what in ("events", "messages"):
        yield lambda what=what: list(export(store, what))


def named(read: Callable[[], object]) -> set[str]:
    """Return what a refusal names; nothing where there was a value."""
    try:
        with suppress(MessageNotFound):
            read()
    except CorruptRecord as error:
        return set(error.details)
    return set()


def damaged(record: Any) -> Iterator[Any]:
    """Yield the record with each of its parts, at any depth, replaced by what it cannot be."""
    parts = enumerate(record) if isinstance(record, list) else record.items() if isinstance(record, dict) else ()
    for at, part in list(parts):
        for other in GARBAGE:
            if (type(other), other) != (type(part), part):
                copy = record.copy()
                copy[at] = other
                yield copy
        for inner in damaged(part):
            copy = record.copy()
            copy[at] = inner
            yield copy


@pytest.mark.slow
@pytest.mark.parametrize(
    "table", [table for table in OWN if table != Table.VALUES], ids=lambda table: table.name.lower()
)
def test_every_reader_of_a_damaged_row_gets_a_value_or_its_name(table: Table) -> None:
    tables = filled_tables()
    number = int.from_bytes(tables[Table.NAMES][THREAD.encode()], "big")
    ids = message_ids(tables, number)
    for key, stored in tables[table].items():
        if not key.startswith(numbered(number)):
            continue
        records = damaged(msgpack.unpackb(stored, strict_map_key=False))
        for record in islice(records, 0, None, 17 if table == Table.JOURNAL else 1):
            store = changed(lambda rows, key=key, record=record: rows[table].update({key: msgpack.packb(record)}))
            with store.view() as view:
                for read in readers(view, store, number, ids):
                    assert named(read) <= {"table", "key"}


def test_the_check_names_a_key_of_the_wrong_length_and_goes_on() -> None:
    def shorten(tables: Tables) -> None:
        tables[Table.THREADS][b"\0\0"] = tables[Table.THREADS][numbered(1)]

    report = check_tables(changed(shorten))

    assert [(one.table, one.key) for one in report.broken] == [("threads", "0000")]
    assert report.threads == check_tables(store_of(filled_tables())).threads


def test_the_check_names_a_thread_that_its_own_judgement_falls_over_and_judges_the_others() -> None:
    whole = check_tables(store_of(filled_tables()))

    def damage(tables: Tables) -> None:
        number = int.from_bytes(tables[Table.NAMES][THREAD.encode()], "big")
        for key, stored in tables[Table.JOURNAL].items():
            record = msgpack.unpackb(stored)
            if key.startswith(numbered(number)) and record[1] == 18 and record[-2] is None:  # MESSAGE_UPDATED
                record[5][3] = "nowhere"
                tables[Table.JOURNAL][key] = msgpack.packb(record)
                return
        raise AssertionError("no such event")

    report = check_tables(changed(damage))

    assert report.threads == whole.threads
    assert any("does not fold" in str(one) for one in report.broken)
