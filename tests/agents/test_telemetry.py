"""Live frames are made only for those who watch, hold no secret, and never fail the step that shows them."""

from __future__ import annotations

from typing import Any, cast

import pytest

from treadle.actors.execution import Execution
from treadle.agents.agent_definition import Agent
from treadle.agents.flow import Flow
from treadle.agents.models.seam import ReasoningDelta, TextDelta, ToolCallDelta
from treadle.agents.redaction import Redactor
from treadle.agents.side import Side
from treadle.agents.telemetry import Chunks, show
from treadle.protocol.errors import LimitExceeded

AGENT = Agent(name="a", side_a=Side(prompt="p"))


class Shown:
    """An execution that keeps the frames it is to show; watched or not."""

    thread_id = "t1"

    def __init__(self, *, watched: bool = True) -> None:
        self.frames: list[dict[str, Any]] = []
        self.history: list[object] = []
        self.entry = self
        self.watch = self if watched else None
        self.services = self.clock = self

    def now_us(self) -> int:
        return 1_234_567

    def emit(self, frame: dict[str, Any]) -> bool:
        if frame.get("tool") == "too large":
            raise LimitExceeded("too large", limit="frame_bytes")
        self.frames.append(frame)
        return True


def flow(shown: Shown) -> Flow:
    return Flow(cast(Execution, shown), AGENT)


def test_a_frame_has_its_time_in_milliseconds() -> None:
    shown = Shown()
    show(flow(shown), "step_started", step=1, side="a")

    assert shown.frames == [{"type": "step_started", "step": 1, "side": "a", "timestamp": 1_234}]


def test_where_nobody_watches_nothing_is_made() -> None:
    shown = Shown(watched=False)
    show(flow(shown), "step_started", step=1)
    chunks = Chunks(flow(shown), "m1", Redactor())
    chunks.take(TextDelta("text"))
    chunks.finish()

    assert shown.frames == []


def test_a_frame_that_cannot_be_shown_fails_no_step() -> None:
    shown = Shown()
    show(flow(shown), "tool_started", tool="too large")

    assert shown.frames == []


def test_chunks_hold_no_secret_however_it_is_cut() -> None:
    shown = Shown()
    chunks = Chunks(flow(shown), "m1", Redactor({"KEY": "swordfish"}))
    for piece in ("a sword", "fi", "sh, a swor", "d"):
        chunks.take(TextDelta(piece))
    chunks.take(ReasoningDelta("swordfish?"))
    chunks.take(ToolCallDelta(0, "c1", "add", "{}"))
    chunks.finish()

    text = "".join(one["chunk"] for one in shown.frames if one["type"] == "message_chunk")
    assert text == "a [secret:KEY], a sword"
    assert "".join(one["chunk"] for one in shown.frames if one["type"] == "reasoning_chunk") == "[secret:KEY]?"


def test_a_character_that_is_cut_in_halves_is_shown_whole_and_found_in_secrets() -> None:
    shown = Shown()
    chunks = Chunks(flow(shown), "m1", Redactor({"KEY": "🔑🔒🔑🔒"}))
    for piece in ("a\ud83d", "\ude00 ", "🔑\ud83d", "\udd12🔑\ud83d", "\udd12", " z\ud83d"):
        chunks.take(TextDelta(piece))
    chunks.finish()

    assert "".join(one["chunk"] for one in shown.frames) == "a😀 [secret:KEY] z?"


def test_a_piece_that_is_larger_than_a_frame_is_shown_in_several() -> None:
    shown = Shown()
    chunks = Chunks(flow(shown), "m1", Redactor())
    chunks.take(TextDelta("é" * 200_000))
    chunks.finish()

    assert "".join(one["chunk"] for one in shown.frames) == "é" * 200_000
    assert max(len(one["chunk"].encode()) for one in shown.frames) < 200_000


@pytest.mark.parametrize("said", [True, False])
def test_a_restart_takes_back_what_was_shown(said: bool) -> None:
    shown = Shown()
    chunks = Chunks(flow(shown), "m1", Redactor({"KEY": "swordfish"}))
    chunks.take(TextDelta("Wrong sword" if said else "sword"))
    chunks.restart()
    chunks.take(TextDelta("Right."))
    chunks.finish()

    kinds = [one["type"] for one in shown.frames]
    assert kinds == (["message_chunk", "message_restart", "message_chunk"] if said else ["message_chunk"])
    assert shown.frames[-1]["chunk"] == "Right."
