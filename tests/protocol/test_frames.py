from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.protocol.cursors import Cursor
from treadle.protocol.errors import InvalidInput, LimitExceeded
from treadle.protocol.events import (
    EVENT_TYPES,
    Event,
    ExecutionFinished,
    ExecutionLost,
    ExecutionStarted,
    HoldChanged,
    JournalEvent,
    MessageAdded,
    ThreadCreated,
)
from treadle.protocol.facts import Facts
from treadle.protocol.frames import (
    Frame,
    change_frame,
    closed_frame,
    deleted_frame,
    emitted_frame,
    event_frame,
    gap_frame,
    live_frame,
    snapshot_frame,
    status_after,
    status_frame,
)
from treadle.protocol.receipts import ActiveExecution
from treadle.protocol.status import FAILED_REASONS, Outcome, ThreadStatus

STATUS = ThreadStatus("running", 17, None)


def started(number: int) -> ExecutionStarted:
    return ExecutionStarted(
        execution_id=f"e{number}",
        agent_id="a",
        cause="submit",
        input_id=None,
        messages=[],
        digest=b"\xff",
        steerable=True,
        timeout=None,
    )


def finished(number: int, outcome: Outcome, reason: str | None) -> ExecutionFinished:
    failed = outcome == "failed"
    return ExecutionFinished(
        execution_id=f"e{number}",
        agent_id="a",
        outcome=outcome,
        finished_at=1,
        error_type="T" if failed else None,
        error_message="m" if failed else None,
        reason=reason,
        abandoned=False,
        leftovers=[],
    )


def lost(number: int) -> ExecutionLost:
    return ExecutionLost(
        execution_id=f"e{number}", boot_id="b", last_sequence=1, cause="c", dispatched=True, leftovers=[]
    )


def test_the_text_of_a_frame_is_its_json_and_made_once() -> None:
    frame = Frame(type="x", content="größer", n=[1, None])

    assert frame.text == '{"type":"x","content":"größer","n":[1,null]}'
    assert frame.text is frame.text
    assert json.loads(frame.text) == frame


def test_the_first_frame_holds_all_that_a_client_needs() -> None:
    active = ActiveExecution("e1", "a", 17, "running")

    frame = snapshot_frame(STATUS, Cursor(1, 4), active, [{"request_id": "r"}], held=True, boot_id="b")

    assert frame == {
        "type": "thread_status",
        "status": {"state": "running", "since": 17, "reason": None},
        "cursor": "1:4",
        "active_execution": {"execution_id": "e1", "agent_id": "a", "started_at": 17, "phase": "running"},
        "pending_requests": [{"request_id": "r"}],
        "held": True,
        "boot_id": "b",
    }


def test_only_committed_frames_and_the_first_one_carry_a_cursor() -> None:
    event = JournalEvent(Cursor(1, 5), 20, HoldChanged(held=True, reason="stopped"))

    assert event_frame(event) == {
        "type": "HOLD_CHANGED",
        "held": True,
        "reason": "stopped",
        "cursor": "1:5",
        "created_at": 20,
    }
    assert status_frame(STATUS) == {"type": "thread_status", "status": STATUS.to_wire()}
    assert gap_frame(3) == {"type": "gap", "dropped": 3}
    assert deleted_frame() == {"type": "thread_deleted"}
    assert closed_frame(complete=True) == {"type": "closed", "complete": True}


def test_a_change_names_its_thread_and_its_number() -> None:
    assert change_frame("t", Cursor(1, 5), STATUS, 9, deleted=False) == {
        "type": "thread_status",
        "thread_id": "t",
        "cursor": "1:5",
        "status": STATUS.to_wire(),
        "change": 9,
        "deleted": False,
    }


def test_a_digest_never_leaves() -> None:
    assert "digest" not in event_frame(JournalEvent(Cursor(1, 2), 20, started(1)))
    assert "digest" not in event_frame(JournalEvent(Cursor(1, 2), 20, started(1))).text


@pytest.mark.parametrize("kind", EVENT_TYPES.values(), ids=lambda kind: kind.type)
def test_no_event_has_a_field_that_its_frame_needs_for_itself(kind: type[Event]) -> None:
    assert not {"type", "cursor", "created_at"} & set(kind.model_fields)


endings = st.one_of(
    st.tuples(
        st.sampled_from(["succeeded", "cancelled", "failed"]),
        st.sampled_from([None, "awaiting_human", "aborted", *sorted(FAILED_REASONS)]),
    ),
    st.none(),
)


@given(st.lists(endings), st.booleans())
def test_the_statuses_of_events_are_those_of_the_folded_facts(
    ends: list[tuple[Outcome, str] | None], running: bool
) -> None:
    facts = Facts()
    events: list[Event] = [ThreadCreated(thread_id="t", agent_id="a", user_id=None, arguments=None, tags=[], env=None)]
    for number, end in enumerate(ends):
        added = MessageAdded(execution_id=None, message={"id": "m", "role": "user", "content": "x"})
        events += [started(number), added, lost(number) if end is None else finished(number, *end), added]
    if running:
        events.append(started(len(ends)))
    shown = None
    for at, event in enumerate(events, 100):
        before = facts.status
        facts.fold(event, at)
        status = status_after(JournalEvent(facts.cursor, at, event))
        # Where it changes there is a status and it is the new one; else there is none.
        assert status == (None if facts.status == before or at == 100 else facts.status)
        shown = status or (shown if at > 100 else facts.status)

    assert shown == facts.status


def test_an_emitted_event_has_its_name_and_its_data() -> None:
    assert emitted_frame("moved", {"to": [1, 2]}) == {"type": "event", "event": "moved", "data": {"to": [1, 2]}}


def test_a_live_frame_is_a_copy() -> None:
    given = {"type": "message_chunk", "chunk": ["a"]}
    frame = live_frame(given)
    given["chunk"].append("b")  # type: ignore[attr-defined]
    assert frame["chunk"] == ["a"]
    assert json.loads(frame.text) == frame


@pytest.mark.parametrize("frame", [
    [], "x", None, {}, {"type": ""}, {"type": 5}, {"type": "thread_status"}, {"type": "gap"}, {"type": "closed"},
    {"type": "thread_deleted"}, {"type": "MESSAGE_ADDED"}, {"type": "mine", "cursor": "1:5"},
])  # fmt: skip
def test_what_would_pass_for_the_runtimes_own_word_is_no_live_frame(frame: object) -> None:
    with pytest.raises(InvalidInput) as raised:
        live_frame(frame)
    assert raised.value.code == "invalid_frame"


@pytest.mark.parametrize("event", ["", None, 5, b"x"])
def test_an_event_without_a_name_is_not_emitted(event: object) -> None:
    with pytest.raises(InvalidInput):
        emitted_frame(event, None)


def test_a_live_frame_is_json_data_of_a_bounded_size() -> None:
    with pytest.raises(InvalidInput) as raised:
        live_frame({"type": "mine", "data": object()})
    assert raised.value.details["path"] == "$.data"
    with pytest.raises(LimitExceeded):
        live_frame({"type": "mine", "data": "x" * (256 * 1024)})
