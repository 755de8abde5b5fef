"""The harness judges rightly: which bound is missed, and what a measuring process that fails looks like."""

from __future__ import annotations

import pytest

from benchmarks.alternate import MeasurementError, measure
from benchmarks.figures import COMPARISONS, Figure
from benchmarks.run import judge


def lines(*values: float) -> list[dict[str, float]]:
    return [{"x": value} for value in values]


@pytest.mark.parametrize(
    ("figure", "bare", "ours", "ok"),
    [
        (Figure("x", floor=0.5), lines(100, 90, 110), lines(50, 10, 70), True),
        (Figure("x", floor=0.5), lines(100, 90, 110), lines(49, 10, 70), False),
        (Figure("x", limit=2.5), lines(10), lines(25), True),
        (Figure("x", limit=2.5), lines(10), lines(26), False),
        (Figure("x", limit=2.5, slack=20), lines(10), lines(30), True),
        (Figure("x", limit=2.5, slack=20), lines(10), lines(31), False),
        (Figure("x", most=4096), lines(1), lines(4096), True),
        (Figure("x", most=4096), lines(1), lines(4097), False),
        (Figure("x"), lines(1), lines(1_000_000), True),
    ],
)
def test_a_figure_is_judged_by_the_medians_and_its_bound(
    figure: Figure, bare: list[dict[str, float]], ours: list[dict[str, float]], ok: bool
) -> None:
    assert judge("some", figure, bare, ours)["ok"] is ok


def test_every_comparison_has_a_name_of_its_own() -> None:
    names = [comparison.name for comparison in COMPARISONS]

    assert len(names) == len(set(names))


@pytest.mark.slow
def test_a_measurement_that_fails_says_which_and_why() -> None:
    with pytest.raises(MeasurementError, match="baseline nonsense"):
        measure(("baseline", "nonsense"))


@pytest.mark.slow
def test_the_bare_baseline_does_all_its_executions() -> None:
    done = measure(("baseline", "executions", "--threads", "8", "--executions", "80", "--dir", "build/bench"))

    assert done["executions"] == 80


@pytest.mark.slow
@pytest.mark.parametrize("where", [(), ("--in-process",)], ids=["over HTTP", "in process"])
def test_every_watcher_of_a_measurement_has_its_whole_sequence(where: tuple[str, ...]) -> None:
    size = ("--threads", "4", "--watchers", "20", "--executions", "40", "--per-second", "400")
    done = measure(("workloads.watchers", *size, *where, "--dir", "build/bench"))

    assert (done["complete"], done["events"]) == (20, 600)
