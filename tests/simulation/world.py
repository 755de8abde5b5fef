"""Owns a pure world of one thread: its rules, what a store would hold, and an actor, a body and a clock as plain data.

The world is the shell that the rules need, reduced to what matters: one batch in flight, mail that waits meanwhile,
replies after the commit, what was refused undone. A step changes a clone; what is judged on the way stands in
`oracles`. Time is the number of what was recorded, ids count executions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from treadle.protocol import lifecycle
from treadle.protocol.decision import Action, Batch, Decision, Do, Phase, Refusal, State, Verdict
from treadle.protocol.errors import RequestExpired, StorageFull, ThreadTerminated, TreadleError
from treadle.protocol.events import (
    ControlRecorded,
    Event,
    ExecutionInterrupted,
    ExecutionStarted,
    InputQueued,
    InputWithdrawn,
    MessageAdded,
    MessageDeleted,
    MessagesJoined,
    MessageUpdated,
    RequestOpened,
    RequestTerminated,
    ThreadCreated,
)
from treadle.protocol.facts import Facts
from treadle.protocol.inbox import Row
from treadle.protocol.message_edits import Changes, DeleteMessage, Found, MessageEdit, UpdateMessage
from treadle.protocol.open_calls import OpenCall
from treadle.protocol.recorded import receipt_of, recorded_id
from treadle.protocol.triggers import (
    Append,
    Ask,
    BodyEnded,
    Consume,
    Deadline,
    Expire,
    GraceExpired,
    Interrupt,
    Lost,
    Prior,
    Queue,
    Released,
    Respond,
    Resume,
    RetryDue,
    Standing,
    Steer,
    Stop,
    Submit,
    Terminate,
    Trigger,
    Wake,
    Withdraw,
)

from . import oracles
from .script import INPUTS, Script, Step

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["EDITED", "Body", "Flight", "Mail", "Stored", "World"]


class Mail(NamedTuple):
    """One mail to the actor: its verb, the id it is answered under, the execution it means, and how, or which request."""

    verb: str
    name: str = ""
    target: str = ""
    how: str = ""


class Body(NamedTuple):
    """The body of the live execution: whether it was told to stop, and whether it waits for an answer."""

    execution: str
    told: bool = False
    asking: bool = False


class Flight(NamedTuple):
    """The batch that the store has: what it is about, each mail with its decision, and the events."""

    about: Batch
    entries: tuple[tuple[Mail, Decision], ...]
    events: tuple[tuple[int, Event], ...]
    interruption: ExecutionInterrupted | None
    ids: frozenset[str]  # recorded in it, so not yet durable


class Stored(NamedTuple):
    """What is durable beside the facts, or will be: the tables of one thread."""

    rows: tuple[Row, ...] = ()
    receipts: tuple[tuple[str, Prior], ...] = ()
    withdrawn: frozenset[str] = frozenset()
    calls: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()
    ended: tuple[tuple[str, Standing], ...] = ()
    heard: frozenset[str] = frozenset()  # inputs whose message is in history
    history: int = 0  # messages in it

    def standing(self, request_id: str) -> Standing | None:
        """Return how a request stands."""
        return "pending" if request_id in self.pending else dict(self.ended).get(request_id)

    def prior(self, given: str) -> Prior | None:
        """Return what is recorded under an id."""
        for name, prior in self.receipts:
            if name == given:
                return prior
        return None

    def take(self, event: Event, sequence: int, at: int) -> Stored:
        """Return the tables after one more event."""
        change = _CHANGES.get(type(event))
        return self if change is None else change(self, event, sequence, at)


def _input(stored: Stored, event: InputQueued, sequence: int, at: int) -> Stored:
    row = Row(sequence, event.kind, event.input_id, event.execution_id, 1, 0, event.size, event.first, event.timeout)
    rows = tuple(sorted((*stored.rows, row), key=lambda one: (not one.first, one.sequence)))
    prior = (event.input_id, Prior(event.digest, receipt_of(event, at)))
    return stored._replace(rows=rows, receipts=(*stored.receipts, prior))


def _receipt(stored: Stored, event: ExecutionStarted, sequence: int, at: int) -> Stored:
    if event.cause != "submit":
        return stored
    stored = stored._replace(heard=stored.heard | {event.input_id or ""}, history=stored.history + len(event.messages))
    prior = (event.input_id or "", Prior(event.digest, receipt_of(event, at)))
    return stored._replace(receipts=(*stored.receipts, prior))


def _control(stored: Stored, event: ExecutionInterrupted | ControlRecorded, sequence: int, at: int) -> Stored:
    if event.control_id is None:
        return stored
    prior = (event.control_id, Prior(event.digest, receipt_of(event, at)))
    return stored._replace(receipts=(*stored.receipts, prior))


def _joined(stored: Stored, event: MessagesJoined, sequence: int, at: int) -> Stored:
    gone = {row[0] for row in event.rows}
    heard = stored.heard | {row.input_id for row in stored.rows if row.sequence in gone}
    rows = tuple(row for row in stored.rows if row.sequence not in gone)
    return stored._replace(rows=rows, heard=heard, history=stored.history + sum(row[2] for row in event.rows))


def _withdrawn(stored: Stored, event: InputWithdrawn, sequence: int, at: int) -> Stored:
    rows = tuple(row for row in stored.rows if row.sequence != event.row[0])
    return stored._replace(rows=rows, withdrawn=stored.withdrawn | {event.input_id})


def _message(stored: Stored, event: MessageAdded, sequence: int, at: int) -> Stored:
    draft = event.message
    stored = stored._replace(history=stored.history + 1)
    calls = (*stored.calls, *draft.get("calls", ()))
    if draft.get("closes"):
        calls = tuple(call for call in calls if call != draft["tool_call_id"])
    return stored if calls == stored.calls else stored._replace(calls=calls)


def _request(stored: Stored, event: RequestOpened, sequence: int, at: int) -> Stored:
    return stored._replace(pending=(*stored.pending, event.request_id))


def _answered(stored: Stored, event: RequestTerminated, sequence: int, at: int) -> Stored:
    pending = tuple(one for one in stored.pending if one != event.request_id)
    return stored._replace(pending=pending, ended=(*stored.ended, (event.request_id, event.status)))


def _updated(stored: Stored, event: MessageUpdated, sequence: int, at: int) -> Stored:
    told = event.row
    if told is None:
        return stored
    rows = [
        row._replace(size=told[4], edits=tuple((rank, edited) for rank, edited in told[5]))
        if row.sequence == told[0]
        else row
        for row in stored.rows
    ]
    return stored._replace(rows=tuple(rows))


def _deleted(stored: Stored, event: MessageDeleted, sequence: int, at: int) -> Stored:
    return stored._replace(heard=stored.heard - {event.message_id.removesuffix("-m")}, history=stored.history - 1)


_CHANGES: dict[type[Event], Callable[..., Stored]] = {
    InputQueued: _input,
    ExecutionStarted: _receipt,
    ExecutionInterrupted: _control,
    ControlRecorded: _control,
    MessagesJoined: _joined,
    InputWithdrawn: _withdrawn,
    MessageAdded: _message,
    RequestOpened: _request,
    RequestTerminated: _answered,
    MessageUpdated: _updated,
    MessageDeleted: _deleted,
}

_RECOVERY = {"boot_id": "boot", "cause": "process", "dispatched": True}
_DRAFT_SIZE = 10


class World:
    """One thread with everything around it. `step` returns the world after one more step; this one stays as it is.

    Attributes:
        left: what of the script's budget is left.
        state: what the rules see: facts with the batch under way folded in, and the phase.
        durable: the facts that the store holds, folded from the journal alone.
        live, stored: the tables with the batch under way, and as the store holds them.
        known: the execution id that callers saw last; `asked` the request id.
        waiting, expiring: the request that the live body waits for, and the one whose time runs.
        late: abandoned bodies that have not given up.
        retry, grace, releasing, deadline: timers and the release that are under way; the last three name an execution.
        notes: what the oracles remember of the past.
        log: what was durably recorded and answered, where somebody wants it (`World(script, logged=True)`).
    """

    __slots__ = (
        "_entries",
        "_events",
        "_owned",
        "asked",
        "body",
        "deadline",
        "durable",
        "expiring",
        "flight",
        "grace",
        "known",
        "late",
        "left",
        "live",
        "log",
        "mail",
        "notes",
        "releasing",
        "retry",
        "script",
        "state",
        "stored",
        "waiting",
    )  # fmt: skip

    def __init__(self, script: Script, *, logged: bool = False) -> None:
        self.script = script
        self.left = dict(script.budget)
        created = ThreadCreated(thread_id="t", agent_id="a", user_id=None, arguments=None, tags=[], env=None)
        self.durable = Facts()
        self.durable.fold(created, 1)
        self.state = State(self.durable)
        self.state.agent_timeout = 60.0
        self.live = self.stored = Stored()
        self.mail: tuple[Mail, ...] = ()
        self.flight: Flight | None = None
        self.body: Body | None = None
        self.late: tuple[str, ...] = ()
        self.known = "e0"
        self.asked = "r0"
        self.waiting = self.expiring = ""
        self.retry = False
        self.grace = self.releasing = self.deadline = ""
        self.notes = oracles.Notes()
        self.log: list[tuple[str, object]] | None = [] if logged else None
        self._owned = False
        self._entries: list[tuple[Mail, Decision]] = []
        self._events: list[tuple[int, Event]] = []

    def clone(self) -> World:
        """Return a world that can go on without changing this one."""
        new = World.__new__(World)
        for name in _SLOTS:
            setattr(new, name, getattr(self, name))
        new.left = self.left.copy()
        new.state = state = State.__new__(State)
        for name in State.__slots__:
            setattr(state, name, getattr(self.state, name))
        if self.log is not None:
            new.log = self.log.copy()
        new._owned = self._owned = False
        new._entries = []
        new._events = []
        return new

    # What may happen next.

    def steps(self) -> list[Step]:
        """Return every step that is possible now."""
        found = [Step("send", name) for name in self._sendable()]
        left = self.left
        if self.flight is not None:
            found.append(Step("commit"))
            if left.get("refuse"):
                found.append(Step("refuse"))
            if left.get("crash"):
                found += [Step("crash", "written"), Step("crash", "unwritten")]
        else:
            if self.mail:
                found.append(Step("turn"))
            if left.get("crash"):
                found.append(Step("crash"))
        if self.body is not None and not self.body.asking:
            found += [Step("body", how) for how in (*self.script.ends, *self._asks())]
            if left.get("lost"):
                found.append(Step("lost"))
        if self.late:
            late = (
                ("append", "queue", "returned", "edit")
                if "edit" in self.script.asks
                else ("append", "queue", "returned")
            )
            found += [Step("late", how) for how in late]
        if self.releasing:
            found.append(Step("released"))
        if self.retry:
            found.append(Step("retry"))
        if self.grace and left.get("grace"):
            found.append(Step("grace"))
        if self.deadline and left.get("deadline"):
            found.append(Step("deadline"))
        if self.expiring and left.get("expire"):
            found.append(Step("expire"))
        return found

    def _sendable(self) -> list[str]:
        left, budget = self.left, self.script.budget
        if self.script.window <= sum(1 for mail in self.mail if mail.verb in INPUTS):
            return []
        names = [f"{verb}{budget[verb] - left[verb] + 1}" for verb in INPUTS if left.get(verb)]
        if "repeat1" in names and left["submit"] == budget["submit"]:
            names.remove("repeat1")
        return names

    def _asks(self) -> list[str]:
        asks = [ask for ask in self.script.asks if ask != "result" or self.live.calls]
        if len(self.live.calls) >= 1 and "call" in asks:
            asks.remove("call")
        if (self.live.pending or self.waiting) and "ask" in asks:
            asks.remove("ask")
        return asks

    def step(self, step: Step) -> World:
        """Return the world after a step. Raises: Violation: an invariant does not hold on the way."""
        new = self.clone()
        _STEPS[step.kind](new, step.about)
        if new.mail and new.flight is None and (step.kind in _ANSWERS or new.script.eager):
            new._turn("")
        oracles.judge_rest(new)
        return new

    # The steps.

    def mail_of(self, name: str) -> Mail:
        """Return the mail that `send` with this name would post now: a control means the execution that callers saw last."""
        verb, rank = name.rstrip("0123456789"), int(name.lstrip("abcdefghijklmnopqrstuvwxyz"))
        if verb == "submit":
            return Mail("submit", name, how=self.script.busy(rank))
        if verb == "repeat":
            return Mail("submit", "submit1", how=self.script.busy(1))
        if verb == "withdraw":
            return Mail("withdraw", "queue1")
        if verb in ("update", "delete"):
            return Mail(verb, name, how=EDITED[rank % len(EDITED)])
        if verb == "respond":
            return Mail("respond", name, how=self.asked)
        if verb in ("steer", "interrupt"):
            # Every second interrupt can be repeated: it has an id of its own.
            return Mail(verb, "" if verb == "interrupt" and rank % 2 else name, self.known)
        return Mail(verb, name)

    def _send(self, name: str) -> None:
        self.left[name.rstrip("0123456789")] -= 1
        self._post(self.mail_of(name))

    def _post(self, mail: Mail) -> None:
        self.mail = (*self.mail, mail)
        if self.flight is not None:
            self._refuse_early()

    def _turn(self, about: str) -> None:
        while self.mail and self.flight is None:
            mail, self.mail = self.mail, ()
            for rank, one in enumerate(mail):
                if self._decide(one).closes:
                    self.mail = mail[rank + 1 :]
                    break
            self._hand_over()

    def _refuse_early(self) -> None:
        """While FINISH is in flight refusals are given at once; what writes keeps its place."""
        if self.state.phase is not Phase.FINISHING:
            return
        kept = []
        for mail in self.mail:
            if mail.verb in _AT_ONCE:
                decision = lifecycle.decide(self.state, self._trigger(mail))
                if decision.verdict is Verdict.REFUSE and not self._rests_on_flight(mail, decision):
                    self._reply(mail, decision)
                    continue
            kept.append(mail)
        self.mail = tuple(kept)

    def _rests_on_flight(self, mail: Mail, decision: Decision) -> bool:
        assert self.flight is not None
        if isinstance(decision.reply, ThreadTerminated):
            return self.durable.terminated_at is None
        if mail.verb == "respond":
            standing = self.live.standing(mail.how)
            return standing in ("resolved", "expired") and standing != self.stored.standing(mail.how)
        return mail.name in self.flight.ids

    def _commit(self, about: str) -> None:
        flight = self.flight
        assert flight is not None
        self.flight = None
        self._write(flight)
        decision = lifecycle.decide(self.state, lifecycle.committed(flight.about))
        lifecycle.advance(self.state, decision, 0)
        self._drop_timers()
        for _, decided in flight.entries:
            self._act(decided.actions)
        for mail, decided in flight.entries:
            self._reply(mail, decided)
        wakes = any(do.action is Action.WAKE for _, one in flight.entries for do in one.actions)
        if wakes or any(do.action is Action.WAKE for do in decision.actions):
            self._decide(Mail("wake"))
            self._hand_over()

    def _write(self, flight: Flight) -> None:
        durable = self.durable.copy()
        for at, event in flight.events:
            durable.fold(event, at)
            if isinstance(event, RequestOpened):
                self.asked = event.request_id
            if self.log is not None:
                self.log.append(("event", event))
        before, self.durable = self.durable, durable
        self.stored = self.live
        oracles.judge_commit(self, flight, before)

    def _refuse(self, about: str) -> None:
        self.left["refuse"] -= 1
        flight = self.flight
        assert flight is not None
        self.flight = None
        self._restore()
        answer = lifecycle.not_written(flight.about, "storage_full", "The disk is full.", flight.interruption)
        answer.now = self.state.facts.last_time + 1
        decision = lifecycle.decide(self.state, answer)
        oracles.judge_refusal(self, flight, decision)
        lifecycle.advance(self.state, decision, 0)
        self._drop_timers()
        self._act(decision.at_once)
        for mail, decided in flight.entries:
            if mail.verb == "expire":
                # Its body must not wait for ever because its time ran out on a full disk.
                self.expiring = mail.how if self.waiting == mail.how else ""
            elif decided.reply is not None or mail.verb in _WAITED:
                self._answer(mail, StorageFull("The disk is full."))

    def _restore(self) -> None:
        self.state.facts = self.durable
        self._owned = False
        self.live = self.stored

    def _crash(self, about: str) -> None:
        self.left["crash"] -= 1
        if about == "written":
            assert self.flight is not None
            self._write(self.flight)
        self.flight, self.mail = None, ()
        self.body, self.late = None, ()
        self.retry, self.grace, self.releasing, self.deadline = False, "", "", ""
        self.waiting = self.expiring = ""
        self.live = self.stored
        facts = self.durable
        self.state = state = State(facts)
        self._owned = False
        state.agent_timeout = 60.0
        oracles.note_crash(self)
        if facts.execution_id is not None:
            state.active = facts.execution_id
            state.resumes = self.script.resumes
            self._decide(Mail("lost", target=facts.execution_id))
        elif facts.rows or facts.resuming:
            self._decide(Mail("wake"))
        self._hand_over()

    def _lost(self, about: str) -> None:
        self.left["lost"] -= 1
        assert self.body is not None
        self._post(Mail("lost", target=self.body.execution))
        self.body = None

    def _move(self, about: str) -> None:
        body = self.body
        assert body is not None
        if about == "ask" and body.told:
            # Refused where it is made, as all that begins something.
            self.waiting = "refused"
            self._wait_over(Refusal.CANCELLED)
        elif about in _WAITED:
            self.body = body._replace(asking=True)
            asked = ""
            if about == "ask":
                # The wait and its time begin before the actor hears of it.
                asked = self.waiting = f"r{len(self.live.pending) + len(self.live.ended) + 1}"
                self.expiring = asked if "expire" in self.left else ""
            self._post(Mail(about, target=body.execution, how=EDITED[0] if about == "edit" else asked))
        else:
            self.body = None
            self._post(Mail("ended", target=body.execution, how=about))

    def _move_late(self, about: str) -> None:
        execution, self.late = self.late[0], self.late[1:]
        if about == "returned":
            self._post(Mail("ended", target=execution, how=about))
        else:
            self._post(Mail(about, "late", execution, EDITED[0] if about == "edit" else ""))

    def _release(self, about: str) -> None:
        execution, self.releasing = self.releasing, ""
        self._post(Mail("released", target=execution))

    def _fire_retry(self, about: str) -> None:
        self.retry = False
        self._post(Mail("retry"))

    def _fire_grace(self, about: str) -> None:
        self.left["grace"] -= 1
        execution, self.grace = self.grace, ""
        self._post(Mail("grace", target=execution))

    def _fire_deadline(self, about: str) -> None:
        self.left["deadline"] -= 1
        execution, self.deadline = self.deadline, ""
        self._post(Mail("deadline", target=execution))

    def _fire_expiry(self, about: str) -> None:
        self.left["expire"] -= 1
        asked, self.expiring = self.expiring, ""
        self._post(Mail("expire", target=self.state.active or "", how=asked))

    def _wait_over(self, reply: object) -> None:
        """The body's wait for a request ends."""
        if self.waiting:
            self.waiting = self.expiring = ""
            if self.log is not None:
                self.log.append(("ask", reply))

    # Decide, commit, act.

    def _decide(self, mail: Mail) -> Decision:
        state = self.state
        trigger = self._trigger(mail)
        decision = lifecycle.decide(state, trigger)
        oracles.judge_decision(self, mail, trigger, decision)
        if decision.events:
            if not self._owned:
                state.facts = state.facts.copy()
                self._owned = True
            sequence = state.facts.sequence
            for rank, event in enumerate(decision.events):
                self._events.append((trigger.now + rank, event))
                self.live = self.live.take(event, sequence + rank + 1, trigger.now + rank)
        lifecycle.advance(state, decision, trigger.now)
        if mail.verb == "lost" and decision.ending is not None:
            state.resumes = self.script.resumes
        oracles.judge_held(self)
        self._act(decision.at_once)
        if self._events:
            self._entries.append((mail, decision))
        else:
            self._act(decision.actions)
            self._reply(mail, decision)
        return decision

    def _hand_over(self) -> None:
        if not self._events:
            return
        about, interruption = Batch.OTHER, None
        for _, decision in self._entries:
            if decision.batch in (Batch.START, Batch.FINISH) or about is Batch.OTHER:
                about = decision.batch
        for _, event in self._events:
            if interruption is None and isinstance(event, ExecutionInterrupted):
                interruption = event
        ids = frozenset(filter(None, [recorded_id(event) for _, event in self._events]))
        self.flight = Flight(about, tuple(self._entries), tuple(self._events), interruption, ids)
        self._entries, self._events = [], []
        self._refuse_early()

    def _act(self, actions: tuple[Do, ...]) -> None:
        for action, about in actions:
            oracles.judge_action(self, action, about)
            if action in (Action.DISPATCH, Action.PASS):
                assert self.state.active is not None
                self.body = Body(self.state.active)
                self.known = self.state.active
                if action is Action.DISPATCH and "deadline" in self.left:
                    self.deadline = self.state.active
            elif action is Action.ANSWER:
                request_id, status, value = about
                if request_id == self.waiting:
                    self._wait_over(value if status == "resolved" else RequestExpired("Nobody answered."))
            elif action is Action.TELL:
                self._wait_over(Refusal.CANCELLED)
                if self.body is not None and self.body.execution == about.execution_id:
                    self.body = self.body._replace(told=True)
            elif action is Action.GRACE:
                self.grace = self.state.active or ""
            elif action is Action.FENCE:
                self._wait_over(Refusal.FENCED)
                if self.body is not None:
                    self.late = (*self.late, self.body.execution)
                self.body = None
            elif action is Action.RELEASE:
                self.releasing = self.state.active or ""
            elif action is Action.RETRY:
                self.retry = True

    def _drop_timers(self) -> None:
        """With the slot go the timers of whoever had it."""
        if self.state.phase is Phase.IDLE:
            self.grace = self.deadline = ""

    def _reply(self, mail: Mail, decision: Decision) -> None:
        if decision.reply is not None or mail.verb in _WAITED:
            self._answer(mail, decision.reply)

    def _answer(self, mail: Mail, reply: object) -> None:
        oracles.judge_reply(self, mail, reply)
        if mail.verb == "ask":
            if isinstance(reply, Refusal | TreadleError) and self.waiting == mail.how:
                self._wait_over(reply)
        elif mail.verb != "expire" and self.log is not None:
            self.log.append((mail.name or mail.verb, reply))
        if (
            mail.verb in _WAITED
            and self.body is not None
            and mail.target == self.body.execution
            and mail.name != "late"
        ):
            self.body = Body(mail.target, self.body.told or isinstance(reply, Refusal))

    def _trigger(self, mail: Mail) -> Trigger:
        trigger = _TRIGGERS[mail.verb](self, mail)
        trigger.now = self.state.facts.last_time + 1
        trigger.new_id = f"e{self.state.facts.executions + 1}"
        return trigger

    def _input(self, mail: Mail, trigger: Submit | Steer | Queue) -> Trigger:
        trigger.prior = self.live.prior(mail.name)
        trigger.rows = list(self.live.rows)
        return trigger

    def _closing(self, trigger: BodyEnded | Released | RetryDue | Lost) -> Trigger:
        trigger.rows = list(self.live.rows)
        trigger.open_calls = [OpenCall(call_id) for call_id in self.live.calls]
        trigger.pending = list(self.live.pending)
        return trigger

    def _with_rows(self, trigger: Consume | Resume | Wake) -> Trigger:
        trigger.rows = list(self.live.rows)
        return trigger

    def _interrupt(self, mail: Mail) -> Trigger:
        control = mail.name or None
        trigger = Interrupt(
            mail.target, hold=self.script.hold, control_id=control, digest=control.encode() if control else None
        )
        trigger.prior = self.live.prior(mail.name)
        return trigger

    def _withdraw(self, mail: Mail) -> Trigger:
        trigger = Withdraw(mail.name)
        trigger.row = next((row for row in self.live.rows if row.input_id == mail.name), None)
        trigger.known = self.live.prior(mail.name) is not None
        trigger.withdrawn = mail.name in self.live.withdrawn
        return trigger

    def _edit(self, mail: Mail, trigger: MessageEdit) -> Trigger:
        live, name = self.live, mail.how
        row = next((row for row in live.rows if row.input_id == name), None)
        if row is not None or name in live.heard:
            draft = {"id": f"{name}-m", "role": "user", "content": name}
            place = [0 if row is None else row.sequence, 0, 0, 0 if row is None else None]
            trigger.found = Found(draft, place, lambda draft: draft, row=row)  # type: ignore[arg-type,return-value]
        return trigger

    def _append(self, mail: Mail) -> Trigger:
        event = MessageAdded(execution_id=mail.target, message=_APPENDED[mail.verb])
        trigger = Append(mail.target, event, _DRAFT_SIZE)
        trigger.open_call = mail.verb != "result" or bool(self.live.calls)
        return trigger

    def _standing(self, mail: Mail, trigger: Ask | Respond | Expire) -> Trigger:
        trigger.standing = self.live.standing(mail.how)
        return trigger


_SLOTS = tuple(name for name in World.__slots__ if name not in ("_entries", "_events", "state", "left"))
_ANSWERS = frozenset({"commit", "refuse", "crash"})  # what waited for an answer is decided with it
_AT_ONCE = frozenset({"submit", "steer", "interrupt", "append", "consume", "call", "result", "ask", "respond"})
_ASKS = frozenset({"append", "consume", "call", "result", "ask"})
_WAITED = _ASKS | {"edit"}  # what a body waits for
EDITED = ("queue1", "steer1")  # the inputs whose messages are edited
_APPENDED = {
    "append": {"id": "m", "role": "assistant", "content": "said"},
    "call": {"id": "m", "role": "assistant", "content": "call", "calls": ["c"]},
    "result": {"id": "m", "role": "tool", "content": "done", "tool_call_id": "c", "closes": True},
}
_STEPS: dict[str, Callable[[World, str], None]] = {
    "send": World._send,
    "turn": World._turn,
    "commit": World._commit,
    "refuse": World._refuse,
    "crash": World._crash,
    "lost": World._lost,
    "body": World._move,
    "late": World._move_late,
    "released": World._release,
    "retry": World._fire_retry,
    "grace": World._fire_grace,
    "deadline": World._fire_deadline,
    "expire": World._fire_expiry,
}


def _drafts(name: str) -> list[dict[str, object]]:
    return [{"id": f"{name}-m", "role": "user", "content": name}]


def _ended(mail: Mail) -> BodyEnded:
    if mail.how == "stopped":
        return BodyEnded(mail.target, "returned", stopped=True)
    if mail.how == "raised":
        return BodyEnded(mail.target, "raised", error_type="ValueError", error_message="bad")
    return BodyEnded(mail.target, mail.how)  # type: ignore[arg-type]


_TRIGGERS: dict[str, Callable[[World, Mail], Trigger]] = {
    "submit": lambda w, m: w._input(m, Submit(m.name, _drafts(m.name), _DRAFT_SIZE, m.name.encode(), m.how)),  # type: ignore[arg-type]
    "steer": lambda w, m: w._input(m, Steer(m.name, _drafts(m.name), _DRAFT_SIZE, m.name.encode(), m.target)),
    "queue": lambda w, m: w._input(
        m,
        Queue(m.name, _drafts(m.name), _DRAFT_SIZE, m.name.encode(), m.target or None, m.target or None),
    ),
    "interrupt": World._interrupt,
    "withdraw": World._withdraw,
    "stop": lambda w, m: Stop(),
    "resume": lambda w, m: w._with_rows(Resume()),
    "terminate": lambda w, m: Terminate(),
    "append": World._append,
    "call": World._append,
    "result": World._append,
    "update": lambda w, m: w._edit(m, UpdateMessage(f"{m.how}-m", Changes("other"))),
    "delete": lambda w, m: w._edit(m, DeleteMessage(f"{m.how}-m")),
    "edit": lambda w, m: w._edit(m, UpdateMessage(f"{EDITED[0]}-m", Changes("mine"), m.target)),
    "ask": lambda w, m: w._standing(m, Ask(m.target, m.how, "approval", None)),
    "respond": lambda w, m: w._standing(m, Respond(m.how, True, True)),
    "expire": lambda w, m: w._standing(m, Expire(m.target, m.how)),
    "consume": lambda w, m: w._with_rows(Consume(m.target)),
    "ended": lambda w, m: w._closing(_ended(m)),
    "released": lambda w, m: w._closing(Released(m.target)),
    "retry": lambda w, m: w._closing(RetryDue()),
    "lost": lambda w, m: w._closing(Lost(m.target, **_RECOVERY)),  # type: ignore[arg-type]
    "wake": lambda w, m: w._with_rows(Wake()),
    "grace": lambda w, m: GraceExpired(m.target),
    "deadline": lambda w, m: Deadline(m.target),
}
