"""Owns the plan: who says what in which thread, and how it is brought in. The same seed makes the same plan."""

from __future__ import annotations

import heapq
import random
from typing import Final, NamedTuple

__all__ = ["Line", "Scene", "make_plan", "thread_name"]

# Kind of scene: how many lines it takes, how often it comes.
KINDS: Final = {
    "say": (1, 50),
    "steer": (2, 9),
    "steer late": (2, 6),
    "queue": (3, 7),
    "interrupt": (2, 8),
    "busy": (2, 6),
    "barge in": (2, 5),
    "join in": (2, 5),
    "steer the past": (2, 4),
}


class Line(NamedTuple):
    """A line that a person says: its id is unique in the plan."""

    id: str
    text: str


class Scene(NamedTuple):
    """One or more lines and how they come in; `replay.py` has a function for each kind."""

    kind: str
    lines: tuple[Line, ...]


def thread_name(number: int) -> str:
    """Return the id of a thread of the demo."""
    return f"talk-{number:03}"


def make_plan(dialogues: list[tuple[str, ...]], threads: int, seed: int) -> dict[str, list[Scene]]:
    """Deal the dialogues out, so that all threads have about as much to say, and cut what each says into scenes."""
    chance = random.Random(seed)
    order = [(len(lines), chance.random(), number) for number, lines in enumerate(dialogues)]
    heap = [(0, number) for number in range(threads)]
    dealt: list[list[int]] = [[] for _ in range(threads)]
    for length, _, dialogue in sorted(order, reverse=True):
        load, thread = heapq.heappop(heap)
        dealt[thread].append(dialogue)
        heapq.heappush(heap, (load + length, thread))
    plan = {}
    for thread, chosen in enumerate(dealt):
        chance.shuffle(chosen)
        lines = [Line(f"d{d}.{rank}", text) for d in chosen for rank, text in enumerate(dialogues[d])]
        plan[thread_name(thread)] = _cut(lines, chance)
    return plan


def _cut(lines: list[Line], chance: random.Random) -> list[Scene]:
    scenes = []
    start = 0
    while start < len(lines):
        (kind,) = chance.choices(list(KINDS), [weight for _, weight in KINDS.values()])
        if start + KINDS[kind][0] > len(lines):
            kind = "say"
        scenes.append(Scene(kind, tuple(lines[start : start + KINDS[kind][0]])))
        start += KINDS[kind][0]
    return scenes
