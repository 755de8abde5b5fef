"""Hand-offs: the thread is another agent's from here on, and the execution that gave it away goes on."""

from __future__ import annotations

import pytest

from treadle.protocol.decision import Action, Do, Phase, Refusal, Verdict
from treadle.protocol.events import AgentChanged
from treadle.protocol.handoffs import ChangeAgent

from .states import Pure, in_phase, queue


def test_a_hand_off_is_recorded_and_the_new_agents_options_are_taken_once_it_is_durable() -> None:
    thread = in_phase(Phase.RUNNING)

    decision = thread.commit(ChangeAgent("e1", "b"))

    assert decision.events == [AgentChanged(execution_id="e1", agent_id="b")]
    assert (decision.phase, decision.actions, decision.at_once) == (Phase.RUNNING, (Do(Action.ADOPT),), ())
    assert (thread.facts.agent_id, thread.facts.execution_id, thread.facts.state) == ("b", "e1", "running")


def test_a_hand_off_to_the_agent_whose_it_is_writes_nothing() -> None:
    thread = in_phase(Phase.RUNNING)
    decision = thread.judge(ChangeAgent("e1", "a"))
    assert (decision.verdict, decision.reply, decision.events) == (Verdict.REFUSE, None, [])


def test_what_starts_next_and_what_finishes_is_the_new_agents() -> None:
    thread = in_phase(Phase.RUNNING)
    thread.commit(ChangeAgent("e1", "b"))

    assert thread.finish().events[-1].agent_id == "b"  # type: ignore[attr-defined]
    started = thread.commit(queue())
    assert started.events[1].agent_id == "b"  # type: ignore[attr-defined]
    assert started.reply.active_execution.agent_id == "b"


def test_receipts_name_the_agent_whose_the_thread_is() -> None:
    thread = in_phase(Phase.RUNNING)
    thread.commit(ChangeAgent("e1", "b"))
    owner = thread.state.ownership()
    assert owner is not None
    assert owner.agent_id == "b"


def test_an_interrupted_body_hands_nothing_off() -> None:
    assert in_phase(Phase.STOPPING).judge(ChangeAgent("e1", "b")).reply is Refusal.CANCELLED


@pytest.mark.parametrize(("phase", "execution"), [(Phase.FINISHING, "e1"), (Phase.RUNNING, "e0"), (Phase.IDLE, "e1")])
def test_a_body_whose_acceptance_is_closed_hands_nothing_off(phase: Phase, execution: str) -> None:
    assert in_phase(phase).judge(ChangeAgent(execution, "b")).reply is Refusal.FENCED


def test_a_refused_hand_off_leaves_the_thread_whose_it_was() -> None:
    thread: Pure = in_phase(Phase.RUNNING)
    thread.refuse(ChangeAgent("e1", "b"))
    assert (thread.facts.agent_id, thread.state.phase) == ("a", Phase.RUNNING)
