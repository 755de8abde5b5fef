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


def drive_all(script: Script, at_least: int) -> None:
    paths = edge_paths(script)
    print(f"{script.name}: {len(paths)} ways, {sum(map(len, paths))} steps")
    assert len(paths) >= at_least
    for path in paths:
        drive(script, path)


def test_the_actor_takes_every_edge_of_a_tiny_model_as_the_model_does() -> None:
    drive_all(scripts.SMALL._replace(name="tiny", budget={"submit": 1, "interrupt": 1, "refuse": 1}), 10)


# The least number of ways is a bit below what there are, so that a model that shrinks by mistake is noticed.
@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("name", "at_least"),
    [
        ("A", 3_000), ("B", 1_500), ("C", 6_000), ("SMALL", 200), ("QUEUES", 2_000), ("DEADLINES", 2_500), ("LOOPS", 1_500),
        ("LOSSES", 900), ("REQUESTS", 1_000),
    ],
)  # fmt: skip
def test_the_actor_takes_every_edge_of_the_model_as_the_model_does(name: str, at_least: int) -> None:
    drive_all(getattr(scripts, name), at_least)
