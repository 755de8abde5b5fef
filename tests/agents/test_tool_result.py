"""Tests agents/tool_result.py: whatever a tool returns or raises becomes a result that can be stored."""

from __future__ import annotations

import json
from enum import Enum
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from treadle.agents import ToolResult
from treadle.agents.tool_result import failed_result, tool_result
from treadle.protocol.errors import MessageNotFound
from treadle.protocol.limits import MESSAGE_BYTES_MAX
from treadle.protocol.values import check_value


class Answer(str, Enum):  # noqa: UP042 - a `StrEnum` shows its text anyway
    YES = "yes"


class Order(BaseModel):
    number: int
    note: str | None = None


class McpText(BaseModel):
    type: str = "text"
    text: str


class McpResult(BaseModel):
    """As the MCP library has it: wire names are aliases."""

    model_config = ConfigDict(populate_by_name=True)

    meta: dict[str, object] | None = Field(alias="_meta", default=None)
    content: list[McpText]
    is_error: bool = Field(alias="isError", default=False)


def text(result: str | None, **more: Any) -> ToolResult:
    return ToolResult(status="success", result=result, **more)


@pytest.mark.parametrize(
    ("returned", "result"),
    [
        ("shipped", text("shipped")),
        (Answer.YES, text("yes")),
        ("", text("")),
        (None, text(None)),
        (text("x", error_data={"a": 1}), text("x", error_data={"a": 1})),
        ({"status": "success", "result": "x"}, text("x")),
        ({"status": "error", "error": "no", "error_code": "e"}, ToolResult(status="error", error="no", error_code="e")),
        ({"status": "shipped", "result": "x"}, text('{"status": "shipped", "result": "x"}')),
        ({"status": "success", "order": 5}, text('{"status": "success", "order": 5}')),
        ({"status": ["success"]}, text('{"status": ["success"]}')),
        ([1, True, None, {"ä": 1.5}], text('[1, true, null, {"ä": 1.5}]')),
        ((1, 2), text("[1, 2]")),
        (0, text("0")),
        (False, text("false")),
        (Order(number=5), text('{"number": 5, "note": null}')),
    ],
)
def test_text_results_and_json_data_are_successes(returned: object, result: ToolResult) -> None:
    """Contract E.4 result: ToolResult is {status, result?, error?, stack?, error_code?, error_data?, attachments?}."""
    assert tool_result(returned) == result


@pytest.mark.parametrize(
    ("returned", "result"),
    [
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, text("a\nb")),
        ({"content": []}, text("")),
        ({"content": [{"type": "text", "text": "no"}], "isError": True}, ToolResult(status="error", error="no")),
        ({"content": [], "structuredContent": {"a": 1}}, text('{"a": 1}')),
        (
            {"content": [{"type": "text", "text": "see"}, {"type": "image", "data": "QQ==", "mimeType": "image/png"}]},
            text("see", attachments=({"name": "image-1", "mimeType": "image/png", "data": "QQ=="},)),
        ),
        ({"content": [{"type": "resource", "resource": {"uri": "a://b", "text": "inside"}}]}, text("inside")),
        ({"content": [{"type": "resource_link", "uri": "a://b", "name": "b"}]}, text("a://b")),
        (McpResult(content=[McpText(text="a"), McpText(text="b")]), text("a\nb")),
        (McpResult(content=[McpText(text="no")], isError=True), ToolResult(status="error", error="no")),
        # A dict that happens to have `content` is data.
        ({"content": "hello"}, text('{"content": "hello"}')),
        ({"content": [{"type": "paragraph"}]}, text('{"content": [{"type": "paragraph"}]}')),
        ({"content": [], "title": "x"}, text('{"content": [], "title": "x"}')),
    ],
)
def test_the_text_parts_of_mcp_content_are_joined_by_newlines(returned: object, result: ToolResult) -> None:
    """Contract E.4 result: MCP-style content[] text parts are joined by newline."""
    assert tool_result(returned) == result


class Broken:
    def __repr__(self) -> str:
        raise ValueError("broken")


class BrokenDict(dict[str, object]):
    def get(self, *args: object) -> object:  # type: ignore[override]
        raise ValueError("broken")


def knot() -> list[object]:
    held: list[object] = []
    held.append(held)
    return held


@pytest.mark.parametrize(
    "returned",
    [
        object(), Broken(), BrokenDict(), b"bytes", {1: 2}, {"a": {1, 2}}, float("nan"), float("inf"), 2**63, "\ud800",
        {"a": "\ud800"}, knot(), "x" * (MESSAGE_BYTES_MAX + 1), ["x" * MESSAGE_BYTES_MAX], lambda: None, Order,
        text("\ud800"), text("x" * (MESSAGE_BYTES_MAX + 1)), {"status": "error", "error_data": {1}},
        {"status": "success", "result": 5}, text("x", attachments=({"name": "a", "data": "x" * MESSAGE_BYTES_MAX},)),
        text("x", attachments=({"name": "a", "data": "%%%"},)), {"content": [{"type": "image", "data": "%%%"}]},
        {"content": [{"type": "image"}]}, {"content": [{"type": "resource"}]}, ValueError("returned, not raised"),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_what_cannot_be_stored_is_an_error_result(returned: object) -> None:
    result = tool_result(returned)

    assert (result.status, result.error_code, result.failed) == ("error", "invalid_result", True)
    assert result.error is not None
    assert result.error.startswith("the tool returned what cannot be stored (")
    check_value(result.model_dump(mode="json"))


def test_what_escapes_a_tool_is_an_error_result_with_type_text_and_traceback() -> None:
    try:
        raise LookupError("no order 5")
    except LookupError as error:
        result = failed_result(error)

    assert (result.status, result.error, result.error_code) == ("error", "LookupError: no order 5", "tool_error")
    assert result.stack is not None
    assert "test_tool_result" in result.stack


def test_an_error_of_ours_keeps_its_code_and_its_own_words() -> None:
    result = failed_result(MessageNotFound("no message 'm'", message_id="m"))

    assert (result.error, result.error_code) == ("no message 'm'", "message_not_found")
    assert failed_result(SystemExit(), code="x").error_code == "x"
    assert failed_result(SystemExit()).error == "SystemExit"


def test_an_error_that_cannot_be_shown_is_told_by_its_type() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError

    result = failed_result(Mute())

    assert result.error == "Mute: (its text could not be had: ValueError)"
    check_value(failed_result(ValueError("\ud800" * 3)).model_dump(mode="json"))
    assert len(failed_result(ValueError("x" * 10**6)).error or "") <= 8_192


def test_a_result_is_frozen_and_takes_no_unknown_field() -> None:
    with pytest.raises(ValidationError):
        text("x").result = "y"
    with pytest.raises(ValidationError):
        ToolResult(status="done")  # type: ignore[arg-type]
    with pytest.raises(ValidationError):
        ToolResult.model_validate({"status": "success", "text": "x"})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(max_size=2),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["status", "content", "type", "text", "error", "isError", "a"]), inner, max_size=3
        )
    ),
    max_leaves=8,
)
STATUSES = st.fixed_dictionaries(
    {"status": st.sampled_from(["success", "error"])}, optional={"result": JSON, "error_data": JSON}
)
PARTS = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "image", "resource"])}, optional={"text": JSON, "data": JSON}
)


@settings(max_examples=30)
@given(JSON | STATUSES | st.fixed_dictionaries({"content": st.lists(PARTS, max_size=3)}))
def test_anything_becomes_a_result_that_can_be_stored(returned: object) -> None:
    result = tool_result(returned)

    json.dumps(check_value(result.model_dump(mode="json")))


class Unspeakable(Exception):
    """An error whose text, once asked for, would end the process."""

    def __str__(self) -> str:
        raise SystemExit(1)

    __repr__ = __str__


def test_an_error_whose_text_raises_what_ends_processes_is_an_error_result() -> None:
    result = failed_result(Unspeakable())

    assert result.error == "Unspeakable: (its text could not be had: SystemExit)"


@pytest.mark.parametrize(
    "garbage",
    [{"result": 5}, {"error": 5}, {"status": "maybe"}, {"attachments": 5}, {"error_data": object()}, {"stack": b""}],
)
def test_a_result_that_was_made_without_a_check_is_checked(garbage: dict[str, Any]) -> None:
    result = tool_result(ToolResult(status="success", result="fine").model_copy(update=garbage))

    assert (result.status, result.error_code) == ("error", "invalid_result")
