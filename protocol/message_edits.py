"""Owns what becomes of updates and deletions of messages: their checks, their triggers and their rules. Pure.

History is the thread's own: it is edited at rest, beside an execution and by its body alike, and on a terminated thread
too, since termination closes a thread to input and an edit is none. An edit never starts, ends or wakes anything. What a
body was already given stays as it was given; what it reads from then on is edited.

A message that waits is edited in its row. The row goes with its last message, which is a withdrawal of the input; an
input of several goes on with those that are left. Every call keeps exactly one result: a message with calls is deleted
with their results and only once it has all of them, and a result is not deleted by itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Final, Literal, NamedTuple, TypeAlias

from .controls import refuse_unread
from .decision import DECIDE, Decision, State
from .errors import InvalidInput, LimitExceeded, MessageNotFound, TreadleError, shorten
from .events import Event, InputQueued, InputWithdrawn, MessageDeleted, MessagePlace, MessageUpdated
from .facts import message_class
from .ids import plain
from .inbox import Row
from .limits import INPUT_BYTES_MAX
from .messages import Draft, Message, check_metadata, check_text, draft_size
from .refusals import refuse
from .running import fenced, is_fenced
from .triggers import Kind, Trigger
from .values import JsonObject, check_value

__all__ = [
    "UNCHANGED", "Changes", "DeleteMessage", "Found", "MessageEdit", "Unchanged", "UpdateMessage", "check_changes", "delete",
    "edited_content", "update",
]  # fmt: skip


class Unchanged(Enum):
    """Stands for a field that an update leaves as it is, since None is a value."""

    UNCHANGED = "unchanged"


UNCHANGED: Final = Unchanged.UNCHANGED
_Kept: TypeAlias = Literal[Unchanged.UNCHANGED]


class Changes(NamedTuple):
    """What an update changes, checked. `metadata` is merged key by key, None in it deletes a key; None itself all of them."""

    content: str | None | _Kept = UNCHANGED
    metadata: JsonObject | None | _Kept = UNCHANGED


def check_changes(changes: object) -> tuple[Changes, int]:
    """Check what an update asks for, as far as that can be told without the message, and return it with its bytes.

    Raises:
        InvalidInput: `invalid_content`, `invalid_value`, or `empty_content` where nothing is to change.
        LimitExceeded: more content or metadata than a message may have.
    """
    if not isinstance(changes, dict):
        raise InvalidInput(
            f"changes are a dict, not {shorten(changes)}", code="invalid_content", value=shorten(changes)
        )
    unknown = [key for key in changes if key not in Changes._fields]
    if unknown:
        raise InvalidInput(
            f"an update changes content and metadata, not {shorten(unknown[0])}",
            code="invalid_content",
            field=shorten(unknown[0]),
            value=shorten(changes),
        )
    content, metadata = changes.get("content", UNCHANGED), changes.get("metadata", UNCHANGED)
    if content is UNCHANGED and metadata is UNCHANGED:
        raise InvalidInput("an update changes content or metadata", code="empty_content", value=shorten(changes))
    if content is not UNCHANGED:
        content = plain(content) if isinstance(content, str) else content
        check_text(content, optional=True)  # whether it may be empty, the message says
    if metadata is not None and metadata is not UNCHANGED:
        metadata = check_metadata(metadata)
    checked = Changes(content, metadata)
    given = {key: value for key, value in checked._asdict().items() if value is not UNCHANGED}
    return checked, draft_size({"id": "", "role": "", "content": None, **given, "edit": True})


class Found(NamedTuple):
    """A message as it stands: looked up for the edit at hand.

    Attributes:
        draft: what is stored of it.
        place: where it stands.
        row, content: where it waits, its row and the event behind that with what is left of it.
        show: makes its record, as readers see it, from a draft of it.
        results: of a message with calls, the results that these got, with their places.
        unanswered: a call of it that has none.
    """

    draft: Draft
    place: MessagePlace
    show: Callable[[Draft], Message]
    row: Row | None = None
    content: tuple[int, InputQueued] | None = None
    results: Sequence[tuple[Draft, MessagePlace]] = ()
    unanswered: str | None = None


class MessageEdit(Trigger):
    """An edit of the message `message_id`; `found` is it, None where there is none. With an execution id it is a body's."""

    found: Found | None = None

    def __init__(self, message_id: str, execution_id: str | None = None) -> None:
        super().__init__(execution_id)
        self.message_id = message_id


class UpdateMessage(MessageEdit):
    """Give a message other content or metadata."""

    kind = Kind.UPDATE_MESSAGE

    def __init__(self, message_id: str, changes: Changes, execution_id: str | None = None) -> None:
        super().__init__(message_id, execution_id)
        self.changes = changes


class DeleteMessage(MessageEdit):
    """Take a message out of history, or out of the row in which it waits."""

    kind = Kind.DELETE_MESSAGE


def edited_content(content: InputQueued, rank: int, draft: Draft) -> InputQueued:
    """Return an input with another message at a rank; an empty draft stands for one that was deleted."""
    messages = list(content.messages)
    messages[rank] = draft
    return content.model_copy(update={"messages": messages})


def update(state: State, trigger: UpdateMessage) -> Decision:
    """Write the message as it is from now on; where that is what it is already, nothing."""
    if _is_late(state, trigger):
        return fenced(state, trigger)
    found = trigger.found
    if found is None:
        thread_id = state.facts.thread_id
        return refuse(
            state,
            MessageNotFound(
                f"Message with id {trigger.message_id} not found",
                thread_id=thread_id,
                message_id=trigger.message_id,
            ),
        )
    try:
        draft = _changed(found.draft, trigger.changes)
        shown = found.show(found.draft if draft is None else draft)
    except TreadleError as error:
        return refuse(state, error)
    if draft is None:
        return refuse(state, shown)  # a repeat
    grown = draft_size(draft) - draft_size(found.draft)
    row = None
    if found.row is not None:
        over = _outgrows(state, found.row, grown)
        if over is not None:
            return over
        row = _edit_row(found, state.facts.sequence + 1, grown)
    event = MessageUpdated(
        execution_id=trigger.execution_id,
        message=draft,
        place=found.place,
        row=None if row is None else row.stored(),
        grown=0 if row is None or found.row is None else row.size - found.row.size,
    )
    return Decision(DECIDE, state.phase, [event], shown)


def _is_late(state: State, trigger: MessageEdit) -> bool:
    """Say whether a body edits after its acceptance closed; others always may."""
    return trigger.execution_id is not None and is_fenced(state, trigger.execution_id)


def _changed(draft: Draft, changes: Changes) -> Draft | None:
    """Return the draft after an update, None where that changes nothing. Raises: as for a new message."""
    new = dict(draft)
    if changes.content is not UNCHANGED:
        optional = draft.get("attachments") or draft.get("tool_calls") or draft["role"] == "tool"
        check_text(changes.content, optional=bool(optional))
        new["content"] = changes.content
    if changes.metadata is not UNCHANGED:
        _merge(new, changes.metadata)
    return None if _same(new, draft) else new


def _merge(draft: Draft, patch: JsonObject | None) -> None:
    stored: JsonObject = draft.get("metadata") or {}
    merged = (
        {} if patch is None else {key: value for key, value in (stored | patch).items() if _kept(key, value, patch)}
    )
    if _same(merged, stored):
        return
    if merged:
        # Each part is a value by itself; whether they are one together only their size can tell.
        check_value(merged, path="$.metadata")
        draft["metadata"] = merged
    else:
        draft.pop("metadata", None)


def _kept(key: str, value: object, patch: JsonObject) -> bool:
    return value is not None or key not in patch


def _same(one: object, other: object) -> bool:
    # As JSON, since 1, 1.0 and True are equal in Python and are not the same value.
    return json.dumps(one) == json.dumps(other)


def _outgrows(state: State, row: Row, grown: int) -> Decision | None:
    """Refuse what would make a row larger than an input, or its execution's end larger than a batch, may be."""
    if row.size + grown > INPUT_BYTES_MAX:
        error = LimitExceeded(
            f"the input would have {row.size + grown} bytes; the limit input_bytes is {INPUT_BYTES_MAX}",
            limit="input_bytes",
            maximum=INPUT_BYTES_MAX,
            met=row.size + grown,
        )
        return refuse(state, error)
    return refuse_unread(state, 0, grown) if row.kind == "steer" and grown > 0 else None


def _edit_row(found: Found, sequence: int, grown: int) -> Row:
    """Return the row of a message that waits after an edit of it, which the event `sequence` tells; 0: it is gone."""
    row, rank = found.row, found.place[1]
    assert row is not None
    edits = {**dict(row.edits), rank: sequence}
    silent = bool(found.draft.get("silent"))
    return row._replace(
        messages=row.messages - (not sequence),
        silent=row.silent - (silent and not sequence),
        size=max(row.size + grown, 0),
        edits=tuple(sorted(edits.items())),
    )


def delete(state: State, trigger: DeleteMessage) -> Decision:
    """Take the message out; one that is not there is told so, which a repeat finds as well."""
    if _is_late(state, trigger):
        return fenced(state, trigger)
    found = trigger.found
    if found is None:
        return refuse(state, False)
    row = found.row
    if row is not None and row.messages == 1:
        withdrawn = InputWithdrawn(input_id=row.input_id, row=row.stored())
        # A steer closes the batch: a body that ended behind it has not read it, unless this turns out not to be written.
        return Decision(DECIDE, state.phase, [withdrawn], True, closes=row.kind == "steer")
    refused = _refuse_call(found)
    if refused is not None:
        return refuse(state, refused)
    events: list[Event] = [_deleted(trigger, found)]
    for draft, place in found.results:
        events.append(_deleted(trigger, found._replace(draft=draft, place=place)))
    return Decision(DECIDE, state.phase, events, True)


def _refuse_call(found: Found) -> InvalidInput | None:
    message_id = found.draft["id"]
    if found.unanswered is not None:
        return InvalidInput(
            f"message {message_id!r} has an open call {found.unanswered!r}; it can be deleted once that has its result",
            code="call_open",
            message_id=message_id,
            tool_call_id=found.unanswered,
        )
    if found.draft.get("closes"):
        call_id = found.draft["tool_call_id"]
        return InvalidInput(
            f"message {message_id!r} is the one result of call {call_id!r}; delete the message that made the call",
            code="call_needs_result",
            message_id=message_id,
            tool_call_id=call_id,
        )
    return None


def _deleted(trigger: DeleteMessage, found: Found) -> MessageDeleted:
    row = None if found.row is None else _edit_row(found, 0, -draft_size(found.draft))
    return MessageDeleted(
        execution_id=trigger.execution_id,
        message_id=found.draft["id"],
        message_class=message_class(found.draft),
        place=found.place,
        row=None if row is None else row.stored(),
        grown=0 if row is None or found.row is None else row.size - found.row.size,
    )
