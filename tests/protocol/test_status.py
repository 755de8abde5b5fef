"""The run status and the one table of stop reasons."""

from __future__ import annotations

import pytest

from treadle.protocol.errors import InvalidInput
from treadle.protocol.status import (
    FAILED_REASONS,
    PARKED_REASONS,
    ThreadStatus,
    abort_code,
    check_failure,
    check_stop,
    settled_state,
)


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


CONTRACT_C1 = {
    "stop_on_response": "idle", "stop_tool": "idle", "awaiting_human": "idle", "forced_human_turn": "idle", "session_stop": "idle",
    "session_fail": "idle", "state_stop_session": "idle", "max_session_turns": "idle", "max_side_steps": "idle",
    "max_total_steps": "failed", "handler_idle": "idle", "hook_blocked": "failed", "repeated_tool_error": "failed",
    "step_error": "failed",
}  # fmt: skip


@pytest.mark.parametrize(("reason", "state"), CONTRACT_C1.items())
def test_every_code_of_the_contract_that_a_body_gives_is_one_of_its_two_kinds_of_end(reason: str, state: str) -> None:
    if state == "idle":
        assert check_stop(reason) == reason
        assert settled_state("succeeded", reason) == "idle"
    else:
        assert check_failure(reason) == reason
        assert settled_state("failed", reason) == "failed"
        with pytest.raises(InvalidInput, match="stop reason"):
            check_stop(reason)


def test_a_parking_code_is_one_of_a_good_end() -> None:
    assert all(check_stop(reason) for reason in PARKED_REASONS)
    assert not PARKED_REASONS & FAILED_REASONS


@pytest.mark.parametrize("reason", ["", "Not a code", "x" * 65, "é", "a-b", None, 5, b"stopped", "stopped\n"])
def test_what_is_no_code_is_no_reason(reason: object) -> None:
    for check in (check_stop, check_failure):
        with pytest.raises(InvalidInput) as raised:
            check(reason)
        assert raised.value.code == "invalid_reason"


@pytest.mark.parametrize("reason", [abort_code("user"), abort_code("system"), "execution_lost"])
def test_no_body_says_that_others_ended_it(reason: str) -> None:
    for check in (check_stop, check_failure):
        with pytest.raises(InvalidInput):
            check(reason)
