"""Owns the answer to "who has the thread now?": present-tense ownership, from one snapshot. Reads nothing itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ..protocol.cursors import Cursor
    from ..protocol.receipts import ActiveExecution
    from ..protocol.status import ThreadStatus
    from ..protocol.values import JsonObject

__all__ = ["ThreadLiveState"]


class ThreadLiveState(NamedTuple):
    """Present-tense ownership, from one snapshot (contract A.10): the only place that says whether a thread is busy.

    Attributes:
        active_execution: who owns the slot, None at rest.
        pending_requests: requests of the live execution that wait for an answer.
        waiting: inputs that have not joined history.
    """

    status: ThreadStatus
    cursor: Cursor
    active_execution: ActiveExecution | None
    pending_requests: tuple[JsonObject, ...]
    held: bool
    hold_reason: str | None
    terminated_at: int | None
    waiting: int
    boot_id: str
