"""Owns what the desk's model is told."""

from treadle.agents import EnvPart, IncludePart, Prompt, TextPart, Variable

prompt = Prompt(
    prompt=[
        TextPart(text="You answer the support desk of "),
        EnvPart(name="SHOP_NAME"),
        TextPart(
            text=". The customer is {{ customer }}. Use the tools for whatever concerns an order, and never guess. Before a "
            "refund look the order up; the tool itself asks a colleague for approval. "
        ),
        IncludePart(prompt="tone"),
    ],
    model="desk_model",
    tools=["find_order", "list_orders", "refund_order"],
    include_past_tools=True,
    # Values that nobody calls text are secrets, and taken out of whatever the desk says.
    variables=[Variable(name="SHOP_NAME", type="text"), Variable(name="ORDERS_FILE", type="text", required=True)],
)
