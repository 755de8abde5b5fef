"""Owns the checks of what callers hand to a thread beside content: targets, reasons, durations. Stores nothing."""

from __future__ import annotations

import math

from ..protocol.errors import InvalidInput, LimitExceeded, shorten
from ..protocol.ids import check_name
from ..protocol.limits import REASON_LENGTH_MAX, SECONDS_MAX, TAG_LENGTH_MAX, TAGS_MAX
from ..protocol.receipts import followed
from ..protocol.values import check_value
from .waiting import Await

__all__ = ["awaited", "check_one_of", "check_reason", "check_seconds", "check_tags"]


def awaited(target: object) -> Await:
    """Return what a wait is for. Raises: InvalidInput: a receipt that accepted nothing, or no id."""
    kind, given = followed(target)
    return Await(kind, given)


def check_reason(reason: object) -> None:
    """Check an interruption's text. Raises: InvalidInput, LimitExceeded."""
    if reason is None:
        return
    if not isinstance(reason, str):
        raise InvalidInput(f"reason is text, not {shorten(reason)}", code="invalid_reason", value=shorten(reason))
    if len(reason) > REASON_LENGTH_MAX:
        raise LimitExceeded(
            f"the reason has {len(reason)} characters; the limit is {REASON_LENGTH_MAX}",
            limit="reason_length",
            maximum=REASON_LENGTH_MAX,
            met=len(reason),
        )
    check_value(reason, path="$.reason")


def check_seconds(name: str, seconds: object) -> float | None:
    """Return a duration as a float. Raises: InvalidInput: `invalid_timeout`."""
    if seconds is None:
        return None
    if type(seconds) in (int, float) and 0 < seconds <= SECONDS_MAX and math.isfinite(seconds):  # type: ignore[operator, arg-type]
        return float(seconds)  # type: ignore[arg-type]
    raise InvalidInput(
        f"{name} is seconds above 0, at most {SECONDS_MAX}, not {shorten(seconds)}",
        code="invalid_timeout",
        value=shorten(seconds),
    )


def check_one_of(name: str, value: object, allowed: tuple[str, ...]) -> None:
    """Check a choice. Raises: InvalidInput: `invalid_<name>`, with the value."""
    if not isinstance(value, str) or value not in allowed:
        raise InvalidInput(
            f"{name} is one of {', '.join(allowed)}, not {shorten(value)}", code=f"invalid_{name}", value=shorten(value)
        )


def check_tags(tags: object) -> list[str]:
    """Return the names that a thread is to be found by, each once. Raises: InvalidInput, LimitExceeded."""
    if isinstance(tags, str) or not hasattr(tags, "__iter__"):
        raise InvalidInput(f"tags is a list of names, not {shorten(tags)}", code="invalid_name", value=shorten(tags))
    names = [check_name("tag", tag) for tag in tags]
    if len(names) > TAGS_MAX:
        raise LimitExceeded(
            f"{len(names)} tags; the limit is {TAGS_MAX}", limit="tags", maximum=TAGS_MAX, met=len(names)
        )
    longest = max(map(len, names), default=0)
    if longest > TAG_LENGTH_MAX:
        raise LimitExceeded(
            f"a tag has {longest} characters; the limit is {TAG_LENGTH_MAX}",
            limit="tag_length",
            maximum=TAG_LENGTH_MAX,
            met=longest,
        )
    return list(dict.fromkeys(names))
