"""Owns the subscription to the whole store: each changed thread's latest status. Never reads beyond what is published.

A reader behind sees a thread that changed many times once. Every change of one thread is its own stream's matter.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from ..protocol.errors import CursorConflict, InvalidInput, StoreClosed, shorten
from ..protocol.frames import Frame, change_frame, closed_frame
from ..protocol.limits import JOURNAL_PAGE
from ..storage.changes import Change, read_changes
from .feed import Feed, Pause

if TYPE_CHECKING:
    from .hub import Hub
    from .wakeups import Wakeups

__all__ = ["ChangeSubscription"]

_NUMBER_MAX = 2**63 - 1


class ChangeSubscription(Feed[Frame]):
    """The threads that changed status, were created or deleted since a change number; its last frame is `closed`.

    `latest` is the number at the call. Nothing is read before the first item is asked for: then a malformed number is
    `InvalidInput`, one that was never published `CursorConflict`, a closed runtime `RuntimeClosed`.
    """

    __slots__ = ("_after", "_page", "_reached", "_started", "_version")

    def __init__(self, hub: Hub, after: int | str | None) -> None:
        super().__init__(hub)
        # Now, and not at the first read: what the caller does in between comes after the call, and must be shown.
        self._after = hub.watermark.number if isinstance(after, str) and after == "latest" else after
        self._started = False
        self._page: deque[Change] = deque()
        self._reached = 0  # behind the page
        self._version = 0

    @property
    def cursor(self) -> int | str | None:
        """The change number to resume after: of the last frame delivered, else where it began."""
        return self._after

    def owner(self, thread_id: str) -> str | None:
        """Return whom a thread belongs to, None where nobody; blocks for one read at most, and is told while a runtime closes, too.

        Raises: ThreadNotFound, StoreClosed.
        """
        finder = self._hub.finder
        return finder.snapshot(finder.entry(thread_id)).user_id

    def _step(self) -> Frame | Pause:
        if self._closed:
            return Pause.END
        changes = self._hub.watermark
        if not self._started:
            self._hub.check_open()
            self._reached = self._begin_after(changes.number)
            self._started = True
        if self._hub.orphaned:
            return self._last_frame(complete=False)
        while True:
            if self._page:
                change = self._page.popleft()
                self._after = change.number
                return change_frame(
                    change.thread_id, change.cursor, change.status, change.number, deleted=change.deleted
                )
            # The version first: a number that comes after this look has a newer one.
            self._version, closed, through = changes.version, changes.closed, changes.number
            if self._reached < through:
                try:
                    with self._hub.store.view() as view:
                        page, self._reached = read_changes(view, self._reached, through, JOURNAL_PAGE)
                except StoreClosed:
                    if not closed:
                        raise
                    kept = changes.kept(self._reached, through, JOURNAL_PAGE)
                    if kept is None:
                        return self._last_frame(complete=False)
                    page = list(kept)
                    self._reached = page[-1].number if len(page) == JOURNAL_PAGE else through
                self._page.extend(page)
            elif closed:
                return self._last_frame(complete=True)
            else:
                return Pause.WAIT

    def _last_frame(self, *, complete: bool) -> Frame:
        self._closed = True
        return closed_frame(complete=complete)

    def _source(self) -> tuple[Wakeups, int]:
        return self._hub.watermark, self._version

    def _leave(self) -> None:
        """Nobody counts these readers."""

    def _forget(self) -> None:
        super()._forget()
        self._page.clear()

    def _begin_after(self, published: int) -> int:
        given = self._after
        number = -1
        if given is None:
            number = 0
        elif type(given) is int:
            number = given
        elif isinstance(given, str) and given.isascii() and given.isdigit() and len(given) <= 19:
            number = int(given)
        if not 0 <= number <= _NUMBER_MAX:
            raise InvalidInput(
                f"a change number is a whole number >= 0, or latest, not {shorten(given)}",
                code="invalid_cursor",
                value=shorten(given),
            )
        if number > published:
            raise CursorConflict(
                f"change {number} was never published here; the last one is {published}", cursor=number, head=published
            )
        return number
