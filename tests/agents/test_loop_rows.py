"""Rows of the contract that lie across files: what a request carries, what watchers see, and executions that overlap or are lost."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import pytest

from tests.agents.looping import PATIENCE_S, Play, beside_a_human, call, prompt
from treadle.actors.testing.crash_points import crash_after
from treadle.agents import Agent, Reasoning, Side, ThreadState, ToolResult, handler, tool
from treadle.agents.models import Attachment, TextDelta
from treadle.agents.testing import Pause, assert_well_formed, run_to_rest
from treadle.protocol.errors import InvalidInput

if TYPE_CHECKING:
    from treadle.protocol.messages import Message


def path_of(seen: list[list[str]]) -> Any:
    @tool
    async def look(state: ThreadState) -> None:
        assert state.execution is not None
        seen.append(list(state.execution.prompt_path))

    return look


@pytest.mark.parametrize(("sides", "path"), [("a", ["p"]), ("b", ["p"]), ("none", [])])
def test_the_path_begins_with_the_prompt_of_side_a_else_of_side_b(sides: str, path: list[str]) -> None:
    """Contract B prompt_path root: a handler beside a prompt sees that prompt, and one beside none an empty path."""
    seen: list[list[str]] = []

    @handler
    async def look(state: ThreadState, message: Message) -> None:
        assert state.execution is not None
        seen.append(list(state.execution.prompt_path))

    made, _ = prompt("p", "fine", "fine")
    prompted, handled = Side(prompt=made), Side(handler=look)
    chosen = {"a": (prompted, handled), "b": (handled, prompted), "none": (handled, Side(human=True))}[sides]
    agent = Agent(name="agent", side_a=chosen[0], side_b=chosen[1], max_session_turns=1)
    with Play(agent) as play:
        play.say()

    assert seen == [path]


def test_what_a_prompt_says_of_calls_and_thoughts_reaches_the_model_as_it_is() -> None:
    """Contract E.3 parallel_tool_calls; E.3 tool_choice; E.3 reasoning; E.3 provider_options: all are in the request."""
    options = {
        "parallel_tool_calls": False, "tool_choice": "none", "reasoning": Reasoning(effort="low", max_tokens=9),
        "provider_options": {"seed": 7},
    }  # fmt: skip
    agent, model = beside_a_human("hi", tools=(path_of([]),), prompt_options=options)
    plain, unset = beside_a_human("hi", tools=(path_of([]),))
    with Play(agent) as play:
        play.say()
    with Play(plain) as play:
        play.say()

    asked = model.requests[0]
    assert (asked.parallel_tool_calls, asked.tool_choice, asked.provider_options) == (False, "none", {"seed": 7})
    assert asked.reasoning == Reasoning(effort="low", max_tokens=9)
    asked = unset.requests[0]
    assert (asked.parallel_tool_calls, asked.tool_choice, asked.reasoning) == (None, "auto", None)


def test_attachments_reach_the_model_as_files_and_stay_in_the_stored_row() -> None:
    """Contract F.1 attachments: a picture is a picture in the request."""
    given = {"name": "dog.png", "mimeType": "image/png", "data": base64.b64encode(b"woof").decode()}
    agent, model = beside_a_human("a dog")
    with Play(agent) as play:
        play.say([{"role": "user", "content": "what is it?", "attachments": [given]}])

        assert model.requests[0].messages[-1].attachments == (Attachment("dog.png", "image/png", b"woof"),)
        assert play.messages()[0].attachments == [given]


def test_an_attachment_that_is_no_base64_is_refused_before_anything_is_stored() -> None:
    """Contract F.1 attachments: whoever hands in a file hears that no model could be given it."""

    @tool
    async def draw(state: ThreadState) -> ToolResult:
        return ToolResult(status="success", result="a dog", attachments=({"name": "dog.png", "data": "woof!"},))

    agent, model = beside_a_human(call("draw"), "it went wrong", tools=(draw,))
    with Play(agent) as play:
        given = {"role": "user", "content": "what is it?", "attachments": [{"name": "dog.png", "data": "woof!"}]}
        for refused in (play.thread.submit([given]), play.thread.queue_message([given])):
            with pytest.raises(InvalidInput) as error:
                refused.result(PATIENCE_S)
            assert error.value.code == "invalid_attachment"
        assert play.messages() == []

        play.say("draw one")
        ((status, said),) = play.results()["c1"]
        assert status == "error"
        assert said is not None
        assert "must be base64 text" in said
        assert model.requests[1].messages[-1].attachments == ()


def test_an_interruption_during_a_tool_is_found_before_anything_else_begins() -> None:
    """Contract F.2 row 1: no joining, no counting and no request after it."""

    @tool
    async def interrupt_self(state: ThreadState) -> str:
        assert state.execution is not None
        await state.queue_message("later")
        await state.terminate()
        return "terminated"

    agent, model = beside_a_human(call("interrupt_self"), "never said", tools=(interrupt_self,))
    with Play(agent) as play:
        record = play.say()

        assert (record.outcome, record.reason) == ("cancelled", "aborted")
        assert len(model.requests) == 1
        assert [len(results) for results in play.results().values()] == [1]


def test_watchers_see_each_step_and_its_words_under_the_id_of_the_row() -> None:
    """Contract F.2 row 7; F.2 row 10: `step_started` with the counters, then chunks that are the row's content together."""
    agent, _ = beside_a_human(call("look"), [TextDelta("It "), TextDelta("is "), "fine."], tools=(path_of([]),))
    with Play(agent) as play:
        rest = run_to_rest(play.thread, "go")

    steps = [(frame["step"], frame["side"]) for frame in rest.frames if frame["type"] == "step_started"]
    assert steps == [(1, "a"), (2, "a")]
    chunks = [frame for frame in rest.frames if frame["type"] == "message_chunk"]
    assert {frame["message_id"] for frame in chunks} == {rest.messages[-1].id}
    assert "".join(frame["chunk"] for frame in chunks) == rest.messages[-1].content == "It is fine."
    kinds = [frame["type"] for frame in rest.frames]
    assert kinds.index("step_started") < kinds.index("message_chunk")
    assert kinds.index("message_chunk") < len(kinds) - 1 - kinds[::-1].index("MESSAGE_ADDED")


def test_after_a_step_come_handoff_turn_forced_turn_and_switch() -> None:
    """Contract F.2 row 13: a handoff beats a forced turn and a stop condition; a forced turn beats the switch."""

    @tool
    async def force_human(state: ThreadState) -> None:
        assert state.execution is not None
        state.execution.force_turn("b")

    later, second = prompt("later", "never asked")
    heir = Agent(name="heir", side_a=Side(prompt=later), side_b=Side(human=True))
    agent, first = beside_a_human([call("heir", "c1"), call("force_human", "c2")], tools=["heir", force_human])
    with Play(agent, heir) as play:
        record = play.say()

        # The force was given before the new agent had a turn, so that its side b, a human, is next.
        assert (record.outcome, record.reason) == ("succeeded", "forced_human_turn")
        assert play.thread.state().result().status.reason == "forced_human_turn"
    assert (len(first.requests), len(second.requests)) == (1, 0)


def test_a_second_execution_never_begins_beside_the_first() -> None:
    """Contract F.3 overlap: a submit is told who runs, and what is queued joins that execution."""
    pause = Pause()
    agent, model = beside_a_human([pause, "one"], "two")
    with Play(agent) as play:
        running = play.submit("first")
        pause.reached()
        refused = play.thread.submit("second").result(PATIENCE_S)
        play.thread.queue_message("third").result(PATIENCE_S)
        pause.release()
        rest = run_to_rest(play.thread)

        assert (refused.disposition, refused.execution_id) == ("busy", None)
        assert refused.active_execution is not None and refused.active_execution.execution_id == running
        assert rest.text == "two"
        assert [one.execution_id for one in play.thread.executions().result(PATIENCE_S).executions] == [running]
    assert len(model.requests) == 2


def test_a_lost_execution_leaves_each_call_one_result_and_the_thread_ready() -> None:
    """Contract C.1 execution_lost; F.3 orphans: what it left open is closed when it is found to be gone."""

    @tool
    async def die(state: ThreadState) -> str:
        crash_after("VALUE_CHANGED committed")
        await state.set_value("any", 1)
        return "never"

    agent, model = beside_a_human([call("die", "c1"), call("die", "c2")], "well again", tools=(die,))
    with Play(agent) as play:
        record = play.say()

        assert (record.status, record.outcome) == ("interrupted", None)
        assert play.state() == ("failed", "execution_lost")
        assert [[status for status, _ in results] for results in play.results().values()] == [["error"], ["error"]]
        assert run_to_rest(play.thread, "again").text == "well again"
    assert_well_formed(model.requests[-1])
