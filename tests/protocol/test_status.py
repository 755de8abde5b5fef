"""The run status and the one table of stop reasons."""

from __future__ import annotations

import pytest

from treadle.protocol.status import FAILED_REASONS, ThreadStatus, settled_state


@pytest.mark.parametrize("reason", sorted(FAILED_REASONS))
@pytest.mark.parametrize("outcome", ["succeeded", "cancelled", "failed", None])
def test_a_failing_reason_fails_whatever_the_outcome(outcome: str | None, reason: str) -> None:
    assert settled_state(outcome, reason) == "failed"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "reason",
    ["awaiting_human", "stopped", "aborted_by_user", "aborted", "session_fail", "session_stop", "handoff", None],
)
def test_any_other_reason_follows_the_outcome(reason: str | None) -> None:
    assert settled_state("succeeded", reason) == "idle"
    assert settled_state("cancelled", reason) == "idle"
    assert settled_state("failed", reason) == "failed"
    assert settled_state(None, reason) == "failed"


def test_the_failing_reasons_are_the_agreed_ones() -> None:
    assert {
        "step_error", "hook_blocked", "repeated_tool_error", "max_total_steps", "execution_lost", "timeout", "no_worker",
        "storage_full",
    } == FAILED_REASONS  # fmt: skip


def test_a_status_is_three_fields_on_the_wire() -> None:
    assert ThreadStatus("failed", 5, "timeout").to_wire() == {"state": "failed", "since": 5, "reason": "timeout"}
