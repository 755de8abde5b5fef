"""storage/codec.py and protocol/cursors.py: a value that encodes to the same again, or the one documented error."""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable
from typing import Any

import msgpack
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from treadle.protocol.cursors import Cursor
from treadle.protocol.errors import CorruptRecord, InvalidInput
from treadle.protocol.events import EVENT_TYPES
from treadle.protocol.facts import STORED, Facts
from treadle.storage.codec import VERSION, WORKER, decode_event, decode_facts, encode_event, encode_facts, pack, unpack
from treadle.storage.head import HEAD_SIZE
from treadle.storage.tables import Table

from ..storage.filled import filled_tables

KEY = b"\x00\x07"
DEEP = b"\x91" * 2_000 + b"\xc0"

plain = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text() | st.binary()
values = st.recursive(
    plain, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5), max_leaves=20
)
anything = st.binary(max_size=300) | st.builds(msgpack.packb, values)
codes = st.sampled_from([*EVENT_TYPES, 0, 18, -1])
events = st.builds(
    lambda version, code, at, fields: msgpack.packb([version, code, at, *fields]),
    st.sampled_from([VERSION] * 5 + [0, 2, True, "1"]),
    codes,
    st.integers(0, 2**63) | plain,
    st.lists(values, max_size=15),
)


Property = tuple[Callable[..., None], tuple[st.SearchStrategy[Any], ...], list[Any]]
PROPERTIES: dict[str, Property] = {}


def fuzzed(
    *strategies: st.SearchStrategy[Any], examples: list[Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Note a property, to be run with few examples in the fast suite and with many in the slow one."""

    def note(property_: Callable[..., None]) -> Callable[..., None]:
        PROPERTIES[property_.__name__] = (property_, strategies, examples)
        return property_

    return note


def must_name(error: CorruptRecord, table: Table) -> None:
    assert error.details == {"table": table.name.lower(), "key": KEY.hex()}


def must_refuse_shortly(error: InvalidInput) -> None:
    assert error.code == "invalid_cursor"
    assert len(str(error.details["value"])) <= 80


@fuzzed(
    anything,
    examples=[
        b"",
        DEEP,
        b"\xc1",
        b"\xd4\x01\x00",  # an extension type
        b"\xd6\xff\x00\x00\x00\x00",  # a timestamp
        b"\x81\x01\x02",  # a key that is no string
        b"\xdd\xff\xff\xff\xff",  # four billion elements, said in five bytes
        b"\xa2\xff\xff",  # a string that is not UTF-8
        b"\xc0\xc0",  # two values
    ],
)
def plain_data_comes_back_or_is_corrupt(data: bytes) -> None:
    try:
        value = unpack(data, Table.VALUES, KEY)
    except CorruptRecord as error:
        must_name(error, Table.VALUES)
        return
    # A record in another encoding than ours may be read; what we write of it is read as the same.
    assert repr(unpack(pack(value), Table.VALUES, KEY)) == repr(value)


@fuzzed(
    anything | events,
    examples=[
        DEEP,
        msgpack.packb([1, 6, 5, None, {"id": "m", "deep": [[[[]]]]}]),
        msgpack.packb([1, 3, 5, "e", "a", "failed", 1, None, None, None, False, []]),  # failed without an error
        msgpack.packb([1, 13, float("nan"), "k", False]),
        msgpack.packb([1, 13, 1]),
    ],
)
def an_event_comes_back_or_is_corrupt(data: bytes) -> None:
    try:
        at, event = decode_event(data, KEY)
    except CorruptRecord as error:
        must_name(error, Table.JOURNAL)
        return
    encoded = encode_event(event, at)
    again_at, again = decode_event(encoded, KEY)
    assert (again_at, repr(again)) == (at, repr(event))
    assert encode_event(again, again_at) == encoded


def a_record() -> list[Any]:
    facts = Facts()
    facts.thread_id, facts.agent_id, facts.counts, facts.lost_at = "t", "a", {0: 3, 1: 1}, [5, 6]
    return [VERSION, *facts.values()]


@fuzzed(
    anything
    | st.builds(
        lambda places, given: msgpack.packb(
            [given[places.index(n)] if n in places else v for n, v in enumerate(a_record())]
        ),
        st.lists(st.integers(0, len(STORED)), min_size=1, max_size=3, unique=True),
        st.lists(values | st.dictionaries(plain, plain, max_size=3), min_size=3, max_size=3),
    ),
    examples=[
        msgpack.packb(a_record()),
        msgpack.packb([*a_record(), None]),
        b"\x91\x01",
        DEEP,
    ],
)
def a_thread_record_comes_back_or_is_corrupt(data: bytes) -> None:
    try:
        facts = decode_facts(data, KEY)
    except CorruptRecord as error:
        must_name(error, Table.THREADS)
        return
    encoded = encode_facts(facts)
    assert repr(decode_facts(encoded, KEY).values()) == repr(facts.values())
    assert encode_facts(decode_facts(encoded, KEY)) == encoded


@fuzzed(st.tuples(st.integers(0), st.integers(0), st.integers(1, 255)), examples=[(0, 0, 2)])
def a_damaged_event_is_read_or_corrupt(damage: tuple[int, int, int]) -> None:
    records = sorted(filled_tables()[Table.JOURNAL].values())
    which, place, flip = damage
    data = bytearray(records[which % len(records)])
    data[place % len(data)] ^= flip
    an_event_comes_back_or_is_corrupt(bytes(data))


@fuzzed(st.tuples(st.integers(0), st.integers(0), st.integers(1, 255)), examples=[(0, 0, 2)])
def a_damaged_thread_record_is_read_or_corrupt(damage: tuple[int, int, int]) -> None:
    rows = [row[HEAD_SIZE:] for row in filled_tables()[Table.THREADS].values() if len(row) > HEAD_SIZE]
    which, place, flip = damage
    data = bytearray(rows[which % len(rows)])
    data[place % len(data)] ^= flip
    a_thread_record_comes_back_or_is_corrupt(bytes(data))


@fuzzed(
    st.text()
    | st.builds("{}:{}".format, st.integers(-5, 2**40), st.integers(-5, 2**70))
    | st.from_regex(r"[\d ]{1,22}:[\d+_ ]{1,22}"),
    examples=[
        "1:0",
        "0:0",
        "٣:٤",
        "1:" + "9" * 5_000,
        "01:1",
    ],
)
def a_cursor_is_read_back_or_refused(text: str) -> None:
    try:
        cursor = Cursor.parse(text)
    except InvalidInput as error:
        must_refuse_shortly(error)
        return
    assert Cursor.parse(str(cursor)) == cursor
    # Two texts of one cursor would be two names of one place in whatever keeps them.
    assert str(cursor) == text


@fuzzed(
    st.none() | st.integers() | st.binary() | st.lists(st.integers()) | st.tuples(st.integers(), st.integers()),
    examples=[],
)
def what_is_no_text_is_no_cursor(value: object) -> None:
    with pytest.raises(InvalidInput) as caught:
        Cursor.parse(value)  # type: ignore[arg-type]
    assert caught.value.code == "invalid_cursor"


def test_a_length_that_no_memory_holds_is_corrupt_at_once() -> None:
    for prefix in (b"\xdf", b"\xdd", b"\xdb", b"\xc6"):
        with pytest.raises(CorruptRecord):
            unpack(prefix + struct.pack(">I", 2**32 - 1), Table.VALUES, KEY)


def test_each_worker_has_a_packer_of_its_own() -> None:
    here, met, packers = WORKER.pack, threading.Barrier(3), []

    def look() -> None:
        packers.append(WORKER.pack)
        met.wait()

    workers = [threading.Thread(target=look) for _ in range(2)]
    for worker in workers:
        worker.start()
    met.wait()
    for worker in workers:
        worker.join()

    assert len({id(one.__self__) for one in (here, *packers)}) == 3  # type: ignore[attr-defined]
    assert WORKER.pack is here


def run(name: str, count: int) -> None:
    property_, strategies, examples = PROPERTIES[name]
    wrapped = given(*strategies)(property_)
    for one in examples:
        wrapped = example(one)(wrapped)
    settings(max_examples=count)(wrapped)()


@pytest.mark.parametrize("name", PROPERTIES)
def test_whatever_it_is(name: str) -> None:
    run(name, 20)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROPERTIES)
def test_whatever_it_is_hundreds_of_times(name: str) -> None:
    run(name, 500)
