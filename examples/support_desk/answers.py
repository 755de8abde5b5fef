"""Owns what the embedded clerk says, from what was asked and what was found. Looks nothing up and decides no call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from treadle.agents.models import ModelMessage

    from .reading import Ask

__all__ = ["FAILED", "WHICH", "Found", "answer"]

WHICH: Final = "Which order should I refund?"
OFFER: Final = "I can tell you where an order is, list your orders, or refund one."

_SMALL_TALK: Final[Mapping[str, str]] = {
    "person": "You have reached the desk's assistant; a colleague reads along wherever money is involved.",
    "who": "I am the assistant of the support desk: a small program, and not a person.",
    "wellbeing": "Very well, thank you.",
    "thanks": "You are welcome!",
    "goodbye": "Goodbye, and enjoy your things.",
    "help": OFFER,
}
FAILED: Final = "Failed to execute tool: "


class Found(NamedTuple):
    """An order as a tool told it; `missing` where the customer has none of that number."""

    number: str
    item: str = ""
    state: str = ""
    note: str = ""
    price: str = ""
    refunded: bool = False
    missing: bool = False

    @classmethod
    def of(cls, told: Mapping[str, object]) -> Found:
        """Make one of a tool's result."""
        number, item, state, note, price = (
            str(told.get(name, "")) for name in ("number", "item", "state", "note", "price")
        )
        return cls(number, item, state, note, price, refunded=bool(told.get("refunded")))

    @classmethod
    def missed(cls, number: str) -> Found:
        """Make what stands for an order that is not there."""
        return cls(number, missing=True)


def answer(ask: Ask, found: Sequence[Found], refunds: Mapping[str, ModelMessage], last_answer: str) -> str:
    """Return the answer to what was asked.

    Args:
        ask: what the turn's messages ask for together.
        found: the orders in question.
        refunds: what came of each refund that was tried.
        last_answer: what was said last, for who wants it shorter.
    """
    brief = "brief" in ask.wants
    said = _about_orders(ask, found, refunds, brief=brief)
    if len(said) > 2:
        said = ["\n".join(["Here they are:", *(f"- {text}" for text in said)])]
    if not said and brief and last_answer:
        said = [f"In short: {last_answer.split('. ', maxsplit=1)[0].rstrip('.')}."]
    if not said and "never_mind" in ask.wants:
        said = ["All right, I leave everything as it is."]
    talk = [text for want, text in _SMALL_TALK.items() if want in ask.wants]
    if brief and said:
        talk = []
    greeting = ["Hello!"] if "greeting" in ask.wants and not brief else []
    if not said and not talk:
        talk = [f"How can I help? {OFFER}" if greeting else f"I am not sure that I understand. {OFFER}"]
    closing = [text for text in talk if text == _SMALL_TALK["goodbye"]]
    return " ".join([*greeting, *(text for text in talk if text not in closing), *said, *closing])


def _about_orders(ask: Ask, found: Sequence[Found], refunds: Mapping[str, ModelMessage], *, brief: bool) -> list[str]:
    said: list[str] = []
    if "refund" in ask.wants:
        if not ask.numbers:
            return [_which(found)]
        said = [_refunded(one, refunds.get(one.number), brief=brief) for one in found]
    elif ask.wants & {"status", "list"}:
        if not found:
            return ["I find no order of yours."]
        said = [_brief(one) if brief else _told(one) for one in found]
    if "cancel" in ask.wants and "refund" not in ask.wants:
        said.append("I cannot cancel an order; once it is there, I can refund it.")
    return said


def _which(found: Sequence[Found]) -> str:
    open_ones = [f"{one.number} ({one.item})" for one in found if not one.refunded and one.state != "cancelled"]
    return f"{WHICH} You have {_joined(open_ones)}." if open_ones else "There is nothing to refund."


def _told(one: Found) -> str:
    if one.missing:
        return f"I find no order {one.number} of yours."
    refunded = " It was refunded." if one.refunded else ""
    verb = "was" if one.state == "cancelled" else "is"
    return f"Order {one.number}, {one.item} for {one.price}, {verb} {one.state}: {one.note}.{refunded}"


def _brief(one: Found) -> str:
    return f"{one.number}: {'not found' if one.missing else 'refunded' if one.refunded else one.state}."


def _refunded(one: Found, result: ModelMessage | None, *, brief: bool) -> str:
    if one.missing:
        return f"I find no order {one.number} of yours, so I refunded nothing for it."
    if result is None:
        return (
            f"Order {one.number} was refunded before; nothing is paid twice."
            if one.refunded
            else f"I left order {one.number} as it is."
        )
    said = (result.content or "").removeprefix(FAILED)
    if result.failed:
        return f"I could not refund order {one.number}: {said}."
    if said.startswith("refunded"):
        if brief:
            return f"{said[:1].upper()}{said[1:]}."
        return f"Done: I {said}, {one.item}. It is back on your account in about three days."
    return f"{said[:1].upper()}{said[1:]}."


def _joined(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
