"""Tests agents/binding_checks.py: a stop tool and session bindings name tools that the model can call so."""

from __future__ import annotations

from typing import Any

import pytest

from treadle.agents import Binding, Prompt, Side, tool
from treadle.agents.binding_checks import binding_problems


@tool
def finish(state: object, text: str) -> None: ...


@tool
def loose(state: object, **anything: str) -> None: ...


ASK = Prompt(name="ask", prompt="x", model="main", required_schema={
    "type": "object", "properties": {"question": {}}, "additionalProperties": False,
})  # fmt: skip
SUPPORT = Prompt(name="support", prompt="x", model="main", tools=[finish, loose, ASK, "desk"])
TARGETS = {"finish": finish, "loose": loose, "ask": ASK, "desk": None}


def problems(**more: Any) -> list[str]:
    return list(binding_problems(Side(prompt=SUPPORT, **more), SUPPORT, TARGETS))


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"session_stop": Binding(name="finish")},
        {"session_stop": Binding(name="finish", message_property="text"), "session_fail": Binding(name="loose")},
        {"session_status": Binding(name="loose", message_property="any", attachments_property="other")},
        {"session_fail": Binding(name="ask", message_property="question")},
        {"session_fail": Binding(name="desk", message_property="any")},
        {"stop_tool": "finish", "stop_tool_response_property": "text"},
    ],
)
def test_bindings_that_a_model_can_call_so_are_fine(more: dict[str, Any]) -> None:
    """Contract E.2 bindings: a binding is {name, messageProperty?, attachmentsProperty?}."""
    assert problems(**more) == []


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"session_stop": Binding(name="x")}, "session_stop names 'x', which is no tool of prompt 'support'"),
        ({"session_fail": Binding(name="x")}, "session_fail names 'x', which is no tool of prompt 'support'"),
        ({"session_status": Binding(name="x")}, "session_status names 'x', which is no tool of prompt 'support'"),
        (
            {"stop_tool": "x", "stop_tool_response_property": "text"},
            "stop_tool names 'x', which is no tool of prompt 'support'",
        ),
        (
            {"stop_tool": "finish", "stop_tool_response_property": "reply"},
            "stop_tool: stop_tool_response_property names 'reply', which 'finish' does not take",
        ),
        (
            {"session_stop": Binding(name="finish", message_property="reply")},
            "session_stop: message_property names 'reply', which 'finish' does not take",
        ),
        (
            {"session_stop": Binding(name="ask", attachments_property="files")},
            "session_stop: attachments_property names 'files', which 'ask' does not take",
        ),
        (
            {"session_stop": Binding(name="finish"), "session_fail": Binding(name="finish")},
            "session_stop and session_fail are both 'finish'",
        ),
    ],
)
def test_bindings_that_no_call_can_meet_are_told(more: dict[str, Any], said: str) -> None:
    """Contract E.2 bindings: a binding names a tool of the side; its properties are arguments of that tool."""
    assert problems(**more) == [said]
