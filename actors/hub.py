"""Owns who watches what: takes what actors publish and wakes those who wait for it. Never reads a journal.

Publishing queues and never wakes: an actor first sends its replies, then calls `flush`. A thread that nobody watches
costs one look. Watching does not keep an actor: the watch hangs on the thread's entry, which outlives its actors.
"""

from __future__ import annotations

import logging
import threading
import weakref
from typing import TYPE_CHECKING, Any, Final, Protocol

from ..protocol.errors import RuntimeClosed, TreadleError
from ..protocol.frames import Frame
from ..protocol.limits import JOURNAL_PAGE
from ..storage.changes import last_change, latest_changes
from .burst import Burst, burst_for
from .change_feed import ChangeSubscription
from .requests import pending_requests
from .subscription import EventSubscription, StreamSubscription
from .wakeups import WeakBurst
from .watch import Turn, Watch
from .watermark import Watermark

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Mapping

    from ..protocol.cursors import Cursor
    from ..protocol.events import JournalEvent
    from ..storage.store import Store
    from .snapshot import Snapshot

__all__ = ["Finder", "Hub", "Watched"]

logger = logging.getLogger("treadle")

_CHANGES_KEPT: Final = 8_192
"""Threads whose ends readers of changes find once the store is closed; looking one up costs 30 µs."""


class Watched(Protocol):
    """What the hub needs of a thread's entry.

    Attributes:
        snapshot: what its actor published last. An actor sets it before its first commit and swaps it before it
            publishes; None only while no batch is in flight.
        watch: the hub's to set.
        gone: it was deleted; set before the `flush` of that act.
    """

    thread_id: str
    number: int
    snapshot: Snapshot | None
    watch: Watch | None
    gone: bool


class Finder(Protocol):
    """Where threads are found; both calls may block for one read."""

    def entry(self, thread_id: str, /) -> Watched:
        """Return the one entry of a thread. Raises: ThreadNotFound."""

    # Each finder has entries of its own class.
    def snapshot(self, entry: Any, /) -> Snapshot:
        """Return what is published of a thread, from the store where it has no actor. Raises: ThreadNotFound."""


class Hub:
    """The subscriptions of one runtime; every method may be called by any worker, and none blocks but `load` and `close`.

    Attributes:
        store: where watchers that fell behind read.
        boot_id: what first frames carry.
        finder: the runtime's directory.
        watermark: how far the store-wide list of changes is published.
        closed: no further watcher is taken.
        is_followed: somebody has asked for the changes of all threads.
        orphaned: it is the copy in a forked child, where nobody publishes.
    """

    __slots__ = (
        "_bursts",
        "_ending_at",
        "_lock",
        "_watches",
        "boot_id",
        "closed",
        "finder",
        "is_followed",
        "orphaned",
        "store",
        "watermark",
    )

    def __init__(self, store: Store, boot_id: str, finder: Finder) -> None:
        self.store = store
        self.boot_id = boot_id
        self.finder = finder
        self.watermark = Watermark()
        self.closed = self.orphaned = False
        self.is_followed = False
        self._ending_at: int | None = None
        # Reentrant, like that of every watch, since a finaliser may end a subscription anywhere; never held around one.
        self._lock = threading.RLock()
        self._watches: set[Watch] = set()
        self._bursts: weakref.WeakValueDictionary[asyncio.AbstractEventLoop, WeakBurst] = weakref.WeakValueDictionary()

    def load(self) -> None:
        """Read where change numbers go on; blocks for one read. Before any commit: what earlier boots took is published."""
        with self.store.view() as view:
            self.watermark = Watermark(last_change(view))

    def published(
        self,
        entry: Watched,
        before: Snapshot | None,  # noqa: ARG002 - statuses follow from the events; see protocol/frames.py
        snapshot: Snapshot,
        events: list[JournalEvent],
        change: int = 0,
    ) -> None:
        """Take what a thread committed; only on its actor's worker, after `entry.snapshot` was swapped.

        Args:
            entry: the thread.
            before: what was published before; None for a new incarnation.
            snapshot: what is published now.
            events: what lies between, in order. May be left empty where nobody watches, and for what an earlier
                incarnation committed and did not live to publish: watchers then read the journal up to `snapshot`.
            change: the change number that the batch took, 0 for none.
        """
        if change:
            self.watermark.publish(change)
        watch = entry.watch
        if watch is not None:
            watch.publish(snapshot, events)

    def change_published(self, change: int) -> None:
        """Account for a number that no actor will publish, its own having crashed; else all later ones wait for it."""
        self.watermark.publish(change)
        self.watermark.wake()

    def flush(self, entry: Watched | None = None) -> None:
        """Wake who waits for what was published: the end of an act, after its replies were sent.

        Watchers of a thread that is gone by now end with this.
        """
        watch = entry.watch if entry is not None else None
        if watch is not None:
            if watch.entry.gone:
                watch.finish(Turn.DELETED)
            watch.wake()
        self.watermark.wake()

    def live(self, entry: Watched, frame: Mapping[str, object]) -> bool:
        """Show a frame that is stored nowhere to those who watch now, best effort, and wake them.

        Args:
            entry: the thread.
            frame: JSON data with a `type`, as `live_frame` checks it; never changed after this.

        Returns:
            Whether anybody watches.
        """
        watch = entry.watch
        if watch is None:
            return False
        watch.push_live(frame if isinstance(frame, Frame) else Frame(frame))
        watch.wake()
        return True

    def events(self, thread_id: str, after: str | Cursor | None = None) -> EventSubscription:
        """Return the committed events of a thread after a cursor, from the beginning of the journal without one."""
        return EventSubscription(self, thread_id, after)

    def stream(self, thread_id: str, after: str | Cursor | None = None) -> StreamSubscription:
        """Return the frames of a thread: its snapshot, then what was committed after a cursor, or from now on."""
        return StreamSubscription(self, thread_id, after)

    def changes(self, after: int | str | None = None) -> ChangeSubscription:
        """Return the status changes of all threads after a change number, each thread's latest without one."""
        self.is_followed = True
        return ChangeSubscription(self, after)

    def pending(self, snapshot: Snapshot) -> list[dict[str, object]]:
        """Return the requests that were open at a snapshot's cursor, oldest first; blocks for one read if there are any.

        Only the live execution's can be answered: those of a lost one are abandoned when it is settled.
        """
        if not snapshot.pending or snapshot.active is None:
            return []
        with self.store.view() as view:
            return pending_requests(view, snapshot)

    def check_open(self) -> None:
        """Raises: RuntimeClosed: no subscription begins any more; those that have begun end by themselves."""
        if self.closed:
            raise RuntimeClosed("the runtime is closed; a subscription begins while it is open")

    def attach(self, entry: Watched) -> Watch:
        """Return a thread's watch for one more reader, made where there is none. Raises: RuntimeClosed."""
        with self._lock:
            self.check_open()
            watch = entry.watch
            if watch is None:
                watch = entry.watch = Watch(entry)
                self._watches.add(watch)
            watch.readers += 1
            return watch

    def detach(self, watch: Watch) -> None:
        """Let one reader go; the last one takes the watch along."""
        with self._lock:
            watch.readers -= 1
            if watch.readers == 0:
                watch.entry.watch = None
                self._watches.discard(watch)

    def burst(self, loop: asyncio.AbstractEventLoop) -> Burst:
        """Return the way to wake readers on a loop: the runtime's own where it has one. Keep it while in use."""
        found = burst_for(loop)
        if found is not None:
            return found
        with self._lock:
            made = self._bursts.get(loop)
            if made is None:
                made = self._bursts[loop] = WeakBurst(loop)
            return made

    def counts(self) -> dict[str, int]:
        """Count watched threads, their readers, and changes that wait for an earlier one to be published."""
        watches = self._watches.copy()
        readers = sum(watch.readers for watch in watches)
        return {"watched": len(watches), "readers": readers, "changes_waiting": self.watermark.missing()}

    def begin_end(self) -> None:
        """Note that executions are being ended: what changes from now on is shown to all who follow changes."""
        self._ending_at = self.watermark.number

    def orphan(self) -> None:
        """End every subscription where it stands, in a forked child; another worker may have held the lock at the fork."""
        self.closed = self.orphaned = True
        self._lock = threading.RLock()

    def close(self) -> None:
        """End every subscription once it has delivered what was published. Idempotent; before the store is closed.

        Blocks for one read where changes were followed: their readers find the last ones also once the store is closed.
        """
        if self.is_followed and not self.closed:
            self._keep_changes()
        with self._lock:
            self.closed = True
            watches = self._watches.copy()
        for watch in watches:
            watch.finish(Turn.CLOSED)
            watch.wake()
        self.watermark.close()
        self.watermark.wake()

    def _keep_changes(self) -> None:
        through = self.watermark.number
        begun = through if self._ending_at is None else self._ending_at
        try:
            with self.store.view() as view:
                # A page more, for readers that were not quite there.
                after, kept = latest_changes(view, max(0, begun - JOURNAL_PAGE), through, _CHANGES_KEPT)
        except TreadleError as error:
            # Then readers that are behind end incomplete, and go on after the next open.
            logger.info("The last changes cannot be shown: %s", error, extra={"code": error.code})
            return
        self.watermark.keep(after, kept, through)
