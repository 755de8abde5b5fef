"""Tests agents/prompt.py: what a prompt may say, and what it refuses at once."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from treadle.agents import EnvPart, IncludePart, Prompt, PromptTool, SubPrompt, TextPart, ToolArgumentsInvalid, tool
from treadle.agents.prompt import flag_is_on


@tool
def look(state: object) -> None: ...


def prompt(**more: Any) -> Prompt:
    return Prompt(**{"name": "support", "prompt": "Help.", "model": "main", **more})


def test_the_defaults_are_the_contracts() -> None:
    """Contract E.3 defaults: includeChat=false, includePastTools=false, toolChoice auto, recentImageThreshold=10; parallel unset."""
    made = prompt()

    assert (made.include_chat, made.include_past_tools, made.tool_choice, made.recent_image_threshold) == (
        False, False, "auto", 10,
    )  # fmt: skip
    assert made.parallel_tool_calls is None


def test_a_prompt_is_text_or_parts_in_order() -> None:
    """Contract E.3 parts: prompt is a string or parts: text, include, env."""
    parts = prompt(
        prompt=[
            {"type": "text", "text": "Help."},
            {"type": "include", "prompt": "tone"},
            {"type": "env", "name": "REGION"},
        ]
    ).prompt

    assert parts == (TextPart(text="Help."), IncludePart(prompt="tone"), EnvPart(name="REGION"))
    assert prompt(prompt=[TextPart(text="x")]).prompt == (TextPart(text="x"),)


@pytest.mark.parametrize(
    "wrong",
    [3, [{"type": "file", "text": "x"}], [{"text": "x"}], [{"type": "text"}], [{"type": "env", "name": ""}], ["x"]],
)
def test_other_parts_are_refused(wrong: Any) -> None:
    """Contract E.3 parts: prompt is a string or parts: text, include, env."""
    with pytest.raises(ValidationError):
        prompt(prompt=wrong)


def test_tools_are_names_objects_and_entries_with_more() -> None:
    """Contract E.3 tools: tools entries are a string, a SubpromptConfig or a PromptToolConfig {name, env, options}."""
    below = prompt(name="below")

    made = prompt(
        tools=[
            "find", look, below, {"name": "look2", "env": {"REGION": "eu"}, "options": {"deep": True}}, {"name": "plain"},
            {"name": "ask", "init_user_message_property": "question", "include_errors": False}, SubPrompt(name="other"),
        ]
    ).tools  # fmt: skip

    assert made[1] is look
    assert made[2] is below
    assert made[3:5] == (
        PromptTool(name="look2", env={"REGION": "eu"}, options={"deep": True}),
        PromptTool(name="plain"),
    )
    assert made[5] == SubPrompt(name="ask", init_user_message_property="question", include_errors=False)


def test_a_sub_prompt_includes_text_tool_calls_and_errors_by_default() -> None:
    """Contract E.3 tools: SubpromptConfig has includeErrors=true."""
    entry = SubPrompt(name="ask")

    assert (entry.include_text_response, entry.include_tool_calls, entry.include_errors) == (True, True, True)


@pytest.mark.parametrize("key", ["resumable", "receives_messages", "blocking", "hidden", "immediate"])
def test_keys_of_agent_relationships_are_a_load_error(key: str) -> None:
    """Contract E.3 unknown keys: resumable, receives_messages, blocking, hidden, immediate in a prompt tool entry are a load error."""
    with pytest.raises(ValidationError, match=f"{key}: such keys belong to a relationship between agents"):
        prompt(tools=["find", {"name": "billing", key: True}])
    with pytest.raises(ValidationError):
        PromptTool.model_validate({"name": "billing", key: True})


@pytest.mark.parametrize(
    ("value", "on"),
    [
        ("true", True),
        ("1", True),
        ("yes", True),
        ("false", False),
        ("0", False),
        ("no", False),
        ("", False),
        (None, False),
    ],
)
def test_an_optional_flag_is_on_for_three_values(value: str | None, on: bool) -> None:
    """Contract E.3 optional entries: an optional env flag is on when its value is true, 1 or yes."""
    assert flag_is_on(value) is on
    assert PromptTool(name="find", optional="WITH_FIND").optional == "WITH_FIND"


@pytest.mark.parametrize(
    "wrong",
    [
        {"tool_choice": "any"}, {"tools": "find"}, {"tools": [3]}, {"tools": [{"env": {}}]}, {"variables": ["REGION"]},
        {"recent_image_threshold": -1}, {"reasoning": {"effort": 3}}, {"hooks": [3]}, {"required_schema": int},
        {"env": {"A": 1}}, {"toolz": []}, {"model": 3},
    ],
)  # fmt: skip
def test_what_is_no_setting_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        prompt(**wrong)


def test_a_prompt_shows_and_checks_the_arguments_of_its_call() -> None:
    """Contract E.3 sub-prompt arguments: every prompt is callable as a tool, its args are validated."""

    class Question(BaseModel):
        text: str

    made = prompt(required_schema=Question)

    assert made.arguments_schema["required"] == ["text"]
    assert made.check_arguments('{"text": "x"}') == {"text": "x"}
    with pytest.raises(ToolArgumentsInvalid, match=r"^\[text\] Field required$"):
        made.check_arguments({})


def test_values_of_variables_are_shown_in_no_repr_and_no_error() -> None:
    made = prompt(env={"KEY": "hunter22"}, tools=[{"name": "x", "env": {"KEY": "hunter22"}}])

    assert "hunter22" not in f"{made!r} {made}"
    with pytest.raises(ValidationError) as caught:
        prompt(env={"KEY": ["hunter22"]})
    assert "hunter22" not in str(caught.value)
