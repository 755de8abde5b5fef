"""Owns how a request is said in the words of pydantic-ai. Sends nothing. Only `provider.py` imports it: it needs the extra."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, TypeAlias, cast, get_args

from pydantic_ai.messages import (
    AudioUrl,
    BinaryContent,
    DocumentUrl,
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
    VideoUrl,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.settings import ModelSettings, ThinkingEffort
from pydantic_ai.tools import ToolDefinition

if TYPE_CHECKING:
    from . import seam

__all__ = ["messages_of", "parameters_of", "settings_of"]

Content: TypeAlias = "str | BinaryContent | ImageUrl | AudioUrl | VideoUrl | DocumentUrl"

EFFORTS: Final = frozenset(get_args(ThinkingEffort))
# Which kinds of bytes providers take at all; of all else they are told the name.
SENT: Final = ("image/", "audio/", "video/", "text/", "application/pdf", "application/json")
# Who has a mark for results that are failures; for others the library would rewrite the text that says so.
MARKING: Final = frozenset({"anthropic", "bedrock"})
BUDGETS: Final = {  # how many tokens to think is said differently by each
    "anthropic": lambda tokens: {"anthropic_thinking": {"type": "enabled", "budget_tokens": tokens}},
    "google": lambda tokens: {"google_thinking_config": {"thinking_budget": tokens}},
    "openrouter": lambda tokens: {"openrouter_reasoning": {"max_tokens": tokens}},
}


def messages_of(request: seam.ModelRequest, system: str) -> list[ModelMessage]:
    """Return the messages for a provider; what stands between two assistant messages becomes one turn."""
    said: list[ModelMessage] = []
    turn: list[ModelRequestPart] = []
    tools: dict[str, str] = {}
    for message in request.messages:
        if message.role == "assistant":
            if turn:
                said.append(ModelRequest(parts=turn))
                turn = []
            tools.update((call.id, call.name) for call in message.tool_calls)
            if parts := _answered(message):
                said.append(ModelResponse(parts=parts))
        else:
            turn.append(_asked(message, tools, system in MARKING))
    if turn:
        said.append(ModelRequest(parts=turn))
    return said


def _answered(message: seam.ModelMessage) -> list[ModelResponsePart]:
    parts: list[ModelResponsePart] = []
    if message.reasoning:
        parts.append(ThinkingPart(message.reasoning))
    if message.content:
        parts.append(TextPart(message.content))
    parts.extend(ToolCallPart(call.name, _arguments(call.arguments), call.id) for call in message.tool_calls)
    return parts


def _arguments(text: str) -> str | dict[str, object]:
    """Return arguments as they are if they are JSON objects: some providers refuse a history with any others."""
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {"invalid_arguments": text}
    return text or "{}" if isinstance(value, dict) else {"invalid_arguments": text}


def _asked(message: seam.ModelMessage, tools: Mapping[str, str], marks: bool) -> ModelRequestPart:
    if message.role == "system":
        return SystemPromptPart(message.content or "")
    content: list[Content] = [message.content] if message.content else []
    content.extend(_attached(attachment) for attachment in message.attachments)
    whole = (message.content or "") if not message.attachments else content
    if message.role == "user":
        return UserPromptPart(whole)
    call_id = message.tool_call_id or ""
    return ToolReturnPart(
        message.name or tools.get(call_id) or "unknown",
        whole,
        call_id,
        outcome="failed" if message.failed and marks else "success",
    )


def _attached(attachment: seam.Attachment) -> Content:
    kind = attachment.mime_type
    if attachment.data is not None and kind.startswith(SENT):
        return BinaryContent(attachment.data, media_type=kind)
    if attachment.data is None and attachment.url is not None:
        if attachment.is_image:
            return ImageUrl(attachment.url, media_type=kind)
        if kind.startswith("audio/"):
            return AudioUrl(attachment.url, media_type=kind)
        if kind.startswith("video/"):
            return VideoUrl(attachment.url, media_type=kind)
        return DocumentUrl(attachment.url, media_type=kind)
    where = f" at {attachment.path}" if attachment.path else ""
    return f"[attachment {attachment.name!r}, {kind}{where}]"


def parameters_of(request: seam.ModelRequest) -> ModelRequestParameters:
    """Return the tools."""
    return ModelRequestParameters(
        function_tools=[
            ToolDefinition(name=tool.name, description=tool.description, parameters_json_schema=dict(tool.schema))
            for tool in request.tools
        ]
    )


def settings_of(model: Model, request: seam.ModelRequest, own: Mapping[str, object]) -> ModelSettings:
    """Return the settings, those of the request over a model's own.

    Provider options that are settings of the library, those under a provider's name included, are set as such; the rest
    goes into the body of the provider's request.
    """
    settings: dict[str, object] = {"framing_announcement": "never", **own, **request.settings}
    if "max_retries" not in model.unsupported_settings:
        settings["max_retries"] = 0  # whoever asks repeats, and must know of every attempt
    if request.tools:
        if request.tool_choice != "auto":
            settings["tool_choice"] = request.tool_choice
        # Where a provider knows no such thing, nothing is lost: calls are run one after another anyway.
        if request.parallel_tool_calls is not None and "parallel_tool_calls" not in model.unsupported_settings:
            settings["parallel_tool_calls"] = request.parallel_tool_calls
    if request.reasoning is not None:
        settings.update(_thinking(model.system, request.reasoning))
    body: dict[str, object] = {}
    for name, value in request.provider_options.items():
        known = name in ModelSettings.__annotations__ or name.startswith(f"{model.system.replace('-', '_')}_")
        (settings if known else body)[name] = value
    if body:
        given = settings.get("extra_body")
        settings["extra_body"] = {**given, **body} if isinstance(given, Mapping) else body
    return cast("ModelSettings", settings)


def _thinking(system: str, reasoning: seam.Reasoning) -> dict[str, object]:
    if reasoning.max_tokens is not None and system in BUDGETS:
        return dict(BUDGETS[system](reasoning.max_tokens))
    if reasoning.effort is not None:
        if reasoning.effort == "none":
            return {"thinking": False}
        return {"thinking": reasoning.effort if reasoning.effort in EFFORTS else True}
    return {"thinking": True} if reasoning.max_tokens is not None else {}
