"""How executions end: every way out of a body is a durable outcome with a structured error, and nobody else notices."""

from __future__ import annotations

import asyncio
from asyncio import CancelledError
from typing import TYPE_CHECKING, Any, Literal

import pytest

from tests.scenarios.scene import PATIENCE_S, Scene, began, echo, ended, journal, tags, texts
from treadle.actors import Runtime
from treadle.agents import ThreadState, agent
from treadle.protocol.events import ExecutionFinished
from treadle.storage import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.scenarios.scene import Replies
    from treadle.actors import Execution, ExecutionRecord, Thread

    Step = Callable[[], object]


def recurse() -> object:
    return recurse()


def raises(error: BaseException | type[BaseException]) -> Step:
    def step() -> object:
        raise error

    return step


HOSTILE: dict[str, Step] = {
    "CancelledError": raises(CancelledError),
    "SystemExit": raises(SystemExit(3)),
    "KeyboardInterrupt": raises(KeyboardInterrupt),
    "GeneratorExit": raises(GeneratorExit),
    "RecursionError": recurse,
    "MemoryError": raises(MemoryError),
}


def at_the_first_line(step: Step, state: ThreadState) -> Replies:
    step()
    yield state.inject_message("assistant", "never said")


def after_an_append(step: Step, state: ThreadState) -> Replies:
    yield state.inject_message("assistant", "said before")
    step()


def in_finally(step: Step, state: ThreadState) -> Replies:
    try:
        yield state.get_value("k")
    finally:
        step()


def in_place_of_another_error(step: Step, state: ThreadState) -> Replies:
    try:
        yield state.get_value("")
    except Exception:
        step()


PLACES = [at_the_first_line, after_an_append, in_finally, in_place_of_another_error]


def check_failed(thread: Thread, record: ExecutionRecord, error_type: str) -> None:
    assert (record.status, record.outcome, record.reason) == ("failed", "failed", "step_error")
    assert record.error is not None
    assert record.error.type == error_type
    assert record.error.message.strip()
    assert not record.abandoned
    status = thread.status().result(PATIENCE_S)
    assert (status.state, status.reason) == ("failed", "step_error")
    (finish,) = [entry.event for entry in journal(thread) if isinstance(entry.event, ExecutionFinished)]
    assert (finish.outcome, finish.error_type) == ("failed", error_type)


@pytest.mark.parametrize("place", PLACES)
def test_whatever_a_body_raises_settles_its_execution_and_no_other_thread_notices(either: Scene, place: Any) -> None:
    """Scenario 12."""

    def acts_up(state: ThreadState) -> Replies:
        assert state.execution is not None
        return place(HOSTILE[str(state.execution.new_messages[0].content)], state)  # type: ignore[no-any-return]

    either.open(either.body(acts_up, name="actor"), either.body(either.stops_at_gate, name="neighbour"))
    neighbour = either.thread("neighbour")
    beside = began(neighbour.submit("go").result(PATIENCE_S))
    arrived = either.gate.arrival()

    threads = {name: either.thread() for name in HOSTILE}
    for name, thread in threads.items():
        record = ended(thread, thread.submit(name).result(PATIENCE_S))

        check_failed(thread, record, name)
        said = ["said before"] if place is after_an_append else []
        assert texts(thread) == [name, *said]

    arrived.go.set(None)
    assert ended(neighbour, beside).status == "succeeded"
    either.reopen()
    for name, thread in threads.items():
        reopened = either.runtime.thread(thread.id)
        (record,) = reopened.executions().result(PATIENCE_S).executions
        check_failed(reopened, record, name)


@pytest.mark.parametrize("name", HOSTILE)
def test_what_a_child_task_raises_is_its_bodys_when_awaited_and_stops_no_loop(scene: Scene, name: str) -> None:
    """Scenario 12."""
    release = asyncio.Event()

    @agent(name="actor")
    async def has_a_child(state: ThreadState) -> None:
        async def child() -> None:
            await asyncio.sleep(0)
            HOSTILE[name]()

        await asyncio.create_task(child())

    @agent(name="neighbour")
    async def waits(state: ThreadState) -> None:
        scene.gate.here()
        await release.wait()

    @agent(name="releases")
    async def releases(state: ThreadState) -> None:
        release.set()

    scene.open(has_a_child, waits, releases)
    neighbour = scene.thread("neighbour")
    beside = neighbour.submit("go").result(PATIENCE_S)
    scene.gate.arrival()
    thread = scene.thread()

    record = ended(thread, thread.submit("go").result(PATIENCE_S))

    check_failed(thread, record, name)
    # The neighbour waits on the loop itself, so it would hang if the loop had gone.
    releaser = scene.thread("releases")
    assert ended(releaser, releaser.submit("go").result(PATIENCE_S)).status == "succeeded"
    assert ended(neighbour, beside).status == "succeeded"


class SaysNothing(Exception):
    def __str__(self) -> str:
        return " "


class CannotSpeak(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


class ExitsWhenAsked(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


class HasABrokenCode(Exception):
    @property
    def code(self) -> str:
        raise RuntimeError("no code either")


class LiesAboutItsClass(Exception):
    @property  # type: ignore[misc]
    def __class__(self) -> type:
        raise RuntimeError("no class")


NAMELESS = type(" ", (Exception,), {})
ODD: dict[str, BaseException] = {
    "SaysNothing": SaysNothing(),
    "CannotSpeak": CannotSpeak(),
    "ExitsWhenAsked": ExitsWhenAsked(),
    "HasABrokenCode": HasABrokenCode("x"),
    "LiesAboutItsClass": LiesAboutItsClass("x"),
    "ThreadExecutionFailed": NAMELESS("x"),
    "ValueError": ValueError("\ud800 and \0"),
    "KeyError": KeyError("x" * 10_000_000),
    "ExceptionGroup": ExceptionGroup("several", [ValueError("one"), TypeError("two")]),
    "X" * 256: type("X" * 5_000, (Exception,), {})("long name"),
}


def test_an_error_as_broken_as_its_body_still_becomes_a_bounded_readable_record(either: Scene) -> None:
    def acts_up(state: ThreadState) -> Replies:
        assert state.execution is not None
        yield state.get_value("k")
        raise ODD[str(state.execution.new_messages[0].content)]

    either.open(either.body(acts_up, name="actor"))
    for name in ODD:
        thread = either.thread()

        record = ended(thread, thread.submit(name).result(PATIENCE_S))

        assert record.status == "failed"
        assert record.error is not None
        assert record.error.type[:255] == name[:255]
        assert 0 < len(record.error.message.strip()) <= 8_192
        record.error.message.encode()


def test_a_body_that_returns_succeeds_and_awaits_the_next_input(either: Scene) -> None:
    thread = either.start(echo)

    record = ended(thread, thread.submit("hello").result(PATIENCE_S))

    assert (record.status, record.outcome, record.error) == ("succeeded", "succeeded", None)
    assert record.reason == "awaiting_human"
    assert record.finished_at is not None
    assert record.finished_at >= record.started_at
    status = thread.status().result(PATIENCE_S)
    assert (status.state, status.reason) == ("idle", "awaiting_human")


def test_a_body_that_stops_its_execution_succeeds_with_that_reason(either: Scene) -> None:
    def stops(state: ThreadState) -> Replies:
        assert state.execution is not None
        either.seen.append(state.execution.stopped)
        state.execution.stop()
        yield state.queue_message("for the next one")
        either.seen.append(state.execution.stopped)

    thread = either.start(stops)

    first = ended(thread, thread.submit("hello").result(PATIENCE_S))

    assert (first.status, first.reason) == ("succeeded", "stopped")
    assert either.seen[:2] == [False, True]
    # What was queued waits for an execution of its own, which begins at once.
    ended(thread, thread.stop().result(PATIENCE_S).execution_id or first.execution_id)
    assert tags(thread).count("THREAD_EXECUTION_STARTED") >= 2


def test_the_run_status_is_running_without_a_reason_and_since_moves_only_with_it(scene: Scene) -> None:
    thread = scene.gated()
    fresh = thread.status().result(PATIENCE_S)
    receipt = thread.submit("go").result(PATIENCE_S)
    arrived = scene.gate.arrival()

    running = thread.status().result(PATIENCE_S)

    assert (fresh.state, fresh.reason) == ("idle", None)
    assert (running.state, running.since, running.reason) == ("running", receipt.started_at, None)
    scene.clock.advance(5)
    thread.steer(began(receipt), "x").result(PATIENCE_S)
    assert thread.status().result(PATIENCE_S) == running
    arrived.go.set(None)
    scene.gate.let_go()
    ended(thread, receipt)
    settled = thread.status().result(PATIENCE_S)
    assert settled.since > running.since
    scene.clock.advance(5)
    assert thread.status().result(PATIENCE_S) == settled


def test_messages_appended_before_an_interrupt_are_there_after_a_restart(either: Scene) -> None:
    """Scenario 13."""

    def says_three(state: ThreadState) -> Replies:
        for n in range(3):
            yield state.inject_message("assistant", f"{n}")
        yield either.gate.here()

    thread = either.start(says_three)
    execution_id = began(thread.submit("go").result(PATIENCE_S))
    either.gate.arrival()
    thread.interrupt(execution_id, reason="enough").result(PATIENCE_S)
    ended(thread, execution_id)
    before = journal(thread)

    either.reopen()

    reopened = either.runtime.thread(thread.id)
    assert texts(reopened) == ["go", "0", "1", "2"]
    assert journal(reopened) == before
    assert tags(reopened)[-2:] == ["THREAD_EXECUTION_INTERRUPTED", "THREAD_EXECUTION_FINISHED"]


class Foreign:
    """A body that nobody's decorator made, and that keeps no promise."""

    name = "foreign"
    runs_on: Literal["loop"] = "loop"

    def __init__(self, made: object) -> None:
        self._made = made

    def run(self, execution: Execution, /) -> Any:
        if isinstance(self._made, BaseException):
            raise self._made
        return self._made


@pytest.mark.parametrize(
    ("made", "error_type"),
    [(None, "TypeError"), (5, "TypeError"), (SystemExit(3), "SystemExit"), (ValueError("at once"), "ValueError")],
)
def test_a_loop_body_that_gives_no_awaitable_fails_its_execution_only(made: object, error_type: str) -> None:
    neighbour = agent(name="neighbour")
    scene = Scene(MemoryStore())
    scene.runtime = Runtime(scene.store, agents=[Foreign(made), neighbour(quiet_coroutine)], clock=scene.clock).open()
    thread, other = scene.thread("foreign"), scene.thread("neighbour")

    record = ended(thread, thread.submit("go").result(PATIENCE_S))

    assert record.error is not None
    assert (record.status, record.error.type) == ("failed", error_type)
    assert ended(other, other.submit("go").result(PATIENCE_S)).status == "succeeded"
    scene.close()


async def quiet_coroutine(state: ThreadState) -> None:
    pass
