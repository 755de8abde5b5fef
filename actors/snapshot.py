"""Owns the published view of a thread: one immutable object that its actor swaps. Never shows what is not durable.

`status()`, `state()`, `explain()` and every subscription read this and never enter the mailbox.
"""

from __future__ import annotations

from typing import NamedTuple

from ..protocol.cursors import Cursor
from ..protocol.decision import STARTING, Phase, State
from ..protocol.facts import Facts
from ..protocol.receipts import ActiveExecution
from ..protocol.status import ThreadStatus
from ..storage.codec import decode_facts
from ..storage.keys import numbered

__all__ = ["Blocked", "Shown", "Snapshot", "at_rest", "shown_owner", "snapshot_of"]


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


class Shown:
    """What a thread's actor published, made into a snapshot when somebody looks: most is never looked at.

    Immutable but for that; a phase or a refused commit makes another one.
    """

    __slots__ = ("_snapshot", "active", "blocked", "number", "phase", "record")

    def __init__(
        self, number: int, record: bytes, active: str | None, phase: Phase, blocked: Blocked | None = None
    ) -> None:
        self.number = number
        self.record = record  # of the durable facts, as stored: the actor keeps it anyhow
        self.active = active
        self.phase = phase
        self.blocked = blocked
        self._snapshot: Snapshot | None = None

    def snapshot(self) -> Snapshot:
        """Return the snapshot; any worker."""
        made = self._snapshot
        if made is None:
            made = self.snapshot_from(decode_facts(self.record, numbered(self.number)))
        return made

    def snapshot_from(self, facts: Facts) -> Snapshot:
        """Make the snapshot from the facts that the record is of, for whoever has them at hand."""
        owner = None
        if self.active is not None:
            owner = ActiveExecution(self.active, facts.agent_id, facts.started_at, self.phase.value)  # type: ignore[arg-type]
        made = self._snapshot = snapshot_of(self.number, facts, owner, self.blocked)
        return made

    def differs(self, active: str | None, phase: Phase, blocked: Blocked | None) -> bool:
        """Say whether owner, phase or refusal are others now."""
        return self.active != active or (active is not None and self.phase is not phase) or self.blocked != blocked

    def with_phase(self, active: str | None, phase: Phase, blocked: Blocked | None) -> Shown:
        """Return the same facts with another owner, phase or refusal."""
        return Shown(self.number, self.record, active, phase, blocked)


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


def shown_owner(state: State) -> str | None:
    """Return the live execution as snapshots show it: from START committed to FINISH committed."""
    if state.phase is STARTING or (state.ending is not None and state.ending.lost is not None):
        return None
    return state.active
