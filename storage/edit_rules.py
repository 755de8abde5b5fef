"""Owns what a journal may say of messages once they are there: which stand, which were edited, what goes together.

A part of the journal's rules, and like them it knows the promises and not the code that keeps them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..protocol.events import InputQueued, MessageDeleted, MessageUpdated
    from ..protocol.messages import Draft

__all__ = ["EditRules"]

_FIXED = ("id", "role", "silent", "depth", "calls", "closes", "tool_calls", "tool_call_id", "attachments", "name")


class _Standing:
    """A message that is there: what of it never changes, and the row in which it waits."""

    __slots__ = ("fixed", "place", "rank", "row")

    def __init__(self, draft: Draft, row: int | None, rank: int, place: list[int | None]) -> None:
        self.fixed = {key: draft[key] for key in _FIXED if key in draft}
        self.row = row
        self.rank = rank
        self.place = place


def class_of(draft: Draft) -> int:
    """Return what a message is counted as."""
    return 2 * int(draft.get("depth", 0)) + bool(draft.get("silent"))


class EditRules:
    """Follows the messages of one journal.

    Attributes:
        joined: how many are in history, by class.
        positions: how many ever joined.

    Args:
        must: notes what is wrong, where the first argument is not true.
    """

    def __init__(self, must: Callable[[object, str], None]) -> None:
        self.joined: dict[int, int] = {}
        self.positions = 0
        self._must = must
        self._standing: dict[str, _Standing] = {}
        self._orphans: set[str] = set()  # results of a deleted call, which go with it
        self._results: dict[str, str] = {}  # the message that made a call, by the message with its result
        self._calling: dict[str, str] = {}  # the same, by the call's id while it is open
        self._rows: dict[int, list[Any]] = {}  # messages, silent, size and edits of rows that wait

    def settled(self) -> None:
        """Judge that what goes together has gone together, before an event that is no deletion."""
        self._must(not self._orphans, f"results {sorted(self._orphans)} stay while their call is deleted")
        self._orphans.clear()

    def join(self, draft: Draft, content: int, rank: int, joined: int) -> None:
        """Take a message into history."""
        kind = class_of(draft)
        self.joined[kind] = self.joined.get(kind, 0) + 1
        place: list[int | None] = [content, rank, joined, self.positions]
        self.positions += 1
        self._standing[draft["id"]] = _Standing(draft, None, rank, place)

    def wait(self, sequence: int, content: InputQueued) -> None:
        """Take the messages of an input that waits."""
        silent = sum(bool(draft.get("silent")) for draft in content.messages)
        self._rows[sequence] = [len(content.messages), silent, content.size, {}]
        for rank, draft in enumerate(content.messages):
            self._standing[draft["id"]] = _Standing(draft, sequence, rank, [sequence, rank, 0, None])

    def told(self, sequence: int, content: InputQueued) -> list[Any]:
        """Return what an event must say of a row behind its sequence."""
        messages, silent, size, edits = self._rows[sequence]
        told = [content.kind, messages, silent, size]
        return [*told, [list(edit) for edit in sorted(edits.items())]] if edits else told

    def leave(self, sequence: int, content: InputQueued, joined: int | None) -> None:
        """Have a row join history, or with None leave it for good."""
        edits = self._rows.pop(sequence)[3]
        for rank, draft in enumerate(content.messages):
            if edits.get(rank) == 0:
                continue
            if joined is None:
                self._standing.pop(draft["id"], None)
            else:
                self.join(draft, sequence, rank, joined)

    def call(self, draft: Draft) -> None:
        """Note what a body's message opens and closes."""
        for call_id in draft.get("calls", ()):
            self._calling[call_id] = draft["id"]
        if draft.get("closes") and draft["tool_call_id"] in self._calling:
            self._results[draft["id"]] = self._calling.pop(draft["tool_call_id"])

    def update(self, event: MessageUpdated, sequence: int) -> None:
        """Judge an update."""
        standing = self._find(event.message["id"], event)
        if standing is None:
            return
        fixed = {key: event.message[key] for key in _FIXED if key in event.message}
        self._must(fixed == standing.fixed, f"message {event.message['id']} is updated into another")
        if standing.row is not None:
            self._edit(standing, event, sequence)

    def delete(self, event: MessageDeleted) -> None:
        """Judge a deletion, and of a message with calls that its results follow."""
        message_id = event.message_id
        standing = self._find(message_id, event)
        if standing is None:
            return
        del self._standing[message_id]
        kind = class_of(standing.fixed)
        self._must(event.message_class == kind, f"message {message_id} of class {kind} is deleted from another")
        if standing.row is not None:
            self._edit(standing, event, 0)
            return
        self.joined[kind] -= 1
        if not self.joined[kind]:
            del self.joined[kind]
        opened = [call_id for call_id, made in self._calling.items() if made == message_id]
        self._must(not opened, f"message {message_id} is deleted while its calls {opened} are open")
        made_by = self._results.pop(message_id, None)
        self._must(made_by not in self._standing, f"result {message_id} is deleted and its call in {made_by} is not")
        self._orphans.discard(message_id)
        self._orphans.update(result for result, made in self._results.items() if made == message_id)

    def _find(self, message_id: str, event: MessageUpdated | MessageDeleted) -> _Standing | None:
        standing = self._standing.get(message_id)
        self._must(standing is not None, f"message {message_id} is edited and is not there")
        if standing is None:
            return None
        self._must(event.place == standing.place, f"message {message_id} is at {event.place}, not {standing.place}")
        self._must((event.row is None) == (standing.row is None), f"message {message_id} waits, or it does not")
        return standing if (event.row is None) == (standing.row is None) else None

    def _edit(self, standing: _Standing, event: MessageUpdated | MessageDeleted, sequence: int) -> None:
        row, assumed = standing.row, event.row
        assert row is not None and assumed is not None
        found = self._rows[row]
        if not sequence:
            found[0] -= 1
            found[1] -= bool(standing.fixed.get("silent"))
            self._must(found[0] > 0, f"row {row} is left without a message")
        found[2] += event.grown
        found[3][standing.rank] = sequence
        edits = [list(edit) for edit in sorted(found[3].items())]
        self._must(assumed[0] == row, f"a message of row {row} is edited in row {assumed[0]}")
        self._must(
            assumed[2:] == [*found[:3], edits], f"row {row} is told as {assumed[2:]}, it is {found[:3]}, {edits}"
        )
