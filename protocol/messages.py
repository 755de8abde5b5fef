"""Owns the message: its record as users see it, and the check of what callers hand in. Stores nothing.

A *draft* is the stored form: a plain dict that leaves out what equals its default, so that a short message costs few
bytes. It is made once, on the caller's worker, and never changed after that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from .errors import InvalidInput, LimitExceeded, shorten
from .ids import check_id, plain
from .limits import ATTACHMENTS_MAX, INPUT_BYTES_MAX, MESSAGE_BYTES_MAX, MESSAGES_PER_INPUT_MAX
from .trusted import filled
from .values import JsonObject, check_value

__all__ = [
    "BASE64",
    "OVERHEAD",
    "ROLES",
    "Content",
    "Draft",
    "Message",
    "check_attachments",
    "check_metadata",
    "check_text",
    "draft_message",
    "draft_messages",
    "draft_size",
    "draft_text",
    "said",
]

Role = Literal["system", "user", "assistant", "tool"]
ROLES: frozenset[str] = frozenset({"system", "user", "assistant", "tool"})
Draft: TypeAlias = JsonObject
Content: TypeAlias = "str | Sequence[str | dict[str, object] | Message]"

OVERHEAD: Final = 64  # bytes of keys, ids and flags around a message's own text, rounded up
BASE64: Final = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"
"""The `data` of an attachment, as a pattern of a schema."""
# The same of texts whose length is a multiple of four: 1 MiB takes that one 20 ms and 40 MiB, and this one 1 ms and nothing.
_BASE64_BY_FOURS: Final = re.compile("[A-Za-z0-9+/]*={0,2}")
_CALLER_KEYS = frozenset({"role", "content", "silent", "metadata", "attachments", "name"})
# Only a body makes and answers calls: a step loop runs those that it finds waiting, whoever put them there.
_BODYS_KEYS = frozenset({"tool_calls", "tool_call_id", "tool_status"})


class Message(BaseModel):
    """One message of a thread (contract D.2).

    `created_at` is in microseconds and is the time of joining; a message that still waits has `metadata["queued"]`
    true and `status` `pending`. `tool_calls` is the JSON text of a list of calls.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    role: Role
    content: str | None
    name: str | None = None
    tool_calls: str | None = None
    tool_call_id: str | None = None
    created_at: int
    parent_id: str | None = None
    depth: int = 0
    silent: bool = False
    metadata: JsonObject | None = None
    status: Literal["pending", "completed", "failed"] | None = "completed"
    tool_status: Literal["success", "error"] | None = None
    # A factory, since pydantic deep-copies a mutable default for every message.
    attachments: list[JsonObject] = Field(default_factory=list)


# All fields in the order in which a checked message has them.
_PLAIN = {name: field.get_default(call_default_factory=True) for name, field in Message.model_fields.items()}
_SET = {"id", "role", "content", "created_at"}  # one for all: a message is frozen, and a copy of one copies its set


def said(draft: Draft, at: int) -> Message:
    """Return the record of a draft of id, role and content alone, which was checked when it was made."""
    # Spelled out, since checking it once more takes three times as long, and each message that a body says is made so.
    fields = _PLAIN.copy()
    fields["id"] = draft["id"]
    fields["role"] = draft["role"]
    fields["content"] = draft["content"]
    fields["created_at"] = at
    fields["attachments"] = []
    return filled(Message, fields, _SET)


def draft_size(draft: Draft) -> int:
    """Return about how many bytes a draft takes once encoded; never less than its content."""
    if len(draft) == 3:  # id, role and content: nearly all of them
        content = draft["content"] or ""
        return OVERHEAD + (len(content) if content.isascii() else len(content.encode()))
    return measured(draft)


def measured(value: object) -> int:
    """Return about how many bytes data takes once encoded; never less than its texts."""
    if isinstance(value, str):
        return len(value) + 5 if value.isascii() else len(value.encode()) + 5
    if isinstance(value, dict):
        return 5 + sum(measured(key) + measured(item) for key, item in value.items())
    if isinstance(value, list | tuple):
        return 5 + sum(map(measured, value))
    return 9


def draft_text(message_id: str, role: str, content: object, roles: frozenset[str] = ROLES) -> Draft | None:
    """Return what `draft_message` makes of a role and a text alone, where that is easily told; None where it has to judge.

    Nearly every message is short ASCII: its characters are its bytes, and its size is theirs and `OVERHEAD`.
    """
    if (
        type(content) is str
        and content
        and content.isascii()
        and len(content) <= MESSAGE_BYTES_MAX
        and type(role) is str
        and role in roles
    ):
        return {"id": message_id, "role": role, "content": content}
    return None


def draft_message(
    message_id: str,
    role: object,
    content: object,
    *,
    roles: frozenset[str] = ROLES,
    silent: bool = False,
    metadata: object = None,
    attachments: object = None,
    **more: object,
) -> Draft:
    """Check one message and return its draft.

    Args:
        message_id: the new message's id.
        role: one of `roles`.
        content: text of at most 1 MiB of UTF-8; may be None or empty only beside tool calls, attachments or on a tool row.
        roles: what the verb takes.
        silent: kept from people's view, still in history.
        metadata: a dict of JSON data, or None.
        attachments: at most 256 dicts of JSON data, or None; `data` in one is base64 text.
        more: `name`, `tool_calls`, `tool_call_id`, `tool_status`, where the verb takes them.

    Raises:
        InvalidInput: `invalid_role`, `empty_content`, `invalid_content`, `invalid_value`, `invalid_attachment`.
        LimitExceeded: the content or the attachments are too large.
    """
    if not isinstance(role, str) or (role := plain(role)) not in roles:
        raise InvalidInput(
            f"role must be one of {', '.join(sorted(roles))}, not {shorten(role)}",
            code="invalid_role",
            value=shorten(role),
        )
    if isinstance(content, str):
        content = plain(content)
    draft = draft_text(message_id, role, content, roles)
    if draft is None:
        check_text(content, optional=bool(attachments or more.get("tool_calls") or role == "tool"))
        draft = {"id": message_id, "role": role, "content": content}
    if silent is not False:
        if silent is not True:
            raise InvalidInput(
                f"silent must be a bool, not {shorten(silent)}", code="invalid_content", value=shorten(silent)
            )
        draft["silent"] = True
    if metadata is not None:
        draft["metadata"] = check_metadata(metadata)
    if attachments is not None:
        checked = check_attachments(attachments)
        if checked:
            draft["attachments"] = checked
    for key, value in more.items():
        if value is not None:
            if not isinstance(value, str):
                raise InvalidInput(
                    f"{key} must be a string, not {shorten(value)}",
                    code="invalid_content",
                    field=key,
                    value=shorten(value),
                )
            text = plain(value)
            check_text(text, optional=False)
            draft[key] = text
    return draft


def check_text(content: object, *, optional: bool) -> None:
    """Check a message's text; `optional` says whether it may be missing. Raises: InvalidInput, LimitExceeded."""
    if not content and optional and (content is None or content == ""):
        return
    if content is None or content == "":
        raise InvalidInput("content must not be empty", code="empty_content", value=shorten(content))
    if not isinstance(content, str):
        raise InvalidInput(
            f"content must be text, not {shorten(content)}", code="invalid_content", value=shorten(content)
        )
    if content.isascii():
        size = len(content)
    else:
        try:
            size = len(content.encode())
        except UnicodeEncodeError as error:
            raise InvalidInput(
                f"content is not valid Unicode at character {error.start}: {shorten(content[error.start : error.end])}",
                code="invalid_content",
                position=error.start,
                value=shorten(content[error.start : error.end]),
            ) from None
    if size > MESSAGE_BYTES_MAX:
        raise LimitExceeded(
            f"content has {size} bytes; the limit message_bytes is {MESSAGE_BYTES_MAX}",
            limit="message_bytes",
            maximum=MESSAGE_BYTES_MAX,
            met=size,
        )


def check_metadata(metadata: object) -> JsonObject:
    """Return a copy of a message's metadata. Raises: InvalidInput: `invalid_value`."""
    if not isinstance(metadata, dict):
        raise InvalidInput(
            f"metadata must be a dict, not {shorten(metadata)}",
            code="invalid_value",
            path="$.metadata",
            value=shorten(metadata),
        )
    checked = check_value(metadata, path="$.metadata")
    assert isinstance(checked, dict)
    return checked


def check_attachments(attachments: object) -> list[object]:
    """Return a copy of a message's attachments.

    Raises:
        InvalidInput: `invalid_value`, or `invalid_attachment` for `data` that no model could be given.
        LimitExceeded: too many, or too large.
    """
    if not isinstance(attachments, list | tuple):
        raise InvalidInput(
            f"attachments must be a list, not {shorten(attachments)}",
            code="invalid_value",
            path="$.attachments",
            value=shorten(attachments),
        )
    if len(attachments) > ATTACHMENTS_MAX:
        raise LimitExceeded(
            f"{len(attachments)} attachments; the limit is {ATTACHMENTS_MAX}",
            limit="attachments",
            maximum=ATTACHMENTS_MAX,
            met=len(attachments),
        )
    for index, item in enumerate(attachments):
        if not isinstance(item, dict):
            raise InvalidInput(
                f"an attachment is a dict, not {shorten(item)}",
                code="invalid_value",
                path=f"$.attachments[{index}]",
                value=shorten(item),
            )
    checked = check_value(list(attachments), path="$.attachments")
    assert isinstance(checked, list)
    for index, item in enumerate(checked):
        data = item.get("data") if isinstance(item, dict) else None
        if data is not None and not (isinstance(data, str) and _is_base64(data)):
            raise InvalidInput(
                f"the data of an attachment must be base64 text, not {shorten(data)}",
                code="invalid_attachment",
                path=f"$.attachments[{index}].data",
                value=shorten(data),
            )
    return list(checked)


def _is_base64(text: str) -> bool:
    return len(text) % 4 == 0 and _BASE64_BY_FOURS.fullmatch(text) is not None


def draft_messages(
    content: Content, new_id: Callable[[], str], role: str, roles: frozenset[str]
) -> tuple[list[Draft], int]:
    """Check an input (one text, or a list of texts, dicts and messages) and return its drafts and their size in bytes.

    Args:
        content: what the caller gave.
        new_id: makes a message id.
        role: the role of a bare text.
        roles: the roles that the verb takes.

    Raises:
        InvalidInput: `empty_content` for nothing at all, else as in `draft_message`.
        LimitExceeded: too many or too large messages.
    """
    if isinstance(content, str):
        message_id = new_id()
        draft = draft_text(message_id, role, content, roles)
        if draft is not None:
            return [draft], OVERHEAD + len(content)
        draft = draft_message(message_id, role, content, roles=roles)
        return [draft], draft_size(draft)
    if not isinstance(content, list | tuple):
        raise InvalidInput(
            f"content must be text or a list of messages, not {shorten(content)}",
            code="invalid_content",
            value=shorten(content),
        )
    if not content:
        raise InvalidInput("an input holds at least one message", code="empty_content", value="[]")
    if len(content) > MESSAGES_PER_INPUT_MAX:
        raise LimitExceeded(
            f"{len(content)} messages in one input; the limit is {MESSAGES_PER_INPUT_MAX}",
            limit="messages_per_input",
            maximum=MESSAGES_PER_INPUT_MAX,
            met=len(content),
        )
    drafts = [_draft_item(item, new_id(), role, roles) for item in content]
    size = sum(map(measured, drafts))
    if size > INPUT_BYTES_MAX:
        raise LimitExceeded(
            f"the input has {size} bytes; the limit input_bytes is {INPUT_BYTES_MAX}",
            limit="input_bytes",
            maximum=INPUT_BYTES_MAX,
            met=size,
        )
    return drafts, size


def _draft_item(item: object, message_id: str, role: str, roles: frozenset[str]) -> Draft:
    if isinstance(item, str):
        return draft_message(message_id, role, item, roles=roles)
    if isinstance(item, Message):
        item = item.model_dump(include=set(_CALLER_KEYS | _BODYS_KEYS), exclude_defaults=True)
    if not isinstance(item, dict):
        raise InvalidInput(
            f"a message is text or a dict, not {shorten(item)}", code="invalid_content", value=shorten(item)
        )
    unknown = [key for key in item if key not in _CALLER_KEYS]
    if unknown:
        raise InvalidInput(
            f"a message that is handed in has no field {shorten(unknown[0])}",
            code="invalid_content",
            field=shorten(unknown[0]),
            value=shorten(item),
        )
    fields = dict(item)
    return draft_message(message_id, fields.pop("role", role), fields.pop("content", None), roles=roles, **fields)


def check_message_id(value: object) -> str:
    """Return a message id unchanged. Raises: InvalidInput: `invalid_id`."""
    return check_id("message_id", value)
