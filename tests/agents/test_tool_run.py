"""Whatever a tool does becomes a result, and the loop goes on; only the end of the execution passes."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from tests.agents.looping import PATIENCE_S, Play, beside_a_human, call
from treadle.actors.fence import ExecutionFenced
from treadle.agents.models.seam import ToolCall
from treadle.agents.tool import tool
from treadle.agents.tool_result import ToolResult

if TYPE_CHECKING:
    from treadle.agents.thread_state import ThreadState


def failing(make: Any, *, plain: bool) -> Any:
    """A tool that raises what is made, as a coroutine or on a worker."""
    if plain:

        @tool(name="fails")
        def fails_plainly(state: ThreadState) -> str:
            raise make()

        return fails_plainly

    @tool(name="fails")
    async def fails(state: ThreadState) -> str:
        raise make()

    return fails


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Secretive(Exception):
    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(f"{name} is mine")


ESCAPES = [
    lambda: ValueError("no such order"), lambda: TimeoutError("too slow"), lambda: SystemExit(3), KeyboardInterrupt,
    GeneratorExit, RecursionError, MemoryError, lambda: asyncio.CancelledError("mine"), Unspeakable, Secretive, lambda: StopIteration(1),
]  # fmt: skip


@pytest.mark.parametrize("plain", [False, True], ids=["coroutine", "plain"])
@pytest.mark.parametrize("escape", ESCAPES, ids=lambda made: type(made()).__name__)
def test_whatever_a_tool_raises_is_an_error_result_and_the_loop_goes_on(escape: Any, plain: bool) -> None:
    """Contract E.4 failure; F.1 tool errors: the next call runs, and the model answers."""

    @tool
    async def add(state: ThreadState, a: int, b: int) -> int:
        return a + b

    agent, model = beside_a_human(
        [call("fails", "c1"), call("add", "c2", a=1, b=2)], "I see.", tools=[failing(escape, plain=plain), add]
    )
    with Play(agent) as play:
        record = play.say()

        assert (record.outcome, record.reason) == ("succeeded", "stop_on_response")
        results = play.results()
        ((status, text),) = results["c1"]
        assert (status, str(text).startswith("Failed to execute tool: ")) == ("error", True)
        assert results["c2"] == [("success", "3")]
        assert len(model.requests) == 2


@pytest.mark.parametrize(
    ("returned", "stored"),
    [
        ("text", ("success", "text")),
        (None, ("success", "Tool executed successfully")),
        ("", ("success", "Tool executed successfully")),
        ({"found": [1, 2]}, ("success", '{"found": [1, 2]}')),
        (7, ("success", "7")),
        (ToolResult(status="success", result="done"), ("success", "done")),
        (ToolResult(status="error", error="closed"), ("error", "Failed to execute tool: closed")),
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, ("success", "a\nb")),
    ],
    ids=str,
)
def test_each_kind_of_result_becomes_one_stored_row(returned: Any, stored: tuple[str, str]) -> None:
    """Contract E.4 result: text, a `ToolResult`, data or nothing, with a default text."""

    @tool
    async def give(state: ThreadState) -> Any:
        return returned

    agent, _ = beside_a_human(call("give"), "Thanks.", tools=[give])
    with Play(agent) as play:
        play.say()

        assert play.results() == {"c1": [stored]}


async def answer() -> int:
    return 5


@pytest.mark.parametrize("plain", [False, True], ids=["coroutine", "plain"])
def test_a_coroutine_that_is_returned_instead_of_awaited_is_closed_and_told(plain: bool) -> None:
    """Contract E.4 failure: with what to do about it, and without Python's warning about it elsewhere."""

    @tool(name="give")
    def give_plainly(state: ThreadState) -> Any:
        return answer()

    @tool
    async def give(state: ThreadState) -> Any:
        return answer()

    agent, _ = beside_a_human(call("give"), "Oh.", tools=[give_plainly if plain else give])
    with Play(agent) as play:
        play.say()

        ((status, text),) = play.results()["c1"]
        assert (status, "coroutine" in str(text)) == ("error", True)


@pytest.mark.parametrize("garbage", [len, {1: 2}, "\ud800", {"a": float("nan")}, b"bytes", 2**80], ids=repr)
def test_what_cannot_be_stored_is_an_error_result(garbage: Any) -> None:
    """Contract E.4 failure: garbage of a tool is an error, and the thread goes on."""

    @tool
    async def give(state: ThreadState) -> Any:
        return garbage

    agent, _ = beside_a_human(call("give"), "Oh.", tools=[give])
    with Play(agent) as play:
        record = play.say()

        assert record.reason == "stop_on_response"
        assert len(play.results()["c1"]) == 1


def test_a_result_that_is_too_large_for_a_message_is_an_error_result() -> None:
    """Contract E.4 failure: the model is told how large it was."""

    @tool
    async def give(state: ThreadState) -> str:
        return "x" * (1 << 20) + "y"

    agent, _ = beside_a_human(call("give"), "Oh.", tools=[give])
    with Play(agent) as play:
        assert play.say().reason == "stop_on_response"
        ((status, text),) = play.results()["c1"]
        assert status == "error"
        assert len(str(text)) < 1_000


def test_attachments_add_a_line_each_with_their_path() -> None:
    """Contract E.4 attachments: the row has them, and its text names their paths."""

    @tool
    async def draw(state: ThreadState) -> ToolResult:
        return ToolResult(
            status="success", result="drawn", attachments=({"name": "a.png", "path": "/attachments/a.png"},)
        )

    agent, _ = beside_a_human(call("draw"), "There.", tools=[draw])
    with Play(agent) as play:
        play.say()

        row = next(one for one in play.messages() if one.role == "tool")
        assert row.content == 'drawn\nAttachment path for "a.png": /attachments/a.png'
        assert row.attachments == [{"name": "a.png", "path": "/attachments/a.png"}]


@pytest.mark.parametrize(
    "arguments", ["{", "[1]", '"x"', '{"a": "one", "b": 2}', "{}", '{"a": 1, "b": 2, "c": 3}', "nul"]
)
def test_bad_arguments_are_an_error_result_that_names_the_path(arguments: str) -> None:
    """Contract E.4 bad arguments: the tool does not run."""
    ran = []

    @tool
    async def add(state: ThreadState, a: int, b: int) -> int:
        ran.append(1)
        return a + b

    agent, _ = beside_a_human(ToolCall("c1", "add", arguments), "Oh.", tools=[add])
    with Play(agent) as play:
        assert play.say().reason == "stop_on_response"
        ((status, text),) = play.results()["c1"]
        assert (status, str(text).startswith("Tool argument validation failed: [")) == ("error", True)
        assert ran == []


@pytest.mark.parametrize("name", ["nothing", "", "a" * 5_000, 'quo"te', "\u2028", "nul\0"])
def test_an_unknown_tool_is_an_error_result(name: str) -> None:
    """Contract E.4 unknown tool: it says that it is not available."""
    agent, _ = beside_a_human(ToolCall("c1", name, "{}"), "Oh.")
    with Play(agent) as play:
        assert play.say().reason == "stop_on_response"
        ((status, text),) = play.results()["c1"]
        assert status == "error"
        assert str(text).startswith('Tool "')
        assert str(text).endswith('" is not available for this prompt')


def test_the_calls_of_one_response_run_one_after_another_in_order() -> None:
    """Contract E.4 order; F.1 one step: none begins before the one before has ended, plain functions too."""
    running: list[str] = []
    ran: list[str] = []

    async def slow(state: ThreadState, name: str) -> str:
        assert running == []
        running.append(name)
        await asyncio.sleep(0)
        running.remove(name)
        ran.append(name)
        return name

    @tool(name="on_loop")
    async def on_loop(state: ThreadState, name: str) -> str:
        return await slow(state, name)

    @tool(name="on_worker")
    def on_worker(state: ThreadState, name: str) -> str:
        assert running == []
        running.append(name)
        running.remove(name)
        ran.append(name)
        return name

    names = [f"n{rank}" for rank in range(6)]
    calls = [call("on_loop" if rank % 2 else "on_worker", f"c{rank}", name=name) for rank, name in enumerate(names)]
    agent, _ = beside_a_human(calls, "Done.", tools=[on_loop, on_worker])
    with Play(agent) as play:
        play.say()

        assert ran == names
        assert list(play.results()) == [f"c{rank}" for rank in range(6)]


def test_a_plain_tool_runs_on_a_worker_and_can_block_on_replies() -> None:
    """Contract F.1 tool classes: a plain function gets the same state, on a worker of the pool."""
    seen: list[Any] = []

    @tool
    def note(state: ThreadState, text: str) -> str:
        state.set_value("note", text).result(PATIENCE_S)
        assert state.execution is not None
        seen.append((threading.current_thread().name != "treadle-loop", state.execution.step_count))
        return str(state.get_value("note").result(PATIENCE_S))

    agent, _ = beside_a_human(call("note", text="hi"), "Done.", tools=[note])
    with Play(agent) as play:
        play.say()

        assert play.results() == {"c1": [("success", "hi")]}
        assert seen == [(True, 1)]


def test_a_tool_invokes_another_which_stores_nothing() -> None:
    """Contract D.7 invoke_tool: also one that its prompt does not list; what fails is a result."""

    @tool
    def hidden(state: ThreadState, text: str) -> str:
        return text.upper()

    @tool
    async def outer(state: ThreadState) -> str:
        good = await state.invoke_tool("hidden", {"text": "hi"})
        bad = await state.invoke_tool("hidden", {})
        none = await state.invoke_tool("nothing", {})
        return f"{good.result} {bad.status} {none.error}"

    agent, _ = beside_a_human(call("outer"), "Done.", tools=[outer])
    with Play(agent, definitions={"tools": [hidden]}) as play:
        play.say()

        assert play.results() == {"c1": [("success", 'HI error Tool "nothing" is not available for this prompt')]}


def test_a_tool_that_uses_the_state_of_an_execution_that_is_over_fails_alone() -> None:
    """Contract E.4 failure: it is fenced there, and the execution that runs goes on."""
    kept: list[ThreadState] = []

    @tool
    async def stale(state: ThreadState) -> str:
        kept.append(state)
        await kept[0].inject_message("system", "too late")
        return "said"

    agent, _ = beside_a_human(call("stale"), "One.", call("stale", "c2"), "Two.", tools=[stale])
    with Play(agent) as play:
        assert play.say().reason == "stop_on_response"
        assert play.say().reason == "stop_on_response"
        results = play.results()
        assert results["c1"] == [("success", "said")]
        assert results["c2"][0][0] == "error"


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("ending", [lambda: "done", lambda: ValueError("no")], ids=["returns", "raises"])
def test_a_tool_that_cancels_its_own_task_fails_nobody_but_itself(times: int, ending: Any) -> None:
    """Contract F.1 tool errors: a cancellation that it leaves behind does not arrive in the middle of the loop."""

    @tool
    async def cancels(state: ThreadState) -> str:
        task = asyncio.current_task()
        assert task is not None
        for _ in range(times):
            task.cancel()
        ended = ending()
        if isinstance(ended, Exception):
            raise ended
        return ended

    @tool
    async def next_one(state: ThreadState) -> str:
        await asyncio.sleep(0)
        return "next"

    agent, _ = beside_a_human([call("cancels"), call("next_one", "c2")], "Done.", tools=[cancels, next_one])
    with Play(agent) as play:
        assert play.say().reason == "stop_on_response"
        assert [status for [(status, _)] in play.results().values()] == [
            "success" if isinstance(ending(), str) else "error",
            "success",
        ]


@pytest.mark.parametrize("answered", ["c1", "c2"])
def test_a_call_that_a_tool_has_answered_itself_keeps_that_result(answered: str) -> None:
    """Contract F.1 tool errors; F.1 stored first: also of a call whose turn has not come."""

    @tool
    async def answers(state: ThreadState) -> str:
        await state.inject_message("tool", "by hand", tool_call_id=answered, tool_status="success")
        return "returned"

    @tool
    async def other(state: ThreadState) -> str:
        return "other"

    agent, model = beside_a_human([call("answers"), call("other", "c2")], "Done.", tools=[answers, other])
    with Play(agent) as play:
        assert play.say().reason == "stop_on_response"
        assert play.results() == {
            "c1": [("success", "by hand" if answered == "c1" else "returned")],
            "c2": [("success", "by hand" if answered == "c2" else "other")],
        }
    assert len(model.requests) == 2


@pytest.mark.parametrize("plain", [False, True], ids=["coroutine", "plain"])
def test_a_tool_that_invokes_itself_without_an_end_is_told_so(plain: bool) -> None:
    """Contract D.7 invoke_tool: the ninth invocation is an error result."""
    ran: list[int] = []

    @tool(name="again")
    async def again(state: ThreadState) -> ToolResult:
        ran.append(1)
        return await state.invoke_tool("again")

    @tool(name="again")
    def again_plainly(state: ThreadState) -> ToolResult:
        ran.append(1)
        return state.invoke_tool("again").result(PATIENCE_S)

    agent, _ = beside_a_human(call("again"), "Done.", tools=[again_plainly if plain else again])
    with Play(agent) as play:
        assert play.say().reason == "stop_on_response"
        assert play.results() == {"c1": [("error", "Failed to execute tool: invoked tools are at most 8 deep")]}
        assert len(ran) == 9


def test_a_state_whose_execution_is_over_says_so_in_every_verb() -> None:
    """Contract D.11 stop_session: code that kept a state, on a worker of its own, changes nothing any more."""
    kept: list[ThreadState] = []

    @tool
    async def keeps(state: ThreadState) -> str:
        kept.append(state)
        return "kept"

    agent, _ = beside_a_human(call("keeps"), "Done.", tools=[keeps])
    with Play(agent) as play:
        assert play.say().reason == "stop_on_response"
        state = kept[0]
        assert state.execution is not None
        with pytest.raises(ExecutionFenced):
            state.queue_tool("keeps")
        with pytest.raises(ExecutionFenced):
            state.execution.force_turn("a")
        for late in (
            state.inject_message("system", "late"), state.set_value("k", 1), state.invoke_tool("keeps"), state.stop_session(),
            state.set_env("X", "late"), state.queue_message("late"),
        ):  # fmt: skip
            with pytest.raises(ExecutionFenced):
                late.result(PATIENCE_S)
        assert play.state() == ("idle", "stop_on_response")
