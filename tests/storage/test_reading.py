"""Tests storage/reading.py: what an actor asks of the store, and that a damaged record is named and never guessed at."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from treadle.protocol.errors import CorruptRecord
from treadle.protocol.events import InputQueued
from treadle.protocol.receipts import Disposition
from treadle.storage.codec import pack
from treadle.storage.head import HEAD_SIZE
from treadle.storage.keys import journal_key, numbered, request_key
from treadle.storage.reading import (
    integers,
    read_content,
    read_event,
    read_journal,
    read_open,
    read_prior,
    read_receipt,
    read_request,
    read_row,
    read_rows,
    read_thread,
    thread_number,
)
from treadle.storage.tables import Table

from .filled import THREAD, filled_tables

if TYPE_CHECKING:
    from treadle.storage.store import View


class Rows:
    """A view of plain tables."""

    def __init__(self) -> None:
        self.tables = [dict(table) for table in filled_tables()]

    def get(self, table: int, key: bytes, /) -> bytes | None:
        return self.tables[table].get(key)

    def scan(
        self, table: int, low: bytes, high: bytes | None, /, *, reverse: bool = False, limit: int | None = None, skip: int = 0
    ) -> list[tuple[bytes, bytes]]:  # fmt: skip
        found = sorted(row for row in self.tables[table].items() if row[0] >= low and (high is None or row[0] < high))
        return (found[::-1] if reverse else found)[skip:][:limit]


@pytest.fixture
def view() -> Rows:
    return Rows()


def full(view: View) -> int:
    number = thread_number(view, THREAD)
    assert number
    return number


def test_a_name_leads_to_a_number_to_none_or_to_a_tombstone(view: Rows) -> None:
    assert full(view) > 0
    assert thread_number(view, "deleted") == 0
    assert thread_number(view, "nobody") is None
    view.tables[Table.NAMES][b"broken"] = b"\0" * 7
    with pytest.raises(CorruptRecord, match="names"):
        thread_number(view, "broken")


def test_one_record_tells_all_that_activation_needs(view: Rows) -> None:
    number = full(view)
    found = read_thread(view, number)
    assert found is not None
    head, facts = found

    assert (facts.thread_id, facts.agent_id, facts.state) == (THREAD, "body", "running")
    assert (head.generation, head.sequence) == (facts.generation, facts.sequence)
    assert read_thread(view, 10**6) is None


def test_of_a_deleted_thread_nothing_is_read(view: Rows) -> None:
    gone = [int.from_bytes(key, "big") for key, row in view.tables[Table.THREADS].items() if len(row) == HEAD_SIZE]

    assert gone
    assert [read_thread(view, number) for number in gone] == [None] * len(gone)


def test_a_head_that_is_not_its_record_s_is_corrupt(view: Rows) -> None:
    number = full(view)
    row = view.tables[Table.THREADS][numbered(number)]
    other = next(r for key, r in view.tables[Table.THREADS].items() if key != numbered(number) and len(r) > HEAD_SIZE)
    view.tables[Table.THREADS][numbered(number)] = other[:HEAD_SIZE] + row[HEAD_SIZE:]
    with pytest.raises(CorruptRecord) as refused:
        read_thread(view, number)

    assert refused.value.details == {"table": "threads", "key": numbered(number).hex()}


def test_a_journal_is_read_in_order_within_its_bounds_and_without_a_gap(view: Rows) -> None:
    number = full(view)
    found = read_thread(view, number)
    assert found is not None
    last = found[0].sequence
    entries = read_journal(view, number, 1, 0, last, 1_000)

    assert [entry.cursor.sequence for entry in entries] == list(range(1, last + 1))
    assert [entry.created_at for entry in entries] == sorted({entry.created_at for entry in entries})
    assert read_journal(view, number, 1, 2, 5, 2) == entries[2:4]
    assert read_journal(view, number, 1, last, last, 10) == []
    assert read_event(view, number, 1, 3) == (entries[2].created_at, entries[2].event)
    del view.tables[Table.JOURNAL][journal_key(number, 1, 3)]
    with pytest.raises(CorruptRecord, match="missing"):
        read_journal(view, number, 1, 2, last, 10)
    with pytest.raises(CorruptRecord, match="missing"):
        read_event(view, number, 1, 3)


def test_rows_come_in_the_order_in_which_they_are_taken_and_at_most_so_many(view: Rows) -> None:
    number = full(view)
    kinds = ("submit", "message", "steer")
    rows = read_rows(view, number, kinds=kinds)
    assert rows

    assert [row.sequence for row in rows] == sorted(
        (row.sequence for row in rows), key=lambda s: (s not in first(rows), s)
    )
    assert read_rows(view, number, kinds=kinds, limit=1) == rows[:1]
    assert read_rows(view, number, kinds=kinds, bytes_max=0) == rows[:1]  # one at least, however large
    for kind in kinds:
        wanted = [row for row in rows if row.kind == kind]
        for limit in (1, 2, 256):
            assert read_rows(view, number, kinds=(kind,), limit=limit) == wanted[:limit]
    for row in rows:
        content = read_content(view, number, 1, row.sequence)
        assert read_row(view, number, content, row.sequence) == row
        assert (content.input_id, len(content.messages)) == (
            row.input_id,
            row.messages + sum(not edited for _, edited in row.edits),
        )


def first(rows: list[object]) -> set[int]:
    return {row.sequence for row in rows if row.first}  # type: ignore[attr-defined]


def test_content_is_an_input_and_nothing_else(view: Rows) -> None:
    with pytest.raises(CorruptRecord, match="where an input was expected"):
        read_content(view, full(view), 1, 1)


def test_what_was_accepted_under_an_id_is_found_with_its_receipt(view: Rows) -> None:
    number = full(view)
    content = next(
        entry.event for entry in read_journal(view, number, 1, 0, 10**6, 1_000) if isinstance(entry.event, InputQueued)
    )
    prior = read_prior(view, number, 1, content.input_id)

    assert prior is not None
    assert prior.receipt.input_id == content.input_id
    assert prior.receipt.disposition in (Disposition.QUEUED, Disposition.ACCEPTED)
    assert read_receipt(view, number, content.input_id) is not None
    assert (read_prior(view, number, 1, "nobody"), read_receipt(view, number, "nobody")) == (None, None)


def test_what_is_open_is_listed_by_kind(view: Rows) -> None:
    number = full(view)

    assert sorted(call for call, _ in read_open(view, number, b"c")) == ["c-2", "c-3"]
    assert [request for request, _ in read_open(view, number, b"r")] == ["r-1"]
    assert len(read_open(view, number, b"p")) == 1
    assert read_open(view, number, b"x") == []


@pytest.mark.parametrize("kind", [b"c", b"r", b"p"])
@pytest.mark.parametrize("pair", [7, [1], ["a", "b"], ["a", -1], [None, 1], [1, 2], [-5, 2], {"a": 1}], ids=str)
def test_what_is_open_and_does_not_decode_is_named(view: Rows, kind: bytes, pair: object) -> None:
    key = numbered(full(view)) + kind + b"damaged"
    view.tables[Table.OPEN][key] = pack(pair)
    with pytest.raises(CorruptRecord) as refused:
        read_open(view, full(view), kind)

    assert refused.value.details == {"table": "open", "key": key.hex()}


def test_what_became_of_a_request_is_found_under_its_id(view: Rows) -> None:
    number = full(view)
    asked = ["r-1", "r-resolved", "r-expired", "r-abandoned", "r", "i-1"]

    assert [read_request(view, number, one) for one in asked] == [
        "pending", "resolved", "expired", "abandoned", None, None,
    ]  # fmt: skip
    assert read_receipt(view, number, "r-resolved") is None  # inputs and controls have ids of their own


def test_an_end_of_a_request_that_is_none_is_corrupt(view: Rows) -> None:
    number = full(view)
    key = request_key(numbered(number), "r-resolved")
    view.tables[Table.RECEIPTS][key] = pack([1, 3, 1])

    with pytest.raises(CorruptRecord) as caught:
        read_request(view, number, "r-resolved")
    assert caught.value.details == {"table": "receipts", "key": key.hex()}


@pytest.mark.parametrize(
    "record",
    [[1], [1, "2"], [1, 2, 3], [1, True], [1, -1], [1, 1 << 63], [1, None], {1: 2}, "ab", None],
)
def test_a_record_of_numbers_is_as_many_places_as_it_should_be(record: object) -> None:
    assert integers(pack([0, (1 << 63) - 1]), 2, Table.RECEIPTS, b"k") == [0, (1 << 63) - 1]
    assert integers(pack([1, None]), 2, Table.RECEIPTS, b"k", null_at=1) == [1, None]
    with pytest.raises(CorruptRecord):
        integers(pack(record), 2, Table.RECEIPTS, b"k")


@pytest.mark.parametrize(
    "damage", [b"", b"\xc1", pack([]), pack([1] * 8), pack([1, "post", "i", None, 1, 0, 9, None]),
        pack([2, "submit", "i", None, 1, 0, 9, None]), pack([1, "submit", "i", None, 1 << 62, 0, 9, None]),
        pack([1, "submit", "i", None, 1, 2, 9, None]), pack([1, "submit", "i", None, -1, 0, 9, None]),
        pack([1, "submit", "i", 7, 1, 0, 9, None]), pack([1, "submit", "i", None, 1, 0, 9, "soon"])]
)  # fmt: skip
def test_a_row_that_does_not_decode_is_named(view: Rows, damage: bytes) -> None:
    number = full(view)
    key = next(key for key in view.tables[Table.INBOX] if key.startswith(numbered(number)))
    view.tables[Table.INBOX][key] = damage
    with pytest.raises(CorruptRecord) as refused:
        read_rows(view, number, kinds=("submit", "message", "steer"))

    assert refused.value.details == {"table": "inbox", "key": key.hex()}
