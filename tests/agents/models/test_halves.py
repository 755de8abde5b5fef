"""Halves of a character become one where they meet, in a text and between the pieces of a stream."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.agents.models.halves import JoinedStream, clean

MIXED = st.lists(st.sampled_from(["a", "é", "🔑", "\ud83d", "\udd11"])).map("".join)


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("a", "a"),
        ("é🔑", "é🔑"),
        ("\ud83d\udd11", "🔑"),
        ("\ud83d", "?"),
        ("\udd11\ud83d", "??"),
        ("\ud83d\ud83d\udd11", "?🔑"),
    ],
)
def test_pairs_are_joined_and_halves_alone_replaced(text: str, whole: str) -> None:
    assert clean(text) == whole


@given(MIXED, st.data())
def test_a_stream_gives_what_the_whole_text_would_wherever_it_is_cut(text: str, data: st.DataObject) -> None:
    stream, shown = JoinedStream(), ""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)))))
    for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        shown += stream.feed(text[start:end])
    assert shown + stream.finish() == clean(text)


def test_what_json_reads_of_escapes_is_joined() -> None:
    assert clean(json.loads(r'"\ud83d"') + json.loads(r'"\udd11"')) == "🔑"
