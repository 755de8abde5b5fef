"""Tests actors/thread.py: what nobody would say again costs an actor its life where it cannot be decided, and no execution."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.actors.started import started
from treadle.actors.building import Lookups
from treadle.actors.testing import Puppet, Stage
from treadle.protocol.errors import StoreFailed

if TYPE_CHECKING:
    from collections.abc import Callable

    Enter = Callable[..., Stage]


@pytest.mark.parametrize(
    ("look_up", "waiting"),
    [("rows", "message"), ("rows", "steer"), ("rows", "submit"), ("left_open", "call"), ("pending", "request")],
)
def test_a_read_that_fails_as_an_execution_ends_leaves_nothing_running(
    stage: Enter, monkeypatch: pytest.MonkeyPatch, look_up: str, waiting: str
) -> None:
    """Nobody says again that a body has ended, that what it owned is closed, or that something waits."""
    puppet = Puppet()
    on = stage(puppet)
    thread = on.thread()
    execution_id = started(on, thread)
    if waiting == "message":
        on.ask(thread.queue_message("more"))
    elif waiting == "submit":
        on.ask(thread.submit("more", on_busy="queue"))
    elif waiting == "steer":
        on.ask(thread.steer(execution_id, "more"))
        on.ask(thread.interrupt(execution_id))
    elif waiting == "call":
        draft = {"id": "m", "role": "assistant", "content": "", "tool_calls": "[]", "calls": ["c"]}
        on.ask(puppet.execution.append(draft))
    else:
        puppet.execution.request("approval")
        on.settle()
    waits = thread.wait(execution_id)
    found = getattr(Lookups, look_up)

    def fails_once(*_given: Any, **_named: Any) -> None:
        monkeypatch.setattr(Lookups, look_up, found)
        raise StoreFailed("a read that failed once")

    monkeypatch.setattr(Lookups, look_up, fails_once)
    puppet.returns()
    on.settle()
    on.advance(60)
    on.settle()

    assert {name for name, _ in on.reports} <= {"decide_failed", "actor_crashed", "abandoned_reply"}
    assert on.reports
    on.reports.clear()
    assert waits.result(0).execution_id == execution_id
    active = thread.state().result().active_execution
    assert active is None or active.execution_id != execution_id
    if active is not None:
        puppet.returns()
        on.settle()
    assert thread.status().result().state != "running"
