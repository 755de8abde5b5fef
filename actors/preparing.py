"""Owns what is looked up for each trigger before it is decided. Decides nothing and writes nothing.

Counters in the facts say where a look-up would find nothing, so that the usual mail costs no read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ..protocol.decision import FINISHING, IDLE, RUNNING, State
from ..protocol.triggers import Kind
from .building import Building, Lookups
from .message_edits import find

__all__ = ["LOOK_UPS", "Source"]


class Source(Protocol):
    """Who makes the look-ups over the batch under way; asked only where there is something to look up."""

    def lookups(self, building: Building | None, /) -> Lookups:
        """Return them."""
        ...


_QUEUE, _BODY_ENDED = Kind.QUEUE, Kind.BODY_ENDED
_JOINABLE = ("steer", "message", "tool")
_STARTING = ("submit", "message", "tool")


def _submit(trigger: Any, state: State, source: Source, under_way: Building | None) -> None:
    if trigger.digest is not None:
        trigger.prior = source.lookups(under_way).prior(trigger.input_id)
    if state.facts.waiting_messages and state.phase is IDLE and trigger.prior is None:
        trigger.rows = source.lookups(under_way).rows(("message", "tool"))


def _input(trigger: Any, state: State, source: Source, under_way: Building | None) -> None:
    if trigger.digest is not None:
        trigger.prior = source.lookups(under_way).prior(trigger.input_id)
    if state.phase is IDLE and trigger.prior is None:
        facts = state.facts
        if trigger.kind is _QUEUE and facts.waiting_messages + facts.waiting_submits and not facts.held:
            trigger.rows = source.lookups(under_way).rows(_STARTING)


def _interrupt(trigger: Any, state: State, source: Source, under_way: Building | None) -> None:
    if trigger.control_id is not None:
        trigger.prior = source.lookups(under_way).prior(trigger.control_id)


def _starting(trigger: Any, state: State, source: Source, under_way: Building | None) -> None:
    facts = state.facts
    if state.phase is IDLE and facts.waiting_messages + facts.waiting_submits:
        lookups = source.lookups(under_way)
        trigger.rows = lookups.rows(_STARTING)
        if facts.terminated_at is not None:
            trigger.unmade = lookups.unmade(trigger.rows)


def _withdraw(trigger: Any, state: State, source: Source, under_way: Building | None) -> None:
    trigger.known, trigger.withdrawn, trigger.row = source.lookups(under_way).withdrawable(trigger.input_id)


def _edit(trigger: Any, state: State, source: Source, under_way: Building | None) -> None:
    lookups = source.lookups(under_way)
    trigger.found = find(lookups, state.facts, lookups.number, trigger.message_id)


def _append(trigger: Any, state: State, source: Source, under_way: Building | None) -> None:
    draft = trigger.event.message
    if len(draft) == 3:  # id, role and content: no call in it
        return
    if draft.get("closes"):
        trigger.open_call = (
            bool(state.facts.open_calls) and draft["tool_call_id"] in source.lookups(under_way).open_calls()
        )
    elif draft.get("calls") and state.facts.open_calls:
        already = source.lookups(under_way).open_calls()
        trigger.doubled = next((call for call in draft["calls"] if call in already), None)


def _joinable(trigger: Any, state: State, source: Source, under_way: Building | None) -> None:
    facts = state.facts
    if facts.steers + facts.waiting_messages and state.phase is RUNNING:
        lookups = source.lookups(under_way)
        trigger.rows = [row for row in lookups.rows(_JOINABLE) if row.sequence > facts.failed_through]
        if trigger.kind is _BODY_ENDED and facts.open_calls:
            trigger.open_calls = lookups.left_open()


def _closing(trigger: Any, state: State, source: Source, under_way: Building | None) -> None:
    facts = state.facts
    if facts.steers:
        trigger.rows = source.lookups(under_way).rows(("steer",))
    if facts.open_calls:
        trigger.open_calls = source.lookups(under_way).left_open()
    if facts.pending:
        trigger.pending = source.lookups(under_way).pending()


def _request(trigger: Any, state: State, source: Source, under_way: Building | None) -> None:
    if not trigger.made:
        trigger.standing = source.lookups(under_way).standing(trigger.request_id)


def _standing(trigger: Any, state: State, source: Source, under_way: Building | None) -> None:
    trigger.standing = source.lookups(under_way).standing(trigger.request_id)


def _retry(trigger: Any, state: State, source: Source, under_way: Building | None) -> None:
    if state.phase is FINISHING:
        _closing(trigger, state, source, under_way)
    else:
        _starting(trigger, state, source, under_way)


# What fills in, for each kind of trigger, what its rule reads beyond the facts; the others need nothing.
LOOK_UPS: dict[Kind, Callable[[Any, State, Source, Building | None], None]] = {
    Kind.SUBMIT: _submit,
    Kind.STEER: _input,
    Kind.QUEUE: _input,
    Kind.INTERRUPT: _interrupt,
    Kind.RESUME: _starting,
    Kind.WAKE: _starting,
    Kind.RETRY_DUE: _retry,
    Kind.WITHDRAW: _withdraw,
    Kind.UPDATE_MESSAGE: _edit,
    Kind.DELETE_MESSAGE: _edit,
    Kind.APPEND: _append,
    Kind.CONSUME: _joinable,
    Kind.REQUEST: _request,
    Kind.RESPOND: _standing,
    Kind.REQUEST_EXPIRED: _standing,
    Kind.BODY_ENDED: _joinable,
    Kind.RELEASED: _closing,
    Kind.LOST: _closing,
}
