"""Owns the frames of a stream as they go over the wire, and which event changes the run status. Sends nothing.

A committed frame carries the `cursor` that its reader has reached; all others are control frames and never move it.
The first frame of a stream holds all that a client needs; after it a status frame follows every change.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from .cursors import Cursor
from .errors import InvalidInput, shorten
from .events import EVENT_TYPES, ExecutionFinished, ExecutionLost, ExecutionStarted, JournalEvent
from .limits import LIVE_BYTES_MAX
from .receipts import ActiveExecution
from .status import ThreadStatus, settled_state
from .values import JsonObject, check_value

__all__ = [
    "Frame", "change_frame", "closed_frame", "deleted_frame", "emitted_frame", "event_frame", "gap_frame", "live_frame",
    "snapshot_frame", "status_after", "status_frame",
]  # fmt: skip

# What a client takes for the runtime's own word.
_OURS = frozenset(
    {"thread_status", "internal", "gap", "thread_deleted", "closed", *(event.type for event in EVENT_TYPES.values())}
)

_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


class Frame(JsonObject):
    """One frame, a dict as on the wire. All watchers of a thread share it: read it, never change it."""

    __slots__ = ("_text",)

    _text: str

    @property
    def text(self) -> str:
        """Its JSON on one line, encoded once however many send it."""
        try:
            return self._text
        except AttributeError:
            self._text = _encode(self)
            return self._text


def status_after(entry: JournalEvent) -> ThreadStatus | None:
    """Return the run status that an event brought about, None where it changed none.

    The same as folding the journal up to there: a START comes only at rest, its end only while running, so each of
    them changes the status.
    """
    event = entry.event
    if isinstance(event, ExecutionStarted):
        return ThreadStatus("running", entry.created_at, None)
    if isinstance(event, ExecutionFinished):
        return ThreadStatus(settled_state(event.outcome, event.reason), entry.created_at, event.reason)
    if isinstance(event, ExecutionLost):
        return ThreadStatus("failed", entry.created_at, "execution_lost")
    return None


def snapshot_frame(
    status: ThreadStatus,
    cursor: Cursor,
    active: ActiveExecution | None,
    pending: Sequence[dict[str, object]],
    *,
    held: bool,
    boot_id: str,
) -> Frame:
    """Return the first frame of a stream; all of it is true at `cursor`.

    Args:
        status: the run status.
        cursor: the head that it speaks of.
        active: who owns the thread.
        pending: the open requests, oldest first, as JSON data.
        held: whether waiting inputs are held back.
        boot_id: of the runtime; a client that sees another one knows that live frames were lost.
    """
    return Frame(
        type="thread_status",
        status=status.to_wire(),
        cursor=str(cursor),
        active_execution=None if active is None else active._asdict(),
        pending_requests=list(pending),
        held=held,
        boot_id=boot_id,
    )


def status_frame(status: ThreadStatus) -> Frame:
    """Return the frame that follows a change of the run status."""
    return Frame(type="thread_status", status=status.to_wire())


def event_frame(entry: JournalEvent) -> Frame:
    """Return a committed frame; a client that applied it has reached its `cursor`."""
    return Frame(entry.to_wire())


def live_frame(frame: object) -> Frame:
    """Check a frame that a body or a caller shows to those who watch now; it is stored nowhere. A copy is taken.

    Args:
        frame: JSON data of at most 256 KiB with a `type` of its own: none of ours, and no `cursor`.

    Raises:
        InvalidInput: `invalid_frame`, or `invalid_value` for what is no JSON data.
        LimitExceeded: it is too large.
    """
    checked = check_value(frame, bytes_max=LIVE_BYTES_MAX)
    if not isinstance(checked, dict):
        raise InvalidInput(f"a frame is a dict, not {shorten(frame)}", code="invalid_frame", value=shorten(frame))
    kind = checked.get("type")
    if not isinstance(kind, str) or not kind or kind in _OURS or "cursor" in checked:
        why = "a live frame has a type of its own and no cursor, or it would pass for something durable"
        raise InvalidInput(f"{why}: {shorten(frame)}", code="invalid_frame", value=shorten(frame))
    return Frame(checked)


def emitted_frame(event: object, data: object) -> Frame:
    """Return the live frame of `emit(event, data)` (contract D.11). Raises: as `live_frame`."""
    if not isinstance(event, str) or not event:
        raise InvalidInput(
            f"an event's name is a non-empty string, not {shorten(event)}", code="invalid_frame", value=shorten(event)
        )
    return live_frame({"type": "event", "event": event, "data": data})


def gap_frame(dropped: int) -> Frame:
    """Return the frame that says how many live frames this reader was too slow for; nothing durable is missing."""
    return Frame(type="gap", dropped=dropped)


def deleted_frame() -> Frame:
    """Return the last frame of the stream of a thread that was deleted."""
    return Frame(type="thread_deleted")


def closed_frame(*, complete: bool) -> Frame:
    """Return the last frame of a runtime that closes; `complete` says whether all that was committed came before it."""
    return Frame(type="closed", complete=complete)


def change_frame(thread_id: str, cursor: Cursor, status: ThreadStatus, change: int, *, deleted: bool) -> Frame:
    """Return a frame of the store-wide list of changes: a thread's latest status under its change number."""
    return Frame(
        type="thread_status",
        thread_id=thread_id,
        cursor=str(cursor),
        status=status.to_wire(),
        change=change,
        deleted=deleted,
    )
