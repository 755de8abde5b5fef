"""Owns the question whether an answer rests on a batch that is not durable yet, and so has to wait for it. Decides nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..protocol.errors import ThreadTerminated
from ..protocol.events import RequestTerminated
from ..protocol.events import ThreadTerminated as TerminatedEvent
from ..protocol.recorded import recorded_id
from ..protocol.triggers import Kind

if TYPE_CHECKING:
    from ..protocol.decision import Decision
    from .building import Building

__all__ = ["rests_on"]


def rests_on(building: Building, trigger: Any, decision: Decision) -> bool:
    """Say whether a refusal rests on what is in flight: a receipt, a request's end, or the thread's termination."""
    if isinstance(decision.reply, ThreadTerminated):
        return any(event.__class__ is TerminatedEvent for _, _, event in building.events)
    if trigger.kind is Kind.RESPOND:
        # That a request is abandoned is true whatever becomes of the batch: nobody reads an answer to it any more.
        return any(
            isinstance(event, RequestTerminated)
            and event.request_id == trigger.request_id
            and event.status != "abandoned"
            for _, _, event in building.events
        )
    given = getattr(trigger, "input_id", None) or getattr(trigger, "control_id", None)
    return given is not None and any(recorded_id(event) == given for _, _, event in building.events)
