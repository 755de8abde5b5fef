"""The table of turns is total, each row is the first for some boundary, and the page made from it is fresh."""

from __future__ import annotations

import importlib.util
from itertools import product
from pathlib import Path

import pytest

from treadle.agents.stop_reasons import STOP_REASONS
from treadle.agents.turns import (
    FIELDS,
    TURNS,
    At,
    Boundary,
    Force,
    Next,
    Over,
    Steps,
    Trouble,
    judge_step,
    next_turn,
    row_of,
)

BEFORE, MODEL, HANDLER = At.BEFORE, At.MODEL, At.HANDLER

# One boundary of each row, as it was agreed: (boundary, what follows, stop reason, whether the turn counts).
AGREED = {
    "interrupted": (Boundary(BEFORE, interrupted=True, handoff=True), Next.CANCEL, None, False),
    "handed off": (Boundary(MODEL, handoff=True, session=True, stopped=True), Next.HANDOFF, None, False),
    "session over": (Boundary(MODEL, session=True, stopped=True), Next.END, "", False),
    "blocked": (Boundary(MODEL, trouble=Trouble.BLOCKED), Next.FAIL, "hook_blocked", False),
    "repeated error": (Boundary(MODEL, trouble=Trouble.REPEATED), Next.FAIL, "repeated_tool_error", False),
    "stopped": (Boundary(MODEL, stopped=True, over=Over.RESPONSE), Next.END, "stopped", False),
    "forced, again": (Boundary(MODEL, forced=Force.OWN, over=Over.RESPONSE), Next.AGAIN, None, False),
    "forced, capped": (Boundary(MODEL, forced=Force.OTHER, capped=True), Next.END, "max_session_turns", True),
    "forced, to a human": (Boundary(MODEL, forced=Force.OTHER), Next.PARK, "forced_human_turn", True),
    "forced, to the other": (
        Boundary(MODEL, forced=Force.OTHER, sibling="prompt"), Next.SWITCH, None, True,
    ),
    "forced to a human before it began": (
        Boundary(BEFORE, forced=Force.OWN, backing="human"), Next.PARK, "forced_human_turn", False,
    ),
    "forced before it began": (Boundary(BEFORE, forced=Force.OWN), Next.AGAIN, None, False),
    "given to a human before it began": (Boundary(BEFORE, forced=Force.OTHER), Next.PARK, "forced_human_turn", False),
    "given away before it began": (Boundary(BEFORE, forced=Force.OTHER, sibling="prompt"), Next.SWITCH, None, False),
    "cap met": (Boundary(BEFORE, capped=True), Next.END, "max_session_turns", False),
    "only queued tools": (Boundary(BEFORE, spoken=False), Next.END, "queued_tool", False),
    "a human's turn": (Boundary(BEFORE, backing="human", sibling="prompt"), Next.PARK, "awaiting_human", False),
    "a handler's turn": (Boundary(BEFORE, backing="handler"), Next.HANDLER, None, False),
    "two idle handlers": (
        Boundary(BEFORE, backing="handler", sibling="handler", inbound=False), Next.PARK, "handler_idle", False,
    ),
    "an idle handler beside a human": (
        Boundary(BEFORE, backing="handler", inbound=False), Next.PARK, "awaiting_human", False,
    ),
    "an idle handler beside a prompt": (
        Boundary(BEFORE, backing="handler", sibling="prompt", inbound=False), Next.SWITCH, None, False,
    ),
    "no step left for the side": (Boundary(BEFORE, steps=Steps.SIDE), Next.END, "max_side_steps", False),
    "no step left at all": (Boundary(BEFORE, steps=Steps.TOTAL), Next.FAIL, "max_total_steps", False),
    "a model step": (Boundary(BEFORE), Next.MODEL, None, False),
    "turn still open": (Boundary(MODEL, capped=True), Next.AGAIN, None, False),
    "turn over, cap met": (Boundary(MODEL, over=Over.RESPONSE, capped=True), Next.END, "max_session_turns", True),
    "answered a human": (Boundary(MODEL, over=Over.RESPONSE), Next.PARK, "stop_on_response", True),
    "stop tool beside a human": (Boundary(MODEL, over=Over.STOP_TOOL), Next.PARK, "stop_tool", True),
    "step or handler beside a human": (Boundary(MODEL, over=Over.STEP), Next.PARK, "awaiting_human", True),
    "turn over": (Boundary(HANDLER, backing="handler", sibling="prompt"), Next.SWITCH, None, True),
}  # fmt: skip


def test_the_table_is_the_one_that_was_agreed() -> None:
    assert [row.label for row in TURNS] == list(AGREED)


@pytest.mark.parametrize("label", AGREED)
def test_each_row_is_hit_and_does_what_was_agreed(label: str) -> None:
    boundary, then, reason, counts = AGREED[label]

    row = next_turn(boundary)

    assert (row.label, row.next, row.reason, row.counts) == (label, then, reason, counts)


@pytest.mark.slow
def test_the_table_is_total_and_each_row_is_the_first_for_some_boundary() -> None:
    hit: set[str] = set()
    for values in product(*FIELDS.values()):
        hit.add(row_of.__wrapped__(Boundary(*values)).label)  # type: ignore[arg-type]

    assert hit == {row.label for row in TURNS}


def test_each_field_of_a_boundary_is_listed_with_its_values() -> None:
    assert tuple(FIELDS) == Boundary._fields
    assert all(set(row.when) <= set(FIELDS) for row in TURNS)
    assert all(fits <= set(FIELDS[name]) for row in TURNS for name, fits in row.when.items())


def test_each_row_has_a_label_of_its_own_a_reason_where_something_ends_and_a_because() -> None:
    assert len({row.label for row in TURNS}) == len(TURNS)
    for row in TURNS:
        assert row.because
        ends = row.next in (Next.PARK, Next.END, Next.FAIL)
        assert (row.reason is not None) == ends, row.label
        if ends and row.reason:
            assert STOP_REASONS[row.reason].how == row.next.name.lower()


def test_nothing_runs_after_an_interruption_whatever_else_is_true() -> None:
    assert TURNS[0].when == {"interrupted": {True}}
    assert TURNS[0].next is Next.CANCEL


@pytest.mark.parametrize(
    ("settings", "step", "over"),
    [
        # Contract E.2, in the order of its rows: stop on response, stop tool, none of them, manual.
        ((True, False, False), {"text": True}, Over.RESPONSE),
        ((True, False, False), {"text": True, "calls": True}, Over.NO),
        ((True, False, False), {"calls": True}, Over.NO),
        ((True, True, False), {"calls": True, "stop_tool": True}, Over.STOP_TOOL),
        ((False, True, False), {"text": True}, Over.NO),
        ((False, True, False), {"text": True, "calls": True, "stop_tool": True}, Over.STOP_TOOL),
        ((False, False, False), {"text": True}, Over.STEP),
        ((False, False, False), {"calls": True}, Over.STEP),
        ((False, False, True), {"text": True}, Over.NO),
    ],
)
def test_a_step_ends_its_turn_by_the_conditions_of_its_side(
    settings: tuple[bool, bool, bool], step: dict[str, bool], over: Over
) -> None:
    """Contract E.2 turn end: a side without a stop condition ends its turn after every step."""
    respond, tool, manual = settings
    facts = {"text": False, "calls": False, "stop_tool": False, **step}

    judged = judge_step(stop_on_response=respond, has_stop_tool=tool, manual=manual, **facts)

    assert judged is over


def test_the_page_is_fresh() -> None:
    place = Path(__file__).parents[2] / "docs" / "make_turns.py"
    spec = importlib.util.spec_from_file_location("make_turns", place)
    assert spec is not None and spec.loader is not None
    maker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(maker)

    assert maker.PAGE.read_text() == maker.page(), "run `python docs/make_turns.py`"
