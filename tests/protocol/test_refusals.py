"""Answers that write nothing: repeats, conflicts, terminated threads, missing agents."""

from __future__ import annotations

from treadle.protocol.decision import Phase, Verdict
from treadle.protocol.errors import AgentNotFound, IdempotencyConflict, ThreadTerminated
from treadle.protocol.refusals import agent_missing, refuse, repeat, terminated
from treadle.protocol.triggers import Prior

from .states import Pure, in_phase


def test_a_refusal_changes_nothing() -> None:
    decision = refuse(in_phase(Phase.RUNNING).state, "no")

    assert (decision.verdict, decision.phase, decision.reply) == (Verdict.REFUSE, Phase.RUNNING, "no")
    assert (decision.events, decision.actions, decision.at_once, decision.closes) == ([], (), (), False)


def test_a_new_id_is_no_repeat() -> None:
    assert repeat(Pure().state, None, b"d", "x") is None


def test_equal_content_gets_the_first_receipt_and_other_content_a_conflict() -> None:
    state = Pure().state
    same = repeat(state, Prior(b"d", "first"), b"d", "x")
    other = repeat(state, Prior(b"d", "first"), b"e", "x")

    assert same is not None
    assert same.reply == "first"
    assert other is not None
    assert isinstance(other.reply, IdempotencyConflict)
    assert other.reply.details == {"thread_id": "t", "id": "x"}


def test_errors_of_a_thread_carry_what_is_needed_to_act() -> None:
    state = Pure().state
    state.facts.terminated_at = 5

    assert isinstance(terminated(state).reply, ThreadTerminated)
    assert terminated(state).reply.details == {"thread_id": "t", "terminated_at": 5}
    assert isinstance(agent_missing(state).reply, AgentNotFound)
    assert agent_missing(state).reply.details == {"agent": "a", "thread_id": "t"}
