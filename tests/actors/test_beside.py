"""Tests actors/beside.py: what an execution has beside its body, made with the first thing in it, and let go at its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.actors.started import started
from treadle.actors.beside import Beside

if TYPE_CHECKING:
    from treadle.actors.testing import Puppet, Stage


def test_an_execution_that_does_nothing_beside_its_body_has_nothing_beside_it(on: Stage, puppet: Puppet) -> None:
    started(on, on.thread())
    execution = puppet.execution

    assert execution._beside is None
    assert (execution.stopped, execution.stop_reason, execution.requests, execution.calls) == (False, None, None, None)
    execution.begin("step")
    execution.next_pass(list)
    assert execution.fence() == []
    assert execution._beside is None


def test_it_is_made_once_and_has_each_thing_that_is_put_beside_the_body(on: Stage, puppet: Puppet) -> None:
    started(on, on.thread())
    execution = puppet.execution
    slept = execution.sleep(1_000)
    beside = execution._beside

    assert beside is not None
    assert beside.waits == {slept}
    execution.stop("done_early")
    asked = execution.request("approval")
    assert execution._beside is beside
    assert (beside.stopped, beside.stop_reason, beside.told) == (True, "done_early", False)
    assert beside.requests is execution.requests
    assert beside.waits == {slept, asked}
    assert execution.guard() is execution.guard() is beside.guard


def test_what_refers_back_to_the_execution_is_dropped_and_what_its_end_says_stays() -> None:
    beside = Beside()
    beside.stopped, beside.stop_reason = True, "done_early"
    beside.on_withdrawn = lambda: None
    beside.forget()

    assert (beside.calls, beside.guard, beside.on_withdrawn, beside.requests) == (None,) * 4
    assert (beside.stopped, beside.stop_reason) == (True, "done_early")
