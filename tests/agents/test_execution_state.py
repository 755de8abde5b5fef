"""Tests agents/execution_state.py on real runtimes: what a body sees of its execution, and what belongs to it."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Self

import pytest

from treadle.actors import ExecutionCancelled, ExecutionFenced, Reply
from treadle.agents.flow import current_flow
from treadle.protocol.errors import InvalidInput

if TYPE_CHECKING:
    from tests.agents.declared import Declared
    from tests.agents.stage import Replies, Stage
    from treadle.actors import OwnedProcess
    from treadle.agents import ExecutionState, ThreadState


def of(state: ThreadState) -> ExecutionState:
    assert state.execution is not None
    return state.execution


def test_an_execution_has_one_id_under_two_names(stage: Stage) -> None:
    """Contract B flow_id: the execution's own."""
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
    """Contract B message_history; B history is live: a plain callable's too."""
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
    """Contract B abort_signal: with reason and source."""
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
    begun.result(60)
    stage.thread.interrupt(execution_id, reason="enough").result()

    assert raised.result(60) == ("enough", "user")
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
    following = stage.end(ended.result(60))

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
    begun.result(60)
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
        assert process.wait(60) == 0

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
    begun.result(60)
    stage.thread.interrupt(execution_id).result()

    assert stage.end(execution_id).status == "cancelled"
    assert refused == [True]


# What belongs to a step loop


def test_a_plain_callable_is_side_a_and_takes_no_steps(stage: Stage) -> None:
    """Contract B current_side; B step_count; B side_step_count; B prompt_path: where there is no step loop."""

    def script(state: ThreadState) -> Replies:
        execution = of(state)
        assert (execution.flow, execution.current_side, execution.prompt_path) == (None, "a", [])
        assert (execution.step_count, execution.side_a_step_count, execution.side_b_step_count) == (0, 0, 0)
        with pytest.raises(InvalidInput) as refused:
            execution.force_turn("b")
        assert refused.value.code == "no_step_loop"
        assert (execution.stopped, execution.stopped_by) == (False, None)
        execution.stop()
        assert (execution.stopped, execution.stopped_by) == (True, "a")
        yield state.status()

    record = stage(script).play()
    assert (record.status, record.reason) == ("succeeded", "stopped")


def test_sides_steps_and_prompts_are_those_of_the_flow(declared: Declared) -> None:
    """Contract B current_side; B step_count; B side_step_count; B prompt_path: live, and read-only."""

    def script(state: ThreadState) -> Replies:
        execution = of(state)
        flow = execution.flow
        assert flow is not None
        assert (execution.current_side, execution.step_count, execution.prompt_path) == ("a", 0, ["p"])
        flow.side, flow.step_count, flow.side_steps = "b", 3, {"a": 1, "b": 2}
        assert (execution.current_side, execution.step_count) == ("b", 3)
        assert (execution.side_a_step_count, execution.side_b_step_count) == (1, 2)
        execution.prompt_path.append("mine")
        assert execution.prompt_path == ["p"]
        for name in ("current_side", "step_count", "side_a_step_count", "stopped", "stopped_by", "flow_id"):
            with pytest.raises(AttributeError):
                setattr(execution, name, 7)
        yield state.status()

    assert declared(script).play().error is None


def test_stopping_says_by_whom_and_a_forced_turn_takes_it_back(declared: Declared) -> None:
    """Contract B stopped; B stopped_by; B force_turn own: the acting side stops, the last force counts."""

    def script(state: ThreadState) -> Replies:
        execution = of(state)
        flow = execution.flow
        assert flow is not None
        assert (execution.stopped, execution.stopped_by) == (False, None)
        flow.side = "b"
        execution.stop()
        assert (execution.stopped, execution.stopped_by) == (True, "b")
        execution.force_turn("a")
        assert (execution.stopped, execution.stopped_by, flow.forced) == (False, None, "a")
        execution.force_turn("b")
        assert flow.forced == "b"
        for bad in ("c", "A", "", None, 1):
            with pytest.raises(InvalidInput) as refused:
                execution.force_turn(bad)  # type: ignore[arg-type]
            assert refused.value.code == "invalid_side"
        yield state.status()

    assert declared(script).play().error is None


def test_a_sub_prompt_sees_its_own_flow_on_the_same_thread(declared: Declared) -> None:
    """Contract B sub-prompts; B prompt_path; B flow_id: path, counters and depth; stop and force are the whole loop's."""

    def script(state: ThreadState) -> Replies:
        execution = of(state)
        root = execution.flow
        assert root is not None
        root.step_count = 5
        prompt = root.agent.definitions.prompt("p")
        child = root.child(prompt, {"x": 1})
        state.context["shared"] = True
        token = current_flow.set(child)
        assert (execution.prompt_path, execution.step_count) == (["p", "p"], 0)
        assert (execution.flow_id, child.depth, child.context) == (execution.id, 1, {"shared": True})
        execution.force_turn("b")
        current_flow.reset(token)
        assert (execution.prompt_path, execution.step_count, root.forced) == (["p"], 5, "b")
        yield state.status()

    assert declared(script).play().error is None


def test_history_is_live_and_silent_messages_are_part_of_it(declared: Declared) -> None:
    """Contract B message_history; B history is live: what is injected, changed and deleted is seen at the next look."""

    def script(state: ThreadState) -> Replies:
        history = of(state).message_history
        first = yield state.inject_message("system", "psst", silent=True, metadata={"kept": True})
        second = yield state.inject_message("assistant", "hello")
        assert [one.content for one in history] == ["go", "psst", "hello"]
        assert history[1].metadata == {"kept": True}
        yield state.update_message(second.id, content="changed")
        yield state.delete_message(first.id)
        assert [one.content for one in of(state).message_history] == ["go", "changed"]

    assert declared(script).play().error is None


def test_the_signal_of_a_declared_agent_is_raised_by_termination(declared: Declared) -> None:
    """Contract B abort_signal: and by an interrupt, as of any execution."""

    def script(state: ThreadState) -> Replies:
        signal = of(state).abort_signal
        assert not signal.aborted
        try:
            yield state.terminate()
        except ExecutionCancelled:
            assert signal.aborted
            raise

    record = declared(script).play()
    assert (record.status, record.reason) == ("cancelled", "aborted")


def test_at_rest_there_is_no_execution(declared: Declared) -> None:
    """Contract B at rest: not even while somebody else's runs."""
    begun: Reply[None] = Reply()
    looked: Reply[None] = Reply()

    def script(state: ThreadState) -> Replies:
        assert state.execution is not None
        begun.set(None)
        yield looked

    receipt = declared(script).thread.submit("go").result(60)
    begun.result(60)
    assert declared.rest().execution is None
    looked.set(None)
    assert declared.thread.wait(receipt).result(60).error is None
