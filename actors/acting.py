"""Owns what an actor does once a decision stands: dispatch, tell, release, retry, show, publish, reply. Decides nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..protocol.cursors import Cursor
from ..protocol.decision import IDLE, Action, Decision, Do, Refusal
from ..protocol.errors import TreadleError
from ..protocol.events import (
    ExecutionFinished,
    ExecutionInterrupted,
    ExecutionLost,
    ExecutionStarted,
    JournalEvent,
)
from ..protocol.executions import ExecutionRecord, record_of
from ..protocol.messages import said
from ..protocol.receipts import Receipt
from ..protocol.triggers import Deadline, GraceExpired, Kind, Released, RetryDue, Wake
from ..storage.pages import to_message
from .execution import Execution
from .fence import ExecutionCancelled, ExecutionFenced
from .intensity import retry_delay
from .mailbox import Mail
from .new_messages import new_messages
from .passes import begin_pass
from .release import release
from .reply import Reply
from .snapshot import Blocked, Shown, shown_owner
from .waiting import Await, fail_waiters, register, resolve

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..protocol.events import RequestEnd
    from ..protocol.values import Value
    from .building import Building
    from .clock import Timer
    from .thread import ThreadActor

__all__ = ["Acting"]

_APPEND, _INJECT, _CONSUME = Kind.APPEND, Kind.INJECT, Kind.CONSUME


class Acting:
    """The acting side of one thread's actor; only its dispatcher worker calls it.

    Attributes:
        live: the execution whose body is out, None while the slot is free.
        blocked: the commit that the store refuses, None when there is none.
    """

    __slots__ = (
        "_actor", "_deadline", "_grace", "_last", "_owned", "_retry", "_start", "blocked", "entry", "live", "services",
    )  # fmt: skip

    def __init__(self, actor: ThreadActor) -> None:
        self._actor = actor
        self.services = actor.services
        self.entry = actor.entry
        self.live: Execution | None = None
        self.blocked: Blocked | None = None
        self._deadline: Timer | None = None
        self._grace: Timer | None = None
        self._retry: Timer | None = None
        self._owned: list[object] = []
        self._start: tuple[int, ExecutionStarted] | None = None  # of the execution in the slot
        self._last: ExecutionRecord | None = None  # of the one before: most waits ask for it, and reading costs more

    @property
    def pinned(self) -> bool:
        """Whether a timer of this actor is out."""
        return self._retry is not None

    def adopt_agent(
        self, _about: object = None, decision: Decision | None = None, building: Building | None = None
    ) -> None:
        """Take the options of the thread's agent, if it is registered: in a new incarnation, and after a hand-off."""
        state = self._actor.state
        if self.live is not None:
            self.live.agent_id = state.facts.agent_id
        body = self.services.agents.get(state.facts.agent_id)
        state.startable = body is not None
        state.resumes = state.resumes and getattr(body, "on_lost", "settle") == "resume"
        if body is not None:
            state.agent_steerable = bool(getattr(body, "steerable", True))
            timeout = getattr(body, "timeout", None)
            state.agent_timeout = None if timeout is None else float(timeout)

    def note_loss(self) -> None:
        """Ask to run again, once the loss is settled, where the agent wants that."""
        state = self._actor.state
        body = self.services.agents.get(state.facts.agent_id)
        state.resumes = getattr(body, "on_lost", "settle") == "resume"

    # Doing

    def do(self, do: Do, decision: Decision, building: Building | None = None) -> None:
        """Carry out one action."""
        action, about = do
        _DOINGS[action](self, about, decision, building)

    def carry_out(self, mail: Mail, decision: Decision, building: Building | None) -> None:
        """Carry out a decision that has nothing to commit: actions, then the reply."""
        for do in decision.actions:
            self.do(do, decision, building)
        self.reply(mail, decision, building)

    def dispatch(self, _about: object, decision: Decision, building: Building | None) -> None:
        """START is durable: make the execution and call its body."""
        assert building is not None
        facts = self._actor.state.facts
        execution_id = facts.execution_id
        assert execution_id is not None
        live = Execution(
            self.services,
            self.entry,
            self.services.agents[facts.agent_id],
            execution_id,
            facts.agent_id,
            facts.started_at,
            facts.user_id,
            facts.created_at,
            new_messages(building.events, building.known),
        )
        self.live = live
        for _, at, event in building.events:
            if type(event) is ExecutionStarted:
                self._start = at, event
        self.services.running[execution_id] = live
        if facts.timeout is not None:
            self._deadline = self._after(facts.timeout, lambda: Deadline(execution_id))
        if self.blocked is not None:
            self.blocked = None
            self.show_phase()
        begin_pass(self.services, live)
        for call in self.services.idle_callbacks:
            call()

    def next_pass(self, _about: object, decision: Decision, building: Building | None) -> None:
        """The join is durable: call the body again."""
        assert building is not None
        assert self.live is not None
        self._actor.state.passes += 1
        self.live.next_pass(new_messages(building.events, building.known))
        begin_pass(self.services, self.live)

    def tell(self, about: ExecutionInterrupted, decision: Decision, building: Building | None) -> None:
        """Tell the body that it was interrupted."""
        if self.live is not None:
            # Armed first: whoever sees the body told, and then moves a clock on, finds its grace running.
            self.arm_grace(None, decision, building)
            self.live.abort(about.reason, about.source)

    def arm_grace(self, _about: object, decision: Decision, building: Building | None) -> None:
        """Give the body its time to stop."""
        live = self.live
        if live is not None and self._grace is None:
            expired = GraceExpired(live.id)
            expired.said = getattr(live.body, "stopped_text", None)
            self._grace = self._after(self.services.options.interrupt_grace, lambda: expired)

    def fence(self, _about: object, decision: Decision, building: Building | None) -> None:
        """Let nothing that the body still does have an effect; write its worker off where it was abandoned."""
        self._cancel_timers()
        live = self.live
        if live is None:
            return
        self._owned = live.fence()
        ending = decision.ending
        if ending is None or not (ending.abandoned or ending.lost is not None):
            return
        if ending.lost is not None:
            self.note_loss()
        if live.handle is not None:
            abandon: Callable[[], object] = getattr(live.handle, "abandon", live.handle.cancel)
            abandon()

    def release(self, _about: object, decision: Decision, building: Building | None) -> None:
        """Close what the execution owns; FINISH follows."""
        execution_id = self._actor.state.active
        assert execution_id is not None
        if not self._owned:
            self._actor.take_urgent(Released(execution_id))
            return
        owned, self._owned = self._owned, []
        mailbox = self.entry.mailbox
        release(
            self.services,
            execution_id,
            owned,
            lambda left: mailbox.put(Mail(Released(execution_id, left)), internal=True),
        )

    def free(self, building: Building) -> None:
        """The end is durable: the execution is over, the slot is free."""
        start, self._start = self._start, None
        services, entry = self.services, self.entry
        for _, _, event in building.events:
            kind = type(event)
            if kind is ExecutionFinished or kind is ExecutionLost:
                outcome: str = event.outcome if kind is ExecutionFinished else "lost"  # type: ignore[attr-defined]
                services.ended[outcome] = services.ended.get(outcome, 0) + 1
                if start is not None and entry.waiters:
                    self._last = record_of(start[1], start[0], event, None)  # type: ignore[arg-type]
        live, self.live = self.live, None
        self.blocked = None
        self._cancel_timers()
        if live is not None:
            services.running.pop(live.id, None)
            live.forget()
            services.waits.drop(entry.thread_id)
            for call in services.idle_callbacks:
                call()

    def retry(self, about: str | None, decision: Decision, building: Building | None) -> None:
        """Try a refused commit again later, unless the store takes no more writes at all."""
        attempts = self.blocked.attempts + 1 if self.blocked is not None else 1
        delay = retry_delay(attempts)
        state = self._actor.state
        what = "START" if state.phase is IDLE else "LOST" if state.ending and state.ending.lost else "FINISH"
        due = self.services.clock.now_us() + int(delay * 1_000_000)
        self.blocked = Blocked(what, attempts, about or "", due)
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        if self.services.store.failure() is None:
            self._retry = self._after(delay, RetryDue)
        shown = self.entry.snapshot
        if what == "LOST" and attempts == 1 and shown is not None and self.entry.watch is not None:
            # Who asks is told that it is lost, though that cannot be written yet; so must be those who only listen.
            self.services.hub.published(self.entry, None, shown, [], 0)
            self.services.hub.flush(self.entry)

    def retry_taken(self) -> None:
        """The retry came: another may be armed."""
        self._retry = None

    def wake(self, _about: object, decision: Decision, building: Building | None) -> None:
        """Look for waiting rows before any other mail; a closing runtime starts nothing."""
        if not self.services.closing:
            self._actor.take_urgent(Wake())

    def delete(self, _about: object, decision: Decision, building: Building | None) -> None:
        """The tombstone is durable: the thread is gone for everybody."""
        from .directory import not_found

        self.drop_timers()
        gone = not_found(self.entry.thread_id)
        fail_waiters(self.entry, gone)
        # What waited behind the tombstone must not be decided on facts that the store has no more.
        self.services.supervisor.refuse(self._actor, gone)
        if self.services.verifier is not None:
            self.services.verifier.forget(self.entry.number)
        self.services.supervisor.remove_contents(self.entry.number)

    def _after(self, seconds: float, make: Callable[[], object]) -> Timer:
        mailbox = self.entry.mailbox
        return self.services.timers.after(seconds, lambda: mailbox.put(Mail(make()), internal=True))

    def _cancel_timers(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if self._grace is not None:
            self._grace.cancel()
            self._grace = None

    def retire(self) -> None:
        """Let go of the actor, which is over and refers to this: else both would wait for the collector."""
        del self._actor

    def drop_timers(self) -> None:
        """Cancel every timer: this incarnation is over."""
        self._cancel_timers()
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None

    def answer(self, about: tuple[str, RequestEnd, Value], decision: Decision, building: Building | None) -> None:
        """What a request came to is durable: tell the body that waits for it."""
        if self.live is not None and self.live.requests is not None:
            self.live.requests.end(*about)

    # Showing

    def publish(self, building: Building, change: int) -> None:
        """Swap the snapshot and give the new events to whoever watches."""
        entry, state = self.entry, self._actor.state
        if building.tombstone:
            entry.gone = True
        entry.shown = shown = Shown(entry.number, building.record, shown_owner(state), state.phase, self.blocked)
        hub = self.services.hub
        if entry.watch is None:
            if change:
                hub.watermark.publish(change)
            return
        generation = state.facts.generation
        events = [JournalEvent(Cursor(generation, sequence), at, event) for sequence, at, event in building.events]
        hub.published(entry, None, shown.snapshot_from(state.facts), events, change)

    def show_phase(self) -> None:
        """Swap the snapshot for one with the present phase; facts that are not durable yet are not shown."""
        shown, state = self.entry.shown, self._actor.state
        owner = shown_owner(state)
        if isinstance(shown, Shown):
            if shown.differs(owner, state.phase, self.blocked):
                self.entry.shown = shown.with_phase(owner, state.phase, self.blocked)
        elif shown is not None and (shown.blocked != self.blocked):
            # As an activation found it: what an earlier life left is shown as lost, until it is settled.
            self.entry.shown = shown._replace(blocked=self.blocked)

    def rest(self) -> None:
        """Nothing is in flight and nobody owns the slot: this actor may go when its time has come."""
        for call in self.services.idle_callbacks:
            call()
        if self.blocked is not None and self._retry is None and self.services.store.failure() is None:
            self.blocked = None  # it was tried again, and there was nothing left to do
            self.show_phase()
        if not self._actor.is_free():
            return
        if self.services.options.always_evict or self.entry.gone:
            self.services.directory.passivate(self.entry)
        else:
            self.services.directory.idle(self.entry)

    # Saying

    def reply(self, mail: Mail, decision: Decision, building: Building | None = None) -> None:
        """Say what was decided, once it is true."""
        reply = mail.reply
        if reply is None:
            return
        value = decision.reply
        if type(value) is Receipt:
            reply.set(value)
            return
        trigger: Any = mail.body
        kind = trigger.kind
        if isinstance(value, TreadleError):
            reply.fail(value)
        elif type(value) is Refusal:
            reply.fail(self._refusal(value, trigger.execution_id))
        elif kind is _APPEND or kind is _INJECT:
            event: Any = decision.events[0]
            message = event.message
            if len(message) == 3:  # id, role and content: nearly all of them
                reply.set(said(message, trigger.now))
            else:
                reply.set(to_message(message, trigger.now))
        elif kind is _CONSUME:
            reply.set(new_messages(building.events, building.known, decision)() if decision.joined and building else [])
        else:
            reply.set(value)

    def _refusal(self, refusal: Refusal, execution_id: str) -> BaseException:
        if refusal is Refusal.FENCED:
            return ExecutionFenced(execution_id)
        return self.live.cancelled() if self.live is not None else ExecutionCancelled(execution_id)

    def refuse(self, mail: Mail, decision: Decision, error: TreadleError) -> None:
        """Say that nothing was written; an interruption is in force all the same."""
        if mail.reply is None:
            return
        applied = any(isinstance(event, ExecutionInterrupted) for event in decision.events)
        mail.reply.fail(error.again(applied=True) if applied else error.again())

    def resolve(self, building: Building) -> None:
        """Tell those who wait for what this batch ended; after it is shown."""
        resolve(self.services, self.entry, building.events, building.known, self._last)

    def wait_for(self, wanted: Await, reply: Reply[Any] | None) -> None:
        """Answer a wait, or keep it."""
        assert reply is not None
        register(self.services, self.entry, self._actor.state.active, self._last, wanted, reply)


_DOINGS: dict[Action, Callable[[Acting, Any, Decision, Building | None], None]] = {
    Action.DISPATCH: Acting.dispatch,
    Action.PASS: Acting.next_pass,
    Action.TELL: Acting.tell,
    Action.GRACE: Acting.arm_grace,
    Action.FENCE: Acting.fence,
    Action.RELEASE: Acting.release,
    Action.RETRY: Acting.retry,
    Action.WAKE: Acting.wake,
    Action.DELETE: Acting.delete,
    Action.ANSWER: Acting.answer,
    Action.ADOPT: Acting.adopt_agent,
}
