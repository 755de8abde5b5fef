from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

from treadle.actors.wakeups import LoopWaker, Wakeups, WeakBurst

if TYPE_CHECKING:
    import pytest

GUARD = 60


def test_a_sleeper_is_woken_once_and_only_by_the_next_wake() -> None:
    wakeups = Wakeups()
    woken: list[int] = []
    assert wakeups.enlist(0, lambda: woken.append(1))

    wakeups.wake()
    wakeups.wake()

    assert woken == [1]


def test_who_has_not_seen_the_newest_version_is_turned_away() -> None:
    wakeups = Wakeups()
    with wakeups.lock:
        wakeups.version += 1

    assert not wakeups.enlist(0, print)
    assert wakeups.enlist(1, print)


def test_a_sleeper_that_left_is_not_woken() -> None:
    wakeups = Wakeups()
    woken: list[int] = []

    def wake() -> None:
        woken.append(1)

    wakeups.enlist(0, wake)
    wakeups.delist(wake)
    wakeups.delist(wake)
    wakeups.wake()

    assert woken == []


def test_a_waker_that_raises_keeps_no_other_asleep(caplog: pytest.LogCaptureFixture) -> None:
    wakeups = Wakeups()
    woken: list[int] = []
    wakeups.enlist(0, lambda: 1 // 0)
    wakeups.enlist(0, lambda: woken.append(1))

    wakeups.wake()

    assert woken == [1]
    assert "Waking a reader failed" in caplog.text


def test_no_wake_is_lost_between_looking_and_sleeping() -> None:
    wakeups = Wakeups()
    rounds = 2_000
    seen: list[int] = []

    def read() -> None:
        version = 0
        while version < rounds:
            woken = threading.Event()
            if wakeups.enlist(version, woken.set):
                assert woken.wait(GUARD)
            version = wakeups.version
            seen.append(version)

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(rounds):
        with wakeups.lock:
            wakeups.version += 1
        wakeups.wake()
    reader.join(GUARD)

    assert not reader.is_alive()
    assert seen == sorted(set(seen))


def test_a_reader_is_woken_on_its_loop_and_a_closed_loop_is_no_error() -> None:
    wakeups = Wakeups()

    async def main() -> LoopWaker:
        loop = asyncio.get_running_loop()
        waker = LoopWaker(loop.create_future(), WeakBurst(loop))
        wakeups.enlist(0, waker)
        threading.Thread(target=wakeups.wake).start()
        await asyncio.wait_for(waker.future, GUARD)
        late = LoopWaker(loop.create_future(), WeakBurst(loop))
        late.future.cancel()
        late()
        await asyncio.sleep(0)
        return late

    left = asyncio.run(main())

    left()
