"""Owns the support desk itself: a model on one side, the customer on the other."""

from treadle.agents import Agent, Side

desk = Agent(
    name="desk",
    description="Looks up orders and refunds them.",
    side_a=Side(prompt="desk", label="the desk", max_steps=12),
    side_b=Side(human=True),
    env={"SHOP_NAME": "Loom & Lantern"},
    hooks=["no_card_numbers"],
)
