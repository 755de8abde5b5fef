"""Owns what every test gets: the eviction flag, stacks on a hang, repeatable Hypothesis, the check for left workers."""

from __future__ import annotations

import faulthandler
import os
import re
import signal
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from collections.abc import Iterator

pytest_plugins = ["treadle.actors.testing"]  # as a user's own conftest does

# No test speaks to anything beyond this machine, and a proxy would answer for it.
for variable in [name for name in os.environ if name.lower().endswith("_proxy")]:
    del os.environ[variable]

WORKER_PREFIX = "treadle-"  # every OS thread of ours is named so
LEAVING_S = 60.0  # for a worker that was told to end; a test that leaves one behind costs this once

# The machine may be busy, so no deadline anywhere; what CI runs is the same every time, and prints how to repeat it.
settings.register_profile("desk", deadline=None, suppress_health_check=[HealthCheck.too_slow])
if not os.access(Path.cwd(), os.W_OK):
    # Where it cannot keep what it found, Hypothesis warns, and warnings are errors.
    settings.register_profile("desk", settings.get_profile("desk"), database=None)
settings.register_profile("ci", settings.get_profile("desk"), derandomize=True, database=None, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "desk")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--always-evict",
        action="store_true",
        help="drop and reload every thread's actor whenever it is free; else compare it with its journal",
    )


def pytest_configure(config: pytest.Config) -> None:
    # Also as an attribute: worlds that a test builds by hand, outside any fixture, ask for it too.
    pytest.always_evict = config.getoption("--always-evict")  # type: ignore[attr-defined]
    # `kill -USR1` on a test run that seems to hang shows where every worker stands.
    faulthandler.register(signal.SIGUSR1, file=sys.__stderr__ or 2, all_threads=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # Workers of pytest-xdist must agree on the names, and an address is another one in each process.
    unstable = [item.nodeid for item in items if re.search(r"\bat 0x[0-9a-f]+", item.nodeid)]
    if unstable:
        raise pytest.UsageError("the ids of these parameters are not the same twice:\n" + "\n".join(unstable))


def pytest_report_header(config: pytest.Config) -> str:
    return f"always-evict: {config.getoption('--always-evict')}"


@pytest.fixture(scope="session")
def always_evict(pytestconfig: pytest.Config) -> bool:
    """Say whether runtimes of this run drop and reload every free thread."""
    return bool(pytestconfig.getoption("--always-evict"))


def left_workers(before: set[threading.Thread]) -> list[threading.Thread]:
    """Return the treadle workers that appeared since `before` and do not end by themselves."""
    until = time.monotonic() + LEAVING_S
    left = []
    for worker in threading.enumerate():
        if worker in before or not worker.name.startswith(WORKER_PREFIX):
            continue
        worker.join(max(0.0, until - time.monotonic()))
        if worker.is_alive():
            left.append(worker)
    return left


def stack_of(worker: threading.Thread) -> str:
    frame = sys._current_frames().get(worker.ident or 0)
    stack = "".join(traceback.format_stack(frame)) if frame else "  (gone by now)\n"
    return f"{worker.name}\n{stack}"


@pytest.fixture(autouse=True)
def _no_worker_is_left() -> Iterator[None]:
    # Autouse fixtures come first and so go last: what other fixtures close is closed by now.
    before = set(threading.enumerate())
    yield
    left = left_workers(before)
    assert not left, "the test left workers behind:\n" + "\n".join(map(stack_of, left))
