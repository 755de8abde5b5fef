"""Every call has exactly one result: after an interrupt, a stop, a flood, a response that cannot be."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import TYPE_CHECKING, Any

import pytest

from tests.agents.looping import PATIENCE_S, Play, beside_a_human, call, prompt
from treadle.actors.testing.crash_points import crash_after
from treadle.agents.hook import hook
from treadle.agents.model_calls import CALLS_PER_STEP_MAX
from treadle.agents.models.seam import ToolCall
from treadle.agents.tool import tool
from treadle.agents.tool_answers import normalised
from treadle.protocol.open_calls import STOPPED_BY_USER

if TYPE_CHECKING:
    from treadle.agents.thread_state import ThreadState


@tool
async def add(state: ThreadState, a: int, b: int) -> int:
    return a + b


class Gate:
    """Two events: that a tool is inside, and that it may go on."""

    def __init__(self) -> None:
        self.inside = threading.Event()
        self.open = threading.Event()


def holding(gate: Gate, *, plain: bool, deaf: bool = False) -> Any:
    """A tool that waits at a gate; a deaf one does not listen to its interruption."""
    if plain:

        @tool(name="hold")
        def hold_plainly(state: ThreadState) -> str:
            gate.inside.set()
            if deaf:
                assert gate.open.wait(PATIENCE_S)
            else:
                state.sleep(3_600).result(PATIENCE_S)
            return "held"

        return hold_plainly

    @tool(name="hold")
    async def hold(state: ThreadState) -> str:
        gate.inside.set()
        try:
            await state.sleep(3_600)
        except asyncio.CancelledError:
            if not deaf:
                raise
        return "held"

    return hold


@pytest.mark.parametrize("plain", [False, True], ids=["coroutine", "plain"])
def test_an_interrupt_keeps_what_is_finished_and_closes_what_is_open(plain: bool) -> None:
    """Contract F.3 stopped calls: scenario 14, the open call and those behind it have one result each."""
    gate = Gate()
    agent, model = beside_a_human(
        [call("add", "c1", a=1, b=2), call("hold", "c2"), call("add", "c3", a=1, b=2)], "Never.",
        tools=[add, holding(gate, plain=plain)],
    )  # fmt: skip
    with Play(agent) as play:
        execution_id = play.submit()
        assert gate.inside.wait(PATIENCE_S)
        play.thread.interrupt(execution_id).result(PATIENCE_S)
        record = play.end(execution_id)

        assert (record.outcome, record.reason) == ("cancelled", "aborted_by_user")
        stopped = [("error", "Execution stopped by user")]
        assert play.results() == {"c1": [("success", "3")], "c2": stopped, "c3": stopped}
        assert play.told()[-1] == ("system", "Execution stopped by user")
        assert len(model.requests) == 1


@pytest.mark.parametrize("plain", [False, True], ids=["coroutine", "plain"])
def test_a_tool_that_finishes_in_spite_of_an_interrupt_has_its_own_result(plain: bool) -> None:
    """Contract F.3 stopped calls: what a tool did is on record; nothing runs after it."""
    gate = Gate()
    agent, _ = beside_a_human(
        [call("hold", "c1"), call("add", "c2", a=1, b=2)], tools=[add, holding(gate, plain=plain, deaf=True)]
    )
    with Play(agent) as play:
        execution_id = play.submit()
        assert gate.inside.wait(PATIENCE_S)
        play.thread.interrupt(execution_id).result(PATIENCE_S)
        gate.open.set()
        record = play.end(execution_id)

        assert record.outcome == "cancelled"
        assert play.results() == {"c1": [("success", "held")], "c2": [("error", "Execution stopped by user")]}


def test_an_interruption_by_the_system_names_no_user() -> None:
    """Contract F.3 stopped calls: only a user's stop is called one."""
    gate = Gate()
    agent, _ = beside_a_human(call("hold"), tools=[holding(gate, plain=False)])
    with Play(agent) as play:
        execution_id = play.submit()
        assert gate.inside.wait(PATIENCE_S)
        play.thread.terminate().result(PATIENCE_S)
        play.end(execution_id)

        assert play.results() == {"c1": [("error", "Execution stopped")]}


def test_a_tool_that_ignores_the_grace_is_abandoned_and_its_call_is_closed() -> None:
    """Contract F.3 stopped calls: the execution ends without it, and its late result is thrown away."""
    gate = Gate()
    agent, _ = beside_a_human(call("hold"), tools=[holding(gate, plain=True, deaf=True)])
    with Play(agent) as play:
        execution_id = play.submit()
        assert gate.inside.wait(PATIENCE_S)
        play.thread.interrupt(execution_id).result(PATIENCE_S)
        play.clock.advance(60)
        record = play.end(execution_id)
        gate.open.set()

        assert (record.outcome, record.abandoned) == ("cancelled", True)
        assert play.results()["c1"] == [("error", "Execution stopped by user")]
        assert play.told()[-2:] == [("tool", STOPPED_BY_USER), ("system", STOPPED_BY_USER)]


@pytest.mark.parametrize("how", ["abandoned", "lost"])
def test_a_call_in_a_sub_prompt_that_the_runtime_closes_has_its_result_in_the_sub_prompt(how: str) -> None:
    """Contract F.3 stopped calls: it stands where its call stands, and no request of the caller has it."""
    gate = Gate()

    @tool(name="hold")
    async def lost(state: ThreadState) -> None:
        crash_after("VALUE_CHANGED committed")
        await state.set_value("any", 1)

    inner = lost if how == "lost" else holding(gate, plain=True, deaf=True)
    sub, _ = prompt("sub", call("hold", "s1"), tools=[inner])
    options = {"include_past_tools": True}
    agent, model = beside_a_human(call("sub"), "well again", tools=[sub], prompt_options=options)
    with Play(agent) as play:
        execution_id = play.submit()
        if how == "abandoned":
            assert gate.inside.wait(PATIENCE_S)
            play.thread.interrupt(execution_id).result(PATIENCE_S)
            play.clock.advance(60)
        play.end(execution_id)
        gate.open.set()

        rows = {one.tool_call_id: one for one in play.messages() if one.role == "tool"}
        callers = {made["id"]: one for one in play.messages() for made in json.loads(one.tool_calls or "[]")}
        assert [(rows[one].depth, rows[one].parent_id, rows[one].name) for one in ("c1", "s1")] == [
            (0, None, "sub"),
            (1, callers["s1"].parent_id, "hold"),
        ]
        assert play.say("again").reason == "stop_on_response"
        assert [one.tool_call_id for one in model.requests[1].messages if one.role == "tool"] == ["c1"]


def test_an_empty_response_is_answered_by_an_error_that_the_model_can_recover_from() -> None:
    """Contract F.2 row 11: nothing, and nothing but white space, are invalid."""
    agent, model = beside_a_human(None, "  \n", "Here I am.")
    with Play(agent) as play:
        record = play.say()

        assert record.reason == "stop_on_response"
        assert [status for found in play.results().values() for status, _ in found] == ["error", "error"]
        assert [one.name for one in play.messages() if one.role == "tool"] == ["invalid_assistant_response"] * 2
        assert len(model.requests) == 3


def test_a_model_that_only_returns_nothing_ends_as_a_repeated_error() -> None:
    """Contract C.1 repeated_tool_error: an empty response is a tool error like any other."""
    agent, model = beside_a_human(*[None] * 9)
    with Play(agent) as play:
        assert play.say().reason == "repeated_tool_error"
        assert len(model.requests) == 8


def test_calls_with_the_same_id_or_none_get_ids_of_their_own() -> None:
    """Contract F.1 stored first: each call has exactly one result, found by its id."""
    calls = [
        ToolCall(call_id, "add", f'{{"a": 1, "b": {rank}}}')
        for rank, call_id in enumerate(["x", "x", "", "\ud800", "n\0"])
    ]
    agent, _ = beside_a_human(calls, "Done.", tools=[add])
    with Play(agent) as play:
        assert play.say().reason == "stop_on_response"
        results = play.results()
        assert len(results) == 5
        assert list(results.values()) == [[("success", str(1 + rank))] for rank in range(5)]
        assert next(iter(results)) == "x"


def test_ids_may_come_again_in_a_later_step() -> None:
    """Contract F.1 stored first: the second call of that id has its own result."""
    agent, model = beside_a_human(call("add", "c1", a=1, b=1), call("add", "c1", a=2, b=2), "Done.", tools=[add])
    with Play(agent) as play:
        assert play.say().reason == "stop_on_response"
        assert [one.content for one in play.messages() if one.role == "tool"] == ["2", "4"]
        told = [one.content for one in model.requests[2].messages if one.role == "tool"]
        assert told == ["2", "4"]


def test_ten_thousand_calls_are_bounded_and_the_rest_is_answered_in_one() -> None:
    """Contract F.1 stored first: the model is told how many were not run, and the thread goes on."""
    calls = [call("add", f"c{rank}", a=rank, b=0) for rank in range(10_000)]
    agent, _ = beside_a_human(calls, "Fewer, then.", tools=[add])
    with Play(agent) as play:
        assert play.say().reason == "stop_on_response"
        results = play.results()
        assert len(results) == CALLS_PER_STEP_MAX
        assert all(len(found) == 1 for found in results.values())
        ((status, text),) = list(results.values())[-1]
        assert status == "error"
        assert str(10_000 - CALLS_PER_STEP_MAX + 1) in str(text)


def test_steers_that_wait_make_room_for_the_calls_of_a_step() -> None:
    """Contract F.2 row 2: unread steers and open calls share a limit; the steers join before the response then."""
    from treadle.agents.testing.scripted_model import Pause

    pause = Pause()
    calls = [call("add", f"c{rank}", a=rank, b=0) for rank in range(100)]
    agent, _ = beside_a_human([pause, *calls], "Done.", tools=[add])
    with Play(agent) as play:
        execution_id = play.submit()
        pause.reached()
        for rank in range(150):
            assert play.thread.steer(execution_id, f"s{rank}").result(PATIENCE_S).disposition == "accepted"
        pause.release()
        record = play.end(execution_id)

        assert record.reason == "stop_on_response"
        assert all(found[0][0] == "success" and len(found) == 1 for found in play.results().values())
        steers = [one for one in play.messages() if str(one.content).startswith("s")]
        assert len(steers) == 150
        assert all((one.metadata or {}).get("consumed") is not False for one in steers)


def test_hooks_see_and_change_results_and_may_drop_a_call_from_what_models_read() -> None:
    """Contract E.7 before_store_tool_result; E.7 after_tool_call_success; E.7 tool_call_started; E.7 tool_call_done: in order."""
    seen: list[str] = []

    @hook("tool_call_started", id="started")
    async def started(state: ThreadState, one: Any) -> None:
        seen.append(f"started {one['id']}")

    @hook("before_store_tool_result", id="storing")
    async def storing(state: ThreadState, one: Any, result: Any) -> Any:
        seen.append(f"storing {one['id']}")
        return result.model_copy(update={"result": f"<{result.result}>"})

    @hook("after_tool_call_success", id="succeeded")
    async def succeeded(state: ThreadState, one: Any, result: Any) -> Any:
        seen.append(f"succeeded {one['id']}")
        return None if one["id"] == "c2" else result

    @hook("tool_call_done", id="finished")
    async def finished(state: ThreadState, one: Any, result: Any) -> None:
        seen.append(f"done {one['id']}")

    agent, model = beside_a_human(
        [call("add", "c1", a=1, b=1), call("add", "c2", a=2, b=2)], "Done.", tools=[add],
        hooks=[started, storing, succeeded, finished],
    )  # fmt: skip
    with Play(agent) as play:
        play.say()

        words = ("started", "storing", "succeeded", "done")
        assert seen == [f"{word} {one}" for one in ("c1", "c2") for word in words]
        assert play.results() == {"c1": [("success", "<2>")], "c2": [("success", "<4>")]}
        told = model.requests[1].messages
        assert [one.content for one in told if one.role == "tool"] == ["<2>"]
        assert [one.id for message in told for one in message.tool_calls] == ["c1"]


def test_errors_that_differ_in_case_space_and_numbers_are_the_same() -> None:
    assert normalised("No such  order 17\n") == normalised("no such order 99")
    assert normalised("No such order") != normalised("No such user")
