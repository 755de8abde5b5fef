"""The inbox row and what is kept of it once it is gone."""

from __future__ import annotations

from treadle.protocol.inbox import Row


def test_a_row_keeps_what_a_later_fold_must_know() -> None:
    row = Row(7, "steer", "x", "e1", 3, 1, 200, False, 2.5)

    assert row.stored() == [7, "steer", 3, 1, 200]
