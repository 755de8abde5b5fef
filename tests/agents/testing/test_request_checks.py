"""Tests agents/testing/request_checks.py: each assertion holds where it should, and says what it saw where it does not."""

from __future__ import annotations

import pytest

from treadle.agents.models import Attachment, ModelMessage, ModelRequest, ToolCall, ToolSpec
from treadle.agents.testing import (
    assert_not_told,
    assert_offered,
    assert_told,
    assert_well_formed,
    conversation,
    system_text,
)

CALL = ToolCall("c1", "look", '{"at": "moon"}')
ASKED = ModelMessage("assistant", "One moment", tool_calls=(CALL,))
FOUND = ModelMessage("tool", "round", tool_call_id="c1", name="look")


def request(*messages: ModelMessage) -> ModelRequest:
    return ModelRequest(messages, tools=(ToolSpec("look", "Looks at things.", {}), ToolSpec("point", "", {})))


GOOD = request(ModelMessage("system", "Be brief."), ModelMessage("user", "What is it?"), ASKED, FOUND)


def test_a_request_is_read_as_who_said_what() -> None:
    assert system_text(GOOD) == "Be brief."
    assert conversation(GOOD) == [
        ("user", "What is it?"), ("assistant", 'One moment look({"at": "moon"})'), ("tool", "round"),
    ]  # fmt: skip
    assert conversation(request(ModelMessage("user", attachments=(Attachment("a.png", "image/png"),)))) == [
        ("user", "[a.png]")
    ]
    assert system_text(request()) == ""


def test_what_was_told_is_found_by_role_and_in_calls() -> None:
    assert_told(GOOD, "round", role="tool")
    assert_told(GOOD, "moon")
    assert_not_told(GOOD, "square")

    with pytest.raises(AssertionError, match="no user says 'round'"):
        assert_told(GOOD, "round", role="user")
    with pytest.raises(AssertionError, match="'moon' was told"):
        assert_not_told(GOOD, "moon")
    with pytest.raises(AssertionError, match="'Looks at things' was told"):
        assert_not_told(GOOD, "Looks at things")
    with pytest.raises(AssertionError, match="no messages"):
        assert_told(request(), "anything")


def test_the_tools_on_offer_are_exactly_those() -> None:
    assert_offered(GOOD, "look", "point")
    with pytest.raises(AssertionError, match="offered are look, point, not none"):
        assert_offered(GOOD)
    with pytest.raises(AssertionError, match="offered are no tools, not look"):
        assert_offered(ModelRequest(()), "look")


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        ((FOUND,), "answers 'c1', which is not open"),
        ((ASKED,), "calls without a result at the end"),
        ((ASKED, ModelMessage("user", "hurry"), FOUND), "stands between calls and the results"),
        ((ASKED, FOUND, FOUND), "not open"),
        ((ModelMessage("user"),), "says nothing"),
    ],
)
def test_a_request_that_no_provider_would_take_is_named(messages: tuple[ModelMessage, ...], why: str) -> None:
    assert_well_formed(GOOD)
    with pytest.raises(AssertionError, match=why):
        assert_well_formed(request(*messages))
