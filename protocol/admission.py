"""Owns what becomes of inputs: submit, queue, withdraw, inject, values. Pure; the table says when each rule applies."""

from __future__ import annotations

from typing import Literal

from .controls import accept_steer, lift, refuse_unread
from .decision import DECIDE, FINISHING, STOPPING, Action, Batch, Decision, Do, Phase, Refusal, State
from .errors import LimitExceeded, StorageFull
from .events import Event, ExecutionInterrupted, InputQueued, InputWithdrawn, MessageAdded, ValueChanged
from .inbox import Row
from .limits import QUEUED_MAX
from .receipts import ActiveExecution, Disposition, Receipt, Withdrawal
from .recorded import receipt_of, receipt_of_start
from .refusals import agent_missing, refuse, repeat, terminated
from .starting import joinable, joining, start, start_from_rows
from .triggers import Inject, Input, Queue, SetValue, Submit, Withdraw
from .trusted import started

__all__ = [
    "inject", "queue_active", "queue_at_rest", "set_value", "submit_at_rest", "submit_closing", "submit_running",
    "withdraw",
]  # fmt: skip


def _judge(state: State, trigger: Input) -> Decision | None:
    """The checks that every input passes first, in this order."""
    found = repeat(state, trigger.prior, trigger.digest, trigger.input_id)
    if found is not None:
        return found
    return terminated(state) if state.facts.terminated_at is not None else None


def _refuse_full(state: State) -> Decision | None:
    """Refuse a row more than an inbox holds; asked only where one would be stored."""
    facts = state.facts
    if facts.rows < QUEUED_MAX:
        return None
    error = LimitExceeded(
        f"{facts.rows} inputs wait on thread {facts.thread_id!r}; the limit queued is {QUEUED_MAX}",
        limit="queued",
        maximum=QUEUED_MAX,
        met=facts.rows + 1,
        thread_id=facts.thread_id,
    )
    return refuse(state, error)


def _queued(
    state: State, trigger: Submit, *, interrupted: str | None = None, phase: Phase | None = None
) -> InputQueued:
    owner = state.ownership(phase)
    return InputQueued(
        input_id=trigger.input_id,
        kind="submit",
        verb="submit",
        execution_id=None,
        messages=trigger.messages,
        digest=trigger.digest,
        first=trigger.on_busy == "interrupt",
        interrupted=interrupted,
        active=list(owner) if owner else None,
        held=False,
        originating_execution_id=None,
        timeout=trigger.timeout,
        size=trigger.size,
    )


def submit_at_rest(state: State, trigger: Submit) -> Decision:
    """Start an execution with this input, or store it behind submits that already wait."""
    facts = state.facts
    if trigger.prior is not None or facts.terminated_at is not None:
        judged = _judge(state, trigger)
        if judged is not None:
            return judged
    if not state.startable:
        return agent_missing(state)
    if facts.waiting_submits and trigger.on_busy == "queue":
        queued = _queued(state, trigger)
        return _store(state, queued, receipt_of(queued, trigger.now), lifts=True, actions=(Do(Action.WAKE),))
    timeout = trigger.timeout
    event = started(
        trigger.new_id,
        facts.agent_id,
        trigger.input_id,
        trigger.messages,
        trigger.digest,
        state.agent_steerable,
        state.agent_timeout if timeout is None else timeout,
    )
    events: list[Event] = [event]
    joined = joinable(state, trigger.rows) if trigger.rows else ()
    if joined:
        events.append(joining(trigger.new_id, joined))
    return start(events, receipt_of_start(event, trigger.now), joined)


def _store(
    state: State, queued: InputQueued, reply: object, *, lifts: bool = False, actions: tuple[Do, ...] = ()
) -> Decision:
    full = _refuse_full(state)
    if full is not None:
        return full
    more, unrecorded = lift(state) if lifts else ([], None)
    return Decision(DECIDE, state.phase, [queued, *more], reply, actions=actions, unrecorded=unrecorded)


def submit_running(state: State, trigger: Submit) -> Decision:
    """Answer by `on_busy` while the execution can still be steered and interrupted."""
    judged = _judge(state, trigger)
    if judged is not None:
        return judged
    if trigger.on_busy == "steer":
        return _submit_as_steer(state, trigger)
    if trigger.on_busy == "interrupt":
        return _submit_interrupting(state, trigger)
    return _submit_waiting(state, trigger)


def submit_closing(state: State, trigger: Submit) -> Decision:
    """Answer by `on_busy` once the execution takes no more steering."""
    judged = _judge(state, trigger)
    if judged is not None:
        return judged
    if state.ending is not None and state.ending.lost is not None and state.ending.refused:
        return refuse(
            state,
            StorageFull(
                f"thread {state.facts.thread_id!r} waits for room to record that execution {state.active!r} was lost",
                thread_id=state.facts.thread_id,
                execution_id=state.active,
            ),
        )
    return _submit_waiting(state, trigger)


def _submit_waiting(state: State, trigger: Submit) -> Decision:
    if trigger.on_busy in ("reject", "steer"):
        return refuse(state, _busy(state, trigger))
    if not state.startable:
        return agent_missing(state)
    queued = _queued(state, trigger)
    return _store(state, queued, receipt_of(queued, trigger.now), lifts=True)


def _busy(state: State, trigger: Submit) -> Receipt:
    owner = state.ownership()
    if owner is not None and owner.phase == "running" and state.facts.pending:
        # Whoever is refused should know that it is somebody's answer that is waited for, by a code.
        owner = owner._replace(phase="waiting")
    return Receipt(Disposition.BUSY, trigger.input_id, active_execution=owner, held=state.held)


def _submit_as_steer(state: State, trigger: Submit) -> Decision:
    if not state.facts.steerable:
        return refuse(state, _busy(state, trigger))
    over = refuse_unread(state, 1, trigger.size)
    if over is not None:
        return over
    queued = accept_steer(state, trigger, verb="submit")
    return _store(state, queued, receipt_of(queued, trigger.now), lifts=True)


def _submit_interrupting(state: State, trigger: Submit) -> Decision:
    full = _refuse_full(state)
    if full is not None:
        return full
    owner = state.ownership(STOPPING)
    assert owner is not None and state.active is not None
    queued = _queued(state, trigger, interrupted=state.active, phase=STOPPING)
    interruption = ExecutionInterrupted(
        execution_id=state.active,
        source="user",
        reason=None,
        hold=False,
        control_id=None,
        digest=None,
        active=list(owner),
    )
    more, _ = lift(state)
    return Decision(
        DECIDE,
        STOPPING,
        [interruption, queued, *more],
        receipt_of(queued, trigger.now),
        actions=(Do(Action.TELL, interruption), Do(Action.GRACE)),
        batch=Batch.INTERRUPTION,
    )


def _row_kind(trigger: Queue) -> Literal["message", "tool"]:
    return "tool" if trigger.tool else "message"


def _queue_event(state: State, trigger: Queue, owner: ActiveExecution | None) -> InputQueued:
    return InputQueued(
        input_id=trigger.input_id,
        kind=_row_kind(trigger),
        verb="queue",
        execution_id=None,
        messages=trigger.messages,
        digest=trigger.digest,
        first=False,
        interrupted=None,
        active=list(owner) if owner else None,
        held=state.held,
        originating_execution_id=trigger.originating,
        timeout=None,
        size=trigger.size,
    )


def _is_late(state: State, execution_id: str | None) -> bool:
    """Say whether a body of this thread speaks after its acceptance closed; others always may."""
    return execution_id is not None and (state.phase is FINISHING or execution_id != state.active)


def queue_active(state: State, trigger: Queue) -> Decision:
    """Store a message; the execution in the slot reads it at its next boundary, or the next one begins with it."""
    if _is_late(state, trigger.execution_id):
        return refuse(state, Refusal.FENCED)
    judged = _judge(state, trigger)
    if judged is not None:
        return judged
    queued = _queue_event(state, trigger, state.ownership())
    return _store(state, queued, receipt_of(queued, trigger.now))


def queue_at_rest(state: State, trigger: Queue) -> Decision:
    """Store a message and, unless the thread is held, start an execution with what waits, in the same commit."""
    if _is_late(state, trigger.execution_id):
        return refuse(state, Refusal.FENCED)
    judged = _judge(state, trigger) or _refuse_full(state)
    if judged is not None:
        return judged
    facts = state.facts
    if facts.held or not state.startable:
        queued = _queue_event(state, trigger, None)
        return _store(state, queued, receipt_of(queued, trigger.now))
    # START stands right behind the input in the batch, so its time is one microsecond later.
    queued = _queue_event(state, trigger, ActiveExecution(trigger.new_id, state.agent_name, trigger.now + 1, "running"))
    rows = list(trigger.rows)
    if len(rows) == facts.rows:  # else older rows wait beyond those looked up, and it may not pass them
        rows.append(_row(facts.sequence + 1, trigger))
    events, joined = start_from_rows(state, trigger.new_id, rows, "rows")
    return start([queued, *events], receipt_of(queued, trigger.now), joined)


def _row(sequence: int, trigger: Queue) -> Row:
    silent = sum(1 for draft in trigger.messages if draft.get("silent"))
    return Row(
        sequence, _row_kind(trigger), trigger.input_id, None, len(trigger.messages), silent, trigger.size, False, None
    )


def withdraw(state: State, trigger: Withdraw) -> Decision:
    """Take a waiting input back as a whole."""
    row = trigger.row
    if trigger.withdrawn:
        return refuse(state, Withdrawal.WITHDRAWN)
    if row is None or row.kind == "steer" or row.sequence <= state.facts.failed_through:
        return refuse(state, Withdrawal.ALREADY_DELIVERED if trigger.known else Withdrawal.NOT_FOUND)
    event = InputWithdrawn(input_id=row.input_id, row=row.stored())
    return Decision(DECIDE, state.phase, [event], Withdrawal.WITHDRAWN)


def inject(state: State, trigger: Inject) -> Decision:
    """Put a message into history; it never starts anything."""
    if state.facts.terminated_at is not None:
        return terminated(state)
    return Decision(DECIDE, state.phase, [MessageAdded(execution_id=None, message=trigger.message)], trigger.message)


def set_value(state: State, trigger: SetValue) -> Decision:
    """Set or delete a value; a body may until its acceptance closes, others always."""
    if _is_late(state, trigger.execution_id):
        return refuse(state, Refusal.FENCED)
    return Decision(DECIDE, state.phase, [ValueChanged(key=trigger.key, deleted=trigger.deleted)])
