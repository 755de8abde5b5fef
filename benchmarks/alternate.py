"""Owns the fair comparison: two commands in turn, each in a process of its own. Judges nothing.

A machine that others use drifts by tens of percent within minutes. Both sides of a round stand next to each other in
time, who goes first changes with every round, and medians are compared; so drift falls on both alike.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PATIENCE_S = 600  # one measurement; far beyond the longest, so that a hang ends and says so

Command = tuple[str, ...]  # a module below `benchmarks`, then its arguments
Result = dict[str, float]


class MeasurementError(Exception):
    """A measuring process ended badly or printed no figures; carries its command and what it said."""


def measure(command: Command) -> Result:
    """Run one measurement in a fresh process and return the JSON object of its last line. Blocks until it ends.

    Raises:
        MeasurementError: it exited with another code than 0, took too long, or its last line is no JSON object.
    """
    line = [sys.executable, "-m", f"benchmarks.{command[0]}", *command[1:]]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    try:
        done = subprocess.run(
            line, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=True
        )
        figures = json.loads(done.stdout.strip().rpartition("\n")[2])
    except subprocess.SubprocessError as error:
        said = getattr(error, "stderr", None) or ""
        raise MeasurementError(f"{' '.join(command)}: {error}\n{said}") from error
    except ValueError as error:
        raise MeasurementError(f"{' '.join(command)}: its last line is no JSON: {done.stdout[-200:]!r}") from error
    return dict(figures)


def alternate(baseline: Command, product: Command, rounds: int) -> tuple[list[Result], list[Result]]:
    """Measure both commands `rounds` times in turn. Blocks.

    Raises:
        MeasurementError: as `measure`; the rounds so far are lost.
    """
    ours: list[Result] = []
    bare: list[Result] = []
    for turn in range(rounds):
        pair = [(baseline, bare), (product, ours)]
        for command, results in pair if turn % 2 == 0 else reversed(pair):
            results.append(measure(command))
    return bare, ours


def median(results: list[Result], key: str) -> float:
    """Return the median of one figure over the rounds."""
    return statistics.median(result[key] for result in results)
