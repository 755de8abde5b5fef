from __future__ import annotations

import asyncio
import contextlib
import contextvars
import gc
import logging
import queue
import sys
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any

import pytest

from tests.actors.breaking_off import broken_off
from treadle.actors import loop_waiter
from treadle.actors import reply as reply_module
from treadle.actors.burst import forget_burst, register_burst
from treadle.actors.fence import ExecutionCancelled
from treadle.actors.reply import Reply, current_wait, forbid_blocking
from treadle.protocol.errors import ThreadNotFound, WouldBlock

if TYPE_CHECKING:
    from collections.abc import Callable

GUARD = 60


class Waiting:
    """A worker that blocks in `result()`, and says when it does."""

    def __init__(self, reply: Reply[Any], timeout: float | None = GUARD) -> None:
        self.entered = threading.Event()
        self.outcome: Any = None
        self.abort: Callable[[BaseException], object] | None = None
        self.left = 0
        self._reply, self._timeout = reply, timeout
        self._worker = threading.Thread(target=self._run, daemon=True)
        self._worker.start()
        assert self.entered.wait(GUARD)

    def enter(self, reply: Reply[Any], abort: Callable[[BaseException], object]) -> None:
        self.abort = abort
        self.entered.set()

    def leave(self, abort: Callable[[BaseException], object]) -> None:
        self.left += 1

    def _run(self) -> None:
        current_wait.set(self)
        try:
            self.outcome = self._reply.result(self._timeout)
        except BaseException as error:
            self.outcome = error

    def join(self) -> Any:
        self._worker.join(GUARD)
        assert not self._worker.is_alive()
        return self.outcome


def test_a_value_set_before_is_returned_at_once() -> None:
    reply: Reply[int] = Reply()
    assert not reply.done()
    assert reply.set(1)

    assert reply.done()
    assert reply.result() == reply.result(timeout=0) == 1


def test_a_worker_that_waits_gets_the_value_set_by_another() -> None:
    reply: Reply[int] = Reply()
    waiting = Waiting(reply)
    reply.set(7)

    assert waiting.join() == 7
    assert waiting.left == 1


def test_the_second_setting_is_ignored_whatever_the_first_was() -> None:
    reply: Reply[int] = Reply()
    assert [reply.set(1), reply.set(2), reply.fail(ValueError())] == [True, False, False]
    assert reply.result() == 1

    failed: Reply[int] = Reply()
    assert [failed.fail(KeyError()), failed.set(1), failed.fail(ValueError())] == [True, False, False]
    with pytest.raises(KeyError):
        failed.result()


def test_many_workers_setting_at_once_set_it_once() -> None:
    for _ in range(50):
        reply: Reply[int] = Reply()
        start = threading.Barrier(4)
        won: list[int] = []

        def race(number: int, reply: Reply[int] = reply, start: threading.Barrier = start, won: list = won) -> None:
            start.wait(GUARD)
            if reply.set(number):
                won.append(number)

        workers = [threading.Thread(target=race, args=(number,)) for number in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(GUARD)
        assert won == [reply.result()]


def test_an_error_is_raised_to_everyone_who_asks_and_its_traceback_does_not_grow() -> None:
    reply: Reply[int] = Reply()
    reply.fail(ThreadNotFound("no such thread"))
    depths = []
    for _ in range(3):
        with pytest.raises(ThreadNotFound) as raised:
            reply.result()
        depths.append(len(raised.traceback))

    assert len(set(depths)) == 1


def test_a_time_out_names_the_seconds_and_leaves_the_reply_usable() -> None:
    reply: Reply[int] = Reply()
    for timeout in (0, -1, 0.001):
        with pytest.raises(TimeoutError, match=str(timeout)):
            reply.result(timeout)
    assert reply._waiters == []

    reply.set(1)
    assert reply.result(0) == 1


def test_a_time_that_is_up_as_the_wait_begins_is_no_wait_for_ever() -> None:
    """A `SimpleQueue` of Python 3.11 counts what is left of it below zero, which is without end."""

    def wait() -> None:
        for _ in range(5_000):
            with contextlib.suppress(TimeoutError):
                Reply[int]().result(1e-7)

    worker = threading.Thread(target=wait, daemon=True)
    worker.start()
    worker.join(60)
    assert not worker.is_alive()


def test_a_time_out_beyond_what_the_system_can_count_waits() -> None:
    reply: Reply[int] = Reply()
    waiting = Waiting(reply, timeout=1e300)
    reply.set(3)

    assert waiting.join() == 3


def test_blocking_on_a_worker_with_a_running_loop_would_block() -> None:
    async def main() -> int:
        reply: Reply[int] = Reply()
        with pytest.raises(WouldBlock):
            reply.result(timeout=0)
        reply.set(5)
        return reply.result()

    assert asyncio.run(main()) == 5


def test_blocking_on_a_worker_of_the_runtime_would_block() -> None:
    caught: list[BaseException] = []

    def work() -> None:
        forbid_blocking()
        try:
            Reply[int]().result(timeout=GUARD)
        except WouldBlock as error:
            caught.append(error)

    worker = threading.Thread(target=work)
    worker.start()
    worker.join(GUARD)

    assert len(caught) == 1


def test_an_abort_ends_the_wait_and_a_late_abort_does_no_harm() -> None:
    reply: Reply[int] = Reply()
    waiting = Waiting(reply)
    assert waiting.abort is not None
    waiting.abort(ExecutionCancelled("e-1", "enough"))

    outcome = waiting.join()
    assert isinstance(outcome, ExecutionCancelled)
    assert outcome.reason == "enough"
    assert waiting.left == 1
    waiting.abort(ExecutionCancelled("e-1"))
    reply.set(1)
    assert reply.result() == 1


def test_a_guard_may_refuse_the_wait() -> None:
    class Refusing:
        def enter(self, reply: Reply[Any], abort: Callable[[BaseException], object]) -> None:
            raise ExecutionCancelled("e-1")

        def leave(self, abort: Callable[[BaseException], object]) -> None:
            raise AssertionError("never entered")

    token = current_wait.set(Refusing())
    try:
        with pytest.raises(ExecutionCancelled):
            Reply[int]().result(timeout=GUARD)
    finally:
        current_wait.reset(token)


@pytest.mark.parametrize("registered", [True, False])
def test_awaiting_works_from_any_loop(registered: bool) -> None:
    reply: Reply[int] = Reply()

    async def main() -> list[int]:
        loop = asyncio.get_running_loop()
        if registered:
            register_burst(loop)
        tasks = [asyncio.ensure_future(reply) for _ in range(3)]
        await asyncio.sleep(0)
        worker = threading.Thread(target=reply.set, args=(4,))
        worker.start()
        try:
            return [*await asyncio.gather(*tasks), await reply]
        finally:
            worker.join(GUARD)
            forget_burst(loop)

    assert asyncio.run(main()) == [4, 4, 4, 4]


def test_awaiting_what_is_there_does_not_yield_to_the_loop() -> None:
    async def main() -> None:
        return await Reply.of(None)

    coroutine = main()
    with pytest.raises(StopIteration):
        coroutine.send(None)


def test_cancelling_the_awaiting_task_undoes_nothing_and_leaves_no_waiter() -> None:
    async def main() -> None:
        reply: Reply[int] = Reply()
        for _ in range(3):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(reply, 0.001)
        assert reply._waiters == []
        assert not reply.done()
        reply.set(1)
        assert await reply == 1

    asyncio.run(main())


def test_a_task_cancelled_in_the_same_moment_as_the_value_comes_is_cancelled() -> None:
    async def main() -> None:
        reply: Reply[int] = Reply()
        task = asyncio.ensure_future(reply)
        await asyncio.sleep(0)
        reply.set(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await reply == 1

    asyncio.run(main())


@pytest.mark.parametrize("registered", [True, False])
def test_setting_after_the_awaiting_loop_was_closed_does_not_raise(registered: bool) -> None:
    reply: Reply[int] = Reply()
    loop = asyncio.new_event_loop()
    if registered:
        register_burst(loop)
    task = loop.create_task(_await(reply))
    loop.call_soon(loop.stop)
    loop.run_forever()
    loop.close()

    assert reply.set(1)
    assert reply.result() == 1
    forget_burst(loop)
    task._log_destroy_pending = False  # type: ignore[attr-defined]


async def _await(reply: Reply[int]) -> int:
    return await reply


def test_a_callback_runs_on_the_worker_that_sets_or_at_once_and_its_error_is_only_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    reply: Reply[int] = Reply()
    ran: list[str] = []

    def note(_: Reply[int]) -> None:
        ran.append(threading.current_thread().name)

    def exits(_: Reply[int]) -> None:
        raise SystemExit("callback")

    reply.add_done_callback(exits)
    reply.add_done_callback(note)
    worker = threading.Thread(target=reply.set, args=(1,), name="setter")
    worker.start()
    worker.join(GUARD)
    reply.add_done_callback(exits)
    reply.add_done_callback(note)

    assert ran == ["setter", threading.current_thread().name]
    assert caplog.text.count("A done callback of a reply failed") == 2


def test_an_error_that_nobody_took_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, "treadle"):
        Reply[int]().fail(ValueError("lost in test_reply"))
        gc.collect()

    # The collector also finds what earlier tests left behind, so this one's own are looked for.
    assert [record.name for record in caplog.records if "lost in test_reply" in record.getMessage()] == ["treadle"]


def test_an_error_that_was_taken_or_came_second_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    def take(reply: Reply[int]) -> None:
        with pytest.raises(ValueError):
            reply.result()

    async def await_it(reply: Reply[int]) -> None:
        with pytest.raises(ValueError):
            await reply

    take(Reply.failed(ValueError("raised in test_reply")))
    asyncio.run(await_it(Reply.failed(ValueError("awaited in test_reply"))))
    assert isinstance(Reply[int].failed(ValueError("looked at in test_reply")).error(), ValueError)
    Reply.of(1).fail(ValueError("second in test_reply"))
    gc.collect()

    assert [record for record in caplog.records if "test_reply" in record.getMessage()] == []


def test_a_reply_whose_error_was_raised_is_freed_without_the_cycle_collector() -> None:
    class Lost(Exception):  # one of Python's own can have no weak reference
        pass

    gone: list[weakref.ref[BaseException]] = []

    def take() -> None:
        try:
            Reply[int].failed(Lost()).result()
        except Lost as error:
            gone.append(weakref.ref(error))  # which the reply holds, and with it whatever holds the reply

    gc.disable()
    try:
        for _ in range(5):
            take()
        assert [error() for error in gone] == [None] * 5
    finally:
        gc.enable()


def test_nobody_misses_a_reply_that_is_set_in_the_moment_in_which_they_come() -> None:
    called: list[int] = []
    taken: list[int] = []
    start = threading.Barrier(4)

    def come(replies: list[Reply[int]]) -> None:
        start.wait(GUARD)
        for number, reply in enumerate(replies):
            reply.add_done_callback(lambda reply, number=number: called.append(number))  # type: ignore[misc]

    def block(replies: list[Reply[int]]) -> None:
        start.wait(GUARD)
        taken.extend(reply.result(GUARD) for reply in replies)

    async def wait(replies: list[Reply[int]]) -> None:
        taken.extend([await reply for reply in replies])

    def run(replies: list[Reply[int]]) -> None:
        start.wait(GUARD)
        asyncio.run(wait(replies))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(5):
            replies = [Reply[int]() for _ in range(200)]
            workers = [threading.Thread(target=each, args=(replies,)) for each in (come, block, run)]
            for worker in workers:
                worker.start()
            start.wait(GUARD)
            for number, reply in enumerate(replies):
                reply.set(number)
            for worker in workers:
                worker.join(GUARD)
    finally:
        sys.setswitchinterval(interval)

    assert sorted(called) == sorted(list(range(200)) * 5)
    assert sorted(taken) == sorted(list(range(200)) * 10)


def test_a_callback_that_was_taken_back_is_not_called() -> None:
    reply: Reply[int] = Reply()
    called: list[str] = []

    def one(_: Reply[int]) -> None:
        called.append("one")

    def two(_: Reply[int]) -> None:
        called.append("two")

    reply.add_done_callback(one)
    reply.add_done_callback(two)
    reply.remove_done_callback(one)
    reply.remove_done_callback(one)
    reply.set(1)
    reply.remove_done_callback(two)

    assert called == ["two"]


def test_a_reply_is_small_and_quick_to_make() -> None:
    assert Reply().__sizeof__() <= 40
    began = time.thread_time()  # what others do meanwhile costs this worker nothing
    for _ in range(10_000):
        Reply().set(1)

    assert time.thread_time() - began < 1  # measured 0.35 µs each; this only catches a lock or an event in each


@pytest.mark.parametrize("make", [asyncio.tasks._PyTask, asyncio.tasks._CTask], ids=["in Python", "in C"])
@pytest.mark.parametrize("end", ["set", "cancelled", "cancelled, then set"])
def test_a_reply_is_awaited_by_either_kind_of_task(make: Any, end: str) -> None:
    async def main() -> object:
        reply: Reply[int] = Reply()

        async def wait() -> int:
            return await reply

        task = make(wait(), loop=asyncio.get_running_loop())
        await asyncio.sleep(0)
        if end.startswith("cancelled"):
            task.cancel()
        if end.endswith("set"):
            reply.set(7)
        await asyncio.wait([task])
        return "cancelled" if task.cancelled() else task.result()

    assert asyncio.run(main()) == (7 if end == "set" else "cancelled")


def test_a_task_that_takes_its_waiter_after_the_wake_goes_on_all_the_same() -> None:
    async def main() -> list[object]:
        reply: Reply[int] = Reply()
        waiting = reply.__await__()
        waiter: Any = next(waiting)
        reply.set(7)
        await asyncio.sleep(0)
        stepped: list[object] = []
        waiter.add_done_callback(stepped.append, context=contextvars.copy_context())
        await asyncio.sleep(0)
        assert stepped == [waiter]
        with pytest.raises(StopIteration) as over:
            next(waiting)
        return [waiter.result(), over.value.value]

    assert asyncio.run(main()) == [None, 7]


@pytest.mark.parametrize("registered", [True, False])
def test_a_signal_handler_that_raises_while_a_reply_is_set_leaves_nobody_behind(registered: bool) -> None:
    """It comes in where a function begins, or behind a call; what it raises may be lost, what waits is not."""
    ours = {reply_module.__file__, loop_waiter.__file__}

    async def interrupted(step: int) -> bool:
        loop = asyncio.get_running_loop()
        if registered:
            register_burst(loop)
        reply: Reply[int] = Reply()
        called: list[Reply[int]] = []
        tasks = []
        for _ in range(2):
            reply.add_done_callback(called.append)
            tasks.append(asyncio.ensure_future(_await(reply)))
            await asyncio.sleep(0)
        woken: queue.SimpleQueue[Reply[int]] = queue.SimpleQueue()
        reply._waiters.append(woken.put)
        broke = broken_off(lambda: reply.set(7), step, ours)
        forget_burst(loop)

        assert reply._waiters == []
        assert called == [reply] * 2
        assert not woken.empty()
        assert await asyncio.wait_for(asyncio.gather(*tasks), GUARD) == [7, 7]
        return broke

    step = 2  # behind the beginning of `set` itself
    while asyncio.run(interrupted(step)):
        step += 1
    assert step > 10


def test_a_reply_that_is_set_the_moment_somebody_begins_to_wait_keeps_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """The setter is done before the waiter is in the list, and had not set it when that was made."""
    awaited: Reply[int] = Reply()
    blocking: Reply[int] = Reply()

    def made(loop: asyncio.AbstractEventLoop) -> loop_waiter.LoopWaiter:
        awaited.set(7)
        return loop_waiter.LoopWaiter(loop)

    def entered() -> queue.SimpleQueue[Any]:
        blocking.set(8)
        return queue.SimpleQueue()

    monkeypatch.setattr(reply_module, "LoopWaiter", made)
    monkeypatch.setattr(reply_module, "SimpleQueue", entered)

    assert asyncio.run(_await(awaited)) == 7
    assert awaited._waiters == []
    assert blocking.result() == 8
    assert blocking._waiters == []
