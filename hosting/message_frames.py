"""Owns what a thread's frames are on its message stream (contract H.2). Never guesses: what a frame lacks is read anew."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..protocol.cursors import Cursor
from ..protocol.errors import MessageNotFound, ThreadNotFound
from ..protocol.events import InputQueued
from ..protocol.frames import Frame
from ..storage.pages import to_message

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..actors import Thread
    from ..actors.clock import Clock
    from ..protocol.messages import Message

__all__ = ["MessageFrames", "Wanted"]

_CHUNKS = frozenset({"message_chunk", "message_restart"})
# Told of by their messages as they are now, which has to be read.
_READ = frozenset({"INPUT_QUEUED", "MESSAGES_JOINED", "INPUT_WITHDRAWN", "MESSAGE_UPDATED"})


class Wanted(NamedTuple):
    """What one client asked for.

    Attributes:
        include_silent: messages that people are not shown, too.
        depth: the deepest messages, 0 for those of the thread's own conversation.
        reasoning: chunks of reasoning, too.
        journal: the committed frames too, as they are, each before the messages that it brought.
    """

    include_silent: bool = False
    depth: int = 0
    reasoning: bool = False
    journal: bool = False


class MessageFrames:
    """Makes the frames of one client of one thread.

    Args:
        thread: whose frames they are.
        wanted: what the client asked for.
        clock: of the runtime.
        find: reads a message; by default a call, which a runtime that closes refuses.
    """

    __slots__ = ("_clock", "_find", "_thread", "_wanted")

    def __init__(
        self, thread: Thread, wanted: Wanted, clock: Clock, find: Callable[[str], Message | None] | None = None
    ) -> None:
        self._find = find or (lambda message_id: thread.message(message_id).result())
        self._clock = clock
        self._thread = thread
        self._wanted = wanted

    def needs_read(self, frame: Frame) -> bool:
        """Say whether `of` blocks for reads with this frame."""
        return frame["type"] in _READ

    def of(self, frame: Frame) -> list[Frame]:
        """Return the frames to send for one of the thread's, often none or itself.

        Messages come as they are by now, which may be later than the frame: what is sent last is what holds.
        """
        if "cursor" not in frame or frame["type"] == "thread_status":
            return self._of_live(frame)
        made = self._of_committed(frame)
        return [frame, *made] if self._wanted.journal else made

    def _of_live(self, frame: Frame) -> list[Frame]:
        kind = frame["type"]
        if kind == "event":
            # In process an event has one word for its name; this wire has another since ever.
            at = self._clock.now_us() // 1_000
            return [Frame(type=kind, eventType=frame.get("event"), data=frame.get("data"), timestamp=at)]
        if kind == "reasoning_chunk" and not self._wanted.reasoning:
            return []
        if kind in _CHUNKS or kind == "reasoning_chunk":
            depth = frame.get("depth", 0)
            return [frame] if not isinstance(depth, int) or depth <= self._wanted.depth else []
        return [frame]

    def _of_committed(self, frame: Frame) -> list[Frame]:
        kind, at = frame["type"], frame["created_at"]
        if kind == "MESSAGE_ADDED":
            return self._shown([to_message(frame["message"], at)])
        if kind == "THREAD_EXECUTION_STARTED":
            return self._shown([to_message(draft, at) for draft in frame["messages"]])
        if kind == "VALUE_CHANGED":
            data = {"key": frame["key"], "deleted": frame["deleted"], "updated_at": at}
            return [_event("kv_changed", data, at)]
        if kind == "MESSAGE_DELETED":
            return [_deleted(frame["message_id"], at)] if self._is_wanted(*divmod(frame["message_class"], 2)) else []
        return self._read(frame) if kind in _READ else []

    def _read(self, frame: Frame) -> list[Frame]:
        made: list[Frame] = []
        try:
            for message_id in self._named(frame):
                found = self._find(message_id)
                made += [_deleted(message_id, frame["created_at"])] if found is None else self._shown([found])
        except ThreadNotFound:
            return []  # the thread was deleted meanwhile, which its last frame says
        return made

    def _named(self, frame: Frame) -> list[str]:
        kind = frame["type"]
        if kind == "MESSAGE_UPDATED":
            return [frame["message"]["id"]]
        if kind == "INPUT_QUEUED":
            return [draft["id"] for draft in frame["messages"]]
        rows = frame["rows"] if kind == "MESSAGES_JOINED" else [frame["row"]]
        generation = Cursor.parse(frame["cursor"]).generation
        return [message_id for row in rows for message_id in self._of_row(Cursor(generation, row[0]))]

    def _of_row(self, at: Cursor) -> list[str]:
        """Return the ids of the messages that an input brought, by the place of its event."""
        with self._thread.events(Cursor(at.generation, at.sequence - 1)) as events:
            found = events.next(0)
        if found is None or not isinstance(found.event, InputQueued):
            raise MessageNotFound(f"no input is stored at {at}", thread_id=self._thread.id, cursor=str(at))
        return [draft["id"] for draft in found.event.messages]

    def _shown(self, messages: list[Message]) -> list[Frame]:
        return [_data(message) for message in messages if self._is_wanted(message.depth, message.silent)]

    def _is_wanted(self, depth: int, silent: int) -> bool:
        return depth <= self._wanted.depth and (self._wanted.include_silent or not silent)


def _data(message: Message) -> Frame:
    return Frame(type="message_data", message_id=message.id, depth=message.depth, data=message.model_dump(mode="json"))


def _deleted(message_id: str, at: int) -> Frame:
    return _event("message_deleted", {"message_id": message_id}, at)


def _event(kind: str, data: dict[str, object], at: int) -> Frame:
    # Milliseconds, as the frames of this stream always had (contract I.28).
    return Frame(type="event", eventType=kind, data=data, timestamp=at // 1_000)
