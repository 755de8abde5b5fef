"""Tests hosting/paging.py: a query is text, and what is no number or flag stays text for the read to refuse."""

from __future__ import annotations

import pytest

from treadle.hosting.paging import MessagesQuery, ThreadsQuery


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ({"limit": "5", "offset": "-1"}, {"limit": 5, "offset": -1}),
        ({"limit": "5.0"}, {"limit": "5.0"}),
        ({"limit": ""}, {"limit": ""}),
        ({"limit": "\u0665"}, {"limit": "\u0665"}),
        ({"limit": "1_0"}, {"limit": "1_0"}),
        ({"limit": "9" * 50}, {"limit": "9" * 50}),
        ({"include_silent": "true", "max_depth": "1"}, {"include_silent": True, "max_depth": 1}),
        ({"include_silent": "1"}, {"include_silent": "1"}),
        ({"before": "5"}, {"before": "5"}),
        ({}, {}),
    ],
)
def test_numbers_and_flags_are_read_where_they_are_some(given: dict[str, str], read: dict[str, object]) -> None:
    assert MessagesQuery.model_validate(given).given() == read


def test_ids_that_are_digits_stay_text() -> None:
    assert ThreadsQuery(after="7", user_id="8").given() == {"after": "7", "user_id": "8"}
