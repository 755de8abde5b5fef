"""Owns the list of threads: pages by creation, by activity, by user. Wakes no actor.

A page costs the page, and what its filters pass over; a user's threads by activity cost the threads of that user, and
running threads cost those with work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from ..protocol.errors import CorruptRecord, InvalidInput, shorten
from ..protocol.facts import Facts
from ..protocol.ids import check_id
from ..protocol.limits import PAGE_DEFAULT, PAGE_MAX
from ..storage.codec import decode_facts
from ..storage.encoding import WORK_RUNNING
from ..storage.head import HEAD_SIZE, unpack_head
from ..storage.keys import numbered, prefix_end, user_key_prefix
from ..storage.tables import Table
from .directory import not_found
from .reads import check_number
from .snapshot import Snapshot, at_rest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..protocol.status import RunState, ThreadStatus
    from ..storage.store import Store, View
    from .directory import Entry
    from .services import Services

__all__ = ["ThreadPage", "ThreadSummary", "list_threads", "summarise"]

_SCAN = 256


class ThreadSummary(NamedTuple):
    """A thread in a list; times in microseconds."""

    id: str
    agent_id: str
    user_id: str | None
    created_at: int
    status: ThreadStatus
    held: bool
    terminated_at: int | None
    messages: int


class ThreadPage(NamedTuple):
    """A page of threads.

    Attributes:
        next: what to give as `after` for the following page, None at the end.
        unreadable: threads on the way whose record does not decode, by number, with the error: left out of the page.
    """

    threads: list[ThreadSummary]
    next: str | None
    unreadable: dict[int, str]


def list_threads(
    services: Services, *, user_id: object = None, agent: object = None, state: object = None,
    order: Literal["created", "activity"] = "created", limit: object = PAGE_DEFAULT, after: object = None,
) -> ThreadPage:  # fmt: skip
    """Return a page of threads that pass the filters.

    Args:
        user_id, agent, state: filters; None lets all through.
        order: `created`, oldest first, or `activity`, the latest change of status first.
        limit: at most this many.
        after: `next` of the page before.
    """
    count = check_number("limit", limit, 1, PAGE_MAX)
    if state not in (None, "idle", "running", "failed"):
        raise InvalidInput(
            f"state is idle, running or failed, not {shorten(state)}", code="invalid_page", value=shorten(state)
        )
    if order not in ("created", "activity"):
        raise InvalidInput(
            f"order is created or activity, not {shorten(order)}", code="invalid_page", value=shorten(order)
        )
    user = None if user_id is None else check_id("user_id", user_id)
    start = _cursor(after)
    found: list[ThreadSummary] = []
    unreadable: dict[int, str] = {}
    ranked = None
    if state == "running":
        ranked = _rank_running(services, order, start, unreadable)
    elif user is not None and order == "activity":
        ranked = _rank(services.store, user, start, unreadable)
    while True:
        with services.store.view() as view:
            rows = _rows(view, user, order, start) if ranked is None else _take(ranked)
            for place, number in rows:
                start = place
                try:
                    summary = _summary(services, view, number)
                except CorruptRecord as error:
                    unreadable[number] = str(error)  # one damaged thread must not hide all others
                    continue
                if summary is not None and _passes(summary, user, agent, state):
                    found.append(summary)
                    if len(found) == count:
                        return ThreadPage(found, str(place), unreadable)
        if len(rows) < _SCAN:
            return ThreadPage(found, None, unreadable)


def _cursor(after: object) -> int | None:
    if after is None:
        return None
    if isinstance(after, str) and after.isascii() and after.isdigit() and len(after) <= 19:
        return int(after)
    raise InvalidInput(
        f"after is what a page gave as next, not {shorten(after)}", code="invalid_cursor", value=shorten(after)
    )


def _rows(view: View, user: str | None, order: str, start: int | None) -> list[tuple[int, int]]:
    """Return up to a page of (place, thread number) behind a place."""
    if order == "activity":
        high = None if start is None else numbered(start)
        rows = view.scan(Table.CHANGES, b"", high, reverse=True, limit=_SCAN)
        return [(int.from_bytes(key, "big"), int.from_bytes(value[:8], "big")) for key, value in rows]
    if user is not None:
        prefix = user_key_prefix(user)
        low = prefix if start is None else prefix + numbered(start + 1)
        rows = view.scan(Table.USERS, low, prefix_end(prefix), limit=_SCAN)
        return [(int.from_bytes(key[-8:], "big"),) * 2 for key, _ in rows]
    rows = view.scan(Table.THREADS, b"" if start is None else numbered(start + 1), None, limit=_SCAN)
    return [(int.from_bytes(key, "big"),) * 2 for key, _ in rows]


def _rank(store: Store, user: str, start: int | None, unreadable: dict[int, str]) -> list[tuple[int, int]]:
    """Return (place, thread number) of all threads of a user behind a place in the order of activity, the last first.

    Each thread's head has its place in that order. Walking the order itself would meet everybody's threads.
    """
    places: list[tuple[int, int]] = []
    after: int | None = None
    while True:
        with store.view() as view:
            rows = _rows(view, user, "created", after)
            places += _by_activity(view, (number for _, number in rows), start, unreadable)
        if len(rows) < _SCAN:
            places.sort()
            return places
        after = rows[-1][0]


def _by_activity(
    view: View, numbers: Iterable[int], start: int | None, unreadable: dict[int, str]
) -> list[tuple[int, int]]:
    places: list[tuple[int, int]] = []
    for number in numbers:
        key = numbered(number)
        row = view.get(Table.THREADS, key)
        if row is None:
            continue
        try:
            change = unpack_head(row, key).change
        except CorruptRecord as error:
            unreadable[number] = str(error)
            continue
        if start is None or change < start:
            places.append((change, number))
    return places


def _rank_running(
    services: Services, order: str, start: int | None, unreadable: dict[int, str]
) -> list[tuple[int, int]]:
    """Return (place, thread number) of all threads behind a place that may show as running, the first one last."""
    # By the index of work. An end that is stored and not published is there no more, and its thread still shows as running.
    numbers = {live.entry.number for live in list(services.running.values())}
    low = b""
    while True:
        with services.store.view() as view:
            rows = view.scan(Table.WORK, low, None, limit=_SCAN)
        numbers.update(int.from_bytes(key, "big") for key, kind in rows if kind == WORK_RUNNING)
        if len(rows) < _SCAN:
            break
        low = numbered(int.from_bytes(rows[-1][0], "big") + 1)
    if order == "created":
        return sorted(((number, number) for number in numbers if start is None or number > start), reverse=True)
    places: list[tuple[int, int]] = []
    left = sorted(numbers)
    while left:
        with services.store.view() as view:
            places += _by_activity(view, left[-_SCAN:], start, unreadable)
        del left[-_SCAN:]
    return sorted(places)


def _take(ranked: list[tuple[int, int]]) -> list[tuple[int, int]]:
    taken = ranked[: -_SCAN - 1 : -1]
    del ranked[-_SCAN:]
    return taken


def _summary(services: Services, view: View, number: int) -> ThreadSummary | None:
    key = numbered(number)
    row = view.get(Table.THREADS, key)
    if row is None or len(row) == HEAD_SIZE:
        return None  # deleted: the head alone is left
    facts = decode_facts(row[HEAD_SIZE:], key)
    if view.get(Table.NAMES, facts.thread_id.encode()) == b"":
        return None
    entry = services.directory.known(facts.thread_id)
    shown = entry.snapshot if entry is not None else None
    return _summarise(shown or at_rest(number, facts), facts)


def summarise(services: Services, entry: Entry) -> ThreadSummary:
    """Return one thread as a list shows it; blocks for one read."""
    with services.store.view() as view:
        summary = _summary(services, view, entry.number)
    if summary is None:
        raise not_found(entry.thread_id)
    return summary


def _summarise(shown: Snapshot, facts: Facts) -> ThreadSummary:
    return ThreadSummary(
        shown.thread_id, shown.agent_id, shown.user_id, shown.created_at, shown.status, shown.held, shown.terminated_at,
        sum(facts.counts.values()),
    )  # fmt: skip


def _passes(summary: ThreadSummary, user: str | None, agent: object, state: RunState | object) -> bool:
    return (
        (user is None or summary.user_id == user)
        and (agent is None or summary.agent_id == getattr(agent, "name", agent))
        and (state is None or summary.status.state == state)
    )
