"""Tests actors/loop_waiter.py: how a task that awaits a reply is woken and cancelled, by whoever drives and cancels it."""

from __future__ import annotations

import asyncio
import contextvars
import sys
import threading
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from treadle.actors.burst import forget_burst, register_burst
from treadle.actors.loop_waiter import LoopWaiter
from treadle.actors.reply import Reply

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

GUARD = 60
variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")
kinds = pytest.mark.parametrize("make", [asyncio.tasks._PyTask, asyncio.tasks._CTask], ids=["in Python", "in C"])  # type: ignore[attr-defined]


@pytest.fixture(params=["a loop of a runtime", "any loop"])
def run(request: pytest.FixtureRequest) -> Iterator[Callable[[Awaitable[Any]], Any]]:
    loops: list[asyncio.AbstractEventLoop] = []

    def call(main: Awaitable[Any]) -> Any:
        async def within() -> Any:
            loops.append(asyncio.get_running_loop())
            if request.param == "a loop of a runtime":
                register_burst(loops[-1])
            return await asyncio.wait_for(main, GUARD)

        return asyncio.run(within())

    yield call
    for loop in loops:
        forget_burst(loop)


async def waits_for(reply: Reply[Any]) -> Any:
    return await reply


def test_a_scope_knows_its_own_cancellation_by_its_words(run: Any) -> None:
    async def main() -> list[object]:
        reply: Reply[int] = Reply()
        seen: list[object] = []
        with anyio.move_on_after(0.001) as scope:
            await reply
        seen.append(scope.cancelled_caught)
        try:
            with anyio.fail_after(0.001):
                await reply
        except TimeoutError:
            seen.append("timed out")
        async with anyio.create_task_group() as group:
            group.start_soon(waits_for, reply)
            await anyio.sleep(0)
            group.cancel_scope.cancel()
        return [*seen, reply._waiters]

    assert run(main()) == [True, "timed out", []]


@kinds
@pytest.mark.parametrize("words", [(), ("because",)])
def test_a_cancelled_task_is_told_the_words_of_whoever_cancelled_it(
    run: Any, make: Any, words: tuple[str, ...]
) -> None:
    async def main() -> tuple[object, ...]:
        task = make(waits_for(Reply()), loop=asyncio.get_running_loop())
        await asyncio.sleep(0)
        task.cancel(*words)
        try:
            await task
        except asyncio.CancelledError as error:
            return error.args
        return ("not cancelled",)

    assert run(main()) == words


@kinds
def test_a_task_cancelled_before_it_comes_to_wait_never_waits(run: Any, make: Any) -> None:
    async def main() -> tuple[str, list[Any]]:
        reply: Reply[int] = Reply()

        async def waits() -> str:
            asyncio.current_task().cancel("early")  # type: ignore[union-attr]
            try:
                await reply
            except asyncio.CancelledError as error:
                return str(error)
            return "not cancelled"

        return await make(waits(), loop=asyncio.get_running_loop()), reply._waiters

    assert run(main()) == ("early", [])


@kinds
def test_a_task_cancelled_twice_meets_both_where_it_waits_again(run: Any, make: Any) -> None:
    async def main() -> list[str]:
        reply: Reply[int] = Reply()
        met: list[str] = []

        async def waits() -> None:
            for _ in range(2):
                try:
                    await reply
                except asyncio.CancelledError as error:
                    met.append(str(error))
            met.append(str(await reply))

        task = make(waits(), loop=asyncio.get_running_loop())
        await asyncio.sleep(0)
        task.cancel("one")
        await asyncio.sleep(0)
        task.cancel("two")
        await asyncio.sleep(0)
        reply.set(7)
        await task
        return met

    assert run(main()) == ["one", "two", "7"]


@kinds
def test_cancelled_twice_in_one_step_is_cancelled_as_with_a_future(run: Any, make: Any) -> None:
    async def met(waited: Awaitable[object]) -> list[str]:
        met: list[str] = []

        async def waits() -> None:
            for _ in range(2):
                try:
                    await waited
                except asyncio.CancelledError:
                    met.append("cancelled")
            met.append(str(asyncio.current_task().cancelling()))  # type: ignore[union-attr]

        task = make(waits(), loop=asyncio.get_running_loop())
        await asyncio.sleep(0)
        task.cancel()
        task.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        if isinstance(waited, Reply):
            waited.set(1)
        await asyncio.wait([task])
        return met

    async def main() -> tuple[list[str], list[str]]:
        return await met(asyncio.get_running_loop().create_future()), await met(Reply())

    future, reply = run(main())
    # A cancelled future stays one and cancels whoever awaits it again; a reply is not harmed.
    assert future == ["cancelled", "cancelled", "2"]
    assert reply == ["cancelled", "2"]


@kinds
def test_a_value_that_comes_behind_a_cancellation_does_not_step_the_task_again(run: Any, make: Any) -> None:
    async def main() -> list[object]:
        reply: Reply[int] = Reply()
        steps: list[object] = []

        async def waits() -> None:
            try:
                await reply
            except asyncio.CancelledError:
                steps.append("cancelled")
            steps.append(await Reply.of("else"))
            await asyncio.sleep(0)
            steps.append("behind")

        task = make(waits(), loop=asyncio.get_running_loop())
        await asyncio.sleep(0)
        task.cancel()
        worker = threading.Thread(target=reply.set, args=(7,))
        worker.start()
        worker.join(GUARD)
        await task
        return steps

    assert run(main()) == ["cancelled", "else", "behind"]


@kinds
def test_the_task_goes_on_in_its_own_context(run: Any, make: Any) -> None:
    async def main() -> str:
        variable.set("of the task")
        reply: Reply[int] = Reply()

        async def waits() -> str:
            await reply
            return variable.get()

        task = make(waits(), loop=asyncio.get_running_loop())
        await asyncio.sleep(0)
        contextvars.Context().run(reply.set, 1)
        return str(await task)

    assert run(main()) == "of the task"


def test_time_limits_shields_and_groups_take_a_reply_as_they_take_a_future(run: Any) -> None:
    async def main() -> list[object]:
        reply: Reply[int] = Reply()
        seen: list[object] = []
        for wait in (asyncio.wait_for(reply, 0.001), _within(reply, 0.001)):
            try:
                await wait
            except TimeoutError:
                seen.append("timed out")
        shielded = asyncio.ensure_future(asyncio.shield(reply))
        await asyncio.sleep(0)
        shielded.cancel()
        gathered = asyncio.gather(reply, reply, return_exceptions=True)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(waits_for(reply)) for _ in range(3)]
            await asyncio.sleep(0)
            threading.Thread(target=reply.set, args=(7,)).start()
        seen += [task.result() for task in tasks]
        seen += await gathered
        await asyncio.wait([shielded])
        return [*seen, shielded.cancelled(), asyncio.current_task().cancelling()]  # type: ignore[union-attr]

    assert run(main()) == ["timed out", "timed out", 7, 7, 7, 7, 7, True, 0]


async def _within(reply: Reply[Any], seconds: float) -> Any:
    async with asyncio.timeout(seconds):
        return await reply


@pytest.mark.skipif(sys.version_info < (3, 12), reason="tasks begin at once since 3.12")
def test_a_task_that_began_at_once_is_woken_and_cancelled(run: Any) -> None:
    async def main() -> list[object]:
        loop = asyncio.get_running_loop()
        loop.set_task_factory(asyncio.eager_task_factory)  # type: ignore[attr-defined, unused-ignore]
        reply: Reply[int] = Reply()
        there = loop.create_task(waits_for(Reply.of(1)))
        woken, cancelled = (loop.create_task(waits_for(reply)) for _ in range(2))
        seen: list[object] = [there.done(), len(reply._waiters)]
        cancelled.cancel("words")
        threading.Thread(target=reply.set, args=(7,)).start()
        seen.append(await woken)
        await asyncio.wait([cancelled])
        return [*seen, cancelled.cancelled()]

    assert run(main()) == [True, 2, 7, True]


def test_a_waiter_that_no_task_has_taken_is_not_cancelled() -> None:
    async def main() -> list[bool]:
        waiter = LoopWaiter(asyncio.get_running_loop())
        before = waiter.cancel()
        waiter.add_done_callback(lambda _: None, context=contextvars.copy_context())
        return [before, waiter.cancel(), waiter.cancel("again")]

    assert asyncio.run(main()) == [False, True, False]


def test_two_limits_that_are_over_at_once_cancel_a_task_once(run: Any) -> None:
    """As with a future: the scope sees that the other limit's cancellation is on its way, and comes after it."""

    async def main(waited: Awaitable[object]) -> list[object]:
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        assert task is not None
        seen: list[object] = []
        with anyio.CancelScope() as scope:
            try:
                async with asyncio.timeout(None) as limit:
                    loop.call_soon(limit.reschedule, 0)
                    loop.call_soon(loop.call_soon, scope.cancel)
                    await waited
            except TimeoutError:
                seen.append("timed out")
            await anyio.Event().wait()  # until the scope is cancelled
        return [*seen, scope.cancelled_caught, task.cancelling()]

    async def with_a_future() -> list[object]:
        return await main(asyncio.get_running_loop().create_future())

    assert run(with_a_future()) == ["timed out", True, 0]
    assert run(main(Reply())) == ["timed out", True, 0]


def test_who_looks_at_what_a_task_waits_for_finds_a_future(run: Any) -> None:
    async def main() -> list[object]:
        reply: Reply[int] = Reply()
        task = asyncio.ensure_future(waits_for(reply))
        await anyio.wait_all_tasks_blocked()
        info = next(info for info in anyio.get_running_tasks() if info.id == id(task))
        seen: list[object] = [info.has_pending_cancellation()]
        task.cancel()
        seen.append(info.has_pending_cancellation())
        await asyncio.wait([task])
        return seen

    assert run(main()) == [False, True]


def test_a_waiter_says_whether_it_is_over() -> None:
    async def main() -> list[tuple[bool, bool]]:
        loop = asyncio.get_running_loop()
        early, woken, cancelled = (LoopWaiter(loop) for _ in range(3))
        for waiter in (woken, cancelled):
            waiter.add_done_callback(lambda _: None, context=contextvars.copy_context())
        before = [(waiter.done(), waiter.cancelled()) for waiter in (early, woken, cancelled)]
        early(None)
        woken(None)
        cancelled.cancel()
        await asyncio.sleep(0)
        return [*before, *((waiter.done(), waiter.cancelled()) for waiter in (early, woken, cancelled))]

    assert asyncio.run(main()) == [(False, False)] * 3 + [(True, False), (True, False), (True, True)]
