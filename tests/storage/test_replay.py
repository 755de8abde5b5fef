"""storage/replay.py: a journal gives the record and rows that are stored, and a broken one says where it breaks."""

from __future__ import annotations

from treadle.protocol.events import MessageAdded
from treadle.storage.codec import encode_event, encode_facts
from treadle.storage.head import HEAD_SIZE, Head, unpack_head
from treadle.storage.keys import journal_key
from treadle.storage.replay import DERIVED, Replay, replay
from treadle.storage.tables import Table

from .filled import THREAD, filled_tables

JOURNAL = Table.JOURNAL


def stored() -> tuple[int, Head, list[tuple[bytes, bytes]], bytes]:
    tables = filled_tables()
    key = tables[Table.NAMES][THREAD.encode()]
    row = tables[Table.THREADS][key]
    journal = sorted((place, data) for place, data in tables[JOURNAL].items() if place[:8] == key)
    return int.from_bytes(key, "big"), unpack_head(row, key), journal, row[HEAD_SIZE:]


def run(journal: list[tuple[bytes, bytes]]) -> Replay:
    number, head, _, _ = stored()
    return replay(number, head, journal)


def test_a_journal_gives_the_stored_record_and_every_stored_row() -> None:
    number, _, journal, record = stored()
    replayed = run(journal)

    assert replayed.found == []
    assert replayed.facts is not None
    assert encode_facts(replayed.facts) == record
    prefix = number.to_bytes(8, "big")
    for table in DERIVED:
        rows = {key: value for key, value in filled_tables()[table].items() if key[:8] == prefix}
        assert replayed.tables[table] == rows, table
    assert replayed.values == {key for key in filled_tables()[Table.VALUES] if key[:8] == prefix}


def test_a_hole_is_named_by_the_key_that_is_missing() -> None:
    number, head, journal, _ = stored()
    replayed = run(journal[:4] + journal[5:])

    assert replayed.facts is None
    assert replayed.found == [(journal[5][0], f"{journal_key(number, head.generation, 5).hex()} is missing before it")]


def test_a_journal_that_ends_before_the_head_is_named() -> None:
    _, head, journal, _ = stored()
    replayed = run(journal[:-1])

    assert (journal[-1][0], f"missing; the head is {head.sequence}") in replayed.found
    assert replayed.facts is None


def test_an_event_beyond_the_head_is_named() -> None:
    number, head, journal, _ = stored()
    beyond = journal_key(number, head.generation, head.sequence + 1)
    replayed = run([*journal, (beyond, journal[-1][1])])

    assert (beyond, f"beyond the head {head.sequence}") in replayed.found
    assert replayed.facts is None


def test_an_event_that_does_not_decode_is_named() -> None:
    _, _, journal, _ = stored()
    replayed = run([*journal[:3], (journal[3][0], b"\xc1"), *journal[4:]])

    assert replayed.facts is None
    assert replayed.found[0][0] == journal[3][0]
    assert "not msgpack" in replayed.found[0][1]


def test_an_event_that_cannot_be_folded_is_named() -> None:
    _, _, journal, _ = stored()
    broken = encode_event(MessageAdded(execution_id=None, message={"no": "id"}), 2**60)
    replayed = run([*journal[:3], (journal[3][0], broken), *journal[4:]])

    assert replayed.facts is None
    assert "does not fold" in replayed.found[0][1]


def test_an_event_in_another_encoding_is_named() -> None:
    _, _, journal, _ = stored()
    key, data = journal[0]
    assert data[1] == 1  # the version, in one byte
    replayed = run([(key, data[:1] + b"\xcc\x01" + data[2:]), *journal[1:]])

    assert (key, "it encodes to other bytes than are stored") in replayed.found
