"""Owns the JSON of requests: which members there are, and what OpenAPI says of them. Judges no value.

What a member may hold is judged by the handle, as in process, so that both give one code; what is not a member is refused.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from ..protocol.limits import (
    ATTACHMENTS_MAX,
    ID_LENGTH_MAX,
    MESSAGE_BYTES_MAX,
    MESSAGES_PER_INPUT_MAX,
    REASON_LENGTH_MAX,
    TAG_LENGTH_MAX,
    TAGS_MAX,
)
from ..protocol.messages import BASE64

__all__ = [
    "ID_SCHEMA", "InputEnvelope", "Interruption", "MessagePatch", "NewThread", "NewValue", "QueuedMessage", "QueuedTool",
    "RequestAnswer", "Steering", "ThreadPatch", "UserMessages",
]  # fmt: skip

ID_SCHEMA: Final[dict[str, Any]] = {
    "type": "string",
    "minLength": 1,
    "maxLength": ID_LENGTH_MAX,
    "pattern": r"^[!-~]([ -~]*[!-~])?$",
}
_TEXT = {"type": "string", "minLength": 1, "maxLength": MESSAGE_BYTES_MAX}
_TAG = {"type": "string", "minLength": 1, "maxLength": TAG_LENGTH_MAX, "pattern": r"^[^\u0000]+$"}
_OBJECT = {"type": ["object", "null"], "description": "JSON data of at most 1 MiB, 64 deep."}
_ENV = {
    "type": ["object", "null"],
    "propertyNames": {"pattern": r"^[^=\u0000]+$"},
    "additionalProperties": {"type": "string", "pattern": r"^[^\u0000]*$"},
}
_FILE = {"type": "object", "properties": {"data": {"type": ["string", "null"], "pattern": BASE64}}}
_ATTACHMENTS = {"type": ["array", "null"], "items": _FILE, "maxItems": ATTACHMENTS_MAX}
_MESSAGE = {
    "type": "object",
    "properties": {
        "role": {"const": "user"},
        "content": _TEXT,
        "silent": {"type": "boolean"},
        "metadata": _OBJECT,
        "attachments": _ATTACHMENTS,
    },
    "required": ["content"],
    "additionalProperties": False,
}


def _optional(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]}


def _messages(role: dict[str, Any]) -> dict[str, Any]:
    item = {**_MESSAGE, "properties": {**_MESSAGE["properties"], "role": role}}  # type: ignore[dict-item]
    some = {"type": "array", "minItems": 1, "maxItems": MESSAGES_PER_INPUT_MAX, "items": {"anyOf": [_TEXT, item]}}
    return {"anyOf": [_TEXT, some], "description": "A text, or a list of texts and messages."}


_ROLES = {"enum": ["assistant", "user"]}

Id: TypeAlias = Annotated[Any, WithJsonSchema(ID_SCHEMA)]
MaybeId: TypeAlias = Annotated[Any, WithJsonSchema(_optional(ID_SCHEMA))]
Messages: TypeAlias = Annotated[Any, WithJsonSchema(_messages({"const": "user"}))]
Queued: TypeAlias = Annotated[Any, WithJsonSchema(_messages(_ROLES))]
Text: TypeAlias = Annotated[Any, WithJsonSchema(_optional(_TEXT))]
Name: TypeAlias = Annotated[Any, WithJsonSchema({"type": "string", "minLength": 1})]
Flag: TypeAlias = Annotated[Any, WithJsonSchema({"type": "boolean"})]
Data: TypeAlias = Annotated[Any, WithJsonSchema(_OBJECT)]
Attachments: TypeAlias = Annotated[Any, WithJsonSchema(_ATTACHMENTS)]
Json: TypeAlias = Annotated[Any, WithJsonSchema({"description": "JSON data of at most 1 MiB, 64 deep."})]
Tags: TypeAlias = Annotated[Any, WithJsonSchema({"type": "array", "items": _TAG, "maxItems": TAGS_MAX})]


class Envelope(BaseModel):
    """What a request holds: these members and no others."""

    model_config = ConfigDict(extra="forbid")


class NewThread(Envelope):
    """A thread to create; a user's is its own."""

    agent_id: Name
    thread_id: MaybeId = None
    user_id: MaybeId = None
    arguments: Data = None
    tags: Tags = Field(default_factory=list)
    env: Annotated[Any, WithJsonSchema(_ENV)] = None


class ThreadPatch(Envelope):
    """What to change of a thread: its tags, all at once; or close it for good."""

    tags: Annotated[Any, WithJsonSchema({"type": "array", "items": _TAG, "maxItems": TAGS_MAX})] = None
    terminated: Literal[True] | None = None


class UserMessages(Envelope):
    """An input that wants an execution of its own (contract A.4)."""

    type: Literal["USER_MESSAGES_INPUT"]
    messages: Messages
    input_id: MaybeId = None
    on_busy: Annotated[Any, WithJsonSchema({"enum": ["reject", "queue", "steer", "interrupt"]})] = "reject"
    timeout: Annotated[
        Any, WithJsonSchema(_optional({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 10**9}))
    ] = None  # fmt: skip


class Steering(Envelope):
    """Something to read for the execution that is named, and no other (contract A.5)."""

    type: Literal["STEERING_INPUT"]
    execution_id: Id
    messages: Messages
    control_id: MaybeId = None


class Interruption(Envelope):
    """The end of the execution that is named, and no other (contract A.5)."""

    type: Literal["INTERRUPTION_REQUEST"]
    execution_id: Id
    reason: Annotated[Any, WithJsonSchema(_optional({"type": "string", "maxLength": REASON_LENGTH_MAX}))] = None
    source: Annotated[Any, WithJsonSchema({"enum": ["user", "system", "parent"]})] = "user"
    hold: Flag = False
    control_id: MaybeId = None


class QueuedTool(Envelope):
    """A tool to be called: by the active execution at its next boundary, or by one that this starts (contract D.7)."""

    type: Literal["QUEUED_TOOL_INPUT"]
    name: Annotated[Any, WithJsonSchema(ID_SCHEMA)]
    args: Data = None
    input_id: MaybeId = None


InputEnvelope: TypeAlias = Annotated[UserMessages | Steering | Interruption | QueuedTool, Field(discriminator="type")]


class QueuedMessage(Envelope):
    """A message to queue (contract D.4); a list of messages carries its own `silent`, `metadata` and `attachments`."""

    content: Queued
    role: Annotated[Any, WithJsonSchema(_ROLES)] = "user"
    input_id: MaybeId = None
    silent: Flag = False
    metadata: Data = None
    attachments: Attachments = None


class MessagePatch(Envelope):
    """What to change of a message; metadata is merged, null deletes a key, and null itself deletes all."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    content: Text = None
    metadata: Data = None


class RequestAnswer(Envelope):
    """The answer to a request of the live execution (contract A.12)."""

    request_id: Id
    value: Json


class NewValue(Envelope):
    """A value to set; null deletes it."""

    value: Json
