"""Tests agents/tool_calls.py: which tool calls a body may inject, and what the heart is told of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treadle.agents.tool_calls import check_tool_calls, draft_injected
from treadle.protocol.errors import CallerError, InvalidInput, LimitExceeded
from treadle.protocol.limits import MESSAGE_BYTES_MAX

if TYPE_CHECKING:
    from treadle.protocol.messages import Draft


def call(call_id: object = "c1", **changes: object) -> dict[str, object]:
    return {"id": call_id, "type": "function", "function": {"name": "look", "arguments": "{}"}, **changes}


def draft(role: str, content: object = None, **more: object) -> Draft:
    fields: dict[str, object] = {
        "metadata": None, "attachments": None, "name": None, "tool_calls": None, "tool_call_id": None, "tool_status": None,
        **more,
    }  # fmt: skip
    return draft_injected("m1", role, content, silent=False, **fields)


def test_a_list_of_calls_becomes_json_text_and_its_ids_in_order() -> None:
    text, ids = check_tool_calls([call("b"), call("a")])

    assert ids == ["b", "a"]
    assert text is not None
    assert json.loads(text) == [call("b"), call("a")]


def test_text_is_kept_as_it_was_given() -> None:
    given_text = json.dumps([call("c1", extra="ä")], indent=2)

    assert check_tool_calls(given_text) == (given_text, ["c1"])


def test_arguments_that_are_no_json_pass_since_models_write_them() -> None:
    broken = call(function={"name": "look", "arguments": '{"half'})

    assert check_tool_calls([broken])[1] == ["c1"]


@pytest.mark.parametrize("nothing", [[], "[]", " [ ] ", ()])
def test_no_calls_at_all_are_none(nothing: object) -> None:
    assert check_tool_calls(nothing) == (None, [])


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        ("", "invalid_tool_calls"),
        ("{", "invalid_tool_calls"),
        ("[NaN]", "invalid_tool_calls"),
        ("[" * 100_000, "invalid_tool_calls"),
        ("[" + "9" * 5_000 + "]", "invalid_tool_calls"),
        ('"c1"', "invalid_tool_calls"),
        (7, "invalid_tool_calls"),
        ({"id": "c1"}, "invalid_tool_calls"),
        (["c1"], "invalid_tool_calls"),
        ([call(type="code")], "invalid_tool_calls"),
        ([call(function=None)], "invalid_tool_calls"),
        ([call(function={"name": "look"})], "invalid_tool_calls"),
        ([call(function={"name": "look", "arguments": {"x": 1}})], "invalid_tool_calls"),
        ([call(function={"name": 1, "arguments": ""})], "invalid_tool_calls"),
        ([call("c1"), call("c1")], "invalid_tool_calls"),
        ([call("")], "invalid_name"),
        ([call(None)], "invalid_name"),
        ([call("c\0")], "invalid_name"),
        ([{"function": {"name": "look", "arguments": ""}}], "invalid_name"),
        ('[{"id": "\\ud800", "function": {"name": "n", "arguments": ""}}]', "invalid_value"),
        ([call(extra=object())], "invalid_value"),
        (object(), "invalid_value"),
        (b"[]", "invalid_value"),
    ],
)
def test_what_is_no_list_of_calls_is_refused_with_the_offending_value(bad: object, code: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_tool_calls(bad)

    assert refused.value.code == code
    assert "value" in refused.value.details


def test_an_over_long_text_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(LimitExceeded) as refused:
        check_tool_calls("[" + " " * MESSAGE_BYTES_MAX + "]")

    assert refused.value.details["limit"] == "message_bytes"


@settings(max_examples=25)
@given(
    st.text()
    | st.recursive(
        st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_whatever_is_given_is_taken_or_refused_as_a_callers_error(value: object) -> None:
    try:
        text, ids = check_tool_calls(value)
    except CallerError:
        return

    assert (text is None) == (not ids)


def test_an_assistant_message_opens_its_calls() -> None:
    assert draft("assistant", tool_calls=[call("a"), call("b")])["calls"] == ["a", "b"]


def test_an_empty_list_of_calls_opens_none_and_needs_content() -> None:
    assert draft("assistant", "hi", tool_calls=[]) == {"id": "m1", "role": "assistant", "content": "hi"}
    with pytest.raises(InvalidInput, match="empty"):
        draft("assistant", tool_calls=[])


def test_a_tool_message_with_a_call_id_closes_that_call() -> None:
    made = draft("tool", "42", tool_call_id="a", tool_status="success", name="look")

    assert made == {
        "id": "m1", "role": "tool", "content": "42", "tool_call_id": "a", "tool_status": "success", "name": "look",
        "closes": True,
    }  # fmt: skip


def test_a_tool_message_without_a_call_id_closes_nothing() -> None:
    assert "closes" not in draft("tool", "42")


@pytest.mark.parametrize(
    ("role", "field"),
    [("user", {"tool_calls": [call()]}), ("assistant", {"tool_call_id": "a"}), ("system", {"tool_status": "error"})],
)
def test_a_field_of_another_role_is_refused(role: str, field: dict[str, object]) -> None:
    with pytest.raises(InvalidInput) as refused:
        draft(role, "x", **field)

    assert refused.value.code == "invalid_role"


@pytest.mark.parametrize("status", ["ok", "", 1, [], True])
def test_a_tool_status_is_success_or_error(status: object) -> None:
    with pytest.raises(InvalidInput) as refused:
        draft("tool", "x", tool_status=status)

    assert refused.value.code == "invalid_content"


@pytest.mark.parametrize("call_id", ["", 5, "\ud800"])
def test_a_call_id_is_a_name(call_id: object) -> None:
    with pytest.raises(InvalidInput) as refused:
        draft("tool", "x", tool_call_id=call_id)

    assert refused.value.code == "invalid_name"
