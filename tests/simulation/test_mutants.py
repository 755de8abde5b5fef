"""A rule broken on purpose is noticed by the test that it names."""

from __future__ import annotations

import pytest

from treadle.protocol import lifecycle

from .mutant import Mutant, Survived, attributes, explored
from .mutants import MUTANTS, main
from .script import SMALL


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_each_mutant_is_killed_by_the_promise_that_it_breaks(mutant: Mutant) -> None:
    assert mutant.by in mutant.kill()


def test_there_are_enough_mutants_and_no_two_share_a_name() -> None:
    names = [mutant.name for mutant in MUTANTS]

    assert len(set(names)) == len(names) >= 40


def test_a_mutant_that_changes_nothing_survives() -> None:
    harmless = Mutant(
        "nothing", lambda: attributes((lifecycle, "decide", lifecycle.decide)), explored(SMALL), "anything"
    )

    with pytest.raises(Survived, match="did not notice"):
        harmless.kill()


def test_a_mutant_noticed_by_another_promise_counts_as_survived() -> None:
    first = MUTANTS[0]

    with pytest.raises(Survived, match="but noticed was"):
        first._replace(by="some other promise").kill()


def test_every_mutant_is_mended_after_its_test() -> None:
    before = dict(lifecycle.TABLE), lifecycle.decide, lifecycle.advance

    for mutant in MUTANTS[:5]:
        mutant.kill()

    assert before == (lifecycle.TABLE, lifecycle.decide, lifecycle.advance)


def test_the_script_prints_each_mutant_with_its_killer(capsys: pytest.CaptureFixture[str]) -> None:
    with attributes((__import__("tests.simulation.mutants", fromlist=["MUTANTS"]), "MUTANTS", MUTANTS[:3])):
        result = main()

    printed = capsys.readouterr().out
    assert result == 0
    assert all(mutant.name in printed and mutant.by in printed for mutant in MUTANTS[:3])
    assert "3 mutants, 0 survived" in printed
