"""What a START is made of: the input first, then the waiting messages that fit."""

from __future__ import annotations

import pytest

from treadle.protocol.decision import Action, Batch, Phase
from treadle.protocol.events import ExecutionStarted, MessagesJoined
from treadle.protocol.inbox import Row
from treadle.protocol.starting import may_start, start, start_events, start_from_rows

from .states import Pure


def row(sequence: int, kind: str, *, first: bool = False, timeout: float | None = None) -> Row:
    return Row(sequence, kind, f"i{sequence}", None, 1, 0, 10, first, timeout)  # type: ignore[arg-type]


def taken(*rows: Row) -> list[str]:
    events, joined = start_from_rows(Pure().state, "e1", rows, "rows")
    assert isinstance(events[0], ExecutionStarted)
    assert isinstance(events[1], MessagesJoined)
    assert events[0].input_id == joined[0].input_id
    assert [stored[0] for stored in events[1].rows] == [one.sequence for one in joined]
    return [one.input_id for one in joined]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([row(1, "message"), row(2, "message")], ["i1", "i2"]),
        ([row(1, "submit"), row(2, "message"), row(3, "submit"), row(4, "message")], ["i1", "i2", "i4"]),
        ([row(1, "message"), row(2, "submit"), row(3, "message")], ["i1", "i3"]),
        ([row(9, "submit", first=True), row(1, "message"), row(2, "submit")], ["i9", "i1"]),
    ],
)
def test_a_start_from_rows_takes_the_oldest_and_the_messages_that_wait(rows: list[Row], expected: list[str]) -> None:
    assert taken(*rows) == expected


def test_a_waiting_submit_brings_its_own_time() -> None:
    state = Pure().state
    state.agent_timeout = 9.0

    events, _ = start_from_rows(state, "e1", [row(1, "submit", timeout=2.0)], "rows")
    assert events[0].timeout == 2.0  # type: ignore[attr-defined]
    events, _ = start_from_rows(state, "e1", [row(1, "submit")], "rows")
    assert events[0].timeout == 9.0  # type: ignore[attr-defined]


def test_a_start_without_rows_is_one_event() -> None:
    state = Pure().state
    state.facts.agent_id, state.agent_steerable = "other", False

    events = start_events(state, "e1", cause="resume")

    assert events == [
        ExecutionStarted(
            execution_id="e1", agent_id="other", cause="resume", input_id=None, messages=[], digest=None,
            steerable=False, timeout=None,
        )
    ]  # fmt: skip


def test_a_start_is_handed_over_as_the_last_thing_of_its_batch_and_dispatched_once_durable() -> None:
    decision = start([], "reply", [row(1, "message")])

    assert (decision.phase, decision.batch, decision.closes) == (Phase.STARTING, Batch.START, True)
    assert [do.action for do in decision.actions] == [Action.DISPATCH]
    assert (decision.at_once, decision.reply, len(decision.joined)) == ((), "reply", 1)


@pytest.mark.parametrize(
    ("field", "value"), [("held", True), ("terminated_at", 5), ("waiting_messages", 0), ("startable", False)]
)
def test_rows_start_by_themselves_only_on_a_living_thread_that_is_not_held(field: str, value: object) -> None:
    thread = Pure()
    thread.facts.waiting_messages = 1
    assert may_start(thread.state)

    setattr(thread.state if field == "startable" else thread.facts, field, value)
    assert not may_start(thread.state)


def test_a_waiting_submit_may_start() -> None:
    thread = Pure()
    thread.facts.waiting_submits = 1

    assert may_start(thread.state)
