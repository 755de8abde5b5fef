"""Owns the pages that people read: messages, executions, values, threads. Costs the page, at any length of history.

Nothing here is asked of an actor. `through` is the head that the reader may see: never the store's own, which can be
ahead of what the thread has published.
"""

from __future__ import annotations

from heapq import merge
from itertools import islice
from typing import Any, NamedTuple

from ..protocol.errors import CorruptRecord, MessageNotFound
from ..protocol.events import (
    Event,
    ExecutionFinished,
    ExecutionLost,
    ExecutionStarted,
    InputQueued,
    MessageAdded,
    MessagesJoined,
    MessageUpdated,
)
from ..protocol.executions import ExecutionRecord, record_of
from ..protocol.inbox import Row
from ..protocol.messages import Draft, Message, measured
from ..protocol.values import JsonObject
from .codec import unpack
from .gaps import locate
from .keys import id_part, message_key, numbered, prefix_end, sequence_of, value_key
from .page_bytes import PageBytes
from .reading import UNFIT, decode_row, integers, read_event, unfit_event
from .store import View
from .tables import Table

__all__ = ["MessageReader", "read_execution", "read_executions", "read_value", "unpublished_executions"]

_NEWEST = 4  # a thread's execution that begins is the only one ahead, unless it moved on since its head was read

_INTERNAL = frozenset({"calls", "closes"})  # what a draft carries for the fold and no reader sees


class Place(NamedTuple):
    """Where a message stands: the event that brought it, its rank there, the event that joined it, its position.

    `edited` is the event that holds it as it is now, 0 where that is the one that brought it.
    """

    content: int
    rank: int
    joined: int
    position: int | None
    edited: int = 0


class MessageReader:
    """Reads messages of one thread within one view; events met twice are decoded once.

    Args:
        view, number, generation: what is read.
        room: of the one page that is read, in ascending order; None for pages of any size, and for all else.
    """

    def __init__(self, view: View, number: int, generation: int, room: PageBytes | None = None) -> None:
        self._view = view
        self._number = number
        self._prefix = numbered(number)
        self._generation = generation
        self._room = room
        self._events: dict[int, tuple[int, Event]] = {}

    def page(self, classes: list[int], *, offset: int, limit: int, newest_first: bool) -> list[Message]:
        """Return joined messages of these classes, skipping `offset` from the chosen end, in the chosen order."""
        if limit <= 0:
            return []
        if len(classes) == 1:
            low = message_key(self._number, classes[0], 0)
            rows = self._view.scan(
                Table.MESSAGES, low, prefix_end(low[:9]), reverse=newest_first, limit=limit, skip=offset
            )
        else:
            runs = []
            for kind in classes:
                low = message_key(self._number, kind, 0)
                run = self._view.scan(
                    Table.MESSAGES, low, prefix_end(low[:9]), reverse=newest_first, limit=offset + limit
                )
                runs.append(run)
            merged = merge(*runs, key=lambda row: row[0][-8:], reverse=newest_first)
            rows = [row for rank, row in enumerate(merged) if offset <= rank < offset + limit]
        return self._made(rows, descending=newest_first)

    def between(self, classes: list[int], low: int, high: int) -> list[Message]:
        """Return the joined messages of these classes at positions from `low` up to `high`, in order."""
        runs = [
            self._view.scan(Table.MESSAGES, message_key(self._number, kind, low), message_key(self._number, kind, high))
            for kind in classes
        ]
        return self._made(list(merge(*runs, key=lambda row: row[0][-8:])))

    def ranked(self, classes: list[int], low: int, high: int) -> list[Message]:
        """Return the messages at places `low` to `high` of a history with gaps, whose classes these are, in order."""
        position, skip = locate(self._view, self._number, low)
        found = self._from(classes, position, skip + high - low)
        return self._made(found[skip:])

    def onward(self, classes: list[int], position: int, end: int, limit: int) -> tuple[list[Message], int]:
        """Return messages of these classes from a position on, before `end`, and the position to go on from."""
        found = [row for row in self._from(classes, position, limit) if sequence_of(row[0]) < end]
        after = sequence_of(found[-1][0]) + 1 if len(found) == limit else end
        return [self._message(key, data) for key, data in found], after

    def placed(self, classes: list[int], position: int, limit: int) -> list[tuple[int, Message]]:
        """Return the messages of these classes from a position on, in order, each with its own position."""
        found = self._from(classes, position, limit)
        return [(sequence_of(key), self._message(key, data)) for key, data in found]

    def backward(self, classes: list[int], position: int, limit: int) -> tuple[list[Message], int]:
        """Return messages of these classes before a position, newest first, and the position to go on from."""
        runs = [
            self._view.scan(
                Table.MESSAGES, message_key(self._number, kind, 0), message_key(self._number, kind, position),
                reverse=True, limit=limit,
            )
            for kind in classes
        ]  # fmt: skip
        found = list(islice(merge(*runs, key=lambda row: row[0][-8:], reverse=True), limit))
        return [self._message(key, data) for key, data in found], sequence_of(found[-1][0]) if len(
            found
        ) == limit else 0

    def _from(self, classes: list[int], position: int, limit: int) -> list[tuple[bytes, bytes]]:
        runs = []
        for kind in classes:
            low = message_key(self._number, kind, position)
            runs.append(self._view.scan(Table.MESSAGES, low, prefix_end(low[:9]), limit=limit))
        return list(islice(merge(*runs, key=lambda row: row[0][-8:]), limit))

    def beside(self, message_id: str, classes: list[int], *, limit: int, before: bool) -> list[Message]:
        """Return the messages next to one, oldest first, at a cost that no distance changes.

        Raises:
            MessageNotFound: no joined message has this id.
        """
        place = self._place(message_id)
        if place is None or place.position is None:
            raise MessageNotFound(f"no joined message {message_id!r}", message_id=message_id)
        runs = []
        for kind in classes:
            low = message_key(self._number, kind, 0 if before else place.position + 1)
            high = message_key(self._number, kind, place.position) if before else prefix_end(low[:9])
            runs.append(self._view.scan(Table.MESSAGES, low, high, reverse=before, limit=limit))
        merged = list(merge(*runs, key=lambda row: row[0][-8:], reverse=before))[:limit]
        if before:
            merged.reverse()
        return self._made(merged)

    def _made(self, rows: list[tuple[bytes, bytes]], *, descending: bool = False) -> list[Message]:
        """Return the messages of rows, in their order: of as many as the page has room for."""
        if self._room is None:
            return [self._message(key, data) for key, data in rows]
        made = self._room.filled(rows[::-1] if descending else rows, lambda row: self._message(*row), _size)
        return made[::-1] if descending else made

    def queued(self, *, include_silent: bool, offset: int, limit: int, failed_through: int) -> list[Message]:
        """Return messages of waiting rows, in the order in which they would be taken."""
        places: list[tuple[Row, int]] = []
        for key, data in self._view.scan(Table.INBOX, self._prefix, prefix_end(self._prefix)):
            row = decode_row(key, data)
            visible = row.messages if include_silent else row.messages - row.silent
            places += [(row, rank) for rank in range(offset, visible)]
            offset = max(0, offset - visible)
            if len(places) >= limit:
                break
        drafts: dict[int, list[Draft]] = {}

        def make(place: tuple[Row, int]) -> Message:
            row, rank = place
            at, content = self._content(row.sequence)
            if row.sequence not in drafts:
                shown = self._drafts(row, content)
                drafts[row.sequence] = [one for one in shown if include_silent or not one.get("silent")]
            if rank >= len(drafts[row.sequence]):
                raise self._misplaced(row.sequence, content)
            return self._waiting(drafts[row.sequence][rank], content, row.sequence, at, failed_through)

        if self._room is None:
            return [make(place) for place in places[:limit]]
        return self._room.filled(places[:limit], make, _size)

    def find(self, message_id: str, failed_through: int) -> Message | None:
        """Return a message by id, at any depth, waiting ones included."""
        place = self._place(message_id)
        if place is None:
            return None
        if place.position is not None:
            return self._joined(place.content, place.rank, place.joined, place.edited)
        at, content = self._content(place.content)
        return self._waiting(self._draft(content, place), content, place.content, at, failed_through)

    def _drafts(self, row: Row, content: InputQueued) -> list[Draft]:
        """Return the messages of a waiting row as they are now."""
        if not row.edits:
            return content.messages
        edits = dict(row.edits)
        return [
            self._updated(edits[rank]) if rank in edits else draft
            for rank, draft in enumerate(content.messages)
            if edits.get(rank) != 0
        ]

    def _draft(self, content: InputQueued, place: Place) -> Draft:
        if place.edited:
            return self._updated(place.edited)
        if place.rank >= len(content.messages):
            raise self._misplaced(place.content, content)
        return content.messages[place.rank]

    def _updated(self, sequence: int) -> Draft:
        _, event = self._event(sequence)
        if not isinstance(event, MessageUpdated):
            raise self._misplaced(sequence, event)
        return event.message

    def _place(self, message_id: str) -> Place | None:
        key = self._prefix + id_part(message_id)
        data = self._view.get(Table.MESSAGE_IDS, key)
        return None if data is None else Place(*integers(data, 4, Table.MESSAGE_IDS, key, 5, 3))

    def _event(self, sequence: int) -> tuple[int, Event]:
        found = self._events.get(sequence)
        if found is None:
            found = self._events[sequence] = read_event(self._view, self._number, self._generation, sequence)
        return found

    def _content(self, sequence: int) -> tuple[int, InputQueued]:
        at, event = self._event(sequence)
        if not isinstance(event, InputQueued):
            raise self._misplaced(sequence, event)
        return at, event

    def _misplaced(self, sequence: int, event: Event) -> CorruptRecord:
        return unfit_event(self._number, self._generation, sequence, f"{event.type} holds no such message")

    def _message(self, key: bytes, data: bytes) -> Message:
        return self._joined(*integers(data, 3, Table.MESSAGES, key, 4))

    def _joined(self, content: int, rank: int, joined: int, edited: int = 0, draft: Draft | None = None) -> Message:
        """Return the record of a joined message: of what brought it, or of what it is now, or of what it is to be."""
        try:
            return self._record(content, rank, joined, edited, draft)
        except UNFIT as error:
            raise self._misplaced(edited or content, self._event(edited or content)[1]) from error

    def _record(self, content: int, rank: int, joined: int, edited: int, draft: Draft | None) -> Message:
        at, event = self._event(content)
        if edited:
            draft = self._updated(edited)
        if isinstance(event, MessageAdded):
            return to_message(draft or event.message, at)
        if isinstance(event, ExecutionStarted) and rank < len(event.messages):
            return to_message(draft or event.messages[rank], at)
        if not isinstance(event, InputQueued) or rank >= len(event.messages):
            raise self._misplaced(content, event)
        joined_at, joining = self._event(joined)
        if not isinstance(joining, MessagesJoined):
            raise self._misplaced(joined, joining)
        return joined_message(draft or event.messages[rank], event, at, joining, joined_at)

    def _joined_draft(self, content: int, rank: int, edited: int) -> Draft:
        if edited:
            return self._updated(edited)
        _, event = self._event(content)
        if isinstance(event, MessageAdded):
            return event.message
        if isinstance(event, ExecutionStarted | InputQueued) and rank < len(event.messages):
            return event.messages[rank]
        raise self._misplaced(content, event)

    def _waiting(self, draft: Draft, content: InputQueued, sequence: int, at: int, failed_through: int) -> Message:
        try:
            metadata = {**(draft.get("metadata") or {}), "queued": True, "queued_at": at}
            if content.kind == "steer":
                metadata["source"] = "steering"
            status = "failed" if sequence <= failed_through else "pending"
            return to_message({**draft, "metadata": metadata, "status": status}, at)
        except UNFIT as error:
            raise self._misplaced(sequence, content) from error


def _size(item: Message | ExecutionRecord | None) -> int:
    return measured(item.__dict__ if isinstance(item, Message) else item)


def to_message(draft: Draft, at: int) -> Message:
    """Return the record of a draft that joined history at a time (microseconds)."""
    if len(draft) == 3:
        return Message(id=draft["id"], role=draft["role"], content=draft["content"], created_at=at)
    fields = {name: value for name, value in draft.items() if name not in _INTERNAL}
    return Message(created_at=at, **fields)


def joined_message(
    draft: Draft, content: InputQueued, queued_at: int, joining: MessagesJoined, joined_at: int
) -> Message:
    """Return the record of a message that waited: it joined when `joining` was written."""
    metadata: JsonObject = {**(draft.get("metadata") or {}), "queued_at": queued_at}
    if content.kind == "steer":
        metadata["source"] = "steering"
    if not joining.consumed:
        metadata["consumed"] = False
        metadata["reason"] = joining.reason
    failed = not joining.consumed and content.kind != "steer"
    return to_message({**draft, "metadata": metadata, "status": "failed" if failed else "completed"}, joined_at)


def read_value(view: View, number: int, name: str) -> Any:
    """Return a value, or None."""
    key = value_key(numbered(number), name)
    data = view.get(Table.VALUES, key)
    return None if data is None else unpack(data, Table.VALUES, key)


def read_execution(
    view: View, number: int, generation: int, execution_id: str, *, live_id: str | None, through: int
) -> ExecutionRecord | None:
    """Return an execution's record as of the published head, or None where it has not started by then."""
    key = numbered(number) + id_part(execution_id)
    data = view.get(Table.EXECUTIONS, key)
    if data is None:
        return None
    started, ended = integers(data, 2, Table.EXECUTIONS, key)
    return _record(view, number, generation, started, ended, live_id, through)


def read_executions(
    view: View,
    number: int,
    generation: int,
    *,
    offset: int,
    limit: int,
    newest_first: bool,
    live_id: str | None,
    through: int,
    room: PageBytes | None = None,
) -> list[ExecutionRecord]:
    """Return a page of execution records; ids of ours sort by time, so the key order is the order of starting."""
    prefix = numbered(number)
    rows = view.scan(Table.EXECUTIONS, prefix, prefix_end(prefix), reverse=newest_first, limit=limit, skip=offset)

    def make(row: tuple[bytes, bytes]) -> ExecutionRecord | None:
        started, ended = integers(row[1], 2, Table.EXECUTIONS, row[0])
        return _record(view, number, generation, started, ended, live_id, through)

    made = [make(row) for row in rows] if room is None else room.filled(list(rows), make, _size)
    return [record for record in made if record is not None]


def unpublished_executions(view: View, number: int, through: int) -> int:
    """Return how many of a thread's newest executions have started behind its published head."""
    prefix = numbered(number)
    ahead = 0
    while True:
        rows = view.scan(Table.EXECUTIONS, prefix, prefix_end(prefix), reverse=True, limit=_NEWEST, skip=ahead)
        for key, data in rows:
            if integers(data, 2, Table.EXECUTIONS, key)[0] <= through:
                return ahead
            ahead += 1
        if len(rows) < _NEWEST:
            return ahead


def _record(
    view: View, number: int, generation: int, started: int, ended: int, live_id: str | None, through: int
) -> ExecutionRecord | None:
    if started > through:
        return None
    at, start = read_event(view, number, generation, started)
    if not isinstance(start, ExecutionStarted):
        raise unfit_event(number, generation, started, f"{start.type} where an execution was to start")
    last = read_event(view, number, generation, ended)[1] if 0 < ended <= through else None
    if not (last is None or isinstance(last, ExecutionFinished | ExecutionLost)):
        raise unfit_event(number, generation, ended, f"{last.type} where an execution was to end")
    return record_of(start, at, last, live_id)
