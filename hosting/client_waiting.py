"""Owns one wait for an execution's end over as many calls as it takes. Sends nothing itself."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from ..protocol.errors import InvalidInput, shorten
from ..protocol.receipts import ControlReceipt, Receipt, followed
from . import client_routes as routes

if TYPE_CHECKING:
    from ..actors import ExecutionRecord
    from .client_calls import Call

__all__ = ["Waiting"]

_POLL_S: Final = 20.0  # of one call: a connection that died meanwhile is noticed by the next


class Waiting:
    """A wait; `call` is to be sent until `ended` returns a record.

    Args:
        thread_id: whose execution.
        target: an execution id, or the receipt of what was accepted or queued.
        timeout: seconds in all; None for as long as it takes.

    Raises:
        InvalidInput: there is nothing to wait for.
    """

    __slots__ = ("_due", "_given", "_kind", "_thread_id", "_timeout")

    def __init__(self, thread_id: str, target: str | Receipt | ControlReceipt, timeout: float | None) -> None:
        if timeout is not None and (type(timeout) not in (int, float) or not timeout >= 0):
            raise InvalidInput(
                f"timeout is seconds, not {shorten(timeout)}", code="invalid_timeout", value=shorten(timeout)
            )
        self._kind, self._given = followed(target)
        self._thread_id = thread_id
        self._timeout = timeout
        self._due = None if timeout is None else time.monotonic() + timeout

    def call(self) -> Call[ExecutionRecord | None]:
        """Return the next call."""
        left = _POLL_S if self._due is None else max(0.0, min(_POLL_S, self._due - time.monotonic()))
        if self._kind == "input":
            return routes.execution_of_input(self._thread_id, self._given, left)
        return routes.ended_execution(self._thread_id, self._given, left)

    def ended(self, record: ExecutionRecord | None) -> ExecutionRecord | None:
        """Return the record that a call brought, None where another call is needed. Raises: TimeoutError: the time is up."""
        if record is not None and record.status != "active":
            return record
        if self._due is not None and time.monotonic() >= self._due:
            raise TimeoutError(f"{self._kind} {self._given!r} has not ended within {self._timeout:g} s")
        return None
