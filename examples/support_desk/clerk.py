"""Owns the clerk: a model without a network, which answers a desk's customer from the words and the tools' results."""

from __future__ import annotations

import asyncio
import json
import os
import re
from typing import TYPE_CHECKING, Final

from treadle.agents.models import ToolCall

from .answers import FAILED, WHICH, Found, answer
from .reading import Ask, numbers_in, read, spoken_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from treadle.agents.models import ModelMessage, ModelRequest

__all__ = ["clerk", "plan"]

PACE_S: Final = float(os.environ.get("DESK_PACE", "0.03"))
"""Seconds between two words, so that a reader at a terminal can follow, and interrupt."""


async def clerk(request: ModelRequest) -> AsyncGenerator[str | ToolCall, None]:
    """Answer a request as a provider's model would: in words, one after another, or with calls of tools."""
    text, calls = plan(request.messages)
    for word in re.findall(r"\S+\s*", text):
        yield word
        await asyncio.sleep(PACE_S)
    for call in calls:
        yield call


def plan(messages: Sequence[ModelMessage]) -> tuple[str, list[ToolCall]]:
    """Return what to say next and which tools to call; the same for the same messages."""
    turn = _Turn(messages)
    calls = turn.calls()
    if calls:
        return ("" if turn.results else "Let me look."), calls
    return answer(turn.ask, turn.found(), turn.refunds(), turn.last_answer), []


class _Turn:
    """One turn so far: what the customer asks, and what the tools have said."""

    def __init__(self, messages: Sequence[ModelMessage]) -> None:
        answered = [rank for rank, one in enumerate(messages) if one.role == "assistant" and not one.tool_calls]
        self.last_answer = (messages[answered[-1]].content or "") if answered else ""
        # What was cut off is not taken up again by itself: whoever still wants it says so once more.
        begun = 1 + max([-1, *answered, *(rank for rank, one in enumerate(messages) if _was_cut_off(one))])
        turn = messages[begun:]
        self.results: dict[tuple[str, str], ModelMessage] = {}
        called = {call.id: call for one in turn for call in one.tool_calls}
        for one in turn:
            if one.role == "tool" and one.tool_call_id in called:
                call = called[one.tool_call_id]
                self.results[call.name, _number(call)] = one
        self.ask: Ask = read(one.content or "" for one in turn if one.role == "user")
        self._rank = len(called)
        self._resolve([one.content or "" for one in messages[:begun] if one.role in ("user", "assistant")])

    def _resolve(self, before: list[str]) -> None:
        """Fill in what goes without saying: an answer to our question, and `it`."""
        ask = self.ask
        if WHICH in self.last_answer and not ask.wants - {"status"} and (ask.numbers or ask.words):
            ask.wants.add("refund")
        if ask.wants == {"brief"} and not ask.numbers:
            ask.numbers = numbers_in(self.last_answer)
        if ask.numbers and not ask.wants & {"refund", "list", "cancel"}:
            ask.wants.add("status")
        if ask.numbers or not ask.wants & {"refund", "status"}:
            return
        listed = self.results.get(("list_orders", ""))
        if listed is not None:
            ask.numbers = [order.number for order in _orders(listed) if ask.names(order.item)]
        elif ask.points_back:
            last = spoken_of(before[-6:])
            ask.numbers = [] if last is None else [last]

    def calls(self) -> list[ToolCall]:
        """Return the calls that are still to be made before there is an answer."""
        ask = self.ask
        if "list" in ask.wants or (ask.wants & {"refund", "status"} and not ask.numbers):
            return [self._call("list_orders")] if ("list_orders", "") not in self.results else []
        if not ask.wants & {"refund", "status"}:
            return []
        known = {found.number for found in self.found()}
        missing = [number for number in ask.numbers if number not in known]
        if missing:
            return [self._call("find_order", number=number) for number in missing]
        if "refund" not in ask.wants:
            return []
        open_ones = [one for one in self.found() if not one.missing and not one.refunded]
        return [
            self._call("refund_order", number=one.number, reason=ask.reason or "not given")
            for one in open_ones
            if ("refund_order", one.number) not in self.results
        ]

    def found(self) -> list[Found]:
        """Return what is known of the orders in question, in the order asked."""
        listed = self.results.get(("list_orders", ""))
        known = {order.number: order for order in (_orders(listed) if listed is not None else [])}
        for (name, number), result in self.results.items():
            if name == "find_order":
                known[number] = Found.missed(number) if result.failed else _orders(result)[0]
        numbers = self.ask.numbers or list(known)
        return [known[number] for number in numbers if number in known]

    def refunds(self) -> dict[str, ModelMessage]:
        """Return what came of refunds, by order."""
        return {number: result for (name, number), result in self.results.items() if name == "refund_order"}

    def _call(self, name: str, **arguments: str) -> ToolCall:
        self._rank += 1
        return ToolCall(f"{name}_{self._rank}", name, json.dumps(arguments))


def _was_cut_off(message: ModelMessage) -> bool:
    return message.role == "tool" and message.failed and not (message.content or "").startswith(FAILED)


def _number(call: ToolCall) -> str:
    return str(json.loads(call.arguments or "{}").get("number", ""))


def _orders(result: ModelMessage) -> list[Found]:
    told = json.loads(result.content or "[]")
    return [Found.of(order) for order in (told if isinstance(told, list) else [told])]
