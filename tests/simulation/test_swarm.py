"""Random lives of the whole heart, each from a seed that a failure names: `Swarm(seed).run()` plays it again."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

import pytest

from treadle.actors.verifying import divergences

from .mutant import Mutant
from .shell_mutants import SHELL
from .swarm import FAULTS, Swarm

if TYPE_CHECKING:
    from collections.abc import Iterator

FIRST = int(os.environ.get("TREADLE_SEED", "1"))  # another first seed plays other lives


def play(seeds: range, *, always_evict: bool) -> None:
    print(f"seeds {seeds.start} to {seeds.stop - 1}")
    for seed in seeds:
        swarm = Swarm(seed, always_evict=always_evict)
        wrong = swarm.run()

        assert wrong == [], f"seed {seed}, faults {sorted(swarm.faults)}"


@pytest.fixture
def _quiet() -> Iterator[None]:
    # Thousands of faults on purpose are no news.
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.usefixtures("_quiet")
def test_random_lives_keep_every_promise(always_evict: bool) -> None:
    play(range(FIRST, FIRST + 8), always_evict=always_evict)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.usefixtures("_quiet")
@pytest.mark.parametrize("evict", [False, True], ids=["kept", "evicted"])
def test_hundreds_of_random_lives_keep_every_promise(evict: bool) -> None:
    play(range(FIRST, FIRST + 800), always_evict=evict)


def test_a_seed_is_one_life() -> None:
    def life() -> tuple[object, ...]:
        swarm = Swarm(FIRST)
        swarm.run()
        return swarm.faults, [call.text for call in swarm.calls], swarm.seen

    assert life() == life()


def test_every_kind_of_fault_comes_alone_and_with_others() -> None:
    drawn = [frozenset(Swarm(seed).faults) for seed in range(60)]

    assert {frozenset({fault}) for fault in FAULTS} <= set(drawn)
    assert frozenset(FAULTS) in drawn
    assert frozenset() in drawn


@pytest.mark.slow
@pytest.mark.usefixtures("_quiet")
@pytest.mark.parametrize(
    "name",
    ["no gate", "joined rows not removed", "wake dropped at open", "refused facts kept", "dispatch before commit"],
)
def test_random_lives_notice_a_broken_shell(name: str) -> None:
    mutant: Mutant = next(one for one in SHELL if one.name == f"shell: {name}")
    found: list[object] = []
    known = len(divergences)
    with mutant.patch():
        for seed in range(FIRST, FIRST + 100):
            try:
                found += Swarm(seed, always_evict=True).run()
            except Exception as error:
                found.append(error)
            if found:
                break
    del divergences[known:]  # the mutant's

    assert found, f"100 lives did not notice: {name}"
