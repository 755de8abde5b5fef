"""Inputs: submit by on_busy, the queue, withdrawal, messages from outside, values."""

from __future__ import annotations

from typing import Any

import pytest

from treadle.protocol import limits
from treadle.protocol.decision import Action, Batch, Do, Phase, Refusal, Verdict
from treadle.protocol.errors import AgentNotFound, IdempotencyConflict, LimitExceeded, StorageFull, ThreadTerminated
from treadle.protocol.events import ExecutionInterrupted, ExecutionStarted, HoldChanged, InputQueued, MessagesJoined
from treadle.protocol.inbox import Row
from treadle.protocol.receipts import ActiveExecution, Disposition, Receipt, Withdrawal
from treadle.protocol.triggers import (
    BodyEnded,
    Deadline,
    Inject,
    Interrupt,
    Lost,
    Prior,
    Released,
    SetValue,
    Stop,
    Terminate,
    Withdraw,
)

from .states import Pure, in_phase, queue, steer, submit, text

ACCEPTED, QUEUED, BUSY = Disposition.ACCEPTED, Disposition.QUEUED, Disposition.BUSY


def kinds(events: list[Any]) -> list[str]:
    return [type(event).__name__ for event in events]


# Section 3, row by row: (on_busy, phase) -> disposition, delivered_as, interrupted.
ON_BUSY = [
    ("reject", Phase.IDLE, ACCEPTED, "input", None),
    ("reject", Phase.RUNNING, BUSY, "input", None),
    ("reject", Phase.STOPPING, BUSY, "input", None),
    ("reject", Phase.FINISHING, BUSY, "input", None),
    ("queue", Phase.IDLE, ACCEPTED, "input", None),
    ("queue", Phase.RUNNING, QUEUED, "input", None),
    ("queue", Phase.STOPPING, QUEUED, "input", None),
    ("queue", Phase.FINISHING, QUEUED, "input", None),
    ("steer", Phase.IDLE, ACCEPTED, "input", None),
    ("steer", Phase.RUNNING, ACCEPTED, "steer", None),
    ("steer", Phase.STOPPING, BUSY, "input", None),
    ("steer", Phase.FINISHING, BUSY, "input", None),
    ("interrupt", Phase.IDLE, ACCEPTED, "input", None),
    ("interrupt", Phase.RUNNING, QUEUED, "input", "e1"),
    ("interrupt", Phase.STOPPING, QUEUED, "input", None),
    ("interrupt", Phase.FINISHING, QUEUED, "input", None),
]


@pytest.mark.parametrize(("on_busy", "phase", "disposition", "delivered_as", "interrupted"), ON_BUSY)
def test_submit_is_answered_by_on_busy(
    on_busy: str, phase: Phase, disposition: Disposition, delivered_as: str, interrupted: str | None
) -> None:
    thread = in_phase(phase)
    facts = thread.facts.values()

    decision = thread.judge(submit("x", on_busy))

    reply = decision.reply
    assert isinstance(reply, Receipt)
    assert (reply.disposition, reply.delivered_as, reply.interrupted) == (disposition, delivered_as, interrupted)
    assert reply.input_id == "x"
    assert thread.facts.values() == facts
    if disposition is BUSY:
        assert (decision.verdict, decision.events, reply.message_ids) == (Verdict.REFUSE, [], ())
        assert reply.active_execution == ActiveExecution("e1", "a", 2, phase.value)
    else:
        assert reply.message_ids == ("x-m",)


def test_a_busy_receipt_names_the_live_execution() -> None:
    reply = in_phase(Phase.RUNNING).judge(submit("x")).reply

    assert reply == Receipt(BUSY, "x", active_execution=ActiveExecution("e1", "a", 2, "running"))


def test_an_accepted_submit_starts_in_the_same_commit() -> None:
    thread = Pure()

    decision = thread.take(submit("s", timeout=3.0))

    assert decision.batch is Batch.START
    assert decision.closes
    assert decision.actions == (Do(Action.DISPATCH),)
    assert decision.events == [
        ExecutionStarted(
            execution_id="e1", agent_id="a", cause="submit", input_id="s", messages=[text("s")], digest=b"s",
            steerable=True, timeout=3.0,
        )
    ]  # fmt: skip
    active = ActiveExecution("e1", "a", 2, "running")
    assert decision.reply == Receipt(ACCEPTED, "s", ("s-m",), "e1", 2, active)
    assert (thread.facts.state, thread.facts.since, thread.facts.execution_id) == ("running", 2, "e1")


def test_the_agents_time_is_the_default_of_the_inputs() -> None:
    thread = Pure()
    thread.state.agent_timeout = 9.0

    assert thread.judge(submit()).events[0].timeout == 9.0
    assert thread.judge(submit(timeout=2.0)).events[0].timeout == 2.0


def test_a_submit_takes_its_input_first_and_then_the_waiting_messages_that_came_with_it() -> None:
    thread = held_with("queue", "submit")
    first, second = thread.rows

    decision = thread.take(submit("x"))

    assert kinds(decision.events) == ["ExecutionStarted", "MessagesJoined"]
    assert decision.events[1].rows == [first.stored()]
    assert decision.joined == (first,)
    assert thread.rows == [second]
    assert not thread.facts.held


def held_with(*verbs: str) -> Pure:
    """Return a held thread at rest with waiting rows."""
    thread = in_phase(Phase.RUNNING)
    thread.commit(Interrupt("e1", hold=True))
    for rank, verb in enumerate(verbs, 1):
        thread.commit(queue(f"q{rank}") if verb == "queue" else submit(f"w{rank}", "queue"))
        if verb != "queue":
            thread.facts.held = True  # a stored submit lifts the hold; these tests want one all the same
    thread.finish()
    assert (thread.state.phase, thread.facts.held) == (Phase.IDLE, True)
    return thread


def test_a_submit_that_queues_stands_behind_submits_that_wait_and_lifts_the_hold() -> None:
    thread = held_with("submit")

    decision = thread.take(submit("x", "queue"))

    assert kinds(decision.events) == ["InputQueued", "HoldChanged"]
    assert decision.reply.disposition is QUEUED
    assert decision.actions == (Do(Action.WAKE),)
    assert [row.input_id for row in thread.rows] == ["w1", "x"]
    assert not thread.facts.held


@pytest.mark.parametrize("on_busy", ["queue", "steer", "interrupt"])
def test_every_stored_submit_lifts_the_hold_in_the_same_commit(on_busy: str) -> None:
    thread = in_phase(Phase.RUNNING)
    thread.facts.held = True

    decision = thread.judge(submit("x", on_busy))

    assert HoldChanged(held=False, reason=None) in decision.events
    assert not decision.reply.held


def test_a_refused_submit_lifts_nothing() -> None:
    thread = in_phase(Phase.RUNNING)
    thread.facts.held = True

    assert thread.judge(submit("x")).reply.held
    assert thread.judge(submit("x")).events == []


def test_a_submit_lifts_a_hold_that_only_finish_would_record() -> None:
    thread = in_phase(Phase.RUNNING)
    thread.refuse(Stop())
    assert thread.state.held
    assert not thread.facts.held

    thread.commit(submit("x", "queue"))
    thread.finish()

    assert not thread.facts.held
    assert [row.input_id for row in thread.rows] == ["x"]


def test_interrupting_submits_stand_ahead_of_all_others_in_their_own_order() -> None:
    thread = in_phase(Phase.RUNNING)
    thread.commit(queue("q"))
    thread.commit(submit("w", "queue"))

    decision = thread.commit(submit("i1", "interrupt"))
    thread.commit(submit("i2", "interrupt"))

    assert kinds(decision.events) == ["ExecutionInterrupted", "InputQueued"]
    assert decision.batch is Batch.INTERRUPTION
    assert decision.actions[0].action is Action.TELL
    assert [row.input_id for row in thread.rows] == ["i1", "i2", "q", "w"]
    assert sum(isinstance(event, ExecutionInterrupted) for event in thread.events) == 1


def test_a_submit_that_may_steer_finds_an_execution_that_may_not_be_steered() -> None:
    thread = Pure()
    thread.state.agent_steerable = False
    thread.run()

    decision = thread.judge(submit("x", "steer"))

    assert (decision.reply.disposition, decision.events) == (BUSY, [])


def test_a_submit_as_a_steer_is_bound_to_the_execution_and_has_its_start() -> None:
    thread = in_phase(Phase.RUNNING)

    reply = thread.commit(submit("x", "steer")).reply

    active = ActiveExecution("e1", "a", 2, "running")
    assert reply == Receipt(ACCEPTED, "x", ("x-m",), "e1", 2, active, "steer")
    assert [(row.kind, row.execution_id) for row in thread.rows] == [("steer", "e1")]


# Section 4.


@pytest.mark.parametrize("phase", [Phase.IDLE, Phase.RUNNING, Phase.STOPPING, Phase.FINISHING])
@pytest.mark.parametrize("make", [submit, queue])
def test_a_repeat_gets_the_first_receipt_in_every_phase(phase: Phase, make: Any) -> None:
    first = Receipt(ACCEPTED, "x", ("x-m",), "e0", 1)
    trigger = make("x")

    decision = in_phase(phase).judge(trigger, prior=Prior(b"x", first))

    assert decision.reply is first
    assert (decision.verdict, decision.events) == (Verdict.REFUSE, [])


@pytest.mark.parametrize("phase", [Phase.IDLE, Phase.RUNNING, Phase.STOPPING, Phase.FINISHING])
@pytest.mark.parametrize("make", [submit, queue])
def test_an_id_with_other_content_is_a_conflict(phase: Phase, make: Any) -> None:
    reply = in_phase(phase).judge(make("x"), prior=Prior(b"other", None)).reply

    assert isinstance(reply, IdempotencyConflict)
    assert reply.details == {"thread_id": "t", "id": "x"}


def test_a_repeat_on_a_terminated_thread_still_gets_its_first_receipt() -> None:
    thread = Pure()
    thread.commit(Terminate())

    assert thread.judge(submit("x"), prior=Prior(b"x", "first")).reply == "first"


# The queue.


@pytest.mark.parametrize("phase", Phase)
def test_a_queued_message_is_always_answered_queued(phase: Phase) -> None:
    if phase is Phase.STARTING:
        return
    reply = in_phase(phase).judge(queue("x")).reply

    assert (reply.disposition, reply.execution_id, reply.started_at, reply.message_ids) == (
        QUEUED,
        None,
        None,
        ("x-m",),
    )


def test_a_message_queued_at_rest_starts_an_execution_in_the_same_commit() -> None:
    thread = Pure()

    decision = thread.take(queue("x"))

    assert kinds(decision.events) == ["InputQueued", "ExecutionStarted", "MessagesJoined"]
    assert [row.input_id for row in decision.joined] == ["x"]
    assert (decision.events[1].cause, decision.events[1].input_id) == ("rows", "x")
    assert decision.reply.active_execution == ActiveExecution("e1", "a", thread.facts.started_at, "running")
    assert thread.rows == []
    assert (thread.facts.rows, thread.facts.messages) == (0, 1)


def test_a_message_queued_on_a_held_thread_waits_and_says_so() -> None:
    thread = held_with()

    decision = thread.commit(queue("x"))

    assert kinds(decision.events) == ["InputQueued"]
    assert (decision.reply.held, thread.facts.held) == (True, True)


def test_a_message_queued_while_a_hold_waits_for_finish_says_held() -> None:
    thread = in_phase(Phase.RUNNING)
    thread.refuse(Stop())

    assert thread.judge(queue("x")).reply.held


def test_a_queued_message_does_not_pass_older_rows_that_were_not_looked_up() -> None:
    thread = held_with("queue", "queue", "queue")
    thread.facts.held = False
    looked_up = thread.rows[:2]

    decision = thread.take(queue("x"), rows=looked_up)

    assert [row.input_id for row in decision.joined] == ["q1", "q2"]
    assert [row.input_id for row in thread.rows] == ["q3", "x"]


def test_a_body_queues_to_its_own_thread_until_its_acceptance_closes() -> None:
    for phase in (Phase.RUNNING, Phase.STOPPING):
        decision = in_phase(phase).judge(queue("x", originating="e1", execution_id="e1"))
        assert decision.events[0].originating_execution_id == "e1"
    for phase in (Phase.IDLE, Phase.FINISHING):
        decision = in_phase(phase).judge(queue("x", originating="e1", execution_id="e1"))
        assert (decision.verdict, decision.reply, decision.events) == (Verdict.REFUSE, Refusal.FENCED, [])
    other = in_phase(Phase.RUNNING).judge(queue("x", originating="e0", execution_id="e0"))
    assert other.reply is Refusal.FENCED


def test_another_threads_body_may_queue_at_any_time() -> None:
    decision = in_phase(Phase.FINISHING).judge(queue("x", originating="other"))

    assert decision.events[0].originating_execution_id == "other"


# Limits, missing agents, terminated threads, a full disk.


def full(phase: Phase) -> Pure:
    thread = in_phase(phase)
    thread.facts.waiting_messages = limits.QUEUED_MAX
    return thread


@pytest.mark.parametrize(
    ("phase", "trigger"),
    [
        (Phase.RUNNING, queue("x")),
        (Phase.IDLE, queue("x")),
        (Phase.STOPPING, submit("x", "queue")),
        (Phase.RUNNING, submit("x", "interrupt")),
        (Phase.FINISHING, submit("x", "interrupt")),
    ],
)
def test_one_row_too_many_is_refused_with_the_limit(phase: Phase, trigger: Any) -> None:
    decision = full(phase).judge(trigger)

    assert isinstance(decision.reply, LimitExceeded)
    assert decision.reply.details["limit"] == "queued"
    assert (decision.reply.details["maximum"], decision.reply.details["met"]) == (10_000, 10_001)
    assert (decision.verdict, decision.events) == (Verdict.REFUSE, [])


def test_a_full_inbox_refuses_nothing_that_it_would_not_store() -> None:
    assert full(Phase.RUNNING).judge(submit("x")).reply.disposition is BUSY
    assert full(Phase.IDLE).judge(submit("x")).reply.disposition is ACCEPTED


@pytest.mark.parametrize("phase", [Phase.IDLE, Phase.RUNNING, Phase.STOPPING, Phase.FINISHING])
@pytest.mark.parametrize("trigger", [submit("x"), queue("x"), Inject(text("x"))])
def test_a_terminated_thread_takes_nothing(phase: Phase, trigger: Any) -> None:
    thread = in_phase(phase)
    thread.facts.terminated_at = 7

    reply = thread.judge(trigger).reply

    assert isinstance(reply, ThreadTerminated)
    assert reply.details == {"thread_id": "t", "terminated_at": 7}


def test_a_submit_for_a_missing_agent_fails_before_anything_is_stored() -> None:
    thread = Pure()
    thread.state.startable = False

    decision = thread.judge(submit("x"))

    assert isinstance(decision.reply, AgentNotFound)
    assert decision.reply.details == {"agent": "a", "thread_id": "t"}
    assert decision.events == []


def test_a_message_for_a_missing_agent_waits() -> None:
    thread = Pure()
    thread.state.startable = False

    assert kinds(thread.judge(queue("x")).events) == ["InputQueued"]


def test_a_loss_that_cannot_be_recorded_refuses_submits_with_storage_full() -> None:
    thread = in_phase(Phase.RUNNING)
    thread.take(Lost("e1", boot_id="b", cause="loop_closed", dispatched=True))
    assert thread.judge(submit("x", "queue")).reply.disposition is QUEUED

    thread.refuse(Released("e1"))

    for on_busy in ("reject", "queue", "steer", "interrupt"):
        reply = thread.judge(submit("x", on_busy)).reply
        assert isinstance(reply, StorageFull)
        assert reply.details == {"thread_id": "t", "execution_id": "e1"}


# Withdraw, inject, values.


ROW = Row(4, "message", "x", None, 1, 0, 10, False, None)


@pytest.mark.parametrize(
    ("row", "known", "withdrawn", "failed_through", "answer"),
    [
        (ROW, True, False, 0, Withdrawal.WITHDRAWN),
        (ROW._replace(kind="submit"), True, False, 3, Withdrawal.WITHDRAWN),
        (ROW._replace(kind="steer"), True, False, 0, Withdrawal.ALREADY_DELIVERED),
        (ROW, True, False, 4, Withdrawal.ALREADY_DELIVERED),
        (None, True, False, 0, Withdrawal.ALREADY_DELIVERED),
        (None, False, False, 0, Withdrawal.NOT_FOUND),
        (None, True, True, 0, Withdrawal.WITHDRAWN),
    ],
)
@pytest.mark.parametrize("phase", [Phase.IDLE, Phase.RUNNING, Phase.STOPPING, Phase.FINISHING])
def test_withdraw_takes_back_only_what_waits(
    phase: Phase, row: Row | None, known: bool, withdrawn: bool, failed_through: int, answer: Withdrawal
) -> None:
    thread = in_phase(phase)
    thread.facts.failed_through = failed_through

    decision = thread.judge(Withdraw("x"), row=row, known=known, withdrawn=withdrawn)

    assert decision.reply is answer
    taken = row is not None and answer is Withdrawal.WITHDRAWN
    assert kinds(decision.events) == (["InputWithdrawn"] if taken else [])


def test_a_withdrawn_input_leaves_the_inbox_and_never_joins() -> None:
    thread = in_phase(Phase.RUNNING)
    thread.commit(queue("x"))
    row = thread.rows[0]

    thread.commit(Withdraw("x"), row=row, known=True)

    assert (thread.facts.rows, thread.facts.queued_plain, thread.facts.messages) == (0, 0, 1)


@pytest.mark.parametrize("phase", [Phase.IDLE, Phase.RUNNING, Phase.STOPPING, Phase.FINISHING])
def test_a_message_from_outside_joins_at_once_and_starts_nothing(phase: Phase) -> None:
    thread = in_phase(phase)
    before = thread.facts.messages

    decision = thread.take(Inject(text("x")))

    assert kinds(decision.events) == ["MessageAdded"]
    assert decision.reply == text("x")
    assert (thread.state.phase, thread.facts.messages) == (phase, before + 1)


@pytest.mark.parametrize("phase", [Phase.IDLE, Phase.RUNNING, Phase.STOPPING, Phase.FINISHING])
@pytest.mark.parametrize("encoded", [b"1", None])
def test_values_are_the_threads_own_in_every_phase(phase: Phase, encoded: bytes | None) -> None:
    event = in_phase(phase).judge(SetValue("k", encoded)).events[0]

    assert (event.key, event.deleted) == ("k", encoded is None)


@pytest.mark.parametrize(
    ("phase", "execution_id", "taken"),
    [
        (Phase.RUNNING, "e1", True),
        (Phase.STOPPING, "e1", True),
        (Phase.FINISHING, "e1", False),
        (Phase.RUNNING, "e0", False),
        (Phase.IDLE, "e1", False),
    ],
)
def test_a_body_sets_values_until_its_acceptance_closes(phase: Phase, execution_id: str, taken: bool) -> None:
    decision = in_phase(phase).judge(SetValue("k", b"1", execution_id))

    assert (decision.reply is Refusal.FENCED, bool(decision.events)) == (not taken, taken)


def test_what_waits_behind_a_deadline_is_stored_as_behind_an_interrupt() -> None:
    thread = in_phase(Phase.RUNNING)
    thread.commit(Deadline("e1"))

    assert thread.judge(submit("x")).reply.disposition is BUSY
    assert thread.judge(submit("x", "interrupt")).reply.interrupted is None


def test_a_steer_and_a_message_join_the_same_pass_and_a_submit_waits() -> None:
    thread = in_phase(Phase.RUNNING)
    thread.commit(submit("w", "queue"))
    thread.commit(steer("c"))
    thread.commit(queue("q"))

    decision = thread.take(BodyEnded("e1"))

    joined = decision.events[-1]
    assert isinstance(joined, MessagesJoined)
    assert [row.input_id for row in decision.joined] == ["c", "q"]
    assert [row.input_id for row in thread.rows] == ["w"]
    assert isinstance(thread.events[1], InputQueued)
