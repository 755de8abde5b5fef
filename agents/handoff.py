"""Owns the taking over of a thread by another agent, after the step whose tool asked for it. Decides no turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..protocol.messages import draft_message
from .rows import fitting, reader
from .telemetry import show

if TYPE_CHECKING:
    from .flow import Flow
    from .session import Session
    from .thread_state import ThreadState

__all__ = ["take_over"]


async def take_over(flow: Flow, state: ThreadState, session: Session) -> None:
    """Put the agent that was handed to in the place of the old one; durable when it returns.

    Its side A acts next, its prompt path begins anew, the arguments of the call join `context`, and a `message` among
    them is stored for it. It counts as no turn.

    Raises:
        DefinitionNotFound: the agent is not there any more.
        ExecutionCancelled, ExecutionFenced: the execution is over.
    """
    handoff = flow.take_handoff()
    assert handoff is not None
    agent = flow.agent.definitions.agent(handoff.agent)
    await flow.execution.change_agent(agent.name)
    flow.agent, flow.side, flow.prompt = agent, "a", None
    flow.prompt_path = []
    state.context.update(handoff.arguments)
    await session.follow(agent)
    history = flow.execution.history
    for name in ("a", "b"):
        if flow.side_of(name).backing == "handler" and len(history):
            session.handle(name, history[-1])  # what was said before was the old agent's to answer
    show(flow, "agent_handoff", new_agent_id=agent.name, new_agent_title=agent.description or agent.name)
    if handoff.message is not None:
        said = fitting(state.scene.env.redactor.text(handoff.message))
        await state.append_hooked(draft_message(flow.execution.new_id(), reader("a"), said))
