"""Owns the live state that a decision reads and the decision that comes out. Decides nothing itself.

The phase and the ownership of the slot are live facts: they die with the actor and are never stored. The durable facts
of a state change only by folding committed events.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final, NamedTuple

from .events import Event, ExecutionInterrupted
from .facts import Facts
from .inbox import Row
from .receipts import ActiveExecution
from .status import Outcome

__all__ = [
    "CLOSE", "DECIDE", "FINISHING", "IDLE", "NO_EVENTS", "OTHER", "RUNNING", "STARTING", "STOPPING", "Action", "Batch",
    "Decision", "Do", "Ending", "Phase", "Refusal", "State", "Verdict",
]  # fmt: skip


class Phase(StrEnum):
    """Where a thread stands with its slot."""

    IDLE = "idle"  # nobody owns the slot
    STARTING = "starting"  # START is handed over and not yet durable
    RUNNING = "running"  # START is durable, acceptance is open
    STOPPING = "stopping"  # an interruption is taken, the body is not back
    FINISHING = "finishing"  # acceptance is closed: releasing, FINISH in flight, or FINISH waiting to be tried again


class Verdict(StrEnum):
    """The five kinds of cell."""

    DECIDE = "decide"  # reply after the commit
    REFUSE = "refuse"  # reply now, nothing is written
    IGNORE = "ignore"
    POSTPONE = "postpone"  # kept, in order, until the batch in flight is answered
    IMPOSSIBLE = "impossible"  # reaching it is a bug of ours


# A member read through its class takes three times a global's time, and these are read many times for every mail.
IDLE: Final = Phase.IDLE
STARTING: Final = Phase.STARTING
RUNNING: Final = Phase.RUNNING
STOPPING: Final = Phase.STOPPING
FINISHING: Final = Phase.FINISHING
DECIDE: Final = Verdict.DECIDE


class Batch(StrEnum):
    """What the batch in flight is about; says which rows its answer takes."""

    START = "START"
    FINISH = "FINISH"
    INTERRUPTION = "interruption"
    JOIN = "join before a pass"
    OTHER = "other batch"


OTHER: Final = Batch.OTHER


class Action(StrEnum):
    """What the actor does once the decision stands."""

    DISPATCH = "dispatch"  # hand the execution to its body
    PASS = "pass"  # call the body again in the same execution
    TELL = "tell"  # set the abort signal
    GRACE = "grace"  # arm the grace timer
    RELEASE = "release"  # close what the execution owns, then say so
    RETRY = "retry"  # arm the retry
    WAKE = "wake"  # look for waiting rows before any other mail
    FENCE = "fence"  # from here on the body's mail is refused
    DELETE = "delete"  # leave a tombstone instead of a thread record
    ANSWER = "answer"  # end the body's wait for a request
    ADOPT = "adopt"  # take the options of the thread's new agent


class Refusal(StrEnum):
    """Why a body's own call is turned away; the actor raises it as an exception of the body's kind."""

    FENCED = "fenced"
    CANCELLED = "cancelled"


class Do(NamedTuple):
    """One action and what it is about."""

    action: Action
    about: Any = None


# Acceptance closes: nothing that the body does counts any more, and what it owns is released.
CLOSE = (Do(Action.FENCE), Do(Action.RELEASE))


class Ending(NamedTuple):
    """How the active execution ends, settled when its body ends and kept over every attempt to write it.

    `lost` carries boot id, cause and dispatched where there is no outcome but a loss to settle.
    """

    outcome: Outcome | None
    finished_at: int
    error_type: str | None = None
    error_message: str | None = None
    reason: str | None = None
    abandoned: bool = False
    leftovers: tuple[str, ...] = ()
    unread: str = "failed"  # why unread steers join without being consumed
    lost: tuple[str, str, bool] | None = None
    refused: bool = False  # the store refused an attempt; before that there is nothing to try again
    said: str | None = None  # by a system row before the end, for a body that cannot say it itself any more


class State:
    """Everything that a decision may look at: the durable facts and the live ones."""

    __slots__ = (
        "active",
        "agent_steerable",
        "agent_timeout",
        "ending",
        "facts",
        "passes",
        "phase",
        "resumes",
        "startable",
        "unrecorded",
    )

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.phase = Phase.IDLE
        self.active: str | None = None  # the execution that owns the slot; outlives FINISH's own fold
        self.passes = 1  # of that execution's body, the one that runs included
        self.ending: Ending | None = None
        self.unrecorded: ExecutionInterrupted | None = None  # an interruption that the store refused; FINISH carries it
        self.startable = True  # its agent is registered
        self.agent_steerable = True
        self.agent_timeout: float | None = None
        self.resumes = facts.resuming  # the agent asked to run again after a loss; over once any START is durable

    @property
    def agent_name(self) -> str:
        """Whose the thread is, and what starts next."""
        return self.facts.agent_id

    @property
    def held(self) -> bool:
        """Say whether the hold is in force: recorded, or to be recorded with FINISH."""
        return self.facts.held or (self.unrecorded is not None and self.unrecorded.hold)

    def ownership(self, phase: Phase | None = None) -> ActiveExecution | None:
        """Return who owns the slot, as receipts tell it."""
        if self.active is None:
            return None
        return ActiveExecution(self.active, self.facts.agent_id, self.facts.started_at, (phase or self.phase).value)  # type: ignore[arg-type]


NO_EVENTS: Final[list[Event]] = []  # of every decision that writes nothing: nobody changes it


class Decision:
    """What follows from a trigger.

    Attributes:
        verdict: which kind of cell it was.
        phase: the phase from the hand-over on.
        events: what to append; empty means nothing to commit.
        reply: a value, a `TreadleError` to raise, or a `Refusal`.
        actions: what to do after the commit; at once where nothing is committed.
        at_once: what to do now, before any commit.
        batch: what the batch is about, where this decision names it.
        closes: nothing more may be decided into this batch.
        joined: rows whose content the reply or the next pass carries.
        ending: how the execution ends, where this decision settles it.
        unrecorded: an interruption that is in force though the store refused it.
    """

    __slots__ = (
        "actions", "at_once", "batch", "closes", "ending", "events", "joined", "phase", "reply", "unrecorded", "verdict",
    )  # fmt: skip

    def __init__(
        self, verdict: Verdict, phase: Phase, events: list[Event] = NO_EVENTS, reply: Any = None,
        actions: tuple[Do, ...] = (), batch: Batch = OTHER, closes: bool = False, joined: tuple[Row, ...] = (),
        at_once: tuple[Do, ...] = (), ending: Ending | None = None, unrecorded: ExecutionInterrupted | None = None,
    ) -> None:  # fmt: skip
        # One is made for every mail: the rules of a usual execution name nothing, since that takes nearly twice the time.
        self.verdict = verdict
        self.phase = phase
        self.events = events
        self.reply = reply
        self.actions = actions
        self.at_once = at_once
        self.batch = batch
        self.closes = closes
        self.joined = joined
        self.ending = ending
        self.unrecorded = unrecorded
