"""Owns the durable facts of one thread and the fold that changes them. Bounded: no content, no lists that grow.

The facts change only by folding events, here and in recovery alike, so that what an actor holds in memory is always
what a fresh reader of the journal would find. A thread record is these facts, encoded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any, Final

from .cursors import Cursor
from .events import (
    AgentChanged,
    ControlRecorded,
    Event,
    ExecutionFinished,
    ExecutionInterrupted,
    ExecutionLost,
    ExecutionStarted,
    HoldChanged,
    InboxFailed,
    InputQueued,
    InputWithdrawn,
    MessageAdded,
    MessageDeleted,
    MessagesJoined,
    MessageUpdated,
    ProcessRecorded,
    RequestOpened,
    RequestTerminated,
    StoredRow,
    ThreadCreated,
    ThreadTerminated,
    ValueChanged,
)
from .limits import LOST_MAX
from .messages import Draft, draft_size
from .status import ThreadStatus, abort_code, settled_state

__all__ = ["LIVELY", "STEADY", "STORED", "Facts", "message_class"]


# The stored record is these values in this order. A usual execution changes the lively ones alone: the steady ones are
# packed when one of them has changed, since all of them at every commit cost more than all else that folding does.
STEADY: Final = (
    "thread_id", "agent_id", "user_id", "created_at", "generation",
    "held", "hold_reason", "terminated_at", "failed_through",
    "steers", "steer_bytes", "waiting_messages", "waiting_submits", "queued_plain", "queued_silent",
    "open_calls", "open_bytes", "pending", "processes", "lost_at", "resuming", "edited",
)  # fmt: skip
LIVELY: Final = (
    "sequence", "last_time", "state", "since", "reason",
    "execution_id", "started_at", "steerable", "timeout", "interrupted_by", "start_sequence",
    "messages", "counts", "executions",
)  # fmt: skip
STORED: Final = (*STEADY, *LIVELY)


class Facts:
    """What is durably true of a thread; `copy` before folding.

    Attributes:
        stem: what the codec made of the steady values; None once one of them has changed. Folding sees to that.
    """

    __slots__ = (*STORED, "stem")

    stem: bytes | None
    thread_id: str
    agent_id: str
    user_id: str | None
    created_at: int
    generation: int
    sequence: int
    last_time: int  # of the newest event; the next batch is later
    state: Any
    since: int
    reason: str | None
    held: bool
    hold_reason: str | None
    terminated_at: int | None
    failed_through: int  # rows up to this sequence project as failed
    execution_id: str | None  # started and not finished: live, or lost
    started_at: int
    steerable: bool
    timeout: float | None
    interrupted_by: str | None  # source of the first accepted interruption of this execution
    start_sequence: int  # of the newest START
    steers: int  # unread rows bound to this execution
    steer_bytes: int
    waiting_messages: int  # rows, not messages; queued tools among them
    waiting_submits: int
    queued_plain: int  # messages in all waiting rows, for `total`
    queued_silent: int
    open_calls: int
    open_bytes: int
    pending: int
    processes: int
    messages: int  # that ever joined; the next position
    counts: dict[int, int]  # joined messages that are there, by class; none is 0, so it is true where there is history
    executions: int
    lost_at: list[int]  # times of the last lost executions, newest last
    resuming: bool  # the agent of the last, lost execution asked to run again, and no START has been since
    edited: int  # sequence of the newest update or deletion of a message

    def __init__(self) -> None:
        """Nothing is known yet: what precedes `THREAD_CREATED`."""
        for name in STORED:
            setattr(self, name, _BLANK.get(name, 0))
        self.counts = {}
        self.lost_at = []
        self.stem = None

    def copy(self) -> Facts:
        """Return facts that can be folded without changing these."""
        new = _new(Facts)
        for name in STORED:
            setattr(new, name, getattr(self, name))
        new.counts = self.counts.copy()
        new.stem = None
        return new

    def values(self) -> tuple[Any, ...]:
        """Return what is stored, in order."""
        return (*self.steady(), *self.lively())

    def steady(self) -> tuple[Any, ...]:
        """Return the first of the values: those that a usual execution leaves as they are."""
        return _STEADY(self)

    def lively(self) -> tuple[Any, ...]:
        """Return the values behind them."""
        return _LIVELY(self)

    @classmethod
    def from_values(cls, values: Iterable[Any]) -> Facts:
        """Rebuild facts from `values`. Raises: ValueError: too few or too many."""
        new = _new(cls)
        for name, value in zip(STORED, values, strict=True):
            setattr(new, name, value)
        new.stem = None
        return new

    @property
    def cursor(self) -> Cursor:
        """The last sequence that these facts have folded."""
        return Cursor(self.generation, self.sequence)

    @property
    def status(self) -> ThreadStatus:
        """The run status."""
        return ThreadStatus(self.state, self.since, self.reason)

    @property
    def rows(self) -> int:
        """How many rows wait in the inbox."""
        return self.steers + self.waiting_messages + self.waiting_submits

    def fold(self, event: Event, at: int) -> None:
        """Take in the next event of the journal, which happened `at` (microseconds)."""
        self.fold_all((event,), at)

    def fold_all(self, events: Sequence[Event], at: int) -> None:
        """Take in the next events of the journal: the first happened `at`, each other a microsecond after the one before."""
        for event in events:
            self.sequence += 1
            self.last_time = at
            _FOLDS[type(event)](self, event, at)
            at += 1

    def settle(self, state: str, reason: str | None, at: int) -> None:
        """Set the run status; `since` moves only with it."""
        if state != self.state or reason != self.reason:
            self.state, self.reason, self.since = state, reason, at

    def take_rows(self, rows: list[StoredRow], *, join: bool, opens: bool = False) -> None:
        """Take rows out of the inbox's counters and, where they join, into history's; a queued tool `opens` its call."""
        for _, kind, messages, silent, size, *_edits in rows:
            if kind == "steer":
                self.steers -= 1
                self.steer_bytes -= size
            elif kind == "submit":
                self.waiting_submits -= 1
            else:
                self.waiting_messages -= 1
                if opens and kind == "tool":
                    self.open_calls += 1
            self.queued_plain -= messages - silent
            self.queued_silent -= silent
            if join:
                self.count(0, messages - silent)
                self.count(1, silent)

    def count(self, message_class: int, messages: int) -> None:
        """Add messages of one class to history."""
        if messages:
            counts = self.counts
            counts[message_class] = counts.get(message_class, 0) + messages
            self.messages += messages


# One call for many slots: a third of the time of a loop.
_STEADY, _LIVELY = attrgetter(*STEADY), attrgetter(*LIVELY)
_BLANK: dict[str, Any] = {
    "thread_id": "", "agent_id": "", "user_id": None, "generation": 1, "state": "idle", "reason": None, "held": False,
    "hold_reason": None, "terminated_at": None, "execution_id": None, "steerable": False, "timeout": None,
    "interrupted_by": None, "resuming": False,
}  # fmt: skip


def _new(cls: type[Facts]) -> Facts:
    return cls.__new__(cls)


def message_class(draft: Draft) -> int:
    """Return the class a message is counted and paged under: twice its depth, plus one where it is silent."""
    if len(draft) == 3:  # id, role and content alone
        return 0
    return 2 * int(draft.get("depth", 0)) + (1 if draft.get("silent") else 0)


def _created(facts: Facts, event: ThreadCreated, at: int) -> None:
    facts.thread_id, facts.agent_id, facts.user_id = event.thread_id, event.agent_id, event.user_id
    facts.created_at = facts.since = at


def _started(facts: Facts, event: ExecutionStarted, at: int) -> None:
    fields = event.__dict__
    facts.execution_id, facts.started_at = fields["execution_id"], at
    facts.steerable, facts.timeout = fields["steerable"], fields["timeout"]
    facts.interrupted_by, facts.start_sequence = None, facts.sequence
    agent_id = fields["agent_id"]
    if facts.held or facts.resuming or facts.hold_reason is not None or facts.agent_id != agent_id:
        facts.stem = None
        facts.held, facts.hold_reason = False, None
        facts.resuming = False
        facts.agent_id = agent_id
    facts.executions += 1
    for draft in fields["messages"]:
        facts.count(0 if len(draft) == 3 else message_class(draft), 1)
    facts.settle("running", None, at)


def _close(facts: Facts) -> None:
    facts.execution_id = None
    if facts.open_calls or facts.open_bytes or facts.processes:
        facts.stem = None
        facts.open_calls = facts.open_bytes = facts.processes = 0


def _finished(facts: Facts, event: ExecutionFinished, at: int) -> None:
    _close(facts)
    fields = event.__dict__
    reason = fields["reason"]
    facts.settle(settled_state(fields["outcome"], reason), reason, at)


def _lost(facts: Facts, event: ExecutionLost, at: int) -> None:
    _close(facts)
    facts.lost_at = [*facts.lost_at, at][-LOST_MAX:]
    facts.resuming = event.resume
    facts.settle("failed", "execution_lost", at)


def _interrupted(facts: Facts, event: ExecutionInterrupted, at: int) -> None:
    if facts.interrupted_by is None:
        facts.interrupted_by = event.source
    elif facts.interrupted_by == "deadline":
        facts.interrupted_by = "deadline, then interrupted"  # recorded once; it changes nothing
    if event.hold:
        facts.held, facts.hold_reason = True, abort_code(event.source)


def _added(facts: Facts, event: MessageAdded, at: int) -> None:
    draft = event.message
    if len(draft) == 3:  # id, role and content alone: no call in it
        facts.count(0, 1)
        return
    facts.count(message_class(draft), 1)
    if event.execution_id is None:
        return
    facts.stem = None
    if draft.get("calls"):
        facts.open_calls += len(draft["calls"])
        facts.open_bytes += draft_size(draft)
    elif draft["role"] == "tool" and draft.get("closes"):
        facts.open_calls -= 1
        if facts.open_calls == 0:
            facts.open_bytes = 0


def _queued(facts: Facts, event: InputQueued, at: int) -> None:
    silent = sum(1 for draft in event.messages if draft.get("silent"))
    facts.queued_plain += len(event.messages) - silent
    facts.queued_silent += silent
    if event.kind == "steer":
        facts.steers += 1
        facts.steer_bytes += event.size
    elif event.kind == "submit":
        facts.waiting_submits += 1
    else:
        facts.waiting_messages += 1


def _joined(facts: Facts, event: MessagesJoined, at: int) -> None:
    facts.take_rows(event.rows, join=True, opens=event.consumed)


def _withdrawn(facts: Facts, event: InputWithdrawn, at: int) -> None:
    facts.take_rows([event.row], join=False)


def _inbox_failed(facts: Facts, event: InboxFailed, at: int) -> None:
    facts.failed_through = event.through


def _control(facts: Facts, event: ControlRecorded, at: int) -> None:
    """A receipt alone; a hold that came with it has its own event."""


def _hold(facts: Facts, event: HoldChanged, at: int) -> None:
    facts.held, facts.hold_reason = event.held, event.reason


def _value(facts: Facts, event: ValueChanged, at: int) -> None:
    """The content of values is not a fact of the thread."""


def _process(facts: Facts, event: ProcessRecorded, at: int) -> None:
    facts.processes += 1


def _terminated(facts: Facts, event: ThreadTerminated, at: int) -> None:
    facts.terminated_at = at


def _request(facts: Facts, event: RequestOpened, at: int) -> None:
    facts.pending += 1


def _agent(facts: Facts, event: AgentChanged, at: int) -> None:
    facts.agent_id = event.agent_id


def _request_over(facts: Facts, event: RequestTerminated, at: int) -> None:
    facts.pending -= 1


def _updated(facts: Facts, event: MessageUpdated, at: int) -> None:
    facts.edited = facts.sequence
    if event.row is not None and event.row[1] == "steer":
        facts.steer_bytes += event.grown


def _deleted(facts: Facts, event: MessageDeleted, at: int) -> None:
    facts.edited = facts.sequence
    kind, row = event.message_class, event.row
    if row is None:
        left = facts.counts.pop(kind) - 1
        if left:
            facts.counts[kind] = left
        return
    if kind % 2:
        facts.queued_silent -= 1
    else:
        facts.queued_plain -= 1
    if row[1] == "steer":
        facts.steer_bytes += event.grown


Fold = Callable[[Facts, Any, int], None]


def _unsteady(fold: Fold) -> Fold:
    def folded(facts: Facts, event: Event, at: int) -> None:
        facts.stem = None  # whatever of the steady values the event changes
        fold(facts, event, at)

    return folded


_UNSTEADY: dict[type[Event], Fold] = {
    ThreadCreated: _created, ExecutionLost: _lost, ExecutionInterrupted: _interrupted, InputQueued: _queued,
    MessagesJoined: _joined, InputWithdrawn: _withdrawn, InboxFailed: _inbox_failed, ControlRecorded: _control,
    HoldChanged: _hold, ValueChanged: _value, ProcessRecorded: _process, ThreadTerminated: _terminated,
    RequestOpened: _request, RequestTerminated: _request_over, AgentChanged: _agent, MessageUpdated: _updated,
    MessageDeleted: _deleted,
}  # fmt: skip
_FOLDS: dict[type[Event], Fold] = {
    # What the events of every execution change of the steady values they see to themselves: mostly nothing.
    ExecutionStarted: _started,
    MessageAdded: _added,
    ExecutionFinished: _finished,
    **{kind: _unsteady(fold) for kind, fold in _UNSTEADY.items()},
}
