"""Owns what the step loop and a model say to each other: a request, a stream of deltas, a response. Asks no model itself."""

from __future__ import annotations

import base64
import binascii
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol, TypeAlias

from pydantic import BaseModel, ConfigDict

from ...protocol.errors import InvalidInput, shorten
from ..bounds import Count

__all__ = [
    "Attachment",
    "Delta",
    "Finished",
    "LanguageModel",
    "ModelMessage",
    "ModelRequest",
    "ModelResponse",
    "Reasoning",
    "ReasoningDelta",
    "TextDelta",
    "ToolCall",
    "ToolCallDelta",
    "ToolChoice",
    "ToolSpec",
    "Usage",
]

ToolChoice: TypeAlias = Literal["auto", "none", "required"]
ModelRole: TypeAlias = Literal["system", "user", "assistant", "tool"]

_NOTHING: Final[Mapping[str, object]] = {}


class Reasoning(BaseModel):
    """How a model should think before it answers; a provider ignores what it has no setting for.

    Attributes:
        effort: the provider's own word, mostly `low`, `medium` or `high`.
        max_tokens: how many tokens it may think.
        exclude: think, but send no thoughts.
        include: send thoughts back to the model in later requests.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    effort: str | None = None
    max_tokens: Count | None = None
    exclude: bool = False
    include: bool = False


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file beside a message: its bytes, or where the provider finds it, or only its name.

    Attributes:
        name: the file's name.
        mime_type: such as `image/png`.
        data: its bytes; without them and without `url` the model is told only that the file is there.
        url: what the provider can fetch.
        path: where the thread has it.
    """

    name: str
    mime_type: str
    data: bytes | None = None
    url: str | None = None
    path: str | None = None

    @property
    def is_image(self) -> bool:
        """Whether it is a picture."""
        return self.mime_type.startswith("image/")

    @classmethod
    def of(cls, reference: Mapping[str, object]) -> Attachment:
        """Make one of the JSON form: `name`, `mimeType`, and `data` in base64, `url` or `path`.

        Raises:
            InvalidInput: `invalid_attachment` for `data` that is no base64 text.
        """
        data = reference.get("data")
        try:
            decoded = None if data is None else base64.b64decode(str(data), validate=True)
        except (binascii.Error, ValueError):
            raise InvalidInput(
                f"the data of an attachment must be base64 text, not {shorten(data)}",
                code="invalid_attachment",
                value=shorten(data),
            ) from None
        url, path = reference.get("url"), reference.get("path")
        return cls(
            name=str(reference.get("name") or path or url or "attachment"),
            mime_type=str(reference.get("mimeType") or reference.get("mime_type") or "application/octet-stream"),
            data=decoded,
            url=None if url is None else str(url),
            path=None if path is None else str(path),
        )


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call that a model asks for.

    Attributes:
        id: what the model calls it: empty, or used twice, where the model is careless.
        name: the tool, which need not exist.
        arguments: text that should be a JSON object, as the model wrote it.
    """

    id: str
    name: str
    arguments: str = "{}"


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as a model sees it; `schema` is the JSON schema of its arguments, an object."""

    name: str
    description: str
    schema: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class ModelMessage:
    """One message of a request, already in the roles of the side that asks.

    Attributes:
        tool_calls: of an `assistant` message; each has its `tool` message later in the request.
        tool_call_id: of a `tool` message, the call that it answers; `name` is the tool then.
        id: the stored message that it comes from, None for what was made for this request.
        reasoning: thoughts that came with an `assistant` message, where they are sent back.
        failed: of a `tool` message: what it answers is an error.
    """

    role: ModelRole
    content: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None
    attachments: tuple[Attachment, ...] = ()
    id: str | None = None
    reasoning: str | None = None
    failed: bool = False


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """All that a model gets for one step.

    Attributes:
        parallel_tool_calls: whether one response may have several calls; None leaves it to the provider.
        settings: `temperature`, `max_tokens` and the like.
        provider_options: handed to the provider as they are.
        model_name: the definition that is asked, `attempt` its attempt, from 1.
    """

    messages: tuple[ModelMessage, ...]
    tools: tuple[ToolSpec, ...] = ()
    tool_choice: ToolChoice = "auto"
    parallel_tool_calls: bool | None = None
    settings: Mapping[str, object] = field(default_factory=lambda: _NOTHING)
    reasoning: Reasoning | None = None
    provider_options: Mapping[str, object] = field(default_factory=lambda: _NOTHING)
    model_name: str = ""
    attempt: int = 1


@dataclass(frozen=True, slots=True)
class Usage:
    """What a response cost, in tokens; `details` is what else the provider counts."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    details: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TextDelta:
    """More text; with none it says only that the stream is alive."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """More thoughts."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """More of one call: `index` says which, `id` and `name` come once, `arguments` piece by piece."""

    index: int
    id: str | None = None
    name: str | None = None
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class Finished:
    """The end of a response. A stream that ends without it was cut."""

    usage: Usage | None = None
    finish_reason: str | None = None


Delta: TypeAlias = TextDelta | ReasoningDelta | ToolCallDelta | Finished


@dataclass(frozen=True, slots=True)
class ModelResponse:
    """What a stream came to; all empty where the model returned nothing.

    Attributes:
        tool_calls: in the order in which the model began them, duplicate ids included.
        model_name: the definition that answered, `attempts` how often models were asked in all.
    """

    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage | None = None
    finish_reason: str | None = None
    model_name: str = ""
    attempts: int = 1

    @property
    def is_empty(self) -> bool:
        """Whether there is neither a call nor any text but white space."""
        return not self.tool_calls and not self.text.strip()


class LanguageModel(Protocol):
    """What the loop asks: anything with a name and a stream of deltas."""

    @property
    def name(self) -> str:
        """What it is called in errors and logs."""

    def stream(self, request: ModelRequest, /) -> AsyncGenerator[Delta, None]:
        """Answer a request delta by delta, `Finished` last; closing the generator ends the provider's stream.

        Raises:
            ModelError: there is no answer; out of the generator, as anything else that goes wrong.
        """
