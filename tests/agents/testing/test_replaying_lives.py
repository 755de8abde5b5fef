"""Random lives, for agents/testing/replaying.py: they play again without a difference, whatever came whenever."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from tests.agents.looping import PATIENCE_S, Play, beside_a_human, call
from treadle.agents import Agent, ThreadState, tool
from treadle.agents.testing import Pause, Recording, replay, run_to_rest

if TYPE_CHECKING:
    from collections.abc import Callable

    from treadle.actors import StreamSubscription, Thread


@tool
async def ask(state: ThreadState, about: int) -> Any:
    return await state.request("approval", about)


@tool
async def add(state: ThreadState, a: int) -> int:
    before = await state.get_value("sum")
    await state.set_value("sum", (before or 0) + a)
    return int((before or 0) + a)


@tool
async def fail(state: ThreadState) -> None:
    raise ValueError("no luck")


@tool
async def say(state: ThreadState, text: str) -> None:
    await state.inject_message("assistant", text, silent=len(text) > 3)


@tool
async def queue(state: ThreadState, text: str) -> None:
    await state.queue_message(text)


TOOLS = (ask, add, fail, say, queue)


def desk(*turns: Any) -> Agent:
    return beside_a_human(*turns, tools=TOOLS, side={"max_steps": 6})[0]


class Life:
    """A thread whose model says random things, and whom people tell random things at random moments."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.pauses = [Pause() for _ in range(80)]
        self.calls = self.asked = 0

    def turn(self, pause: Pause) -> list[Any]:
        kind = self.random.randrange(6)
        words: list[Any] = [pause, f"word {self.random.randrange(100)}"]
        if kind < 3:
            return words
        return [*words[: self.random.randrange(1, 3)], *(self.call() for _ in range(self.random.randrange(1, 4)))]

    def call(self) -> Any:
        self.calls += 1
        name = self.random.choice(["ask", "add", "fail", "say", "queue", "missing"])
        given: dict[str, dict[str, Any]] = {
            "ask": {"about": 1},
            "add": {"a": self.calls},
            "say": {"text": "x" * self.random.randrange(1, 6)},
            "queue": {"text": "more"},
        }
        return call(name, f"c{self.calls}", **given.get(name, {}))

    def act(self, thread: Thread, execution_id: str) -> None:
        """Do something while an execution runs."""
        choice = self.random.randrange(7)
        if choice == 0:
            thread.steer(execution_id, f"steer {self.random.randrange(100)}").result(PATIENCE_S)
        elif choice == 1:
            thread.queue_message(f"queued {self.random.randrange(100)}").result(PATIENCE_S)
        elif choice == 2:
            thread.submit("behind", on_busy="queue").result(PATIENCE_S)
        elif choice == 3 and self.random.random() < 0.5:
            thread.interrupt(execution_id).result(PATIENCE_S)

    def follow(self, thread: Thread, stream: StreamSubscription) -> None:
        """Go with the thread until it rests: act wherever the model waits or the agent asks."""
        while True:
            state = thread.state().result(PATIENCE_S)
            active = state.active_execution
            if active is None and (not state.waiting or state.held):
                return
            if active is not None and active.phase == "running":
                for request in state.pending_requests:
                    self.act(thread, active.execution_id)
                    thread.respond(request["request_id"], self.random.random()).result(PATIENCE_S)
            frame = stream.next(PATIENCE_S)
            assert frame is not None
            if frame["type"] == "llm_request":
                self.speak(thread)

    def speak(self, thread: Thread) -> None:
        pause = self.pauses[self.asked]
        self.asked += 1
        pause.reached()
        active = thread.state().result(PATIENCE_S).active_execution
        assert active is not None
        self.act(thread, active.execution_id)
        pause.release()


def lived(seed: int, then: Callable[[Recording], None]) -> None:
    life = Life(seed)
    turns = [life.turn(pause) for pause in life.pauses]
    with Play(desk(*turns)) as play, play.thread.stream() as stream:
        thread = play.thread
        stream.next(PATIENCE_S)  # from here on no frame is missed
        for number in range(life.random.randrange(1, 4)):
            if life.random.random() < 0.2:
                thread.stop().result(PATIENCE_S)
                thread.queue_message(f"held {number}").result(PATIENCE_S)
            thread.submit(f"go {number}", on_busy="queue").result(PATIENCE_S)
            life.follow(thread, stream)
        run_to_rest(thread)
        then(Recording.of(thread))


@pytest.mark.parametrize("seed", range(8))
def test_a_random_life_plays_again_as_it_was(seed: int) -> None:
    recordings: list[Recording] = []

    lived(seed, recordings.append)

    assert str(replay(recordings[0], desk())) == "None"


@pytest.mark.slow
def test_many_random_lives_play_again_as_they_were() -> None:
    for seed in range(8, 108):
        recordings: list[Recording] = []

        lived(seed, recordings.append)

        assert str(replay(recordings[0], desk())) == "None", f"seed {seed}"
