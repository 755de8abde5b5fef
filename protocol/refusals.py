"""Owns the answers that write nothing: repeats, and errors that a thread's own facts give rise to."""

from __future__ import annotations

from .decision import Decision, State, Verdict
from .errors import AgentNotFound, IdempotencyConflict, ThreadTerminated
from .triggers import Prior

__all__ = ["agent_missing", "refuse", "repeat", "terminated"]


def refuse(state: State, reply: object) -> Decision:
    """Answer at once; nothing is written."""
    return Decision(Verdict.REFUSE, state.phase, reply=reply)


def repeat(state: State, prior: Prior | None, digest: bytes | None, given_id: str | None) -> Decision | None:
    """Answer a repeat with its first receipt, or refuse the id for other content; None where the id is new."""
    if prior is None:
        return None
    if prior.digest == digest:
        return refuse(state, prior.receipt)
    thread_id = state.facts.thread_id
    conflict = IdempotencyConflict(
        f"id {given_id!r} of thread {thread_id!r} was accepted before with other content, target, on_busy or hold",
        thread_id=thread_id,
        id=given_id,
    )
    return refuse(state, conflict)


def terminated(state: State) -> Decision:
    """Refuse what a terminated thread no longer takes."""
    facts = state.facts
    error = ThreadTerminated(
        f"Thread is terminated (terminated_at={facts.terminated_at})",
        thread_id=facts.thread_id,
        terminated_at=facts.terminated_at,
    )
    return refuse(state, error)


def agent_missing(state: State) -> Decision:
    """Refuse what would need an agent that is not registered."""
    name, thread_id = state.agent_name, state.facts.thread_id
    error = AgentNotFound(f"agent {name!r} of thread {thread_id!r} is not registered", agent=name, thread_id=thread_id)
    return refuse(state, error)
