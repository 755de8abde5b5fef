"""Tests agents/testing/replaying.py: lives that end otherwise than they began: lost, terminated, withdrawn, replaced, flooded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.agents.looping import PATIENCE_S, Play, beside_a_human, call, prompt
from treadle.actors.testing.crash_points import crash_after
from treadle.agents import Agent, Side, ThreadState, tool
from treadle.agents.models import ModelError
from treadle.agents.testing import Pause, Recording, replay, run_to_rest

if TYPE_CHECKING:
    from collections.abc import Callable

    from treadle.actors import Thread


@tool
async def add(state: ThreadState, n: int = 1) -> int:
    total = int(await state.get_value("sum") or 0) + n
    await state.set_value("sum", total)
    return total


@tool
async def ask(state: ThreadState) -> Any:
    return await state.request("approval", {"amount": 5})


def desk(*turns: Any) -> Agent:
    return beside_a_human(*turns, tools=[add, ask])[0]


def whole(thread: Thread, joined: int) -> Recording:
    """Read a journal once what waited on a terminated thread has joined; that takes batches of their own."""
    with thread.events() as events:
        while joined:
            found = events.next(PATIENCE_S)
            assert found is not None
            joined -= found.event.type == "MESSAGES_JOINED"
    return Recording.of(thread)


def test_what_was_withdrawn_never_comes() -> None:
    with Play(desk("one", "two")) as play:
        thread = play.thread
        run_to_rest(thread, "go")
        thread.stop().result(PATIENCE_S)
        withdrawn = thread.queue_message("not this").result(PATIENCE_S)
        thread.queue_message("this").result(PATIENCE_S)
        thread.withdraw(withdrawn.input_id).result(PATIENCE_S)
        run_to_rest(thread, "and go on")

        assert replay(thread, desk()) is None


@pytest.mark.parametrize("running", [False, True])
def test_a_termination_comes_where_it_came_and_what_waited_is_not_run(running: bool) -> None:
    pause = Pause()
    with Play(desk(pause, "one") if not running else desk([pause, "one"])) as play:
        thread = play.thread
        execution_id = play.submit()
        pause.reached()
        if not running:
            pause.release()
            play.end(execution_id)
            thread.stop().result(PATIENCE_S)
        thread.queue_tool("add", {"n": 3}).result(PATIENCE_S)
        thread.terminate().result(PATIENCE_S)
        play.end(execution_id)
        recording = whole(thread, joined=1)

    assert [act.verb for act in recording.acts][-2:] == ["tool", "terminate"]
    assert replay(recording, desk()) is None


def test_what_a_settling_answered_is_no_part_of_the_lost_execution() -> None:
    crashed: list[bool] = []

    def made(*turns: Any) -> Agent:
        @tool
        async def die(state: ThreadState) -> str:
            if turns and not crashed:
                crashed.append(True)
                crash_after("VALUE_CHANGED committed")
                await state.set_value("any", 1)
            return "lived"

        sub, _ = prompt("sub", [call("add", "s1"), call("die", "s2"), call("add", "s3")], tools=[add, die])
        return beside_a_human(*turns, tools=[add, sub], on_lost="resume")[0]

    with Play(made([call("add", "c1"), call("sub", "c2"), call("add", "c3")], "after it", "again")) as play:
        play.say()
        run_to_rest(play.thread)
        run_to_rest(play.thread, "and?")

        assert replay(play.thread, made()) is None
    assert crashed


def test_an_input_that_interrupts_comes_before_what_waits() -> None:
    pause = Pause()
    with Play(desk([pause, "one"], "two", "three")) as play:
        execution_id = play.submit()
        pause.reached()
        play.thread.queue_message("behind").result(PATIENCE_S)
        play.thread.submit("instead", on_busy="interrupt").result(PATIENCE_S)
        play.end(execution_id)
        run_to_rest(play.thread)

        assert replay(play.thread, desk()) is None


def test_calls_beyond_the_limit_are_as_many_again() -> None:
    with Play(desk([call("add", f"c{number}") for number in range(300)], "enough")) as play:
        run_to_rest(play.thread, "go")

        assert replay(play.thread, desk()) is None


def test_what_a_model_failed_with_is_said_in_the_same_words() -> None:
    with Play(desk(ModelError("overloaded", model="m"), "well again")) as play:
        assert run_to_rest(play.thread, "go").status.reason == "step_error"
        run_to_rest(play.thread, "go on")

        assert replay(play.thread, desk()) is None


def test_queued_tools_handoffs_and_requests_in_sub_prompts_come_again() -> None:
    def twins() -> list[Agent]:
        sub, _ = prompt("sub", [call("ask", "s1"), call("add", "s2")], "for itself", tools=[ask, add])
        first, _ = prompt("first", [call("sub", "c1"), call("second", "c2", message="yours"), call("add", "c3")])
        second, _ = prompt("second", "taken over", [call("ask", "c4")], "thanks", tools=[ask, sub])
        first = first.model_copy(update={"tools": (sub, "second", add)})
        return [Agent(name=one.name, side_a=Side(prompt=one)) for one in (first, second)]

    with Play(*twins()) as play:
        thread = play.thread
        run_to_rest(thread, "go", answers={"approval": 1})
        for name, args in (("sub", {"a": 1}), ("nothing", {})):
            # One after the other: what comes while an execution closes may be of this one or of the next.
            thread.queue_tool(name, args).result(PATIENCE_S)
            run_to_rest(thread)
        assert run_to_rest(thread, "and?", answers={"approval": "fine"}).text == "thanks"

        assert replay(thread, twins()) is None


ACTS: dict[str, Callable[[Thread], Any]] = {
    "queue": lambda thread: thread.queue_message("queued"),
    "submit": lambda thread: thread.submit("submitted", on_busy="queue"),
    "instead": lambda thread: thread.submit("instead", on_busy="interrupt"),
    "hold": lambda thread: thread.stop(),
    "inject": lambda thread: thread.inject_message("system", "injected"),
    "tool": lambda thread: thread.queue_tool("add", {}),
}


@pytest.mark.parametrize(
    "names",
    [["queue"], ["submit"], ["tool"], ["submit", "instead", "queue"], ["queue", "hold"], ["inject", "queue", "queue"]],
    ids="-".join,
)
def test_what_came_while_an_execution_closed_comes_again(names: list[str]) -> None:
    """No model heard of it: it is of the next execution, or of none."""
    waiting = list(names)

    class Closing:
        def close(self) -> None:
            while waiting:  # nothing is left for the replay, which runs the tool for real
                ACTS[waiting.pop(0)](play.thread).result(PATIENCE_S)

    @tool
    async def own(state: ThreadState) -> None:
        assert state.execution is not None
        state.execution.own(Closing())

    def made(*turns: Any) -> Agent:
        return beside_a_human(*turns, tools=[own, add])[0]

    with Play(made(call("own"), "one", "two", "three", "four")) as play:
        run_to_rest(play.thread, "go")
        assert not waiting
        run_to_rest(play.thread, "go on")

        assert replay(play.thread, made()) is None
