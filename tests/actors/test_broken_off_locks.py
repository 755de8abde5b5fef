"""A signal handler that raises on the main worker leaves no lock taken that workers of the runtime need."""

from __future__ import annotations

import contextlib
import functools
import threading
from typing import TYPE_CHECKING

import pytest

from tests.actors.breaking_off import broken_off
from treadle.actors import clock as clock_module
from treadle.actors import workers as workers_module
from treadle.actors.clock import Timers
from treadle.actors.reply import Reply
from treadle.actors.workers import WorkerPool
from treadle.protocol.errors import NoWorker

if TYPE_CHECKING:
    from collections.abc import Callable

GUARD = 10
LOCKS_TOO = frozenset({clock_module.__file__, workers_module.__file__, threading.__file__})


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


def ran_on(pool: WorkerPool) -> threading.Event:
    ran = threading.Event()
    pool.submit("e-1", lambda: None, lambda _error: ran.set())
    return ran


@pytest.mark.parametrize("verb", ["submit", "counts"])
def test_a_pool_goes_on_wherever_a_call_of_it_was_broken_off(verb: str) -> None:
    pool = WorkerPool(maximum=1)  # so that no worker is started where a call is broken off
    assert ran_on(pool).wait(GUARD)
    calls: dict[str, Callable[[], object]] = {"submit": lambda: ran_on(pool), "counts": pool.counts}
    step = 1
    while broken_off(calls[verb], step, LOCKS_TOO):
        step += 1
        ran = threading.Event()
        threading.Thread(target=pool.submit, args=("e-3", ran.set, lambda _error: None), daemon=True).start()
        assert ran.wait(GUARD), step
    pool.close()
    assert step > 3


def test_every_idle_worker_is_reached_wherever_a_submit_was_broken_off() -> None:
    pool = WorkerPool(maximum=2)

    def meet() -> bool:
        """Have both workers run one job each, neither of which ends without the other."""
        meeting = threading.Barrier(2)
        met: Reply[int] = Reply()
        for _ in range(2):
            pool.submit("e-2", lambda: met.set(meeting.wait(GUARD)), lambda error: error and met.fail(error))
        met.result(GUARD)
        return True

    step = 1
    while meet() and broken_off(lambda: ran_on(pool), step, LOCKS_TOO):
        step += 1
    pool.close()
    assert step > 10


def test_a_pool_has_its_worker_wherever_the_start_of_one_was_broken_off() -> None:
    step, more = 1, True
    while more:
        # Python's own start of an OS thread may leave a lock taken that this one waits for, for ever: not by our name.
        pool = WorkerPool(maximum=1, name="broken-off")
        with contextlib.suppress(NoWorker):  # nor does Python always let the handler's error out
            more = broken_off(functools.partial(ran_on, pool), step, LOCKS_TOO)
        step += 1
        ran = threading.Event()
        threading.Thread(target=pool.submit, args=("e-3", ran.set, lambda _error: None), daemon=True).start()
        assert ran.wait(GUARD), step
        pool.close()
    assert step > 30
