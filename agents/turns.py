"""Owns what is next in the step loop: one total table over all that can be true at a boundary. Pure; does nothing itself.

A boundary is where nothing runs: before a turn, after a model step with all of its tools, after a handler's turn. The
loop describes it in a `Boundary` and does what `next_turn` answers. Rows are tried in order and the first that fits
counts, so an earlier row beats a later one: an interruption beats everything, a handoff comes before what ends the loop
(its tool was told that it is complete), a forced turn comes before the side's own stop conditions.
"""

from __future__ import annotations

from enum import Enum
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "FIELDS",
    "TURNS",
    "At",
    "Boundary",
    "Force",
    "Next",
    "Over",
    "Row",
    "Steps",
    "Trouble",
    "judge_step",
    "next_turn",
    "row_of",
]

Backing = Literal["human", "prompt", "handler"]


class At(Enum):
    """Where the loop stands."""

    BEFORE = "before a turn"
    MODEL = "after a model step"
    HANDLER = "after a handler's turn"


class Trouble(Enum):
    """What went wrong in the step."""

    NONE = "none"
    BLOCKED = "a hook blocked the request"
    REPEATED = "the same tool error, over and over"


class Force(Enum):
    """Whose turn was forced, seen from the acting side."""

    NONE = "nobody's"
    OWN = "its own"
    OTHER = "the other side's"


class Over(Enum):
    """Whether the model step ended the side's turn, and by which of its conditions."""

    NO = "no"
    RESPONSE = "by a response"
    STOP_TOOL = "by its stop tool"
    STEP = "it has no condition"


class Steps(Enum):
    """Which step limit leaves no step."""

    FREE = "none"
    SIDE = "the side's"
    TOTAL = "the total"


class Boundary(NamedTuple):
    """All that decides what is next.

    Attributes:
        interrupted: an interrupt was accepted, or the deadline passed.
        handoff: a tool handed the thread to another agent.
        session: `stop_session` or a session binding ends the session.
        stopped: `execution.stop()` was called.
        backing: what acts for the side whose turn it is; `sibling` for the other.
        capped: the exchange cap is met; after a turn: once that turn counts.
        inbound: a handler side has messages that it was not called with.
        spoken: there is anything for a turn to answer; not so where only queued tools were run.
    """

    at: At
    interrupted: bool = False
    handoff: bool = False
    session: bool = False
    trouble: Trouble = Trouble.NONE
    stopped: bool = False
    forced: Force = Force.NONE
    over: Over = Over.NO
    backing: Backing = "prompt"
    sibling: Backing = "human"
    capped: bool = False
    steps: Steps = Steps.FREE
    inbound: bool = True
    spoken: bool = True


FIELDS: Final[Mapping[str, tuple[object, ...]]] = MappingProxyType(
    {
        "at": tuple(At), "interrupted": (True, False), "handoff": (True, False), "session": (True, False),
        "trouble": tuple(Trouble), "stopped": (True, False), "forced": tuple(Force), "over": tuple(Over),
        "backing": ("human", "prompt", "handler"), "sibling": ("human", "prompt", "handler"), "capped": (True, False),
        "steps": tuple(Steps), "inbound": (True, False), "spoken": (True, False),
    }
)  # fmt: skip
"""Each field of a boundary with all of its values."""


class Next(Enum):
    """What the loop does."""

    MODEL = "a model step of the acting side"
    HANDLER = "a turn of the acting side's handler"
    AGAIN = "the acting side goes on: look again before its turn"
    SWITCH = "the other side acts: look again before its turn"
    HANDOFF = "the other agent takes over: look again before its side A's turn"
    PARK = "the pass ends; what has arrived is read by another pass"
    END = "the loop ends; what is unread is not consumed"
    FAIL = "the execution fails"
    CANCEL = "the loop ends as cancelled"


class Row(NamedTuple):
    """One row: its label, the values that it fits (every value of a field that is not named), and what follows.

    `reason` is the stop code; an empty one is the session's own. `counts` says that the turn behind this boundary is
    completed with it.
    """

    label: str
    when: Mapping[str, frozenset[object]]
    next: Next
    reason: str | None
    counts: bool
    because: str


def _row(
    label: str, next_: Next, because: str, *, reason: str | None = None, counts: bool = False, **when: object
) -> Row:
    fits = {name: frozenset(value) if isinstance(value, tuple) else frozenset((value,)) for name, value in when.items()}
    return Row(label, MappingProxyType(fits), next_, reason, counts, because)


_AFTER = (At.MODEL, At.HANDLER)
_RUNTIME = ("prompt", "handler")
_ENDED = (Over.RESPONSE, Over.STOP_TOOL, Over.STEP)

TURNS: Final[tuple[Row, ...]] = (
    _row("interrupted", Next.CANCEL, "nothing further begins after an interruption", interrupted=True),
    _row("handed off", Next.HANDOFF, "its tool was told that it is complete; a forced turn is the new agent's", handoff=True),
    _row("session over", Next.END, "the session ends, whatever its sides would do", reason="", session=True),
    _row("blocked", Next.FAIL, "a hook refused the request", reason="hook_blocked", trouble=Trouble.BLOCKED),
    _row(
        "repeated error", Next.FAIL, "the model does not learn from the error", reason="repeated_tool_error",
        trouble=Trouble.REPEATED,
    ),
    _row("stopped", Next.END, "`stop()` ends the loop and not the session", reason="stopped", stopped=True),
    # A forced turn. Before a turn it is a handoff's, or that of a message that has arrived.
    _row("forced, again", Next.AGAIN, "the same side goes on, its turn still open", forced=Force.OWN, at=_AFTER),
    _row(
        "forced, capped", Next.END, "a turn given away is completed, and the cap is met", reason="max_session_turns",
        counts=True, forced=Force.OTHER, at=_AFTER, capped=True,
    ),
    _row(
        "forced, to a human", Next.PARK, "the turn is given to a human", reason="forced_human_turn", counts=True,
        forced=Force.OTHER, at=_AFTER, sibling="human",
    ),
    _row("forced, to the other", Next.SWITCH, "the turn is given away", counts=True, forced=Force.OTHER, at=_AFTER),
    _row(
        "forced to a human before it began", Next.PARK, "the new agent's side is human", reason="forced_human_turn",
        forced=Force.OWN, at=At.BEFORE, backing="human",
    ),
    _row("forced before it began", Next.AGAIN, "it is that side's turn anyway", forced=Force.OWN, at=At.BEFORE),
    _row(
        "given to a human before it began", Next.PARK, "the new agent's other side is human", reason="forced_human_turn",
        forced=Force.OTHER, at=At.BEFORE, sibling="human",
    ),
    _row("given away before it began", Next.SWITCH, "no turn was taken yet, so none counts", forced=Force.OTHER, at=At.BEFORE),
    # Before a turn.
    _row(
        "cap met", Next.END, "both sides had their turns", reason="max_session_turns", at=At.BEFORE, capped=True,
    ),
    _row(
        "only queued tools", Next.END, "they have run, and nobody said anything that a turn could answer",
        reason="queued_tool", at=At.BEFORE, spoken=False,
    ),
    _row(
        "a human's turn", Next.PARK, "people act by sending a message", reason="awaiting_human", at=At.BEFORE, backing="human",
    ),
    _row("a handler's turn", Next.HANDLER, "it is called once per inbound message", at=At.BEFORE, backing="handler", inbound=True),
    _row(
        "two idle handlers", Next.PARK, "neither has anything to be called with", reason="handler_idle", at=At.BEFORE,
        backing="handler", sibling="handler",
    ),
    _row(
        "an idle handler beside a human", Next.PARK, "only a message gives it something to do", reason="awaiting_human",
        at=At.BEFORE, backing="handler", sibling="human",
    ),
    _row("an idle handler beside a prompt", Next.SWITCH, "it has nothing to say; no turn was taken", at=At.BEFORE, backing="handler"),
    _row(
        "no step left for the side", Next.END, "the side's own limit", reason="max_side_steps", at=At.BEFORE, steps=Steps.SIDE,
    ),
    _row(
        "no step left at all", Next.FAIL, "a loop of that length is a fault", reason="max_total_steps", at=At.BEFORE,
        steps=Steps.TOTAL,
    ),
    _row("a model step", Next.MODEL, "nothing stands against it", at=At.BEFORE),
    # After a model step.
    _row("turn still open", Next.AGAIN, "none of the side's stop conditions is met", at=At.MODEL, over=Over.NO),
    _row(
        "turn over, cap met", Next.END, "both sides have had their turns", reason="max_session_turns", counts=True, at=_AFTER,
        capped=True,
    ),
    _row(
        "answered a human", Next.PARK, "the response is the human's to answer", reason="stop_on_response", counts=True,
        at=At.MODEL, over=Over.RESPONSE, sibling="human",
    ),
    _row(
        "stop tool beside a human", Next.PARK, "the side said by its tool that its turn is over", reason="stop_tool",
        counts=True, at=At.MODEL, over=Over.STOP_TOOL, sibling="human",
    ),
    _row(
        "step or handler beside a human", Next.PARK, "the human is next", reason="awaiting_human", counts=True, at=_AFTER,
        sibling="human",
    ),
    _row("turn over", Next.SWITCH, "the other side is next", counts=True, at=_AFTER),
)  # fmt: skip
"""The table, in order of precedence."""


@lru_cache(maxsize=1024)
def row_of(boundary: Boundary) -> Row:
    """Return the row that fits a boundary: the first one."""
    for row in TURNS:
        if all(getattr(boundary, name) in fits for name, fits in row.when.items()):
            return row
    raise AssertionError(f"the table is not total: {boundary}")


def next_turn(boundary: Boundary) -> Row:
    """Return what is next at a boundary; changes nothing.

    Args:
        boundary: all that is true there.

    Returns:
        The row: what to do, with which stop code, and whether the turn behind it counts as completed.
    """
    return row_of(boundary)


def judge_step(
    *, text: bool, calls: bool, stop_tool: bool, stop_on_response: bool, has_stop_tool: bool, manual: bool
) -> Over:
    """Return whether a model step ended its side's turn (contract E.2).

    Args:
        text: the response has text.
        calls: it has tool calls, or was taken for one that is invalid.
        stop_tool: the side's stop tool is among them.
        stop_on_response, has_stop_tool, manual: the side's settings; `manual` leaves the end to its tools.
    """
    if stop_tool:
        return Over.STOP_TOOL
    if stop_on_response:
        return Over.RESPONSE if text and not calls else Over.NO
    return Over.NO if has_stop_tool or manual else Over.STEP
