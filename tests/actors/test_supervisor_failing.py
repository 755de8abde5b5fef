"""The supervisor's own failures: the thread at hand goes on, and too many of them close the runtime."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.actors.started import started
from treadle.actors.supervisor import Supervisor
from treadle.actors.testing import Puppet
from treadle.actors.thread import ThreadActor
from treadle.agents import agent
from treadle.protocol.errors import RuntimeClosed, ThreadActorCrashed
from treadle.protocol.limits import SUPERVISOR_CRASHES_MAX

if TYPE_CHECKING:
    from collections.abc import Callable

    from treadle.actors import Reply
    from treadle.actors.testing import Stage
    from treadle.agents import ThreadState


@agent
async def listener(state: ThreadState) -> None:
    """Say nothing."""


def broken(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let actors and the supervisor fail as long as the returned list is not empty."""
    left = [0]
    committed = ThreadActor._committed
    release = Supervisor._release

    def fall(actor: ThreadActor, building: Any, answer: Any) -> None:
        if left:
            raise RuntimeError("a bug of the actor")
        committed(actor, building, answer)

    def fail(supervisor: Supervisor, *args: Any) -> None:
        if left:
            raise RuntimeError("a bug of the supervisor")
        release(supervisor, *args)

    monkeypatch.setattr(ThreadActor, "_committed", fall)
    monkeypatch.setattr(Supervisor, "_release", fail)
    return left


def test_a_supervisor_that_fails_at_a_crash_leaves_the_thread_usable(
    stage: Callable[..., Stage], monkeypatch: pytest.MonkeyPatch
) -> None:
    on = stage(listener)
    thread = on.thread()
    left = broken(monkeypatch)
    fallen = thread.set_value("a", 1)
    on.settle()
    left.clear()
    after = thread.set_value("b", 2)
    on.settle()

    assert isinstance(fallen.error(), ThreadActorCrashed)
    assert after.result(0) is None
    assert thread.get_value("b").result(0) == 2
    on.reports.clear()


def test_a_supervisor_that_fails_at_a_crash_leaves_no_body_behind(
    stage: Callable[..., Stage], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Resource:
        def close(self) -> None:
            closed.append(True)

    closed: list[bool] = []
    puppet = Puppet()
    on = stage(puppet)
    thread = on.thread()
    execution_id = started(on, thread)
    puppet.execution.own(Resource())

    def fail(*_given: Any) -> None:
        raise RuntimeError("a bug")

    with monkeypatch.context() as both:
        both.setattr(ThreadActor, "_committed", fail)
        both.setattr(Supervisor, "_pause", fail)
        thread.set_value("a", 1).add_done_callback(lambda reply: reply.error())
        on.act()
        on.commit()
        on.act()
    on.settle()

    assert (on.services.running, puppet.execution.fenced, closed) == ({}, True, [True])
    assert on.ask(thread.submit("on")).disposition == "accepted"
    assert on.ask(thread.wait(execution_id)).status == "interrupted"
    on.reports.clear()


@pytest.mark.parametrize("step", ["_pause", "_crashed"])
def test_a_supervisor_that_fails_at_a_crash_leaves_no_call_unanswered(
    stage: Callable[..., Stage], monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    on = stage(listener)
    thread = on.thread()
    left = broken(monkeypatch)

    def fail(*_given: Any) -> None:
        raise RuntimeError("a bug of the supervisor")

    monkeypatch.setattr(Supervisor, step, fail)
    calls: list[Reply[Any]] = [thread.submit("go"), thread.set_value("a", 1), thread.set_value("a", 2)]
    on.act()  # the first is in flight, the others wait for it
    on.settle()

    assert [type(call.error()) for call in calls] == [ThreadActorCrashed] * 3
    assert on.services.hub.watermark.number == 2  # the creation, and the START that is there all the same
    left.clear()
    assert on.ask(thread.set_value("b", 2)) is None
    on.reports.clear()


def test_a_supervisor_that_fails_too_often_closes_the_runtime(
    stage: Callable[..., Stage], monkeypatch: pytest.MonkeyPatch
) -> None:
    on = stage(listener)
    threads = [on.thread() for _ in range(SUPERVISOR_CRASHES_MAX + 1)]
    broken(monkeypatch)
    for thread in threads:
        thread.set_value("a", 1).add_done_callback(lambda reply: reply.error())
    on.settle()

    assert "supervisor_failed" in [name for name, _ in on.reports]
    assert isinstance(threads[0].set_value("b", 2).error(), RuntimeClosed)
    assert on.runtime.ready() == (False, ["runtime_closed"])
    on.reports.clear()
