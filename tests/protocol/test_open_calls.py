"""Tests protocol/open_calls.py: the result of a call without one stands where the call stands."""

from __future__ import annotations

import json

import pytest

from treadle.protocol.open_calls import OpenCall, calls_of, result_of
from treadle.protocol.values import JsonObject


def message(text: str | None, **more: object) -> JsonObject:
    return {"id": "m", "role": "assistant", "content": None, "tool_calls": text, "calls": ["c1", "c2"], **more}


def test_calls_are_known_by_name_and_by_where_their_message_stands() -> None:
    text = json.dumps([{"id": "c2", "function": {"name": "two"}}, {"id": "c1", "function": {"name": "one"}}])

    assert calls_of(message(text)) == [OpenCall("c1", "one"), OpenCall("c2", "two")]
    assert calls_of(message(text, depth=2, parent_id="p"))[0] == OpenCall("c1", "one", 2, "p")
    assert calls_of({"id": "m", "role": "user", "content": "x"}) == []


@pytest.mark.parametrize(
    "text", [None, "", "no JSON", "3", "[3]", '[{"id": "c1"}]', '[{"id": "c1", "function": {"name": 3}}]']
)
def test_a_call_whose_text_says_no_name_has_none(text: str | None) -> None:
    assert calls_of(message(text)) == [OpenCall("c1"), OpenCall("c2")]


def test_a_result_says_of_its_place_only_what_is_not_the_top() -> None:
    assert result_of(OpenCall("c"), "r", "ended") == {
        "id": "r", "role": "tool", "content": "ended", "tool_call_id": "c", "tool_status": "error", "closes": True,
    }  # fmt: skip
    deep = result_of(OpenCall("c", "refund", 1, "m"), "r", "ended")
    assert (deep["name"], deep["depth"], deep["parent_id"]) == ("refund", 1, "m")
