"""Owns `find_order`, by which the desk looks up one order."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from treadle.agents import ThreadState, ToolResult, tool

from ..orders import OrderBook

Number = Annotated[str, Field(description="the four digits of the order", pattern=r"^\d{4}$")]


@tool
def find_order(state: ThreadState, number: Number) -> ToolResult | dict[str, object]:
    """Look up one order of the customer: what it is, what it cost, where it is."""
    order = OrderBook(state.env("ORDERS_FILE").result()).find(state.user_id or "", number)
    if order is None:
        return ToolResult(status="error", error=f"the customer has no order {number}", error_code="no_such_order")
    return order.told()
