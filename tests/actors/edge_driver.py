"""Owns the way from the model's steps to the real actor: the same step on a stage, and both seen in the same terms.

The model (`tests/simulation/world.py`) decides all mail that waits into one batch; the real actor does so with mail that
waited for a batch. So where several mails wait, they are given to it as such mail.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from treadle.actors.fake_clock import FakeClock, FakeTimers
from treadle.actors.mailbox import Mail
from treadle.actors.reply import Reply
from treadle.actors.testing import Stage
from treadle.actors.thread_mail import Nothing
from treadle.protocol.decision import Refusal
from treadle.protocol.events import (
    ControlRecorded,
    Event,
    ExecutionFinished,
    ExecutionInterrupted,
    ExecutionLost,
    ExecutionStarted,
    HoldChanged,
    InputQueued,
    InputWithdrawn,
    MessageAdded,
    MessagesJoined,
    RequestOpened,
    RequestTerminated,
    ValueChanged,
)
from treadle.protocol.receipts import ControlReceipt, Receipt, RespondStatus, Withdrawal
from treadle.protocol.triggers import Append, Lost, Queue
from treadle.storage.reading import read_journal, read_thread

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.simulation.script import Script, Step
    from tests.simulation.world import World
    from treadle.actors.clock import Timer
    from treadle.actors.execution import Execution
    from treadle.protocol.facts import Facts

GRACE_S, RELEASE_S, DEADLINE_S, EXPIRY_S, SWEEP_S = 7.0, 11.0, 60.0, 13.0, 1.0
FACTS = (
    "state", "reason", "held", "hold_reason", "steerable", "interrupted_by", "steers", "waiting_messages", "waiting_submits",
    "queued_plain", "queued_silent", "open_calls", "pending", "messages", "counts", "executions",
)  # fmt: skip


class HandTimers(FakeTimers):
    """Timers that the test lets go off one by one, told apart by how long they run."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.armed: list[tuple[float, Timer, Callable[[], object]]] = []

    def after(self, seconds: float, call: Callable[[], object]) -> Timer:
        timer = super().after(seconds, call)
        self.armed.append((seconds, timer, call))
        return timer

    def fire(self, fits: Callable[[float], bool], one: Timer | None = None) -> bool:
        """Let the first pending timer that fits, or this one, go off; False where none is pending."""
        for seconds, timer, call in self.armed:
            if one in (None, timer) and fits(seconds) and timer.cancel():
                call()
                return True
        return False


class HandClock(FakeClock):
    def timers(self) -> HandTimers:
        return HandTimers(self)


class Resource:
    def close(self) -> None:
        """Hold the release up until the stage lets it go on; nothing else to do."""


class Doll:
    """The agent of the model: each pass stands still until a step ends it, whatever it is told."""

    name = "a"
    runs_on = "loop"
    timeout = DEADLINE_S

    def __init__(self, on_lost: str) -> None:
        self.on_lost = on_lost
        self.live: Execution | None = None
        self.ends: dict[str, Reply[None]] = {}

    def run(self, execution: Execution, /) -> Awaitable[None]:
        if execution.passes == 1:
            execution.own(Resource())
        self.live = execution
        end = self.ends[execution.id] = Reply()
        return self._stand(end)

    async def _stand(self, end: Reply[None]) -> None:
        while True:
            try:
                await end
            except asyncio.CancelledError:
                if end.done():
                    raise
            else:
                return


class Real:
    """The real actor on a stage, moved by the model's steps."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.doll = Doll("resume" if script.resumes else "settle")
        self.on = Stage(
            self.doll, clock=HandClock(), interrupt_grace=GRACE_S, release_timeout=RELEASE_S,
        ).__enter__()  # fmt: skip
        self.thread = self.on.thread(thread_id="t")
        self.said: list[tuple[str, object]] = []
        self.seen = 1  # events of the journal that were compared
        self.names: dict[str, str] = {}  # execution ids as the model has them
        self.late: list[str] = []
        self.spent: list[Reply[None]] = []  # of late bodies that had their last word, and of those that were lost
        self.asked = "r0"  # the request that callers saw last
        self._requests = 0  # in the journal
        self._sent = dict.fromkeys(script.budget, 0)
        self._made = 0

    @property
    def entry(self) -> Any:
        return self.on.services.directory.entry("t")

    def step(self, step: Step) -> None:
        """Do what the model does in this step."""
        getattr(self, f"_{step.kind}")(step.about)
        self._bodies()
        in_flight = self.entry.actor is not None and self.entry.actor.in_flight is not None
        if in_flight or self.script.eager or step.kind in ("commit", "refuse", "crash"):
            self._turns()
            self._bodies()

    def _bodies(self) -> None:
        while self.on.body():
            pass

    def _turns(self) -> None:
        while self.on.turn():
            pass

    def _hear(self, name: str, reply: Reply[Any]) -> None:
        reply.add_done_callback(lambda done: self.said.append((name, done.error() or done.result())))

    def _known(self) -> str:
        return self.doll.live.id if self.doll.live is not None else "e0"

    def _send(self, name: str) -> None:
        verb, rank = name.rstrip("0123456789"), int(name.lstrip("abcdefghijklmnopqrstuvwxyz"))
        thread = self.thread
        if verb == "submit":
            reply: Reply[Any] = thread.submit(name, input_id=name, on_busy=self.script.busy(rank))  # type: ignore[arg-type]
        elif verb == "repeat":
            name = "submit1"
            reply = thread.submit(name, input_id=name, on_busy=self.script.busy(1))  # type: ignore[arg-type]
        elif verb == "withdraw":
            name = "queue1"
            reply = thread.withdraw(name)
        elif verb == "respond":
            reply = thread.respond(self.asked, True)
        elif verb == "steer":
            reply = thread.steer(self._known(), name, control_id=name)
        elif verb == "interrupt":
            control = None if rank % 2 else name
            reply = thread.interrupt(self._known(), hold=self.script.hold, control_id=control)
            name = control or "interrupt"
        elif verb == "queue":
            reply = thread.queue_message(name, input_id=name)
        else:
            reply = getattr(thread, verb)()
        self._hear(name, reply)

    def _turn(self, about: str) -> None:
        entry = self.entry
        if len(entry.mailbox) > 1:
            mails = list(entry.mailbox._queue)
            entry.mailbox._queue.clear()
            entry.mailbox._queue.append(Mail(Nothing()))
            self._turns()  # it brings the actor up, where there is none
            entry.actor.inherit(mails)
            entry.actor.go_on()
        self._turns()

    def _commit(self, about: str) -> None:
        assert self.on.commit() == 1

    def _refuse(self, about: str) -> None:
        assert self.on.refuse() == 1

    def _crash(self, about: str) -> None:
        if about == "written":
            assert self.on.commit() == 1
        self._let_go()
        self.on.kill()
        self.late.clear()
        self.on.reopen(settle=False)
        self.thread = self.on.runtime.thread("t")
        self._turns()

    def _lost(self, about: str) -> None:
        live = self.doll.live
        assert live is not None
        self.spent.append(self.doll.ends.pop(live.id))
        lost = Lost(live.id, boot_id=self.on.services.boot.id, cause="loop_closed", dispatched=True)
        self.entry.mailbox.put(Mail(lost), internal=True)

    def _body(self, about: str) -> None:
        live = self.doll.live
        assert live is not None
        if about in ("returned", "raised", "cancelled", "stopped"):
            end = self.doll.ends.pop(live.id)
            if about == "stopped":
                live.stop()
            if about == "raised":
                end.fail(ValueError("bad"))
            elif about == "cancelled":
                end.fail(asyncio.CancelledError())
            else:
                end.set(None)
        elif about == "consume":
            self._hear(about, live.consume())
        elif about == "ask":
            timeout = EXPIRY_S if "expire" in self.script.budget else None
            self._hear(about, live.request("approval", request_id=f"r{self._requests + 1}", timeout=timeout))
        else:
            self._hear(about, live.append(self._draft(about)))

    def _draft(self, about: str) -> dict[str, Any]:
        self._made += 1
        draft: dict[str, Any] = {"id": f"m{self._made}", "role": "assistant", "content": "said"}
        if about == "call":
            return {**draft, "calls": ["c"], "tool_calls": '[{"id": "c"}]'}
        if about == "result":
            return {**draft, "role": "tool", "tool_call_id": "c", "closes": True}
        return draft

    def _late(self, about: str) -> None:
        execution = self.late.pop(0)
        end = self.doll.ends.pop(execution)
        if about == "returned":
            end.set(None)
            return
        self.spent.append(end)
        reply: Reply[Any] = Reply()
        draft = self._draft("append")
        trigger: Any = Append(execution, MessageAdded(execution_id=execution, message=draft), 10)
        if about == "queue":
            trigger = Queue("late", [draft], 10, b"late", execution, execution)
        self.entry.mailbox.put(Mail(trigger, reply))
        self._hear("late", reply)

    def _released(self, about: str) -> None:
        assert self.on.release()

    def _retry(self, about: str) -> None:
        fixed = (GRACE_S, RELEASE_S, DEADLINE_S, EXPIRY_S, SWEEP_S)
        retries = self.entry.actor.acting._retry  # and not an expiry that is tried again
        assert self._fire(lambda seconds: seconds not in fixed, retries)

    def _grace(self, about: str) -> None:
        self._fire(lambda seconds: seconds == GRACE_S)  # none where its execution has come back meanwhile

    def _deadline(self, about: str) -> None:
        self._fire(lambda seconds: seconds == DEADLINE_S)

    def _expire(self, about: str) -> None:
        live = self.doll.live
        assert live is not None
        assert live.requests is not None
        (wait,) = live.requests._waits.values()
        assert self._fire(lambda _seconds: True, wait._timer)

    def _fire(self, fits: Callable[[float], bool], one: Timer | None = None) -> bool:
        timers: Any = self.on.services.timers
        return bool(timers.fire(fits, one))

    # What both are compared by

    def view(self) -> dict[str, object]:
        """Return what this step has brought about, in the model's terms."""
        with self.on.store.view() as view:
            found = read_thread(view, self.entry.number)
            assert found is not None
            facts = found[1]
            new = read_journal(view, self.entry.number, 1, self.seen, facts.sequence, 1_000)
        self.seen = facts.sequence
        events = []
        for entry in new:
            if isinstance(entry.event, ExecutionStarted):
                self.names[entry.event.execution_id] = f"e{len(self.names) + 1}"
            if isinstance(entry.event, RequestOpened):
                self.asked, self._requests = entry.event.request_id, self._requests + 1
            if not isinstance(entry.event, ValueChanged):
                events.append(event_terms(entry.event, self.names))
        said, self.said = self.said, []
        actor = self.entry.actor
        live = self.doll.live
        running = live is not None and live.id in self.doll.ends and not live.fenced
        for known in self.doll.ends:
            if (live is None or known != live.id or live.fenced) and known not in self.late:
                self.late.append(known)
        return {
            "phase": actor.state.phase.value if actor is not None else "idle",
            "in flight": actor.in_flight if actor is not None else None,
            "facts": fact_terms(facts),
            "events": events,
            "said": sorted((name, reply_terms(reply, self.names)) for name, reply in said),
            "body": None if not running else bool(live and live.abort_signal.aborted),
            "late": len(self.late),
        }

    def _let_go(self) -> None:
        for end in [*self.doll.ends.values(), *self.spent]:
            end.set(None)
        self.doll.ends.clear()

    def close(self) -> None:
        self._let_go()
        self.on.close()


def world_view(world: World, logged: int) -> dict[str, object]:
    """Return what the model's last step has brought about; `logged` says what was in its log before."""
    assert world.log is not None
    new = world.log[logged:]
    body = world.body
    names: dict[str, str] = {}
    return {
        "phase": world.state.phase.value,
        "in flight": None if world.flight is None else world.flight.about.value,
        "facts": fact_terms(world.durable),
        "events": [event_terms(what, names) for name, what in new if name == "event"],
        "said": sorted((name, reply_terms(what, names)) for name, what in new if name != "event"),
        "body": None if body is None else body.told,
        "late": len(world.late),
    }


def fact_terms(facts: Facts) -> dict[str, object]:
    terms: dict[str, object] = {name: getattr(facts, name) for name in FACTS}
    terms["terminated"] = facts.terminated_at is not None
    terms["failed"] = facts.failed_through > 0
    terms["owned"] = facts.execution_id is not None
    terms["lost"] = len(facts.lost_at)
    return terms


def event_terms(event: Any, names: dict[str, str]) -> tuple[object, ...]:
    kind = type(event)
    fields = {
        ExecutionStarted: ("execution_id", "cause", "input_id", "steerable"),
        ExecutionFinished: ("execution_id", "outcome", "error_type", "reason", "abandoned"),
        ExecutionLost: ("execution_id",),
        ExecutionInterrupted: ("execution_id", "source", "hold", "control_id"),
        InputQueued: ("execution_id", "kind", "verb", "input_id", "first", "interrupted", "held"),
        MessagesJoined: ("execution_id", "consumed", "reason"),
        InputWithdrawn: ("input_id",),
        ControlRecorded: ("execution_id", "control_id", "held"),
        HoldChanged: ("held", "reason"),
        MessageAdded: ("execution_id",),
        RequestOpened: ("execution_id", "request_id"),
        RequestTerminated: ("request_id", "status"),
    }.get(kind, ())
    values: list[object] = [_name(getattr(event, field), names) for field in fields]
    if kind is MessagesJoined:
        values.append(len(event.rows))
    if kind is MessageAdded:
        values.append((event.message["role"], bool(event.message.get("closes"))))
    assert isinstance(event, Event)
    return (event.type, *values)


def reply_terms(reply: object, names: dict[str, str]) -> str:
    if isinstance(reply, Receipt):
        active = reply.active_execution
        owner = None if active is None else (_name(active.execution_id, names), active.phase)
        terms = (
            reply.disposition, _name(reply.execution_id, names), reply.delivered_as, _name(reply.interrupted, names), reply.held, owner,
        )  # fmt: skip
        return repr(tuple(map(str, terms)))
    if isinstance(reply, ControlReceipt):
        active = reply.active_execution
        owner = None if active is None else (_name(active.execution_id, names), active.phase)
        return repr(tuple(map(str, (reply.disposition, _name(reply.execution_id, names), reply.held, owner))))
    if isinstance(reply, Withdrawal | RespondStatus):
        return reply.value
    if reply is Refusal.FENCED:
        return "ExecutionFenced"
    if reply is Refusal.CANCELLED:
        return "ExecutionCancelled"
    if isinstance(reply, BaseException):
        return type(reply).__name__
    return "done"


def _name(value: object, names: dict[str, str]) -> object:
    return names.get(value, value) if isinstance(value, str) else value
