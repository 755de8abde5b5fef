"""Owns what a START is made of: the input first, then the waiting messages that fit. Decides not whether to start."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from .decision import DECIDE, STARTING, Action, Batch, Decision, Do, State
from .events import Event, ExecutionStarted, MessagesJoined
from .inbox import Row
from .limits import TOOLS_JOINED_MAX, UNREAD_MAX
from .messages import Draft

__all__ = ["joinable", "joining", "may_start", "start", "start_events", "start_from_rows"]


_DISPATCH = (Do(Action.DISPATCH),)
_START = Batch.START


def may_start(state: State) -> bool:
    """Say whether waiting rows may start an execution by themselves."""
    facts = state.facts
    return (
        bool(facts.waiting_messages + facts.waiting_submits)
        and not facts.held
        and state.startable
        and facts.terminated_at is None
    )


def joinable(state: State, rows: Sequence[Row]) -> list[Row]:
    """Return the rows that may join an execution: no submit, and of queued tools as many as its ending can close."""
    if not rows:
        return []  # nearly always
    room = min(TOOLS_JOINED_MAX, UNREAD_MAX - state.facts.pending - state.facts.steers)
    joined = []
    for row in rows:
        if row.kind == "tool":
            room -= 1
        # A submit wants an execution of its own: it never joins one that runs.
        if row.kind != "submit" and (row.kind != "tool" or room >= 0):
            joined.append(row)
    return joined


def start_events(
    state: State,
    execution_id: str,
    *,
    cause: Literal["submit", "rows", "resume", "recovery"],
    input_id: str | None = None,
    messages: Sequence[Draft] = (),
    digest: bytes | None = None,
    timeout: float | None = None,
    joined: Sequence[Row] = (),
    steerable: bool = True,
) -> list[Event]:
    """Return START and, where rows join with it, their joining; it takes steers where its agent's executions do."""
    events: list[Event] = [
        ExecutionStarted(
            execution_id=execution_id,
            agent_id=state.agent_name,
            cause=cause,
            input_id=input_id,
            messages=list(messages),
            digest=digest,
            steerable=steerable and state.agent_steerable,
            timeout=timeout if timeout is not None else state.agent_timeout,
        )
    ]
    if joined:
        events.append(joining(execution_id, joined))
    return events


def joining(execution_id: str | None, rows: Sequence[Row]) -> MessagesJoined:
    """Return the event of rows that a pass or a step of an execution begins with."""
    return MessagesJoined(execution_id=execution_id, rows=[row.stored() for row in rows], consumed=True, reason=None)


def start(events: list[Event], reply: object, joined: Sequence[Row] = ()) -> Decision:
    """Return the decision that hands START over."""
    return Decision(DECIDE, STARTING, events, reply, _DISPATCH, _START, True, tuple(joined) if joined else ())


def start_from_rows(
    state: State, execution_id: str, rows: Sequence[Row], cause: Literal["rows", "resume", "recovery"]
) -> tuple[list[Event], list[Row]]:
    """Return the events of a START that takes the oldest waiting row and every waiting message that fits.

    One that a queued tool starts takes no steers (semantics 2).

    The rows come in the inbox's own order: those of an interruption first, then by age.
    """
    oldest = rows[0]
    joined = joinable(state, rows)
    if oldest.kind == "submit":
        joined.insert(0, oldest)
    events = start_events(
        state,
        execution_id,
        cause=cause,
        input_id=oldest.input_id,
        timeout=oldest.timeout,
        joined=joined,
        steerable=oldest.kind != "tool",
    )
    return events, joined
