"""Owns what edits of messages need beside their rules: their mail, their look-up, what their batch must know. Decides nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..protocol.events import MessageDeleted, MessageUpdated
from ..protocol.ids import check_id
from ..protocol.message_edits import DeleteMessage, Found, MessageEdit, UpdateMessage, check_changes, edited_content
from ..storage.gaps import gap_keys, read_gaps
from ..storage.standing import StandingReader
from ..storage.tables import Table

if TYPE_CHECKING:
    from ..protocol.decision import Decision
    from ..protocol.facts import Facts
    from .building import Building, Lookups

__all__ = ["deleting", "find", "prepare", "updating"]


def updating(message_id: object, changes: object, execution_id: str | None = None) -> tuple[UpdateMessage, int]:
    """Return the trigger of an update with its bytes, on the caller's worker. Raises: InvalidInput, LimitExceeded."""
    given = check_id("message_id", message_id)
    checked, size = check_changes(changes)
    return UpdateMessage(given, checked, execution_id), size


def deleting(message_id: object, execution_id: str | None = None) -> tuple[DeleteMessage, int]:
    """Return the trigger of a deletion, on the caller's worker. Raises: InvalidInput."""
    return DeleteMessage(check_id("message_id", message_id), execution_id), 0


def find(lookups: Lookups, facts: Facts, number: int, message_id: str) -> Found | None:
    """Return a message as it stands, with what is decided into the batch under way."""
    with lookups.view() as view:
        reader = StandingReader(view, number, facts.generation)
        return reader.find_standing(message_id, sorted(facts.counts), facts.failed_through)


def prepare(building: Building, trigger: MessageEdit, decision: Decision, lookups: Lookups) -> None:
    """Give a batch what it must know to take in an edit: what is left of a waiting input, and the gaps in history so far."""
    building.edited = True
    found = trigger.found
    for event in decision.events:
        if isinstance(event, MessageUpdated | MessageDeleted) and event.row is not None:
            assert found is not None and found.content is not None
            at, content = found.content
            left = event.message if isinstance(event, MessageUpdated) else {}
            building.know(event.row[0], at, edited_content(content, event.place[1], left))
            assert building.known is not None
            building.contents = {event.row[0]: building.known[event.row[0]]}
        elif isinstance(event, MessageDeleted):
            _count_gaps(building, event.place[3], lookups)


def _count_gaps(building: Building, position: int, lookups: Lookups) -> None:
    gaps = building.gaps = {} if building.gaps is None else building.gaps
    missing = [key for key in gap_keys(building.number, position) if key not in gaps]
    if missing:
        with lookups.view() as view:
            for key in missing:
                gaps[key] = read_gaps(view.get(Table.MESSAGES, key), key)
