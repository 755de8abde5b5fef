"""Owns `make bench`: every comparison measured, every figure printed as one JSON line; exits 1 when a bound is missed.

python benchmarks/run.py                                   all figures, five rounds each
python benchmarks/run.py --only executions_3 --rounds 9    the comparisons whose name begins so
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parent.parent))  # run as a script, this file's own folder is all that Python sees

from benchmarks.alternate import ROOT, MeasurementError, alternate, measure, median
from benchmarks.figures import COMPARISONS, STORES, Comparison, Figure

if TYPE_CHECKING:
    from benchmarks.alternate import Command, Result


def placed(command: Command, stores: str) -> Command:
    return tuple(part.replace("{stores}", stores) for part in command)


def judge(name: str, figure: Figure, bare: list[Result], ours: list[Result]) -> dict[str, object]:
    """Compare the medians of one figure with its bounds and return the line to print."""
    product = median(ours, figure.key)
    line: dict[str, object] = {"figure": f"{name}.{figure.key}"}
    ok = True
    if figure.most is not None:
        line |= {"most": figure.most}
        ok = product <= figure.most
    else:
        baseline = median(bare, figure.of or figure.key)
        line |= {
            "ratio": round(product / baseline, 3),
            "floor": figure.floor,
            "limit": figure.limit,
            "baseline": baseline,
        }
        if figure.floor is not None:
            ok = product >= figure.floor * baseline
        if figure.limit is not None:
            ok = product <= max(figure.limit * baseline, baseline + figure.slack)
    spread = sorted(result[figure.key] for result in ours)
    return line | {"ok": ok, "product": product, "least": spread[0], "greatest": spread[-1], "rounds": len(ours)}


def compare(comparison: Comparison, rounds: int) -> list[dict[str, object]]:
    """Prepare, measure and judge one comparison in a directory of its own, which is removed afterwards."""
    (ROOT / STORES).mkdir(parents=True, exist_ok=True)
    stores = tempfile.mkdtemp(dir=ROOT / STORES)
    try:
        for command in comparison.prepare:
            measure(placed(command, stores))
        bare, ours = alternate(placed(comparison.baseline, stores), placed(comparison.product, stores), rounds)
        return [judge(comparison.name, figure, bare, ours) for figure in comparison.figures]
    except MeasurementError as error:
        return [{"figure": comparison.name, "ok": False, "error": str(error)}]
    finally:
        shutil.rmtree(stores)


def main() -> int:
    parser = argparse.ArgumentParser(description="the product against the bare baseline, one JSON line a figure")
    parser.add_argument("--only", default="", metavar="NAME", help="the comparisons whose name begins so")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    chosen = [comparison for comparison in COMPARISONS if comparison.name.startswith(options.only)]
    if not chosen:
        parser.error(f"no comparison begins with {options.only!r}; there are {', '.join(c.name for c in COMPARISONS)}")
    missed = False
    for comparison in chosen:
        for line in compare(comparison, options.rounds):
            print(json.dumps(line), flush=True)
            missed = missed or not line["ok"]
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
