"""Owns what a batch must know beyond what its events say, looked up once they are decided. Decides and writes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..protocol.decision import Batch as About
from ..protocol.decision import Decision
from ..protocol.events import InputQueued, InputWithdrawn, MessagesJoined, StoredRow
from ..protocol.message_edits import MessageEdit
from .message_edits import prepare

if TYPE_CHECKING:
    from ..protocol.facts import Facts
    from .building import Building, Lookups

__all__ = ["complete"]

_FINISH = About.FINISH


def complete(building: Building, trigger: Any, decision: Decision, lookups: Lookups, facts: Facts) -> None:
    """Look up the contents of rows that join, go or are edited, and the process groups that an ending strikes out.

    Args:
        building: the batch under way, which has not taken the decision yet.
        trigger: what was decided.
        decision: what was decided of it.
        lookups: see the batch under way.
        facts: before the decision is folded.
    """
    events = decision.events
    rows: list[StoredRow] = []
    for event in events:
        if event.__class__ is MessagesJoined:
            rows += event.rows
        elif event.__class__ is InputWithdrawn:
            rows.append(event.row)
    if rows:
        first = events[0]
        if first.__class__ is InputQueued:
            # A message queued at rest joins in the decision that stores it, so no look-up could find it yet.
            building.know(building.head_sequence + 1, trigger.now, first)
        found = lookups.contents(rows)
        for sequence, (at, content) in found.items():
            building.know(sequence, at, content)
        building.contents = found
    if facts.processes and decision.batch is _FINISH:
        building.groups = [group for group, _ in lookups.groups()]
    if isinstance(trigger, MessageEdit):
        prepare(building, trigger, decision, lookups)
