"""The live state and what a decision looks like when it decides nothing in particular."""

from __future__ import annotations

from treadle.protocol.decision import Action, Batch, Decision, Do, Phase, State, Verdict
from treadle.protocol.facts import Facts
from treadle.protocol.receipts import ActiveExecution
from treadle.protocol.triggers import BodyEnded, Stop

from .states import Pure, in_phase


def test_a_state_from_durable_facts_is_at_rest() -> None:
    facts = Facts()
    facts.agent_id = "a"

    state = State(facts)

    assert (state.phase, state.active, state.ending, state.unrecorded, state.resumes) == (
        Phase.IDLE,
        None,
        None,
        None,
        False,
    )
    assert (state.agent_name, state.agent_steerable, state.agent_timeout, state.startable) == ("a", True, None, True)


def test_ownership_outlives_the_fold_of_finish_until_finish_is_durable() -> None:
    thread = in_phase(Phase.FINISHING)
    assert thread.state.ownership() == ActiveExecution("e1", "a", 2, "finishing")

    thread.facts.execution_id = None  # folded, in flight
    assert thread.state.ownership() == ActiveExecution("e1", "a", 2, "finishing")
    assert thread.state.ownership(Phase.STOPPING) == ActiveExecution("e1", "a", 2, "stopping")
    assert Pure().state.ownership() is None


def test_a_hold_is_in_force_once_recorded_or_once_finish_will_record_it() -> None:
    thread = in_phase(Phase.RUNNING)
    assert not thread.state.held

    thread.refuse(Stop())
    assert (thread.state.held, thread.facts.held) == (True, False)

    thread.take(BodyEnded("e1"))
    assert thread.state.held


def test_a_decision_names_only_what_it_decides() -> None:
    decision = Decision(Verdict.IGNORE, Phase.IDLE)

    assert (decision.events, decision.reply, decision.actions, decision.at_once) == ([], None, (), ())
    assert (decision.batch, decision.closes, decision.joined) == (Batch.OTHER, False, ())
    assert (decision.ending, decision.unrecorded) == (None, None)


def test_an_action_may_be_about_nothing() -> None:
    assert Do(Action.WAKE).about is None
