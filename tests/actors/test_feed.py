from __future__ import annotations

import asyncio
import gc
import threading
from collections import deque
from typing import TYPE_CHECKING

import pytest

from tests.actors.publishing import World
from treadle.actors.feed import Feed, Pause
from treadle.actors.reply import forbid_blocking
from treadle.actors.wakeups import Wakeups
from treadle.protocol.errors import InvalidInput, WouldBlock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

GUARD = 60


class Signalling(Wakeups):
    """Says when a reader sleeps."""

    def __init__(self) -> None:
        super().__init__()
        self.asleep = threading.Event()

    def enlist(self, version: int, wake: Callable[[], object]) -> bool:
        enlisted = super().enlist(version, wake)
        if enlisted:
            self.asleep.set()
        return enlisted


class Numbers(Feed[int]):
    """Delivers what is put in, until -1."""

    def __init__(self, world: World) -> None:
        super().__init__(world.hub)
        self.wakeups = Signalling()
        self.queue: deque[int] = deque()
        self.left = 0

    def put(self, *numbers: int) -> None:
        with self.wakeups.lock:
            self.queue.extend(numbers)
            self.wakeups.version += 1
        self.wakeups.wake()

    def sleeping(self) -> None:
        """Wait until the reader sleeps."""
        assert self.wakeups.asleep.wait(GUARD)
        self.wakeups.asleep.clear()

    def _step(self) -> int | Pause:
        if self._closed:
            return Pause.END
        self.version = self.wakeups.version
        if not self.queue:
            return Pause.WAIT
        number = self.queue.popleft()
        if number == -1:
            return Pause.END
        if number == -2:
            raise ValueError("the store is away")
        return number

    def _source(self) -> tuple[Wakeups, int]:
        return self.wakeups, self.version

    def _leave(self) -> None:
        self.left += 1


@pytest.fixture
def numbers() -> Iterator[Numbers]:
    world = World()
    yield Numbers(world)
    world.close()


def later(call: Callable[..., object], *arguments: object) -> threading.Thread:
    worker = threading.Thread(target=call, args=arguments)
    worker.start()
    return worker


def test_a_for_loop_takes_all_and_ends(numbers: Numbers) -> None:
    numbers.put(1, 2, 3, -1)

    assert list(numbers) == [1, 2, 3]
    assert numbers.next() is None
    assert list(numbers) == []


def test_an_async_for_loop_takes_all_and_ends(numbers: Numbers) -> None:
    async def main() -> list[int]:
        async with numbers as feed:
            return [number async for number in feed]

    numbers.put(1, 2, 3, -1)

    assert asyncio.run(main()) == [1, 2, 3]
    assert numbers.left


def test_one_feed_may_be_read_here_and_then_there(numbers: Numbers) -> None:
    async def one() -> int:
        return await anext(numbers)

    numbers.put(1, 2, 3, 4)

    assert [numbers.next(), asyncio.run(one()), asyncio.run(one()), next(numbers)] == [1, 2, 3, 4]


def test_a_sleeping_worker_is_woken_by_what_comes(numbers: Numbers) -> None:
    def produce() -> None:
        for number in (1, 2, 3, -1):
            numbers.sleeping()
            numbers.put(number)

    worker = later(produce)
    assert list(numbers) == [1, 2, 3]
    worker.join(GUARD)


def test_a_sleeping_task_is_woken_by_what_comes_on_another_worker(numbers: Numbers) -> None:
    def produce() -> None:
        for number in (1, 2, 3, -1):
            numbers.sleeping()
            numbers.put(number)

    async def main() -> list[int]:
        worker = later(produce)
        found = [number async for number in numbers]
        worker.join(GUARD)
        return found

    assert asyncio.run(main()) == [1, 2, 3]


def test_a_timeout_loses_nothing(numbers: Numbers) -> None:
    with pytest.raises(TimeoutError, match="no frame within 0"):
        numbers.next(timeout=0)
    with pytest.raises(TimeoutError, match=r"no frame within 0\.001"):
        numbers.next(timeout=0.001)
    numbers.put(1)

    assert numbers.next(timeout=0) == 1
    assert not numbers.wakeups._sleepers


def test_waiting_on_the_worker_of_a_loop_is_refused_but_looking_is_not(numbers: Numbers) -> None:
    async def main() -> None:
        with pytest.raises(WouldBlock, match="async for"):
            numbers.next()
        with pytest.raises(TimeoutError):
            numbers.next(timeout=0)
        numbers.put(5)
        assert numbers.next() == 5

    asyncio.run(main())


def test_waiting_on_a_worker_of_the_runtime_is_refused(numbers: Numbers) -> None:
    caught: list[BaseException] = []

    def read() -> None:
        forbid_blocking()
        try:
            numbers.next()
        except WouldBlock as error:
            caught.append(error)

    later(read).join(GUARD)

    assert len(caught) == 1


def test_a_cancelled_reader_loses_nothing_and_leaves_no_sleeper(numbers: Numbers) -> None:
    async def main() -> list[int]:
        task = asyncio.ensure_future(anext(numbers))
        await asyncio.sleep(0)
        assert numbers.wakeups._sleepers
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not numbers.wakeups._sleepers
        # Woken and cancelled before it came to run: what woke it must still be there.
        task = asyncio.ensure_future(anext(numbers))
        await asyncio.sleep(0)
        numbers.put(1, 2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return [await anext(numbers), await anext(numbers)]

    assert asyncio.run(main()) == [1, 2]


def test_two_readers_at_once_are_refused(numbers: Numbers) -> None:
    async def main() -> None:
        task = asyncio.ensure_future(anext(numbers))
        await asyncio.sleep(0)
        with pytest.raises(InvalidInput, match="another worker or task") as caught:
            await anext(numbers)
        assert caught.value.code == "already_reading"
        with pytest.raises(InvalidInput):
            numbers.next(timeout=0)
        numbers.put(1)
        assert await task == 1

    asyncio.run(main())


def test_closing_ends_a_reader_that_sleeps(numbers: Numbers) -> None:
    def close() -> None:
        numbers.sleeping()
        numbers.close()

    worker = later(close)

    assert list(numbers) == []
    worker.join(GUARD)


def test_closing_ends_a_task_that_sleeps(numbers: Numbers) -> None:
    async def main() -> list[int]:
        task = asyncio.ensure_future(read())
        await asyncio.sleep(0)
        numbers.close()
        return await asyncio.wait_for(task, GUARD)

    async def read() -> list[int]:
        return [number async for number in numbers]

    assert asyncio.run(main()) == []


def test_closing_between_the_look_and_the_sleep_is_seen(numbers: Numbers) -> None:
    step = numbers._step

    def stepping() -> int | Pause:
        found = step()
        if found is Pause.WAIT:
            Feed.close(numbers)
        return found

    numbers._step = stepping  # type: ignore[method-assign]

    assert list(numbers) == []

    async def read() -> list[int]:
        return [number async for number in numbers]

    numbers._closed = False

    assert asyncio.run(read()) == []


def test_an_error_leaves_the_feed_where_it_stands(numbers: Numbers) -> None:
    numbers.put(1, -2, 3)

    assert numbers.next() == 1
    with pytest.raises(ValueError, match="away"):
        numbers.next()
    assert numbers.next() == 3


def test_a_backlog_leaves_the_loop_to_others_from_time_to_time(numbers: Numbers) -> None:
    async def main() -> list[int]:
        turns: list[int] = []
        taken = 0

        async def other() -> None:
            while True:
                turns.append(taken)
                await asyncio.sleep(0)

        task = asyncio.ensure_future(other())
        async for taken in numbers:
            if taken == 300:
                break
        task.cancel()
        return turns

    numbers.put(*range(1, 301))

    assert asyncio.run(main()) == [64, 128, 192, 256]


def test_a_feed_that_nobody_holds_any_more_is_closed() -> None:
    world = World()
    left: list[int] = []

    class Counted(Numbers):
        def _leave(self) -> None:
            left.append(1)

    feed = Counted(world)
    feed.put(1)
    assert feed.next() == 1
    del feed
    gc.collect()

    assert left == [1]
    world.close()


def test_a_feed_made_with_wrong_arguments_is_collected_in_silence() -> None:
    with pytest.raises(TypeError):
        Numbers()  # type: ignore[call-arg]
    gc.collect()


def test_readers_on_one_foreign_loop_share_its_burst_as_long_as_they_live() -> None:
    world = World()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        one, two = Numbers(world), Numbers(world)
        tasks = [asyncio.ensure_future(anext(feed)) for feed in (one, two)]
        await asyncio.sleep(0)
        assert one._burst is two._burst is world.hub.burst(loop)
        one.put(1)
        two.put(2)
        assert await asyncio.gather(*tasks) == [1, 2]
        one.close()
        two.close()
        await asyncio.sleep(0)
        assert not world.hub._bursts

    asyncio.run(main())
    world.close()
