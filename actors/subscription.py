"""Owns the subscriptions to one thread: a cursor over its journal plus a wake-up. Holds one page at most, never a queue.

A reader that keeps up takes from the ring that all watchers share; one that does not reads the journal, up to where
the ring begins. Both ways lead through the same items, so what is delivered never depends on the reader's speed.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Self, TypeVar

from ..protocol.cursors import Cursor
from ..protocol.errors import CorruptRecord, CursorConflict, StoreClosed, ThreadNotFound, TreadleError
from ..protocol.events import JournalEvent
from ..protocol.frames import Frame, closed_frame, deleted_frame, gap_frame, snapshot_frame, status_frame
from ..protocol.ids import check_id
from ..protocol.limits import JOURNAL_PAGE, WATCH_BYTES_MAX
from ..storage.keys import journal_key
from ..storage.reading import read_journal, thread_number
from ..storage.tables import Table
from .feed import Feed, Pause
from .reads import find_message
from .watch import Item, Place, Turn, Watch

if TYPE_CHECKING:
    from ..protocol.messages import Message
    from ..protocol.status import ThreadStatus
    from .hub import Hub, Watched
    from .snapshot import Snapshot
    from .wakeups import Wakeups

__all__ = ["EventSubscription", "StreamSubscription", "Subscription"]

T = TypeVar("T")

_PAGE_FIRST = 16
_RUN = 8  # events read at once: one may have megabytes, so a page is filled step by step


class Subscription(Feed[T]):
    """What has happened to a thread since a cursor, in order, each event exactly once, and what happens from now on.

    Nothing is read before the first item is asked for. Then an unknown thread is `ThreadNotFound`, a malformed cursor
    `InvalidInput`, a cursor of another generation or beyond the head `CursorConflict`, a closed runtime `RuntimeClosed`.
    """

    __slots__ = ("_after", "_ahead", "_holds", "_page", "_place", "_thread_id", "_watch")

    def __init__(self, hub: Hub, thread_id: str, after: str | Cursor | None) -> None:
        super().__init__(hub)
        self._thread_id = thread_id
        self._after = after
        self._place: Place | None = None
        self._watch: Watch | None = None
        self._holds: list[Watch] = []
        self._page: list[Item] = []  # newest first
        # A short page first, so that the first frame comes soon and who takes only a few has not read hundreds.
        self._ahead = _PAGE_FIRST

    @property
    def cursor(self) -> Cursor | None:
        """The place reached: of the last committed item delivered, else where it began; None before the first item."""
        place = self._place
        return None if place is None else Cursor(place.generation, place.sequence)

    def _step(self) -> T | Pause:
        while not self._closed:
            item = self._next()
            if item is not None:
                return item
        return Pause.END

    def _source(self) -> tuple[Wakeups, int]:
        assert self._watch is not None
        assert self._place is not None
        return self._watch, self._place.version

    def _leave(self) -> None:
        # Taking from a list is one step, so that closing twice at once lets go once.
        while self._holds:
            try:
                watch = self._holds.pop()
            except IndexError:
                return
            self._hub.detach(watch)

    def _forget(self) -> None:
        super()._forget()
        self._watch = None
        self._page.clear()

    def _next(self) -> T | Pause | None:
        """Return an item, `WAIT`, or None for "look again"."""
        place, watch = self._place, self._watch
        if place is None or watch is None:
            return self._open()
        if self._hub.orphaned:
            return self._finish(Turn.CLOSED, complete=False)
        if self._page:
            item = self._page.pop()
            assert item.event is not None
            place.sequence = item.event.cursor.sequence
            return self._deliver(item)
        found = watch.take(place)
        if isinstance(found, Item):
            return self._deliver(found)
        if found is Turn.WAIT:
            return self._at_rest(place) or Pause.WAIT
        if found is Turn.GAP:
            return self._gap(place.dropped)
        if found is Turn.BEHIND:
            return self._load(watch, place)
        if found is Turn.REBASED:
            raise CursorConflict(
                f"the journal of thread {self._thread_id!r} goes on in another generation; begin from a snapshot",
                thread_id=self._thread_id,
                cursor=str(self.cursor),
            )
        return self._finish(found, complete=True)

    def _open(self) -> T | Pause | None:
        hub = self._hub
        hub.check_open()
        after = None if self._after is None else Cursor.parse(self._after)
        entry = hub.finder.entry(check_id("thread_id", self._thread_id))
        watch = hub.attach(entry)
        self._holds.append(watch)
        try:
            return self._begin_at(watch, entry, after)
        except BaseException:
            self._leave()
            raise

    def _begin_at(self, watch: Watch, entry: Watched, after: Cursor | None) -> T | None:
        # The watch stands in the entry by now: whatever is published after this look goes into its ring.
        place = Place()
        snapshot = watch.join(self._hub.finder.snapshot(entry), place)
        if entry.gone:
            raise ThreadNotFound(f"no thread {self._thread_id!r}", thread_id=self._thread_id)
        place.generation = snapshot.cursor.generation
        place.sequence = self._start(snapshot, after).sequence
        opening = self._opening(snapshot)
        self._place, self._watch = place, watch
        return opening

    def _start(self, snapshot: Snapshot, after: Cursor | None) -> Cursor:
        """Return the cursor to begin after."""
        head = snapshot.cursor
        if after is None:
            return Cursor(head.generation, 0)
        if after.generation != head.generation or after > head:
            raise CursorConflict(
                f"cursor {after} is not in the journal of thread {self._thread_id!r}, which is at {head}",
                thread_id=self._thread_id,
                cursor=str(after),
                head=str(head),
            )
        return after

    def _load(self, watch: Watch, place: Place) -> T | None:
        """Fill the page from the journal, behind the place and up to where the ring begins."""
        try:
            page = self._read(watch.entry.number, place)
        except StoreClosed:
            if not self._hub.closed:
                raise
            return self._finish(Turn.CLOSED, complete=False)
        if page is None:
            return self._finish(Turn.DELETED, complete=False)
        page.reverse()
        self._page = page
        self._ahead = min(2 * self._ahead, JOURNAL_PAGE)
        return None

    def _read(self, number: int, place: Place) -> list[Item] | None:
        """Return a page of at least one event, None where the thread is gone."""
        page: list[Item] = []
        generation, after, through, size = place.generation, place.sequence, place.through, 0
        with self._hub.store.view() as view:
            if not thread_number(view, self._thread_id):
                return None
            while after < through and len(page) < self._ahead and size < WATCH_BYTES_MAX:
                events = read_journal(view, number, generation, after, through, _RUN)
                if not events or events[-1].cursor.sequence != after + len(events):
                    key = journal_key(number, generation, after + 1).hex()
                    raise CorruptRecord(
                        f"the journal has a hole behind {key}", table=Table.JOURNAL.name.lower(), key=key
                    )
                after += len(events)
                for event in events:
                    item = Item(event)
                    size += item.size
                    page.append(item)
        return page

    def _finish(self, how: Turn, *, complete: bool) -> T | None:
        """Say how it ended; the next step finds the end."""
        self._closed = True
        return self._farewell(how, complete=complete)

    @abstractmethod
    def _deliver(self, item: Item) -> T | None:
        """Return what this subscription shows of an item, None for nothing."""

    def _opening(self, snapshot: Snapshot) -> T | None:
        """Return what comes before everything else, if anything."""

    def _at_rest(self, place: Place) -> T | None:
        """Return what is to be said when all events are delivered, if anything."""

    def _gap(self, dropped: int) -> T | None:
        """Return what is said of live frames that went by, if anything."""

    def _farewell(self, how: Turn, *, complete: bool) -> T | None:
        """Return what is said at the end, if anything."""


class EventSubscription(Subscription[JournalEvent]):
    """Committed events only. Ends when the thread is deleted or the runtime closes, without an error."""

    __slots__ = ()

    def _deliver(self, item: Item) -> JournalEvent | None:
        return None if item.event is None else item.event.shown()


class StreamSubscription(Subscription[Frame]):
    """A snapshot frame, then committed frames, a status frame after every change, and live frames.

    Status frames follow only for changes after the snapshot's cursor: a replay of what came before does not go back in
    status. Its last frame is `thread_deleted` or `closed`. It begins where `with` or `async with` is entered, else at the
    first read.
    """

    __slots__ = ("_following", "_shown", "_shown_through")

    def __init__(self, hub: Hub, thread_id: str, after: str | Cursor | None) -> None:
        super().__init__(hub, thread_id, after)
        self._following: Frame | None = None
        self._shown: ThreadStatus | None = None
        self._shown_through = 0

    def __enter__(self) -> Self:
        self._look()
        return self

    async def __aenter__(self) -> Self:
        self._look()
        return self

    def message(self, message_id: str) -> Message | None:
        """Return a message as it is by now, None where there is none; blocks for a read, and is told while a runtime closes, too.

        Raises: ThreadNotFound, StoreClosed.
        """
        return find_message(self._hub.store, self._hub.finder.entry(self._thread_id), message_id)

    def _look(self) -> None:
        """Take the snapshot: what is done to the thread inside of the `with` is in the stream, however late it is read."""
        if self._place is not None or not self._turn.acquire(blocking=False):
            return  # somebody reads it already
        try:
            opening = self._step()
        except TreadleError:
            return  # the first read meets it as well, and raises it
        finally:
            self._turn.release()
        if isinstance(opening, Frame):
            self._following = opening

    def _next(self) -> Frame | Pause | None:
        following = self._following
        if following is not None:
            self._following = None
            return following
        return super()._next()

    def _start(self, snapshot: Snapshot, after: Cursor | None) -> Cursor:
        return snapshot.cursor if after is None else super()._start(snapshot, after)

    def _opening(self, snapshot: Snapshot) -> Frame:
        self._shown, self._shown_through = snapshot.status, snapshot.cursor.sequence
        return snapshot_frame(
            snapshot.status,
            snapshot.cursor,
            snapshot.active,
            self._hub.pending(snapshot),
            held=snapshot.held,
            boot_id=self._hub.boot_id,
        )

    def _deliver(self, item: Item) -> Frame:
        status = item.status
        if status is not None and status != self._shown:
            assert item.event is not None
            if item.event.cursor.sequence > self._shown_through:
                self._shown = status
                self._following = item.status_frame
        return item.frame

    def _at_rest(self, place: Place) -> Frame | None:
        # A status that could not be written (a quarantined thread shows as lost) comes without an event.
        snapshot = place.snapshot
        if snapshot is None or snapshot.status == self._shown or snapshot.cursor.sequence != place.sequence:
            return None
        self._shown = snapshot.status
        return status_frame(snapshot.status)

    def _gap(self, dropped: int) -> Frame:
        return gap_frame(dropped)

    def _farewell(self, how: Turn, *, complete: bool) -> Frame:
        return deleted_frame() if how is Turn.DELETED else closed_frame(complete=complete)
