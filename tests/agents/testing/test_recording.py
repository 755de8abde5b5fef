"""Tests agents/testing/recording.py: what a journal says of when inputs came, and files that are no recordings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.agents.looping import Play, beside_a_human, call
from treadle.agents import ThreadState, tool
from treadle.agents.testing import Pause, Recording, run_to_rest
from treadle.protocol.errors import InvalidInput

if TYPE_CHECKING:
    from pathlib import Path


@tool
async def ask(state: ThreadState) -> Any:
    return await state.request("approval", {"amount": 5})


@tool
async def queue_itself(state: ThreadState) -> None:
    await state.queue_message("from the agent itself")


def test_each_input_has_the_place_where_a_model_is_to_hear_of_it() -> None:
    pause = Pause()
    agent, _ = beside_a_human(
        call("ask"), ["spo", pause, "ken"], call("queue_itself"), "last", tools=(ask, queue_itself)
    )  # fmt: skip

    with Play(agent) as play:
        thread = play.thread
        execution_id = play.submit("go")
        with thread.stream() as stream:
            while not thread.state().result().pending_requests:
                stream.next(60)
        thread.steer(execution_id, "while it asks").result()
        thread.respond(thread.state().result().pending_requests[0]["request_id"], 7).result()
        pause.reached()
        thread.queue_message("while it speaks").result()
        pause.release()
        run_to_rest(thread)
        thread.inject_message("system", "at rest").result()
        recording = Recording.of(thread)

    acts = [(act.verb, act.messages[0]["content"], act.run, act.at) for act in recording.acts]
    assert acts == [
        ("submit", "go", None, 0),
        ("steer", "while it asks", 0, 0),  # its calls are open: the response before them
        ("queue", "while it speaks", 0, 2),  # the response that is being made
        ("inject", "at rest", None, 0),
    ]
    (run,) = recording.runs
    assert list(run.requests.values()) == [("resolved", 7)]
    assert run.end == ("succeeded", "stop_on_response")
    assert (run.cut, recording.created["agent_id"]) == (None, "agent")


def test_a_recording_is_kept_as_json(tmp_path: Path) -> None:
    with Play(beside_a_human("häh?")[0]) as play:
        run_to_rest(play.thread, "go")
        recording = Recording.of(play.thread)
    recording.save(tmp_path / "recorded.json")

    again = Recording.load(tmp_path / "recorded.json")

    assert again.frames == recording.frames
    assert "häh?" in (tmp_path / "recorded.json").read_text()
    assert Recording().created == {}


@pytest.mark.parametrize(
    "text", ["no json", '[{"type": "MESSAGE_ADDED"}]', "3", "[[1]]", '[{"type": "THREAD_EXECUTION_FINISHED"}]']
)
def test_what_is_no_recording_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "file").write_text(text)

    with pytest.raises(InvalidInput) as error:
        Recording.load(tmp_path / "file")

    assert error.value.code == "invalid_recording"
