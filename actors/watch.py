"""Owns the frames kept for the watchers of one thread: the newest few, shared by all. Never reads the journal.

The ring holds what was published last, committed events and live frames in their order. `base` divides the journal:
every published event behind it is in the ring, every one up to it must be read. So a watcher is a place, not a buffer:
in the ring while it keeps up, in the journal while it does not.
"""

from __future__ import annotations

from collections import deque
from enum import Enum, auto
from typing import TYPE_CHECKING

from ..protocol.frames import Frame, event_frame, status_after, status_frame
from ..protocol.limits import WATCH_BYTES_MAX, WATCH_FRAMES_MAX
from .wakeups import Wakeups

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..protocol.events import JournalEvent
    from ..protocol.status import ThreadStatus
    from .hub import Watched
    from .snapshot import Snapshot

__all__ = ["Item", "Place", "Turn", "Watch"]

_OVERHEAD = 128  # bytes of an event's own objects, about


def weigh(fields: Mapping[str, object]) -> int:
    """Return about how many bytes JSON data takes. In one flat loop: this runs for every frame of a watched thread."""
    size = _OVERHEAD
    inner: list[Iterable[object]] = [fields.values()]
    for values in inner:
        for value in values:
            if isinstance(value, str):
                size += len(value) if value.isascii() else 3 * len(value)
            elif isinstance(value, dict):
                # Field names are one object for all; a user's own keys may be long.
                size += 16 + sum(map(len, value))
                inner.append(value.values())
            elif isinstance(value, list):
                inner.append(value)
            else:
                size += 8
    return size


class Item:
    """What the ring holds: a committed event, or a live frame. Its frames are made once, by the first who wants them.

    Attributes:
        event: what was committed; None for a live frame.
        ordinal: of a live frame among all live frames of this watch.
        size: bytes, about.
        status: the run status that the event brought about, if any.
    """

    __slots__ = ("_frame", "_status_frame", "event", "ordinal", "size", "status")

    def __init__(self, event: JournalEvent | None, frame: Frame | None = None, ordinal: int = 0) -> None:
        self.event = event
        self.ordinal = ordinal
        self.status: ThreadStatus | None = None
        self._frame = frame
        self._status_frame: Frame | None = None
        if event is not None:
            self.status = status_after(event)
            self.size = weigh(event.event.__dict__)
        else:
            assert frame is not None
            self.size = weigh(frame)

    @property
    def frame(self) -> Frame:
        """The frame of the event, or the live frame."""
        if self._frame is None:
            assert self.event is not None
            self._frame = event_frame(self.event)
        return self._frame

    @property
    def status_frame(self) -> Frame:
        """The frame that follows an event which changed the status."""
        if self._status_frame is None:
            assert self.status is not None
            self._status_frame = status_frame(self.status)
        return self._status_frame


class Turn(Enum):
    """What a watcher finds that is not an item."""

    WAIT = auto()  # nothing further is published
    BEHIND = auto()  # the journal has to be read, up to `Place.through`
    GAP = auto()  # `Place.dropped` live frames went by
    DELETED = auto()
    CLOSED = auto()
    REBASED = auto()  # the journal goes on in another generation


class Place:
    """Where one watcher stands; changed by the watch, under its lock, and by the one who reads.

    Attributes:
        generation, sequence: the last committed event that was taken.
        index: of the next item in the ring, counted from the watch's first.
        live: ordinal of the next live frame it is to see.
        through: how far the journal has to be read.
        dropped: live frames that went by unseen.
        version: of the watch, when it had nothing further.
        snapshot: what was published then.
    """

    __slots__ = ("dropped", "generation", "index", "live", "sequence", "snapshot", "through", "version")

    def __init__(self) -> None:
        self.generation = 0
        self.sequence = 0
        self.index = 0
        self.live = 0
        self.through = 0
        self.dropped = 0
        self.version = 0
        self.snapshot: Snapshot | None = None


class Watch(Wakeups):
    """The ring of one watched thread.

    Attributes:
        entry: the thread; held here, so that it stays known while anybody watches it.
        readers: how many watch; the hub's to count.
        snapshot: what was published last.
        size: bytes of the ring, about.
    """

    __slots__ = (
        "_base", "_end", "_generation", "_items", "_last", "_live_evicted", "_live_total", "_start", "entry", "readers", "size",
        "snapshot",
    )  # fmt: skip

    def __init__(self, entry: Watched) -> None:
        super().__init__()
        self.entry = entry
        self.readers = 0
        self.snapshot: Snapshot | None = None
        self.size = 0
        self._items: deque[Item] = deque()
        self._start = 0
        self._generation = 0
        self._base = -1  # before the first snapshot nothing is known: any event begins the ring
        self._last = -1  # base plus the committed events in the ring
        self._live_total = 0
        self._live_evicted = 0
        self._end: Turn | None = None

    def publish(self, snapshot: Snapshot, events: list[JournalEvent]) -> None:
        """Add what was committed; only the thread's actor, after its snapshot was swapped."""
        with self.lock:
            self.version += 1
            self.snapshot = snapshot
            head = snapshot.cursor
            if head.generation != self._generation:
                self._forget(-1)
                self._generation = head.generation
            for event in events:
                sequence = event.cursor.sequence
                # A watcher that came between swap and publish has brought this head along.
                if sequence > self._last:
                    if sequence != self._last + 1:
                        self._forget(sequence - 1)
                    self._last = sequence
                    self._append(Item(event))
            if head.sequence > self._last:
                # Committed by an incarnation that crashed before it could say so: the journal has it.
                self._forget(head.sequence)

    def push_live(self, frame: Frame) -> None:
        """Add a frame that nobody stores; the oldest make room for it."""
        with self.lock:
            self.version += 1
            self._append(Item(None, frame, self._live_total))
            self._live_total += 1

    def finish(self, end: Turn) -> None:
        """Say that nothing further will be published."""
        with self.lock:
            self.version += 1
            if self._end is None:
                self._end = end

    def join(self, found: Snapshot, place: Place) -> Snapshot:
        """Begin to watch: return the snapshot to begin from. The watch must stand in its entry by now.

        Args:
            found: the thread's published state, read after that.
            place: where the watcher stands; its live frames begin here.
        """
        with self.lock:
            # The actor swaps before it publishes, and it publishes under this lock: what is read here is never older
            # than what the ring has.
            swapped = self.entry.snapshot
            if swapped is not None:
                self._adopt(swapped)
            elif self.snapshot is None or self.snapshot.cursor < found.cursor:
                self._adopt(found)
            assert self.snapshot is not None
            place.live = self._live_total
            return self.snapshot

    def take(self, place: Place) -> Item | Turn:
        """Return the next item for a place and move it on, or say why there is none."""
        with self.lock:
            if place.generation != self._generation:
                return Turn.REBASED
            place.index = max(place.index, self._start)
            if place.live < self._live_evicted:
                place.dropped = self._live_evicted - place.live
                place.live = self._live_evicted
                return Turn.GAP
            if place.sequence < self._base:
                if self._end is Turn.DELETED:
                    return self._end
                place.through = self._base
                return Turn.BEHIND
            items = self._items
            for offset in range(place.index - self._start, len(items)):
                item = items[offset]
                if item.event is None:
                    if item.ordinal < place.live:
                        continue
                    place.live = item.ordinal + 1
                else:
                    sequence = item.event.cursor.sequence
                    if sequence <= place.sequence:
                        continue
                    place.sequence = sequence
                place.index = self._start + offset + 1
                return item
            place.index = self._start + len(items)
            place.version = self.version
            place.snapshot = self.snapshot
            return self._end or Turn.WAIT

    def _adopt(self, snapshot: Snapshot) -> None:
        if self.snapshot is None:
            self._generation = snapshot.cursor.generation
            self._base = self._last = snapshot.cursor.sequence
        self.snapshot = snapshot

    def _append(self, item: Item) -> None:
        self._items.append(item)
        self.size += item.size
        while len(self._items) > WATCH_FRAMES_MAX or self.size > WATCH_BYTES_MAX:
            self._evict()

    def _evict(self) -> None:
        item = self._items.popleft()
        self._start += 1
        self.size -= item.size
        if item.event is None:
            self._live_evicted = item.ordinal + 1
        else:
            self._base = item.event.cursor.sequence

    def _forget(self, base: int) -> None:
        """Begin the ring anew behind `base`: what comes next does not follow on what it holds."""
        while self._items:
            self._evict()
        self._base = self._last = base
