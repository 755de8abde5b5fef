"""Owns what a runtime says of itself: whether it can take and finish work, and how much it did. Changes nothing.

What is counted on the way to a reply is one addition; sums are made when somebody asks.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from ..protocol.errors import StorageFull
from ..protocol.limits import DISPATCHER_SILENT_S, LOOP_SILENT_S, STORAGE_FULL_S
from .snapshot import Shown

if TYPE_CHECKING:
    from ..storage.store import StoreCounts
    from .services import Services

__all__ = ["Counts", "counts", "readiness"]

_NAMED_MAX = 10  # threads that a reason names


class Counts(NamedTuple):
    """What a runtime has done since it was opened, and has at hand.

    Attributes:
        ended: executions by outcome: `succeeded`, `cancelled`, `failed`, and `lost` for those settled without an end.
        active: executions whose body is out.
        mail: mail that waits in mailboxes, or for the batch in flight.
        waiting: inputs of threads in use that have not joined history.
        blocked: threads whose last commit the store refuses.
        actors, idle: threads with an actor, and those of them that rest.
        workers: of the pool, by what they do; `waiting` are bodies in line for one.
        watched, readers: threads that are watched, and their watchers.
        store: what it wrote.
    """

    ended: dict[str, int]
    active: int
    mail: int
    waiting: int
    blocked: int
    actors: int
    idle: int
    workers: dict[str, int]
    watched: int
    readers: int
    store: StoreCounts


def readiness(services: Services) -> list[str]:
    """Return why the runtime cannot take and finish work, one reason each; empty where it can. Never blocks."""
    reasons = []
    failure = services.store.failure()
    if failure is not None:
        reasons.append(failure.code)
    elif (full_at := services.store.counts().full_at) is not None and time.monotonic() - full_at < STORAGE_FULL_S:
        # For a while: a server that gets no work writes nothing, and else would never learn that there is room again.
        reasons.append(StorageFull.code)
    closed = services.loop.loop.is_closed()
    if closed or services.loop.silent_for() > LOOP_SILENT_S:
        reasons.append("loop_closed" if closed else "loop_silent")
    # Asked for here as well: what sweeps may be as stuck as what it looks at.
    services.dispatcher.ping()
    if services.dispatcher.silent_for() > DISPATCHER_SILENT_S:
        reasons.append("dispatcher_silent")
    blocked = sorted(
        entry.thread_id
        for entry in services.directory.entries()
        if (shown := entry.shown) is not None and shown.blocked is not None
    )
    if blocked:
        reasons.append(f"blocked: {', '.join(blocked[:_NAMED_MAX])}")
    return reasons


def counts(services: Services) -> Counts:
    """Count; any worker, costs a look at every thread in use."""
    mail = waiting = blocked = 0
    for entry in services.directory.known_entries():
        mail += len(entry.mailbox)
        actor, shown = entry.actor, entry.shown
        if actor is not None:
            mail += actor.mail_waiting
        if shown is not None:
            blocked += shown.blocked is not None
            snapshot = shown.snapshot() if isinstance(shown, Shown) else shown
            waiting += snapshot.waiting
    residents, watchers = services.directory.counts(), services.hub.counts()
    return Counts(
        dict(services.ended), len(services.running), mail, waiting, blocked, residents["actors"], residents["idle"],
        services.pool.counts(), watchers["watched"], watchers["readers"], services.store.counts(),
    )  # fmt: skip
