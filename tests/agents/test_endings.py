"""The loop ends with each of its stop reasons, and says so in the run status."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.agents.looping import PATIENCE_S, Play, beside_a_human, call, prompt
from treadle.agents.agent_definition import Agent
from treadle.agents.hook import hook
from treadle.agents.hooks import BlockRun
from treadle.agents.models.errors import ModelError
from treadle.agents.side import Binding, Side
from treadle.agents.testing.scripted_model import Pause
from treadle.agents.tool import tool
from treadle.storage import MemoryStore

if TYPE_CHECKING:
    from treadle.agents.thread_state import ThreadState


from tests.agents.ending_tools import add, broken, done, over, stop, two_prompts

# C.1 and E.2: how it ends


def test_text_without_calls_beside_a_human_ends_as_stop_on_response() -> None:
    """Contract C.1 stop_on_response; E.2 stop_on_response; E.1 session: the human is to answer."""
    agent, model = beside_a_human("Hello.")
    with Play(agent) as play:
        record = play.say()

        assert (record.outcome, record.reason, play.state()) == (
            "succeeded",
            "stop_on_response",
            ("idle", "stop_on_response"),
        )
        assert len(model.requests) == 1


def test_the_stop_tool_ends_the_turn_and_its_argument_is_what_was_said() -> None:
    """Contract C.1 stop_tool; E.2 stop_tool; E.2 stop_tool_response_property: the argument becomes the content."""
    side = {"stop_tool": "done", "stop_tool_response_property": "summary"}
    agent, model = beside_a_human(["Thinking aloud", call("done", summary="All is well.")], tools=[done], side=side)
    with Play(agent) as play:
        record = play.say()

        assert record.reason == "stop_tool"
        assert play.told() == [("user", "go"), ("assistant", "All is well."), ("tool", "noted")]
        assert len(model.requests) == 1


def test_a_side_with_a_stop_tool_only_goes_on_after_text() -> None:
    """Contract E.2 stop_tool: without `stop_on_response` text does not end the turn."""
    side = {"stop_on_response": False, "stop_tool": "done", "stop_tool_response_property": "summary"}
    agent, model = beside_a_human("Hm.", call("done", summary="So."), tools=[done], side=side)
    with Play(agent) as play:
        record = play.say()

        assert (record.reason, len(model.requests)) == ("stop_tool", 2)


def test_a_side_without_a_stop_condition_gives_the_turn_away_after_each_step() -> None:
    """Contract E.2 turn end; C.1 awaiting_human: a step that ended the turn by no condition leaves it to the human."""
    agent, model = beside_a_human(call("add", a=1, b=1), tools=[add], side={"stop_on_response": False})
    with Play(agent) as play:
        record = play.say()

        assert (record.reason, len(model.requests)) == ("awaiting_human", 1)
        assert play.results() == {"c1": [("success", "2")]}


def test_a_manual_stop_condition_leaves_the_end_to_code() -> None:
    """Contract E.2 manual stop: neither text nor calls end the turn; `stop()` does."""
    side = {"stop_on_response": False, "manual_stop_condition": True}
    agent, model = beside_a_human("One.", "Two.", call("stop"), tools=[stop], side=side)
    with Play(agent) as play:
        record = play.say()

        assert (record.reason, len(model.requests)) == ("stopped", 3)


def test_a_human_side_a_parks_at_once() -> None:
    """Contract C.1 awaiting_human; F.2 row 5: the acting side is human, so nobody is asked."""
    made, model = prompt("b")
    agent = Agent(name="reversed", side_a=Side(human=True), side_b=Side(prompt=made))
    with Play(agent) as play:
        record = play.say("for side A")

        assert (record.outcome, record.reason, model.requests) == ("succeeded", "awaiting_human", [])


def test_stop_ends_the_loop_after_the_tool_that_runs_and_answers_the_other_calls() -> None:
    """Contract B stop; B stop and calls; C.1 stopped; B stopped; B stopped_by: each call has exactly one result."""
    seen: list[Any] = []

    @tool
    async def halt(state: ThreadState) -> str:
        """Stop, and look."""
        assert state.execution is not None
        seen.append((state.execution.stopped, state.execution.stopped_by))
        state.execution.stop()
        seen.append((state.execution.stopped, state.execution.stopped_by))
        return "halted"

    agent, model = beside_a_human(
        [call("add", "c1", a=1, b=1), call("halt", "c2"), call("add", "c3", a=2, b=2)], tools=[add, halt]
    )
    with Play(agent) as play:
        record = play.say()

        assert (record.outcome, record.reason, play.state()) == ("succeeded", "stopped", ("idle", "stopped"))
        results = play.results()
        assert (results["c1"], results["c2"]) == ([("success", "2")], [("success", "halted")])
        assert [status for status, _ in results["c3"]] == ["error"]
        assert "not run" in str(results["c3"][0][1])
        assert seen == [(False, None), (True, "a")]
        assert len(model.requests) == 1


@pytest.mark.parametrize(("field", "reason"), [("session_stop", "session_stop"), ("session_fail", "session_fail")])
def test_a_bound_tool_that_succeeds_ends_the_session(field: str, reason: str) -> None:
    """Contract C.1 session_stop; C.1 session_fail; E.2 session_stop; E.2 session_fail; E.2 message property;
    E.2 session end: by a success only, and the thread lives on.
    """
    side = {field: Binding(name="done", message_property="summary")}
    agent, _model = beside_a_human(
        call("done", "c1", summary="bad"),
        call("done", "c2", summary="It is finished."),
        "Again.",
        tools=[done],
        side=side,
    )
    with Play(agent) as play:
        record = play.say()

        assert (record.outcome, record.reason, play.state()) == ("succeeded", reason, ("idle", reason))
        assert play.results() == {
            "c1": [("error", "Failed to execute tool: say something")], "c2": [("success", "It is finished.")],
        }  # fmt: skip
        assert play.say("more").reason == "stop_on_response"  # the thread lives on


def test_attachments_that_are_not_there_are_a_tool_error_and_end_no_session() -> None:
    """Contract E.2 session_stop: threads have no files yet, so any path that is named is missing."""
    side = {"session_stop": Binding(name="report", attachments_property="files")}

    @tool
    async def report(state: ThreadState, files: list[str]) -> str:
        """Report."""
        return "reported"

    agent, _ = beside_a_human(call("report", files=["/a.txt"]), "Sorry.", tools=[report], side=side)
    with Play(agent) as play:
        record = play.say()

        assert record.reason == "stop_on_response"
        ((status, text),) = play.results()["c1"]
        assert (status, "/a.txt" in str(text)) == ("error", True)


def test_a_bound_status_tool_leaves_the_session_alone() -> None:
    """Contract E.2 session_status: its text is the thread's label, which nobody has a list for yet."""
    side = {"session_status": Binding(name="done", message_property="summary")}
    agent, _ = beside_a_human(call("done", summary="Working."), "Hello.", tools=[done], side=side)
    with Play(agent) as play:
        assert play.say().reason == "stop_on_response"
        assert play.results() == {"c1": [("success", "noted")]}


def test_stop_session_ends_as_state_stop_session() -> None:
    """Contract C.1 state_stop_session: after the tool that called it; other calls of the step still run."""
    agent, model = beside_a_human([call("over", "c1"), call("add", "c2", a=1, b=1)], tools=[over, add])
    with Play(agent) as play:
        record = play.say()

        assert (record.outcome, record.reason) == ("succeeded", "state_stop_session")
        assert play.results() == {"c1": [("success", "over")], "c2": [("success", "2")]}
        assert len(model.requests) == 1


def test_a_side_takes_no_more_steps_than_it_may() -> None:
    """Contract C.1 max_side_steps; E.2 max_steps; F.2 row 6: the step beyond the limit does not begin."""
    agent, model = beside_a_human(
        call("add", "c1", a=1, b=1), call("add", "c2", a=1, b=1), "Never said.", tools=[add], side={"max_steps": 2}
    )
    with Play(agent) as play:
        record = play.say()

        assert (record.outcome, record.reason, play.state()) == (
            "succeeded",
            "max_side_steps",
            ("idle", "max_side_steps"),
        )
        assert len(model.requests) == 2


def test_a_steer_does_not_extend_a_limit_and_is_not_consumed() -> None:
    """Contract F.2 row 6: a steer that the last allowed step left unread joins history as not consumed."""
    pause = Pause()
    agent, _model = beside_a_human([pause, call("add", a=1, b=1)], tools=[add], side={"max_steps": 1})
    with Play(agent) as play:
        execution_id = play.submit()
        pause.reached()
        play.thread.steer(execution_id, "hurry").result(PATIENCE_S)
        pause.release()
        record = play.end(execution_id)

        assert record.reason == "max_side_steps"
        metadata = play.messages()[-1].metadata or {}
        assert (metadata["consumed"], metadata["reason"]) == (False, "max_side_steps")


def test_an_execution_takes_no_more_steps_than_any_may(monkeypatch: pytest.MonkeyPatch) -> None:
    """Contract C.1 max_total_steps; F.3 total steps: it fails, since a loop of that length is a fault."""
    monkeypatch.setattr("treadle.agents.step_loop.TOTAL_STEPS_MAX", 3)
    agent, model = beside_a_human(tools=[add])
    model.add(*[call("add", f"c{rank}", a=rank, b=1) for rank in range(5)])
    with Play(agent) as play:
        record = play.say()

        assert (record.outcome, record.reason, play.state()) == (
            "failed",
            "max_total_steps",
            ("failed", "max_total_steps"),
        )
        assert record.error is not None and record.error.type == "MaxTotalSteps"
        assert len(model.requests) == 3


def test_a_larger_limit_of_a_side_raises_the_total(monkeypatch: pytest.MonkeyPatch) -> None:
    """Contract F.3 total steps: a side's own limit, where that is larger."""
    monkeypatch.setattr("treadle.agents.step_loop.TOTAL_STEPS_MAX", 2)
    agent, model = beside_a_human(tools=[add], side={"max_steps": 4})
    model.add(*[call("add", f"c{rank}", a=rank, b=1) for rank in range(5)])
    with Play(agent) as play:
        assert play.say().reason == "max_side_steps"
        assert len(model.requests) == 4


def test_the_same_tool_error_eight_times_in_a_row_fails_the_execution() -> None:
    """Contract C.1 repeated_tool_error; F.3 repeated errors: numbers in it do not make it another one."""
    agent, model = beside_a_human(tools=[broken, add])
    model.add(call("broken", "c0"), call("add", "c1", a=1, b=1))
    model.add(*[call("broken", f"d{rank}") for rank in range(9)])
    with Play(agent) as play:
        record = play.say()

        assert (record.outcome, record.reason) == ("failed", "repeated_tool_error")
        assert len(model.requests) == 2 + 8


def test_a_hook_that_blocks_fails_the_execution_with_its_words_in_history() -> None:
    """Contract C.1 hook_blocked: the model is not asked, and an assistant message says why."""

    @hook("prefilter_llm_history", id="never")
    async def never(state: ThreadState, messages: list[Any]) -> list[Any]:
        raise BlockRun("not on Sundays")

    agent, model = beside_a_human(hooks=[never])
    with Play(agent) as play:
        record = play.say()

        assert (record.outcome, record.reason, play.state()[0]) == ("failed", "hook_blocked", "failed")
        assert play.told() == [("user", "go"), ("assistant", "not on Sundays")]
        assert model.requests == []


def test_an_error_of_the_step_fails_the_execution_and_leaves_a_message() -> None:
    """Contract C.1 step_error; F.3 step error: a failed row of the acting side says so."""
    agent, _ = beside_a_human(ModelError("the model is gone", model="p-model"))
    with Play(agent) as play:
        record = play.say()

        assert (record.outcome, record.reason, play.state()) == ("failed", "step_error", ("failed", "step_error"))
        assert record.error is not None and record.error.type == "ModelError"
        last = play.messages()[-1]
        assert (last.role, last.status) == ("assistant", "failed")
        assert str(last.content).startswith("The agent run failed unexpectedly: ")
        assert "the model is gone" in str(last.content)
        assert play.say("again").outcome == "failed"  # and the thread takes work at once


def test_a_user_who_interrupts_leaves_a_row_that_says_so() -> None:
    """Contract C.1 aborted_by_user: the response that was on its way is thrown away, and its stream is closed."""
    pause = Pause()
    agent, model = beside_a_human(["Never", pause, " said"])
    with Play(agent) as play:
        execution_id = play.submit()
        pause.reached()
        play.thread.interrupt(execution_id).result(PATIENCE_S)
        record = play.end(execution_id)

        assert (record.outcome, record.reason) == ("cancelled", "aborted_by_user")
        assert play.told() == [("user", "go"), ("system", "Execution stopped by user")]
        model.wait_closed()


def test_an_interruption_by_the_system_ends_as_aborted() -> None:
    """Contract C.1 aborted: nobody is said to have stopped it."""
    pause = Pause()
    agent, _ = beside_a_human([pause])
    with Play(agent) as play:
        execution_id = play.submit()
        pause.reached()
        play.thread.terminate().result(PATIENCE_S)
        record = play.end(execution_id)

        assert (record.outcome, record.reason) == ("cancelled", "aborted")
        assert play.told() == [("user", "go")]


# E.2: the cap on turns


def test_two_sides_take_turns_until_the_cap_is_met() -> None:
    """Contract C.1 max_session_turns; E.2 max_session_turns; E.1 turn; E.1 step; F.2 row 4: both completed as many."""
    agent, _model_a, _model_b = two_prompts(["a1", "a2"], ["b1", "b2"], max_session_turns=2)
    with Play(agent) as play:
        record = play.say("begin")

        assert (record.outcome, record.reason) == ("succeeded", "max_session_turns")
        assert play.told() == [
            ("user", "begin"), ("assistant", "a1"), ("user", "b1"), ("assistant", "a2"), ("user", "b2"),
        ]  # fmt: skip


def test_the_turns_of_a_session_are_durable_and_begin_anew_with_the_next() -> None:
    """Contract E.2 turn counters; E.2 max_session_turns: a human's turn is one inbound message."""
    agent, _model = beside_a_human("1", "2", "3", "4", max_session_turns=2)
    store = MemoryStore()
    with Play(agent, store=store) as play:
        thread_id = play.thread.id
        assert play.say("one").reason == "stop_on_response"
    with Play(agent, store=store) as play:
        play.thread = play.runtime.thread(thread_id)
        assert [play.say(text).reason for text in ("two", "three", "four")] == [
            "max_session_turns", "stop_on_response", "max_session_turns",
        ]  # fmt: skip
