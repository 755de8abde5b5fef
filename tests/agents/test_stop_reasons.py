"""Each stop reason of the contract has one meaning, and it is the heart's own mapping that it agrees with."""

from __future__ import annotations

from typing import cast

import pytest

from treadle.actors.execution import Execution
from treadle.actors.failing import ExecutionFailed
from treadle.agents.stop_reasons import STOP_REASONS, end_with
from treadle.protocol.errors import InternalError
from treadle.protocol.status import FAILED_REASONS, PARKED_REASONS, settled_state

CONTRACT = {  # C.1 with the decisions of I.2 #37 and #38
    "stop_on_response": "idle", "stop_tool": "idle", "awaiting_human": "idle", "forced_human_turn": "idle",
    "session_stop": "idle", "session_fail": "idle", "state_stop_session": "idle", "max_session_turns": "idle",
    "max_side_steps": "idle", "max_total_steps": "failed", "handler_idle": "idle", "hook_blocked": "failed",
    "repeated_tool_error": "failed", "step_error": "failed", "aborted_by_user": "idle", "aborted": "idle",
    "execution_lost": "failed", "stopped": "idle",
}  # fmt: skip


class Ended:
    """An execution that notes how it was told to end."""

    reason: str | None = None

    def stop(self, reason: str | None = None, *, limit: str | None = None) -> None:
        self.reason = reason


@pytest.mark.parametrize("code", CONTRACT)
def test_each_code_of_the_contract_settles_as_it_says(code: str) -> None:
    """Contract C.1 state: every code settles in its natural state."""
    assert STOP_REASONS[code].state == CONTRACT[code]


@pytest.mark.parametrize("code", STOP_REASONS)
def test_the_table_agrees_with_the_one_mapping_of_the_heart(code: str) -> None:
    meaning = STOP_REASONS[code]

    assert settled_state(meaning.outcome, code) == meaning.state
    assert (code in FAILED_REASONS) == (meaning.state == "failed")
    assert (code in PARKED_REASONS) == (meaning.how == "park")
    assert meaning.because


@pytest.mark.parametrize("code", [code for code, meaning in STOP_REASONS.items() if meaning.how in ("park", "end")])
def test_a_good_end_is_told_to_the_execution(code: str) -> None:
    execution = Ended()

    end_with(cast(Execution, execution), code)

    assert execution.reason == code


@pytest.mark.parametrize("code", [code for code, meaning in STOP_REASONS.items() if meaning.how == "fail"])
def test_a_failure_is_raised_with_its_code_and_a_name_of_its_own(code: str) -> None:
    with pytest.raises(ExecutionFailed) as caught:
        end_with(cast(Execution, Ended()), code)

    assert caught.value.reason == code
    assert caught.value.error_type.lower() == code.replace("_", "")


@pytest.mark.parametrize("code", ["aborted", "execution_lost", "no_such_code"])
def test_a_loop_cannot_end_with_what_is_not_its_to_give(code: str) -> None:
    with pytest.raises(InternalError):
        end_with(cast(Execution, Ended()), code)
