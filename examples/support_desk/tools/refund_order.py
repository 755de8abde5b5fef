"""Owns `refund_order`, which asks a person before money goes back."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from treadle.agents import ThreadState, ToolResult, tool

from ..orders import OrderBook

Number = Annotated[str, Field(description="the four digits of the order", pattern=r"^\d{4}$")]


@tool
async def refund_order(state: ThreadState, number: Number, reason: str = "not given") -> ToolResult | str:
    """Refund an order in full. A colleague approves it first, so this may take a while.

    Args:
        number: the order.
        reason: the customer's reason, in a few words.
    """
    book = OrderBook(await state.env("ORDERS_FILE"))
    order = book.find(state.user_id or "", number)
    if order is None:
        return ToolResult(status="error", error=f"the customer has no order {number}", error_code="no_such_order")
    if order.refunded:
        return f"order {number} was refunded before; nothing was paid twice"
    if order.state == "cancelled":
        return ToolResult(
            status="error", error=f"order {number} was cancelled and never charged", error_code="not_charged"
        )
    # The execution waits here for as long as it takes; a stop ends the wait, a crash abandons it and refunds nothing.
    answer = await state.request("approval", {"refund": order.told(), "reason": reason})
    # A plain yes, as the console's button says it, or one that names who said it.
    said = answer if isinstance(answer, dict) else {"approved": answer}
    if said.get("approved") is not True:
        return ToolResult(status="error", error="it was not approved", error_code="not_approved")
    book.refund(order, reason, str(said.get("by", "a colleague")))
    return f"refunded {order.cents / 100:.2f} EUR for order {number}"
