"""A signal handler that raises on the main worker leaves no lock taken that workers of the runtime need."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from tests.actors.breaking_off import broken_off
from treadle.actors import clock as clock_module
from treadle.actors import workers as workers_module
from treadle.actors.clock import Timers
from treadle.actors.workers import WorkerPool

if TYPE_CHECKING:
    from collections.abc import Callable

GUARD = 10
OURS = frozenset({clock_module.__file__, workers_module.__file__})
LOCKS_TOO = OURS | {threading.__file__}


def test_timers_go_on_wherever_the_setting_of_one_was_broken_off() -> None:
    timers = Timers()
    timers.after(3_600, lambda: None)  # it has its worker
    step = 1
    while broken_off(lambda: timers.after(3_600, lambda: None).cancel(), step, LOCKS_TOO):
        step += 1
        gone_off = threading.Event()
        threading.Thread(target=timers.after, args=(0, gone_off.set), daemon=True).start()
        assert gone_off.wait(GUARD), step
    timers.stop()
    assert step > 10


@pytest.mark.parametrize(("verb", "within"), [("submit", OURS), ("counts", LOCKS_TOO)])
def test_a_pool_goes_on_wherever_a_call_of_it_was_broken_off(verb: str, within: frozenset[str]) -> None:
    pool = WorkerPool(maximum=1)  # so that no worker is started where a call is broken off

    def job() -> threading.Event:
        ran = threading.Event()
        pool.submit("e-1", lambda: None, lambda _error: ran.set())
        return ran

    assert job().wait(GUARD)
    calls: dict[str, Callable[[], object]] = {
        "submit": job,
        "counts": pool.counts,
    }
    step = 1
    while broken_off(calls[verb], step, within):
        step += 1
        ran = threading.Event()
        threading.Thread(target=pool.submit, args=("e-3", ran.set, lambda _error: None), daemon=True).start()
        assert ran.wait(GUARD), step
    pool.close()
    assert step > 3
