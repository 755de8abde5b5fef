"""The real actor on every edge of the model: the same steps, and after each the same phases, facts, events and answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.actors.edge_driver import Real, world_view
from tests.simulation import script as scripts
from tests.simulation.explore import edge_paths
from tests.simulation.world import World

if TYPE_CHECKING:
    from tests.simulation.script import Script, Step


def drive(script: Script, path: list[Step]) -> None:
    """Take one way through the model and the real actor at once, and compare them after each step."""
    world, real = World(script, logged=True), Real(script)
    try:
        done: list[Step] = []
        for step in path:
            logged = len(world.log or ())
            world = world.step(step)
            real.step(step)
            done.append(step)
            expected, found = world_view(world, logged), real.view()

            assert found == expected, f"after {len(done)} steps: {[f'{kind} {about}'.strip() for kind, about in done]}"
        assert [name for name, _ in real.on.reports if name != "actor_reloaded"] == []
    finally:
        real.close()


def test_the_actor_takes_every_edge_of_the_small_model_as_the_model_does() -> None:
    for path in edge_paths(scripts.SMALL):
        drive(scripts.SMALL, path)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", ["A", "B", "C", "QUEUES", "DEADLINES", "LOOPS", "LOSSES"])
def test_the_actor_takes_every_edge_of_the_model_as_the_model_does(name: str) -> None:
    script: Script = getattr(scripts, name)
    for path in edge_paths(script):
        drive(script, path)
