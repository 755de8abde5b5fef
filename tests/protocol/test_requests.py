"""Requests: opened once, ended once, by an answer, by their time or with their execution."""

from __future__ import annotations

import pytest

from treadle.protocol.decision import Action, Decision, Do, Phase, Refusal, Verdict
from treadle.protocol.errors import InvalidInput, LimitExceeded
from treadle.protocol.events import RequestOpened, RequestTerminated
from treadle.protocol.receipts import RespondStatus
from treadle.protocol.triggers import Ask, BodyEnded, Expire, Interrupt, Lost, Released, Respond

from .states import Pure, in_phase

ENDED = {
    "resolved": RespondStatus.ALREADY_RESOLVED,
    "expired": RespondStatus.TIMED_OUT,
    "abandoned": RespondStatus.CANCELLED,
    None: RespondStatus.NOT_FOUND,
}


def ask(request_id: str = "r", **more: object) -> Ask:
    return Ask("e1", request_id, "approval", {"of": 1}, **more)  # type: ignore[arg-type]


def respond(request_id: str = "r") -> Respond:
    return Respond(request_id, {"yes": [1]}, {"yes": [1]})


def asking() -> Pure:
    """Return a running thread with the pending request r."""
    thread = in_phase(Phase.RUNNING)
    thread.commit(ask())
    return thread


def test_a_request_is_recorded_with_all_that_whoever_answers_needs() -> None:
    thread = in_phase(Phase.RUNNING)

    decision = thread.commit(ask(timeout=2.5))

    opened = RequestOpened(execution_id="e1", request_id="r", kind="approval", payload={"of": 1}, timeout=2.5)
    assert (decision.events, decision.reply, decision.actions) == ([opened], opened, ())
    assert thread.facts.pending == 1


@pytest.mark.parametrize("standing", ["pending", "resolved", "expired", "abandoned"])
def test_an_id_is_used_for_one_request_in_the_life_of_a_thread(standing: str) -> None:
    decision = in_phase(Phase.RUNNING).judge(ask(), standing=standing)

    assert isinstance(decision.reply, InvalidInput)
    assert (decision.reply.code, decision.events) == ("request_exists", [])
    assert decision.reply.details == {"thread_id": "t", "request_id": "r"}


def test_a_request_too_many_is_refused_so_that_finish_fits_a_batch() -> None:
    thread = in_phase(Phase.RUNNING)
    thread.facts.pending = 200

    decision = thread.judge(ask())

    assert isinstance(decision.reply, LimitExceeded)
    assert (decision.verdict, decision.events) == (Verdict.REFUSE, [])


def test_an_interrupted_body_asks_for_nothing_and_a_fenced_one_neither() -> None:
    assert in_phase(Phase.STOPPING).judge(ask()).reply is Refusal.CANCELLED
    assert in_phase(Phase.FINISHING).judge(ask()).reply is Refusal.FENCED
    assert in_phase(Phase.IDLE).judge(ask()).reply is Refusal.FENCED


def test_the_first_answer_is_recorded_and_told_to_the_body_after_its_commit() -> None:
    thread = asking()
    trigger = respond()

    decision = thread.commit(trigger, standing="pending")

    assert decision.events == [RequestTerminated(request_id="r", status="resolved", value={"yes": [1]})]
    assert decision.reply is RespondStatus.ACCEPTED
    assert decision.at_once == ()
    assert decision.actions == (Do(Action.ANSWER, ("r", "resolved", {"yes": [1]})),)
    assert decision.actions[0].about[2] is trigger.copy  # the body may change what it got; the event stays
    assert thread.facts.pending == 0


@pytest.mark.parametrize("phase", [Phase.IDLE, Phase.RUNNING, Phase.STOPPING, Phase.FINISHING])
@pytest.mark.parametrize("standing", ENDED)
def test_any_other_answer_is_told_what_became_of_the_request(phase: Phase, standing: str | None) -> None:
    decision = in_phase(phase).judge(respond(), standing=standing)

    assert decision.reply is ENDED[standing]
    assert (decision.verdict, decision.events, decision.actions) == (Verdict.REFUSE, [], ())


@pytest.mark.parametrize("phase", [Phase.IDLE, Phase.STOPPING, Phase.FINISHING])
def test_what_nobody_will_read_is_cancelled_before_it_is_abandoned(phase: Phase) -> None:
    assert in_phase(phase).judge(respond(), standing="pending").reply is RespondStatus.CANCELLED


def test_an_answer_waits_until_it_is_known_whether_start_is_durable() -> None:
    assert in_phase(Phase.STARTING).judge(respond(), standing="pending").verdict is Verdict.POSTPONE


def test_a_request_that_nobody_answered_expires_and_its_body_is_told() -> None:
    thread = asking()

    decision = thread.commit(Expire("e1", "r"), standing="pending")

    assert decision.events == [RequestTerminated(request_id="r", status="expired", value=None)]
    assert decision.actions == (Do(Action.ANSWER, ("r", "expired", None)),)
    assert thread.facts.pending == 0


@pytest.mark.parametrize("standing", ["resolved", "expired", "abandoned", None])
def test_time_that_runs_out_after_the_end_changes_nothing(standing: str | None) -> None:
    assert in_phase(Phase.RUNNING).judge(Expire("e1", "r"), standing=standing).verdict is Verdict.IGNORE


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase is not Phase.RUNNING])
def test_time_that_runs_out_where_nobody_waits_changes_nothing(phase: Phase) -> None:
    assert in_phase(phase).judge(Expire("e1", "r"), standing="pending").verdict is Verdict.IGNORE


def test_the_time_of_an_earlier_executions_request_is_nothing_to_the_live_one() -> None:
    assert in_phase(Phase.RUNNING).judge(Expire("e0", "r"), standing="pending").verdict is Verdict.IGNORE


def ended(thread: Pure) -> Decision:
    return thread.commit(Released("e1"), pending=["r"])


def test_however_the_execution_ends_its_pending_request_is_abandoned_before_the_end() -> None:
    abandoned = RequestTerminated(request_id="r", status="abandoned", value=None)
    returned, interrupted, lost = asking(), asking(), asking()

    returned.take(BodyEnded("e1"))
    interrupted.commit(Interrupt("e1"))
    interrupted.take(BodyEnded("e1"))
    lost.take(Lost("e1", boot_id="b", cause="process", dispatched=True))

    for thread in (returned, interrupted, lost):
        assert ended(thread).events[0] == abandoned
        assert thread.facts.pending == 0
