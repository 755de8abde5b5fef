"""Owns the proof of treadle.actors.apart: a broken off open leaves nothing open, and a broken off close goes on."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from typing import TYPE_CHECKING

import pytest

from treadle.actors import Runtime
from treadle.actors.apart import awaited_apart
from treadle.actors.fake_clock import FakeClock
from treadle.actors.reply import Reply
from treadle.actors.testing import Puppet
from treadle.agents import agent
from treadle.protocol.errors import StoreFailed, WouldBlock
from treadle.storage import MemoryStore

if TYPE_CHECKING:
    from treadle.agents import ThreadState
    from treadle.storage import Boot

GUARD_S = 60.0


@agent
async def quiet(state: ThreadState) -> None:
    """End at once."""


class Halting(MemoryStore):
    """A store whose first open waits until it may go on."""

    def __init__(self) -> None:
        super().__init__()
        self.began: Reply[None] = Reply()
        self.go_on = threading.Event()

    def open(self) -> Boot:
        self.began.set(None)
        assert self.go_on.wait(GUARD_S)
        return super().open()


async def cancelled_host(store: MemoryStore) -> None:
    async with Runtime(store, agents=[quiet]):
        raise AssertionError("cancelled before")


def test_an_open_whose_task_is_cancelled_leaves_the_store_free() -> None:
    store = Halting()

    async def main() -> None:
        task = asyncio.ensure_future(cancelled_host(store))
        await store.began
        task.cancel()
        store.go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    with Runtime(store, agents=[quiet]) as again:
        assert again.ready() == (True, [])


def test_an_open_is_undone_before_its_cancellation_comes_out_however_often_that_comes() -> None:
    store = Halting()

    async def main() -> None:
        task = asyncio.ensure_future(cancelled_host(store))
        await store.began
        for _ in range(3):
            task.cancel()
            await asyncio.wait([task], timeout=0)
            await asyncio.sleep(0)
        assert not task.done()
        store.go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with Runtime(store, agents=[quiet]) as again:
            assert again.ready() == (True, [])

    asyncio.run(main())


def test_what_cannot_be_undone_does_not_take_the_place_of_a_cancellation(caplog: pytest.LogCaptureFixture) -> None:
    began, go_on = Reply[None](), threading.Event()

    def call() -> None:
        began.set(None)
        assert go_on.wait(GUARD_S)

    def undo() -> None:
        raise StoreFailed("no room for that")

    async def main() -> None:
        task = asyncio.ensure_future(awaited_apart(call, undo))
        await began
        task.cancel()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert "could not be undone" in caplog.text


def test_an_open_that_is_interrupted_by_the_keyboard_leaves_the_store_free() -> None:
    class Interrupted(Halting):
        def open(self) -> Boot:
            if not self.go_on.is_set():
                os.kill(os.getpid(), signal.SIGINT)
            self.go_on.set()
            return super().open()

    store = Interrupted()
    with pytest.raises(KeyboardInterrupt), Runtime(store, agents=[quiet]):
        threading.Event().wait(GUARD_S)

    with Runtime(store, agents=[quiet]) as again:
        assert again.ready() == (True, [])


def test_no_worker_of_the_runtime_can_close_it_and_wait_for_itself(store: MemoryStore) -> None:
    told: Reply[BaseException] = Reply()

    def close(_reply: object) -> None:
        try:
            hosted.close()
        except WouldBlock as error:
            told.set(error)

    @agent
    async def closes(state: ThreadState) -> None:
        with pytest.raises(WouldBlock):
            hosted.close()

    with Runtime(store, agents=[closes]) as hosted:
        thread = hosted.create_thread(closes).result(GUARD_S)
        ended = thread.wait(thread.submit("go").result(GUARD_S))
        assert ended.result(GUARD_S).status == "succeeded"
        hosted.thread(thread.id).submit("go").add_done_callback(close)
        assert told.result(GUARD_S).code == "would_block"  # type: ignore[attr-defined]
        assert hosted.ready() == (True, [])


def test_a_plain_function_can_close_another_runtime_and_not_the_one_that_waits_for_it(store: MemoryStore) -> None:
    """It would be waited for until it is interrupted, and then for its grace, which it cannot end."""

    @agent
    def closes(state: ThreadState) -> None:
        with pytest.raises(WouldBlock):
            hosted.close()
        other.close()

    with Runtime(MemoryStore(), agents=[]) as other, Runtime(store, agents=[closes]) as hosted:
        thread = hosted.create_thread(closes).result(GUARD_S)
        ended = thread.wait(thread.submit("go").result(GUARD_S)).result(GUARD_S)
        assert (ended.status, ended.error) == ("succeeded", None)
        assert hosted.ready() == (True, [])
        assert not other.ready()[0]


def test_a_close_that_is_interrupted_goes_on_and_the_next_one_waits_for_it(store: MemoryStore) -> None:
    puppet, clock = Puppet(), FakeClock()
    hosted = Runtime(store, agents=[puppet], clock=clock).open()
    hosted.create_thread(puppet).result(GUARD_S).submit("go").result(GUARD_S)
    puppet.wait_for_pass(1)
    timers, interrupted = clock.pending(), threading.Event()

    def interrupt() -> None:
        clock.wait_for_timers(timers + 1, GUARD_S)  # the close has begun to wait for the execution
        # Again and again: Python does not notice a signal that comes right before its worker blocks.
        while not interrupted.wait(0.01):
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGALRM)

    def once(_number: int, _frame: object) -> None:
        if not interrupted.is_set():
            interrupted.set()
            raise KeyboardInterrupt

    # The handler is run by this worker, in the middle of its wait.
    before = signal.signal(signal.SIGALRM, once)
    interrupting = threading.Thread(target=interrupt)
    interrupting.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            hosted.close(drain_timeout=3_600)
        interrupting.join(GUARD_S)
    finally:
        signal.signal(signal.SIGALRM, before)
    puppet.returns()
    hosted.close()

    with Runtime(store, agents=[puppet]) as again:
        assert again.opened is not None
        assert again.opened.settled == ()
