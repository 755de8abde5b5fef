"""Owns what becomes of a hand-off: a body gives its thread to another agent. Pure; knows no agent but by its name.

The execution goes on as it is: it keeps its options and its body. What starts next is the new agent's.
"""

from __future__ import annotations

from .decision import DECIDE, Action, Decision, Do, State, Verdict
from .events import AgentChanged
from .triggers import Kind, Trigger

__all__ = ["ChangeAgent", "change_agent"]

_ADOPT = (Do(Action.ADOPT),)


class ChangeAgent(Trigger):
    """The body of `execution_id` gives the thread to the agent `agent_id`, which is registered."""

    kind = Kind.CHANGE_AGENT

    def __init__(self, execution_id: str, agent_id: str) -> None:
        super().__init__(execution_id)
        self.agent_id = agent_id


def change_agent(state: State, trigger: ChangeAgent) -> Decision:
    """Record whose the thread is from here on; nothing where it is that agent's already."""
    if trigger.agent_id == state.facts.agent_id:
        return Decision(Verdict.REFUSE, state.phase)
    assert state.active is not None
    event = AgentChanged(execution_id=state.active, agent_id=trigger.agent_id)
    return Decision(DECIDE, state.phase, [event], actions=_ADOPT)
