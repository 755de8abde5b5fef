from __future__ import annotations

import asyncio
import threading
from functools import partial
from typing import TYPE_CHECKING

import pytest

from treadle.actors.burst import (
    Burst,
    burst_for,
    collect_wakes,
    forget_burst,
    register_burst,
    settle_wakes,
    stop_collecting,
)

if TYPE_CHECKING:
    from collections.abc import Callable

GUARD = 60


class Wakes(Burst):
    """Counts the wakes."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self.count = 0

    def wake(self) -> bool:
        self.count += 1
        return super().wake()


def test_many_calls_cost_one_wake_and_run_in_order() -> None:
    async def main() -> None:
        burst = Wakes(asyncio.get_running_loop())
        ran: list[int] = []
        for number in range(100):
            assert burst.submit(lambda number=number: ran.append(number))
        assert burst.count == 1
        await asyncio.sleep(0)
        assert ran == list(range(100))
        burst.submit(lambda: ran.append(-1))
        assert burst.count == 2
        await asyncio.sleep(0)
        assert ran[-1] == -1

    asyncio.run(main())


def test_no_call_of_several_producers_is_lost() -> None:
    producers, each = 4, 2_000

    async def main() -> None:
        burst = Burst(asyncio.get_running_loop())
        finished = asyncio.Event()
        seen: dict[int, list[int]] = {producer: [] for producer in range(producers)}

        def note(producer: int, number: int) -> None:
            seen[producer].append(number)
            if sum(map(len, seen.values())) == producers * each:
                finished.set()

        def produce(producer: int) -> None:
            for number in range(each):
                burst.submit(lambda number=number: note(producer, number))

        workers = [threading.Thread(target=produce, args=(producer,)) for producer in range(producers)]
        for worker in workers:
            worker.start()
        await asyncio.wait_for(finished.wait(), GUARD)
        for worker in workers:
            worker.join(GUARD)
        assert all(numbers == list(range(each)) for numbers in seen.values())

    asyncio.run(main())


def test_a_call_that_fails_takes_no_other_with_it(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> list[str]:
        burst = Burst(asyncio.get_running_loop())
        ran: list[str] = []
        burst.submit(lambda: 1 // 0)
        burst.submit(lambda: ran.append("second"))
        await asyncio.sleep(0)
        return ran

    assert asyncio.run(main()) == ["second"]
    assert "ZeroDivisionError" in caplog.text


def test_calls_behind_one_that_exits_run_when_the_loop_is_entered_again() -> None:
    loop = asyncio.new_event_loop()
    burst = Burst(loop)
    ran: list[str] = []

    def leave() -> None:
        raise SystemExit

    burst.submit(leave)
    burst.submit(lambda: ran.append("behind"))
    with pytest.raises(SystemExit):
        loop.run_forever()
    burst.submit(loop.stop)
    loop.run_forever()
    loop.close()

    assert ran == ["behind"]


def test_a_loop_with_endless_calls_still_comes_to_its_own() -> None:
    async def main() -> None:
        burst = Burst(asyncio.get_running_loop())

        def again() -> None:
            burst.submit(again)

        again()
        for _ in range(10):
            await asyncio.sleep(0)  # would never return if a drain took what came meanwhile

    asyncio.run(asyncio.wait_for(main(), GUARD))


def test_a_closed_loop_answers_false_and_keeps_nothing() -> None:
    loop = asyncio.new_event_loop()
    burst = Burst(loop)
    assert burst.submit(print)
    loop.close()

    calls: list[Callable[[], object]] = [print, print]
    assert [burst.submit(call) for call in calls] == [False, False]
    assert not burst.wake()
    assert not burst.pending


def test_a_lost_wake_is_healed_by_the_next_wake() -> None:
    async def main() -> list[int]:
        burst = Burst(asyncio.get_running_loop())
        ran: list[int] = []
        burst.woken = True  # as a KeyboardInterrupt between raising the flag and waking leaves it
        burst.submit(lambda: ran.append(1))
        await asyncio.sleep(0)
        assert ran == []
        burst.wake()
        await asyncio.sleep(0)
        return ran

    assert asyncio.run(main()) == [1]


def test_a_loop_has_one_burst_until_it_is_forgotten() -> None:
    loop = asyncio.new_event_loop()
    try:
        assert burst_for(loop) is None
        first = register_burst(loop)
        assert register_burst(loop) is first is burst_for(loop)
        forget_burst(loop)
        forget_burst(loop)
        assert burst_for(loop) is None
    finally:
        loop.close()


def test_a_worker_that_collects_owes_one_wake_a_loop_and_gives_it_when_it_settles() -> None:
    async def main() -> None:
        burst = Wakes(asyncio.get_running_loop())
        ran: list[int] = []
        owed = collect_wakes()
        try:
            for number in range(3):
                assert burst.submit(partial(ran.append, number))
            assert (burst.count, owed) == (0, [burst])
            await asyncio.sleep(0)
            assert ran == []
            settle_wakes(owed)
            await asyncio.sleep(0)
            assert (burst.count, owed, ran) == (1, [], [0, 1, 2])
        finally:
            stop_collecting()
        burst.submit(lambda: ran.append(-1))
        assert burst.count == 2

    asyncio.run(main())


def test_only_the_worker_that_collects_holds_its_wakes_back() -> None:
    async def main() -> None:
        burst = Wakes(asyncio.get_running_loop())
        collect_wakes()
        try:
            other = threading.Thread(target=lambda: burst.submit(lambda: None))
            other.start()
            other.join(GUARD)
            assert burst.count == 1
        finally:
            stop_collecting()

    asyncio.run(main())


def test_a_worker_that_stops_collecting_gives_what_it_owes() -> None:
    async def main() -> None:
        burst = Wakes(asyncio.get_running_loop())
        collect_wakes()
        burst.submit(lambda: None)
        assert burst.count == 0
        stop_collecting()
        assert burst.count == 1

    asyncio.run(main())


def test_a_closed_loop_is_told_of_at_once_also_where_wakes_are_collected() -> None:
    loop = asyncio.new_event_loop()
    burst = Burst(loop)
    loop.close()
    collect_wakes()
    try:
        assert not burst.submit(lambda: None)
    finally:
        stop_collecting()
