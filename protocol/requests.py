"""Owns what becomes of requests: opened by a body, ended by one answer, by their time, or with their execution. Pure.

A request is pending from the commit that opens it to the commit that ends it, and only while its execution may still
read an answer: with the first interruption, or with the end of acceptance, its answer can only be `cancelled`. FINISH
and the settling of a loss abandon what is pending (`ending`), so no pending request outlives its execution.
"""

from __future__ import annotations

from .controls import refuse_unread
from .decision import DECIDE, Action, Decision, Do, State, Verdict
from .errors import InvalidInput
from .events import RequestOpened, RequestTerminated
from .receipts import RespondStatus
from .refusals import refuse
from .triggers import Ask, Expire, Respond, Standing

__all__ = ["expire", "open_request", "respond_over", "respond_running"]

_OVER: dict[Standing | None, RespondStatus] = {
    None: RespondStatus.NOT_FOUND,
    # Of an execution that reads nothing more: to be abandoned, if that is not durable yet.
    "pending": RespondStatus.CANCELLED,
    "abandoned": RespondStatus.CANCELLED,
    "resolved": RespondStatus.ALREADY_RESOLVED,
    "expired": RespondStatus.TIMED_OUT,
}


def open_request(state: State, trigger: Ask) -> Decision:
    """Record the request; its id is used once in the life of a thread, so that an answer can only mean this one."""
    if trigger.standing is not None:
        error = InvalidInput(
            f"request {trigger.request_id!r} of thread {state.facts.thread_id!r} exists ({trigger.standing}); use a new id",
            code="request_exists",
            thread_id=state.facts.thread_id,
            request_id=trigger.request_id,
        )
        return refuse(state, error)
    over = refuse_unread(state, 1, 0)
    if over is not None:
        return over
    assert trigger.execution_id is not None
    event = RequestOpened(
        execution_id=trigger.execution_id,
        request_id=trigger.request_id,
        kind=trigger.about,
        payload=trigger.payload,
        timeout=trigger.timeout,
    )
    return Decision(DECIDE, state.phase, [event], event)


def respond_running(state: State, trigger: Respond) -> Decision:
    """Take the first answer to a pending request, and tell the body once that is durable."""
    if trigger.standing != "pending":
        return respond_over(state, trigger)
    event = RequestTerminated(request_id=trigger.request_id, status="resolved", value=trigger.value)
    answer = Do(Action.ANSWER, (trigger.request_id, "resolved", trigger.copy))
    return Decision(DECIDE, state.phase, [event], RespondStatus.ACCEPTED, actions=(answer,))


def respond_over(state: State, trigger: Respond) -> Decision:
    """Say what became of the request; nobody reads an answer to it."""
    return refuse(state, _OVER[trigger.standing])


def expire(state: State, trigger: Expire) -> Decision:
    """End a request that nobody answered in its time; an answer that came before stands."""
    if trigger.execution_id != state.active or trigger.standing != "pending":
        return Decision(Verdict.IGNORE, state.phase)
    event = RequestTerminated(request_id=trigger.request_id, status="expired", value=None)
    answer = Do(Action.ANSWER, (trigger.request_id, "expired", None))
    return Decision(DECIDE, state.phase, [event], True, actions=(answer,))
