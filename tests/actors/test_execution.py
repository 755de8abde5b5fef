"""Tests actors/execution.py: what a body may do while it owns its thread, once it is interrupted, and once it is over."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from tests.actors.started import started
from treadle.actors import ExecutionCancelled, ExecutionFenced, Reply, Runtime
from treadle.actors.execution import Execution, current_execution
from treadle.actors.own_thread import answer
from treadle.actors.testing import Puppet, Stage
from treadle.protocol.errors import AgentNotFound, StorageFull, TreadleError
from treadle.storage import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from treadle.actors import Thread

    Enter = Callable[..., Stage]

GUARD_S = 60


@pytest.fixture
def puppet() -> Puppet:
    return Puppet(obeys=False)


@pytest.fixture
def thread(on: Stage) -> Thread:
    return on.thread(thread_id="t", user_id="u", arguments={"depth": 3})


def draft(text: str) -> dict[str, Any]:
    return {"id": text, "role": "assistant", "content": text}


def test_an_execution_says_whose_it_is(on: Stage, thread: Thread, puppet: Puppet) -> None:
    execution_id = started(on, thread)
    execution = puppet.execution

    assert (execution.id, execution.thread_id, execution.agent_id, execution.user_id) == (
        execution_id,
        "t",
        "puppet",
        "u",
    )
    assert execution.arguments == {"depth": 3}
    assert execution.started_at == thread.status().result().since
    assert execution.created_at == execution.thread_created_at < execution.started_at
    assert (execution.terminated_at, execution.passes, execution.stopped, execution.fenced) == (None, 1, False, False)
    assert execution.status().result().state == "running"
    assert len({execution.new_id() for _ in range(100)}) == 100


def test_the_context_says_which_execution_runs_here(stage: Enter) -> None:
    seen: list[object] = []

    class Looks(Puppet):
        async def _play(self, end: Reply[None]) -> None:
            seen.append(current_execution.get())
            await asyncio.ensure_future(self._nested())

        async def _nested(self) -> None:
            seen.append(current_execution.get())

    looks = Looks()
    on = stage(looks)
    started(on, on.thread())

    assert seen == [looks.execution] * 2
    assert current_execution.get() is None


def test_what_is_said_is_in_history_once_its_reply_is_there(on: Stage, thread: Thread, puppet: Puppet) -> None:
    started(on, thread)
    reply = puppet.execution.append(draft("said"))
    on.act()
    assert not reply.done()
    assert len(puppet.execution.history) == 1
    message = on.ask(reply)

    assert puppet.execution.history[-1] == message
    assert puppet.execution.read_message("said").result() == message
    assert puppet.execution.read_messages(limit=1).result().messages == [message]


def test_what_cannot_be_stored_is_told_and_the_body_goes_on(on: Stage, thread: Thread, puppet: Puppet) -> None:
    started(on, thread)
    refused = puppet.execution.append(draft("x"))
    on.act()
    on.refuse()
    on.settle()

    assert isinstance(refused.error(), StorageFull)
    assert on.ask(puppet.execution.append(draft("x"))).content == "x"


def test_an_interrupted_body_begins_nothing_and_may_say_its_last_word(
    on: Stage, thread: Thread, puppet: Puppet
) -> None:
    execution_id = started(on, thread)
    execution = puppet.execution
    execution.begin("model request")
    assert execution.interruption() is None
    sleeping = execution.sleep(100)
    on.ask(thread.interrupt(execution_id, reason="enough", source="parent"))
    with pytest.raises(ExecutionCancelled) as refused:
        execution.begin("model request")
    assert (refused.value.execution_id, refused.value.reason, refused.value.source) == (
        execution_id,
        "enough",
        "parent",
    )
    on.act()
    for reply in (sleeping, execution.sleep(0), execution.consume(), execution.start_process(["/bin/true"])):
        on.act()
        assert isinstance(reply.error(), ExecutionCancelled), reply
    assert str(execution.interruption()) == str(refused.value)

    said = on.ask(execution.append(draft("last word")))
    on.ask(execution.set_value("k", 1))
    queued = on.ask(execution.queue([draft("later")], 10))
    assert (said.content, execution.get_value("k").result(), queued.disposition) == ("last word", 1, "queued")
    puppet.raises(asyncio.CancelledError())
    on.settle()
    assert thread.execution(execution_id).result().status == "cancelled"


def test_nothing_that_a_body_does_once_it_is_over_has_an_effect(on: Stage, thread: Thread, puppet: Puppet) -> None:
    execution_id = started(on, thread)
    execution = puppet.execution
    puppet.returns()
    on.settle()
    cursor = thread.state().result().cursor
    with pytest.raises(ExecutionFenced) as fenced:
        execution.begin("tool call")
    assert fenced.value.execution_id == execution_id
    with pytest.raises(ExecutionFenced):
        execution.own(Closes([]))
    for call in (
        lambda: execution.append(draft("late")), execution.consume, lambda: execution.queue([draft("late")], 10),
        lambda: execution.set_value("k", 1), lambda: execution.sleep(1), execution.terminate,
        lambda: execution.start_process(["/bin/true"]),
    ):  # fmt: skip
        reply: Reply[Any] = call()  # type: ignore[operator]
        on.settle()
        assert isinstance(reply.error(), ExecutionFenced), call

    assert thread.state().result().cursor == cursor
    assert [message.content for message in execution.history] == ["go"]  # it may still look


def test_mail_that_was_under_way_when_the_body_ended_is_fenced(on: Stage, thread: Thread, puppet: Puppet) -> None:
    started(on, thread)
    execution = puppet.execution
    puppet.returns()
    while on.body():
        pass
    late = execution.append(draft("late"))
    on.settle()

    assert isinstance(late.error(), ExecutionFenced)
    assert len(thread.messages().result().messages) == 1


def test_a_sleep_is_on_the_clock_of_the_runtime_and_leaves_no_timer(on: Stage, thread: Thread, puppet: Puppet) -> None:
    execution_id = started(on, thread)
    timers = on.clock.pending()
    short, long = puppet.execution.sleep(1), puppet.execution.sleep(100)
    assert on.clock.pending() == timers + 2
    on.advance(0.5)
    assert not short.done()
    on.advance(0.5)
    assert short.done()
    on.ask(thread.interrupt(execution_id))
    on.settle()

    assert isinstance(long.error(), ExecutionCancelled)
    puppet.returns()
    on.settle()
    assert on.clock.pending() == timers


def test_a_sleep_that_was_given_up_ends_with_its_execution(
    on: Stage, thread: Thread, puppet: Puppet, caplog: pytest.LogCaptureFixture
) -> None:
    """Else its timer would keep all that the execution was until the time comes."""
    started(on, thread)
    timers = on.clock.pending()
    given_up, awaited = puppet.execution.sleep(86_400), puppet.execution.sleep(86_400)
    puppet.returns()
    on.settle()

    assert on.clock.pending() == timers
    assert isinstance(awaited.error(), ExecutionFenced)
    del given_up
    gc.collect()
    assert "Nobody took" not in caplog.text


def test_a_stop_keeps_its_first_reason_and_no_further_pass_begins(on: Stage, thread: Thread, puppet: Puppet) -> None:
    execution_id = started(on, thread)
    on.ask(thread.steer(execution_id, "unread"))
    puppet.execution.stop()
    puppet.execution.stop("max_turns")
    puppet.execution.stop("other")
    assert (puppet.execution.stopped, puppet.execution.stop_reason) == (True, "max_turns")
    puppet.returns()
    on.settle()

    assert len(puppet.passes) == 1
    last = thread.messages().result().messages[-1]
    assert (last.content, (last.metadata or {})["consumed"]) == ("unread", False)


def test_a_body_that_terminates_its_thread_goes_the_way_of_an_interrupt(
    on: Stage, thread: Thread, puppet: Puppet
) -> None:
    execution_id = started(on, thread)
    since = on.ask(puppet.execution.terminate())
    assert puppet.execution.abort_signal.source == "system"
    assert puppet.execution.terminated_at == since
    puppet.returns()
    on.settle()

    assert thread.execution(execution_id).result().status == "cancelled"
    assert thread.status().result().reason == "aborted"


class Closes:
    """Notes that it was closed."""

    def __init__(self, log: list[object]) -> None:
        self._log = log

    def close(self) -> None:
        self._log.append(self)


def test_what_is_owned_is_given_back_and_what_cannot_be_closed_refused(
    on: Stage, thread: Thread, puppet: Puppet
) -> None:
    started(on, thread)
    log: list[object] = []
    first, second = Closes(log), Closes(log)
    assert puppet.execution.own(first) is first
    puppet.execution.own(second)
    with pytest.raises(TypeError, match="int has neither"):
        puppet.execution.own(7)
    puppet.returns()
    on.settle()

    assert log == [second, first]


def test_what_an_execution_was_leaves_nothing_to_collect(on: Stage, thread: Thread, puppet: Puppet) -> None:
    started(on, thread)
    execution = puppet.execution
    puppet.returns()
    on.settle()

    assert (execution.handle, execution.body_state, execution.body_flow, execution._beside) == (None, None, None, None)
    assert on.services.running == {}


def test_what_an_execution_had_beside_its_body_leaves_nothing_to_collect_either(
    on: Stage, thread: Thread, puppet: Puppet
) -> None:
    started(on, thread)
    execution = puppet.execution
    execution.guard()
    execution.request("approval")
    execution.stop("max_turns")
    puppet.returns()
    on.settle()

    assert execution._beside is not None
    left = execution._beside
    assert (left.guard, left.requests, left.calls, left.on_withdrawn) == (None, None, None, None)
    assert execution.stopped


def test_what_is_owned_in_the_moment_of_the_end_is_closed_or_refused(on: Stage, thread: Thread, puppet: Puppet) -> None:
    started(on, thread)
    like = puppet.execution
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(100):
            execution = Execution(like.services, like.entry, like.body, "e", "a", 1, None, 1, list)
            start, refused = threading.Barrier(3), []
            resources = [Closes([]), Closes([])]

            def own(
                resource: Closes,
                execution: Execution = execution,
                start: threading.Barrier = start,
                refused: list = refused,
            ) -> None:
                start.wait(GUARD_S)
                try:
                    execution.own(resource)
                except ExecutionFenced:
                    refused.append(resource)

            workers = [threading.Thread(target=own, args=(resource,)) for resource in resources]
            for worker in workers:
                worker.start()
            start.wait(GUARD_S)
            closed = execution.fence()
            for worker in workers:
                worker.join(GUARD_S)
            assert sorted(map(id, [*closed, *refused])) == sorted(map(id, resources))
    finally:
        sys.setswitchinterval(interval)
    puppet.returns()
    on.settle()


def test_a_process_is_on_record_before_it_runs_and_ends_with_its_execution(
    on: Stage, thread: Thread, puppet: Puppet
) -> None:
    started(on, thread)
    reply = puppet.execution.start_process(["/bin/sleep", "600"])
    while on.turn() or on.release():
        pass
    assert not reply.done()
    assert on.store.pending() == 1
    process = on.ask(reply)
    assert process.poll() is None
    puppet.returns()
    on.settle()

    assert process.poll() is not None
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


def test_a_process_that_could_not_be_recorded_never_runs(on: Stage, thread: Thread, puppet: Puppet) -> None:
    started(on, thread)
    reply = puppet.execution.start_process(["/bin/sleep", "600"])
    while on.turn() or on.release():
        pass
    on.refuse()
    on.settle()

    assert isinstance(reply.error(), StorageFull)
    puppet.returns()
    on.settle()
    assert thread.status().result().reason == "awaiting_human"  # nothing is left of it


def test_an_open_ends_the_groups_that_outlived_the_process_and_names_them(
    on: Stage, thread: Thread, puppet: Puppet
) -> None:
    started(on, thread)
    process = on.ask(puppet.execution.start_process(["/bin/sleep", "600"]))
    on.kill()
    assert process.poll() is None  # it outlives this life
    report = on.reopen(Puppet()).opened

    assert report is not None
    assert report.killed == (process.pid,)
    assert report.settled == ("t",)
    assert process.wait(60) == -signal.SIGKILL
    process.close()
    on.kill()
    assert on.reopen().opened.killed == ()  # type: ignore[union-attr]


def test_the_error_of_a_read_comes_through_its_reply() -> None:
    def fails() -> int:
        raise AgentNotFound("no agent", agent="a")

    def breaks() -> int:
        raise ZeroDivisionError

    assert answer(lambda: 7).result() == 7
    assert isinstance(answer(fails).error(), TreadleError)
    with pytest.raises(ZeroDivisionError):  # a bug of ours is not an answer
        answer(breaks)


async def _timeout() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.001):
            await Reply[None]()


async def _wait_for() -> None:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(Reply[None](), 0.001)


async def _scope() -> None:
    with anyio.move_on_after(0.001) as scope:
        await Reply[None]()
    assert scope.cancelled_caught


@pytest.mark.parametrize("limit", [_timeout, _wait_for, _scope])
@pytest.mark.parametrize("met", ["while it waits", "where it begins"])
def test_a_time_limit_in_the_clean_up_of_an_interrupted_body_is_none_of_the_interrupt(
    limit: Callable[[], Any], met: str
) -> None:
    waits, told = threading.Event(), threading.Event()
    seen: list[str] = []

    class Cleans:
        name, runs_on = "cleans", "loop"

        async def run(self, execution: Execution) -> None:
            waits.set()
            try:
                if met == "where it begins":
                    assert told.wait(GUARD_S)  # holds the loop, so that the interrupt comes between
                    execution.begin("step")
                await Reply[None]()
            except ExecutionCancelled:
                seen.append("interrupted")
                await limit()
                seen.append("cleaned up")
                raise

    with Runtime(MemoryStore(), agents=[Cleans()]) as runtime:
        thread = runtime.create_thread("cleans").result(GUARD_S)
        execution_id = thread.submit("go").result(GUARD_S).execution_id
        assert execution_id is not None
        assert waits.wait(GUARD_S)
        thread.interrupt(execution_id).result(GUARD_S)
        told.set()
        record = thread.wait(execution_id).result(GUARD_S)

    assert seen == ["interrupted", "cleaned up"]
    assert (record.status, record.abandoned) == ("cancelled", False)
