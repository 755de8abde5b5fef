"""Owns a thread for the tests of single rules: put into a phase by the rules themselves, one trigger at a time."""

from __future__ import annotations

from typing import Any

from treadle.protocol.decision import Batch, Decision, Phase, State
from treadle.protocol.events import InputQueued, ThreadCreated
from treadle.protocol.facts import Facts
from treadle.protocol.inbox import Row
from treadle.protocol.lifecycle import advance, committed, decide, not_written
from treadle.protocol.triggers import (
    BodyEnded,
    Interrupt,
    Queue,
    Released,
    Steer,
    Submit,
    Trigger,
)

__all__ = ["Pure", "in_phase", "queue", "steer", "submit", "text"]


def text(name: str, **more: Any) -> dict[str, Any]:
    """Return a draft."""
    return {"id": f"{name}-m", "role": "user", "content": name, **more}


def submit(name: str = "s", on_busy: str = "reject", **more: Any) -> Submit:
    """Return a submit of one message under the id `name`."""
    return Submit(name, [text(name)], 10, name.encode(), on_busy, **more)  # type: ignore[arg-type]


def steer(name: str = "c", target: str = "e1") -> Steer:
    """Return a steer of one message under the control id `name`."""
    return Steer(name, [text(name)], 10, name.encode(), target)


def queue(name: str = "q", **more: Any) -> Queue:
    """Return a queued message under the id `name`."""
    return Queue(name, [text(name)], 10, name.encode(), **more)


class Pure:
    """A thread whose batches are all durable at once, with the rows that wait and the events so far."""

    def __init__(self) -> None:
        facts = Facts()
        facts.fold(ThreadCreated(thread_id="t", agent_id="a", user_id=None, arguments=None, tags=[], env=None), 1)
        self.state = State(facts)
        self.rows: list[Row] = []
        self.events: list[Any] = []
        self.ids = 0

    @property
    def facts(self) -> Facts:
        """The thread's facts."""
        return self.state.facts

    def judge(self, trigger: Trigger, **looked_up: Any) -> Decision:
        """Decide a trigger and change nothing."""
        trigger.now = self.facts.last_time + 1
        trigger.new_id = f"e{self.ids + 1}"
        if hasattr(trigger, "rows"):
            trigger.rows = list(self.rows)
        for name, value in looked_up.items():
            setattr(trigger, name, value)
        return decide(self.state, trigger)

    def take(self, trigger: Trigger, **looked_up: Any) -> Decision:
        """Decide a trigger, and fold what follows; its batch is then in flight."""
        decision = self.judge(trigger, **looked_up)
        sequence = self.facts.sequence
        for rank, event in enumerate(decision.events, 1):
            self.events.append(event)
            if isinstance(event, InputQueued):
                self.rows.append(row_of(event, sequence + rank))
            gone = {row[0] for row in getattr(event, "rows", ())} | {getattr(event, "row", [0])[0]}
            self.rows = [row for row in self.rows if row.sequence not in gone]
        self.rows.sort(key=lambda row: (not row.first, row.sequence))
        advance(self.state, decision, trigger.now)
        if decision.batch is Batch.START:
            self.ids += 1
        return decision

    def commit(self, trigger: Trigger, **looked_up: Any) -> Decision:
        """Decide a trigger, and have its batch answered as durable."""
        decision = self.take(trigger, **looked_up)
        if decision.events:
            self.answer(decision.batch)
        return decision

    def answer(self, batch: Batch) -> Decision:
        """Have the batch in flight answered as durable."""
        decision = decide(self.state, committed(batch))
        advance(self.state, decision, 0)
        return decision

    def refuse(self, trigger: Trigger, code: str = "storage_full", **looked_up: Any) -> Decision:
        """Decide a trigger, have its batch refused, and return what follows from that."""
        facts, rows = self.facts.copy(), list(self.rows)
        decision = self.take(trigger, **looked_up)
        self.state.facts, self.rows = facts, rows
        interruption = next((e for e in decision.events if type(e).__name__ == "ExecutionInterrupted"), None)
        answer = not_written(decision.batch, code, "no room", interruption)
        answer.now = self.facts.last_time + 1
        after = decide(self.state, answer)
        advance(self.state, after, answer.now)
        return after

    def run(self, name: str = "s") -> Pure:
        """Start an execution from rest."""
        self.commit(submit(name))
        return self

    def finish(self, how: str = "returned", **more: Any) -> Decision:
        """End the live execution, from its body's end to its durable FINISH; return the FINISH decision."""
        active = self.state.active
        assert active is not None
        self.take(
            BodyEnded(active, how, **more), rows=[row for row in self.rows if row.kind == "steer"] if more else []
        )  # type: ignore[arg-type]
        return self.commit(Released(active))


def row_of(event: InputQueued, sequence: int) -> Row:
    """Return the row that an acceptance stores."""
    return Row(
        sequence, event.kind, event.input_id, event.execution_id, len(event.messages),
        sum(1 for draft in event.messages if draft.get("silent")), event.size, event.first, event.timeout,
    )  # fmt: skip


def in_phase(phase: Phase) -> Pure:
    """Return a thread in a phase; but for IDLE and STARTING its live execution is e1."""
    thread = Pure()
    if phase is Phase.IDLE:
        return thread
    thread.take(submit())
    if phase is Phase.STARTING:
        return thread
    thread.answer(Batch.START)
    if phase is Phase.STOPPING:
        thread.commit(Interrupt("e1"))
    elif phase is Phase.FINISHING:
        thread.take(BodyEnded("e1"))
    assert thread.state.phase is phase
    return thread
