"""Owns how an execution ends in the journal: FINISH and the settling of a loss, with all that must be closed before. Pure.

Every attempt builds its batch anew, from what is unread and open at that moment, with the ending of the first attempt.
Recovery never invents a FINISH.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .decision import (
    CLOSE,
    DECIDE,
    FINISHING,
    IDLE,
    RUNNING,
    Action,
    Batch,
    Decision,
    Do,
    Ending,
    Phase,
    State,
    Verdict,
)
from .events import (
    Event,
    ExecutionFinished,
    ExecutionInterrupted,
    ExecutionLost,
    HoldChanged,
    MessageAdded,
    MessagesJoined,
    RequestTerminated,
)
from .inbox import Row
from .limits import LOST_MAX, LOST_WINDOW_US
from .open_calls import STOPPED_BY_USER, OpenCall, result_of
from .starting import may_start, start, start_events, start_from_rows
from .status import abort_code
from .triggers import Answer, Lost, Released, RetryDue, Wake
from .trusted import finished

__all__ = [
    "abort_reason", "act", "call_results", "finish", "finish_committed", "finish_not_written", "interruption_not_written",
    "join_not_written", "lost_active", "lost_at_rest", "refused", "retry_at_rest", "retry_finish",
    "start_committed", "start_not_written", "wake",
]  # fmt: skip


_FINISH = Batch.FINISH
# Decisions that are always the same; nobody changes one.
_RUNNING = Decision(Verdict.DECIDE, Phase.RUNNING)
_IDLE = Decision(Verdict.DECIDE, Phase.IDLE)
_IDLE_THEN_WAKE = Decision(Verdict.DECIDE, Phase.IDLE, actions=(Do(Action.WAKE),))


def abort_reason(state: State) -> str:
    """Return the stop reason code of a cancelled execution; an interruption's own text never becomes one."""
    source = state.unrecorded.source if state.unrecorded is not None else state.facts.interrupted_by
    return abort_code(source)


def call_results(state: State, open_calls: Sequence[OpenCall], content: str) -> list[Event]:
    """Return an error result for each open call: every call has exactly one, where it stands itself."""
    return [
        MessageAdded(
            execution_id=state.active,
            message=result_of(call, f"{state.active}-{state.facts.sequence + 1 + rank}", content),
        )
        for rank, call in enumerate(open_calls)
    ]


def _closing_events(state: State, trigger: Any, ending: Ending, result: str) -> list[Event]:
    events: list[Event] = []
    if state.unrecorded is not None:
        events.append(state.unrecorded)
    events += call_results(state, trigger.open_calls, result)
    if ending.said is not None:
        made = f"{state.active}-{state.facts.sequence + 1 + len(trigger.open_calls)}"
        row = {"id": made, "role": "system", "content": ending.said}
        events.append(MessageAdded(execution_id=state.active, message=row))
    events += [
        RequestTerminated(request_id=request_id, status="abandoned", value=None) for request_id in trigger.pending
    ]
    unread: list[Row] = [row for row in trigger.rows if row.kind == "steer"]
    if unread:
        reason = (
            "terminated" if state.facts.terminated_at is not None and ending.outcome == "cancelled" else ending.unread
        )
        events.append(
            MessagesJoined(
                execution_id=state.active, rows=[row.stored() for row in unread], consumed=False, reason=reason
            )
        )
    return events


def finish(state: State, trigger: Released | RetryDue) -> Decision:
    """Hand FINISH over, or the settling batch where the execution was lost."""
    ending, active = state.ending, state.active
    assert ending is not None and active is not None
    if trigger.leftovers:
        ending = ending._replace(leftovers=trigger.leftovers)
    outcome, finished_at, error_type, error_message, reason, abandoned, leftovers, *_, said = ending
    if outcome is None:
        return _settle(state, trigger, ending)
    events: list[Event] = []
    if trigger.rows or trigger.open_calls or trigger.pending or state.unrecorded or said:
        # A body that heeds its interrupt has said so already.
        stopped = outcome == "cancelled" and reason == "aborted_by_user"
        result = STOPPED_BY_USER if stopped else "The execution ended before this call had a result."
        events = _closing_events(state, trigger, ending, result)
    agent_id = state.facts.agent_id
    if outcome == "succeeded" and not leftovers:
        events.append(finished(active, agent_id, finished_at, reason))
    else:
        events.append(
            ExecutionFinished(
                execution_id=active,
                agent_id=agent_id,
                outcome=outcome,
                finished_at=finished_at,
                error_type=error_type,
                error_message=error_message,
                reason=reason,
                abandoned=abandoned,
                leftovers=list(leftovers),
            )
        )
    return Decision(DECIDE, FINISHING, events, None, (), _FINISH, True, (), (), ending)


def _settle(state: State, trigger: Any, ending: Ending) -> Decision:
    assert ending.lost is not None and state.active is not None
    boot_id, cause, dispatched = ending.lost
    last_sequence = state.facts.sequence
    events = _closing_events(
        state, trigger, ending._replace(unread="lost"), "The outcome of this call is unknown: its execution was lost."
    )
    events.append(
        ExecutionLost(
            execution_id=state.active,
            boot_id=boot_id,
            last_sequence=last_sequence,
            cause=cause,
            dispatched=dispatched,
            leftovers=list(ending.leftovers),
            resume=state.resumes,
        )
    )
    recent = [at for at in state.facts.lost_at if at > trigger.now - LOST_WINDOW_US]
    if len(recent) + 1 >= LOST_MAX and not state.facts.held:
        events.append(HoldChanged(held=True, reason="lost_repeatedly"))
    return Decision(DECIDE, FINISHING, events, batch=_FINISH, closes=True, ending=ending)


def lost_at_rest(state: State, trigger: Lost) -> Decision:
    """Settle what an earlier life of this thread left behind; nobody owns it any more."""
    if trigger.execution_id != state.active:
        return Decision(Verdict.IGNORE, state.phase)
    ending = Ending(
        None, trigger.now, lost=(trigger.boot_id, trigger.cause, trigger.dispatched), leftovers=trigger.leftovers
    )
    return _settle(state, trigger, ending)


def lost_active(state: State, trigger: Lost) -> Decision:
    """The loop or worker under a live execution is gone: fence it, release, then settle as any loss."""
    if trigger.execution_id != state.active or (trigger.of_pass or state.passes) != state.passes:
        return Decision(Verdict.IGNORE, state.phase)
    ending = Ending(
        None, trigger.now, lost=(trigger.boot_id, trigger.cause, trigger.dispatched), leftovers=trigger.leftovers
    )
    return Decision(DECIDE, FINISHING, at_once=CLOSE, ending=ending)


def retry_finish(state: State, trigger: RetryDue) -> Decision:
    """Try the refused FINISH again; a retry armed for something else finds that none was refused."""
    if state.ending is None or not state.ending.refused:
        return Decision(Verdict.IGNORE, state.phase)
    return finish(state, trigger)


def _may_recover(state: State) -> bool:
    facts = state.facts
    return state.resumes and bool(facts.counts) and not facts.held and state.startable and facts.terminated_at is None


def _failed(trigger: Wake | RetryDue, waiting: Sequence[Row]) -> list[Event]:
    """Move rows of a terminated thread to history; a queued tool has its call answered right behind it."""
    events: list[Event] = []
    moved: list[Row] = []
    unmade = dict(trigger.unmade)
    for row in waiting:
        moved.append(row)
        call = unmade.get(row.sequence)
        if call is not None:
            events.append(_unread(moved))
            said = "The thread was terminated before this call was made."
            events.append(
                MessageAdded(execution_id=None, message=result_of(call, f"{trigger.new_id}-{row.sequence}", said))
            )
            moved = []
    if moved:
        events.append(_unread(moved))
    return events


def _unread(rows: Sequence[Row]) -> MessagesJoined:
    return MessagesJoined(execution_id=None, rows=[row.stored() for row in rows], consumed=False, reason="terminated")


def wake(state: State, trigger: Wake | RetryDue) -> Decision:
    """Start what waits, move what a terminated thread's inbox still holds, or run again after a loss."""
    facts = state.facts
    waiting = [row for row in trigger.rows if row.kind != "steer"]
    if facts.terminated_at is not None:
        if not waiting:
            return Decision(Verdict.IGNORE, state.phase)
        return Decision(DECIDE, state.phase, _failed(trigger, waiting), actions=(Do(Action.WAKE),), closes=True)
    recovering = _may_recover(state)
    if may_start(state) and waiting:
        events, joined = start_from_rows(state, trigger.new_id, waiting, "recovery" if recovering else "rows")
        return start(events, None, joined)
    if recovering:
        return start(start_events(state, trigger.new_id, cause="recovery"), None)
    return Decision(Verdict.IGNORE, state.phase)


def retry_at_rest(state: State, trigger: RetryDue) -> Decision:
    """Try a START that nobody asked for again."""
    return wake(state, trigger)


def start_committed(state: State, trigger: Answer) -> Decision:
    """START is durable: acceptance opens and the body is called."""
    return _RUNNING


def start_not_written(state: State, trigger: Answer) -> Decision:
    """START is not durable: the slot is free, the rows stay; where rows wait, try again later."""
    wanted = may_start(state) or _may_recover(state)
    return Decision(DECIDE, IDLE, at_once=(Do(Action.RETRY, trigger.error_message),) if wanted else ())


def finish_committed(state: State, trigger: Answer) -> Decision:
    """The end is durable: the slot is free, and the next START comes before any other mail."""
    return _IDLE_THEN_WAKE if state.facts.rows or state.resumes else _IDLE


def finish_not_written(state: State, trigger: Answer) -> Decision:
    """The end is not durable: the thread stays owned and the commit is tried again."""
    assert state.ending is not None
    return Decision(
        DECIDE,
        FINISHING,
        at_once=(Do(Action.RETRY, trigger.error_message),),
        ending=state.ending._replace(refused=True),
        unrecorded=state.unrecorded or _nameless(trigger.interruption),
    )


def _nameless(interruption: ExecutionInterrupted | None) -> ExecutionInterrupted | None:
    """Take the id off a refused interruption: its caller got an error, so the id is judged afresh if it comes again."""
    if interruption is None or interruption.control_id is None:
        return interruption
    return interruption.model_copy(update={"control_id": None, "digest": None})


def interruption_not_written(state: State, trigger: Answer) -> Decision:
    """The body is told all the same; the record goes into the FINISH batch."""
    about = _nameless(trigger.interruption)
    return Decision(DECIDE, state.phase, at_once=(Do(Action.TELL, about), Do(Action.GRACE)), unrecorded=about)


def join_not_written(state: State, trigger: Answer) -> Decision:
    """The join before a further pass was refused: no further pass; what is unread stays unread."""
    if state.phase is not RUNNING:
        return Decision(DECIDE, state.phase)
    ending = Ending(
        "failed",
        trigger.now,
        "StorageFull" if trigger.error_code == "storage_full" else "StoreFailed",
        trigger.error_message or "The store refused the messages of the next pass.",
        "storage_full" if trigger.error_code == "storage_full" else "step_error",
    )
    return Decision(DECIDE, FINISHING, at_once=CLOSE, ending=ending)


def act(state: State, trigger: Answer) -> Decision:
    """The batch is durable: what was decided is done and said."""
    return Decision(DECIDE, state.phase)


def refused(state: State, trigger: Answer) -> Decision:
    """The batch was not written: its callers get the error. What nobody asked for, emptying a dead inbox, is tried again."""
    facts = state.facts
    if state.phase is IDLE and facts.terminated_at is not None and facts.rows:
        return Decision(DECIDE, state.phase, at_once=(Do(Action.RETRY, trigger.error_message),))
    return Decision(DECIDE, state.phase)
