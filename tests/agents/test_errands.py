"""Tests agents/errands.py: what runs beside a body ends with it, in order, and says how it ended."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest

from tests.agents.stage import PATIENCE_S
from treadle.actors import ExecutionCancelled, ExecutionFenced, Reply

if TYPE_CHECKING:
    from tests.agents.declared import Declared
    from tests.agents.stage import Replies
    from treadle.agents import ThreadState


def test_a_coroutine_runs_on_the_loop_for_whoever_asks(declared: Declared) -> None:
    async def sum_of(first: int, second: int) -> int:
        await asyncio.sleep(0)
        return first + second

    def script(state: ThreadState) -> Replies:
        errands = state.scene.errands
        assert (yield errands.run(lambda: sum_of(1, 2), ends_with_interrupt=True)) == 3

    assert declared(script).play().error is None
    errands = declared.rest().scene.errands
    assert errands.run(lambda: sum_of(3, 4), ends_with_interrupt=True).result(PATIENCE_S) == 7
    # Who waits for a reply may be told of it before the errands are: they are behind this.
    told = threading.Event()
    declared.runtime._parts().loop.submit(told.set)
    assert told.wait(PATIENCE_S)
    assert not errands._running


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3), asyncio.CancelledError()], ids=repr)
def test_what_it_raises_is_its_callers(declared: Declared, error: BaseException) -> None:
    async def fail() -> None:
        raise error

    def script(state: ThreadState) -> Replies:
        with pytest.raises(type(error)):
            yield state.scene.errands.run(fail, ends_with_interrupt=False)
        yield state.inject_message("assistant", "the loop goes on")

    assert declared(script).play().error is None


def test_an_interrupt_ends_what_asks_for_it_and_lets_none_begin(declared: Declared) -> None:
    begun: Reply[None] = Reply()
    ended: Reply[str] = Reply()
    refused: list[BaseException | None] = []

    async def wait() -> None:
        begun.set(None)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.set("cancelled")
            raise

    def script(state: ThreadState) -> Replies:
        errands = state.scene.errands
        try:
            yield errands.run(wait, ends_with_interrupt=True)
        except ExecutionCancelled:
            late = errands.run(wait, ends_with_interrupt=True)
            refused.append(late.error())
            raise

    receipt = declared(script).thread.submit("go").result(PATIENCE_S)
    begun.result(PATIENCE_S)
    assert receipt.execution_id is not None
    declared.thread.interrupt(receipt.execution_id).result(PATIENCE_S)

    assert declared.thread.wait(receipt).result(PATIENCE_S).status == "cancelled"
    assert ended.result(PATIENCE_S) == "cancelled"
    assert isinstance(refused[0], ExecutionCancelled)


def test_nothing_of_it_outlives_the_execution(declared: Declared) -> None:
    begun: Reply[None] = Reply()
    ended: Reply[str] = Reply()
    left: list[Reply[None]] = []
    kept: list[ThreadState] = []

    async def wait() -> None:
        begun.set(None)
        try:
            await asyncio.Event().wait()
        finally:
            ended.set("ended")

    def script(state: ThreadState) -> Replies:
        kept.append(state)
        left.append(state.scene.errands.run(wait, ends_with_interrupt=False))
        yield begun

    assert declared(script).play().error is None
    assert ended.result(PATIENCE_S) == "ended"
    for reply in (left[0], kept[0].scene.errands.run(wait, ends_with_interrupt=False)):
        with pytest.raises(ExecutionFenced):
            reply.result(PATIENCE_S)


def test_in_line_each_waits_for_the_one_before_also_if_that_fails(declared: Declared) -> None:
    order: list[int] = []
    gate: Reply[None] = Reply()

    async def step(number: int) -> None:
        if number == 0:
            await gate
        order.append(number)
        if number == 1:
            raise ValueError("no")

    def script(state: ThreadState) -> Replies:
        replies = [state.scene.errands.run_in_line(lambda n=n: step(n)) for n in range(4)]  # type: ignore[misc]
        gate.set(None)
        for number, reply in enumerate(replies):
            if number == 1:
                with pytest.raises(ValueError, match="no"):
                    yield reply
            else:
                yield reply

    assert declared(script).play().error is None
    assert order == [0, 1, 2, 3]


def test_a_plain_function_runs_on_the_pool(declared: Declared) -> None:
    def add(first: int, second: int = 0) -> int:
        return first + second

    def fail() -> None:
        raise ValueError("no")

    def script(state: ThreadState) -> Replies:
        assert (yield state.scene.errands.call(add, 1, second=2)) == 3

    assert declared(script).play().error is None
    errands = declared.rest().scene.errands
    assert errands.call(add, 3, second=4).result(PATIENCE_S) == 7
    with pytest.raises(ValueError, match="no"):
        errands.call(fail).result(PATIENCE_S)
