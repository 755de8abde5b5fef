"""The demo tells the truth: it passes on a real run, and each kind of broken promise makes it name a mismatch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from examples.demo.dialogues import Corpus, answer, load
from examples.demo.history import History
from examples.demo.notes import Note
from examples.demo.scenes import Line, Scene, make_plan
from examples.demo.verdict import Verdict, judge
from treadle.actors import ExecutionRecord, Message, ThreadStatus

if TYPE_CHECKING:
    from collections.abc import Callable

MAIN = Path(__file__).parent.parent / "examples" / "demo" / "main.py"
CORPUS = Corpus("1", 1, [("hi", "bye")], {"hi": ["hello"], "bye": ["see you"]}, 0)
PLAN = {"talk": [Scene("say", (Line("d0.0", "hi"),)), Scene("say", (Line("d0.1", "bye"),))]}
ASKS = ("d0.0/say", "d0.1/say")


def said(number: int, text: str, ask: str) -> Message:
    return Message(id=f"u{number}", role="user", content=text, created_at=number, metadata={"ask": ask})


def reply(number: int, text: str, **more: Any) -> Message:
    about = {"answers": f"u{number}", "execution": f"e{number}"}
    return Message(id=f"a{number}{more}", role="assistant", content=text, created_at=number, metadata=about, **more)


def ended(number: int, status: Any = "succeeded", **more: Any) -> ExecutionRecord:
    return ExecutionRecord(f"e{number}", "talker", status, number, number, **more)


class World:
    """Two lines, both acknowledged, answered and told: what each test breaks in one place."""

    def __init__(self) -> None:
        self.notes = [Note("talk", ask, "submit", "accepted", target=f"e{n}") for n, ask in enumerate(ASKS)]
        self.messages = [said(0, "hi", ASKS[0]), reply(0, "hello"), said(1, "bye", ASKS[1]), reply(1, "see you")]
        self.executions = [ended(0), ended(1)]
        self.ends = [("talk", "d0.0", "e0", "succeeded")]
        self.owners = {ask: f"e{n}" for n, ask in enumerate(ASKS)}
        self.status = ThreadStatus("idle", 1, "awaiting_human")
        self.active = False
        self.lost: list[str] = []
        self.errors: list[str] = []

    def judge(self) -> Verdict:
        history = History("talk", self.messages, self.executions, self.owners, self.status, self.active, self.errors)
        return judge(CORPUS, PLAN, self.notes, self.ends, {"talk": history}, self.lost)


def forget(world: World) -> None:
    del world.messages[2:]


def double(world: World) -> None:
    world.messages.append(world.messages[2])


def add_unasked(world: World) -> None:
    world.messages.append(said(2, "hi", "d0.0/other"))


def swap(world: World) -> None:
    world.messages = [*world.messages[2:], *world.messages[:2]]


def leave_waiting(world: World) -> None:
    world.messages[2] = world.messages[2].model_copy(update={"status": "pending"})


def change_text(world: World) -> None:
    world.messages[2] = world.messages[2].model_copy(update={"content": "by"})


def answer_wrongly(world: World) -> None:
    world.messages[1] = reply(0, "see you")


def answer_twice(world: World) -> None:
    world.messages.append(reply(1, "see you", silent=True))


def leave_unanswered(world: World) -> None:
    del world.messages[1]


def answer_from_elsewhere(world: World) -> None:
    world.owners[ASKS[0]] = "e1"


def answer_nothing(world: World) -> None:
    world.messages.insert(0, world.messages.pop(1))


def leave_running(world: World) -> None:
    world.status = ThreadStatus("running", 1, None)


def leave_owned(world: World) -> None:
    world.active = True


def tell_otherwise(world: World) -> None:
    world.ends = [("talk", "d0.0", "e0", "cancelled")]


def fail(world: World) -> None:
    world.executions[0] = ended(0, "failed")


def cancel_by_itself(world: World) -> None:
    world.executions[0] = ended(0, "cancelled")


def succeed_after_an_interrupt(world: World) -> None:
    world.notes.append(Note("talk", "d0.0/interrupt", "interrupt", "accepted", target="e0"))


def lose_without_a_crash(world: World) -> None:
    world.executions[0] = ended(0, "interrupted", evidence={"cause": "process_ended"})


def lose_nothing_in_a_crash(world: World) -> None:
    world.lost = ["talk"]


def lose_without_evidence(world: World) -> None:
    world.lost = ["talk"]
    world.executions[0] = ended(0, "interrupted")


def drop_a_steer(world: World) -> None:
    world.notes[0] = world.notes[0]._replace(verb="steer", steered=True)
    world.messages[0] = world.messages[0].model_copy(update={"metadata": {"ask": ASKS[0], "consumed": False}})
    del world.messages[1]


def refuse_for_ever(world: World) -> None:
    world.notes[1] = world.notes[1]._replace(disposition="busy")
    del world.messages[2:]


def lose_a_receipt(world: World) -> None:
    world.errors = ["d0.0/say: input_not_found"]


BREAKS: list[Callable[[World], None]] = [
    forget, double, add_unasked, swap, leave_waiting, change_text, answer_wrongly, answer_twice, leave_unanswered,
    answer_from_elsewhere, answer_nothing, leave_running, leave_owned, tell_otherwise, fail, cancel_by_itself,
    succeed_after_an_interrupt, lose_without_a_crash, lose_nothing_in_a_crash, lose_without_evidence, drop_a_steer,
    refuse_for_ever, lose_a_receipt,
]  # fmt: skip


def test_what_was_kept_is_no_mismatch() -> None:
    verdict = World().judge()

    assert verdict.mismatches == []
    assert (verdict.acknowledged, verdict.found) == ({"submit": 2}, {"submit": 2})
    assert verdict.fates == {("submit", "answered"): 2}


@pytest.mark.parametrize("break_it", BREAKS, ids=lambda function: str(function.__name__))
def test_a_broken_promise_is_named(break_it: Callable[[World], None]) -> None:
    world = World()
    break_it(world)

    mismatches = world.judge().mismatches

    assert mismatches
    assert all(mismatch.startswith("talk") for mismatch in mismatches)


def test_an_interrupted_line_may_go_unanswered() -> None:
    world = World()
    succeed_after_an_interrupt(world)
    cancel_by_itself(world)
    del world.messages[1]
    world.ends = []

    verdict = world.judge()

    assert verdict.mismatches == []
    assert verdict.fates["submit", "cut short"] == 1


def test_the_plan_says_every_line_once_and_is_the_same_for_the_same_seed() -> None:
    dialogues = [(f"a{n}", f"b{n}", f"c{n}")[: 1 + n % 3] for n in range(100)]

    plan = make_plan(dialogues, 7, seed=3)

    lines = [line for scenes in plan.values() for scene in scenes for line in scene.lines]
    assert sorted(line.text for line in lines) == sorted(text for dialogue in dialogues for text in dialogue)
    assert len({line.id for line in lines}) == len(lines)
    assert make_plan(dialogues, 7, seed=3) == plan
    assert make_plan(dialogues, 7, seed=4) != plan


@pytest.mark.slow
def test_the_agent_has_an_answer_to_every_line_of_the_package() -> None:
    corpus = load()

    lines = [line for dialogue in corpus.dialogues for line in dialogue]

    assert len(lines) > 9_000
    assert corpus.languages > 20
    assert all(answer(corpus, "talk-000", line) in corpus.replies[line] for line in lines)


@pytest.mark.slow
def test_the_demo_runs_anywhere_without_a_terminal_and_leaves_nothing_behind(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONWARNINGS": "error", "PYTHONIOENCODING": "ascii"}
    for seed in ("1", "2"):
        command = [sys.executable, str(MAIN), "--threads", "20", "--dialogues", "400", "--seed", seed]

        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

        assert done.returncode == 0, done.stdout + done.stderr
        assert "No mismatch" in done.stdout
        assert f"seed {seed}" in done.stdout
        assert done.stderr == ""
        assert list(tmp_path.iterdir()) == []
