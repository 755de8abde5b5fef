"""The rows of VALUES: a user's are one run, long names are told, and a page costs what is in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from treadle.protocol.errors import CorruptRecord
from treadle.protocol.limits import VALUES_PAGE_BYTES
from treadle.storage.codec import pack
from treadle.storage.keys import numbered, value_key
from treadle.storage.value_rows import ValueEntry, read_value, read_values, value_row

if TYPE_CHECKING:
    from collections.abc import Iterable

    from treadle.storage.store import View

LONG = "k" * 300
PREFIX = numbered(7)


class Rows:
    """A view of given rows, which counts those that were read."""

    def __init__(self, values: dict[str, object], number: int = 7) -> None:
        rows = [value_row(numbered(number), name, pack(value)) for name, value in values.items()]
        self.rows: dict[bytes, bytes] = {key: value for key, value in rows if value is not None}
        self.read = 0

    def get(self, _table: int, key: bytes) -> bytes | None:
        return self.rows.get(key)

    def scan(
        self, _table: int, low: bytes, high: bytes, *, reverse: bool = False, limit: int | None = None, skip: int = 0
    ) -> list[tuple[bytes, bytes]]:
        found = sorted((key, value) for key, value in self.rows.items() if low <= key < high)[skip:][:limit]
        self.read += len(found)
        return found


def page(rows: Rows, search: str | None = None, offset: int = 0, limit: int = 100) -> tuple[list[str], bool]:
    view: View = rows  # type: ignore[assignment]
    entries, more = read_values(view, 7, search=search, offset=offset, limit=limit)
    return [entry.key for entry in entries], more


def names(count: int) -> Iterable[str]:
    return (f"k{number:04}" for number in range(count))


def test_a_value_is_read_by_its_name_long_ones_and_internal_ones_too() -> None:
    rows = Rows({"a": 1, LONG: [2], "treadle:x": {"y": 3}})
    view: View = rows  # type: ignore[assignment]
    assert [read_value(view, 7, name) for name in ("a", LONG, "treadle:x", "b")] == [1, [2], {"y": 3}, None]


def test_a_page_tells_the_names_of_a_user_in_order_and_long_ones_last() -> None:
    rows = Rows({"b": 1, LONG: 2, "treadle:x": 3, "a": None, "\x01": 4, "é": 5})
    assert page(rows) == (["\x01", "a", "b", "é", LONG], False)


def test_no_page_shows_what_is_of_another_thread() -> None:
    rows = Rows({"a": 1})
    rows.rows |= Rows({"b": 1}, 8).rows | Rows({"c": 1}, 6).rows
    assert page(rows) == (["a"], False)


@pytest.mark.parametrize("limit", [1, 7, 64, 65, 200])
def test_pages_one_after_the_other_are_all_of_it(limit: int) -> None:
    rows = Rows(dict.fromkeys(names(150), 0))
    found: list[str] = []
    more = True
    while more:
        keys, more = page(rows, offset=len(found), limit=limit)
        found += keys
    assert found == list(names(150))


def test_a_page_reads_its_own_rows_wherever_it_begins() -> None:
    rows = Rows(dict.fromkeys(names(5_000), 0))
    assert page(rows, offset=4_000, limit=10)[0][0] == "k4000"
    assert rows.read <= 64


def test_a_search_finds_keys_that_contain_it_and_skips_its_own_offset() -> None:
    rows = Rows({**dict.fromkeys(names(200), 0), "other": 1, "x" * 300 + "k00": 2})
    assert page(rows, search="k00", offset=98, limit=2) == (["k0098", "k0099"], True)
    assert page(rows, search="k00", offset=100) == (["x" * 300 + "k00"], False)
    assert page(rows, search="treadle") == ([], False)


def test_a_page_of_nothing_says_whether_there_is_more() -> None:
    rows = Rows({"a": 1})
    assert page(rows, limit=0) == ([], True)
    assert page(rows, offset=1, limit=0) == ([], False)


def test_large_values_make_a_page_shorter_and_never_empty() -> None:
    large = "x" * (VALUES_PAGE_BYTES // 2 - 100)
    rows = Rows({"a": large, "b": large, "c": large})
    assert page(rows) == (["a", "b"], True)
    assert page(rows, offset=2) == (["c"], False)


def test_a_long_name_that_is_not_with_its_value_is_corrupt() -> None:
    rows = Rows({})
    rows.rows[value_key(PREFIX, LONG)] = pack(5)
    with pytest.raises(CorruptRecord) as raised:
        page(rows)
    assert raised.value.details["table"] == "values"


def test_an_entry_is_a_key_and_a_value() -> None:
    view: View = Rows({"a": [1]})  # type: ignore[assignment]
    assert read_values(view, 7, search=None, offset=0, limit=1)[0] == [ValueEntry("a", [1])]
