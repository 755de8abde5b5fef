"""Owns what a follower of a stream knows between its connections: the cursor, what it waits for, how often it failed.

Every committed event comes out once and in order, however often the connection is cut. Sends nothing, waits for nothing.
"""

from __future__ import annotations

import json
import random
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from ..protocol.cursors import Cursor
from ..protocol.errors import (
    CallerError,
    CursorConflict,
    InternalError,
    InvalidInput,
    TreadleError,
    Unavailable,
    shorten,
)
from ..protocol.limits import SECONDS_MAX
from ..protocol.values import JsonObject
from .client_errors import error_of
from .client_sse import SseEvent, SseReader
from .given import check_callable, check_is, wrong

__all__ = ["RECONNECTS", "REPEATS", "Backoff", "ChangeFollowing", "EventFollowing", "Following", "checked"]


class Backoff(NamedTuple):
    """How a client goes about a server that is away (contract A.11: 250 ms doubling to 5 s).

    Attributes:
        first: seconds before the first further attempt; each one after it waits twice as long.
        most: seconds that it never waits longer than.
        attempts: how often in a row it may fail before the error comes out; None: as often as it takes.
        chance: a number from 0 to 1; what is waited is between half and all of it, so that a thousand clients of a
            server that comes back do not come back at once.
    """

    first: float = 0.25
    most: float = 5.0
    attempts: int | None = 10
    chance: Callable[[], float] = random.random

    def delay(self, failed: int, *, at_least: float = 0.0) -> float:
        """Return the seconds to wait after this many failures in a row, the server's own wish included."""
        # 2**60 quarter seconds are for ever already; beyond it a float overflows.
        full = min(self.most, self.first * 2.0 ** min(failed - 1, 60))
        return max(at_least, full * (0.5 + 0.5 * self.chance()))

    def over(self, failed: int) -> bool:
        """Say whether this many failures in a row are too many."""
        return self.attempts is not None and failed >= self.attempts


REPEATS: Final = Backoff(attempts=3)
RECONNECTS: Final = Backoff(attempts=20)


def checked(name: str, backoff: Backoff) -> Backoff:
    """Return what a client was given as a `Backoff`. Raises: InvalidInput: `invalid_option`; it is none, or none to use."""
    first, most, attempts, chance = check_is(name, backoff, Backoff, "a Backoff(attempts=...)")
    for part, seconds in (("first", first), ("most", most)):
        if type(seconds) not in {int, float} or not 0 <= seconds <= SECONDS_MAX:
            raise wrong(f"{name}.{part}", "seconds, at least 0", seconds)
    if attempts is not None and (type(attempts) is not int or attempts < 1):
        raise wrong(f"{name}.attempts", "a whole number of at least 1, or None", attempts)
    check_callable(f"{name}.chance", chance, "called for a number from 0 to 1")
    return backoff


class Following(ABC):
    """One stream, over all of its connections; one worker at a time."""

    __slots__ = ("_backoff", "_events", "_failed", "_follow", "_live", "_reader", "ended")

    def __init__(self, backoff: Backoff, *, follow: bool, live: bool) -> None:
        self._backoff = backoff
        self._follow = follow
        self._live = live
        self._failed = 0
        self._reader = SseReader()
        self._events: deque[SseEvent] = deque()
        self.ended = False

    @abstractmethod
    def after(self) -> str | None:
        """Return what to ask the next connection for: where the last item that came out stands."""

    def query(self) -> dict[str, str]:
        """Return the query of the next connection."""
        after = self.after()
        return {**({} if after is None else {"after": after}), **({"live": "true"} if self._live else {})}

    def connected(self) -> None:
        """Begin a connection; what the one before had not brought to its end is dropped."""
        self._reader = SseReader()
        self._events.clear()

    def feed(self, chunk: bytes) -> None:
        """Take bytes of this connection; `take` until it returns None before the next ones."""
        self._events.extend(self._reader.feed(chunk))

    def take(self) -> JsonObject | None:
        """Return the next item; None once more bytes are needed, or this is over (`ended`).

        Raises:
            CursorConflict: the journal goes on in another generation.
            Unavailable: this connection is no good; count it as failed, and connect again.
        """
        while self._events and not self.ended:
            event = self._events.popleft()
            frame = _frame(event)
            if event.id is None:
                if self._control(event.event, frame):
                    return frame
            elif self._advance(event.id):
                self._failed = 0
                self._look_for_end()
                return frame
        return None

    def failed(self, error: TreadleError, *, at_least: float = 0.0) -> float:
        """Count a connection that failed or was cut, and return the seconds to wait before the next.

        Args:
            error: why.
            at_least: seconds that the server asked for.

        Raises:
            TreadleError: `error` itself, where another attempt cannot mend it, or there were too many.
        """
        self._failed += 1
        if not isinstance(error, Unavailable) or self._backoff.over(self._failed):
            raise error
        return self._backoff.delay(self._failed, at_least=at_least)

    def _control(self, event: str, frame: JsonObject) -> bool:
        """Do what a frame without an id asks for; return whether it is an item all the same."""
        kind = frame.get("type")
        if event == "snapshot":
            # It is an answer: what was counted until now was another outage.
            self._failed = 0
            self._opened(frame)
            self._look_for_end()
        elif kind == "thread_deleted" or (kind == "closed" and not self._follow):
            self.ended = True
        elif kind == "closed":
            # The server goes; the same store may well come back under the same address.
            raise Unavailable("the server closed the stream")
        elif kind == "stream_failed":
            raise _failure(frame)
        else:
            return self._live and kind != "thread_status"
        return False

    def _look_for_end(self) -> None:
        self.ended = not self._follow and self._reached_head()

    @abstractmethod
    def _advance(self, given: str) -> bool:
        """Move on to an item's id; False where it came out before."""

    @abstractmethod
    def _opened(self, frame: JsonObject) -> None:
        """Note what the first frame of a connection says."""

    @abstractmethod
    def _reached_head(self) -> bool:
        """Say whether all that there was at the beginning has come out."""


class EventFollowing(Following):
    """The committed events of a thread, contiguous."""

    __slots__ = ("cursor", "head")

    def __init__(self, after: str | Cursor | None, backoff: Backoff, *, follow: bool, live: bool = False) -> None:
        super().__init__(backoff, follow=follow, live=live)
        self.cursor = None if after is None else Cursor.parse(after)
        self.head: Cursor | None = None

    def after(self) -> str | None:
        """Return the cursor of the last event that came out, None for the beginning."""
        return None if self.cursor is None else str(self.cursor)

    def _advance(self, given: str) -> bool:
        cursor, last = _cursor(given), self.cursor
        if last is None:
            last = Cursor(cursor.generation, 0)
        if cursor.generation != last.generation:
            raise CursorConflict(
                f"the journal goes on in generation {cursor.generation}, behind {last}; begin from a snapshot",
                cursor=str(last),
                head=given,
            )
        if cursor.sequence > last.sequence + 1:
            raise Unavailable(f"event {given} came behind {last}: the stream has a hole", cursor=str(last))
        if cursor.sequence <= last.sequence:
            return False
        self.cursor = cursor
        return True

    def _opened(self, frame: JsonObject) -> None:
        # That of the first connection: one that ends at the head must not run after a busy thread for ever.
        if self.head is None and isinstance(frame.get("cursor"), str):
            self.head = _cursor(frame["cursor"])

    def _reached_head(self) -> bool:
        if self.head is None:
            return False
        return self.head.sequence == 0 or (self.cursor is not None and self.cursor >= self.head)


class ChangeFollowing(Following):
    """The latest status of every visible thread, by change number; numbers rise and have gaps."""

    __slots__ = ("cursor",)

    def __init__(self, after: int | str | None, backoff: Backoff) -> None:
        super().__init__(backoff, follow=True, live=False)
        self.cursor = None if after is None else _number(after)

    def after(self) -> str | None:
        """Return the number of the last change that came out, None for the beginning."""
        return None if self.cursor is None else str(self.cursor)

    def _advance(self, given: str) -> bool:
        try:
            number = _number(given)
        except CallerError as error:
            raise InternalError(f"the server sent no change number: {error}", change=shorten(given)) from error
        if self.cursor is not None and number <= self.cursor:
            return False
        self.cursor = number
        return True

    def _opened(self, frame: JsonObject) -> None:
        """Nothing in it is needed: the numbers say all."""

    def _reached_head(self) -> bool:
        return False


def _frame(event: SseEvent) -> JsonObject:
    try:
        frame = json.loads(event.data)
    except (ValueError, RecursionError):
        frame = None
    if not isinstance(frame, dict):
        raise InternalError(f"the server sent an event without JSON data: {shorten(event.data)}", event=event.event)
    return frame


def _failure(frame: JsonObject) -> TreadleError:
    """Return what the server could not go on for; whatever is not the caller's may be mended by another connection."""
    error = error_of(400, json.dumps(frame).encode())
    return error if isinstance(error, CursorConflict) else Unavailable(error.message, reason=error.code)


def _cursor(text: str) -> Cursor:
    try:
        return Cursor.parse(text)
    except CallerError as error:
        raise InternalError(f"the server sent no cursor: {error}", cursor=shorten(text)) from error


def _number(given: int | str) -> int:
    text = str(given)
    if type(given) is not bool and text.isascii() and text.isdigit() and len(text) <= 19:
        return int(text)
    raise InvalidInput(
        f"a change number is a whole number >= 0, not {shorten(given)}", code="invalid_cursor", value=shorten(given)
    )
