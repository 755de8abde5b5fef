"""Owns the published view of a thread: one immutable object that its actor swaps. Never shows what is not durable.

`status()`, `state()`, `explain()` and every subscription read this and never enter the mailbox.
"""

from __future__ import annotations

from typing import NamedTuple

from ..protocol.cursors import Cursor
from ..protocol.decision import Phase, State
from ..protocol.facts import Facts
from ..protocol.receipts import ActiveExecution
from ..protocol.status import ThreadStatus

__all__ = ["Blocked", "Snapshot", "at_rest", "snapshot_of"]


class Blocked(NamedTuple):
    """A commit that the store refuses and the actor tries again.

    Attributes:
        what: `FINISH`, `START` or `LOST`.
        attempts: how often it was tried.
        error: what the store said last.
        next_attempt_at: microseconds.
    """

    what: str
    attempts: int
    error: str
    next_attempt_at: int


class Snapshot(NamedTuple):
    """What anybody outside may know of a thread; consistent with `cursor`."""

    thread_id: str
    number: int
    agent_id: str
    user_id: str | None
    created_at: int
    status: ThreadStatus
    cursor: Cursor
    active: ActiveExecution | None
    held: bool
    hold_reason: str | None
    terminated_at: int | None
    failed_through: int
    waiting: int
    pending: int
    blocked: Blocked | None = None


def snapshot_of(number: int, facts: Facts, active: ActiveExecution | None, blocked: Blocked | None = None) -> Snapshot:
    """Return the view of durable facts and of who owns the slot."""
    return Snapshot(
        facts.thread_id,
        number,
        facts.agent_id,
        facts.user_id,
        facts.created_at,
        ThreadStatus(facts.state, facts.since, facts.reason),
        Cursor(facts.generation, facts.sequence),
        active,
        facts.held,
        facts.hold_reason,
        facts.terminated_at,
        facts.failed_through,
        facts.steers + facts.waiting_messages + facts.waiting_submits,
        facts.pending,
        blocked,
    )


def at_rest(number: int, facts: Facts) -> Snapshot:
    """Return the view of a thread that no actor holds.

    What a dead process left running is settled before anybody is served; where even that could not be written, the
    thread shows as lost all the same: nothing is ever left "running".
    """
    if facts.execution_id is not None:
        facts = facts.copy()
        facts.state, facts.reason = "failed", "execution_lost"
    return snapshot_of(number, facts, None)


def owner_of(state: State) -> ActiveExecution | None:
    """Return the live owner as snapshots show it: from START committed to FINISH committed."""
    if (
        state.active is None
        or state.phase is Phase.STARTING
        or (state.ending is not None and state.ending.lost is not None)
    ):
        return None
    return state.ownership()
