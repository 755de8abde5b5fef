"""A signal handler that raises on the main worker leaves no lock taken that workers of the runtime need."""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
import traceback
from collections.abc import Callable

import pytest

from tests.actors.breaking_off import broken_off
from treadle.actors import bell as bell_module
from treadle.actors import clock as clock_module
from treadle.actors import fake_clock as fake_clock_module
from treadle.actors import workers as workers_module
from treadle.actors.clock import Timers
from treadle.actors.fake_clock import FakeClock
from treadle.actors.reply import Reply
from treadle.actors.workers import WorkerPool
from treadle.agents.testing import Pause, ScriptedModel
from treadle.agents.testing import scripted_model as scripted_module
from treadle.protocol.errors import NoWorker

GUARD = 10
LOCKS_TOO = frozenset({clock_module.__file__, workers_module.__file__, threading.__file__})


def goes_off(timers: Timers, seconds: float) -> bool:
    """Set a timer from another worker, since a lock may be left taken here, and say whether it comes."""
    gone_off = threading.Event()
    threading.Thread(target=timers.after, args=(seconds, gone_off.set), daemon=True).start()
    return gone_off.wait(GUARD)


def test_timers_go_on_wherever_the_setting_of_one_was_broken_off() -> None:
    timers = Timers()
    timers.after(3_600, lambda: None)  # it has its worker
    step = 1
    while broken_off(lambda: timers.after(3_600, lambda: None).cancel(), step, LOCKS_TOO):
        step += 1
        assert goes_off(timers, 0), step
    timers.stop()
    assert step > 10


def ran_on(pool: WorkerPool) -> threading.Event:
    ran = threading.Event()
    pool.submit("e-1", lambda: None, lambda _error: ran.set())
    return ran


def test_a_later_timer_is_not_held_up_by_an_earlier_one_whose_setting_was_broken_off() -> None:
    timers = Timers()
    timers.after(3_600, lambda: None)  # until then its worker sleeps
    step = 1
    while broken_off(lambda: timers.after(0.01, lambda: None), step, LOCKS_TOO):
        step += 1
        # Due behind the other one, if that was set: then nobody wakes the worker for this one.
        assert goes_off(timers, 0.02), step
    timers.stop()
    assert step > 5


def test_timers_have_one_worker_wherever_the_start_of_it_was_broken_off() -> None:
    step, more = 1, True
    while more:
        timers = Timers()
        with contextlib.suppress(RuntimeError):  # Python does not always let the handler's error out of a start
            more = broken_off(functools.partial(timers.after, 3_600, lambda: None), step, LOCKS_TOO)
        step += 1
        ran: Reply[threading.Thread] = Reply()
        set_by = threading.Thread(target=timers.after, args=(0, lambda ran=ran: ran.set(threading.current_thread())))
        set_by.start()
        worker = ran.result(GUARD)
        set_by.join(GUARD)
        timers.stop()
        assert not worker.is_alive(), step
        for left in threading.enumerate():
            if left.name == "treadle-timers":
                frame = sys._current_frames().get(left.ident or 0)
                if any(at.f_code is Timers._work.__code__ for at, _line in traceback.walk_stack(frame)):
                    left.join(GUARD)
                    assert not left.is_alive(), step
                left.name = "broken-off"  # Python's own start left a lock taken that it waits for
    assert step > 30


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


CALLS: dict[str, Callable[[FakeClock], object]] = {
    "after": lambda clock: clock.after(9, lambda: None).cancel(),
    "advance": lambda clock: clock.advance(1),
    "now_us": FakeClock.now_us,
    "next_due": FakeClock.next_due,
    "wait_for_timers": lambda clock: clock.wait_for_timers(10_000, timeout=0),
    "run_until": lambda clock: clock.run_until(Reply(), timeout=0),
}


@pytest.mark.parametrize("verb", CALLS)
def test_a_fake_clock_goes_on_wherever_a_call_of_it_was_broken_off(verb: str) -> None:
    clock = FakeClock()
    within = {fake_clock_module.__file__, bell_module.__file__, threading.__file__}
    step, more = 1, True
    while more:
        with contextlib.suppress(TimeoutError):
            more = False
            more = broken_off(lambda: CALLS[verb](clock), step, within)
        step += 1
        gone_off = threading.Event()
        clock.after(0, gone_off.set)
        # On another worker: this one may have kept a lock, which it would be let in by.
        threading.Thread(target=clock.advance, args=(0,), daemon=True).start()
        assert gone_off.wait(GUARD), step
        assert not len(clock._bell), step
    assert step > 3


def test_a_scripted_model_goes_on_wherever_a_wait_for_it_was_broken_off() -> None:
    model, pause = ScriptedModel(), Pause()
    within = {scripted_module.__file__, bell_module.__file__, threading.__file__}
    for wait in (model.next, model.wait_closed, pause.reached):
        step, more = 1, True
        while more:
            with contextlib.suppress(AssertionError):
                more = False
                more = broken_off(lambda wait=wait: wait(timeout=0), step, within)  # type: ignore[misc]
            step += 1
            others = threading.Thread(target=lambda: (model.add(), pause.release()), daemon=True)
            others.start()
            others.join(GUARD)
            assert not others.is_alive(), step
        assert step > 3
