"""A prompt that is called as a tool makes one request, runs its tools, and is a result of the calling step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel

from tests.agents.looping import Play, beside_a_human, call, prompt
from treadle.agents.models.errors import ModelError
from treadle.agents.prompt import Prompt, SubPrompt
from treadle.agents.sub_prompts import SUB_PROMPT_DEPTH_MAX
from treadle.agents.testing.scripted_model import Pause
from treadle.agents.tool import tool

if TYPE_CHECKING:
    from treadle.agents.thread_state import ThreadState


class Question(BaseModel):
    text: str
    tone: str = "dry"


@tool
async def add(state: ThreadState, a: int, b: int) -> int:
    return a + b


@tool
async def broken(state: ThreadState) -> str:
    raise ValueError("out of paper")


def test_a_prompt_as_a_tool_makes_one_request_runs_its_tools_and_returns_text() -> None:
    """Contract E.3 sub-prompt; E.3 sub-prompt result; F.1 tool classes: its rows are one deeper, under the calling row."""
    sub, inner = prompt(
        "sub", ["Let me count.", call("add", "s1", a=1, b=2)], "never", tools=[add], required_schema=Question
    )
    agent, model = beside_a_human(call("sub", text="how many?"), "Three.", tools=[sub])
    with Play(agent) as play:
        record = play.say()

        assert record.reason == "stop_on_response"
        rows = [(one.depth, one.role, one.content) for one in play.messages()]
        assert rows == [
            (0, "user", "go"), (0, "assistant", None), (1, "user", '{"text": "how many?", "tone": "dry"}'),
            (1, "assistant", "Let me count."), (1, "tool", "3"), (0, "tool", "Let me count.\n3"), (0, "assistant", "Three."),
        ]  # fmt: skip
        parent = next(one for one in play.messages() if one.tool_calls)
        assert {one.parent_id for one in play.messages() if one.depth == 1} == {parent.id}
        assert len(inner.requests) == 1
        assert [one.role for one in inner.requests[0].messages] == ["system", "user"]
        assert [one.content for one in model.requests[1].messages if one.role == "tool"] == ["Let me count.\n3"]


@pytest.mark.parametrize(
    ("options", "result"),
    [
        ({}, "Words.\n3\nbroken failed: ValueError: out of paper"),
        ({"include_tool_calls": False}, "Words.\nbroken failed: ValueError: out of paper"),
        ({"include_text_response": False, "include_errors": False}, "3"),
        (
            {"include_text_response": False, "include_errors": False, "include_tool_calls": False},
            "Prompt executed successfully",
        ),
    ],
    ids=str,
)
def test_the_calling_prompt_chooses_what_the_result_holds(options: dict[str, bool], result: str) -> None:
    """Contract E.3 sub-prompt result: texts joined, results and errors where they are asked for, else a default."""
    sub, _ = prompt("sub", ["Words.", call("add", "s1", a=1, b=2), call("broken", "s2")], tools=[add, broken])
    agent, _ = beside_a_human(call("sub"), "Done.", tools=[SubPrompt(name="sub", **options)])
    with Play(agent, definitions={"prompts": [sub]}) as play:
        play.say()

        assert play.results()["c1"] == [("success", result)]


def test_an_argument_becomes_the_first_user_message_of_the_sub_prompt() -> None:
    """Contract E.3 tools: `init_user_message_property` and `init_attachments_property` say which."""
    sub, inner = prompt(
        "sub",
        "Fine.",
        required_schema={"type": "object", "properties": {"text": {"type": "string"}, "files": {"type": "array"}}},
    )
    entry = SubPrompt(name="sub", init_user_message_property="text", init_attachments_property="files")
    files = [{"name": "a.png", "mimeType": "image/png", "path": "/a.png"}]
    agent, _ = beside_a_human(call("sub", text="Hello?", files=files), "Done.", tools=[entry])
    with Play(agent, definitions={"prompts": [sub]}) as play:
        play.say()

        said = next(one for one in play.messages() if one.depth == 1)
        assert (said.role, said.content, said.attachments) == ("user", "Hello?", files)
        assert inner.requests[0].messages[-1].content == "Hello?"


def test_bad_arguments_of_a_prompt_are_an_error_result() -> None:
    """Contract E.3 sub-prompt arguments; E.3 required_schema: its model is not asked."""
    sub, inner = prompt("sub", required_schema=Question)
    agent, _ = beside_a_human(call("sub", text=7), "Oh.", tools=[sub])
    with Play(agent) as play:
        assert play.say().reason == "stop_on_response"
        ((status, text),) = play.results()["c1"]
        assert (status, str(text).startswith("Prompt tool argument validation failed: [text]")) == ("error", True)
        assert inner.requests == []


@pytest.mark.parametrize("include", [False, True])
def test_a_sub_prompt_reads_the_conversation_only_where_it_says_so(include: bool) -> None:
    """Contract E.3 include_chat: by default it is told only what it was called with."""
    sub, inner = prompt("sub", "Fine.", include_chat=include)
    agent, _ = beside_a_human(call("sub"), "Done.", tools=[sub])
    with Play(agent) as play:
        play.say("a long story")

        told = [one.content for one in inner.requests[0].messages]
        assert ("a long story" in told) is include


def test_code_in_a_sub_prompt_sees_its_own_flow() -> None:
    """Contract B sub-prompts; B prompt_path: the path goes on, steps are its own, and what it injects is one deeper."""
    seen: list[Any] = []

    @tool
    async def look(state: ThreadState) -> str:
        assert state.execution is not None
        seen.append((state.execution.prompt_path, state.execution.step_count))
        await state.inject_message("system", "inside")
        return "looked"

    @tool
    def look_plainly(state: ThreadState) -> str:
        assert state.execution is not None
        seen.append((state.execution.prompt_path, state.execution.step_count))
        return "looked"

    sub, _ = prompt("sub", [call("look", "s1"), call("look_plainly", "s2")], tools=[look, look_plainly])
    agent, _ = beside_a_human([call("sub", "c1"), call("look_plainly", "c2")], "Done.", tools=[sub, look_plainly])
    with Play(agent) as play:
        play.say()

        assert seen == [(["p", "sub"], 1), (["p", "sub"], 1), (["p"], 1)]
        assert [one.depth for one in play.messages() if one.content == "inside"] == [1]


def test_two_calls_of_one_prompt_in_a_step_do_not_read_each_other() -> None:
    """Contract E.3 sub-prompt: each has its own messages, though the same row called both."""
    sub, inner = prompt("sub", "first answer", "second answer", required_schema=Question)
    agent, _ = beside_a_human([call("sub", "c1", text="one"), call("sub", "c2", text="two")], "Done.", tools=[sub])
    with Play(agent) as play:
        play.say()

        assert "first answer" not in [one.content for one in inner.requests[1].messages]
        assert play.results()["c2"] == [("success", "second answer")]


def test_sub_prompts_are_bounded_in_depth() -> None:
    """Contract E.3 sub-prompt: beyond eight deep a call is an error result, and never a crash."""
    deepest, _ = prompt("d9", "never said")
    made: Prompt = deepest
    for depth in range(SUB_PROMPT_DEPTH_MAX, 0, -1):
        made, _ = prompt(f"d{depth}", call(made.name, f"s{depth}"), tools=[made])
    agent, _ = beside_a_human(call("d1"), "Done.", tools=[made])
    with Play(agent) as play:
        assert play.say().reason == "stop_on_response"
        assert play.results()["s8"] == [("error", "Failed to execute tool: sub-prompts are at most 8 deep")]
        assert max(one.depth for one in play.messages()) == SUB_PROMPT_DEPTH_MAX


def test_a_sub_prompt_whose_model_fails_is_an_error_result() -> None:
    """Contract F.1 tool errors: the calling step goes on."""
    sub, _ = prompt("sub", ModelError("gone", model="m"))
    agent, _ = beside_a_human(call("sub"), "Without it, then.", tools=[sub])
    with Play(agent) as play:
        assert play.say().reason == "stop_on_response"
        ((status, text),) = play.results()["c1"]
        assert (status, "gone" in str(text)) == ("error", True)


def test_stop_session_in_a_sub_prompt_ends_the_whole_session() -> None:
    """Contract D.11 stop_session; C.1 state_stop_session: after the calling step's tools."""

    @tool
    async def over(state: ThreadState) -> str:
        await state.stop_session()
        return "over"

    sub, _ = prompt("sub", call("over", "s1"), tools=[over])
    agent, model = beside_a_human(call("sub"), tools=[sub])
    with Play(agent) as play:
        assert play.say().reason == "state_stop_session"
        assert len(model.requests) == 1


def test_an_interrupt_closes_the_calls_of_every_depth() -> None:
    """Contract F.3 stopped calls: the sub-prompt's model was asked, and both depths have their results."""
    pause = Pause()
    sub, inner = prompt("sub", [pause, "never"])
    agent, _ = beside_a_human([call("sub", "c1"), call("sub", "c2")], tools=[sub])
    with Play(agent) as play:
        execution_id = play.submit()
        pause.reached()
        play.thread.interrupt(execution_id).result(60)
        record = play.end(execution_id)

        assert record.outcome == "cancelled"
        stopped = [("error", "Execution stopped by user")]
        assert play.results() == {"c1": stopped, "c2": stopped}
        assert len(inner.requests) == 1


def test_models_of_sub_prompts_may_use_the_id_of_the_call_that_runs_them() -> None:
    """Contract F.1 stored first: none of them knows the others' ids; each call has one of its own."""
    innermost, _ = prompt("innermost", call("add", "c1", a=1, b=2), tools=[add])
    sub, _ = prompt("sub", call("innermost", "c1"), tools=[innermost])
    agent, _ = beside_a_human(call("sub", "c1"), "Done.", tools=[sub])
    with Play(agent) as play:
        assert play.say().reason == "stop_on_response"
        assert [one.content for one in play.messages() if one.role == "tool"] == ["3", "3", "3"]
        results = play.results()
        assert len(results) == 3
        assert all(len(found) == 1 for found in results.values())


def test_a_model_may_use_the_id_of_a_call_that_a_tool_has_left_open() -> None:
    """Contract F.1 stored first: the injected one is closed at the end."""

    @tool
    async def opens(state: ThreadState) -> str:
        await state.inject_message("assistant", tool_calls=[{"id": "c2", "function": {"name": "x", "arguments": "{}"}}])
        return "open"

    agent, _ = beside_a_human(call("opens", "c1"), call("add", "c2", a=1, b=2), "Done.", tools=[opens, add])
    with Play(agent) as play:
        assert play.say().reason == "stop_on_response"
        assert [status for [(status, _)] in play.results().values()] == ["success", "error", "success"]
