"""The execution record and its projection from history."""

from __future__ import annotations

import pytest

from treadle.protocol.events import ExecutionFinished, ExecutionLost, ExecutionStarted
from treadle.protocol.executions import ExecutionError, project, record_of

START = ExecutionStarted(
    execution_id="e", agent_id="a", cause="submit", input_id="i", messages=[], digest=None, steerable=True, timeout=None
)
LOST = ExecutionLost(
    execution_id="e", boot_id="b", last_sequence=7, cause="process", dispatched=False, leftovers=["group 5"]
)


def finish(**changes: object) -> ExecutionFinished:
    fields: dict[str, object] = {
        "execution_id": "e", "agent_id": "a", "outcome": "succeeded", "finished_at": 9, "error_type": None,
        "error_message": None, "reason": "awaiting_human", "abandoned": False, "leftovers": [],
    }  # fmt: skip
    return ExecutionFinished(**{**fields, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("outcome", "live", "status"),
    [
        ("succeeded", None, "succeeded"),
        ("cancelled", "e", "cancelled"),
        ("failed", "e", "failed"),
        (None, "e", "active"),
        (None, None, "interrupted"),
        (None, "other", "interrupted"),
    ],
)
def test_a_start_without_finish_is_active_only_while_it_is_the_live_one(
    outcome: str | None, live: str | None, status: str
) -> None:
    assert project("e", outcome, live) == status  # type: ignore[arg-type]


def test_a_finished_record_says_how_and_when() -> None:
    record = record_of(
        START, 3, finish(outcome="failed", error_type="E", error_message="m", abandoned=True, leftovers=["x"]), None
    )

    assert (record.status, record.outcome, record.error) == ("failed", "failed", ExecutionError("E", "m"))
    assert (record.started_at, record.finished_at, record.abandoned, record.leftovers) == (3, 9, True, ("x",))
    assert (record.input_id, record.cause, record.evidence) == ("i", "submit", None)
    assert record_of(START, 3, finish(), "e").error is None


def test_a_lost_record_is_interrupted_even_while_its_id_counts_as_live_and_carries_the_evidence() -> None:
    record = record_of(START, 3, LOST, "e")

    assert (record.status, record.outcome, record.finished_at, record.reason) == (
        "interrupted",
        None,
        None,
        "execution_lost",
    )
    assert record.evidence == {"boot_id": "b", "last_sequence": 7, "cause": "process", "dispatched": False}
    assert record.leftovers == ("group 5",)


def test_a_record_without_an_end_is_live_or_interrupted() -> None:
    assert record_of(START, 3, None, "e").status == "active"
    assert record_of(START, 3, None, None).status == "interrupted"
