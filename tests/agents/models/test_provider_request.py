"""What a provider is sent: agents/models/provider_request.py, on the wire of an OpenAI-compatible one."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import TYPE_CHECKING, cast

import pytest
from pydantic_ai.messages import ToolReturnPart, UserPromptPart
from pydantic_ai.models.test import TestModel

from tests.agents.models.provider_server import Server, answering
from treadle.agents.models import Attachment, ModelMessage, ModelRequest, Reasoning, ToolCall, ToolSpec
from treadle.agents.models.provider import ProviderModel
from treadle.agents.models.provider_request import messages_of, settings_of

if TYPE_CHECKING:
    from collections.abc import Mapping

HELLO = (ModelMessage("user", "hello"),)
LOOK = ToolSpec("look", "Looks something up", {"type": "object", "properties": {"x": {"type": "integer"}}})
PICTURE = Attachment("a.png", "image/png", b"png")


def sent(request: ModelRequest, **settings: object) -> dict[str, object]:
    """Return the body of the HTTP request."""

    async def play() -> dict[str, object]:
        async with Server(answering("ok")) as server:
            model = ProviderModel("openai:small", api_key="k", base_url=server.url, **settings)  # type: ignore[arg-type]
            async for _ in model.stream(request):
                continue
            await model.aclose()
            return server.requests[0].body

    return asyncio.run(play())


def messages(*given: ModelMessage) -> list[dict[str, object]]:
    return cast("list[dict[str, object]]", sent(ModelRequest(given))["messages"])


def test_every_role_is_sent_in_order() -> None:
    call = ToolCall("c1", "look", '{"x":1}')

    assert messages(
        ModelMessage("system", "Be kind"),
        ModelMessage("user", "hello"),
        ModelMessage("assistant", "Let me see", (call,)),
        ModelMessage("tool", "found", tool_call_id="c1", name="look"),
        ModelMessage("user", "and?"),
    ) == [
        {"role": "system", "content": "Be kind"},
        {"role": "user", "content": "hello"},
        {
            "role": "assistant",
            "content": "Let me see",
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"x":1}'}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "found"},
        {"role": "user", "content": "and?"},
    ]


def test_two_calls_of_one_response_have_their_results_behind_it() -> None:
    said = messages(
        *HELLO,
        ModelMessage("assistant", None, (ToolCall("c1", "look"), ToolCall("c2", "look"))),
        ModelMessage("tool", "1", tool_call_id="c1"),
        ModelMessage("tool", "2", tool_call_id="c2", failed=True),
    )

    assert [(m["role"], m.get("tool_call_id"), m.get("content")) for m in said[1:]] == [
        ("assistant", None, None), ("tool", "c1", "1"), ("tool", "c2", "2"),
    ]  # fmt: skip


@pytest.mark.parametrize(("system", "outcome"), [("openai", "success"), ("anthropic", "failed"), ("bedrock", "failed")])
def test_a_failure_is_marked_where_the_provider_has_a_mark_for_it(system: str, outcome: str) -> None:
    asked = ModelMessage("assistant", None, (ToolCall("c1", "look"),))
    made = messages_of(ModelRequest((asked, ModelMessage("tool", "no", tool_call_id="c1", failed=True))), system)
    (part,) = made[1].parts

    assert isinstance(part, ToolReturnPart)
    assert (part.outcome, part.content) == (outcome, "no")


def test_a_result_is_named_after_its_call_where_it_has_no_name_itself() -> None:
    asked = ModelMessage("assistant", None, (ToolCall("c1", "look"),))
    results = (ModelMessage("tool", "1", tool_call_id="c1"), ModelMessage("tool", "2", tool_call_id="c9"))
    made = messages_of(ModelRequest((asked, *results)), "openai")

    assert [part.tool_name for part in made[1].parts if isinstance(part, ToolReturnPart)] == ["look", "unknown"]


@pytest.mark.parametrize("arguments", ["{oops", "[1]", "7", "[" * 100_000])
def test_arguments_that_are_no_json_object_stay_in_history_as_one(arguments: str) -> None:
    asked = ModelMessage("assistant", None, (ToolCall("c1", "look", arguments),))
    said = messages(*HELLO, asked, ModelMessage("tool", "bad", tool_call_id="c1"))
    calls = cast("list[dict[str, dict[str, str]]]", said[1]["tool_calls"])

    assert json.loads(calls[0]["function"]["arguments"]) == {"invalid_arguments": arguments}


def test_an_assistant_message_that_says_nothing_is_left_out() -> None:
    assert [m["role"] for m in messages(*HELLO, ModelMessage("assistant", ""), ModelMessage("user", "?"))] == [
        "user",
        "user",
    ]


def test_f1_pictures_are_sent_as_pictures() -> None:
    (said,) = messages(ModelMessage("user", "look", attachments=(PICTURE,)))
    url = f"data:image/png;base64,{base64.b64encode(b'png').decode()}"

    assert said["content"] == [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": url}}]


def test_a_picture_that_a_tool_returns_is_sent_too() -> None:
    said = messages(
        *HELLO, ModelMessage("assistant", None, (ToolCall("c1", "look"),)),
        ModelMessage("tool", "here", tool_call_id="c1", attachments=(PICTURE,)),
    )  # fmt: skip

    assert "image_url" in json.dumps(said)


@pytest.mark.parametrize(
    ("attachment", "shown"),
    [
        (Attachment("a.zip", "application/zip", b"zip"), "[attachment 'a.zip', application/zip]"),
        (Attachment("a.png", "image/png", path="/a.png"), "[attachment 'a.png', image/png at /a.png]"),
    ],
)
def test_of_what_providers_do_not_take_they_are_told_the_name(attachment: Attachment, shown: str) -> None:
    (said,) = messages(ModelMessage("user", "look", attachments=(attachment,)))

    assert shown in json.dumps(said)


@pytest.mark.parametrize(
    ("kind", "part"),
    [
        ("image/png", "image-url"),
        ("audio/mpeg", "audio-url"),
        ("video/mp4", "video-url"),
        ("application/pdf", "document-url"),
    ],
)
def test_what_lies_elsewhere_is_sent_as_its_address(kind: str, part: str) -> None:
    attachment = Attachment("a", kind, url="https://example.test/a")
    (turn,) = messages_of(ModelRequest((ModelMessage("user", None, attachments=(attachment,)),)), "openai")
    (prompt,) = turn.parts
    assert isinstance(prompt, UserPromptPart)
    (content,) = prompt.content

    assert (content.kind, content.url, content.media_type) == (part, "https://example.test/a", kind)  # type: ignore[union-attr]


def test_tools_are_sent_with_their_schemas() -> None:
    body = sent(ModelRequest(HELLO, (LOOK,), "required", parallel_tool_calls=False))
    (tool,) = cast("list[dict[str, dict[str, object]]]", body["tools"])

    assert (tool["function"]["name"], tool["function"]["description"]) == ("look", "Looks something up")
    assert cast("Mapping[str, object]", tool["function"]["parameters"])["properties"] == {"x": {"type": "integer"}}
    assert (body["tool_choice"], body["parallel_tool_calls"]) == ("required", False)


def test_a_request_may_forbid_its_tools() -> None:
    assert sent(ModelRequest(HELLO, (LOOK,), "none")).get("tool_choice", "none") == "none"


def test_what_is_said_about_tools_is_left_out_where_there_are_none() -> None:
    body = sent(ModelRequest(HELLO, (), "required", parallel_tool_calls=True))

    assert {"tools", "tool_choice", "parallel_tool_calls"} & {*body} == set()


def test_settings_of_the_request_win_over_the_models_own() -> None:
    body = sent(ModelRequest(HELLO, settings={"temperature": 0.5}), temperature=0.1, top_p=0.9)

    assert (body["temperature"], body["top_p"], body["stream"]) == (0.5, 0.9, True)


def test_provider_options_go_where_the_library_or_the_provider_looks_for_them() -> None:
    options = {"openai_user": "u1", "transforms": ["middle-out"], "seed": 7}

    body = sent(ModelRequest(HELLO, settings={"extra_body": {"a": 1}}, provider_options=options))

    assert (body["transforms"], body["seed"], body["a"]) == (["middle-out"], 7, 1)


@pytest.mark.parametrize(
    ("reasoning", "thinking"),
    [
        (Reasoning(effort="high"), "high"),
        (Reasoning(effort="a lot"), True),
        (Reasoning(effort="none"), False),
        (Reasoning(max_tokens=512), True),
        (Reasoning(), None),
    ],
)
def test_reasoning_is_said_as_far_as_a_provider_has_words_for_it(reasoning: Reasoning, thinking: object) -> None:
    settings = settings_of(TestModel(), ModelRequest(HELLO, reasoning=reasoning), {})

    assert settings.get("thinking") == thinking


@pytest.mark.parametrize(
    ("system", "said"),
    [
        ("anthropic", {"anthropic_thinking": {"type": "enabled", "budget_tokens": 512}}),
        ("google", {"google_thinking_config": {"thinking_budget": 512}}),
        ("openrouter", {"openrouter_reasoning": {"max_tokens": 512}}),
    ],
)
def test_a_number_of_tokens_to_think_is_said_in_each_providers_way(system: str, said: dict[str, object]) -> None:
    class Elsewhere(TestModel):
        @property
        def system(self) -> str:
            return system

    settings = settings_of(Elsewhere(), ModelRequest(HELLO, reasoning=Reasoning(max_tokens=512)), {})

    assert {key: value for key, value in settings.items() if key in said} == said


def test_thoughts_are_sent_back_where_they_are_given() -> None:
    said = messages(*HELLO, ModelMessage("assistant", "hi", reasoning="hm"), ModelMessage("user", "?"))

    assert "hm" in json.dumps(said[1])


def test_a_provider_is_not_told_what_it_has_no_setting_for() -> None:
    class Deaf(TestModel):
        unsupported_settings = frozenset({"max_retries", "parallel_tool_calls"})

    settings = settings_of(Deaf(), ModelRequest(HELLO, (LOOK,), parallel_tool_calls=False), {})

    assert {"max_retries", "parallel_tool_calls"} & {*settings} == set()
    assert settings_of(TestModel(), ModelRequest(HELLO), {})["max_retries"] == 0
