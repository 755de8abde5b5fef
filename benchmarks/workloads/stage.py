"""Owns what every workload needs: a place for its store, its agents, its one line of output. Measures nothing."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from treadle.agents import ThreadState, agent

if TYPE_CHECKING:
    from collections.abc import Iterator

CONTENT = "hello " * 30  # the 180 bytes that the bare baseline writes


@agent
async def speaker(state: ThreadState) -> None:
    """Say one thing, durably: three commits an execution."""
    await state.inject_message(role="assistant", content=CONTENT)


@agent
async def silent(_state: ThreadState) -> None:
    """Say nothing: two commits an execution."""


def parser(about: str | None) -> argparse.ArgumentParser:
    """Return a parser with the options that all workloads have."""
    made = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--dir", default="build/bench", help="where to put the temporary store; must be a real disk")
    return made


@contextlib.contextmanager
def place(options: argparse.Namespace) -> Iterator[str]:
    """Yield the directory for the store: the kept one of `--store`, else a temporary one that is removed afterwards."""
    kept = getattr(options, "store", None)
    if kept is not None:
        Path(kept).mkdir(parents=True, exist_ok=True)
        yield str(kept)
        return
    Path(options.dir).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=options.dir) as directory:
        yield directory


def report(figures: dict[str, object]) -> None:
    """Print the one JSON line."""
    print(json.dumps(figures), flush=True)
    sys.stdout.flush()
