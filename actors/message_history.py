"""Owns the lazy history of a thread, as a body sees it: read when looked at, never all at once. Writes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, overload

from ..protocol.limits import HISTORY_TAIL, PAGE_DEFAULT
from ..storage.pages import MessageReader
from .reads import facts_of, places

if TYPE_CHECKING:
    from ..protocol.messages import Message
    from .directory import Entry
    from .services import Services

__all__ = ["MessageHistory"]


class MessageHistory(Sequence["Message"]):
    """The live history of a thread, read when looked at: the newest messages at once, older pages on the spot.

    Silent messages and every depth are part of it. Its length is that of the moment it is asked. Updates and deletions are
    seen by the next look; going through it gives each message once that was there from its beginning to its end.
    """

    __slots__ = ("_entry", "_services", "_tail", "_tail_of", "_tail_total")

    def __init__(self, services: Services, entry: Entry) -> None:
        self._services = services
        self._entry = entry
        self._tail: list[Message] = []
        self._tail_total = 0
        self._tail_of = (-1, 0)  # what the tail was read at: the next position, and the newest edit

    def mark(self) -> tuple[int, int]:
        """Return the newest edit's place and the length, of one moment: while the first stays, what was read stays true."""
        with self._services.store.view() as view:
            facts = facts_of(view, self._entry)
            return facts.edited, sum(facts.counts.values())

    def between(self, low: int, high: int) -> list[Message]:
        """Return the messages at places `low` to `high`, as many as are there: one read of these alone."""
        with self._services.store.view() as view:
            facts = facts_of(view, self._entry)
            high = min(high, sum(facts.counts.values()))
            if low >= high:
                return []
            return places(MessageReader(view, self._entry.number, facts.generation), facts, low, high)

    def _load(self) -> int:
        with self._services.store.view() as view:
            facts = facts_of(view, self._entry)
            if (facts.messages, facts.edited) != self._tail_of:
                total = sum(facts.counts.values())
                reader = MessageReader(view, self._entry.number, facts.generation)
                self._tail = reader.page(sorted(facts.counts), offset=0, limit=HISTORY_TAIL, newest_first=True)
                self._tail.reverse()
                self._tail_total, self._tail_of = total, (facts.messages, facts.edited)
        return self._tail_total

    def _read(self, low: int, high: int) -> list[Message]:
        total = self._load()
        low, high = max(0, low), min(high, total)
        if low >= high:
            return []
        start = total - len(self._tail)
        if low >= start:
            return self._tail[low - start : high - start]
        return self.between(low, high)

    def __len__(self) -> int:
        with self._services.store.view() as view:
            return sum(facts_of(view, self._entry).counts.values())

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | list[Message]:
        """Return a message, or a list of them, at a cost that depends on how many are asked for."""
        total = self._load()
        if isinstance(index, slice):
            start, stop, step = index.indices(total)
            if step == 1:
                return self._read(start, stop)
            low, high = (start, stop) if step > 0 else (stop + 1, start + 1)
            found = self._read(low, high)
            return found[::step] if step > 0 else found[::-1][::-step]
        place = index + total if index < 0 else index
        if not 0 <= place < total:
            raise IndexError(f"message {index} of {total}")
        return self._read(place, place + 1)[0]

    def __iter__(self) -> Iterator[Message]:
        if self._load() == len(self._tail):
            yield from self._tail
            return
        # By position and not by place, which a deletion meanwhile would shift.
        with self._services.store.view() as view:
            end = facts_of(view, self._entry).messages
        position = 0
        while position < end:
            with self._services.store.view() as view:
                facts = facts_of(view, self._entry)
                reader = MessageReader(view, self._entry.number, facts.generation)
                page, position = reader.onward(sorted(facts.counts), position, end, PAGE_DEFAULT)
            yield from page

    def __reversed__(self) -> Iterator[Message]:
        if self._load() == len(self._tail):
            yield from reversed(self._tail)
            return
        with self._services.store.view() as view:
            position = facts_of(view, self._entry).messages
        while position > 0:
            with self._services.store.view() as view:
                facts = facts_of(view, self._entry)
                reader = MessageReader(view, self._entry.number, facts.generation)
                page, position = reader.backward(sorted(facts.counts), position, PAGE_DEFAULT)
            yield from page

    def __repr__(self) -> str:
        return f"<history of {self._entry.thread_id}: {len(self)} messages>"
