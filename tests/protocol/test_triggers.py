"""Triggers: their kinds, and that none shares what was looked up with another."""

from __future__ import annotations

from treadle.protocol import handoffs, message_edits, triggers
from treadle.protocol.triggers import Append, BodyEnded, Kind, Queue, Submit, Trigger, Withdraw

from .states import queue, submit


def concrete(kind: type[Trigger] = Trigger) -> list[type[Trigger]]:
    found = [one for below in kind.__subclasses__() for one in concrete(below)]
    return found + ([kind] if hasattr(kind, "kind") else [])


def test_every_kind_but_a_controls_other_target_and_the_answers_has_its_own_trigger() -> None:
    kinds = [one.kind for one in concrete()]
    derived = {Kind.CONTROL_OTHER} | {kind for kind in Kind if kind.value.endswith((" committed", " not written"))}

    assert len(set(kinds)) == len(kinds)
    assert set(kinds) == set(Kind) - derived
    assert {one.__name__ for one in concrete()} <= {*triggers.__all__, *handoffs.__all__, *message_edits.__all__}


def test_what_was_looked_up_belongs_to_one_trigger() -> None:
    first, second = submit("a"), submit("b")
    first.rows = [*first.rows, "row"]  # type: ignore[list-item]
    first.now = 5

    assert (list(second.rows), second.now, second.prior) == ([], 0, None)
    assert Withdraw("x").row is None
    assert BodyEnded("e").rows is not first.rows


def test_an_append_answers_an_open_call_and_doubles_none_unless_told() -> None:
    trigger = Append("e1", None, 3)  # type: ignore[arg-type]

    assert (trigger.open_call, trigger.doubled, trigger.execution_id, trigger.size) == (True, None, "e1", 3)


def test_a_queued_message_is_from_outside_unless_a_body_says_so() -> None:
    assert (queue().execution_id, queue().originating) == (None, None)
    by_body = Queue("q", [], 0, None, "e1", "e1")
    assert (by_body.originating, by_body.execution_id) == ("e1", "e1")
    assert Submit("s", [], 0, None).on_busy == "reject"
