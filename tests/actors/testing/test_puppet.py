"""An agent that the test plays: what it was called with, and how its passes end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from treadle.actors.testing import Puppet, Stage
from treadle.protocol.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Callable

    from treadle.actors import Runtime

    Enter = Callable[..., Stage]


def test_it_keeps_what_each_pass_was_called_with_until_the_test_ends_the_pass(stage: Enter) -> None:
    puppet = Puppet()
    on = stage(puppet)
    thread = on.thread()
    receipt = on.ask(thread.submit("go"))
    on.settle()
    on.ask(thread.steer(receipt.execution_id, "more"))
    on.settle()
    assert [[message.content for message in messages] for messages in puppet.passes] == [["go"]]
    puppet.returns()
    on.settle()
    assert puppet.texts == ["go", "more"]
    puppet.raises(ValueError("bad"))
    on.settle()

    assert thread.execution(receipt.execution_id).result().error.message == "bad"
    assert puppet.execution.id == receipt.execution_id


def test_it_ends_when_it_is_cancelled_unless_it_does_not_obey(stage: Enter) -> None:
    for obeys in (True, False):
        puppet = Puppet(obeys=obeys)
        on = stage(puppet)
        thread = on.thread()
        receipt = on.ask(thread.submit("go"))
        on.settle()
        on.ask(thread.interrupt(receipt.execution_id))
        on.settle()

        assert puppet.cancels == 1
        assert (thread.state().result().active_execution is None) is obeys


def test_one_that_was_never_called_has_no_execution() -> None:
    with pytest.raises(InternalError, match="never called"):
        _ = Puppet().execution


def test_a_test_waits_for_a_pass_on_a_loop_that_runs_by_itself(runtime: Callable[..., Runtime]) -> None:
    puppet = Puppet("named", timeout=5, steerable=False, on_lost="resume")
    thread = runtime(puppet).create_thread("named").result(60)
    with pytest.raises(TimeoutError):
        puppet.wait_for_pass(1, timeout=0)
    thread.submit("go").result(60)
    puppet.wait_for_pass(1)

    assert puppet.texts == ["go"]
