"""Tests agents/execution_state.py on real runtimes: what a body sees of its execution, and what belongs to it."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Self

import pytest

from treadle.actors import ExecutionCancelled, ExecutionFenced, Reply
from treadle.protocol.errors import InvalidInput

if TYPE_CHECKING:
    from tests.agents.stage import Replies, Stage
    from treadle.actors import OwnedProcess
    from treadle.agents import ExecutionState, ThreadState


def of(state: ThreadState) -> ExecutionState:
    assert state.execution is not None
    return state.execution


def test_an_execution_has_one_id_under_two_names(stage: Stage) -> None:
    seen: list[tuple[str, str, int]] = []

    def script(state: ThreadState) -> Replies:
        execution = of(state)
        seen.append((execution.id, execution.flow_id, execution.started_at))
        assert execution.id in repr(execution)
        yield state.set_value("ran", True)

    record = stage(script).play()

    assert seen == [(record.execution_id, record.execution_id, record.started_at)]


def test_each_pass_begins_with_what_no_earlier_one_has_seen(stage: Stage) -> None:
    passes: list[list[str | None]] = []

    def script(state: ThreadState) -> Replies:
        passes.append([message.content for message in of(state).new_messages])
        if len(passes) == 1:
            yield state.queue_message("b")
            yield state.queue_message("c")

    assert stage(script).play("a").error is None
    assert passes == [["a"], ["b", "c"]]


def test_the_history_is_live_and_holds_earlier_executions(stage: Stage) -> None:
    lengths: list[int] = []

    def script(state: ThreadState) -> Replies:
        history = of(state).message_history
        lengths.append(len(history))
        yield state.inject_message("assistant", "answer")
        assert history[-1].content == "answer"
        lengths.append(len(history))

    stage(script)
    stage.play()
    stage.play()

    assert lengths == [1, 2, 3, 4]


def test_the_abort_signal_is_raised_once_the_execution_is_interrupted(stage: Stage) -> None:
    begun: Reply[None] = Reply()
    raised: Reply[tuple[str | None, str]] = Reply()

    def script(state: ThreadState) -> Replies:
        signal = of(state).abort_signal
        assert not signal.aborted
        signal.add_callback(lambda: raised.set((signal.reason, signal.source)))
        begun.set(None)
        yield state.sleep(3600)

    execution_id = stage(script).thread.submit("go").result().execution_id
    assert execution_id is not None
    begun.result(30)
    stage.thread.interrupt(execution_id, reason="enough").result()

    assert raised.result(30) == ("enough", "user")
    assert stage.end(execution_id).status == "cancelled"


def test_stop_ends_the_execution_after_this_pass_and_leaves_queued_messages_to_the_next(stage: Stage) -> None:
    passes: list[list[str | None]] = []

    def script(state: ThreadState) -> Replies:
        passes.append([message.content for message in of(state).new_messages])
        if passes[-1] == ["go"]:
            of(state).stop()
            assert of(state).stopped
            yield state.queue_message("next")
        else:
            assert not of(state).stopped
            ended.set(of(state).id)

    ended: Reply[str] = Reply()
    record = stage(script).play()
    following = stage.end(ended.result(30))

    assert (record.status, record.reason) == ("succeeded", "stopped")
    assert (following.status, following.reason) == ("succeeded", "awaiting_human")
    assert passes == [["go"], ["next"]]


def test_a_steer_that_stop_leaves_unread_says_so(stage: Stage) -> None:
    begun: Reply[None] = Reply()
    steered: Reply[None] = Reply()

    def script(state: ThreadState) -> Replies:
        begun.set(None)
        yield steered
        of(state).stop()

    execution_id = stage(script).thread.submit("go").result().execution_id
    assert execution_id is not None
    begun.result(30)
    stage.thread.steer(execution_id, "shorter").result()
    steered.set(None)
    stage.end(execution_id)

    steer = stage.thread.messages().result().messages[-1]
    assert steer.metadata is not None
    assert (steer.content, steer.metadata["consumed"], steer.metadata["reason"]) == ("shorter", False, "stopped")


class Closable:
    def __init__(self, name: str, log: list[str]) -> None:
        self.name, self.log = name, log

    def close(self) -> None:
        self.log.append(self.name)


class Entered:
    def __init__(self, log: list[str]) -> None:
        self.log = log

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.log.append("entered")


class Awaited:
    def __init__(self, log: list[str]) -> None:
        self.log = log

    async def aclose(self) -> None:
        self.log.append("awaited")


def test_what_is_owned_is_closed_before_the_finish_last_first(stage: Stage) -> None:
    log: list[str] = []

    def script(state: ThreadState) -> Replies:
        first = Closable("first", log)
        assert of(state).own(first) is first
        of(state).own(Awaited(log))
        of(state).own(Entered(log))
        yield state.inject_message("assistant", f"{log}")

    assert stage(script).play().leftovers == ()
    assert stage.texts() == ["go", "[]"]
    assert log == ["entered", "awaited", "first"]


def test_what_cannot_be_closed_is_not_owned(stage: Stage) -> None:
    def script(state: ThreadState) -> Replies:
        with pytest.raises(TypeError, match="close"):
            of(state).own(object())
        yield state.set_value("ran", True)

    assert stage(script).play().error is None


def test_nothing_can_be_owned_once_the_execution_is_over(stage: Stage) -> None:
    kept: list[ExecutionState] = []

    def script(state: ThreadState) -> Replies:
        kept.append(of(state))
        yield state.set_value("ran", True)

    stage(script).play()

    with pytest.raises(ExecutionFenced):
        kept[0].own(Closable("late", []))


def test_a_process_runs_and_its_output_is_the_bodys(stage: Stage) -> None:
    def script(state: ThreadState) -> Replies:
        process = yield of(state).start_process(["/bin/echo", "hello"], stdout=subprocess.PIPE)
        assert process.stdout.read() == b"hello\n"
        assert process.wait(30) == 0

    assert stage(script).play().error is None


def test_a_process_ends_with_its_execution(stage: Stage) -> None:
    started: list[OwnedProcess] = []

    def script(state: ThreadState) -> Replies:
        started.append((yield of(state).start_process(["/bin/sh", "-c", "sleep 60 & wait"])))

    assert stage(script).play().leftovers == ()
    assert started[0].poll() is not None


def test_a_process_that_cannot_be_started_says_so_through_the_reply(stage: Stage) -> None:
    def script(state: ThreadState) -> Replies:
        with pytest.raises(FileNotFoundError):
            yield of(state).start_process(["no-such-program-here"])
        with pytest.raises(InvalidInput):
            yield of(state).start_process("ls")
        with pytest.raises(InvalidInput):
            yield of(state).start_process([])
        with pytest.raises(InvalidInput):
            yield of(state).start_process([sys.executable], stdin=0)

    assert stage(script).play().error is None


def test_an_interrupted_execution_starts_no_process(stage: Stage) -> None:
    begun: Reply[None] = Reply()
    refused: list[bool] = []

    def script(state: ThreadState) -> Replies:
        begun.set(None)
        try:
            yield state.sleep(3600)
        except ExecutionCancelled:
            with pytest.raises(ExecutionCancelled):
                yield of(state).start_process(["/bin/echo"])
            refused.append(True)
            raise

    execution_id = stage(script).thread.submit("go").result().execution_id
    assert execution_id is not None
    begun.result(30)
    stage.thread.interrupt(execution_id).result()

    assert stage.end(execution_id).status == "cancelled"
    assert refused == [True]
