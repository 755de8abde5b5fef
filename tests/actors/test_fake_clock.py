from __future__ import annotations

import math
import threading
from typing import Any

import pytest

from treadle.actors.clock import Clock, TimerService
from treadle.actors.fake_clock import FakeClock
from treadle.actors.reply import Reply
from treadle.protocol.errors import InvalidInput

GUARD = 60


def test_it_is_a_clock_and_drives_the_timers_that_it_makes() -> None:
    fake = FakeClock()
    clock: Clock = fake
    timers: TimerService = clock.timers()
    seen: list[float] = []
    timers.after(1, lambda: seen.append(fake.monotonic()))
    timers.at(2, lambda: seen.append(fake.monotonic()))
    fake.advance(3)

    assert seen == [1.0, 2.0]


def test_stopping_the_timers_of_one_runtime_leaves_those_of_the_next_alone() -> None:
    clock = FakeClock()
    first, second = clock.timers(), clock.timers()
    seen: list[str] = []
    first.after(1, lambda: seen.append("first"))
    second.after(1, lambda: seen.append("second"))
    first.stop()
    first.after(1, lambda: seen.append("too late"))
    clock.advance(2)

    assert seen == ["second"]


def test_time_runs_from_timer_to_timer_until_a_reply_is_there() -> None:
    clock = FakeClock()
    reply: Reply[float] = Reply()
    clock.after(1, lambda: clock.after(2, lambda: reply.set(clock.monotonic())))
    clock.after(9, lambda: None)

    assert clock.run_until(reply) == 3.0
    assert clock.monotonic() == 3.0


def test_time_does_not_run_for_what_no_timer_brings_about() -> None:
    with pytest.raises(TimeoutError, match="no reply and no timer"):
        FakeClock().run_until(Reply(), timeout=0)


def test_time_moves_only_when_told_to() -> None:
    clock = FakeClock(now_us=1_000)
    assert (clock.now_us(), clock.monotonic()) == (1_000, 0.0)
    clock.advance(1.5)

    assert (clock.now_us(), clock.monotonic()) == (1_501_000, 1.5)


def test_timers_go_off_in_order_each_at_its_own_time() -> None:
    clock = FakeClock()
    seen: list[tuple[str, float]] = []
    clock.after(2, lambda: seen.append(("second", clock.monotonic())))
    clock.after(1, lambda: seen.append(("first", clock.monotonic())))
    clock.after(1, lambda: seen.append(("also first", clock.monotonic())))
    clock.after(9, lambda: seen.append(("not yet", clock.monotonic())))

    assert clock.advance(3) == 3
    assert seen == [("first", 1.0), ("also first", 1.0), ("second", 2.0)]
    assert clock.monotonic() == 3.0
    assert clock.next_due() == 6.0


def test_timers_set_by_timers_go_off_in_the_same_advance() -> None:
    clock = FakeClock()
    seen: list[float] = []

    def again() -> None:
        seen.append(clock.monotonic())
        clock.after(1, again)

    clock.after(1, again)
    clock.advance(3)

    assert seen == [1.0, 2.0, 3.0]
    assert clock.pending() == 1


@pytest.mark.parametrize("seconds", [-1, math.nan, math.inf, -math.inf, 10**400, True, "1", None], ids=str)
def test_time_that_cannot_pass_is_refused_and_nothing_goes_off(seconds: Any) -> None:
    clock = FakeClock()
    timer = clock.after(0, lambda: None)

    with pytest.raises(InvalidInput, match="a finite number of at least 0") as refused:
        clock.advance(seconds)

    assert refused.value.code == "invalid_value"
    assert (timer.pending(), clock.monotonic()) == (True, 0)


def test_a_timer_due_now_goes_off_at_the_next_advance_by_nothing() -> None:
    clock = FakeClock()
    seen: list[int] = []
    clock.after(0, lambda: seen.append(1))
    assert seen == []

    assert clock.advance(0) == 1


def test_a_cancelled_timer_does_not_go_off() -> None:
    clock = FakeClock()
    timer = clock.after(1, lambda: 1 // 0)
    assert timer.cancel()

    assert clock.advance(5) == 0
    assert clock.next_due() is None


def test_a_call_that_fails_is_logged_and_the_next_goes_off(caplog: pytest.LogCaptureFixture) -> None:
    clock = FakeClock()
    clock.after(1, lambda: 1 // 0)
    clock.after(2, lambda: None)

    assert clock.advance(2) == 2
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt(), pytest.fail.Exception("out of time")], ids=repr)
def test_what_interrupts_a_test_ends_its_advance(interrupt: BaseException) -> None:
    clock = FakeClock()
    ran: list[str] = []

    def cut() -> None:
        raise interrupt

    clock.after(1, cut)
    clock.after(2, lambda: ran.append("later"))
    with pytest.raises(type(interrupt)):
        clock.advance(3)

    assert (ran, clock.monotonic(), clock.pending()) == ([], 1, 1)


def test_a_test_waits_for_timers_set_by_other_workers() -> None:
    clock = FakeClock()
    worker = threading.Thread(target=lambda: [clock.after(1, lambda: None) for _ in range(2)])
    worker.start()
    clock.wait_for_timers(2, timeout=GUARD)
    worker.join(GUARD)

    assert clock.pending() == 2
    with pytest.raises(TimeoutError, match="2 timers pending, not 3"):
        clock.wait_for_timers(3, timeout=0)


def test_stopping_drops_all_timers() -> None:
    clock = FakeClock()
    clock.after(1, lambda: None)
    clock.stop()
    clock.after(1, lambda: None)

    assert clock.advance(2) == 0
