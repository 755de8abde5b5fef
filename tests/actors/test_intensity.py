"""Tests actors/intensity.py: at most so many failures in so many seconds, and a pause that doubles after each."""

from __future__ import annotations

from treadle.actors.intensity import Intensity, retry_delay
from treadle.protocol.limits import RETRY_FIRST_S, RETRY_LAST_S


def test_one_more_than_the_maximum_within_the_window_is_one_too_many() -> None:
    intensity = Intensity(3, 60)

    assert [intensity.exceeded(at) for at in (0.0, 1.0, 2.0, 3.0)] == [False, False, False, True]


def test_a_failure_is_forgotten_once_it_is_a_window_old() -> None:
    intensity = Intensity(2, 10)

    assert [intensity.exceeded(at) for at in (0.0, 9.9, 10.0, 10.1, 19.9, 20.2)] == [
        False,
        False,
        False,
        True,
        True,
        False,
    ]
    assert not intensity.exceeded(40.0)


def test_none_at_all_may_be_allowed() -> None:
    assert Intensity(0, 60).exceeded(0.0)


def test_a_delay_doubles_up_to_the_last_and_stays_there_for_ever() -> None:
    delays = [retry_delay(attempts) for attempts in range(1, 10_000)]

    assert delays[:3] == [RETRY_FIRST_S, 2 * RETRY_FIRST_S, 4 * RETRY_FIRST_S]
    assert delays == sorted(delays)
    assert delays[-1] == RETRY_LAST_S
