"""Holds treadle.hosting.client_sse: whole events, wherever the bytes are cut."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.hosting.client_sse import SseEvent, SseReader
from treadle.hosting.sse import sse_event
from treadle.protocol.frames import Frame

SENT = (
    b": heartbeat\n\n"
    b"event: snapshot\ndata: {}\n\n"
    b"id: 1:1\nevent: A\ndata: 1\n\n"
    b"id: 1:2\r\ndata: one\r\ndata:two\r\ndata\r\n\r\n"
    b"id: 1:3\rdata: \xe2\x80\xa8 \xc2\x85 \xf0\x9f\x99\x82\r\r"
    b"retry: 5\nid: 1:4\n\n"  # without data it is none
    b"id: a\0b\ndata: x\n\n"
    b"data: cut off"
)
EVENTS = [
    SseEvent("snapshot", "{}", None),
    SseEvent("A", "1", "1:1"),
    SseEvent("message", "one\ntwo\n", "1:2"),
    SseEvent("message", "\u2028 \x85 🙂", "1:3"),
    SseEvent("message", "x", None),
]


@given(st.lists(st.integers(0, len(SENT)), max_size=40))
def test_events_are_the_same_wherever_bytes_are_cut(cuts: list[int]) -> None:
    reader, seen = SseReader(), []
    places = [0, *sorted(cuts), len(SENT)]

    for start, end in itertools.pairwise(places):
        seen += reader.feed(SENT[start:end])

    assert seen == EVENTS


def test_events_are_the_same_byte_by_byte() -> None:
    reader = SseReader()

    assert [event for place in range(len(SENT)) for event in reader.feed(SENT[place : place + 1])] == EVENTS


@pytest.mark.parametrize("text", ["\n", "\r\n", "\u2028", "a\0b", "é🙂", "data: x\n\nid: 9:9"])
def test_what_the_server_writes_is_what_is_read(text: str) -> None:
    frame = Frame(type="MESSAGE_ADDED", content=text)

    (event,) = SseReader().feed(sse_event(frame, given_id="1:7"))

    assert event == SseEvent("MESSAGE_ADDED", frame.text, "1:7")
