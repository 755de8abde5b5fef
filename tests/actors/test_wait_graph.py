"""Tests actors/wait_graph.py: no execution waits for itself, over however many threads, and none is kept from waiting."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from treadle.actors.testing import Puppet, Stage
from treadle.actors.wait_graph import WaitGraph
from treadle.agents import agent
from treadle.protocol.errors import WaitCycle

if TYPE_CHECKING:
    from collections.abc import Callable

    from treadle.actors import Thread
    from treadle.agents import ThreadState

    Enter = Callable[..., Stage]


def test_a_circle_of_any_length_is_refused_with_its_path() -> None:
    waits = WaitGraph()
    waits.enter("a", "b", "e1")
    waits.enter("b", "c", "e2")
    waits.enter("c", "d", "e3")
    with pytest.raises(WaitCycle) as refused:
        waits.enter("d", "a", "e4")

    assert refused.value.details == {"execution_id": "e4", "threads": ["d", "a", "b", "c", "d"]}
    assert waits.targets("d") == []  # refused, so it is no wait


def test_a_thread_that_would_wait_for_itself_is_the_smallest_circle() -> None:
    with pytest.raises(WaitCycle):
        WaitGraph().enter("a", "a", "e1")


def test_many_may_wait_for_one_and_one_for_many() -> None:
    waits = WaitGraph()
    for target in ("b", "c", "d"):
        waits.enter("a", target, "e1")
        waits.enter(target, "e", "e2")

    assert waits.targets("a") == ["b", "c", "d"]


def test_a_wait_that_is_over_closes_no_circle() -> None:
    waits = WaitGraph()
    first, second = waits.enter("a", "b", "e1"), waits.enter("a", "b", "e1")
    waits.leave(first)
    with pytest.raises(WaitCycle):
        waits.enter("b", "a", "e2")
    waits.leave(second)
    waits.leave(second)
    waits.leave(waits.enter("b", "a", "e2"))

    assert (waits.targets("a"), waits.targets("b")) == ([], [])


def test_the_waits_of_an_execution_that_ended_are_forgotten_at_once() -> None:
    waits = WaitGraph()
    wait = waits.enter("a", "b", "e1")
    waits.drop("a")
    waits.drop("nobody")
    waits.enter("b", "a", "e2")
    waits.leave(wait)

    assert waits.targets("b") == ["a"]


class Group:
    """Agents of which each one waits for what the test says."""

    def __init__(self) -> None:
        self.targets: dict[str, tuple[Thread, object]] = {}
        self.outcomes: dict[str, str] = {}

    async def __call__(self, state: ThreadState) -> None:
        target = self.targets.get(state.thread_id)
        if target is None:
            await state.sleep(1_000)
            return
        try:
            record = await target[0].wait(target[1])  # type: ignore[arg-type]
        except WaitCycle as error:
            self.outcomes[state.thread_id] = error.code
        else:
            self.outcomes[state.thread_id] = record.status


def test_executions_that_would_wait_for_each_other_are_told(stage: Enter) -> None:
    group = Group()
    on = stage(agent(group, name="group"))
    first, second = on.thread(thread_id="first"), on.thread(thread_id="second")
    one = on.ask(first.submit("go"))
    group.targets["second"] = (first, one)
    two = on.ask(second.submit("go"))
    on.settle()
    assert first.explain().result().waits_on == ()
    assert second.explain().result().waits_on == ("first",)

    # A row that waits behind the execution that waits on this one: it cannot begin before either.
    on.ask(second.submit("behind", on_busy="queue", input_id="behind"))
    on.ask(first.interrupt(one.execution_id or ""))
    on.settle()
    assert group.outcomes == {"second": "cancelled"}
    assert on.ask(second.wait(two)).status == "succeeded"
    assert second.explain().result().waits_on == ()


def test_a_row_behind_the_own_execution_is_a_circle_too(stage: Enter) -> None:
    group = Group()
    on = stage(agent(group, name="group"))
    thread = on.thread(thread_id="own")
    group.targets["own"] = (thread, "e" * 32)
    seen: list[str] = []

    async def waits_for_its_own_row(state: ThreadState) -> None:
        if seen:
            return
        receipt = await thread.submit("later", on_busy="queue")
        try:
            await thread.wait(receipt)
        except WaitCycle as error:
            seen.append(error.code)

    on.kill()
    on.reopen(agent(waits_for_its_own_row, name="group"))
    thread = on.runtime.thread("own")
    on.ask(thread.submit("go"))
    on.settle()

    assert seen == ["wait_cycle"]
    assert [record.status for record in thread.executions().result().executions] == ["succeeded", "succeeded"]


def test_what_has_ended_is_no_wait_though_its_thread_waits_for_this_one(stage: Enter) -> None:
    """A finished execution is answered at once, so it closes no circle; the own thread's earlier ones among them."""
    seen: list[tuple[str, str]] = []
    past: dict[str, str] = {}

    async def looks_back(state: ThreadState) -> None:
        thread = threads[state.thread_id]
        if state.thread_id in past:
            record = await thread.wait(past[state.thread_id])
            seen.append((state.thread_id, record.status))

    on = stage(agent(looks_back, name="looks_back"), Puppet())
    thread = on.thread()
    threads = {thread.id: thread}
    receipt = on.ask(thread.submit("one"))
    on.settle()
    assert receipt.execution_id is not None
    past[thread.id] = receipt.execution_id
    record = on.ask(thread.wait(on.ask(thread.submit("two"))))

    assert (record.status, record.error) == ("succeeded", None)
    assert seen == [(thread.id, "succeeded")]
