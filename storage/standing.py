"""Owns how a message stands that is to be edited: what is stored of it, where, and what goes with it. Changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..protocol.message_edits import Found
from .keys import inbox_key, sequence_of
from .pages import MessageReader, Place
from .reading import UNFIT, decode_row, integers
from .tables import Table

if TYPE_CHECKING:
    from ..protocol.events import InputQueued
    from ..protocol.inbox import Row
    from ..protocol.messages import Draft

__all__ = ["StandingReader"]

_RESULTS_PAGE: Final = 64  # messages looked at in one go for the results of a call, which mostly follow it at once


class StandingReader(MessageReader):
    """Finds messages of one thread for edits, within one view."""

    def find_standing(self, message_id: str, classes: list[int], failed_through: int) -> Found | None:
        """Return a message for an edit, None where there is none; reads on where results of its calls are far behind it."""
        place = self._place(message_id)
        if place is None:
            return None
        try:
            if place.position is not None:
                return self._stands_in_history(place, classes)
            return self._stands_in_inbox(place, failed_through)
        except UNFIT as error:
            raise self._misplaced(place.content, self._event(place.content)[1]) from error

    def _stands_in_inbox(self, place: Place, failed_through: int) -> Found:
        at, content = self._content(place.content)
        row = self._row(place.content, content)
        draft = self._draft(content, place)
        messages = list(content.messages)
        for rank, edited in row.edits:
            messages[rank] = self._updated(edited) if edited else {}
        return Found(
            draft,
            list(place[:4]),
            lambda draft: self._waiting(draft, content, place.content, at, failed_through),
            row=row,
            content=(at, content.model_copy(update={"messages": messages})),
        )

    def _stands_in_history(self, place: Place, classes: list[int]) -> Found:
        content, rank, joined, position, edited = place
        assert position is not None
        draft = self._joined_draft(content, rank, edited)
        calls = list(draft.get("calls") or ())
        results: list[tuple[Draft, list[int | None]]] = []
        while calls:
            page = self._from(classes, position + 1, _RESULTS_PAGE)
            for key, data in page:
                found = integers(data, 3, Table.MESSAGES, key, 4)
                position = sequence_of(key)
                result = self._joined_draft(found[0], found[1], found[3] if len(found) == 4 else 0)
                if result.get("closes") and result["tool_call_id"] in calls:
                    calls.remove(result["tool_call_id"])
                    results.append((result, [*found[:3], position]))
            if len(page) < _RESULTS_PAGE:
                break
        self._event(joined), self._event(content)  # at hand, once the view is gone
        return Found(
            draft,
            list(place[:4]),
            lambda draft: self._joined(content, rank, joined, draft=draft),
            results=results,
            unanswered=calls[0] if calls else None,
        )

    def _row(self, sequence: int, content: InputQueued) -> Row:
        key = inbox_key(self._number, content.first, sequence)
        data = self._view.get(Table.INBOX, key)
        if data is None:
            raise self._misplaced(sequence, content)
        return decode_row(key, data)
