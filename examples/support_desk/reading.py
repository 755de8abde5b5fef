"""Owns what the embedded clerk makes of a customer's words: order numbers and what is wanted. Looks nothing up."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["Ask", "numbers_in", "read", "spoken_of"]

_NUMBER: Final = re.compile(r"(?<![\d.,-])(\d{4})(?![\d-])")

# Tried on the lower-cased text, all of them: one message may want several things.
_WANTS: Final[Mapping[str, re.Pattern[str]]] = {
    name: re.compile(pattern)
    for name, pattern in {
        "refund": r"\brefund|\bmoney back\b|\breimburse|\breturn(ed|ing)?\b|\bsend (it|them|this|that) back\b",
        "status": r"\bwhere\b|\bwhen\b|\bstatus\b|\btrack|\barriv|\bdeliver|\bshipp?|\bhow long\b|\blate\b|\bthere yet\b",
        "list": r"\b(all|which|what|show|list)\b[^.?!]*\borders\b|\bmy (other )?orders\b|\bwhat (did|have) i (order|buy|bought)",
        "cancel": r"\bcancel\b(?! that| it)",
        "brief": r"\bshort(er|ly)?\b|\bbrief|\bin (one|a) (word|line|sentence)\b|\bkeep it (short|simple)\b",
        "never_mind": r"\bnever ?mind\b|\bforget (it|that|about)|\bcancel (that|it)\b|\bleave it\b|\b(no|don'?t|do not) refund\b",
        "instead": r"\binstead\b|\bi meant?\b|\brather\b|\bwrong (one|order|number)\b",
        "person": r"\b(speak|talk)\b[^.?!]*\b(human|person|somebody|someone|colleague)\b|\breal person\b",
        "help": r"\bhelp\b|\bwhat can you do\b|\bhow does this work\b",
        "who": r"\bwho are you\b|\bare you (a|an|real|human)\b|\byour name\b",
        "wellbeing": r"\bhow are you\b|\bhow'?s it going\b|\bhow do you do\b",
        "thanks": r"\bthank|\bthx\b|\bcheers\b|\bgreat\b|\bperfect\b|\bgood (job|work)\b",
        "goodbye": r"\bbye\b|\bgoodbye\b|\bsee you\b|\bthat'?s all\b|\bthat is all\b",
        "greeting": r"^\s*(hi|hello|hey|good (morning|afternoon|evening|day)|greetings)\b",
    }.items()
}
_REASON: Final = re.compile(
    r"\b(?:because|since)\s+(.+)|[,;:.]\s*((?:it|they|the|he|she|i|one)\b.+)", re.IGNORECASE | re.DOTALL
)
_BACK: Final = re.compile(r"\b(it|that|this|them|its)\b")
_NAMED: Final = re.compile(r"\b(the|my|a|an) (?!order|money|refund|status|thing)[a-z]{4,}")
_WORD: Final = re.compile(r"[a-z]{4,}")
_SAYS_NOTHING: Final = frozenset(
    [
        "order",
        "orders",
        "with",
        "from",
        "that",
        "this",
        "please",
        "money",
        "back",
        "would",
        "like",
        "have",
        "them",
        "refund",
    ]
)


@dataclass
class Ask:
    """What one or several messages ask for, folded in the order in which they came."""

    wants: set[str] = field(default_factory=set)
    numbers: list[str] = field(default_factory=list)
    words: set[str] = field(default_factory=set)
    reason: str = ""
    points_back: bool = False  # it speaks of an order that was spoken of before, and names none

    def take(self, text: str) -> None:
        """Fold one more message in: what is said later may take back what was said before."""
        lowered = text.lower()
        wants = {name for name, pattern in _WANTS.items() if pattern.search(lowered)}
        if "never_mind" in wants:
            self.wants, self.numbers, self.words, self.reason, self.points_back = set(), [], set(), "", False
            wants -= {"refund", "cancel"}
        found = numbers_in(text)
        if "instead" in wants and found:
            self.numbers = []
        self.numbers += [number for number in found if number not in self.numbers]
        self.wants |= wants - {"instead"}
        self.words |= set(_WORD.findall(lowered)) - _SAYS_NOTHING
        self.points_back = self.points_back or (_BACK.search(lowered) is not None and _NAMED.search(lowered) is None)
        reason = _REASON.search(text)
        if reason:
            self.reason = (reason[1] or reason[2]).strip(" .!?\n")

    def names(self, item: str) -> bool:
        """Say whether the words speak of an item: `the kettle` of `a copper kettle`."""
        return any(word in self.words or f"{word}s" in self.words for word in _stems(item))


def _stems(item: str) -> list[str]:
    return [part for word in _WORD.findall(item.lower()) for part in (word, word.removesuffix("s"))]


def read(texts: Iterable[str]) -> Ask:
    """Return what messages ask for together."""
    ask = Ask()
    for text in texts:
        ask.take(text)
    return ask


def numbers_in(text: str) -> list[str]:
    """Return the order numbers in a text, each once."""
    return list(dict.fromkeys(_NUMBER.findall(text)))


def spoken_of(texts: Iterable[str]) -> str | None:
    """Return the order that was spoken of last, None where none was."""
    return next((found[-1] for text in reversed(list(texts)) if (found := numbers_in(text))), None)
