"""Scenarios 6, 16, 17, 19 and 20: processes, actors and workers that die, and what every one of their threads is then."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from tests.scenarios.scene import PATIENCE_S, Scene, began, echo, ended, pending, quiet, tags, texts
from tests.storage.driving import Process, run
from treadle.actors import Runtime
from treadle.actors.thread import AFTER_CONFIRM
from treadle.actors.workers import Job
from treadle.agents import agent
from treadle.protocol.errors import StoreInUse, ThreadActorCrashed
from treadle.storage import LmdbStore
from treadle.storage.check import check
from treadle.storage.points import arm, disarm

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import FrameType

    from treadle.actors import Thread
    from treadle.agents import ThreadState

# Owns a store until it is killed: threads whose executions wait for something that never comes.
OWNER = """
import sys
from treadle.actors import Runtime
from treadle.agents import agent
from treadle.storage import LmdbStore

@agent(name="actor")
async def actor(state):
    await state.inject_message("assistant", "begun")
    await state.sleep(600)

path, count, queued = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with Runtime(LmdbStore(path), agents=[actor]) as runtime:
    for number in range(count):
        thread = runtime.create_thread("actor", thread_id=f"t{number}").result()
        receipt = thread.submit("go", input_id="first").result()
        with thread.events() as events:
            next(event for event in events if event.event.type == "MESSAGE_ADDED")
        for rank in range(queued):
            thread.queue_message(f"q{rank}", input_id=f"q{rank}").result()
        print(receipt.execution_id, flush=True)
    print("ready", flush=True)
    sys.stdin.readline()
"""


def killed(path: Path, count: int, queued: int = 0) -> list[str]:
    """Leave a store as a process leaves it that is killed; return the executions that ran, in order of their threads."""
    executions = []
    with Process(OWNER, path, count, queued) as process:
        while (line := process.line()) != "ready":
            assert line
            executions.append(line)
        process.kill()
    return executions


def settled_as_lost(thread: Thread, execution_id: str, cause: str, *, dispatched: bool = True) -> None:
    """Hold a thread whose execution was lost to all that is promised of it."""
    with thread.stream() as stream:
        first: Any = stream.next(PATIENCE_S)
    assert (first["type"], first["status"]["state"], first["status"]["reason"]) == (
        "thread_status", "failed", "execution_lost",
    )  # fmt: skip
    assert first["active_execution"] is None
    record = thread.execution(execution_id).result()
    assert (record.status, record.outcome, record.finished_at) == ("interrupted", None, None)
    assert record.evidence is not None
    assert record.evidence.keys() == {"boot_id", "last_sequence", "cause", "dispatched"}
    assert (record.evidence["cause"], record.evidence["dispatched"]) == (cause, dispatched)
    assert len(str(record.evidence["boot_id"])) == 32
    # Recovery never invents a FINISH.
    assert tags(thread).count("THREAD_EXECUTION_FINISHED") == 0


def takes_new_work(thread: Thread) -> None:
    receipt = thread.submit("more").result(PATIENCE_S)
    assert receipt.disposition == "accepted"
    assert ended(thread, receipt).status == "succeeded"
    status = thread.status().result()
    assert (status.state, status.reason) == ("idle", "awaiting_human")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(LmdbStore(tmp_path / "store"))
    yield made
    made.close()


@pytest.mark.slow
def test_messages_queued_before_a_kill_wait_in_order_and_are_each_delivered_once(disk: Scene, tmp_path: Path) -> None:
    """Scenario 6."""
    killed(tmp_path / "store", 1, queued=5)
    waiting = [f"q{rank}" for rank in range(5)]

    # Without its agent nothing starts, so what waits can be looked at.
    disk.open()
    thread = disk.runtime.thread("t0")
    assert disk.runtime.opened is not None
    assert disk.runtime.opened.agent_missing == {"actor": ["t0"]}
    assert pending(thread) == waiting
    assert all((message.metadata or {})["queued"] for message in thread.messages(limit=5).result().messages)

    disk.reopen(disk.body(disk.stops_at_gate, name="actor"))
    thread = disk.runtime.thread("t0")
    arrival = disk.gate.arrival()
    assert arrival.brought == waiting
    arrival.go.set(None)
    executions = thread.executions(order="asc").result().executions
    assert ended(thread, executions[-1].execution_id).status == "succeeded"
    assert len(executions) == 2
    assert texts(thread) == ["go", "begun", *waiting]
    assert pending(thread) == []
    assert disk.gate.nobody_came()


@pytest.mark.slow
def test_ten_threads_whose_process_was_killed_are_lost_and_take_new_work_at_once(disk: Scene, tmp_path: Path) -> None:
    """Scenario 16, the process."""
    executions = killed(tmp_path / "store", 10)
    assert sorted(check(tmp_path / "store").running) == [f"t{number}" for number in range(10)]

    runtime = disk.open(disk.body(echo, name="actor"))
    assert runtime.opened is not None
    assert sorted(runtime.opened.settled) == [f"t{number}" for number in range(10)]
    assert runtime.threads(state="running").result().threads == []
    for number, execution_id in enumerate(executions):
        thread = runtime.thread(f"t{number}")
        settled_as_lost(thread, execution_id, "process_ended")
        assert texts(thread) == ["go", "begun"]
        takes_new_work(thread)
    assert check(tmp_path / "store").broken == ()


def test_ten_threads_whose_actors_crash_are_lost_and_tell_their_watchers(scene: Scene) -> None:
    """Scenario 16, the actor: the process lives, and so do the watchers."""
    scene.open(scene.body(scene.stops_at_gate, name="actor"))
    threads = [scene.thread() for _ in range(10)]
    executions = [began(thread.submit("go").result(PATIENCE_S)) for thread in threads]
    arrivals = [scene.gate.arrival() for _ in threads]
    streams = [thread.stream() for thread in threads]
    for stream in streams:
        assert stream.next(PATIENCE_S)["status"]["state"] == "running"

    for thread, stream in zip(threads, streams, strict=True):
        arm(AFTER_CONFIRM, 1, crash)
        try:
            with pytest.raises(ThreadActorCrashed):
                thread.set_value("k", 1).result(PATIENCE_S)
        finally:
            disarm()
        while (frame := stream.next(PATIENCE_S))["type"] != "thread_status":
            assert frame["type"] in ("VALUE_CHANGED", "THREAD_EXECUTION_LOST")
        assert (frame["status"]["state"], frame["status"]["reason"]) == ("failed", "execution_lost")
        stream.close()

    for thread, execution_id in zip(threads, executions, strict=True):
        settled_as_lost(thread, execution_id, "actor_crashed")
        # It was written; the caller could not be told.
        assert thread.get_value("k").result() == 1
        receipt = thread.submit("more").result(PATIENCE_S)
        assert receipt.disposition == "accepted"
        scene.gate.let_go()
        assert ended(thread, receipt).status == "succeeded"
    for arrival in arrivals:
        arrival.go.set(None)


def crash() -> None:
    raise RuntimeError("on purpose")


def test_a_worker_that_dies_before_it_runs_its_execution_is_noticed_and_the_queue_moves_on(scene: Scene) -> None:
    """Scenario 17."""

    def trace(frame: FrameType, event: str, _argument: object) -> None:
        # The call of the job itself: it was handed over, and nothing of it has run.
        if frame.f_code is Job.run.__code__ and not died:
            died.append(threading.current_thread())
            raise SystemExit

    died: list[threading.Thread] = []

    @agent(name="actor")
    def actor(state: ThreadState) -> None:
        assert state.execution is not None
        seen.append([message.content for message in state.execution.new_messages])

    seen: list[Any] = []
    scene.open(actor, workers=1)
    thread, other = scene.thread(), scene.thread()
    threading.settrace(trace)  # type: ignore[arg-type]
    hook, threading.excepthook = threading.excepthook, lambda args: None
    try:
        receipt = thread.submit("one").result(PATIENCE_S)
        waiting = thread.submit("two", on_busy="queue").result(PATIENCE_S)
        assert ended(thread, receipt).status == "interrupted"
        for worker in died:
            worker.join(PATIENCE_S)
    finally:
        threading.settrace(None)  # type: ignore[arg-type]
        threading.excepthook = hook

    # No time has passed: nothing here waited for a time-out.
    assert scene.clock.monotonic() == 0
    record = thread.execution(began(receipt)).result()
    assert record.evidence is not None
    assert (record.evidence["cause"], record.evidence["dispatched"]) == ("worker_lost", False)
    follows = waiting if waiting.disposition == "queued" else began(waiting)
    assert ended(thread, follows).status == "succeeded"
    assert ended(other, other.submit("three").result(PATIENCE_S)).status == "succeeded"
    assert seen == [["two"], ["three"]]


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_watcher_finds_an_execution_the_instant_its_start_arrives_ten_thousand_times(tmp_path: Path) -> None:
    """Scenario 19."""
    rounds, lanes = 2_500, 4

    @agent(name="actor")
    async def actor(state: ThreadState) -> None:
        """End at once, so that START and FINISH are as close as they can be."""

    found: list[tuple[str, str]] = []
    failures: list[BaseException] = []

    def watch(thread: Thread) -> None:
        try:
            with thread.events() as events:
                for _ in range(rounds):
                    event = next(event.event for event in events if event.event.type == "THREAD_EXECUTION_STARTED")
                    record = thread.execution(event.execution_id).result()
                    found.append((record.execution_id, record.status))
        except BaseException as error:
            failures.append(error)

    with Runtime(LmdbStore(tmp_path, durability="process"), agents=[actor]) as runtime:
        threads = [runtime.create_thread("actor").result() for _ in range(lanes)]
        watchers = [threading.Thread(target=watch, args=[thread], name="watcher") for thread in threads]
        for watcher in watchers:
            watcher.start()
        for _ in range(rounds):
            receipts = [(thread, thread.submit("go").result(PATIENCE_S)) for thread in threads]
            for thread, receipt in receipts:
                ended(thread, receipt)
        for watcher in watchers:
            watcher.join(PATIENCE_S)

    assert failures == []
    assert len(found) == rounds * lanes == 10_000
    assert {status for _, status in found} <= {"active", "succeeded"}


def test_a_second_runtime_is_refused_by_name_of_the_holder_and_changes_nothing(disk: Scene, tmp_path: Path) -> None:
    """Scenario 20, in one process."""
    thread = disk.start(quiet)
    ended(thread, thread.submit("go").result(PATIENCE_S))
    before = (tmp_path / "store" / "data.mdb").read_bytes()

    with pytest.raises(StoreInUse, match="this process"):
        Runtime(LmdbStore(tmp_path / "store"), agents=[disk.body(quiet, name="actor")]).open()

    assert (tmp_path / "store" / "data.mdb").read_bytes() == before
    takes_new_work(thread)


@pytest.mark.slow
def test_a_second_process_is_refused_by_name_of_the_holder_and_changes_nothing(disk: Scene, tmp_path: Path) -> None:
    """Scenario 20, in two."""
    thread = disk.start(quiet)
    ended(thread, thread.submit("go").result(PATIENCE_S))
    before = (tmp_path / "store" / "data.mdb").read_bytes()

    script = """
import os, sys
from treadle.actors import Runtime
from treadle.protocol.errors import StoreInUse
from treadle.storage import LmdbStore
try:
    Runtime(LmdbStore(sys.argv[1]), agents=[]).open()
except StoreInUse as error:
    assert error.details["pid"] == os.getppid(), error.details
    assert f"process {os.getppid()}" in str(error), error
    print(error.code)
"""
    done = run(script, tmp_path / "store")

    assert (done.stdout, done.returncode) == ("store_in_use\n", 0)
    assert (tmp_path / "store" / "data.mdb").read_bytes() == before
    takes_new_work(thread)
