"""The journal's events: validated when made (contract A.3), frozen, and never changed for what is stored already."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from treadle.protocol.cursors import Cursor
from treadle.protocol.events import (
    EVENT_TYPES,
    Event,
    ExecutionFinished,
    HoldChanged,
    Internal,
    JournalEvent,
    MessageAdded,
    RequestTerminated,
    ThreadCreated,
    ThreadTerminated,
    ValueChanged,
)

# Code, tag and fields in order: what is in the stores of users. Fields are only ever added, at the end.
STORED = {
    1: ("THREAD_CREATED", ["thread_id", "agent_id", "user_id", "arguments", "tags", "env"]),
    2: ("THREAD_EXECUTION_STARTED", [
        "execution_id", "agent_id", "cause", "input_id", "messages", "digest", "steerable", "timeout"]),
    3: ("THREAD_EXECUTION_FINISHED", [
        "execution_id", "agent_id", "outcome", "finished_at", "error_type", "error_message", "reason", "abandoned", "leftovers"]),
    4: ("THREAD_EXECUTION_LOST", ["execution_id", "boot_id", "last_sequence", "cause", "dispatched", "leftovers"]),
    5: ("THREAD_EXECUTION_INTERRUPTED", ["execution_id", "source", "reason", "hold", "control_id", "digest", "active"]),
    6: ("MESSAGE_ADDED", ["execution_id", "message"]),
    7: ("INPUT_QUEUED", [
        "input_id", "kind", "verb", "execution_id", "messages", "digest", "first", "interrupted", "active", "held",
        "originating_execution_id", "timeout", "size"]),
    8: ("MESSAGES_JOINED", ["execution_id", "rows", "consumed", "reason"]),
    9: ("INPUT_WITHDRAWN", ["input_id", "row"]),
    10: ("INBOX_FAILED", ["through"]),
    11: ("CONTROL_RECORDED", ["execution_id", "control_id", "digest", "active", "held"]),
    12: ("HOLD_CHANGED", ["held", "reason"]),
    13: ("VALUE_CHANGED", ["key", "deleted"]),
    14: ("PROCESS_RECORDED", ["execution_id", "group", "start_time"]),
    15: ("THREAD_TERMINATED", []),
    16: ("REQUEST_OPENED", ["execution_id", "request_id", "kind", "payload", "timeout"]),
    17: ("REQUEST_TERMINATED", ["request_id", "status", "value"]),
    18: ("MESSAGE_UPDATED", ["execution_id", "message", "place", "row", "grown"]),
    19: ("MESSAGE_DELETED", ["execution_id", "message_id", "message_class", "place", "row", "grown"]),
    20: ("AGENT_CHANGED", ["execution_id", "agent_id"]),
}  # fmt: skip

START: dict[str, Any] = {
    "execution_id": "e", "agent_id": "a", "cause": "submit", "input_id": "i", "messages": [], "digest": b"d",
    "steerable": True, "timeout": None,
}  # fmt: skip
FINISH: dict[str, Any] = {
    "execution_id": "e", "agent_id": "a", "outcome": "succeeded", "finished_at": 1, "error_type": None,
    "error_message": None, "reason": None, "abandoned": False, "leftovers": [],
}  # fmt: skip


@pytest.mark.parametrize("code", sorted(STORED))
def test_an_event_keeps_its_code_its_tag_and_the_order_of_its_fields(code: int) -> None:
    kind = EVENT_TYPES[code]
    tag, fields = STORED[code]

    assert (kind.code, kind.type) == (code, tag)
    assert list(kind.model_fields)[: len(fields)] == fields
    later = list(kind.model_fields.values())[len(fields) :]
    assert all(not field.is_required() for field in later)


def test_every_event_has_its_code() -> None:
    assert set(EVENT_TYPES) == set(STORED)
    assert set(EVENT_TYPES.values()) == set(Event.__subclasses__()) - {Internal}  # which is only shown


@pytest.mark.parametrize("outcome", ["succeeded", "cancelled"])
def test_only_a_failure_has_an_error(outcome: str) -> None:
    assert ExecutionFinished(**{**FINISH, "outcome": outcome}).error_type is None
    for error in ({"error_type": "E", "error_message": "m"}, {"error_type": "E"}, {"error_message": "m"}):
        with pytest.raises(ValidationError):
            ExecutionFinished(**{**FINISH, "outcome": outcome, **error})


@pytest.mark.parametrize(
    ("error_type", "error_message"),
    [(None, None), ("E", None), (None, "m"), ("", "m"), ("E", ""), (" ", "m"), ("E", "\t\n")],
)
def test_a_failure_names_its_type_and_message_and_neither_is_blank(
    error_type: str | None, error_message: str | None
) -> None:
    with pytest.raises(ValidationError):
        ExecutionFinished(**{**FINISH, "outcome": "failed", "error_type": error_type, "error_message": error_message})

    assert (
        ExecutionFinished(**{**FINISH, "outcome": "failed", "error_type": "E", "error_message": "m"}).outcome
        == "failed"
    )


@pytest.mark.parametrize("field", ["execution_id", "agent_id"])
@pytest.mark.parametrize("blank", ["", " ", "\n"])
def test_start_and_finish_name_an_execution_and_an_agent(field: str, blank: str) -> None:
    for made in (EVENT_TYPES[2](**START), EVENT_TYPES[3](**FINISH)):
        assert getattr(made, field).strip()
    for kind, fields in ((EVENT_TYPES[2], START), (EVENT_TYPES[3], FINISH)):
        with pytest.raises(ValidationError):
            kind(**{**fields, field: blank})


@pytest.mark.parametrize("outcome", ["Succeeded", "ok", "", None])
def test_an_unknown_outcome_is_rejected(outcome: object) -> None:
    with pytest.raises(ValidationError):
        ExecutionFinished(**{**FINISH, "outcome": outcome})


@pytest.mark.parametrize("status", ["Resolved", "cancelled", "", None])
def test_a_request_ends_in_one_of_three_ways(status: object) -> None:
    with pytest.raises(ValidationError):
        RequestTerminated(request_id="r", status=status, value=None)  # type: ignore[arg-type]


def test_an_event_takes_no_other_fields_and_converts_nothing() -> None:
    with pytest.raises(ValidationError):
        HoldChanged(held=True, reason=None, why="x")  # type: ignore[call-arg]
    with pytest.raises(ValidationError):
        HoldChanged(held=1, reason=None)  # type: ignore[arg-type]
    with pytest.raises(ValidationError):
        HoldChanged(held=True)  # type: ignore[call-arg]


def test_an_event_is_frozen_and_equal_by_value() -> None:
    event = HoldChanged(held=True, reason="x")

    assert event == HoldChanged(held=True, reason="x")
    with pytest.raises(ValidationError):
        event.held = False  # type: ignore[misc]


def test_the_wire_form_has_the_tag_and_no_digest() -> None:
    message = MessageAdded(execution_id=None, message={"id": "m"})
    assert message.to_wire() == {"type": "MESSAGE_ADDED", "execution_id": None, "message": {"id": "m"}}
    assert ThreadTerminated().to_wire() == {"type": "THREAD_TERMINATED"}

    started = EVENT_TYPES[2](**START)
    assert "digest" not in started.to_wire()


def test_a_committed_frame_has_its_place_and_time() -> None:
    frame = JournalEvent(Cursor(1, 7), 99, ThreadTerminated())

    assert frame.to_wire() == {"type": "THREAD_TERMINATED", "cursor": "1:7", "created_at": 99}


def test_the_wire_form_of_a_creation_has_the_names_of_its_variables_alone() -> None:
    created = ThreadCreated(
        thread_id="t", agent_id="a", user_id=None, arguments=None, tags=[], env={"TOKEN": "hunter2", "A": "b"}
    )
    assert created.to_wire()["env"] == ["A", "TOKEN"]
    assert created.model_copy(update={"env": None}).to_wire()["env"] is None


def test_the_wire_form_of_an_internal_value_shows_neither_its_key_nor_that_it_is_one() -> None:
    assert ValueChanged(key="treadle:x", deleted=False).to_wire() == {"type": "internal"}
    assert ValueChanged(key="x", deleted=True).to_wire() == {"type": "VALUE_CHANGED", "key": "x", "deleted": True}
