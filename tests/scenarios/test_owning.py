"""What an execution started belongs to it: resources and whole process groups are gone before its finish is durable."""

from __future__ import annotations

import os
import subprocess
from asyncio import CancelledError
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.scenarios.scene import PATIENCE_S, Latch, Scene, began, ended, journal, tags
from treadle.actors import Reply
from treadle.protocol.events import ProcessRecorded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.scenarios.scene import Replies
    from treadle.actors import OwnedProcess, Thread
    from treadle.agents import ThreadState

LONELY = "sleep 60 & echo $! >&3; echo $$ >&3; wait"
NESTED = "( sleep 60 & echo $! >&3; ( sleep 60 & echo $! >&3; wait ) & echo $! >&3; wait ) & echo $! >&3; wait"
DEAF = "trap '' TERM; sleep 60 & echo $! >&3; echo $$ >&3; wait; sleep 60"


class Pipe:
    """Where started processes tell their numbers; a read blocks until they did."""

    def __init__(self) -> None:
        self._end, self.into = os.pipe()
        self._reader = os.fdopen(self._end)

    def pids(self, count: int) -> list[int]:
        return [int(self._reader.readline()) for _ in range(count)]

    def close(self) -> None:
        self._reader.close()
        os.close(self.into)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    made = Pipe()
    yield made
    made.close()


def alive(pid: int) -> bool:
    """Say whether a process still runs; one that ended and waits for its parent does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in {"Z", "X"}


def left_at_the_finish(thread: Thread, execution_id: str, pids: list[int]) -> Reply[list[int]]:
    """Return which processes are still there at the moment in which the finish is told."""
    left: Reply[list[int]] = Reply()
    thread.wait(execution_id).add_done_callback(lambda _reply: left.set([pid for pid in pids if alive(pid)]))
    return left


def launch(state: ThreadState, program: str, pipe: Pipe) -> Reply[OwnedProcess]:
    assert state.execution is not None
    # File 3 of the shell is its output, so that what the program prints does not mix with the numbers.
    return state.execution.start_process(["sh", "-c", f"exec 3>&1; {program}"], stdout=pipe.into)


ENDINGS = ["interrupt", "return", "error", "terminate", "deadline"]


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_whole_process_group_is_gone_before_the_finish_however_it_ends(
    either: Scene, pipe: Pipe, ending: str
) -> None:
    """Scenario 15."""

    def starts(state: ThreadState) -> Replies:
        yield launch(state, LONELY, pipe)
        yield launch(state, NESTED, pipe)
        yield either.gate.here()
        if ending == "error":
            raise ValueError("on purpose")

    thread = either.start(starts, timeout=60)
    execution_id = began(thread.submit("go").result(PATIENCE_S))
    arrived = either.gate.arrival()
    pids = pipe.pids(6)
    assert all(map(alive, pids))
    left = left_at_the_finish(thread, execution_id, pids)

    if ending == "interrupt":
        thread.interrupt(execution_id).result(PATIENCE_S)
    elif ending == "terminate":
        thread.terminate().result(PATIENCE_S)
    elif ending == "deadline":
        either.clock.advance(60)
    else:
        arrived.go.set(None)

    assert left.result(PATIENCE_S) == []
    assert ended(thread, execution_id).leftovers == ()


@pytest.mark.slow
def test_a_group_that_is_deaf_to_the_polite_signal_is_killed(either: Scene, pipe: Pipe) -> None:
    """Scenario 15."""

    def starts(state: ThreadState) -> Replies:
        yield launch(state, DEAF, pipe)
        yield either.gate.here()

    thread = either.start(starts)
    execution_id = began(thread.submit("go").result(PATIENCE_S))
    either.gate.arrival()
    pids = pipe.pids(2)
    left = left_at_the_finish(thread, execution_id, pids)

    thread.interrupt(execution_id).result(PATIENCE_S)

    assert left.result(PATIENCE_S) == []
    assert ended(thread, execution_id).leftovers == ()


def test_the_processes_of_an_abandoned_body_are_gone_too(either: Scene, pipe: Pipe) -> None:
    """Scenario 15."""
    go: Reply[None] = Reply()

    def is_deaf(state: ThreadState) -> Replies:
        yield launch(state, LONELY, pipe)
        while not go.done():
            with suppress(CancelledError):
                yield go

    thread = either.start(is_deaf)
    execution_id = began(thread.submit("go").result(PATIENCE_S))
    pids = pipe.pids(2)
    left = left_at_the_finish(thread, execution_id, pids)
    thread.interrupt(execution_id).result(PATIENCE_S)

    either.clock.advance(5)

    assert left.result(PATIENCE_S) == []
    assert ended(thread, execution_id).abandoned
    go.set(None)


def test_a_process_is_on_record_before_its_program_runs(scene: Scene, pipe: Pipe) -> None:
    def starts(state: ThreadState) -> Replies:
        process = yield launch(state, LONELY, pipe)
        scene.seen.append(process.pid)
        yield scene.gate.here()

    thread = scene.start(starts)
    execution_id = began(thread.submit("go").result(PATIENCE_S))
    scene.gate.arrival()
    pids = pipe.pids(2)

    recorded = [entry.event for entry in journal(thread) if isinstance(entry.event, ProcessRecorded)]

    assert [(event.execution_id, event.group) for event in recorded] == [(execution_id, scene.seen[0])]
    assert scene.seen[0] in pids
    thread.interrupt(execution_id).result(PATIENCE_S)
    ended(thread, execution_id)


def test_a_process_that_ends_by_itself_gives_its_output_and_status_and_leaves_nothing(either: Scene) -> None:
    def asks(state: ThreadState) -> Replies:
        assert state.execution is not None
        process = yield state.execution.start_process(["sh", "-c", "echo hello; exit 3"], stdout=subprocess.PIPE)
        status = yield process.exited()
        either.seen.append((process.stdout.read(), status))

    thread = either.start(asks)

    record = ended(thread, thread.submit("go").result(PATIENCE_S))

    assert (record.status, record.leftovers) == ("succeeded", ())
    assert either.seen == [(b"hello\n", 3)]


def test_a_program_that_cannot_be_started_is_an_error_and_nothing_is_recorded(either: Scene) -> None:
    def tries(state: ThreadState) -> Replies:
        assert state.execution is not None
        for args in (["no-such-program-anywhere"], [], "sh -c true", ["sh", 1], None):
            try:
                yield state.execution.start_process(args)  # type: ignore[arg-type]
            except Exception as error:
                either.seen.append((type(error).__name__, getattr(error, "code", None)))

    thread = either.start(tries)

    assert ended(thread, thread.submit("go").result(PATIENCE_S)).status == "succeeded"
    assert either.seen == [("FileNotFoundError", None), *[("InvalidInput", "invalid_args")] * 4]
    assert "PROCESS_RECORDED" not in tags(thread)


class Noted:
    """A resource that says when it was closed; each subclass closes in another way."""

    def __init__(self, name: str, scene: Scene, thread_id: str) -> None:
        self.name = name
        self.scene = scene
        self.thread_id = thread_id

    def note(self) -> None:
        # Before the finish is durable: whoever closes still finds the execution unfinished.
        finished = "THREAD_EXECUTION_FINISHED" in tags(self.scene.runtime.thread(self.thread_id))
        self.scene.seen.append((self.name, finished))


class Closes(Noted):
    def close(self) -> None:
        self.note()


class Acloses(Noted):
    async def aclose(self) -> None:
        self.note()


class Exits(Noted):
    def __exit__(self, *error: object) -> None:
        assert error == (None, None, None)
        self.note()


class Breaks(Noted):
    def close(self) -> None:
        self.note()
        raise SystemExit(3)


@pytest.mark.parametrize("ending", ["interrupt", "return", "error"])
def test_owned_resources_are_closed_last_first_before_the_finish(either: Scene, ending: str) -> None:
    def owns(state: ThreadState) -> Replies:
        assert state.execution is not None
        for rank, kind in enumerate((Closes, Acloses, Exits, Closes)):
            resource = kind(f"{rank}", either, state.thread_id)
            assert state.execution.own(resource) is resource
        yield either.gate.here()
        if ending == "error":
            raise ValueError("on purpose")

    thread = either.start(owns)
    execution_id = began(thread.submit("go").result(PATIENCE_S))
    arrived = either.gate.arrival()

    if ending == "interrupt":
        thread.interrupt(execution_id).result(PATIENCE_S)
    else:
        arrived.go.set(None)

    assert ended(thread, execution_id).leftovers == ()
    assert either.seen == [(name, False) for name in "3210"]


def test_a_resource_that_fails_to_close_is_named_and_the_others_are_closed(scene: Scene) -> None:
    def owns(state: ThreadState) -> Replies:
        assert state.execution is not None
        for rank, kind in enumerate((Closes, Breaks, Closes)):
            state.execution.own(kind(f"{rank}", scene, state.thread_id))
        yield from ()

    thread = scene.start(owns)

    record = ended(thread, thread.submit("go").result(PATIENCE_S))

    assert record.status == "succeeded"
    assert [name for name, _ in scene.seen] == ["2", "1", "0"]
    (left,) = record.leftovers
    assert left.endswith("Breaks")


def test_a_resource_that_does_not_close_in_time_is_named_and_left_behind(scene: Scene) -> None:
    latch = Latch()

    def owns(state: ThreadState) -> Replies:
        assert state.execution is not None
        state.execution.own(Closes("never reached", scene, state.thread_id))
        state.execution.own(latch)
        yield from ()

    thread = scene.start(owns)
    receipt = thread.submit("go").result(PATIENCE_S)
    assert latch.closing.wait(PATIENCE_S)
    state = thread.state().result(PATIENCE_S)
    assert state.active_execution is not None
    assert (state.active_execution.phase, state.status.state) == ("finishing", "running")

    scene.clock.advance(5)

    record = ended(thread, receipt)
    assert record.status == "succeeded"
    assert [name.rpartition(".")[2] for name in record.leftovers] == ["Latch", "Closes"]
    latch.may_close.set()


def test_what_cannot_be_closed_cannot_be_owned(either: Scene) -> None:
    def owns(state: ThreadState) -> Replies:
        assert state.execution is not None
        yield state.get_value("k")
        with pytest.raises(TypeError):
            state.execution.own(object())

    thread = either.start(owns)

    assert ended(thread, thread.submit("go").result(PATIENCE_S)).status == "succeeded"
