"""Owns what is read of one thread for its actor: head, receipts, rows, what is open. Pages for people: `pages`.

Every function takes a view, so that one decision's look-ups see one state of the store.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from ..protocol.cursors import Cursor
from ..protocol.errors import CorruptRecord
from ..protocol.events import Event, InputQueued, JournalEvent
from ..protocol.facts import Facts
from ..protocol.inbox import Row
from ..protocol.limits import BATCH_BYTES_MAX, MESSAGES_PER_INPUT_MAX, ROWS_READ_MAX
from ..protocol.recorded import receipt_of
from ..protocol.triggers import Prior, Standing
from .codec import VERSION, decode_event, decode_facts, unpack
from .encoding import REQUEST_ENDS
from .head import HEAD_SIZE, Head, unpack_head
from .keys import (
    RANKED_KEY,
    id_part,
    inbox_key,
    journal_key,
    numbered,
    open_key,
    prefix_end,
    request_key,
    sequence_of,
)
from .store import View
from .tables import Table

__all__ = [
    "UNFIT", "ReceiptRow", "read_content", "read_event", "read_journal", "read_open", "read_prior", "read_receipt", "read_request",
    "read_row", "read_rows", "read_thread", "thread_number", "unfit_event",
]  # fmt: skip

# What the insides of an event raise that are not what their places ask for: they are checked when they are used.
UNFIT: Final = (LookupError, TypeError, ValueError, AttributeError)


class ReceiptRow(NamedTuple):
    """What is stored under an input or control id: the event that recorded it, what became of it, and where."""

    sequence: int
    state: int
    about: int


def _corrupt(table: Table, key: bytes, why: str) -> CorruptRecord:
    name = table.name.lower()
    return CorruptRecord(f"record {key.hex()} of table {name} is corrupt: {why}", table=name, key=key.hex())


def integers(data: bytes, count: int, table: Table, key: bytes, most: int = 0, null_at: int | None = None) -> list[Any]:
    """Return a record that is a list of `count` places, or of up to `most`: sequences, ranks and positions.

    Raises:
        CorruptRecord: it is none, or a null stands elsewhere than at `null_at`.
    """
    record = unpack(data, table, key)
    if not isinstance(record, list) or not count <= len(record) <= max(count, most):
        raise _corrupt(table, key, f"not {count} numbers")
    for at, item in enumerate(record):
        if not _is_place(item) and (item is not None or at != null_at):
            raise _corrupt(table, key, f"not {count} numbers")
    return record


def _is_place(item: object) -> bool:
    # What is within these bounds fits into every key.
    return type(item) is int and 0 <= item < 1 << 63


def thread_number(view: View, thread_id: str) -> int | None:
    """Return a thread's number, 0 where it was deleted, None where the id was never used."""
    key = thread_id.encode()
    found = view.get(Table.NAMES, key)
    if found is None:
        return None
    if len(found) not in (0, 8):
        raise _corrupt(Table.NAMES, key, "not a thread number")
    return int.from_bytes(found, "big")


def read_thread(view: View, number: int) -> tuple[Head, Facts] | None:
    """Return a thread's head and facts, None where it was deleted: all that activation reads, whatever the history."""
    key = numbered(number)
    row = view.get(Table.THREADS, key)
    if row is None or len(row) == HEAD_SIZE:  # of a deleted thread the head alone is left
        return None
    head = unpack_head(row, key)
    facts = decode_facts(row[HEAD_SIZE:], key)
    if (facts.generation, facts.sequence) != (head.generation, head.sequence):
        raise _corrupt(Table.THREADS, key, f"head {head.generation}:{head.sequence} beside record {facts.cursor}")
    return head, facts


def read_event(view: View, number: int, generation: int, sequence: int) -> tuple[int, Event]:
    """Return an event's time and the event. Raises: CorruptRecord: it is missing or does not decode."""
    key = journal_key(number, generation, sequence)
    data = view.get(Table.JOURNAL, key)
    if data is None:
        raise _corrupt(Table.JOURNAL, key, "missing")
    return decode_event(data, key)


def unfit_event(number: int, generation: int, sequence: int, why: str) -> CorruptRecord:
    """Return the error about an event that decodes and is not what leads to it says."""
    return _corrupt(Table.JOURNAL, journal_key(number, generation, sequence), why)


def read_content(view: View, number: int, generation: int, sequence: int) -> InputQueued:
    """Return the event behind an inbox row."""
    _, event = read_event(view, number, generation, sequence)
    if not isinstance(event, InputQueued):
        raise _corrupt(
            Table.JOURNAL, journal_key(number, generation, sequence), f"{event.type} where an input was expected"
        )
    return event


def read_journal(view: View, number: int, generation: int, after: int, through: int, limit: int) -> list[JournalEvent]:
    """Return at most `limit` events with `after < sequence <= through`, in order, without a gap."""
    low, high = journal_key(number, generation, after + 1), journal_key(number, generation, through + 1)
    events = []
    for key, data in view.scan(Table.JOURNAL, low, high, limit=limit):
        at, event = decode_event(data, key)
        events.append(JournalEvent(Cursor(generation, sequence_of(key)), at, event))
    if events and events[0].cursor.sequence != after + 1:
        raise _corrupt(Table.JOURNAL, low, "missing")
    return events


def read_receipt(view: View, number: int, given: str) -> ReceiptRow | None:
    """Return what is stored under an input or control id, or None."""
    key = numbered(number) + id_part(given)
    data = view.get(Table.RECEIPTS, key)
    return None if data is None else ReceiptRow._make(integers(data, 3, Table.RECEIPTS, key))


def read_prior(view: View, number: int, generation: int, given: str) -> Prior | None:
    """Return digest and first receipt of an id that was accepted before, or None."""
    row = read_receipt(view, number, given)
    if row is None:
        return None
    at, event = read_event(view, number, generation, row.sequence)
    try:
        return Prior(getattr(event, "digest", None), receipt_of(event, at))
    except UNFIT as error:
        raise unfit_event(number, generation, row.sequence, f"{event.type} gives no receipt") from error


def read_request(view: View, number: int, request_id: str) -> Standing | None:
    """Return how a request stands, or None where no request ever had this id. Raises: CorruptRecord."""
    prefix = numbered(number)
    key = request_key(prefix, request_id)
    data = view.get(Table.RECEIPTS, key)
    if data is None:
        return "pending" if view.get(Table.OPEN, open_key(prefix, b"r", request_id)) is not None else None
    _, state, _ = integers(data, 3, Table.RECEIPTS, key)
    ends: list[Standing] = [end for end, number in REQUEST_ENDS.items() if number == state]
    if not ends:
        raise _corrupt(Table.RECEIPTS, key, "not the end of a request")
    return ends[0]


def decode_row(key: bytes, data: bytes) -> Row:
    """Return a waiting row. Raises: CorruptRecord."""
    record = unpack(data, Table.INBOX, key)
    if (
        not isinstance(record, list)
        or len(record) not in (8, 9)
        or record[0] != VERSION
        or record[1] not in ("submit", "message", "steer", "tool")
    ):
        raise _corrupt(Table.INBOX, key, "not a row")
    _, kind, input_id, execution_id, messages, silent, size, timeout, *more = record
    if (
        not isinstance(input_id, str)
        or not (execution_id is None or isinstance(execution_id, str))
        or not all(map(_is_place, (messages, silent, size)))
        or not silent <= messages <= MESSAGES_PER_INPUT_MAX
        or not (timeout is None or type(timeout) in (int, float))
        or len(key) != RANKED_KEY.size
    ):
        raise _corrupt(Table.INBOX, key, "not a row")
    edits = _decode_edits(key, more[0]) if more else ()
    return Row(sequence_of(key), kind, input_id, execution_id, messages, silent, size, key[8] == 0, timeout, edits)


def _decode_edits(key: bytes, stored: object) -> tuple[tuple[int, int], ...]:
    if not isinstance(stored, list) or not all(
        isinstance(edit, list) and len(edit) == 2 and all(map(_is_place, edit)) for edit in stored
    ):
        raise _corrupt(Table.INBOX, key, "not a row")
    return tuple((rank, sequence) for rank, sequence in stored)


def read_rows(
    view: View, number: int, *, kinds: Iterable[str], limit: int = ROWS_READ_MAX, bytes_max: int = BATCH_BYTES_MAX
) -> list[Row]:
    """Return the oldest waiting rows of these kinds, at most `limit` and `bytes_max`, but at least one if there is any.

    Waiting submits may stand in the way of messages behind them, so more rows may be looked at than are returned.
    """
    wanted = frozenset(kinds)
    prefix = numbered(number)
    low, high = prefix, prefix_end(prefix)
    rows: list[Row] = []
    size = 0
    while True:
        page = view.scan(Table.INBOX, low, high, limit=limit)
        for key, data in page:
            row = decode_row(key, data)
            if row.kind not in wanted:
                continue
            size += row.size
            if rows and (size > bytes_max or len(rows) >= limit):
                return rows
            rows.append(row)
        if len(page) < limit:
            return rows
        low = page[-1][0] + b"\0"


def read_row(view: View, number: int, content: InputQueued, sequence: int) -> Row | None:
    """Return the waiting row of an input, or None where it waits no longer."""
    key = inbox_key(number, content.first, sequence)
    data = view.get(Table.INBOX, key)
    return None if data is None else decode_row(key, data)


def read_open(view: View, number: int, kind: bytes) -> list[Any]:
    """Return what is open of one kind: `[call_id, sequence]`, `[request_id, sequence]` or `[group, start_time]`."""
    prefix = numbered(number) + kind
    found = []
    for key, data in view.scan(Table.OPEN, prefix, prefix_end(prefix)):
        pair = unpack(data, Table.OPEN, key)
        if not isinstance(pair, list) or len(pair) != 2 or not _is_place(pair[1]):
            raise _corrupt(Table.OPEN, key, "not what is open")
        # Nobody must take a group of 0 or 1 for one that may be killed.
        if not (type(pair[0]) is int and 1 < pair[0] < 1 << 31 if kind == b"p" else isinstance(pair[0], str)):
            raise _corrupt(Table.OPEN, key, "not what is open")
        found.append(pair)
    return found
