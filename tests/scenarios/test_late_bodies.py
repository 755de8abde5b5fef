"""Bodies that do not stop: shown as stopping, abandoned after their grace, and from then on without any effect."""

from __future__ import annotations

import asyncio
import threading
from asyncio import CancelledError
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from tests.scenarios.scene import PATIENCE_S, Latch, Scene, began, contents, ended, journal, tags, texts
from treadle.actors import ExecutionFenced, Reply
from treadle.agents import ThreadState, agent
from treadle.storage import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.scenarios.scene import Replies
    from treadle.actors import Thread


class Late:
    """A body that hears of its end and goes on; `go` lets it write, `wrote` says what came of it."""

    def __init__(self) -> None:
        self.here: Reply[None] = Reply()
        self.said: Reply[None] = Reply()
        self.go: Reply[None] = Reply()
        self.told: list[str] = []
        self.wrote: Reply[dict[str, type[BaseException] | None]] = Reply()
        self.latch = Latch()

    def script(self, state: ThreadState) -> Replies:
        assert state.execution is not None
        if self.wrote.done():
            return
        self.here.set(None)
        while True:
            try:
                yield self.go
            except CancelledError as error:
                self.told.append(type(error).__name__)
                if len(self.told) == 1:
                    yield state.inject_message("assistant", "still here")
                    self.said.set(None)
            else:
                break
        results: dict[str, type[BaseException] | None] = {}
        for name, call in self.writes(state).items():
            try:
                yield call()
            except BaseException as error:
                results[name] = type(error)
            else:
                results[name] = None
        self.wrote.set(results)

    def writes(self, state: ThreadState) -> dict[str, Callable[[], Reply[Any]]]:
        execution = state.execution
        assert execution is not None
        return {
            "append": lambda: state.inject_message("assistant", "too late"),
            "tool call": lambda: state.inject_message(
                "assistant", tool_calls=[{"id": "c", "function": {"name": "f", "arguments": ""}}]
            ),
            "set_value": lambda: state.set_value("k", "too late"),
            "delete value": lambda: state.set_value("k", None),
            "queue": lambda: state.queue_message("too late"),
            "checkpoint": state.checkpoint,
            "sleep": lambda: state.sleep(1),
            "start_process": lambda: execution.start_process(["true"]),
            "own": lambda: Reply.of(execution.own(self.latch)),
            "terminate": state.terminate,
        }


def abandoned(scene: Scene, late: Late) -> tuple[Thread, str]:
    """Return a thread whose body was abandoned and still goes on."""
    thread = scene.start(late.script)
    execution_id = began(thread.submit("go").result(PATIENCE_S))
    late.here.result(PATIENCE_S)
    thread.interrupt(execution_id).result(PATIENCE_S)
    late.said.result(PATIENCE_S)
    live = thread.state().result(PATIENCE_S).active_execution
    assert live is not None
    assert (live.execution_id, live.phase) == (execution_id, "stopping")
    scene.clock.advance(4.9)
    assert thread.state().result(PATIENCE_S).active_execution == live
    assert thread.status().result(PATIENCE_S).state == "running"
    scene.clock.advance(0.1)
    return thread, execution_id


def test_a_body_that_ignores_its_interrupt_is_shown_stopping_then_cancelled_and_abandoned(either: Scene) -> None:
    """Scenario 10."""
    late = Late()

    thread, execution_id = abandoned(either, late)

    record = ended(thread, execution_id)
    assert (record.status, record.abandoned, record.reason) == ("cancelled", True, "aborted_by_user")
    assert thread.status().result(PATIENCE_S).state == "idle"
    assert late.told[0] == "ExecutionCancelled"
    # What it said while it was stopping counts; what comes now is refused.
    assert texts(thread) == ["go", "still here"]
    late.go.set(None)
    late.wrote.result(PATIENCE_S)


def test_whatever_an_abandoned_body_still_writes_is_refused_as_fenced(either: Scene) -> None:
    """Scenario 10."""
    late = Late()
    thread, execution_id = abandoned(either, late)
    ended(thread, execution_id)
    before = contents(either.store)

    late.go.set(None)

    wrote = late.wrote.result(PATIENCE_S)
    assert set(wrote.values()) == {ExecutionFenced}, wrote
    assert contents(either.store) == before
    assert not late.latch.closing.is_set()
    assert thread.state().result(PATIENCE_S).terminated_at is None


def test_what_a_late_body_writes_never_lands_in_the_next_execution(either: Scene) -> None:
    """Scenario 10."""
    late = Late()
    bodies = iter((late.script, either.stops_at_gate))

    def takes_turns(state: ThreadState) -> Replies:
        return next(bodies)(state)

    either.open(either.body(takes_turns, name="actor"), workers=1)
    thread = either.thread()
    first = began(thread.submit("first").result(PATIENCE_S))
    late.here.result(PATIENCE_S)
    thread.interrupt(first).result(PATIENCE_S)
    late.said.result(PATIENCE_S)
    either.clock.advance(5)
    ended(thread, first)
    # On workers: the only one is held by the late body, so another has taken its place.
    second = began(thread.submit("second").result(PATIENCE_S))
    arrived = either.gate.arrival()
    before = contents(either.store)

    late.go.set(None)

    assert set(late.wrote.result(PATIENCE_S).values()) == {ExecutionFenced}
    assert contents(either.store) == before
    live = thread.state().result(PATIENCE_S).active_execution
    assert live is not None
    assert (live.execution_id, live.phase) == (second, "running")
    arrived.go.set(None)
    assert ended(thread, second).status == "succeeded"
    assert texts(thread) == ["first", "still here", "second"]


@pytest.mark.parametrize("outlives", ["return", "error"])
def test_a_child_task_that_outlives_its_body_has_no_effect(scene: Scene, outlives: str) -> None:
    """Scenario 10."""
    late = Late()
    children: list[asyncio.Task[None]] = []

    @agent(name="actor")
    async def leaves_a_child(state: ThreadState) -> None:
        async def child() -> None:
            await late.go
            results: dict[str, type[BaseException] | None] = {}
            for name, call in late.writes(state).items():
                try:
                    await call()
                except BaseException as error:
                    results[name] = type(error)
                else:
                    results[name] = None
            late.wrote.set(results)

        children.append(asyncio.create_task(child()))
        if outlives == "error":
            raise ValueError("on purpose")

    scene.open(leaves_a_child)
    thread = scene.thread()
    ended(thread, thread.submit("go").result(PATIENCE_S))
    before = contents(scene.store)

    late.go.set(None)

    assert set(late.wrote.result(PATIENCE_S).values()) == {ExecutionFenced}
    assert contents(scene.store) == before


def test_a_worker_that_a_body_leaves_behind_has_no_effect() -> None:
    """Scenario 10."""
    scene = Scene(MemoryStore(), "function")
    late = Late()
    helpers: list[threading.Thread] = []

    def leaves_a_worker(state: ThreadState) -> Replies:
        def work() -> None:
            late.go.result(PATIENCE_S)
            results: dict[str, type[BaseException] | None] = {}
            for name, call in late.writes(state).items():
                try:
                    call().result(PATIENCE_S)
                except BaseException as error:
                    results[name] = type(error)
                else:
                    results[name] = None
            late.wrote.set(results)

        helpers.append(threading.Thread(target=work))
        helpers[0].start()
        yield from ()

    thread = scene.start(leaves_a_worker)
    ended(thread, thread.submit("go").result(PATIENCE_S))
    before = contents(scene.store)

    late.go.set(None)
    helpers[0].join(PATIENCE_S)

    assert set(late.wrote.result(PATIENCE_S).values()) == {ExecutionFenced}
    assert contents(scene.store) == before
    scene.close()


def test_a_state_kept_from_an_earlier_execution_fails_its_user_and_does_nothing(either: Scene) -> None:
    kept: list[ThreadState] = []

    def keeps(state: ThreadState) -> Replies:
        kept.append(state)
        yield kept[0].inject_message("assistant", f"said in {len(kept)}")

    thread = either.start(keeps)
    ended(thread, thread.submit("one").result(PATIENCE_S))

    record = ended(thread, thread.submit("two").result(PATIENCE_S))

    # Its own execution was live, so this is an error like any other, and not the silence of a late body.
    assert record.status == "failed"
    assert record.error is not None
    assert record.error.type == "ExecutionFenced"
    assert texts(thread) == ["one", "said in 1", "two"]


@pytest.mark.slow
def test_with_too_many_workers_written_off_a_plain_function_fails_and_a_coroutine_runs() -> None:
    scene = Scene(MemoryStore())
    go: Reply[None] = Reply()

    @agent
    def deaf(state: ThreadState) -> None:
        scene.gate.here()
        while not go.done():
            with suppress(CancelledError):
                go.result()

    @agent
    async def light(state: ThreadState) -> None:
        pass

    scene.open(deaf, light, workers=100)
    threads = [scene.thread("deaf") for _ in range(65)]
    ids = [began(thread.submit("go").result(PATIENCE_S)) for thread in threads]
    for _ in threads:
        scene.gate.arrival()
    for thread, execution_id in zip(threads, ids, strict=True):
        thread.interrupt(execution_id).result(PATIENCE_S)
    scene.clock.advance(5)
    assert all(ended(thread, execution_id).abandoned for thread, execution_id in zip(threads, ids, strict=True))

    refused = scene.thread("deaf")
    record = ended(refused, refused.submit("go").result(PATIENCE_S))

    assert (record.status, record.reason) == ("failed", "no_worker")
    assert record.error is not None
    assert record.error.type == "NoWorker"
    status = refused.status().result(PATIENCE_S)
    assert (status.state, status.reason) == ("failed", "no_worker")
    unhurt = scene.thread("light")
    assert ended(unhurt, unhurt.submit("go").result(PATIENCE_S)).status == "succeeded"
    go.set(None)
    scene.close()


def test_a_body_of_five_minutes_without_a_sign_of_life_is_one_body(either: Scene) -> None:
    """Scenario 21."""
    thread = either.gated()
    execution_id = began(thread.submit("go").result(PATIENCE_S))
    arrived = either.gate.arrival()

    for _ in range(300):
        either.clock.advance(1)

    state = thread.state().result(PATIENCE_S)
    assert state.active_execution is not None
    assert (state.active_execution.execution_id, state.active_execution.phase) == (execution_id, "running")
    assert either.gate.nobody_came()
    arrived.go.set(None)
    assert ended(thread, execution_id).status == "succeeded"
    assert tags(thread) == ["THREAD_CREATED", "THREAD_EXECUTION_STARTED", "THREAD_EXECUTION_FINISHED"]
    started, finished = journal(thread)[1:]
    assert finished.created_at - started.created_at > 299_000_000
