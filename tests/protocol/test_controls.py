"""Controls: steer, interrupt, stop, resume, terminate, in every phase (semantics 1 and 5)."""

from __future__ import annotations

from typing import Any

import pytest

from treadle.protocol import limits
from treadle.protocol.decision import Action, Batch, Phase, Verdict
from treadle.protocol.errors import AgentNotFound, IdempotencyConflict, LimitExceeded, ThreadTerminated
from treadle.protocol.events import (
    ControlRecorded,
    ExecutionInterrupted,
    ExecutionStarted,
    HoldChanged,
    InboxFailed,
    MessageAdded,
)
from treadle.protocol.events import ThreadTerminated as TerminatedEvent
from treadle.protocol.receipts import ActiveExecution, ControlReceipt, Disposition, Receipt
from treadle.protocol.triggers import (
    Append,
    Ask,
    BodyEnded,
    Deadline,
    Inject,
    Interrupt,
    Prior,
    Released,
    Resume,
    Stop,
    Terminate,
)

from .states import Pure, in_phase, queue, steer, submit, text

LIVE = (Phase.RUNNING, Phase.STOPPING, Phase.FINISHING)
ANSWERED = (Phase.IDLE, *LIVE)


def kinds(events: list[Any]) -> list[str]:
    return [type(event).__name__ for event in events]


def active(phase: Phase) -> ActiveExecution | None:
    return None if phase is Phase.IDLE else ActiveExecution("e1", "a", 2, phase.value)  # type: ignore[arg-type]


def interrupt(target: str = "e1", **more: Any) -> Interrupt:
    control = more.get("control_id")
    return Interrupt(target, digest=control.encode() if control else None, **more)


# Steer and interrupt: what they are answered in each phase.


@pytest.mark.parametrize(
    ("phase", "target", "disposition"),
    [
        (Phase.IDLE, "e1", Disposition.NO_ACTIVE_EXECUTION),
        (Phase.RUNNING, "e1", Disposition.ACCEPTED),
        (Phase.STOPPING, "e1", Disposition.EXECUTION_FINISHING),
        (Phase.FINISHING, "e1", Disposition.EXECUTION_FINISHING),
        (Phase.RUNNING, "e0", Disposition.ACTIVE_EXECUTION_MISMATCH),
        (Phase.STOPPING, "e0", Disposition.ACTIVE_EXECUTION_MISMATCH),
        (Phase.FINISHING, "e0", Disposition.ACTIVE_EXECUTION_MISMATCH),
    ],
)
def test_a_steer_is_answered_by_phase_and_target(phase: Phase, target: str, disposition: Disposition) -> None:
    decision = in_phase(phase).judge(steer("c", target))

    assert decision.reply == ControlReceipt(disposition, "c", target, active(phase))
    assert bool(decision.events) == (disposition is Disposition.ACCEPTED)


@pytest.mark.parametrize(
    ("phase", "target", "disposition"),
    [
        (Phase.IDLE, "e1", Disposition.NO_ACTIVE_EXECUTION),
        (Phase.RUNNING, "e1", Disposition.ACCEPTED),
        (Phase.STOPPING, "e1", Disposition.ACCEPTED),
        (Phase.FINISHING, "e1", Disposition.EXECUTION_FINISHING),
        (Phase.RUNNING, "e0", Disposition.ACTIVE_EXECUTION_MISMATCH),
        (Phase.STOPPING, "e0", Disposition.ACTIVE_EXECUTION_MISMATCH),
        (Phase.FINISHING, "e0", Disposition.ACTIVE_EXECUTION_MISMATCH),
    ],
)
@pytest.mark.parametrize("control_id", [None, "k"])
def test_an_interrupt_is_answered_by_phase_and_target(
    phase: Phase, target: str, disposition: Disposition, control_id: str | None
) -> None:
    decision = in_phase(phase).judge(interrupt(target, control_id=control_id))

    # An accepted interrupt finds the execution stopping.
    owner = active(Phase.STOPPING) if disposition is Disposition.ACCEPTED else active(phase)
    assert decision.reply == ControlReceipt(disposition, control_id, target, owner)


@pytest.mark.parametrize("phase", ANSWERED)
@pytest.mark.parametrize("target", ["e0", "e1"])
@pytest.mark.parametrize("make", [steer, lambda name, target: interrupt(target, control_id=name)])
def test_a_repeated_control_gets_its_first_receipt_in_every_phase(phase: Phase, target: str, make: Any) -> None:
    decision = in_phase(phase).judge(make("k", target), prior=Prior(b"k", "first"))

    assert (decision.verdict, decision.reply, decision.events) == (Verdict.REFUSE, "first", [])


@pytest.mark.parametrize("phase", ANSWERED)
@pytest.mark.parametrize("make", [steer, lambda name: interrupt(control_id=name)])
def test_a_control_id_with_other_content_is_a_conflict(phase: Phase, make: Any) -> None:
    reply = in_phase(phase).judge(make("k"), prior=Prior(b"other", "first")).reply

    assert isinstance(reply, IdempotencyConflict)
    assert reply.details["id"] == "k"


def test_an_accepted_steer_is_one_row_bound_to_its_execution() -> None:
    thread = in_phase(Phase.RUNNING)

    thread.commit(steer("c"))

    assert [(row.kind, row.execution_id, row.input_id) for row in thread.rows] == [("steer", "e1", "c")]
    assert (thread.facts.steers, thread.facts.steer_bytes) == (1, 10)


def test_an_execution_that_may_not_be_steered_refuses_a_steer() -> None:
    thread = Pure()
    thread.state.agent_steerable = False
    thread.run()

    assert thread.judge(steer()).reply.disposition is Disposition.ACTIVE_INPUT_NOT_STEERABLE


def test_unread_steers_open_calls_and_requests_share_one_limit() -> None:
    thread = in_phase(Phase.RUNNING)
    thread.facts.steers, thread.facts.open_calls, thread.facts.pending = 100, 60, 39
    assert thread.judge(steer()).reply.disposition is Disposition.ACCEPTED

    thread.facts.pending = 40
    call = MessageAdded(execution_id="e1", message=text("m", calls=["c1"]))
    for trigger in (steer(), submit("x", "steer"), Append("e1", call, 5), Ask("e1", "r", "approval", None)):
        decision = thread.judge(trigger)
        assert isinstance(decision.reply, LimitExceeded), trigger
        assert decision.reply.details == {"limit": "unread", "maximum": 200, "met": 201, "execution_id": "e1"}
        assert decision.events == []


def test_unread_steers_and_open_calls_share_one_limit_of_bytes() -> None:
    thread = in_phase(Phase.RUNNING)
    thread.facts.steer_bytes = limits.UNREAD_BYTES_MAX - 10
    assert thread.judge(steer()).reply.disposition is Disposition.ACCEPTED

    thread.facts.open_bytes = 1
    assert isinstance(thread.judge(steer()).reply, LimitExceeded)


def test_an_interrupt_is_recorded_first_and_then_told() -> None:
    thread = in_phase(Phase.RUNNING)

    decision = thread.take(interrupt(reason="enough", source="parent", control_id="k"))

    assert decision.events == [
        ExecutionInterrupted(
            execution_id="e1", source="parent", reason="enough", hold=False, control_id="k", digest=b"k",
            active=["e1", "a", 2, "stopping"],
        )
    ]  # fmt: skip
    assert decision.at_once == ()
    assert [do.action for do in decision.actions] == [Action.TELL, Action.GRACE]
    assert decision.batch is Batch.INTERRUPTION
    assert thread.state.phase is Phase.STOPPING


def test_a_second_interrupt_without_anything_new_is_answered_at_once() -> None:
    decision = in_phase(Phase.STOPPING).judge(interrupt())

    assert (decision.verdict, decision.events) == (Verdict.REFUSE, [])
    assert decision.reply.disposition is Disposition.ACCEPTED


def test_a_second_interrupt_with_an_id_or_a_new_hold_is_one_commit_and_no_second_interruption() -> None:
    thread = in_phase(Phase.STOPPING)

    with_id = thread.commit(interrupt(control_id="k"))
    with_hold = thread.commit(interrupt(hold=True))
    with_both = thread.commit(interrupt(control_id="l", hold=True))

    assert kinds(with_id.events) == ["ControlRecorded"]
    assert kinds(with_hold.events) == ["HoldChanged"]
    assert kinds(with_both.events) == ["ControlRecorded"]  # held already
    assert [decision.batch for decision in (with_id, with_hold, with_both)] == [Batch.OTHER] * 3
    assert isinstance(with_id.events[0], ControlRecorded)
    assert with_both.reply.held
    assert sum(isinstance(event, ExecutionInterrupted) for event in thread.events) == 1


def test_an_interrupt_after_a_deadline_is_accepted_and_recorded_once_and_changes_nothing() -> None:
    thread = in_phase(Phase.RUNNING)
    thread.commit(Deadline("e1"))

    first = thread.commit(interrupt())
    second = thread.commit(interrupt())

    assert (kinds(first.events), first.reply.disposition) == (["ExecutionInterrupted"], Disposition.ACCEPTED)
    assert (second.events, second.reply.disposition) == ([], Disposition.ACCEPTED)
    ending = thread.take(BodyEnded("e1", "cancelled")).ending
    assert ending is not None
    assert (ending.outcome, ending.error_type) == ("failed", "ExecutionTimeout")


def test_an_interrupt_after_a_deadline_that_was_not_recorded_does_not_hide_it() -> None:
    thread = in_phase(Phase.RUNNING)
    thread.refuse(Deadline("e1"))

    assert kinds(thread.commit(interrupt()).events) == ["ExecutionInterrupted"]

    ending = thread.take(BodyEnded("e1", "cancelled")).ending
    assert ending is not None
    assert ending.error_type == "ExecutionTimeout"
    finish = thread.commit(Released("e1"))
    assert [event.source for event in finish.events if isinstance(event, ExecutionInterrupted)] == ["deadline"]


def test_a_receipt_after_a_deadline_says_whether_the_thread_is_held() -> None:
    thread = in_phase(Phase.RUNNING)
    thread.commit(Deadline("e1"))
    thread.commit(Stop())

    assert thread.commit(interrupt(control_id="k")).reply.held


# Hold, stop, resume.


@pytest.mark.parametrize(
    ("phase", "disposition", "events"),
    [
        (Phase.IDLE, Disposition.NO_ACTIVE_EXECUTION, ["HoldChanged"]),
        (Phase.RUNNING, Disposition.ACCEPTED, ["ExecutionInterrupted"]),
        (Phase.STOPPING, Disposition.ACCEPTED, ["HoldChanged"]),
        (Phase.FINISHING, Disposition.EXECUTION_FINISHING, ["HoldChanged"]),
    ],
)
def test_stop_holds_in_every_phase_and_interrupts_what_runs(
    phase: Phase, disposition: Disposition, events: list[str]
) -> None:
    thread = in_phase(phase)

    decision = thread.commit(Stop())

    assert (decision.reply.disposition, kinds(decision.events)) == (disposition, events)
    assert decision.reply.held
    assert thread.facts.held
    if phase is Phase.RUNNING:
        event = decision.events[0]
        assert (event.source, event.reason, event.hold) == ("user", "aborted_by_user", True)


@pytest.mark.parametrize("phase", ANSWERED)
def test_stop_on_a_held_thread_writes_nothing(phase: Phase) -> None:
    thread = in_phase(phase)
    if phase is Phase.RUNNING:
        return  # a START lifts every hold
    thread.commit(Stop())

    decision = thread.judge(Stop())

    assert (decision.verdict, decision.events, decision.reply.held) == (Verdict.REFUSE, [], True)


def test_stop_after_a_hold_that_was_not_recorded_records_one() -> None:
    thread = in_phase(Phase.RUNNING)
    thread.refuse(Stop())

    decision = thread.commit(Stop())

    assert kinds(decision.events) == ["HoldChanged"]
    assert thread.facts.held


def test_an_interrupt_with_hold_holds_and_a_plain_one_does_not() -> None:
    for hold in (True, False):
        thread = in_phase(Phase.RUNNING)
        decision = thread.commit(interrupt(hold=hold))
        assert (decision.reply.held, thread.facts.held) == (hold, hold)


def test_every_start_lifts_the_hold() -> None:
    thread = Pure()
    thread.commit(Stop())

    thread.run()

    assert (thread.facts.held, thread.facts.hold_reason) == (False, None)


@pytest.mark.parametrize("phase", LIVE)
def test_resume_while_active_lifts_a_hold_and_is_busy_without_one(phase: Phase) -> None:
    thread = in_phase(phase)
    assert thread.judge(Resume()).reply == Receipt(Disposition.BUSY, None, active_execution=active(phase))

    thread.facts.held = True
    decision = thread.commit(Resume())

    assert decision.events == [HoldChanged(held=False, reason=None)]
    assert decision.reply == Receipt(Disposition.ACCEPTED, None, (), "e1", 2, active(phase))


def test_resume_lifts_a_hold_that_only_finish_would_record() -> None:
    thread = in_phase(Phase.RUNNING)
    thread.refuse(Stop())

    decision = thread.take(Resume())
    thread.finish()

    assert (decision.reply.disposition, decision.events) == (Disposition.ACCEPTED, [])
    assert not thread.facts.held


def rested(*names: str) -> Pure:
    """Return a held thread at rest, with history and waiting messages."""
    thread = in_phase(Phase.RUNNING)
    thread.commit(Stop())
    for name in names:
        thread.commit(queue(name))
    thread.finish()
    return thread


def test_resume_starts_what_waits() -> None:
    thread = rested("q1", "q2")

    decision = thread.take(Resume())

    start = decision.events[0]
    assert isinstance(start, ExecutionStarted)
    assert (start.cause, start.input_id, start.steerable) == ("resume", "q1", True)
    assert [row.input_id for row in decision.joined] == ["q1", "q2"]
    now = thread.facts.started_at
    assert decision.reply == Receipt(
        Disposition.ACCEPTED, None, (), "e2", now, ActiveExecution("e2", "a", now, "running")
    )
    assert not thread.facts.held


def test_resume_runs_on_the_history_where_nothing_waits() -> None:
    thread = rested()

    decision = thread.take(Resume())

    assert kinds(decision.events) == ["ExecutionStarted"]
    assert (decision.events[0].cause, decision.events[0].input_id) == ("resume", None)


@pytest.mark.parametrize("held", [True, False])
def test_resume_without_rows_or_history_has_nothing_to_resume_and_lifts_the_hold(held: bool) -> None:
    thread = Pure()
    if held:
        thread.commit(Stop())

    decision = thread.commit(Resume())

    assert decision.reply == Receipt(Disposition.NOTHING_TO_RESUME, None)
    assert kinds(decision.events) == (["HoldChanged"] if held else [])
    assert not thread.facts.held


def test_resume_needs_the_agent_and_a_living_thread() -> None:
    thread = rested("q")
    thread.state.startable = False
    assert isinstance(thread.judge(Resume()).reply, AgentNotFound)

    thread.facts.terminated_at = 9
    assert isinstance(thread.judge(Resume()).reply, ThreadTerminated)


# Terminate.


@pytest.mark.parametrize(
    ("phase", "events"),
    [
        (Phase.IDLE, ["ThreadTerminated"]),
        (Phase.RUNNING, ["ThreadTerminated", "ExecutionInterrupted"]),
        (Phase.STOPPING, ["ThreadTerminated"]),
        (Phase.FINISHING, ["ThreadTerminated"]),
    ],
)
def test_terminate_closes_a_thread_in_every_phase(phase: Phase, events: list[str]) -> None:
    thread = in_phase(phase)

    decision = thread.commit(Terminate())

    assert kinds(decision.events) == events
    assert decision.reply == thread.facts.terminated_at is not None
    if phase is Phase.RUNNING:
        event = decision.events[-1]
        assert (event.source, event.reason, event.hold) == ("system", "aborted", False)
        assert thread.state.phase is Phase.STOPPING


@pytest.mark.parametrize("phase", ANSWERED)
def test_terminate_again_returns_the_first_time(phase: Phase) -> None:
    thread = in_phase(phase)
    first = thread.commit(Terminate()).reply

    decision = thread.judge(Terminate())

    assert (decision.verdict, decision.reply, decision.events) == (Verdict.REFUSE, first, [])


@pytest.mark.parametrize("phase", LIVE)
def test_one_event_stands_for_all_that_waited(phase: Phase) -> None:
    thread = in_phase(phase)
    thread.commit(queue("q1"))
    thread.commit(submit("s2", "queue"))
    through = thread.rows[-1].sequence

    decision = thread.commit(Terminate())

    failed = next(event for event in decision.events if isinstance(event, InboxFailed))
    assert failed.through >= through
    assert thread.facts.failed_through == failed.through
    assert isinstance(decision.events[0], TerminatedEvent)


def test_controls_of_a_terminated_thread_are_answered_by_phase() -> None:
    thread = in_phase(Phase.RUNNING)
    thread.commit(Terminate())

    assert thread.judge(steer()).reply.disposition is Disposition.EXECUTION_FINISHING
    assert thread.judge(interrupt()).reply.disposition is Disposition.ACCEPTED
    thread.finish()
    assert thread.judge(steer()).reply.disposition is Disposition.NO_ACTIVE_EXECUTION
    assert thread.judge(Stop()).reply.disposition is Disposition.NO_ACTIVE_EXECUTION
    assert isinstance(thread.judge(Inject(text("x"))).reply, ThreadTerminated)
