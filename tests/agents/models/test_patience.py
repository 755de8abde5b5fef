"""How long one awaitable may take; what it means for models is in test_calling.py: agents/models/patience.py."""

from __future__ import annotations

import asyncio

import pytest

from tests.agents.models.asking import turns
from treadle.actors.fake_clock import FakeClock
from treadle.agents.models.patience import Overdue, within


async def value(of: object) -> object:
    return of


def test_what_is_there_at_once_needs_no_timer() -> None:
    clock = FakeClock()

    assert asyncio.run(within(value(1), 5, clock)) == 1
    assert clock.pending() == 0


def test_what_comes_in_time_is_returned_and_its_timer_dropped() -> None:
    clock = FakeClock()

    async def play() -> object:
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        task = asyncio.ensure_future(within(future, 5, clock))
        await turns()
        clock.advance(4)
        future.set_result(2)
        return await task

    assert asyncio.run(play()) == 2
    assert clock.pending() == 0


def test_what_fails_in_time_fails_as_it_did() -> None:
    async def fail() -> None:
        await turns(2)
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        asyncio.run(within(fail(), 5, FakeClock()))


def test_what_does_not_come_is_cancelled_and_cleans_up_first() -> None:
    clock, log = FakeClock(), []

    async def hang() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await turns(2)
            log.append("clean")

    async def play() -> None:
        task = asyncio.ensure_future(within(hang(), 5, clock))
        await turns()
        clock.advance(5)
        with pytest.raises(Overdue):
            await task

    asyncio.run(play())

    assert log == ["clean"]


@pytest.mark.parametrize("value_first", [True, False])
def test_what_comes_as_its_time_is_over_counts_by_which_was_first(value_first: bool) -> None:
    clock = FakeClock()

    async def play() -> object:
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        task = asyncio.ensure_future(within(future, 5, clock))
        await turns()
        steps = [lambda: future.set_result(3), lambda: clock.advance(5)]
        for step in steps if value_first else reversed(steps):
            step()
        try:
            return await task
        except Overdue:
            return "overdue"

    assert asyncio.run(play()) == (3 if value_first else "overdue")


def test_a_time_limit_that_is_over_after_its_loop_closed_harms_nobody() -> None:
    clock = FakeClock()

    async def hang() -> None:
        await asyncio.get_running_loop().create_future()

    loop = asyncio.new_event_loop()
    task = loop.create_task(within(hang(), 5, clock))
    loop.run_until_complete(turns(2))
    loop.close()

    assert clock.advance(5) == 1
    task._log_destroy_pending = False  # type: ignore[attr-defined]
