"""Tests agents/testing/resting.py: it returns when nothing runs or waits, and says what is missing where it cannot."""

from __future__ import annotations

from typing import Any

import pytest

from tests.agents.looping import Play, beside_a_human, call
from treadle.agents import ThreadState, tool
from treadle.agents.testing import Pause, run_to_rest


@tool
async def ask(state: ThreadState) -> Any:
    return await state.request("approval", {"amount": 5})


@tool
async def queue_more(state: ThreadState) -> None:
    await state.queue_message("more")
    assert state.execution is not None
    state.execution.stop()


def test_it_tells_how_the_thread_came_to_rest() -> None:
    agent, model = beside_a_human(call("ask"), "done", tools=(ask,))
    asked: list[Any] = []

    def answer(request: Any) -> bool:
        asked.append(request["payload"])
        return True

    with Play(agent) as play:
        rest = run_to_rest(play.thread, "go", answers={"approval": answer})

        assert (rest.status.state, rest.status.reason, rest.text, rest.calls) == (
            "idle",
            "stop_on_response",
            "done",
            ["ask"],
        )
        assert [message.role for message in rest.messages] == ["user", "assistant", "tool", "assistant"]
        assert [record.outcome for record in rest.executions] == ["succeeded"]
        assert asked == [{"amount": 5}]
        assert any(frame["type"] == "message_chunk" for frame in rest.frames)

        model.add(None, "second")
        again = run_to_rest(play.thread, "again")
        assert (again.messages[0].content, again.text) == ("again", "second")


def test_it_waits_for_the_execution_that_waiting_messages_start() -> None:
    agent, _ = beside_a_human(call("queue_more"), "second run", tools=(queue_more,))

    with Play(agent) as play:
        rest = run_to_rest(play.thread, "go")

    assert [record.reason for record in rest.executions] == ["stopped", "stop_on_response"]
    assert rest.text == "second run"


def test_what_a_hold_keeps_back_is_at_rest_and_nothing_said_is_no_text() -> None:
    agent, _ = beside_a_human()

    with Play(agent) as play:
        play.thread.stop().result()
        play.thread.queue_message("waits").result()
        rest = run_to_rest(play.thread)

    assert (rest.executions, rest.text) == ([], "")


def test_a_request_that_nobody_answers_and_a_thread_that_does_not_rest_are_named() -> None:
    pause = Pause()
    agent, _ = beside_a_human(call("ask"), [pause, "late"], tools=(ask,))

    with Play(agent) as play:
        with pytest.raises(AssertionError, match=r"`answers` has no 'approval': \{'amount': 5\}"):
            run_to_rest(play.thread, "go")
        with pytest.raises(AssertionError, match="not at rest"):
            run_to_rest(play.thread, answers={"approval": True}, guard=0.05)
        pause.release()
        assert run_to_rest(play.thread).text == "late"
