"""Owns the form of the rows that the step loop stores: by side and depth, within their limits. Stores none itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..protocol.limits import MESSAGE_BYTES_MAX
from ..protocol.messages import Draft, draft_message
from .model_calls import StepCalls
from .models.halves import clean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .flow import Flow, SideName

__all__ = ["RUN_FAILED", "assistant_row", "author", "fitting", "placed", "reader", "tool_row"]

RUN_FAILED: Final = "The agent run failed unexpectedly: "
"""How the failed row begins that a loop leaves (contract F.3)."""

_TRUNCATED: Final = "\n[truncated: the response was larger than a message may be]"


def author(side: SideName) -> str:
    """Return the stored role of what a side says (contract D.2)."""
    return "assistant" if side == "a" else "user"


def reader(side: SideName) -> str:
    """Return the stored role of what is said to a side."""
    return "user" if side == "a" else "assistant"


def fitting(text: str) -> str:
    """Return text that a message can hold: valid, and cut where it is too large."""
    text = clean(text)
    if len(text) * 4 <= MESSAGE_BYTES_MAX:
        return text
    raw = text.encode()
    if len(raw) <= MESSAGE_BYTES_MAX:
        return text
    return raw[: MESSAGE_BYTES_MAX - len(_TRUNCATED)].decode(errors="ignore") + _TRUNCATED


def assistant_row(
    flow: Flow, message_id: str, content: str, calls: StepCalls | None = None, *, calls_text: str | None = None,
    metadata: Mapping[str, object] | None = None, silent: bool = False, failed: bool = False,
) -> Draft:  # fmt: skip
    """Return the draft of what the acting side says; its calls are open from the commit on.

    Args:
        flow: which side, at which depth.
        message_id: the new row's.
        content: text, empty only beside calls.
        calls: those of the step.
        calls_text: their JSON text as it is stored, without secrets.
        metadata: JSON data.
        silent: kept from people's view.
        failed: marked as failed.
    """
    draft = draft_message(
        message_id, author(flow.side), fitting(content) or None, metadata=metadata, silent=silent, tool_calls=calls_text
    )
    if calls is not None and calls.calls:
        draft["calls"] = calls.ids
    if failed:
        draft["status"] = "failed"
    return placed(draft, flow)


def tool_row(
    flow: Flow, call_id: str, name: str, content: str, *, failed: bool, attachments: Sequence[Mapping[str, object]] = (),
    metadata: Mapping[str, object] | None = None,
) -> Draft:  # fmt: skip
    """Return the draft of a call's one result.

    Raises:
        InvalidInput, LimitExceeded: the result cannot be stored.
    """
    draft = draft_message(
        flow.execution.new_id(), "tool", content, name=clean(name).replace("\0", "") or None, tool_call_id=call_id,
        tool_status="error" if failed else "success", attachments=list(attachments) or None, metadata=metadata,
    )  # fmt: skip
    draft["closes"] = True
    return placed(draft, flow)


def placed(draft: Draft, flow: Flow) -> Draft:
    """Return a draft at the depth of its flow, under the row that called it."""
    if flow.depth:
        draft["depth"] = flow.depth
        draft["parent_id"] = flow.parent_message_id
    return draft
