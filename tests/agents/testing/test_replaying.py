"""Tests agents/testing/replaying.py: a recorded life plays again as it was, and the first difference is named."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.agents.looping import PATIENCE_S, Play, beside_a_human, call, prompt
from treadle.agents import Agent, Hook, Prompt, Side, ThreadState, agent, handler, tool
from treadle.agents.models import ModelError
from treadle.agents.testing import Difference, Pause, Recording, replay, run_to_rest

if TYPE_CHECKING:
    from pathlib import Path

    from treadle.actors import Thread


@tool
async def ask(state: ThreadState) -> Any:
    return await state.request("approval", {"amount": 5})


@tool
async def add(state: ThreadState, a: int, b: int) -> int:
    return a + b


@tool(name="add")
async def add_wrongly(state: ThreadState, a: int, b: int) -> int:
    return a - b


@tool
async def note(state: ThreadState, text: str) -> str:
    await state.inject_message("assistant", f"noted: {text}")
    await state.queue_message("what was noted?")
    return "ok"


def desk(*turns: Any, tools: Any = (ask, add, note), **options: Any) -> Agent:
    return beside_a_human(*turns, tools=tools, **options)[0]


def until_asked(thread: Thread) -> str:
    with thread.stream() as stream:
        while not (pending := thread.state().result().pending_requests):
            stream.next(PATIENCE_S)
    return str(pending[0]["request_id"])


def test_a_life_with_steers_queues_requests_and_holds_plays_again_without_a_difference(tmp_path: Path) -> None:
    pause = Pause()
    lived = desk(
        [call("ask"), call("add", "c2", a=1, b=2)], ["hel", pause, "lo"], call("note", text="x"), "noted", None, "fine", "held"
    )  # fmt: skip
    with Play(lived) as play:
        thread = play.thread
        execution_id = play.submit("hi")
        request_id = until_asked(thread)
        thread.steer(execution_id, "steered").result()
        thread.respond(request_id, {"ok": True}).result()
        pause.reached()
        thread.queue_message("queued while it spoke").result()
        pause.release()
        run_to_rest(thread)
        thread.inject_message("system", "from outside").result()
        thread.queue_tool("add", {"a": 2, "b": 2}).result()
        run_to_rest(thread)
        thread.stop().result()
        thread.queue_message("kept").result()
        thread.resume().result()
        run_to_rest(thread)
        recording = Recording.of(thread)
        assert replay(thread, desk()) is None

    recording.save(tmp_path / "recorded.json")
    again = Recording.load(tmp_path / "recorded.json")
    assert again.frames == recording.frames
    assert replay(again, [desk()]) is None


def test_what_is_said_before_any_model_was_asked_is_said_so_early_again() -> None:
    """Two messages typed quickly: the second one is there when the first request is made."""
    pause = Pause()

    async def hold(state: ThreadState, message: Any) -> None:
        if message.content == "hi":
            await pause.wait()

    with Play(desk("both", hooks=[Hook("after_create_message", "holds", hold)])) as play:
        execution_id = play.submit("hi")
        pause.reached()
        play.thread.queue_message("and").result()
        play.thread.steer(execution_id, "quickly").result()
        pause.release()
        run_to_rest(play.thread)
        assert [content for _, content in play.told()] == ["hi", "and", "quickly", "both"]
        assert replay(play.thread, desk()) is None


@pytest.mark.parametrize("held", ["later", "first"])
def test_what_is_said_around_a_queued_tool_is_said_in_its_step_again(held: str) -> None:
    """Its row is no response of a model, at whose request something could come."""
    pause = Pause()

    @tool
    async def first(state: ThreadState) -> str:
        state.queue_tool("later")
        return "first"

    @tool
    async def later(state: ThreadState) -> str:
        return "later"

    async def hold(state: ThreadState, call: Any, result: Any) -> None:
        if call["function"]["name"] == held:
            await pause.wait()

    def made(*turns: Any, **options: Any) -> Agent:
        return desk(*turns, tools=(first, later), **options)

    with Play(made(call("first"), "done", hooks=[Hook("tool_call_done", "holds", hold)])) as play:
        execution_id = play.submit("hi")
        pause.reached()
        play.thread.steer(execution_id, "quickly").result()
        pause.release()
        run_to_rest(play.thread)
        assert [content for _, content in play.told()] == ["hi", None, "first", None, "later", "quickly", "done"]
        assert replay(play.thread, made()) is None


def test_the_first_difference_is_named() -> None:
    with Play(desk(call("add", a=1, b=2), "three", "bye")) as play:
        run_to_rest(play.thread, "go")
        run_to_rest(play.thread, "thanks")
        recording = Recording.of(play.thread)

    found = replay(recording, desk(tools=(add_wrongly, ask, note)))

    assert isinstance(found, Difference)
    assert (found.run, found.row) == (0, 2)
    assert str(found).startswith("execution 0, row 2: recorded {'role': 'tool', 'content': '3'")
    assert "'content': '-1'" in str(found)
    assert (
        replay(recording, desk(tools=(add_wrongly,)), same=lambda ours, theirs: ours["role"] == theirs["role"]) is None
    )


@pytest.mark.parametrize(
    ("now", "where"),
    [
        ({"side": {"max_steps": 1}}, (0, 3)),  # it ends sooner
        (
            {"side": {"stop_on_response": False, "manual_stop_condition": True}},
            (0, 4),
        ),  # it goes on, and nothing more was said
        ({"tools": (ask,)}, (0, 2)),  # a tool is gone
    ],
)
def test_an_agent_that_goes_another_way_is_told_where(now: dict[str, Any], where: tuple[int, int]) -> None:
    with Play(desk(call("add", a=1, b=2), "three")) as play:
        run_to_rest(play.thread, "go")

        found = replay(play.thread, desk(**now))

    assert found is not None
    assert (found.run, found.row) == where


def test_a_request_more_and_a_request_less_are_differences() -> None:
    @tool(name="ask")
    async def ask_nobody(state: ThreadState) -> str:
        return "true"

    with Play(desk(call("ask"), "done")) as play:
        run_to_rest(play.thread, "go", answers={"approval": True})
        less = replay(play.thread, desk(tools=(ask_nobody,)))
    with Play(desk(call("ask"), "done", tools=(ask_nobody,))) as play:
        run_to_rest(play.thread, "go")
        more = replay(play.thread, desk())

    asked = {"request": "approval", "payload": {"amount": 5}}
    assert less is not None and (less.row, less.recorded) == (2, asked)
    assert more is not None and (more.row, more.replayed) == (2, asked)


@pytest.mark.parametrize("where", ["in a tool", "in a response"])
def test_an_interrupted_execution_is_compared_up_to_there_and_the_next_one_whole(where: str) -> None:
    pause = Pause()
    first = call("ask") if where == "in a tool" else ["never", pause]
    with Play(desk(first, "second")) as play:
        execution_id = play.submit("go")
        if where == "in a tool":
            until_asked(play.thread)
        else:
            pause.reached()
        play.thread.interrupt(execution_id).result()
        run_to_rest(play.thread)
        run_to_rest(play.thread, "again")

        assert replay(play.thread, desk()) is None


def test_a_lost_execution_is_replayed_as_an_interruption_and_one_that_still_ran_up_to_there() -> None:
    with Play(desk(call("add", a=1, b=2), call("ask"), "second")) as play:
        play.submit("go")
        until_asked(play.thread)
        running = Recording.of(play.thread)
        lost = {"type": "THREAD_EXECUTION_LOST", "execution_id": running.runs[0].execution_id}
        assert replay(running, desk()) is None
        assert replay(Recording([*running.frames, lost]), desk()) is None

        found = replay(running, desk(tools=(add_wrongly, ask)))
        assert found is not None
        assert found.row == 2
        play.thread.interrupt(running.runs[0].execution_id).result()


def test_both_sides_and_sub_prompts_speak_again() -> None:
    def twins() -> Agent:
        aside = Prompt(name="aside", prompt="Think.", model="a-model")
        first, _ = prompt("a", call("aside"), "thought", "one", "three", tools=[aside])
        second, _ = prompt("b", "two", "four")
        return Agent(name="twins", side_a=Side(prompt=first), side_b=Side(prompt=second), max_session_turns=2)

    with Play(twins()) as play:
        rest = run_to_rest(play.thread, "go")
        assert [message.content for message in rest.messages if message.content][-3:] == ["two", "three", "four"]

        assert replay(play.thread, twins()) is None


def test_handlers_and_plain_agents_run_for_real() -> None:
    @handler
    async def relay(state: ThreadState, message: Any) -> None:
        await state.inject_message("assistant", f"heard {message.content}")

    relayed = Agent(name="relayed", side_a=Side(handler=relay))

    @agent
    async def echo(state: ThreadState) -> None:
        await state.inject_message("assistant", "echo")

    for one in (relayed, echo):
        with Play(one) as play:
            run_to_rest(play.thread, "go")
            assert replay(play.thread, [one]) is None


def test_what_a_model_failed_with_is_a_failure_again() -> None:
    with Play(desk(ModelError("overloaded", model="m"))) as play:
        assert run_to_rest(play.thread, "go").status.reason == "step_error"
        found = replay(
            play.thread, desk(), same=lambda ours, theirs: ours.get("status") == theirs.get("status") == "failed"
        )

    assert found is None
