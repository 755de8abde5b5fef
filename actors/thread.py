"""Owns one thread's mailbox order: decide, commit, act. Never waits, never runs user code, judges nothing by itself.

Mail is decided by the rules of `protocol`, one batch goes to the store, and when the store answers what was decided is
done and said. Meanwhile all mail waits in order. The durable facts change only by folding; after a refused batch they
are read again from the last record that the store confirmed.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from ..protocol.decision import DECIDE, FINISHING, IDLE, Decision, State, Verdict
from ..protocol.decision import Batch as About
from ..protocol.errors import InternalError, OutcomeUnknown, TreadleError, shorten
from ..protocol.events import ExecutionFinished, ExecutionStarted, MessageAdded
from ..protocol.lifecycle import advance, committed, decide, durable, not_written
from ..protocol.triggers import Kind, SetValue, Trigger, Wake
from ..storage.batch import Answer
from ..storage.codec import decode_facts, encode_facts
from ..storage.keys import numbered
from ..storage.points import armed, reach
from ..storage.value_rows import value_row
from .acting import Acting
from .actor import VirtualActor
from .building import Building, Lookups
from .completing import complete
from .grounds import rests_on
from .mailbox import Mail, Mailbox
from .preparing import LOOK_UPS
from .services import new_id
from .thread_mail import Reload, Settled
from .waiting import Await, still_waited

if TYPE_CHECKING:
    from ..protocol.facts import Facts
    from .directory import Entry
    from .services import Services

__all__ = ["ThreadActor"]

AFTER_CONFIRM, AFTER_REPLY, BETWEEN = "after confirm before reply", "after reply", "between FINISH and the next START"
_START, _FINISH, _RETRY_DUE = About.START, About.FINISH, Kind.RETRY_DUE
_look_up_for = LOOK_UPS.get
_BY_THEMSELVES = frozenset({ExecutionStarted, MessageAdded, ExecutionFinished})
_STARTERS = frozenset({Kind.SUBMIT, Kind.QUEUE, Kind.RESUME, Kind.WAKE, Kind.RETRY_DUE})
# What nobody would say again: without it an execution has no end, or what waits no beginning.
_UNREPEATED = frozenset({Kind.BODY_ENDED, Kind.RELEASED, Kind.GRACE_EXPIRED, Kind.RETRY_DUE, Kind.WAKE})
_AT_ONCE = frozenset({Kind.SUBMIT, Kind.STEER, Kind.INTERRUPT, Kind.APPEND, Kind.CONSUME, Kind.RECORD_PROCESS, Kind.BODY_ENDED,
                      Kind.DEADLINE, Kind.GRACE_EXPIRED, Kind.REQUEST, Kind.RESPOND, Kind.REQUEST_EXPIRED,
                      Kind.CHANGE_AGENT})  # fmt: skip


class ThreadActor(VirtualActor):
    """The one incarnation of a thread that may write."""

    __slots__ = (
        "_acting", "_fell_with", "_flight", "_record", "_urgent", "_waiting", "entry", "life", "services", "state",
    )  # fmt: skip

    def __init__(self, mailbox: Mailbox, services: Services, entry: Entry, facts: Facts, life: int) -> None:
        super().__init__(mailbox)
        self.services = services
        self.entry = entry
        self.life = life
        self.state = State(facts)
        self._record = encode_facts(facts)
        self._flight: Building | None = None
        self._waiting: deque[Mail] | None = None  # in order, until the batch in flight is answered
        self._urgent: list[Mail] | None = None  # before any other mail: what the last act calls for
        self._fell_with: tuple[Mail, ...] = ()
        self._acting = Acting(self)
        self._acting.adopt_agent()

    @property
    def mail_waiting(self) -> int:
        """How much mail waits for the batch in flight."""
        return len(self._waiting) if self._waiting else 0

    @property
    def in_flight(self) -> str | None:
        """What the batch in flight is about, None without one."""
        return self._flight.about.value if self._flight is not None else None

    @property
    def acting(self) -> Acting:
        """The actions' side of this actor."""
        return self._acting

    def is_free(self) -> bool:
        """Say whether nothing would be lost with this actor."""
        return (
            self.state.phase is IDLE
            and self._flight is None
            and not self._waiting
            and not self._urgent
            and not self._acting.pinned
            and not (self.entry.waiters and still_waited(self.entry))
        )

    def receive(self, mail: Any) -> None:
        """Take one mail, or the store's answer; what this raises is a crash of this incarnation, dealt with by the supervisor."""
        # An answer comes by itself, or in a mail where it had to wait its turn.
        kind = type(mail)
        if kind is Building:
            self._answered(mail)
        elif kind is not Mail:
            super().receive(mail)
        elif type(mail.body) is Building:
            self._answered(mail.body)
        elif self._flight is not None:
            self._postpone(mail)
            return
        else:
            self._go_on(mail)
        if self._flight is None and self.state.phase is IDLE:
            self._acting.rest()

    def on_receive(self, message: Any) -> None:
        """Take a mail that was handed over as pykka does it; nothing else is known here."""
        if not isinstance(message, Mail):
            raise InternalError(f"thread {self.entry.thread_id!r} takes mail alone, not {shorten(message)}")
        self.receive(message)

    def take_urgent(self, trigger: Trigger) -> None:
        """Have a trigger decided before any other mail."""
        if self._urgent is None:
            self._urgent = []
        self._urgent.append(Mail(trigger))

    def go_on(self) -> None:
        """Decide what is urgent, with nothing in flight: the first act of a new incarnation."""
        self._go_on(None)

    def inherit(self, mails: list[Mail]) -> None:
        """Take over the mail that the last incarnation had postponed: it stands before all that came later."""
        if mails:
            self._waiting = deque(mails)
            for mail in mails:
                self.mailbox.keep(mail)

    def surrender(self) -> list[Mail]:
        """Return all mail that this incarnation took and has not answered, oldest first: after a crash."""
        return [*(mail for mail, _ in (self._flight.decided if self._flight is not None else ())), *self._fell_with]

    def postponed(self) -> list[Mail]:
        """Return and forget the mail that waits: after a crash it goes to the next incarnation."""
        mails = list(self._waiting or ())
        for mail in mails:
            self.mailbox.release(mail)
        self._waiting = None
        return mails

    def _postpone(self, mail: Mail) -> None:
        """Keep mail until the batch in flight is answered; once acceptance is closed, refusals are given at once."""
        flight = self._flight
        assert flight is not None
        if self.state.phase is FINISHING and isinstance(mail.body, Trigger) and mail.body.kind in _AT_ONCE:
            decision = self._judge(mail, flight)
            if decision is None:
                return
            if decision.verdict in (Verdict.REFUSE, Verdict.IGNORE) and not rests_on(flight, mail.body, decision):
                self._acting.reply(mail, decision)
                return
        if self._waiting is None:
            self._waiting = deque()
        self._waiting.append(mail)
        self.mailbox.keep(mail)

    def _go_on(self, mail: Mail | None) -> None:
        """Decide mail into one batch, in order, and hand it over: what is urgent first, then this, then what waited."""
        building: Building | None = None
        following: Mail | None = None
        try:
            while True:
                if self._urgent:
                    following = self._urgent.pop(0)
                elif mail is not None:
                    following, mail = mail, None
                elif self._waiting:
                    following = self._waiting.popleft()
                    self.mailbox.release(following)
                else:
                    break
                building = self._take(following, building)
                if building is not None and (building.closed or building.full()):
                    break
            if mail is not None:
                # Something urgent closed the batch before this mail's turn; it stands before what waited.
                self._waiting = self._waiting or deque()
                self._waiting.appendleft(mail)
                self.mailbox.keep(mail)
            if building is not None:
                self._hand_over(building)
        except BaseException:
            # This incarnation is over; what it had taken and not answered is told so by the supervisor.
            self._fell_with = (*self._fell_with, *(() if following is None else (following,)))
            if building is not None:
                self._fell_with += tuple(taken for taken, _ in building.decided)
            raise

    def _take(self, mail: Mail, building: Building | None) -> Building | None:
        """Decide one mail into the batch under way and return that."""
        trigger = mail.body
        if not isinstance(trigger, Trigger):
            self._answer_question(mail)
            return building
        decision = self._judge(mail, building)
        if decision is None:
            return building
        acting = self._acting
        if decision.verdict is not DECIDE:
            if building is not None:
                # It was judged on what is not durable yet, so it is said when that is.
                building.decided.append((mail, decision))
            else:
                acting.reply(mail, decision)
            return building
        if decision.events or decision.closes:
            building = self._build(mail, decision, building)
            advance(self.state, decision, trigger.now)
            for do in decision.at_once:
                acting.do(do, decision)
            return building
        advance(self.state, decision, trigger.now)
        if decision.at_once:
            acting.show_phase()  # before anybody hears of it: what is told or closed may look
            for do in decision.at_once:
                acting.do(do, decision)
        if building is not None:
            building.decided.append((mail, decision))
        else:
            acting.carry_out(mail, decision, None)
        return building

    def _answer_question(self, mail: Mail) -> None:
        """Answer mail that changes nothing."""
        if isinstance(mail.body, Await):
            self._acting.wait_for(mail.body, mail.reply)
        elif isinstance(mail.body, Settled):
            # Whatever the last life left behind was tried once by now: it is settled, or the store refused. What waited
            # may have started since, so an execution in the slot says nothing unless it is the lost one.
            assert mail.reply is not None
            mail.reply.set(self.state.active != mail.body.execution_id)

    def _build(self, mail: Mail, decision: Decision, building: Building | None) -> Building:
        facts = self.state.facts
        if building is None:
            building = Building(self.entry.number, facts, self.mailbox)
        events = decision.events
        # Nearly every batch: one event, which is all that has to be known to write it.
        if len(events) != 1 or type(events[0]) not in _BY_THEMSELVES or (facts.processes and decision.batch is _FINISH):
            if not events:
                building.entomb(facts)
            complete(building, mail.body, decision, self.lookups(building), facts)
        trigger: Any = mail.body
        building.take(mail, decision, trigger.now)
        if type(trigger) is SetValue:
            building.add_value(*value_row(building.prefix, trigger.key, trigger.encoded))
        return building

    def lookups(self, building: Building | None) -> Lookups:
        """Return what looks up for a decision into this batch; see `Source`."""
        return Lookups(self.services.store, self.entry.number, self.state.facts, building)

    def _judge(self, mail: Mail, building: Building | None) -> Decision | None:
        """Decide one mail; None where that failed: it costs this mail only, or this life where nobody would send it again."""
        trigger: Any = mail.body
        state, kind = self.state, trigger.kind
        last = state.facts.last_time
        now = self.services.clock.now_us()
        if now <= last:
            now = last + 1
        trigger.now = now
        if kind in _STARTERS:
            if kind is _RETRY_DUE:
                self._acting.retry_taken()
            if state.phase is IDLE:
                trigger.new_id = new_id(now)
        try:
            look_up = _look_up_for(kind)
            if look_up is not None:
                look_up(trigger, state, self, building)
            return decide(state, trigger)
        except TreadleError as error:
            failure: TreadleError = error
        except Exception as error:  # noqa: BLE001 - nothing was folded: the mail fails, the execution goes on
            thread_id = self.entry.thread_id
            failure = InternalError(f"deciding {kind} on thread {thread_id!r} failed: {error!r}", thread_id=thread_id)
            failure.__cause__ = error
        self.services.report("decide_failed", {"thread_id": self.entry.thread_id, "error": failure})
        if kind in _UNREPEATED:
            raise failure  # the next life settles what this one cannot: nothing may be left running
        if mail.reply is not None:
            mail.reply.fail(failure)
        return None

    def _hand_over(self, building: Building) -> None:
        self._flight = building
        building.seal(self.state.facts, self.services.boot.number, self.life)
        self.services.store.commit(building)
        if self._waiting and self.state.phase is FINISHING:
            # What waited for an earlier batch must not wait for FINISH, and a START behind it, to be refused.
            waiting = self.postponed()[::-1]
            try:
                while waiting:
                    self._postpone(waiting[-1])
                    waiting.pop()
            finally:
                self._fell_with += tuple(waiting)

    def _answered(self, building: Building) -> None:
        answer = building.answer
        if building is not self._flight:
            # Handed over by a life that crashed: this one has read what became of it.
            if answer.change:
                self.services.hub.change_published(answer.change)
            return
        # In flight until all is said: a crash on the way answers what was not.
        if answer.kind == "committed":
            self._committed(building, answer)
        elif answer.kind == "not_written":
            assert answer.error is not None
            self._not_written(building, answer.error)
        else:
            raise Reload from OutcomeUnknown(
                f"whether thread {self.entry.thread_id!r} was written cannot be told; repeat with the same id",
                thread_id=self.entry.thread_id,
            )
        self._flight = None
        if self._urgent or self._waiting:
            self._go_on(None)

    def _committed(self, building: Building, answer: Answer) -> None:
        """Fold, show, publish, dispatch, reply, wake: in this order."""
        about = building.about
        acting, services = self._acting, self.services
        watched = armed()  # a test may stop or break this worker at a named point
        if watched:
            _reach_committed(committed(about).kind, building)
        self._record = building.record
        verifier = services.verifier
        if verifier is not None and not building.tombstone:
            verifier.committed(self.entry.number, self.state.facts)
        decision: Decision | None = None
        if about is _START or about is _FINISH:
            # By the table, the rows of all other answers change nothing: what was decided is done and said.
            decision = durable(self.state, about)
            if about is _FINISH:
                acting.free(building)
        try:
            acting.publish(building, answer.change)
            for _, one in building.decided:
                for do in one.actions:
                    acting.do(do, one, building)
            for mail, one in building.decided:
                if mail.reply is not None:
                    acting.reply(mail, one, building)
            # A wait for the live execution may be kept at any moment, so its end looks under their lock.
            if about is _FINISH or self.entry.waiters:
                acting.resolve(building)
        finally:
            # A change number that is never published would hold up every store-wide watcher.
            services.hub.flush(self.entry)
        if watched:
            reach(AFTER_REPLY)
            if about is _FINISH:
                reach(BETWEEN)
        if decision is not None:
            for do in decision.actions:
                acting.do(do, decision)

    def _not_written(self, building: Building, error: TreadleError) -> None:
        """Nothing happened: take the facts back, and say so."""
        self.state.facts = decode_facts(self._record, numbered(self.entry.number))
        trigger = not_written(building.about, error.code, error.message, building.interruption)
        trigger.now = max(self.services.clock.now_us(), self.state.facts.last_time + 1)
        decision = decide(self.state, trigger)
        advance(self.state, decision, trigger.now)
        for do in decision.at_once:
            self._acting.do(do, decision)
        self._acting.show_phase()
        for mail, decided in building.decided:
            self._acting.refuse(mail, decided, error)
        if error.code == "append_conflict":
            raise Reload from error

    def wake(self) -> None:
        """Look for waiting rows before other mail."""
        self.take_urgent(Wake())


def _reach_committed(about: str, building: Building) -> None:
    """Pass the points of a confirmed batch: its own, and those named after what it was about and its events."""
    reach(AFTER_CONFIRM)
    reach(about)
    for _, _, event in building.events:
        reach(f"{event.type} committed")
