"""Owns what is looked up for each trigger before it is decided. Decides nothing and writes nothing.

Counters in the facts say where a look-up would find nothing, so that the usual mail costs no read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..protocol.decision import FINISHING, IDLE, RUNNING, State
from ..protocol.events import MessageAdded
from ..protocol.triggers import Kind
from .building import Lookups

__all__ = ["LOOK_UPS"]

_JOINABLE = ("steer", "message")
_STARTING = ("submit", "message")


def _input(trigger: Any, state: State, lookups: Lookups) -> None:
    if trigger.digest is not None:
        trigger.prior = lookups.prior(trigger.input_id)
    if state.phase is IDLE and trigger.prior is None:
        facts = state.facts
        if trigger.kind is Kind.QUEUE and facts.waiting_messages + facts.waiting_submits and not facts.held:
            trigger.rows = lookups.rows(_STARTING)
        elif trigger.kind is Kind.SUBMIT and facts.waiting_messages:
            trigger.rows = lookups.rows(("message",))


def _interrupt(trigger: Any, state: State, lookups: Lookups) -> None:
    if trigger.control_id is not None:
        trigger.prior = lookups.prior(trigger.control_id)


def _starting(trigger: Any, state: State, lookups: Lookups) -> None:
    facts = state.facts
    if state.phase is IDLE and facts.waiting_messages + facts.waiting_submits:
        trigger.rows = lookups.rows(_STARTING)


def _withdraw(trigger: Any, state: State, lookups: Lookups) -> None:
    trigger.known, trigger.withdrawn, trigger.row = lookups.withdrawable(trigger.input_id)


def _append(trigger: Any, state: State, lookups: Lookups) -> None:
    event = trigger.event
    if not isinstance(event, MessageAdded):
        return
    draft = event.message
    if draft.get("closes"):
        trigger.open_call = bool(state.facts.open_calls) and draft["tool_call_id"] in lookups.open_calls()
    elif draft.get("calls") and state.facts.open_calls:
        already = set(lookups.open_calls())
        trigger.doubled = next((call for call in draft["calls"] if call in already), None)


def _joinable(trigger: Any, state: State, lookups: Lookups) -> None:
    facts = state.facts
    if state.phase is RUNNING and facts.steers + facts.waiting_messages:
        trigger.rows = [row for row in lookups.rows(_JOINABLE) if row.sequence > facts.failed_through]
        if trigger.kind is Kind.BODY_ENDED and facts.open_calls:
            trigger.open_calls = lookups.open_calls()


def _closing(trigger: Any, state: State, lookups: Lookups) -> None:
    facts = state.facts
    if facts.steers:
        trigger.rows = lookups.rows(("steer",))
    if facts.open_calls:
        trigger.open_calls = lookups.open_calls()
    if facts.pending:
        trigger.pending = lookups.pending()


def _retry(trigger: Any, state: State, lookups: Lookups) -> None:
    if state.phase is FINISHING:
        _closing(trigger, state, lookups)
    else:
        _starting(trigger, state, lookups)


# What fills in, for each kind of trigger, what its rule reads beyond the facts; the others need nothing.
LOOK_UPS: dict[Kind, Callable[[Any, State, Lookups], None]] = {
    Kind.SUBMIT: _input,
    Kind.STEER: _input,
    Kind.QUEUE: _input,
    Kind.INTERRUPT: _interrupt,
    Kind.RESUME: _starting,
    Kind.WAKE: _starting,
    Kind.RETRY_DUE: _retry,
    Kind.WITHDRAW: _withdraw,
    Kind.APPEND: _append,
    Kind.CONSUME: _joinable,
    Kind.BODY_ENDED: _joinable,
    Kind.RELEASED: _closing,
    Kind.LOST: _closing,
}
