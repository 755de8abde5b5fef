"""What ends or turns the loop is one for all flows of an execution; a sub-prompt's counters are its own."""

from __future__ import annotations

from typing import cast

from treadle.actors.execution import Execution
from treadle.agents.agent_definition import Agent
from treadle.agents.flow import Flow, Handoff, SessionEnd, current_flow, flow_of, other_side
from treadle.agents.prompt import Prompt
from treadle.agents.side import Side

AGENT = Agent(name="a", side_a=Side(prompt="p"), side_b=Side(prompt="q"))
PROMPT = Prompt(name="sub", prompt="x", model="m")


class Owner:
    """An execution that holds a flow."""

    id = "e1"

    def __init__(self) -> None:
        self.body_flow: object = None
        self.history: list[object] = []


def flow() -> Flow:
    made = Flow(cast(Execution, Owner()), AGENT)
    made.prompt_path = ["p"]
    made.execution.body_flow = made
    return made


def test_a_sub_prompt_shares_the_course_and_has_counters_of_its_own() -> None:
    root = flow()
    root.step_count, root.message_id = 3, "m1"
    child = root.child(PROMPT, {"text": "x"})

    assert (child.depth, child.parent_message_id, child.step_count) == (1, "m1", 0)
    assert (child.prompt_path, root.prompt_path) == (["p", "sub"], ["p"])
    child.stop()
    child.end_session(SessionEnd("state_stop_session"))
    child.hand_off(Handoff("b", {}))
    assert (root.stopped, root.stopped_by) == (True, "a")
    assert (root.session_end, root.handoff) == (SessionEnd("state_stop_session"), Handoff("b", {}))


def test_a_forced_turn_takes_a_stop_back_and_a_stop_after_it_stays() -> None:
    root = flow()
    root.stop()
    root.force_turn("b")
    assert (root.stopped, root.forced) == (False, "b")
    root.stop()
    assert root.stopped
    assert (root.take_forced(), root.forced) == ("b", None)


def test_the_first_end_of_a_session_counts_and_the_last_handoff() -> None:
    root = flow()
    for reason in ("session_stop", "session_fail"):
        root.end_session(SessionEnd(reason))
        root.hand_off(Handoff(reason, {}))

    assert root.session_end == SessionEnd("session_stop")
    assert root.take_handoff() == Handoff("session_fail", {})
    assert root.handoff is None


def test_the_sides_of_a_flow() -> None:
    root = flow()
    assert (root.acting.prompt, root.sibling.prompt) == ("p", "q")
    root.side = other_side(root.side)
    assert (root.acting.prompt, root.sibling.prompt, other_side(root.side)) == ("q", "p", "a")


def test_code_belongs_to_the_flow_of_its_sub_prompt() -> None:
    root = flow()
    child = root.child(PROMPT, {})
    assert flow_of(root.execution) is root
    token = current_flow.set(child)
    try:
        assert flow_of(root.execution) is child
        assert flow_of(flow().execution) is not child  # another execution's code is not in it
    finally:
        current_flow.reset(token)
    assert flow_of(cast(Execution, Owner())) is None
