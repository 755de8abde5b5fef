"""Hand-offs on a live thread: what runs goes on, what comes next is the new agent's, through refusals, crashes and lives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from treadle.actors import ExecutionCancelled, ExecutionFenced
from treadle.actors.testing import Puppet, Stage
from treadle.protocol.errors import AgentNotFound, StorageFull
from treadle.storage.check import check_tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from treadle.actors import Thread

    Enter = Callable[..., Stage]


@pytest.fixture
def first() -> Puppet:
    return Puppet("first", obeys=False)


@pytest.fixture
def second() -> Puppet:
    return Puppet("second", obeys=False, steerable=False, timeout=50.0, on_lost="resume")


@pytest.fixture
def on(stage: Enter, first: Puppet, second: Puppet) -> Iterator[Stage]:
    on = stage(first, second)
    yield on
    assert check_tables(on.store).broken == ()


@pytest.fixture
def thread(on: Stage) -> Thread:
    thread = on.thread(thread_id="t")
    on.ask(thread.submit("go"))
    on.settle()
    return thread


def agent_of(thread: Thread) -> tuple[str, str | None]:
    """Return whose the thread is, and who is told to own its slot."""
    active = thread.state().result().active_execution
    return thread._services.directory.snapshot(thread._resolve()).agent_id, None if active is None else active.agent_id


def test_the_execution_goes_on_and_the_next_one_is_the_new_agents(
    on: Stage, thread: Thread, first: Puppet, second: Puppet
) -> None:
    execution = first.execution
    on.ask(execution.change_agent("second"))

    assert execution.agent_id == "second"
    assert agent_of(thread) == ("second", "second")
    on.ask(thread.steer(execution.id, "more"))  # by the options that it started with
    first.returns()
    on.settle()
    assert (first.execution.passes, first.texts) == (2, ["go", "more"])
    first.returns()
    on.settle()

    receipt = on.ask(thread.submit("again"))
    on.settle()
    assert second.texts == ["again"]
    assert receipt.active_execution is not None
    assert receipt.active_execution.agent_id == "second"
    state = on.ask(thread.steer(receipt.execution_id or "", "no"))
    assert state.disposition == "active_input_not_steerable"
    on.advance(50)
    on.settle()
    assert second.execution.abort_signal.source == "deadline"
    records = thread.executions(order="asc").result().executions
    assert [record.agent_id for record in records] == ["first", "second"]


def test_rows_that_waited_behind_are_the_new_agents(on: Stage, thread: Thread, first: Puppet, second: Puppet) -> None:
    on.ask(thread.submit("waits", on_busy="queue"))
    on.ask(first.execution.change_agent("second"))
    first.returns()
    on.settle()
    assert second.texts == ["waits"]


def test_threads_are_listed_under_the_agent_whose_they_are(on: Stage, thread: Thread, first: Puppet) -> None:
    on.ask(first.execution.change_agent("second"))
    assert [found.id for found in on.runtime.threads(agent="second").result().threads] == ["t"]
    assert on.runtime.threads(agent="first").result().threads == []


def test_an_unknown_agent_is_refused_before_anything_is_stored(on: Stage, thread: Thread, first: Puppet) -> None:
    before = thread.state().result().cursor
    for name in ("nobody", "", None, 5):
        assert isinstance(first.execution.change_agent(name).error(), AgentNotFound)  # type: ignore[arg-type]
    assert on.settle() == 0
    assert thread.state().result().cursor == before


def test_a_hand_off_to_the_same_agent_changes_nothing(on: Stage, thread: Thread, first: Puppet) -> None:
    before = thread.state().result().cursor
    assert on.ask(first.execution.change_agent("first")) is None
    assert thread.state().result().cursor == before


def test_watchers_see_it(on: Stage, thread: Thread, first: Puppet) -> None:
    with thread.stream() as stream:
        stream.next(0)
        on.ask(first.execution.change_agent("second"))
        frame = stream.next(0)
    assert frame is not None
    assert (frame["type"], frame["agent_id"], frame["execution_id"]) == ("AGENT_CHANGED", "second", first.execution.id)


def test_a_store_that_refuses_leaves_the_thread_whose_it_was(
    on: Stage, thread: Thread, first: Puppet, second: Puppet
) -> None:
    reply = first.execution.change_agent("second")
    on.act()
    on.refuse()
    on.settle()
    assert isinstance(reply.error(), StorageFull)
    assert (first.execution.agent_id, agent_of(thread)[0]) == ("first", "first")
    first.returns()
    on.settle()
    on.ask(thread.submit("again"))
    on.settle()
    assert first.texts == ["go", "again"]


def test_it_survives_the_process_and_a_lost_execution_resumes_under_the_new_agent(
    on: Stage, thread: Thread, first: Puppet, second: Puppet
) -> None:
    on.ask(first.execution.change_agent("second"))
    on.reopen()
    on.settle()
    assert second.execution.agent_id == "second"
    assert on.runtime.thread("t").executions(order="asc").result().executions[1].agent_id == "second"


def test_an_actor_that_crashes_behind_it_is_followed_by_one_that_knows(
    on: Stage, thread: Thread, first: Puppet, second: Puppet, crash_after: Callable[..., object]
) -> None:
    crash_after("AGENT_CHANGED committed")
    reply = first.execution.change_agent("second")
    on.settle()
    on.reports.clear()
    assert reply.error() is not None
    assert agent_of(thread)[0] == "second"
    assert second.execution.agent_id == "second"  # it asked to run again after a loss


def test_a_hand_off_and_the_end_in_one_batch(on: Stage, thread: Thread, first: Puppet, second: Puppet) -> None:
    on.ask(thread.submit("waits", on_busy="queue"))
    busy = first.execution.set_value("k", 1)
    on.act()
    reply = first.execution.change_agent("second")
    first.returns()
    on.settle()
    assert busy.error() is None
    assert reply.error() is None
    assert second.texts == ["waits"]
    assert second.execution.services is on.services
    state = on.ask(thread.steer(second.execution.id, "no"))
    assert state.disposition == "active_input_not_steerable"


def test_an_interrupted_body_and_one_that_is_over_hand_nothing_off(on: Stage, thread: Thread, first: Puppet) -> None:
    on.ask(thread.interrupt(first.execution.id))
    on.settle()
    late = first.execution.change_agent("second")
    on.settle()
    assert isinstance(late.error(), ExecutionCancelled)
    first.returns()
    on.settle()
    assert isinstance(first.execution.change_agent("second").error(), ExecutionFenced)
    assert agent_of(thread) == ("first", None)
