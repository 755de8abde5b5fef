"""Owns who is who: thread id, number, mailbox, actor. Activates on first mail, passivates when idle. Judges no mail.

Threads are virtual: an entry exists while anybody uses it, an actor while it has something to do or was used lately.
The mailbox belongs to the entry and outlives its actors, so a sender never meets a dead one.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from itertools import islice
from typing import TYPE_CHECKING

from ..protocol.errors import ThreadNotFound, ThreadQuarantined
from ..storage.reading import read_thread, thread_number
from ..storage.tables import Table
from .mailbox import Mail, Mailbox
from .snapshot import Shown, Snapshot, at_rest

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..protocol.executions import ExecutionRecord
    from .reply import Reply
    from .services import Services
    from .thread import ThreadActor
    from .watch import Watch

__all__ = ["Directory", "Entry"]

_LEAVING_MAX = 4  # passivated at once beyond the cap: more than one, so that it is reached again after some were in use

_MOMENT_S = 1.0  # by which the place of an idle actor may be wrong; where idle ones leave sooner, a tenth of that time


class Entry:
    """One thread as this process knows it.

    Attributes:
        number: its number in the store.
        mailbox: where its mail goes.
        actor: the present incarnation, None while none is needed.
        shown: what `snapshot` is made of.
        watch: the frames kept for watchers, while there are any.
        waiters: replies that wait for an execution (`e`, id) or an input (`i`, id) to end.
        gone: it was deleted.
    """

    __slots__ = (
        "__weakref__",
        "actor",
        "gone",
        "mailbox",
        "number",
        "quarantine",
        "shown",
        "thread_id",
        "waiters",
        "watch",
    )

    def __init__(self, thread_id: str, number: int) -> None:
        self.thread_id = thread_id
        self.number = number
        self.mailbox: Mailbox
        self.actor: ThreadActor | None = None
        self.shown: Shown | Snapshot | None = None
        self.watch: Watch | None = None
        self.waiters: dict[tuple[str, str], list[Reply[ExecutionRecord]]] | None = None
        self.quarantine: ThreadQuarantined | None = None
        self.gone = False

    @property
    def snapshot(self) -> Snapshot | None:
        """What the actor published last; None while there is no actor: the store's record is the truth then."""
        shown = self.shown
        return shown.snapshot() if shown.__class__ is Shown else shown  # type: ignore[return-value]

    @snapshot.setter
    def snapshot(self, snapshot: Snapshot | None) -> None:
        self.shown = snapshot


class Directory:
    """All entries of a runtime; every method may be called by any worker."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._lock = threading.RLock()
        self._entries: weakref.WeakValueDictionary[str, Entry] = weakref.WeakValueDictionary()
        self._resident: dict[str, Entry] = {}
        # Idle actors, longest idle first; only these count against the cap.
        self._idle: OrderedDict[str, tuple[Entry, float]] = OrderedDict()
        self._moment = min(_MOMENT_S, services.options.idle_after / 10)
        self._pinned: dict[str, Entry] = {}
        self._life = 0
        self._next_number = 0
        self._creating: set[str] = set()

    def load(self) -> None:
        """Read where thread numbers go on; blocks for one read."""
        with self._services.store.view() as view:
            last = view.scan(Table.THREADS, b"", None, reverse=True, limit=1)
            deleted = view.get(Table.META, b"numbers")
        self._next_number = max(int.from_bytes(last[0][0], "big") if last else 0, int.from_bytes(deleted or b"", "big"))

    def take_number(self) -> int:
        """Return a thread number that no thread has."""
        with self._lock:
            self._next_number += 1
            return self._next_number

    def next_life(self) -> int:
        """Return the next incarnation's counter."""
        with self._lock:
            self._life += 1
            return self._life

    def entry(self, thread_id: str) -> Entry:
        """Return a thread's entry; blocks for one read where the thread is not in use.

        Raises:
            ThreadNotFound: it was never created, or was deleted.
        """
        found = self._entries.get(thread_id)
        if found is None:
            with self._services.store.view() as view:
                number = thread_number(view, thread_id)
            if not number:
                raise not_found(thread_id)
            found = self.enter(thread_id, number)
        if found.gone:
            raise not_found(thread_id)
        return found

    def enter(self, thread_id: str, number: int) -> Entry:
        """Return the one entry of a stored thread, made where there is none."""
        with self._lock:
            found = self._entries.get(thread_id)
            if found is None:
                found = Entry(thread_id, number)
                # The mailbox holds the entry through its activation, so mail on its way keeps the entry alive.
                found.mailbox = Mailbox(thread_id, self._services.dispatcher, self._activation(found))
                self._entries[thread_id] = found
            return found

    def _activation(self, entry: Entry) -> Callable[[Mailbox], Callable[[Mail], object] | None]:
        def activate(_mailbox: Mailbox) -> Callable[[Mail], object] | None:
            return self._services.supervisor.activate(entry)

        return activate

    def known(self, thread_id: str) -> Entry | None:
        """Return the entry of a thread in use, None where nobody uses it; never blocks."""
        return self._entries.get(thread_id)

    def pin(self, entry: Entry) -> None:
        """Keep an entry for the life of the runtime: it says something that the store does not."""
        with self._lock:
            self._pinned[entry.thread_id] = entry

    def orphan(self) -> None:
        """Have a free lock, in a forked child: another worker may have held it at the fork."""
        self._lock = threading.RLock()

    def reserve(self, thread_id: str) -> bool:
        """Claim an id for a creation under way; False where another creation holds it."""
        with self._lock:
            if thread_id in self._creating:
                return False
            self._creating.add(thread_id)
            return True

    def settle_reservation(self, thread_id: str) -> None:
        """Give an id's claim up, once its creation is answered."""
        with self._lock:
            self._creating.discard(thread_id)

    def resident(self, entry: Entry, actor: ThreadActor) -> None:
        """Note an entry's new actor; only on a dispatcher worker."""
        with self._lock:
            entry.actor = actor
            self._resident[entry.thread_id] = entry
            self._idle.pop(entry.thread_id, None)

    def dropped(self, entry: Entry) -> None:
        """Note that an entry's actor is gone: passivated or crashed."""
        with self._lock:
            entry.actor = None
            self._resident.pop(entry.thread_id, None)
            self._idle.pop(entry.thread_id, None)

    def idle(self, entry: Entry) -> None:
        """Note that an actor has nothing to do since now; beyond the cap the longest idle ones are passivated."""
        now = self._services.clock.monotonic()
        noted = self._idle.get(entry.thread_id)
        if (
            noted is not None
            and now - noted[1] < self._moment
            and 2 * len(self._idle) < self._services.options.resident_max
        ):
            return  # a busy thread rests after each execution; far from the cap its place may be wrong by a moment
        with self._lock:
            self._idle[entry.thread_id] = (entry, now)
            self._idle.move_to_end(entry.thread_id)
            over = len(self._idle) - self._services.options.resident_max
            oldest = [old for old, _ in islice(self._idle.values(), min(over, _LEAVING_MAX))] if over > 0 else ()
        for old in oldest:
            if not self.passivate(old):
                # It has got mail meanwhile. At the head it would be tried again and again, and the others stay.
                with self._lock:
                    if old.thread_id in self._idle:
                        self._idle[old.thread_id] = (old, now)
                        self._idle.move_to_end(old.thread_id)

    def passivate_idle(self) -> int:
        """Passivate what has been idle long enough; called by the sweep. Returns how many."""
        horizon = self._services.clock.monotonic() - self._services.options.idle_after
        due = []
        with self._lock:
            for entry, since in self._idle.values():
                if since > horizon:
                    break
                due.append(entry)
        return sum(map(self.passivate, due))

    def passivate(self, entry: Entry) -> bool:
        """Let an entry's actor go, if it is at rest, has nothing in flight and no mail; in one step with the mailbox."""
        actor = entry.actor
        return actor is not None and entry.mailbox.detach_if(lambda: actor.is_free() and self._let_go(entry))

    def _let_go(self, entry: Entry) -> bool:
        # Under the mailbox's lock, so that the next incarnation cannot publish before this one's view is gone.
        if self._services.verifier is not None and entry.actor is not None and not entry.gone:
            self._services.verifier.dropped(entry.number, entry.actor.state.facts)
        entry.snapshot = None
        actor = entry.actor
        self.dropped(entry)
        if actor is not None:
            actor.acting.retire()
        return True

    def entries(self) -> list[Entry]:
        """Return the entries that have an actor."""
        with self._lock:
            return list(self._resident.values())

    def known_entries(self) -> list[Entry]:
        """Return every entry in use."""
        with self._lock:
            return list(self._entries.values())

    def mailboxes(self) -> list[Mailbox]:
        """Return every mailbox in use, for the sweep."""
        with self._lock:
            return [entry.mailbox for entry in self._entries.values()]

    def counts(self) -> dict[str, int]:
        """Count entries in use, actors, and idle actors."""
        with self._lock:
            return {"entries": len(self._entries), "actors": len(self._resident), "idle": len(self._idle)}

    def snapshot(self, entry: Entry) -> Snapshot:
        """Return what is published of a thread; blocks for one read where it has no actor.

        Raises:
            ThreadNotFound: it was deleted.
        """
        while True:
            published = entry.snapshot
            if published is not None:
                return published
            with self._services.store.view() as view:
                found = read_thread(view, entry.number)
            # An actor that came up meanwhile may have written what it has not published: then its word counts.
            if entry.snapshot is None and entry.actor is None:
                if found is None or entry.gone:
                    raise not_found(entry.thread_id)
                return at_rest(entry.number, found[1])


def not_found(thread_id: str) -> ThreadNotFound:
    """Return the error of an id that no thread has."""
    return ThreadNotFound(f"no thread {thread_id!r}", thread_id=thread_id)
