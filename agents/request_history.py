"""Owns how stored history becomes the messages of one request: order, roles, pictures. Pure; the history stays as it is.

Stored roles say who spoke: `assistant` is side A, `user` side B. A model is told its own side's words as `assistant` and
the other side's as `user`, without the other side's tool calls. What joined between a call and its result stands after
the results, since models refuse anything between the two.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from ..protocol.errors import TreadleError
from .models.seam import Attachment, ModelMessage, ToolCall

if TYPE_CHECKING:
    from ..protocol.messages import Message

__all__ = ["in_order", "in_roles", "recent_images_only", "stored_calls", "without_images"]

logger = logging.getLogger("treadle")

Speaker = Literal["assistant", "user"]


def stored_calls(message: Message) -> list[ToolCall]:
    """Return the calls of a stored message; their text was checked when it was stored."""
    if not message.tool_calls:
        return []
    return [
        ToolCall(call["id"], call["function"]["name"], call["function"]["arguments"])
        for call in json.loads(message.tool_calls)
    ]


def in_order(messages: Iterable[Message]) -> list[Message]:
    """Return history with each result right behind its call, without results that no call is there for.

    A call without a result is none that a model could read, so its message stands without it; see `in_roles`.
    """
    messages = list(messages)
    results: dict[str, list[Message]] = {}
    for message in messages:
        if message.role == "tool" and message.tool_call_id is not None:
            results.setdefault(message.tool_call_id, []).append(message)
    ordered: list[Message] = []
    for message in messages:
        if message.role == "tool":
            continue  # it stands behind its call, or nowhere
        ordered.append(message)
        for call in stored_calls(message):
            # Ids are the models' own and may come again; the first call takes the first result.
            found = results.get(call.id)
            if found:
                ordered.append(found.pop(0))
    return ordered


def in_roles(messages: Sequence[Message], speaker: Speaker, *, transform: bool) -> list[ModelMessage]:
    """Return history as one side's model is told it.

    Args:
        messages: in order, results right behind their calls.
        speaker: the stored role of the side that asks.
        transform: False leaves the stored roles: side A versus a human.
    """
    own: Speaker = speaker if transform else "assistant"
    told: list[ModelMessage] = []
    visible: set[str] = set()  # calls of the last message that was told, while its results follow
    for place, message in enumerate(messages):
        attachments = _attachments(message)
        if message.role == "tool":
            if message.tool_call_id in visible and not _is_dropped(message):
                told.append(_result(message, attachments))
            continue
        visible = set()
        if message.role == "system":
            told.append(ModelMessage("system", message.content, attachments=attachments, id=message.id))
        elif message.role == own:
            answered = _answered(messages, place)
            calls = tuple(call for call in stored_calls(message) if call.id in answered)
            visible = {call.id for call in calls}
            if message.content or calls or attachments:
                told.append(
                    ModelMessage("assistant", message.content, tool_calls=calls, attachments=attachments, id=message.id)
                )
        elif message.content or attachments:
            # What the other side called is its own affair; a message that was nothing but calls says nothing here.
            told.append(ModelMessage("user", message.content, attachments=attachments, id=message.id))
    return told


def _answered(messages: Sequence[Message], place: int) -> set[str | None]:
    """Return the calls that the results right behind a message answer: ids may come again in a later one."""
    answered: set[str | None] = set()
    for behind in range(place + 1, len(messages)):
        if messages[behind].role != "tool":
            break
        # A call that a hook dropped is read by no model, nor is its result.
        if not _is_dropped(messages[behind]):
            answered.add(messages[behind].tool_call_id)
    return answered


def _is_dropped(result: Message) -> bool:
    return bool((result.metadata or {}).get("dropped"))


def _result(message: Message, attachments: tuple[Attachment, ...]) -> ModelMessage:
    return ModelMessage(
        "tool",
        message.content,
        tool_call_id=message.tool_call_id,
        name=message.name,
        attachments=attachments,
        id=message.id,
        failed=message.tool_status == "error",
    )


def _attachments(message: Message) -> tuple[Attachment, ...]:
    made = []
    for reference in message.attachments:
        try:
            made.append(Attachment.of(reference))
        except TreadleError as error:
            # One bad file must not make the thread unanswerable.
            logger.warning("An attachment of message %s is left out of the request: %s", message.id, error)
    return tuple(made)


def _named(images: Sequence[Attachment]) -> str:
    return "\n".join(f"[image: {image.name}]" for image in images)


def _as_text(message: ModelMessage, images: Sequence[Attachment]) -> ModelMessage:
    kept = tuple(one for one in message.attachments if all(one is not image for image in images))
    named = _named(images)
    return replace(message, content=f"{message.content}\n{named}" if message.content else named, attachments=kept)


def recent_images_only(messages: Sequence[ModelMessage], keep: int) -> list[ModelMessage]:
    """Return the messages with all but the newest `keep` images named instead of shown."""
    left = keep
    turned: list[ModelMessage] = []
    for message in reversed(messages):
        images = [one for one in message.attachments if one.is_image]
        over = images[: max(0, len(images) - left)]
        left = max(0, left - len(images))
        turned.append(_as_text(message, over) if over else message)
    turned.reverse()
    return turned


def without_images(messages: Sequence[ModelMessage]) -> list[ModelMessage]:
    """Return the messages with every image named instead of shown: for a model without eyes."""
    return recent_images_only(messages, 0)
