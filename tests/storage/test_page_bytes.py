"""Tests storage/page_bytes.py: a page ends before it has more than it may, and always has its first item."""

from __future__ import annotations

import pytest

from treadle.storage.page_bytes import PageBytes


def filled(room: PageBytes, sizes: list[int]) -> tuple[list[int], list[int]]:
    """Return what the page has, and what was read for it."""
    read: list[int] = []

    def make(size: int) -> int:
        read.append(size)
        return size

    return room.filled(sizes, make, lambda size: size), read


@pytest.mark.parametrize(
    ("sizes", "wanted"),
    [([], []), ([3, 3, 4], [3, 3, 4]), ([3, 3, 5], [3, 3]), ([99, 1], [99]), ([10, 1], [10]), ([11, 0], [11])],
)
def test_a_page_ends_before_it_has_more_than_it_may(sizes: list[int], wanted: list[int]) -> None:
    ascending = PageBytes(10, from_end=False)
    assert filled(ascending, sizes)[0] == wanted
    assert ascending.is_full is (len(wanted) < len(sizes))

    descending = PageBytes(10, from_end=True)
    assert filled(descending, sizes[::-1])[0] == wanted[::-1]


def test_nothing_is_read_behind_the_item_that_did_not_fit() -> None:
    room = PageBytes(10, from_end=False)
    assert filled(room, [4, 4, 4, 1, 1]) == ([4, 4], [4, 4, 4])

    assert filled(room, [1]) == ([], [])
    assert room.is_full


def test_one_room_is_for_all_parts_of_a_page() -> None:
    room = PageBytes(10, from_end=True)
    assert filled(room, [1, 2, 3])[0] == [1, 2, 3]
    assert filled(room, [4, 3, 1])[0] == [3, 1]
    assert room.is_full
