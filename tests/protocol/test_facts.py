"""The durable facts: folded the same by everybody, stored and read back equal."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.simulation.script import BODIES, DEADLINES, ENDS, LOSSES, Script
from tests.simulation.world import World
from treadle.protocol.cursors import Cursor
from treadle.protocol.decision import Phase
from treadle.protocol.events import (
    EVENT_TYPES,
    Event,
    ExecutionFinished,
    ExecutionInterrupted,
    ExecutionStarted,
    InputQueued,
    MessageAdded,
    MessagesJoined,
    ThreadCreated,
)
from treadle.protocol.facts import _FOLDS, STORED, Facts, message_class
from treadle.protocol.triggers import BodyEnded, Deadline, Interrupt, Released, Stop
from treadle.storage.codec import encode_facts

from .states import Pure, in_phase, queue, steer, submit, text

CREATED = ThreadCreated(thread_id="t", agent_id="a", user_id="u", arguments=None, tags=[], env=None)
STARTED = ExecutionStarted(
    execution_id="e1", agent_id="a", cause="submit", input_id="i", messages=[text("m")], digest=None, steerable=True, timeout=None
)  # fmt: skip
FINISHED = ExecutionFinished(
    execution_id="e1", agent_id="a", outcome="succeeded", finished_at=3, error_type=None, error_message=None, reason=None,
    abandoned=False, leftovers=[],
)  # fmt: skip


def test_every_event_has_its_fold() -> None:
    assert set(_FOLDS) == set(EVENT_TYPES.values())


def test_a_new_thread_is_idle_since_it_was_created() -> None:
    facts = Facts()
    facts.fold(CREATED, 50)

    assert facts.status == ("idle", 50, None)
    assert (facts.cursor, facts.created_at, facts.last_time) == (Cursor(1, 1), 50, 50)
    assert (facts.thread_id, facts.agent_id, facts.user_id, facts.rows) == ("t", "a", "u", 0)


def test_the_values_are_all_facts_in_order_and_build_equal_facts() -> None:
    thread = in_phase(Phase.RUNNING)
    thread.commit(steer())
    values = thread.facts.values()

    again = Facts.from_values(values)

    assert len(values) == len(STORED) == len(Facts.__slots__) - 1  # all but the stem
    assert dict(zip(STORED, values, strict=True))["steers"] == 1
    assert again.values() == values


@pytest.mark.parametrize("change", [lambda values: values[:-1], lambda values: (*values, 0)])
def test_too_few_or_too_many_values_are_refused(change: Any) -> None:
    with pytest.raises(ValueError, match="argument"):
        Facts.from_values(change(in_phase(Phase.RUNNING).facts.values()))


def test_folding_a_copy_leaves_the_first_as_it_was() -> None:
    facts = in_phase(Phase.RUNNING).facts
    before = (facts.values(), dict(facts.counts), list(facts.lost_at))
    copy = facts.copy()

    copy.fold(MessageAdded(execution_id=None, message=text("m", silent=True)), 99)
    copy.fold(
        EVENT_TYPES[4](execution_id="e1", boot_id="b", last_sequence=1, cause="c", dispatched=True, leftovers=[]), 100
    )  # type: ignore[call-arg]

    assert (facts.values(), facts.counts, facts.lost_at) == before
    assert copy.values() != facts.values()


@pytest.mark.parametrize("script", [BODIES, DEADLINES, ENDS, LOSSES], ids=lambda script: script.name)
@settings(max_examples=40)
@given(data=st.data())
def test_the_fold_of_any_journal_is_one(script: Script, data: st.DataObject) -> None:
    world = World(script)
    journal: list[tuple[int, Any]] = []
    for _ in range(data.draw(st.integers(0, 60), label="steps")):
        steps = world.steps()
        if not steps:
            break
        step = data.draw(st.sampled_from(steps))
        if world.flight is not None and (step.kind == "commit" or step.about == "written"):
            journal += world.flight.events
        world = world.step(step)

    first, second = Facts(), Facts()
    first.fold(CREATED.model_copy(update={"user_id": None}), 1)
    second.fold(CREATED.model_copy(update={"user_id": None}), 1)
    for at, event in journal:
        first.fold(event, at)
        second = Facts.from_values(second.values())
        second.fold(event, at)
        # Encoded after each event, as an actor does it: what the record keeps of the last time is still true.
        assert encode_facts(first) == encode_facts(first.copy()), event
    assert first.values() == second.values() == world.durable.values()


@pytest.mark.parametrize(
    ("before", "event"),
    [
        ({"held": True, "hold_reason": "stopped"}, STARTED),
        ({"resuming": True}, STARTED),
        ({"agent_id": "another"}, STARTED),
        ({}, MessageAdded(execution_id="e1", message=text("m", calls=["c"]))),
        (
            {"open_calls": 2, "open_bytes": 9},
            MessageAdded(execution_id="e1", message={"id": "m", "role": "tool", "content": "", "closes": True}),
        ),
        ({"open_calls": 1, "open_bytes": 9, "processes": 1}, FINISHED),
    ],
)
def test_what_an_execution_changes_of_the_steady_values_is_in_the_next_record(
    before: dict[str, Any], event: Event
) -> None:
    facts = Facts()
    facts.fold(CREATED, 1)
    for name, value in before.items():
        setattr(facts, name, value)
    encode_facts(facts)
    steady = facts.steady()
    facts.fold(event, 2)

    assert facts.steady() != steady
    assert encode_facts(facts) == encode_facts(facts.copy())


def test_times_strictly_increase_with_the_journal() -> None:
    thread = in_phase(Phase.RUNNING)
    times = [thread.facts.last_time]
    for trigger in (queue(), steer(), Interrupt("e1"), BodyEnded("e1"), Released("e1")):
        thread.commit(trigger)
        times.append(thread.facts.last_time)

    assert times[0] < times[1] < times[2] < times[3] < times[5]


def test_since_moves_only_with_state_or_reason() -> None:
    facts = in_phase(Phase.RUNNING).facts
    since = facts.since

    facts.settle("running", None, since + 10)
    assert facts.since == since
    facts.settle("idle", "awaiting_human", since + 20)
    facts.settle("idle", "awaiting_human", since + 30)
    assert facts.since == since + 20
    facts.settle("idle", "stopped", since + 40)
    assert facts.since == since + 40


def test_a_queued_message_or_a_control_does_not_move_since() -> None:
    thread = in_phase(Phase.RUNNING)
    since = thread.facts.since

    thread.commit(queue())
    thread.commit(Interrupt("e1"))

    assert thread.facts.since == since


def test_messages_are_counted_by_class_when_they_join() -> None:
    thread = in_phase(Phase.RUNNING)
    loud, silent = text("a"), text("b", silent=True)
    event = InputQueued(
        input_id="q", kind="message", verb="queue", execution_id=None, messages=[loud, silent, silent], digest=None, first=False,
        interrupted=None, active=None, held=False, originating_execution_id=None, timeout=None, size=30,
    )  # fmt: skip
    thread.facts.fold(event, 10)
    assert (thread.facts.queued_plain, thread.facts.queued_silent, thread.facts.messages) == (1, 2, 1)

    row = [thread.facts.sequence, "message", 3, 2, 30]
    thread.facts.fold(MessagesJoined(execution_id="e1", rows=[row], consumed=True, reason=None), 11)
    assert (thread.facts.queued_plain, thread.facts.queued_silent, thread.facts.messages) == (0, 0, 4)
    assert thread.facts.counts == {0: 2, 1: 2}

    thread.facts.fold(MessageAdded(execution_id="e1", message=text("deep", depth=2, silent=True)), 12)
    assert thread.facts.counts == {0: 2, 1: 2, 5: 1}


@pytest.mark.parametrize(
    ("more", "expected"), [({}, 0), ({"silent": True}, 1), ({"depth": 1}, 2), ({"depth": 2, "silent": True}, 5)]
)
def test_the_class_of_a_message_is_its_depth_and_whether_it_is_silent(more: dict[str, Any], expected: int) -> None:
    assert message_class(text("m", **more)) == expected


def test_a_message_from_outside_opens_and_closes_no_call() -> None:
    thread = in_phase(Phase.RUNNING)
    thread.facts.fold(MessageAdded(execution_id=None, message=text("m", calls=["c"])), 9)

    assert thread.facts.open_calls == 0


def test_the_first_interruption_is_remembered_and_a_later_one_after_a_deadline_is_noted() -> None:
    thread = in_phase(Phase.RUNNING)
    thread.commit(Deadline("e1"))
    assert thread.facts.interrupted_by == "deadline"

    thread.commit(Interrupt("e1"))
    assert thread.facts.interrupted_by == "deadline, then interrupted"

    thread.finish()
    thread.run("s2")
    assert thread.facts.interrupted_by is None


def test_a_second_interruption_changes_no_source() -> None:
    facts = in_phase(Phase.STOPPING).facts
    facts.fold(
        ExecutionInterrupted(
            execution_id="e1", source="system", reason=None, hold=False, control_id=None, digest=None, active=[]
        ),
        99,
    )

    assert facts.interrupted_by == "user"


def test_an_end_closes_all_that_was_the_executions_own() -> None:
    thread = in_phase(Phase.RUNNING)
    thread.facts.processes = 2
    thread.finish()
    facts = thread.facts

    assert (facts.execution_id, facts.processes, facts.open_calls, facts.open_bytes) == (None, 0, 0, 0)
    assert facts.executions == 1


def test_rows_are_counted_by_kind() -> None:
    thread = Pure()
    thread.commit(Stop())
    thread.commit(queue("q"))
    thread.run()
    thread.commit(queue("q2"))
    thread.commit(steer())
    thread.commit(submit("w", "queue"))

    facts = thread.facts
    assert (facts.waiting_messages, facts.steers, facts.waiting_submits, facts.rows) == (1, 1, 1, 3)
