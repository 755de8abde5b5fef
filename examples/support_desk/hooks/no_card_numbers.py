"""Owns the hook that keeps card numbers from the model: customers type them, and no provider needs to read them."""

from __future__ import annotations

import re
from dataclasses import replace

from treadle.agents import ThreadState, hook
from treadle.agents.models import ModelMessage

_CARD = re.compile(r"\b\d(?:[ -]?\d){12,18}\b")


@hook("prefilter_llm_history", id="no_card_numbers")
def no_card_numbers(state: ThreadState, messages: list[ModelMessage]) -> list[ModelMessage]:  # noqa: ARG001 - a hook's first
    """Return the request's messages without card numbers; what is stored stays as it is."""
    return [
        replace(message, content=_CARD.sub("[card number]", message.content)) if message.content else message
        for message in messages
    ]
