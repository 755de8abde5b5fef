"""Owns the telling of waits that were given up: nobody has their reply any more, or it was set. Ends no other wait.

A time limit that runs out says nothing to the reply: whoever still has it may wait again. So what counts is who has it.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from .reply import Reply

if TYPE_CHECKING:
    from .wait_graph import WaitGraph, Waiting

__all__ = ["Leave", "is_given_up"]


class Leave:
    """Ends what was noted of an execution's wait: called with its reply, or where that was given up."""

    __slots__ = ("_wait", "_waits")

    def __init__(self, waits: WaitGraph, wait: Waiting) -> None:
        self._waits = waits
        self._wait = wait

    def __call__(self, _reply: object) -> None:
        """End it; twice does no harm."""
        self._waits.leave(self._wait)


def _references(reply: Reply[Any]) -> int:
    return sys.getrefcount(reply)


# Of a reply that its list alone has, in a function that is called by an iterator over that list: as the one below.
_ALONE = next(filter(None, map(_references, [Reply()])))


def is_given_up(reply: Reply[Any]) -> bool:
    """Say whether a wait is over before its end, and then end what was noted of it; to be called by an iterator alone.

    Never wrong about a reply that somebody has, or about one that has a callback to call: it is kept.
    """
    if sys.getrefcount(reply) > _ALONE or reply.done():
        return reply.done()
    told = reply._listeners()  # noqa: SLF001 - one noun, split for its length
    if any(one.__class__ is not Leave for one in told):
        return False
    for leave in told:
        leave(reply)
    return True
