"""Interrupts that come early or at an unlucky step: nothing begins after the answer, and a body is told exactly once."""

from __future__ import annotations

import asyncio
import threading
from asyncio import CancelledError
from typing import TYPE_CHECKING

import pytest

from tests.scenarios.scene import PATIENCE_S, Scene, began, ended, tags, texts
from tests.scenarios.stepping import Stepper
from treadle.actors import ExecutionCancelled
from treadle.agents import ThreadState, agent
from treadle.storage import MemoryStore

if TYPE_CHECKING:
    from tests.scenarios.scene import Replies
    from treadle.actors import ControlReceipt, Reply, Thread


async def interrupt_early(seed: int) -> None:
    """Submit, and interrupt after a few steps drawn by chance; judge what the body began, and when."""
    log: list[str] = []

    @agent(name="eager")
    async def eager(state: ThreadState) -> None:
        log.append("pass")
        for _ in range(stepper.random.randrange(3)):
            told = "answered" in log
            await state.checkpoint()
            if told:
                log.append("checkpoint")

    stepper = Stepper(eager, seed=seed)
    async with stepper:
        thread: Thread = await stepper.get(stepper.runtime.create_thread("eager"))
        execution_id = began(await stepper.get(thread.submit("go")))
        if stepper.random.random() < 0.5:
            thread.steer(execution_id, "one more pass")
        for _ in range(stepper.random.randrange(12) * stepper.random.randrange(4)):
            await stepper.step()
        interrupted: Reply[ControlReceipt] = thread.interrupt(execution_id)
        interrupted.add_done_callback(lambda _reply: log.append("answered"))
        receipt = await stepper.get(interrupted)
        await stepper.until(lambda: stepper.at_rest(thread))

        record = await stepper.get(thread.execution(execution_id))
        if receipt.disposition == "accepted":
            assert record.status == "cancelled"
            assert log[log.index("answered") :] == ["answered"]
        else:
            assert record.status == "succeeded"
        assert tags(thread).count("THREAD_EXECUTION_INTERRUPTED") == (receipt.disposition == "accepted")


@pytest.mark.parametrize("dozen", range(12))
def test_nothing_begins_after_an_accepted_interrupt_however_early_it_comes(dozen: int) -> None:
    """Scenario 9."""
    for seed in range(12 * dozen, 12 * (dozen + 1)):
        asyncio.run(interrupt_early(seed))


async def interrupt_and_clean_up(seed: int) -> None:
    """Interrupt a body wherever it is; it must be told once, by the error that says so, and clean up in peace."""
    told: list[type[BaseException]] = []
    cleaned: list[str] = []

    @agent(name="careful")
    async def careful(state: ThreadState) -> None:
        try:
            while True:
                waits = stepper.random.choice((state.checkpoint, lambda: state.sleep(60), lambda: state.get_value("k")))
                await waits()
        except CancelledError as error:
            told.append(type(error))
            for step in ("one", "two"):
                await state.inject_message("assistant", step)
                cleaned.append(step)
            raise

    stepper = Stepper(careful, seed=seed)
    async with stepper:
        thread: Thread = await stepper.get(stepper.runtime.create_thread("careful"))
        execution_id = began(await stepper.get(thread.submit("go")))
        for _ in range(20 + stepper.random.randrange(20)):
            await stepper.step()
        await stepper.get(thread.interrupt(execution_id))
        record = await stepper.get(thread.wait(execution_id))

        assert (record.status, told, cleaned) == ("cancelled", [ExecutionCancelled], ["one", "two"])


@pytest.mark.parametrize("dozen", range(12))
def test_an_interrupt_reaches_a_coroutine_once_and_leaves_its_clean_up_alone(dozen: int) -> None:
    for seed in range(12 * dozen, 12 * (dozen + 1)):
        asyncio.run(interrupt_and_clean_up(seed))


def test_an_interrupt_before_the_first_step_of_a_coroutine_leaves_it_uncalled() -> None:
    """Scenario 9."""
    called: list[str] = []

    @agent
    async def writes(state: ThreadState) -> None:
        called.append(state.thread_id)
        await state.inject_message("assistant", "an effect")

    async def play() -> None:
        async with Stepper(writes) as stepper:
            thread: Thread = await stepper.get(stepper.runtime.create_thread("writes"))
            receipt = thread.submit("go")
            # The loop gets no turn between the answer to the submit and the answer to the interrupt.
            stepper.step_all_but_the_loop(receipt)
            execution_id = began(receipt.result())
            interrupted = thread.interrupt(execution_id)
            stepper.step_all_but_the_loop(interrupted)
            assert interrupted.result().disposition == "accepted"
            record = await stepper.get(thread.wait(execution_id))

            assert (record.status, called, texts(thread)) == ("cancelled", [], ["go"])

    asyncio.run(play())


def test_an_interrupted_execution_that_waits_for_a_worker_leaves_the_line_uncalled() -> None:
    """Scenario 9."""
    scene = Scene(MemoryStore(), "function")
    computing, may_end = threading.Event(), threading.Event()

    def computes(state: ThreadState) -> Replies:
        # On an event and not on a reply: the pool gives no second worker for a body that merely keeps its own.
        computing.set()
        assert may_end.wait(PATIENCE_S)
        yield from ()

    scene.open(scene.body(scene.stops_at_gate, name="actor"), scene.body(computes, name="computes"), workers=1)
    thread, other = scene.thread(), scene.thread("computes")
    other.submit("takes the only worker").result(PATIENCE_S)
    assert computing.wait(PATIENCE_S)
    execution_id = began(thread.submit("go").result(PATIENCE_S))
    assert thread.explain().result(PATIENCE_S).waits_for_worker

    thread.interrupt(execution_id).result(PATIENCE_S)

    assert ended(thread, execution_id).status == "cancelled"
    may_end.set()
    scene.close()
    assert scene.gate.nobody_came()
