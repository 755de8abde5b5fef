"""Owns what a look at a store tells without a runtime: its size, its threads, what the next open has to do. Writes nothing.

It costs what it shows. Beside an owner at work each page is of one moment, and two pages may be of two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from ..protocol.cursors import Cursor
from ..protocol.errors import CorruptRecord, ThreadNotFound
from ..protocol.events import JournalEvent, RequestOpened, ThreadCreated
from ..protocol.ids import check_id
from .codec import decode_facts
from .head import HEAD_SIZE
from .keys import numbered, prefix_end
from .lmdb_view import TableSize
from .pages import read_executions
from .reading import decode_row, read_event, read_open, read_thread, thread_number
from .schema import BOOT_KEY, unpack_boot
from .tables import Table
from .thread_check import OWN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..protocol.executions import ExecutionRecord
    from ..protocol.facts import Facts
    from ..protocol.inbox import Row
    from .lmdb_store import LmdbStore
    from .store import Boot, Store, View

__all__ = [
    "ROWS_SHOWN", "StoreSurvey", "ThreadDetail", "ThreadSurvey", "survey_store", "survey_thread", "survey_threads",
]  # fmt: skip

ROWS_SHOWN: Final = 100  # of what waits, and of executions, in the detail of one thread
_PAGE: Final = 256
_SCAN: Final = 64  # rows read at once where each may have megabytes
WORK: Final = {b"r": "recover", b"w": "start", b"d": "remove"}  # what an open does for a thread


class StoreSurvey(NamedTuple):
    """A whole store.

    Attributes:
        boot: the last one.
        tables: sizes by name.
        work: how many threads the next open must look at, by what for: `recover` a lost execution, `start` what waits,
            `remove` what is left of a deleted thread.
    """

    boot: Boot
    tables: dict[str, TableSize]
    work: dict[str, int]


class ThreadSurvey(NamedTuple):
    """One thread: its number, its facts, or why they cannot be read, and what the next open does for it."""

    number: int
    facts: Facts | None
    error: str | None
    work: str | None


class ThreadDetail(NamedTuple):
    """One thread in detail.

    Attributes:
        survey: as in the list.
        created: its first event.
        executions: the last ones, newest first.
        waiting: rows that wait, in the order in which they would be taken; with `executions`, at most 100.
        requests: the open ones, with their time in microseconds.
        calls, processes: ids of open tool calls; process groups that the execution started.
        sizes: rows and bytes of keys and values, by table.
    """

    survey: ThreadSurvey
    created: JournalEvent
    executions: list[ExecutionRecord]
    waiting: list[Row]
    requests: list[tuple[int, RequestOpened]]
    calls: list[str]
    processes: list[int]
    sizes: dict[str, TableSize]


def survey_store(store: LmdbStore) -> StoreSurvey:
    """Look at a store; costs a step for each thread that has work. Raises: CorruptRecord, StoreFailed."""
    work = dict.fromkeys(WORK.values(), 0)
    with store.view() as view:
        boot = unpack_boot(view.get(Table.META, BOOT_KEY))
        tables = {table.name.lower(): view.size(table) for table in Table}
        low = b""
        while rows := view.scan(Table.WORK, low, None, limit=_PAGE):
            for _, why in rows:
                if why in WORK:  # what else may stand there, `check` names
                    work[WORK[why]] += 1
            low = rows[-1][0] + b"\0"
    return StoreSurvey(boot, tables, work)


def survey_threads(store: Store, after: int = 0) -> Iterator[ThreadSurvey]:
    """Yield the threads with a number above `after`, in the order of creation, without the deleted; a page at a time.

    A thread whose record cannot be read is in it, with the error.
    """
    low = numbered(after + 1)
    while True:
        found = []
        with store.view() as view:
            rows = view.scan(Table.THREADS, low, None, limit=_PAGE)
            for key, row in rows:
                surveyed = _surveyed(view, key, row)
                if surveyed is not None:
                    found.append(surveyed)
        yield from found
        if len(rows) < _PAGE:
            return
        low = rows[-1][0] + b"\0"


def survey_thread(store: Store, thread_id: object) -> ThreadDetail:
    """Look at one thread in detail; costs reading all of its rows.

    Raises:
        InvalidInput, ThreadNotFound: there is none.
        CorruptRecord: a record of it cannot be read.
    """
    given = check_id("thread_id", thread_id)
    with store.view() as view:
        number = thread_number(view, given)
        found = read_thread(view, number) if number else None
        if not number or found is None:
            raise ThreadNotFound(f"no thread {given!r}", thread_id=given)
        facts = found[1]
        generation = facts.generation
        requests = [read_event(view, number, generation, at) for _, at in read_open(view, number, b"r")]
        waiting = view.scan(Table.INBOX, numbered(number), prefix_end(numbered(number)), limit=ROWS_SHOWN)
        at, created = read_event(view, number, generation, 1)
        return ThreadDetail(
            ThreadSurvey(number, facts, None, _work(view, numbered(number))),
            _first(facts, at, created),
            read_executions(
                view, number, generation, offset=0, limit=ROWS_SHOWN, newest_first=True, live_id=facts.execution_id,
                through=facts.sequence,
            ),
            [decode_row(key, data) for key, data in waiting],
            [(at, event) for at, event in requests if isinstance(event, RequestOpened)],
            [call_id for call_id, _ in read_open(view, number, b"c")],
            [group for group, _ in read_open(view, number, b"p")],
            {table.name.lower(): _size(view, table, number) for table in OWN},
        )  # fmt: skip


def _first(facts: Facts, at: int, event: object) -> JournalEvent:
    if not isinstance(event, ThreadCreated):
        raise CorruptRecord(f"the journal of {facts.thread_id!r} does not begin with its creation", table="journal")
    return JournalEvent(Cursor(facts.generation, 1), at, event)


def _surveyed(view: View, key: bytes, row: bytes) -> ThreadSurvey | None:
    number = int.from_bytes(key, "big")
    if len(row) == HEAD_SIZE:
        return None  # deleted: the head alone is left
    try:
        facts = decode_facts(row[HEAD_SIZE:], key)
    except CorruptRecord as error:
        return ThreadSurvey(number, None, str(error), None)
    if view.get(Table.NAMES, facts.thread_id.encode()) == b"":
        return None
    return ThreadSurvey(number, facts, None, _work(view, key))


def _work(view: View, key: bytes) -> str | None:
    return WORK.get(view.get(Table.WORK, key) or b"")


def _size(view: View, table: Table, number: int) -> TableSize:
    low, end = numbered(number), prefix_end(numbered(number))
    count = size = 0
    while rows := view.scan(table, low, end, limit=_SCAN):
        count += len(rows)
        size += sum(len(key) + len(value) for key, value in rows)
        low = rows[-1][0] + b"\0"
    return TableSize(count, size)
