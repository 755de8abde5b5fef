"""Holds treadle.actors.bell: who waits is woken by each change, and a handler that raises leaves nothing behind."""

from __future__ import annotations

import threading

import pytest

from tests.actors.breaking_off import broken_off
from treadle.actors import bell as bell_module
from treadle.actors.bell import Bell

GUARD = 60
THIS = {bell_module.__file__, threading.__file__}


def test_who_waits_looks_again_at_each_ring() -> None:
    bell = Bell()
    looks: list[int] = []
    looked, third = threading.Event(), threading.Event()

    def there() -> bool:
        looks.append(len(looks))
        looked.set()
        return len(looks) == 3

    def wait() -> None:
        if bell.wait_until(there, GUARD):
            third.set()

    worker = threading.Thread(target=wait, daemon=True)
    worker.start()
    for _ in range(2):
        assert looked.wait(GUARD)
        looked.clear()
        bell.ring()

    assert third.wait(GUARD)
    worker.join(GUARD)
    assert looks == [0, 1, 2]
    assert len(bell) == 0


def test_what_is_there_already_is_not_waited_for() -> None:
    assert Bell().wait_until(lambda: True, 0)


@pytest.mark.parametrize("timeout", [0, -1, 0.001])
def test_the_guard_ends_a_wait_and_says_what_the_last_look_said(timeout: float) -> None:
    bell = Bell()
    answers = iter([False, True])

    assert not bell.wait_until(lambda: False, timeout)
    assert bell.wait_until(lambda: next(answers), timeout)
    assert len(bell) == 0


def test_rings_that_nobody_heard_are_one() -> None:
    bell = Bell()
    bell.ring()
    looks: list[int] = []

    def there() -> bool:
        looks.append(len(looks))
        if len(looks) == 1:
            for _ in range(100):
                bell.ring()
        return False

    assert not bell.wait_until(there, 0)
    assert looks == [0, 1, 2]


def test_a_handler_that_raises_leaves_no_wait_listed() -> None:
    bell = Bell()
    step = 1
    while broken_off(lambda: bell.wait_until(lambda: False, 0), step, THIS):
        step += 1
        assert len(bell) == 0, step
    assert step > 5
