"""Owns what an execution may have beside its body. Guards nothing: the execution's lock does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from .asking import Requests
    from .calling import Calls
    from .reply import Reply
    from .waits import BodyWait

__all__ = ["Beside"]


class Beside:
    """Made with the first thing in it, since most executions have nothing.

    Attributes:
        calls: the functions that workers run for the body; `requests` likewise those that it waits on.
        guard: of the blocking waits of plain functions.
        on_withdrawn: says how the body ended, where it was taken out of the line for a worker.
        owned: what is closed before FINISH, last first.
        stopped: no further pass begins; `stop_reason` is the stop code of the end, `limit` that of a limit met besides.
        told: the body's task has met its interruption: it must not be cancelled in its clean-up.
        waits: which an interrupt ends.
    """

    __slots__ = (
        "calls",
        "guard",
        "limit",
        "on_withdrawn",
        "owned",
        "requests",
        "stop_reason",
        "stopped",
        "told",
        "waits",
    )

    def __init__(self) -> None:
        self.calls: Calls | None = None
        self.guard: BodyWait | None = None
        self.on_withdrawn: Callable[[], object] | None = None
        self.owned: list[object] = []
        self.requests: Requests | None = None
        self.stop_reason: str | None = None
        self.limit: str | None = None
        self.stopped = False
        self.told = False
        self.waits: set[Reply[Any]] = set()

    def forget(self) -> None:
        """Drop what refers back to the execution."""
        self.calls = self.guard = self.on_withdrawn = self.requests = None
