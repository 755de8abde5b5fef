"""One model step: what is shown while it runs, what of it is stored, what it leaves out."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from tests.agents.looping import PATIENCE_S, Play, beside_a_human, call, prompt
from treadle.actors.fence import ExecutionCancelled, ExecutionFenced
from treadle.agents.agent_definition import Agent
from treadle.agents.hook import hook
from treadle.agents.model_definition import Model
from treadle.agents.models.errors import ModelError
from treadle.agents.models.seam import ReasoningDelta, TextDelta, ToolCall, ToolCallDelta
from treadle.agents.prompt import Prompt
from treadle.agents.side import Side
from treadle.agents.testing.scripted_model import Pause, ScriptedModel
from treadle.agents.tool import tool
from treadle.agents.variable import Variable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from treadle.agents.models.seam import Delta
    from treadle.agents.thread_state import ThreadState


@tool
async def add(state: ThreadState, a: int, b: int) -> int:
    return a + b


def frames_of(play: Play, content: str = "go") -> list[dict[str, Any]]:
    """Every frame that a watcher gets from the submit to the end."""
    with play.thread.stream() as stream:
        stream.next(PATIENCE_S)
        play.say(content)
        found: list[dict[str, Any]] = []
        while not found or found[-1]["type"] != "thread_status" or found[-1]["status"]["state"] == "running":
            found.append(dict(stream.next(PATIENCE_S)))
        return found


def of_type(frames: list[dict[str, Any]], *kinds: str) -> list[dict[str, Any]]:
    return [frame for frame in frames if frame["type"] in kinds]


def test_a_response_is_streamed_under_the_id_of_the_row_that_it_becomes() -> None:
    """Contract F.2 row 10; F.2 row 7: chunks first, then the row; each step is announced."""
    agent, _ = beside_a_human(["One mo", "ment. ", call("add", a=1, b=2)], ["Three", "."], tools=[add])
    with Play(agent) as play:
        frames = frames_of(play)
        rows = [one for one in play.messages() if one.role == "assistant"]
        chunks = of_type(frames, "message_chunk")

        assert [(one["message_id"], one["depth"], one["chunk"]) for one in chunks] == [
            (rows[0].id, 0, "One mo"), (rows[0].id, 0, "ment. "), (rows[1].id, 0, "Three"), (rows[1].id, 0, "."),
        ]  # fmt: skip
        begun = of_type(frames, "step_started")
        assert [(one["step"], one["side"]) for one in begun] == [(1, "a"), (2, "a")]
        assert all(isinstance(one["timestamp"], int) for one in begun)
        assert [(one["tool"], one.get("status")) for one in of_type(frames, "tool_started", "tool_completed")] == [
            ("add", None), ("add", "success"),
        ]  # fmt: skip
        assert [(one["reason"], one["side"]) for one in of_type(frames, "stopped")] == [("stop_on_response", "a")]
        assert [one["model"] for one in of_type(frames, "llm_request")] == ["p-model", "p-model"]


def test_what_a_failed_attempt_said_is_taken_back() -> None:
    """Contract F.2 row 10: only the attempt that answers becomes the row."""
    second = ScriptedModel("Right.")
    first = Model(
        name="first", model=ScriptedModel(["Wro", ModelError("cut", model="first")]), attempts=1,
        fallbacks=[Model(name="second", model=second)],
    )  # fmt: skip
    again = Prompt(name="p", prompt="x", model=first)
    with Play(Agent(name="agent", side_a=Side(prompt=again))) as play:
        frames = frames_of(play)

        shown = [one.get("chunk", one["type"]) for one in of_type(frames, "message_chunk", "message_restart")]
        assert shown == ["Wro", "message_restart", "Right."]
        assert play.told()[-1] == ("assistant", "Right.")
        assert len(second.requests) == 1


def test_thoughts_are_shown_and_stored_only_where_the_prompt_sends_them_back() -> None:
    """Contract E.3 reasoning: as chunks of their own, and in the row's metadata."""
    for include in (False, True):
        agent, _ = beside_a_human(
            [ReasoningDelta("Hm."), "Yes."], prompt_options={"reasoning": {"effort": "low", "include": include}}
        )
        with Play(agent) as play:
            frames = frames_of(play)

            assert [one["chunk"] for one in of_type(frames, "reasoning_chunk")] == ["Hm."]
            assert ((play.messages()[-1].metadata or {}).get("reasoning") == "Hm.") is include


def test_a_secret_is_in_no_frame_and_no_row_whatever_says_it() -> None:
    """Contract D.6 redaction: split over chunks, in a tool's result, in its error, in arguments and in a status."""
    secret = "swordfish-4711"

    @tool
    async def leak(state: ThreadState, key: str) -> str:
        assert key == secret  # the tool gets what the model wrote
        return f"it is {await state.env('KEY')}"

    @tool
    async def fail(state: ThreadState) -> str:
        raise ValueError(f"bad key {await state.env('KEY')}")

    agent, _ = beside_a_human(
        ["The key is sword", "fish-47", "11!", call("leak", "c1", key=secret), call("fail", "c2")], f"So: {secret}",
        tools=[leak, fail], env={"KEY": secret},
    )  # fmt: skip
    with Play(agent) as play:
        frames = frames_of(play)

        assert secret not in str(frames)
        assert "[secret:KEY]" in str(frames)
        assert secret not in str(play.messages())
        assert play.told()[-1] == ("assistant", "So: [secret:KEY]")
        assert play.results()["c1"] == [("success", "it is [secret:KEY]")]


def test_an_error_of_a_model_holds_no_secret_either() -> None:
    """Contract D.6 redaction; F.3 step error: neither the failed row nor the execution's record."""
    secret = "swordfish-4711"
    agent, _ = beside_a_human(ModelError(f"401 for {secret}", model="m"), env={"KEY": secret})
    with Play(agent) as play:
        record = play.say()

        assert record.reason == "step_error"
        assert secret not in str(record)
        assert secret not in str(play.messages())


def test_hooks_change_the_request_and_nothing_else() -> None:
    """Contract B request is a snapshot; F.2 row 8; F.2 row 9: what they made up is in no row."""

    @hook("after_system_message", id="polite")
    async def polite(state: ThreadState, text: str) -> str:
        return f"{text} Be polite."

    @hook("filter_messages", id="newest")
    async def newest(state: ThreadState, messages: list[Any]) -> list[Any]:
        return messages[-1:]

    agent, model = beside_a_human("One.", "Two.", hooks=[polite, newest])
    with Play(agent) as play:
        play.say("first")
        play.say("second")

        assert [(one.role, one.content) for one in model.requests[1].messages] == [
            ("system", "This is p. Be polite."), ("user", "second"),
        ]  # fmt: skip
        assert play.told() == [("user", "first"), ("assistant", "One."), ("user", "second"), ("assistant", "Two.")]


def test_a_response_that_comes_after_a_stop_is_thrown_away() -> None:
    """Contract F.2 row 11: a hook stopped the loop while the request was made."""

    @hook("filter_messages", id="stopping")
    async def stopping(state: ThreadState, messages: list[Any]) -> list[Any]:
        assert state.execution is not None
        state.execution.stop()
        return messages

    agent, _ = beside_a_human("Never stored.", hooks=[stopping])
    with Play(agent) as play:
        assert play.say().reason == "stopped"
        assert play.told() == [("user", "go")]


def test_text_that_is_larger_than_a_message_is_cut() -> None:
    agent, _ = beside_a_human("x" * (1 << 20) + "yz")
    with Play(agent) as play:
        assert play.say().reason == "stop_on_response"
        content = str(play.messages()[-1].content)
        assert len(content.encode()) <= 1 << 20
        assert content.endswith("larger than a message may be]")


@pytest.mark.parametrize("text", ["half \ud800 a character", "nul\0"])
def test_text_that_is_no_text_is_stored_as_far_as_it_is(text: str) -> None:
    agent, _ = beside_a_human(text)
    with Play(agent) as play:
        assert play.say().reason == "stop_on_response"
        assert str(play.messages()[-1].content).startswith(text[:3])


def test_side_b_speaks_as_user_and_its_calls_are_its_own() -> None:
    """Contract F.1 sides; F.1 other side's tools: rows of side B are `user` rows, with their calls."""
    first, model_a = prompt("first", "From A.", "Again A.")
    second, model_b = prompt("second", call("add", a=1, b=2), "From B.", tools=[add])
    agent = Agent(name="two", side_a=Side(prompt=first, max_steps=2), side_b=Side(prompt=second))
    with Play(agent) as play:
        play.say("begin")

        rows = [(one.role, one.content, bool(one.tool_calls)) for one in play.messages()]
        assert rows[:5] == [
            ("user", "begin", False), ("assistant", "From A.", False), ("user", None, True), ("tool", "3", False),
            ("user", "From B.", False),
        ]  # fmt: skip
        told_b = [(one.role, one.content) for one in model_b.requests[1].messages]
        assert told_b == [
            ("system", "This is second."), ("assistant", "begin"), ("user", "From A."), ("assistant", None), ("tool", "3"),
        ]  # fmt: skip
        told_a = [(one.role, one.content) for one in model_a.requests[1].messages]
        assert told_a[-2:] == [("assistant", "From A."), ("user", "From B.")]
        assert all(not one.tool_calls for one in model_a.requests[1].messages)


def test_a_prompt_that_needs_what_is_not_there_fails_the_step() -> None:
    """Contract E.3 variables: a required one must be there, else the step fails and says which."""
    made = Prompt(
        name="p", prompt="{{ city }}", model="m", variables=[Variable(name="city", required=True)]
    )  # fmt: skip
    agent = Agent(name="agent", side_a=Side(prompt=made))
    with Play(agent, definitions={"models": [Model(name="m", model=ScriptedModel())]}) as play:
        record = play.say()

        assert (record.reason, record.error.type if record.error else None) == ("step_error", "PromptVariableMissing")
        assert "city" in str(play.messages()[-1].content)


def test_an_interrupt_while_the_response_is_stored_leaves_each_call_with_one_result() -> None:
    """Contract F.3 stopped calls: a hook of the row's creation is where the interrupt comes."""

    @hook("after_create_message", id="interrupting")
    async def interrupting(state: ThreadState, message: Any) -> None:
        if message.tool_calls and state.execution is not None:
            await play.thread.interrupt(state.execution.id)

    agent, _ = beside_a_human([ToolCall("c1", "add", '{"a": 1, "b": 1}')], tools=[add], hooks=[interrupting])
    with Play(agent) as play:
        assert play.say().outcome == "cancelled"
        assert play.results() == {"c1": [("error", "Execution stopped by user")]}


def test_the_stream_of_a_response_that_nobody_waits_for_is_closed() -> None:
    """Contract E.5 stopped: what a user stopped is closed at once, and never tried again."""
    pause = Pause()
    agent, model = beside_a_human(["Wo", pause, "rds"])
    with Play(agent) as play:
        execution_id = play.submit()
        pause.reached()
        play.thread.stop().result(PATIENCE_S)
        assert play.end(execution_id).reason == "aborted_by_user"
        model.wait_closed()
        assert len(model.requests) == 1


def test_a_hook_may_change_a_row_with_calls_of_either_side_and_not_its_calls() -> None:
    """Contract E.7 before_create_message: content and metadata; who spoke and what is called stays."""

    @hook("before_create_message", id="marking")
    async def marking(state: ThreadState, message: dict[str, Any]) -> dict[str, Any]:
        return {**message, "role": "system", "metadata": {"seen": True}}

    first, _ = prompt("first", call("add", "a1", a=1, b=2), "From A.", tools=[add])
    second, _ = prompt("second", call("add", "b1", a=1, b=2), "From B.", tools=[add])
    agent = Agent(
        name="two", side_a=Side(prompt=first), side_b=Side(prompt=second), hooks=[marking], max_session_turns=1
    )
    with Play(agent) as play:
        assert play.say().reason == "max_session_turns"
        rows = [one for one in play.messages() if one.tool_calls or one.role == "tool"]
        assert [one.role for one in rows] == ["assistant", "tool", "user", "tool"]
        assert all((one.metadata or {}).get("seen") for one in rows)
        assert play.results() == {"a1": [("success", "3")], "b1": [("success", "3")]}


@pytest.mark.parametrize(
    "ending", [asyncio.CancelledError(), ExecutionCancelled("another"), ExecutionFenced("another")]
)
def test_a_model_that_ends_as_if_interrupted_fails_the_run_with_words(ending: BaseException) -> None:
    """Contract C.1 step_error; F.3 step error: nobody interrupted it, so that it is an error like any other."""

    async def answer(_request: object) -> str:
        raise ending

    agent, _ = beside_a_human(answer, "Better.")
    with Play(agent) as play:
        record = play.say()
        assert (record.outcome, record.reason, play.state()) == ("failed", "step_error", ("failed", "step_error"))
        assert [one.status for one in play.messages()] == ["completed", "failed"]
        assert play.say().reason == "stop_on_response"


def test_a_model_that_cancels_its_own_task_and_answers_has_answered() -> None:
    """Contract F.1 tool errors: what it leaves behind does not arrive in the middle of the loop."""

    async def answer(_request: object) -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        return "said"

    agent, _ = beside_a_human(answer)
    with Play(agent) as play:
        assert play.say().reason == "stop_on_response"
        assert play.told() == [("user", "go"), ("assistant", "said")]


@pytest.mark.parametrize("delta", [TextDelta(""), ToolCallDelta(0, arguments="")], ids=["nothing", "a call"])
def test_a_stream_without_an_end_keeps_the_loop_from_nobody(delta: Delta) -> None:
    """Contract C.1 aborted_by_user: its deltas are all there already, and still an interrupt comes through."""
    begun = threading.Event()

    def endless(_request: object) -> Iterator[Delta]:
        while True:
            begun.set()
            yield delta

    agent, model = beside_a_human(endless)
    with Play(agent) as play:
        execution_id = play.submit()
        assert begun.wait(PATIENCE_S)
        play.thread.interrupt(execution_id).result(PATIENCE_S)
        assert play.end(execution_id).reason == "aborted_by_user"
        model.wait_closed()
