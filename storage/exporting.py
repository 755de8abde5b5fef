"""Owns the export of threads: their events or their messages as JSON lines, each once and in order. Writes no file.

A line says how far its thread is exported, so that an export goes on behind any line. What a thread gets while it is
exported comes with the next export.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from ..protocol.errors import CorruptRecord, ThreadNotFound
from ..protocol.ids import check_id
from .keys import journal_key, message_key
from .pages import MessageReader
from .reading import read_journal, read_thread, thread_number
from .survey import survey_threads
from .tables import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from ..protocol.values import JsonObject
    from .store import Store

__all__ = ["Exported", "Left", "What", "export"]

What: TypeAlias = Literal["events", "messages"]
_PAGE: Final = 64  # a message may have megabytes

_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


class Exported(NamedTuple):
    """One line, without its end; `place` is how far its thread is exported with it."""

    thread_id: str
    place: int
    line: str


class Left(NamedTuple):
    """A thread of which nothing more can be exported, and why."""

    thread: str
    why: str


def export(
    store: Store,
    what: What,
    *,
    only: Iterable[str] | None = None,
    done: Mapping[str, int] | None = None,
    left: Callable[[Left], object] | None = None,
) -> Iterator[Exported]:
    """Yield the lines of threads in the order of their creation, or in the order of `only`; blocks for a page at a time.

    Args:
        store: open; work may go on in it.
        what: `events`, as watchers get them: all that a thread went through, but no contents of values. Or `messages`:
            those that joined history, at any depth, as they are now.
        only: ids of threads; by default all that there are.
        done: how far threads are exported: the place of their last line. An event has its cursor's sequence, a message
            its position.
        left: told of a thread with a record that cannot be read; the others are exported all the same.

    Raises:
        InvalidInput, ThreadNotFound: what is in `only`.
        CorruptRecord: as `left` would be told.
        StoreClosed, StoreFailed: the store could not be read.
    """
    places = done or {}
    read = _read_events if what == "events" else _read_messages
    for number, thread_id, unreadable in _threads(store, only):
        try:
            if unreadable is not None:
                raise CorruptRecord(unreadable)
            yield from read(store, number, thread_id, places.get(thread_id))
        except CorruptRecord as error:
            if left is None:
                raise
            left(Left(thread_id, str(error)))


def _threads(store: Store, only: Iterable[str] | None) -> Iterator[tuple[int, str, str | None]]:
    """Yield number and id of threads, and why one cannot be read."""
    if only is None:
        for found in survey_threads(store):
            yield found.number, f"#{found.number}" if found.facts is None else found.facts.thread_id, found.error
        return
    for given in only:
        thread_id = check_id("thread_id", given)
        with store.view() as view:
            number = thread_number(view, thread_id)
        if not number:
            raise ThreadNotFound(f"no thread {thread_id!r}", thread_id=thread_id)
        yield number, thread_id, None


def _read_events(store: Store, number: int, thread_id: str, done: int | None) -> Iterator[Exported]:
    after, head = done or 0, None
    while True:
        with store.view() as view:
            found = read_thread(view, number)
            if found is None:
                return  # deleted meanwhile
            generation = found[1].generation
            head = found[1].sequence if head is None else head
            events = read_journal(view, number, generation, after, head, _PAGE) if after < head else []
        for entry in events:
            after = entry.cursor.sequence
            key = journal_key(number, generation, after)
            yield Exported(thread_id, after, _line(thread_id, entry.to_wire(), Table.JOURNAL, key))
        if not events:
            return


def _read_messages(store: Store, number: int, thread_id: str, done: int | None) -> Iterator[Exported]:
    position, end = 0 if done is None else done + 1, None
    while True:
        with store.view() as view:
            found = read_thread(view, number)
            if found is None:
                return
            facts = found[1]
            end = facts.messages if end is None else end
            page = MessageReader(view, number, facts.generation).placed(sorted(facts.counts), position, _PAGE)
        for place, message in page:
            if place >= end:
                return
            position = place + 1
            key = message_key(number, 2 * message.depth + message.silent, place)
            fields = {"position": place, **message.model_dump()}
            yield Exported(thread_id, place, _line(thread_id, fields, Table.MESSAGES, key))
        if len(page) < _PAGE:
            return


def _line(thread_id: str, fields: JsonObject, table: Table, key: bytes) -> str:
    try:
        return _encode({"thread_id": thread_id, **fields})
    except (TypeError, ValueError, RecursionError) as error:
        name = table.name.lower()
        raise CorruptRecord(
            f"record {key.hex()} of table {name} is corrupt: what it leads to is no JSON", table=name, key=key.hex()
        ) from error
