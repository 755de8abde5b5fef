"""`ExecutionFailed`: a body that says how its execution failed is taken at its word, and only then."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import pytest

from treadle.actors import ExecutionFailed
from treadle.actors.testing import Puppet, Stage
from treadle.protocol.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable

    from treadle.actors import Thread

    Enter = Callable[..., Stage]


def begun(stage: Enter) -> tuple[Stage, Puppet, Thread, str]:
    puppet = Puppet(obeys=False)
    on = stage(puppet)
    thread = on.thread(thread_id="t")
    receipt = on.ask(thread.submit("go"))
    on.settle()
    assert receipt.execution_id is not None
    return on, puppet, thread, receipt.execution_id


def test_its_type_message_and_reason_are_those_of_the_finish(stage: Enter) -> None:
    on, puppet, thread, execution_id = begun(stage)

    puppet.raises(ExecutionFailed("a hook said no", error_type="HookBlocked", reason="hook_blocked"))
    on.settle()

    record = thread.execution(execution_id).result()
    assert record.status == "failed"
    assert record.error is not None
    assert (record.error.type, record.error.message) == ("HookBlocked", "a hook said no")
    status = thread.status().result()
    assert (status.state, status.reason) == ("failed", "hook_blocked")


def test_without_more_it_is_the_failure_of_the_contract(stage: Enter) -> None:
    on, puppet, thread, execution_id = begun(stage)

    puppet.raises(ExecutionFailed("  "))
    on.settle()

    error = thread.execution(execution_id).result().error
    assert error is not None
    assert (error.type, error.message) == ("ThreadExecutionFailed", "ExecutionFailed")
    assert thread.status().result().reason == "step_error"


def test_after_an_interrupt_it_is_a_failure_all_the_same(stage: Enter) -> None:
    on, puppet, thread, execution_id = begun(stage)
    on.ask(thread.interrupt(execution_id))
    on.settle()

    puppet.raises(ExecutionFailed("too many", error_type="StepLimit", reason="max_total_steps"))
    on.settle()

    assert thread.execution(execution_id).result().status == "failed"
    assert thread.status().result().reason == "max_total_steps"


@pytest.mark.parametrize("field", ["error_type", "reason"])
def test_one_that_was_spoilt_after_it_was_made_is_an_error_like_any_other(stage: Enter, field: str) -> None:
    on, puppet, thread, execution_id = begun(stage)
    error: Any = ExecutionFailed("said", error_type="Mine", reason="hook_blocked")
    setattr(error, field, object())

    puppet.raises(error)
    on.settle()

    record = thread.execution(execution_id).result()
    assert record.error is not None
    assert record.error.type == "ExecutionFailed"
    assert thread.status().result().reason == "step_error"


@pytest.mark.parametrize("reason", ["aborted", "execution_lost", "no code", ""])
def test_a_reason_that_is_none_of_a_failure_is_refused(reason: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        ExecutionFailed("no", reason=reason)
    assert raised.value.code == "invalid_reason"


@pytest.mark.parametrize("error_type", ["", " ", "x" * 257, None, 5])
def test_a_type_that_is_no_name_is_refused(error_type: Any) -> None:
    with pytest.raises(InvalidInput) as raised:
        ExecutionFailed("no", error_type=error_type)
    assert raised.value.code == "invalid_name"


def test_it_survives_a_process_boundary() -> None:
    error = ExecutionFailed("said", error_type="Mine", reason="hook_blocked")

    again = pickle.loads(pickle.dumps(error))

    assert (again.message, again.error_type, again.reason) == ("said", "Mine", "hook_blocked")


def test_a_stop_gives_the_reason_of_a_succeeded_end(stage: Enter) -> None:
    on, puppet, thread, execution_id = begun(stage)

    puppet.execution.stop("max_session_turns")
    puppet.execution.stop("stopped")
    puppet.returns()
    on.settle()

    assert thread.execution(execution_id).result().status == "succeeded"
    status = thread.status().result()
    assert (status.state, status.reason) == ("idle", "max_session_turns")


def test_what_parks_the_turn_lets_what_has_arrived_be_read(stage: Enter) -> None:
    on, puppet, thread, execution_id = begun(stage)
    on.ask(thread.steer(execution_id, "and this"))

    puppet.execution.stop("stop_on_response")
    puppet.returns()
    on.settle()

    assert puppet.execution.passes == 2
    assert [message.content for message in puppet.execution.new_messages] == ["and this"]
    puppet.returns()
    on.settle()
    assert thread.status().result().reason == "awaiting_human"


def test_what_stops_leaves_what_has_arrived_unread(stage: Enter) -> None:
    on, puppet, thread, execution_id = begun(stage)
    on.ask(thread.steer(execution_id, "and this"))

    puppet.execution.stop("session_stop")
    puppet.returns()
    on.settle()

    assert puppet.execution.passes == 1
    unread = thread.messages().result().messages[-1]
    assert unread.metadata is not None
    assert (unread.metadata["consumed"], unread.metadata["reason"]) == (False, "session_stop")


def test_a_stop_that_parks_takes_no_earlier_stop_back(stage: Enter) -> None:
    _, puppet, _, _ = begun(stage)

    puppet.execution.stop("session_stop")
    puppet.execution.stop("awaiting_human")

    assert (puppet.execution.stopped, puppet.execution.stop_reason) == (True, "session_stop")


@pytest.mark.parametrize("reason", ["step_error", "aborted_by_user", "no code"])
def test_a_stop_takes_no_reason_of_a_failure(stage: Enter, reason: str) -> None:
    _, puppet, _, _ = begun(stage)

    with pytest.raises(InvalidInput) as raised:
        puppet.execution.stop(reason)

    assert raised.value.code == "invalid_reason"
    assert not puppet.execution.stopped
