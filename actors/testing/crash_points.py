"""Owns the named places at which a test lets something crash, and the arming of one. Does nothing unless armed.

The writer of a store passes the first three, the actor of a thread all others. `committed` points are passed once the
store has confirmed the batch and before anything follows from it: nothing is shown, dispatched or answered yet.
"""

from __future__ import annotations

from typing import Final, Literal

from ...protocol.decision import Batch
from ...protocol.errors import InvalidInput, bad_option, shorten
from ...protocol.events import EVENT_TYPES
from ...protocol.lifecycle import committed
from ...storage.points import AFTER_COMMIT, BEFORE_COMMIT, BEFORE_PUT, arm, disarm
from ..reply import Reply
from ..thread import AFTER_CONFIRM, AFTER_REPLY, BETWEEN
from .probe import GUARD_S

__all__ = ["ACTOR_POINTS", "STORE_POINTS", "ArmedCrash", "Crash", "crash_after", "disarm"]

STORE_POINTS: Final = (BEFORE_PUT, BEFORE_COMMIT, AFTER_COMMIT)
ACTOR_POINTS: Final = (
    AFTER_CONFIRM,
    AFTER_REPLY,
    BETWEEN,
    *(committed(batch).kind.value for batch in Batch),
    *(f"{event.type} committed" for event in EVENT_TYPES.values()),
)


class Crash(Exception):
    """Raised on purpose at a crash point."""


class ArmedCrash:
    """A crash that waits for its point."""

    def __init__(self, point: str, nth: int) -> None:
        self.point = point
        self._nth = nth
        self._reached: Reply[None] = Reply()

    def reached(self) -> bool:
        """Say whether it has happened."""
        return self._reached.done()

    def wait(self, timeout: float = GUARD_S) -> None:
        """Block until it has happened.

        Raises:
            AssertionError: not within `timeout` real seconds.
        """
        try:
            self._reached.result(timeout)
        except TimeoutError:
            raise AssertionError(f"{self} was not reached within {timeout:g} s") from None

    def __repr__(self) -> str:
        return f"<crash at the {self._nth}. {self.point!r}>"

    def happen(self) -> None:
        """Raise on the worker that passed the point."""
        self._reached.set(None)
        raise Crash(f"on purpose, at {self.point!r}")


def crash_after(point: str, *, nth: int = 1, how: Literal["raise", "kill"] = "raise") -> ArmedCrash:
    """Have the next pass of a point crash whoever passes it.

    Args:
        point: one of `STORE_POINTS` or `ACTOR_POINTS`, `"START committed"` for example.
        nth: 1 for the next pass; at least that.
        how: `raise`: an actor crashes, and its thread is settled and goes on; a store's writer fails, and the store
            takes no more writes until it is opened again. `kill`: the process gets SIGKILL.

    Raises:
        InvalidInput: `invalid_option`; no such point, pass or way to crash. Nothing is armed.
    """
    if point not in STORE_POINTS and point not in ACTOR_POINTS:
        raise InvalidInput(
            f"no crash point {shorten(point)}; there are {', '.join([*STORE_POINTS, *ACTOR_POINTS])}",
            code="invalid_option",
            value=shorten(point),
        )
    if type(nth) is not int or nth < 1:
        raise bad_option("nth is a whole number of at least 1", nth)
    if how not in ("raise", "kill"):
        raise bad_option("how is 'raise' or 'kill'", how)
    crash = ArmedCrash(point, nth)
    arm(point, nth, crash.happen if how == "raise" else None)
    return crash
