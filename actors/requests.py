"""Owns which requests are open at a published cursor, though the store may be ahead of it. Answers none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..protocol.events import JournalEvent, RequestOpened, RequestTerminated
from ..storage.reading import read_event, read_journal, read_open, read_thread, unfit_event

if TYPE_CHECKING:
    from ..storage.store import View
    from .snapshot import Snapshot

__all__ = ["pending_requests"]

_PAGE = 32  # events read at once on the way back; one of them may be large


def pending_requests(view: View, snapshot: Snapshot) -> list[dict[str, object]]:
    """Return the open requests as of the snapshot's cursor, oldest first; the store may be ahead of it."""
    number, (generation, sequence) = snapshot.number, snapshot.cursor
    found = read_thread(view, number)
    if found is not None and found[1].cursor == snapshot.cursor:
        places = sorted(place for _, place in read_open(view, number, b"r"))
        return [_to_wire(*_read_opened(view, number, generation, place)) for place in places]
    ended: set[str] = set()
    opened: list[JournalEvent] = []
    while sequence > 0 and len(opened) < snapshot.pending:
        low = max(0, sequence - _PAGE)
        for entry in reversed(read_journal(view, number, generation, low, sequence, _PAGE)):
            event = entry.event
            if isinstance(event, RequestTerminated):
                ended.add(event.request_id)
            elif isinstance(event, RequestOpened) and event.request_id not in ended:
                opened.append(entry)
        sequence = low
    return [_to_wire(entry.created_at, entry.event) for entry in reversed(opened)]


def _read_opened(view: View, number: int, generation: int, sequence: int) -> tuple[int, RequestOpened]:
    at, event = read_event(view, number, generation, sequence)
    if not isinstance(event, RequestOpened):
        raise unfit_event(number, generation, sequence, f"{event.type} where a request was to open")
    return at, event


def _to_wire(at: int, event: object) -> dict[str, object]:
    assert isinstance(event, RequestOpened), event
    return {
        "request_id": event.request_id,
        "execution_id": event.execution_id,
        "kind": event.kind,
        "payload": event.payload,
        "timeout": event.timeout,
        "created_at": at,
    }
