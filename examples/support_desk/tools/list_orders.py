"""Owns `list_orders`, by which the desk sees all orders of its customer."""

from __future__ import annotations

from treadle.agents import ThreadState, tool

from ..orders import OrderBook


@tool
def list_orders(state: ThreadState) -> list[dict[str, object]]:
    """List all orders of the customer, the oldest first."""
    return [order.told() for order in OrderBook(state.env("ORDERS_FILE").result()).of(state.user_id or "")]
