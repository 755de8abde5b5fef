"""Owns the proof of treadle.storage.growth_lock: readers together, the mover alone, nobody waits for itself."""

from __future__ import annotations

import logging
import threading

import pytest

from treadle.protocol.errors import StoreClosed
from treadle.storage import growth_lock
from treadle.storage.growth_lock import GrowthLock

from .driving import PATIENCE_S


class Worker:
    """Runs one call on a worker of its own and tells when it has begun and ended."""

    def __init__(self, *calls: object) -> None:
        self.error: BaseException | None = None
        self.done = threading.Event()
        self._thread = threading.Thread(target=self._run, args=calls, daemon=True)
        self._thread.start()

    def _run(self, *calls: object) -> None:
        try:
            for call in calls:
                call()  # type: ignore[operator]
        except BaseException as error:
            self.error = error
        self.done.set()

    def finish(self) -> None:
        assert self.done.wait(PATIENCE_S)
        self._thread.join(PATIENCE_S)


class Watched(GrowthLock):
    """Tells whenever a worker is about to wait; it holds the lock until it does, so the next call comes after that."""

    def __init__(self, readers_max: int) -> None:
        super().__init__(readers_max)
        self.waits = threading.Semaphore(0)

    def _wait(self, queue: threading.Condition, seconds: float | None = None) -> bool:
        self.waits.release()
        return super()._wait(queue, seconds)

    def wait_for_waiting(self) -> None:
        assert self.waits.acquire(timeout=PATIENCE_S)


def test_readers_share_and_a_worker_may_enter_again() -> None:
    lock = Watched(2)
    mine = [lock.enter(), lock.enter(), lock.enter()]
    other = Worker(lambda: lock.leave(lock.enter()))
    other.finish()

    for one in mine:
        lock.leave(one)
    assert lock._held == {}


def test_one_reader_too_many_waits_for_another_to_leave() -> None:
    lock = Watched(1)
    mine = lock.enter()
    other = Worker(lambda: lock.leave(lock.enter()))
    lock.wait_for_waiting()
    assert not other.done.is_set()

    lock.leave(mine)

    other.finish()
    assert other.error is None


def test_a_reader_whose_waking_was_broken_off_looks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growth_lock, "_LOOK_AGAIN_S", 0.01)
    lock = Watched(1)
    mine = lock.enter()
    other = Worker(lambda: lock.leave(lock.enter()))
    lock.wait_for_waiting()

    def broken_off() -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as handler:
        handler.setattr(lock._room, "notify", broken_off)
        with pytest.raises(KeyboardInterrupt):
            lock.leave(mine)

    other.finish()
    assert other.error is None


def test_the_mover_waits_for_readers_and_new_readers_wait_for_the_mover() -> None:
    lock = Watched(9)
    order: list[str] = []
    mine = lock.enter()
    mover = Worker(lock.seize, lambda: order.append("moved"), lock.release)
    lock.wait_for_waiting()
    reader = Worker(lock.enter, lambda: order.append("read"))
    lock.wait_for_waiting()
    assert order == []

    order.append("left")
    lock.leave(mine)

    mover.finish()
    reader.finish()
    assert order == ["left", "moved", "read"]


def test_a_worker_that_reads_already_enters_again_though_a_mover_waits() -> None:
    lock = Watched(9)
    outer = lock.enter()
    mover = Worker(lock.seize, lock.release)
    lock.wait_for_waiting()

    inner = lock.enter()

    lock.leave(inner)
    assert not mover.done.is_set()
    lock.leave(outer)
    mover.finish()


def test_new_readers_are_held_off_and_those_inside_are_not_waited_for() -> None:
    lock = Watched(9)
    inside = lock.enter()
    lock.hold_off()
    reader = Worker(lambda: lock.leave(lock.enter()))
    lock.wait_for_waiting()
    lock.leave(inside)
    assert not reader.done.is_set()

    lock.release()
    reader.finish()


def test_movers_take_turns() -> None:
    lock = Watched(9)
    lock.seize()
    other = Worker(lock.seize, lock.release)
    lock.wait_for_waiting()
    assert not other.done.is_set()

    lock.release()

    other.finish()


def test_a_mover_with_limited_patience_goes_on_without_the_last_reader(caplog: pytest.LogCaptureFixture) -> None:
    lock = Watched(9)
    held = threading.Event()
    reader = Worker(lock.enter, held.set)
    assert held.wait(PATIENCE_S)

    with caplog.at_level(logging.WARNING, "treadle.storage"):
        assert lock.seize(0.001) is False

    reader.finish()
    assert "hold up the store" in caplog.text


def test_after_closing_everyone_is_turned_away_those_that_wait_too() -> None:
    lock = Watched(1)
    lock.seize()
    reader = Worker(lock.enter)
    lock.wait_for_waiting()

    lock.release(StoreClosed("closed"))

    reader.finish()
    assert isinstance(reader.error, StoreClosed)
    for call in (lock.enter, lock.seize):
        with pytest.raises(StoreClosed):
            call()
    assert lock._held == {}


def test_a_forked_child_turns_everyone_away_even_if_the_lock_was_held_at_the_fork() -> None:
    lock = Watched(1)
    lock._lock.acquire()

    lock.orphan(StoreClosed("the parent's"))

    with pytest.raises(StoreClosed):
        lock.enter()
