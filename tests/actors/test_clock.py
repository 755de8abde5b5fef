from __future__ import annotations

import threading
import time

import pytest

from treadle.actors.clock import SystemClock, TimerHeap, Timers
from treadle.actors.reply import Reply
from treadle.protocol.errors import WouldBlock

GUARD = 60


def test_the_system_clock_reads_wall_and_monotonic_time() -> None:
    clock = SystemClock()
    before, after = clock.monotonic(), clock.monotonic()

    assert before <= after
    assert abs(clock.now_us() - time.time() * 1e6) < 60e6


def test_timers_go_off_in_the_order_in_which_they_are_due() -> None:
    timers = SystemClock().timers()
    ran: list[str] = []
    done = threading.Event()
    now = time.monotonic()
    timers.at(now + 0.02, done.set)
    timers.at(now + 0.01, lambda: ran.append("b"))
    timers.at(now - 1, lambda: ran.append("past"))
    timers.at(now + 0.01, lambda: ran.append("c"))
    assert done.wait(GUARD)
    timers.stop()

    assert ran == ["past", "b", "c"]


def test_an_earlier_timer_set_later_wakes_the_worker() -> None:
    timers = Timers()
    timers.after(3600, lambda: None)
    done = threading.Event()
    timers.after(0, done.set)

    assert done.wait(GUARD)
    timers.stop()


def test_a_timer_beyond_what_the_system_can_count_waits() -> None:
    timers = Timers()
    timers.after(1e300, lambda: None)
    done = threading.Event()
    timers.after(0, done.set)

    assert done.wait(GUARD)
    timers.stop()


def test_a_cancelled_timer_does_not_go_off_and_cancelling_tells_who_was_first() -> None:
    timers = Timers()
    ran: list[str] = []
    cancelled = timers.after(0.01, lambda: ran.append("cancelled"))
    assert cancelled.cancel()
    assert not cancelled.cancel()
    done = threading.Event()
    fired = timers.after(0.02, done.set)
    assert done.wait(GUARD)
    timers.stop()

    assert ran == []
    assert not fired.cancel()


@pytest.mark.parametrize("error", [ValueError("boom"), SystemExit("boom")])
def test_a_call_that_fails_is_logged_and_the_next_goes_off(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    timers = Timers()
    done = threading.Event()

    def fail() -> None:
        raise error

    timers.after(0, fail)
    timers.after(0.001, done.set)
    assert done.wait(GUARD)
    timers.stop()

    assert "boom" in caplog.text


def test_blocking_on_the_timers_worker_is_refused() -> None:
    timers = Timers()
    caught: Reply[BaseException] = Reply()

    def block() -> None:
        try:
            Reply[int]().result(GUARD)
        except WouldBlock as error:
            caught.set(error)

    timers.after(0, block)
    assert isinstance(caught.result(GUARD), WouldBlock)
    timers.stop()


def test_stopping_drops_timers_and_takes_none_that_goes_off() -> None:
    timers = Timers()
    ran: list[int] = []
    timers.after(3600, lambda: ran.append(1))
    timers.stop()
    late = timers.after(0, lambda: ran.append(2))
    timers.stop()

    assert (len(timers), ran) == (0, [])
    assert late.cancel()


def test_stopping_from_a_timer_does_not_wait_for_itself() -> None:
    timers = Timers()
    done = threading.Event()
    timers.after(0, lambda: (timers.stop(), done.set()))

    assert done.wait(GUARD)


@pytest.mark.slow
def test_a_hundred_thousand_cancelled_timers_do_not_pile_up() -> None:
    timers = Timers()
    kept = [timers.after(3600, lambda: None) for _ in range(10)]
    for _ in range(100_000):
        timers.after(3600, lambda: None).cancel()

    assert len(timers) < 200
    assert all(timer.pending() for timer in kept)
    timers.stop()


def test_a_heap_counts_what_may_still_go_off() -> None:
    heap = TimerHeap()
    assert heap.first_due() is None
    assert heap.pop_due(10) is None
    assert heap.pending() == 0
