"""Owns the invariants: what must hold at each decision, commit, action and reply of a world. Changes nothing but its notes.

The oracles know the promises, not the rules: they look at what is recorded, said and done, and keep in `Notes` the
little of the past that a promise is about. What they find is a `Violation` that names the promise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from treadle.protocol.decision import Action, Batch, Decision, Phase, Refusal
from treadle.protocol.errors import MessageNotFound, StorageFull
from treadle.protocol.errors import ThreadTerminated as Terminated
from treadle.protocol.events import (
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
    RequestOpened,
    RequestTerminated,
    ThreadTerminated,
)
from treadle.protocol.limits import LOST_MAX
from treadle.protocol.receipts import ControlReceipt, Disposition, Receipt, RespondStatus, Withdrawal

if TYPE_CHECKING:
    from treadle.protocol.facts import Facts
    from treadle.protocol.inbox import Row
    from treadle.protocol.triggers import Trigger

    from .world import Flight, Mail, World

__all__ = [
    "Notes", "Violation", "judge_action", "judge_commit", "judge_decision", "judge_held", "judge_refusal", "judge_reply",
    "judge_rest", "note_crash",
]  # fmt: skip

_RECORDED = (Disposition.ACCEPTED, Disposition.QUEUED)


class Violation(AssertionError):
    """A promise that was not kept."""

    def __init__(self, promise: str, found: object) -> None:
        super().__init__(f"{promise}: {found}")
        self.promise = promise


class Notes(NamedTuple):
    """What the oracles remember.

    Attributes:
        owner: the execution open in the journal, the batch under way included.
        source: who interrupted it first, recorded or not.
        unwritten: the store refused that record.
        hold_due: so the hold that came with it waits for FINISH.
        accepted: a caller was told that the interruption was taken.
        closed: how the execution must end: outcome, error type, reason, abandoned; or ("lost",).
        closed_at: when that was settled.
        doomed: it was live when the process died; nothing but its loss may be recorded.
        held: whether the thread must be held, the batch under way included.
        rerun: a live execution was lost, and its agent asked to run again.
        first: the first receipt of each tracked input.
    """

    owner: str | None = None
    source: str | None = None
    unwritten: bool = False
    hold_due: bool = False
    accepted: bool = False
    closed: tuple[object, ...] | None = None
    closed_at: int = 0
    doomed: bool = False
    held: bool = False
    rerun: bool = False
    first: tuple[tuple[str, object], ...] = ()


def _must(true: object, promise: str, found: object) -> None:
    if not true:
        raise Violation(promise, found)


# At a decision, before it is folded.


def judge_decision(world: World, mail: Mail, trigger: Trigger, decision: Decision) -> None:
    """Judge what was decided, and note what follows from it."""
    _judge_answer(world, mail, decision)
    if decision.ending is not None:
        _judge_ending(world, mail, trigger, decision)
    else:
        _judge_heard(world, mail, decision)
    at = trigger.now
    for event in decision.events:
        judge = _EVENTS.get(type(event))
        if judge is not None:
            judge(world, mail, decision, event, at)
        at += 1
    _note_hold(world, mail, trigger, decision)


def _judge_heard(world: World, mail: Mail, decision: Decision) -> None:
    """What ends an execution is never passed over."""
    notes = world.notes
    if mail.target != world.state.active or notes.closed is not None:
        return
    if mail.verb == "ended":
        _must(decision.batch is Batch.JOIN, "every execution settles", "the body's end was passed over")
    elif mail.verb == "deadline":
        _must(notes.source or _has(decision, ExecutionInterrupted), "a deadline aborts", mail)
    elif mail.verb == "expire":
        due = notes.source is None and world.live.standing(mail.how) == "pending"
        _must(not due or _has(decision, RequestTerminated), "a request whose time is over expires", mail)
    elif mail.verb in ("grace", "lost"):
        _must(notes.source is None and mail.verb == "grace", "a body that does not stop is abandoned", mail)


def _judge_answer(world: World, mail: Mail, decision: Decision) -> None:
    """Compare the answer with the tables of the semantics, sections 1, 3 and 4."""
    if mail.verb == "withdraw":
        _must(decision.reply is _expected_withdrawal(world, mail.name), "withdraw tells what became of the input", mail)
    if mail.verb == "respond":
        expected = _expected_status(world, mail.how)
        _must(
            decision.reply is expected, "an answer is told what became of its request", (mail, expected, decision.reply)
        )
    if mail.verb in ("update", "delete", "edit"):
        _judge_edit(world, mail, decision)
    if mail.verb not in ("submit", "steer", "interrupt", "queue"):
        return
    expected = _expected(world, mail)
    reply = decision.reply
    given = getattr(reply, "disposition", type(reply) if isinstance(reply, Exception) else reply)
    _must(given == expected, "each input and control is answered as its table says", (mail, expected, reply))


def _judge_edit(world: World, mail: Mail, decision: Decision) -> None:
    """Whoever runs, an edit finds what is there; a body's counts only while it is live."""
    notes, live = world.notes, world.live
    late = mail.verb == "edit" and (
        notes.closed is not None or mail.target != world.state.active or mail.name == "late"
    )
    there = mail.how in live.heard or any(row.input_id == mail.how for row in live.rows)
    expected: object = there if mail.verb == "delete" else dict if there else MessageNotFound
    given = decision.reply if isinstance(decision.reply, bool | Refusal) else type(decision.reply)
    _must(given == (Refusal.FENCED if late else expected), "an edit finds what is there", (mail, decision.reply))
    _must(bool(decision.events) == (there and not late), "an edit is recorded if and only if it is made", mail)
    _must(decision.phase is world.state.phase, "an edit starts and ends nothing", decision.phase)


def _edited(world: World, mail: Mail, decision: Decision, event: MessageUpdated | MessageDeleted, at: int) -> None:
    row = next((row for row in world.live.rows if event.row is not None and row.sequence == event.row[0]), None)
    waits = row is not None and row.input_id == mail.how
    _must(waits or (event.row is None and mail.how in world.live.heard), "an edit is of what it names", (mail, event))
    gone = isinstance(event, MessageDeleted) and row is not None and row.messages == 1
    _must(not gone, "an input goes with its last message", event)


def _expected_withdrawal(world: World, name: str) -> Withdrawal:
    live, through = world.live, world.state.facts.failed_through
    if live.prior(name) is None:
        return Withdrawal.NOT_FOUND
    waits = any(row.input_id == name and row.kind != "steer" and row.sequence > through for row in live.rows)
    return Withdrawal.WITHDRAWN if waits or name in live.withdrawn else Withdrawal.ALREADY_DELIVERED


def _expected_status(world: World, request_id: str) -> RespondStatus:
    standing, notes = world.live.standing(request_id), world.notes
    if standing == "pending":
        reads = notes.source is None and notes.closed is None and not notes.doomed
        return RespondStatus.ACCEPTED if reads else RespondStatus.CANCELLED
    return {
        None: RespondStatus.NOT_FOUND,
        "resolved": RespondStatus.ALREADY_RESOLVED,
        "expired": RespondStatus.TIMED_OUT,
        "abandoned": RespondStatus.CANCELLED,
    }[standing]


def _expected(world: World, mail: Mail) -> object:
    notes, active = world.notes, world.state.active
    if mail.verb == "queue" and mail.target:
        late = notes.closed is not None or mail.target != active
        return Refusal.FENCED if late else Disposition.QUEUED
    prior = world.live.prior(mail.name)
    if prior is not None:
        return prior.receipt.disposition
    if mail.verb in ("steer", "interrupt"):
        if active is None:
            return Disposition.NO_ACTIVE_EXECUTION
        if mail.target != active:
            return Disposition.ACTIVE_EXECUTION_MISMATCH
        late = notes.closed or (mail.verb == "steer" and notes.source)
        return Disposition.EXECUTION_FINISHING if late else Disposition.ACCEPTED
    if world.state.facts.terminated_at is not None:
        return Terminated
    if mail.verb == "queue":
        return Disposition.QUEUED
    return _expected_of_submit(world, mail.how)


def _expected_of_submit(world: World, on_busy: str) -> object:
    notes, ending = world.notes, world.state.ending
    if world.state.active is None:
        behind = on_busy == "queue" and any(row.kind == "submit" for row in world.live.rows)
        return Disposition.QUEUED if behind else Disposition.ACCEPTED
    if notes.closed == ("lost",) and ending is not None and ending.refused:
        return StorageFull
    if on_busy in ("queue", "interrupt"):
        return Disposition.QUEUED
    if on_busy == "steer" and notes.closed is None and notes.source is None:
        return Disposition.ACCEPTED
    return Disposition.BUSY


def _judge_ending(world: World, mail: Mail, trigger: Trigger, decision: Decision) -> None:
    notes, ending = world.notes, decision.ending
    assert ending is not None
    found: tuple[object, ...]
    found = (
        ("lost",) if ending.lost is not None else (ending.outcome, ending.error_type, ending.reason, ending.abandoned)
    )
    if notes.closed is not None:
        kept = found == notes.closed and ending.finished_at == notes.closed_at
        _must(kept, "every attempt has the first one's outcome", (notes.closed, ending))
        return
    if mail.verb == "ended" and mail.how == "returned" and notes.source is None:
        _must(not _joinable(world), "a steer begins one more pass", world.live.rows)
    expected = _expected_ending(mail, notes)
    _must(found == expected, "the outcome is that of the table", (mail, notes.source, expected, found))
    world.notes = notes._replace(closed=found, closed_at=trigger.now)


def _expected_ending(mail: Mail, notes: Notes) -> tuple[object, ...]:
    """The table of section 6."""
    abandoned = mail.verb == "grace"
    if mail.verb == "lost":
        return ("lost",)
    if notes.source == "deadline":
        return ("failed", "ExecutionTimeout", "timeout", abandoned)
    if mail.how == "raised":
        return ("failed", "ValueError", "step_error", False)
    if notes.source is not None:
        return ("cancelled", None, "aborted_by_user" if notes.source == "user" else "aborted", abandoned)
    if mail.how == "cancelled":
        return ("failed", "CancelledError", "step_error", False)
    if mail.how == "stopped":
        return ("succeeded", None, "stopped", False)
    return ("succeeded", None, "awaiting_human", False)


def _joinable(world: World) -> list[Row]:
    return [row for row in world.live.rows if row.kind != "submit"]


def _started(world: World, mail: Mail, decision: Decision, event: ExecutionStarted, at: int) -> None:
    notes, facts = world.notes, world.state.facts
    _must(notes.owner is None and world.state.active is None, "never two executions own one thread", notes.owner)
    _must(decision.batch is Batch.START and decision.closes, "START closes its batch", decision.batch)
    _must(facts.terminated_at is None, "a terminated thread starts nothing", event)
    asked = event.cause in ("submit", "resume")
    _must(asked or not world.state.facts.held, "nothing starts by itself while held", event)
    world.notes = Notes(owner=event.execution_id, held=notes.held, rerun=notes.rerun, first=notes.first)


def _finished(world: World, mail: Mail, decision: Decision, event: ExecutionFinished, at: int) -> None:
    notes = world.notes
    _must(notes.owner == event.execution_id, "START and FINISH pair up", event)
    _must(not notes.doomed, "recovery invents no FINISH", event)
    written = (event.outcome, event.error_type, event.reason, event.abandoned)
    _must(written == notes.closed, "FINISH says how the execution ended", (written, notes.closed))
    _must(event.finished_at == notes.closed_at, "every attempt has the first one's time", event)
    _must(not (notes.source and event.outcome == "succeeded"), "no success after an interrupt", event)
    _must(mail.verb in ("released", "retry") and not world.releasing, "FINISH follows the release", mail)
    _judge_closed(world, decision)
    if notes.source is not None:
        recorded = world.state.facts.interrupted_by or _has(decision, ExecutionInterrupted)
        _must(recorded, "an interruption is recorded", event)
    world.notes = notes._replace(owner=None)


def _lost(world: World, mail: Mail, decision: Decision, event: ExecutionLost, at: int) -> None:
    notes = world.notes
    _must(notes.owner == event.execution_id, "a loss settles the open execution", event)
    _must(notes.closed == ("lost",), "only a lost execution is settled as lost", notes.closed)
    _must(event.last_sequence == world.state.facts.sequence, "a loss names the last thing recorded", event)
    _judge_closed(world, decision)
    world.notes = notes._replace(owner=None)


def _judge_closed(world: World, decision: Decision) -> None:
    """All that was open is closed in the same commit, before the end."""
    joined = {row[0] for event in decision.events if isinstance(event, MessagesJoined) for row in event.rows}
    left = [row for row in world.live.rows if row.kind == "steer" and row.sequence not in joined]
    _must(not left, "an accepted steer is never lost", left)
    closed = [e.message["tool_call_id"] for e in decision.events if isinstance(e, MessageAdded)]
    _must(closed == list(world.live.calls), "each open call gets one result before the end", closed)
    abandoned = [event.request_id for event in decision.events if type(event).__name__ == "RequestTerminated"]
    _must(abandoned == list(world.live.pending), "each pending request is abandoned before the end", abandoned)


def _has(decision: Decision, kind: type[Event]) -> bool:
    return any(isinstance(event, kind) for event in decision.events)


def _interrupted(world: World, mail: Mail, decision: Decision, event: ExecutionInterrupted, at: int) -> None:
    notes = world.notes
    _must(notes.owner == event.execution_id, "an interruption is of the open execution", event)
    late = notes.unwritten or (notes.source == "deadline" and event.source == "user")
    _must(notes.source is None or late, "there is one interruption", (notes.source, event))
    if notes.source is None:
        world.notes = notes._replace(source=event.source)


def _added(world: World, mail: Mail, decision: Decision, event: MessageAdded, at: int) -> None:
    if event.execution_id is not None and mail.verb in ("append", "call", "result"):
        _judge_body(world, mail)


def _judge_body(world: World, mail: Mail) -> None:
    notes = world.notes
    live = notes.owner == mail.target and notes.closed is None and mail.name != "late"
    _must(live, "nothing a fenced body does has an effect", mail)


def _opened(world: World, mail: Mail, decision: Decision, event: RequestOpened, at: int) -> None:
    _judge_body(world, mail)
    _must(world.notes.source is None, "nothing is asked after an interrupt", mail)
    _must(world.live.standing(event.request_id) is None, "a request's id is used once", event)


def _request_over(world: World, mail: Mail, decision: Decision, event: RequestTerminated, at: int) -> None:
    notes = world.notes
    _must(event.request_id in world.live.pending, "a request ends once", event)
    if event.status == "abandoned":
        _must(decision.batch is Batch.FINISH, "a request is abandoned with its execution", event)
        return
    _must(notes.source is None and notes.closed is None, "a request is answered while its body reads", event)
    _must(mail.how == event.request_id, "an answer is for the request it names", (mail, event))
    if event.status == "resolved":
        _must(
            decision.reply is RespondStatus.ACCEPTED,
            "an answer is recorded if and only if it is accepted",
            decision.reply,
        )
    else:
        _must(mail.verb == "expire", "a request expires by its time alone", mail)


def _queued(world: World, mail: Mail, decision: Decision, event: InputQueued, at: int) -> None:
    notes = world.notes
    _must(world.live.prior(event.input_id) is None, "an id is accepted once", event)
    _must(world.state.facts.terminated_at is None, "a terminated thread takes nothing", event)
    _must(event.input_id != "late", "nothing a fenced body does has an effect", mail)
    if event.kind == "steer":
        bound = notes.owner == event.execution_id and (mail.verb != "steer" or mail.target == notes.owner)
        _must(bound, "a steer is for the execution it names", (mail, event))
        _must(notes.closed is None and notes.source is None, "a steer is accepted only while it will be read", event)
    first = mail.verb == "submit" and mail.how == "interrupt"
    _must(event.first == first, "an interrupting input stands ahead of the others", event)


def _joined(world: World, mail: Mail, decision: Decision, event: MessagesJoined, at: int) -> None:
    waiting = {row.sequence: row for row in world.live.rows}
    if mail.verb == "queue" and decision.batch is Batch.START:
        waiting[world.state.facts.sequence + 1] = next(row for row in decision.joined if row.input_id == mail.name)
    gone = [row[0] for row in event.rows]
    _must(len(set(gone)) == len(gone) and all(one in waiting for one in gone), "an input joins once", (gone, waiting))
    rows = [waiting[one] for one in gone]
    for kind in ("submit", "message", "steer"):
        oldest = [row for row in sorted(waiting.values(), key=lambda r: (not r.first, r.sequence)) if row.kind == kind]
        taken = [row for row in rows if row.kind == kind]
        _must(taken == oldest[: len(taken)], "inputs join in order within their kind", (taken, oldest))
    if event.consumed:
        _judge_consumed(world, mail, decision, event, rows, waiting)
    else:
        _judge_unread(world, decision, event, rows)


def _judge_consumed(
    world: World, mail: Mail, decision: Decision, event: MessagesJoined, rows: list[Row], waiting: dict[int, Row]
) -> None:
    notes = world.notes
    _must(event.execution_id == notes.owner and notes.closed is None, "what joins as read is read", event)
    _must(list(decision.joined) == rows, "a body sees what joined", (decision.joined, rows))
    ends = _has(decision, ExecutionFinished) or _has(decision, ExecutionLost)
    _must(not ends, "what no pass will read is not marked as read", event)
    readable = [
        row for row in sorted(waiting.values(), key=lambda r: (not r.first, r.sequence)) if row.kind != "submit"
    ]
    if decision.batch is Batch.START:
        submits = [row for row in rows if row.kind == "submit"]
        _must(len(submits) <= 1, "a submit has an execution of its own", submits)
        _must([row for row in rows if row.kind != "submit"] == readable, "waiting messages that fit join a START", rows)
        oldest = min(waiting.values(), key=lambda r: (not r.first, r.sequence))
        first = not submits if mail.verb == "submit" else rows[0] == oldest
        _must(first, "a START from rows takes the oldest", (rows, oldest))
        return
    closing = [e for e in decision.events if isinstance(e, MessageAdded)]
    _must(len(closing) == len(world.live.calls), "rows never join while a call is open", world.live.calls)
    _must(rows == readable, "a boundary takes all that waits for it, and no submit", (rows, readable))
    _must(notes.source is None, "no pass begins after an interrupt", event)


def _judge_unread(world: World, decision: Decision, event: MessagesJoined, rows: list[Row]) -> None:
    notes = world.notes
    if event.execution_id is None:
        dead = world.state.facts.terminated_at is not None and world.state.active is None
        _must(dead and event.reason == "terminated", "rows fail only on a terminated thread", event)
        return
    _must(event.execution_id == notes.owner and notes.closed is not None, "unread steers join at the end", event)
    _must(all(row.kind == "steer" for row in rows), "waiting messages outlive an execution", rows)
    assert notes.closed is not None
    normal = notes.closed[0] == "succeeded" and notes.closed[2] == "awaiting_human"
    _must(not normal, "an accepted steer begins a further pass", event)
    _must(event.reason and event.reason != "finished", "an unread steer says why", event)


def _terminated(world: World, mail: Mail, decision: Decision, event: ThreadTerminated, at: int) -> None:
    _must(world.state.facts.terminated_at is None, "a thread is terminated once", event)
    waiting = [row.sequence for row in world.live.rows if row.kind != "steer"]
    through = max((event.through for event in decision.events if isinstance(event, InboxFailed)), default=0)
    _must(not waiting or through >= max(waiting), "what waits on a terminated thread has failed", waiting)


def _withdrawn(world: World, mail: Mail, decision: Decision, event: InputWithdrawn, at: int) -> None:
    row = next((row for row in world.live.rows if row.input_id == event.input_id), None)
    if mail.verb == "delete":
        # A message that is deleted is cancelled, whatever was promised of it.
        _must(
            row is not None and row.messages == 1 and mail.how == event.input_id, "an edit is of what it names", event
        )
        return
    waits = row is not None and row.kind != "steer" and row.sequence > world.state.facts.failed_through
    _must(waits, "only what waits can be withdrawn", event)


_EVENTS: dict[type[Event], Any] = {
    ExecutionStarted: _started,
    ExecutionFinished: _finished,
    ExecutionLost: _lost,
    ExecutionInterrupted: _interrupted,
    MessageAdded: _added,
    RequestOpened: _opened,
    RequestTerminated: _request_over,
    InputQueued: _queued,
    MessagesJoined: _joined,
    InputWithdrawn: _withdrawn,
    ThreadTerminated: _terminated,
    MessageUpdated: _edited,
    MessageDeleted: _edited,
}


def _note_hold(world: World, mail: Mail, trigger: Trigger, decision: Decision) -> None:
    """Say from the answers alone whether the thread must be held now (section 5)."""
    notes = world.notes
    held, due = notes.held, notes.hold_due
    reply = decision.reply
    given = getattr(reply, "disposition", None)
    fresh = getattr(trigger, "prior", None) is None
    if mail.verb == "stop" or (
        mail.verb == "interrupt" and world.script.hold and given is Disposition.ACCEPTED and fresh
    ):
        held = True
    elif mail.verb == "submit" and given in _RECORDED and fresh:
        held = due = False
    elif mail.verb == "resume" and isinstance(reply, Receipt):
        _must(given is not Disposition.BUSY or not (held or due), "resume lifts the hold", reply)
        held = due = False
    elif decision.batch is Batch.START:
        held = due = False
    elif decision.batch is Batch.FINISH and notes.closed == ("lost",):
        repeated = sum(1 for at in world.state.facts.lost_at if at > trigger.now - 15 * 60 * 1_000_000) + 1 >= LOST_MAX
        _must(
            not repeated or held or _has(decision, HoldChanged),
            "an agent lost again and again is held",
            decision.events,
        )
        held = held or repeated or due
    elif decision.batch is Batch.FINISH:
        held = held or due
    if held != notes.held or due != notes.hold_due:
        world.notes = notes._replace(held=held, hold_due=due)


def judge_held(world: World) -> None:
    """Judge the hold after a decision was folded."""
    _must(world.state.facts.held == world.notes.held, "a hold is set and lifted as section 5 says", world.notes)


# At an answer of the store.


def judge_commit(world: World, flight: Flight, before: Facts) -> None:
    """Judge what has just become durable."""
    after = world.durable
    _must(after.values() == world.state.facts.values(), "fold of the journal equals the live facts", after.values())
    _must((after.execution_id is not None) == (after.state == "running"), "running if and only if owned", after.state)
    _must(after.execution_id == world.notes.owner, "the journal's owner is the live one", after.execution_id)
    expected: tuple[str, object] = (before.state, before.reason)
    since = before.since
    for at, event in flight.events:
        if isinstance(event, ExecutionStarted):
            expected, since = ("running", None), at
        elif isinstance(event, ExecutionLost):
            expected, since = ("failed", "execution_lost"), at
        elif isinstance(event, ExecutionFinished):
            expected, since = ("failed" if event.outcome == "failed" else "idle", event.reason), at
    _must((after.state, after.reason) == expected, "the run status follows START and FINISH", (expected, after.state))
    _must(after.since == since, "since moves only with the status", (since, after.since))
    _judge_counts(world)
    notes = world.notes
    if flight.about is Batch.FINISH:
        rerun = world.script.resumes and notes.closed == ("lost",) and not after.held
        world.notes = Notes(held=notes.held, first=notes.first, rerun=rerun)


def _judge_counts(world: World) -> None:
    """What the thread record counts is what the tables hold."""
    facts, stored = world.durable, world.stored
    kinds = [row.kind for row in stored.rows]
    counted = (facts.steers, facts.waiting_messages, facts.waiting_submits, facts.open_calls, facts.pending)
    held = (kinds.count("steer"), kinds.count("message"), kinds.count("submit"), len(stored.calls), len(stored.pending))
    _must(counted == held, "the thread record counts what the tables hold", (counted, held))
    size = sum(row.size for row in stored.rows if row.kind == "steer")
    _must(facts.steer_bytes == size, "the thread record counts what the tables hold", (facts.steer_bytes, size))
    queued = sum(row.messages for row in stored.rows)
    _must(facts.queued_plain + facts.queued_silent == queued, "the thread record counts what the tables hold", queued)
    listed = sum(facts.counts.values())
    _must(listed == stored.history, "the thread record counts what the tables hold", (listed, stored.history))


def judge_refusal(world: World, flight: Flight, decision: Decision) -> None:
    """Note what holds again after a batch was not written; facts are restored, the decision not yet taken."""
    notes = world.notes._replace(owner=world.durable.execution_id, held=world.durable.held)
    if flight.about is Batch.START:
        notes = Notes(held=notes.held, first=notes.first, rerun=notes.rerun)
    elif flight.interruption is not None and flight.about in (Batch.INTERRUPTION, Batch.FINISH):
        unwritten = notes.unwritten or world.durable.interrupted_by is None
        due = notes.hold_due or (unwritten and flight.interruption.hold)
        notes = notes._replace(unwritten=unwritten, hold_due=due)
    if flight.about is Batch.JOIN:
        ending = decision.ending
        full = ending is not None and ending.outcome == "failed" and ending.error_type == "StorageFull"
        _must(full, "a refused join ends the execution", ending)
        assert ending is not None
        closed = ("failed", "StorageFull", "storage_full", False)
        notes = notes._replace(closed=closed, closed_at=ending.finished_at)
    world.notes = notes
    retries = any(do.action is Action.RETRY for do in decision.at_once)
    _must(retries or flight.about is not Batch.FINISH, "a refused FINISH is tried again", decision.at_once)


def note_crash(world: World) -> None:
    """Forget what only a living process knew."""
    owner = world.durable.execution_id
    world.notes = Notes(owner=owner, doomed=owner is not None, held=world.durable.held, first=world.notes.first)


# At an action, and at a reply.


def judge_action(world: World, action: Action, about: Any) -> None:
    """Judge what the actor is about to do."""
    notes, active = world.notes, world.state.active
    if action in (Action.DISPATCH, Action.PASS):
        _must(world.durable.execution_id == active is not None, "START is durable before the body is called", active)
        _must(world.body is None, "never two bodies", world.body)
        _must(not notes.doomed, "nothing is run again by itself", active)
        if notes.rerun:
            world.notes = notes._replace(rerun=False)
        _must(notes.closed is None and notes.source is None, "no pass begins after an interrupt", notes)
    elif action is Action.TELL:
        recorded = world.durable.interrupted_by is not None or notes.unwritten
        _must(recorded, "an interrupt is recorded before the body is told", about)
    elif action is Action.ANSWER:
        _must(world.stored.standing(about[0]) == about[1], "an answer is durable before the body has it", about)
    elif action in (Action.FENCE, Action.RELEASE):
        _must(notes.closed is not None, "acceptance closes once the end is settled", action)


def judge_reply(world: World, mail: Mail, reply: object) -> None:
    """Judge an answer at the moment it is given: what it promises is durable."""
    stored = world.stored
    if isinstance(reply, Receipt | ControlReceipt):
        _judge_receipt(world, mail, reply)
    elif isinstance(reply, Terminated):
        _must(world.durable.terminated_at is not None, "a reply rests on what is durable", reply)
    elif mail.verb == "terminate" and isinstance(reply, int):
        _must(reply == world.durable.terminated_at, "a reply rests on what is durable", reply)
    elif mail.verb == "delete" and reply is True:
        there = mail.how in stored.heard or any(row.input_id == mail.how for row in stored.rows)
        _must(not there, "a reply rests on what is durable", mail)
    elif reply is Withdrawal.WITHDRAWN:
        _must(mail.name in stored.withdrawn, "a reply rests on what is durable", reply)
    elif isinstance(reply, RespondStatus):
        _judge_status(world, mail, reply)
    elif reply is Refusal.FENCED:
        live = world.notes.owner == mail.target and world.notes.closed is None and mail.name != "late"
        _must(not live, "a live body is not fenced", mail)
    elif reply is Refusal.CANCELLED:
        _must(world.notes.source is not None, "only an interrupted body is cancelled", mail)


def _judge_status(world: World, mail: Mail, reply: RespondStatus) -> None:
    standing, notes = world.stored.standing(mail.how), world.notes
    if reply in (RespondStatus.ACCEPTED, RespondStatus.ALREADY_RESOLVED):
        _must(standing == "resolved", "a reply rests on what is durable", (mail, reply, standing))
    elif reply is RespondStatus.TIMED_OUT:
        _must(standing == "expired", "a reply rests on what is durable", (mail, reply, standing))
    elif reply is RespondStatus.CANCELLED:
        over = notes.source is not None or notes.closed is not None or notes.doomed
        _must(
            standing == "abandoned" or (standing == "pending" and over), "what is cancelled stays so", (mail, standing)
        )


def _judge_receipt(world: World, mail: Mail, reply: Receipt | ControlReceipt) -> None:
    name = mail.name if mail.verb in ("submit", "queue", "steer", "interrupt") else ""
    recorded = reply.disposition in _RECORDED
    prior = world.stored.prior(name) if name else None
    if name:
        _must((prior is not None) == recorded, "a receipt is recorded if and only if it accepts", (mail, reply))
        _must(prior is None or prior.receipt == reply, "a repeat returns the first receipt", (prior, reply))
    if recorded and name in world.script.tracked:
        first = dict(world.notes.first)
        _must(first.setdefault(name, reply) == reply, "a repeat returns the first receipt", (first[name], reply))
        world.notes = world.notes._replace(first=tuple(first.items()))
    if mail.verb in ("interrupt", "stop") and reply.disposition is Disposition.ACCEPTED:
        _judge_interrupted(world, reply.execution_id)
    if mail.verb == "resume" and reply.disposition is Disposition.ACCEPTED:
        over = world.durable.execution_id is None  # its FINISH was in the same batch
        _must(over or world.durable.execution_id == reply.execution_id, "resume names the active execution", reply)


def _judge_interrupted(world: World, execution_id: str | None) -> None:
    notes, body = world.notes, world.body
    if execution_id != world.state.active:
        return  # a repeat, answered after that execution is over
    told = body is None or body.told or body.execution != execution_id
    _must(told, "the body is told before `accepted` is said", body)
    _must(world.durable.interrupted_by or notes.unwritten, "a reply rests on what is durable", execution_id)
    if not notes.accepted:
        world.notes = notes._replace(accepted=True)


# After each step.


def judge_rest(world: World) -> None:
    """Judge how the parts of a world fit together between two steps."""
    state, flight, body = world.state, world.flight, world.body
    phase, durable = state.phase, world.durable
    freed = phase is Phase.IDLE and durable.execution_id is not None
    _must(not freed, "FINISH is durable before the slot is free", durable.execution_id)
    if flight is None:
        _must(state.facts.sequence == durable.sequence, "the live facts are the durable ones", state.facts.sequence)
        _must(world.live == world.stored, "the tables are the durable ones", world.live)
        running = phase in (Phase.RUNNING, Phase.STOPPING, Phase.FINISHING)
        _must(running == (durable.execution_id is not None), "no thread stays running without a life", phase)
        _must(phase is not Phase.STARTING, "STARTING is a batch in flight", phase)
    else:
        _must((phase is Phase.STARTING) == (flight.about is Batch.START), "STARTING is START in flight", phase)
    _must((phase is Phase.IDLE) == (state.active is None), "the slot is free exactly at rest", state.active)
    _must((phase is Phase.FINISHING) == (world.notes.closed is not None), "FINISHING is a settled end", phase)
    _must(phase is not Phase.IDLE or not world.live.pending, "no request outlives its execution", world.live.pending)
    reads = phase in (Phase.RUNNING, Phase.STOPPING)
    _must(reads or not world.waiting, "no wait outlives its execution", world.waiting)
    _must(
        world.stored.standing(world.waiting) in (None, "pending"), "a body has what its request came to", world.waiting
    )
    if body is not None:
        live = body.execution == state.active and phase in (Phase.RUNNING, Phase.STOPPING)
        _must(live, "only the live execution has a body", body)
    _must(not (world.notes.accepted and phase is Phase.RUNNING), "an accepted interrupt ends acceptance", phase)
