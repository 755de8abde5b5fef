from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from treadle.actors.watermark import Watermark


@given(st.permutations(range(4, 20)))
def test_the_mark_is_the_last_number_before_the_first_missing_one(numbers: list[int]) -> None:
    mark = Watermark(3)
    seen: set[int] = set()
    for number in numbers:
        version = mark.version
        before = mark.number
        mark.publish(number)
        seen.add(number)
        expected = before
        while expected + 1 in seen:
            expected += 1
        assert mark.number == expected
        assert (mark.version > version) == (expected > before)

    assert mark.number == 19
    assert mark.missing() == 0


def test_a_number_that_comes_twice_changes_nothing() -> None:
    mark = Watermark(3)
    for number in (6, 6, 2, 4, 4, 6):
        mark.publish(number)

    assert (mark.number, mark.missing()) == (4, 1)

    mark.publish(5)

    assert (mark.number, mark.missing()) == (6, 0)
