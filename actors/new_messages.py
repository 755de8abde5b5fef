"""Owns what makes the messages that a pass is called for, out of a batch's events. Reads nothing and makes nothing early."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..protocol.events import Event, ExecutionStarted, InputQueued, MessagesJoined
from ..storage.pages import joined_message, to_message

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..protocol.decision import Decision
    from ..protocol.messages import Message

__all__ = ["new_messages"]


def new_messages(
    events: list[tuple[int, int, Event]],
    contents: Mapping[int, tuple[int, InputQueued]] | None,
    decision: Decision | None = None,
) -> Callable[[], list[Message]]:
    """Return what makes the messages that joined in these events: made when the body looks, not before.

    With a decision, only what that decision joined.
    """

    def make() -> list[Message]:
        messages: list[Message] = []
        for _, at, event in events:
            if decision is not None and not any(event is own for own in decision.events):
                continue
            if isinstance(event, ExecutionStarted):
                messages += [to_message(draft, at) for draft in event.messages]
            elif isinstance(event, MessagesJoined) and event.consumed:
                for row in event.rows:
                    assert contents is not None
                    queued_at, content = contents[row[0]]
                    messages += [
                        joined_message(draft, content, queued_at, event, at)
                        for draft in content.messages
                        if draft  # else it was deleted while it waited
                    ]
        return messages

    return make
