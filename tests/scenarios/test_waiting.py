"""Waiting and blocking: who may block where, what ends a wait, and that no circle of waits is ever closed."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
from typing import TYPE_CHECKING, Any

import pytest

from tests.scenarios.scene import PATIENCE_S, Scene, began, echo, ended, quiet, tags, texts
from tests.scenarios.stepping import Stepper
from treadle.actors import ExecutionCancelled, Reply
from treadle.agents import ThreadState, agent
from treadle.protocol.errors import (
    ExecutionNotFound,
    InputNotFound,
    InvalidInput,
    RuntimeClosed,
    ThreadOverloaded,
    WouldBlock,
)

if TYPE_CHECKING:
    from tests.scenarios.scene import Replies
    from treadle.actors import ExecutionRecord, Thread


def test_a_wait_answers_with_the_record_before_during_and_after_the_end(scene: Scene) -> None:
    thread = scene.gated()
    receipt = thread.submit("go").result(PATIENCE_S)
    arrived = scene.gate.arrival()
    waits = [thread.wait(receipt), thread.wait(began(receipt)), scene.runtime.thread(thread.id).wait(receipt)]
    assert not any(reply.done() for reply in waits)

    arrived.go.set(None)

    records = {reply.result(PATIENCE_S) for reply in waits}
    assert records == {thread.wait(receipt).result(PATIENCE_S)}
    assert records == {thread.execution(began(receipt)).result(PATIENCE_S)}
    scene.reopen()
    assert records == {scene.runtime.thread(thread.id).wait(receipt).result(PATIENCE_S)}


def test_a_wait_follows_a_queued_input_into_its_execution(scene: Scene) -> None:
    thread = scene.gated()
    first = thread.submit("first").result(PATIENCE_S)
    queued = thread.submit("second", on_busy="queue").result(PATIENCE_S)
    waits = thread.wait(queued)
    scene.gate.let_go()
    ended(thread, first)
    assert scene.gate.arrival().brought == ["second"]
    assert not waits.done()
    # A control's receipt may be waited for too: it speaks of the execution that it ends.
    stopped = thread.stop().result(PATIENCE_S)

    record = waits.result(PATIENCE_S)

    assert record == ended(thread, stopped)
    assert record.input_id == queued.input_id


def test_there_is_nothing_to_wait_for_where_nothing_was_accepted(scene: Scene) -> None:
    thread = scene.gated()
    execution_id = began(thread.submit("go").result(PATIENCE_S))
    arrived = scene.gate.arrival()
    busy = thread.submit("x", input_id="refused").result(PATIENCE_S)
    missed = thread.interrupt("another").result(PATIENCE_S)

    for target, error in ((busy, InvalidInput), (missed, InvalidInput), ("never-was", ExecutionNotFound)):
        with pytest.raises(error):
            thread.wait(target).result(PATIENCE_S)
    foreign = thread.queue_message("x", input_id="here only").result(PATIENCE_S)
    with pytest.raises(InputNotFound):
        scene.thread().wait(foreign).result(PATIENCE_S)

    arrived.go.set(None)
    scene.gate.let_go()
    ended(thread, execution_id)


def test_blocking_on_a_running_loop_is_refused_at_once_and_awaiting_works(scene: Scene) -> None:
    thread = scene.gated()

    async def call() -> ExecutionRecord:
        receipt = await thread.submit("go")
        waits = thread.wait(receipt)
        with pytest.raises(WouldBlock):
            waits.result(PATIENCE_S)
        arrived = await asyncio.to_thread(scene.gate.arrival)
        arrived.go.set(None)
        record = await waits
        # What is there already blocks nobody.
        assert waits.result() == record
        return record

    assert asyncio.run(call()).status == "succeeded"


def test_a_coroutine_body_that_blocks_its_loop_is_refused_and_may_await_instead(scene: Scene) -> None:
    other = scene.body(scene.stops_at_gate, name="other")

    @agent(name="actor")
    async def blocks(state: ThreadState) -> None:
        waits = scene.runtime.thread("other").wait(started)
        with pytest.raises(WouldBlock):
            waits.result()
        scene.gate.here("refused")
        scene.seen.append((await waits).status)

    scene.open(blocks, other)
    thread, awaited = scene.thread(), scene.thread("other", thread_id="other")
    started = awaited.submit("go").result(PATIENCE_S)
    arrived = scene.gate.arrival()
    receipt = thread.submit("go").result(PATIENCE_S)
    assert scene.gate.arrival().brought == "refused"

    arrived.go.set(None)

    assert ended(thread, receipt).status == "succeeded"
    assert scene.seen == ["succeeded"]


def test_a_callback_on_a_worker_of_the_runtime_may_not_block_it(scene: Scene) -> None:
    thread = scene.gated()
    refused: Reply[type[Exception]] = Reply()

    def callback(_reply: Reply[Any]) -> None:
        try:
            thread.wait(started).result(PATIENCE_S)
        except Exception as error:
            refused.set(type(error))

    started = thread.submit("go").result(PATIENCE_S)
    arrived = scene.gate.arrival()
    thread.steer(began(started), "x").add_done_callback(callback)

    assert refused.result(PATIENCE_S) is WouldBlock
    arrived.go.set(None)
    scene.gate.let_go()
    ended(thread, started)


def test_one_reply_may_be_awaited_on_several_loops_and_outlives_a_closed_one(scene: Scene) -> None:
    thread = scene.gated()
    receipt = thread.submit("go").result(PATIENCE_S)
    arrived = scene.gate.arrival()
    waits = thread.wait(receipt)
    left: list[asyncio.Task[Any]] = []

    async def abandon() -> None:
        left.append(asyncio.ensure_future(wait()))
        await asyncio.sleep(0)

    async def wait() -> ExecutionRecord:
        return await waits

    loop = asyncio.new_event_loop()
    loop.run_until_complete(abandon())
    loop.close()
    found: list[ExecutionRecord] = []
    waiting = threading.Barrier(4)

    async def await_it() -> None:
        waiting.wait(PATIENCE_S)
        found.append(await waits)

    callers = [threading.Thread(target=lambda: asyncio.run(await_it())) for _ in range(3)]
    for caller in callers:
        caller.start()
    waiting.wait(PATIENCE_S)
    arrived.go.set(None)
    for caller in callers:
        caller.join(PATIENCE_S)

    assert found == [waits.result(PATIENCE_S)] * 3
    assert not left[0].done()
    # Its loop is closed, so nobody will ever end this task; without this, Python says so at its collection.
    left[0]._log_destroy_pending = False  # type: ignore[attr-defined]
    left[0].get_coro().close()


def test_abandoning_a_reply_undoes_nothing(scene: Scene) -> None:
    thread = scene.gated()

    async def give_up() -> None:
        task = asyncio.ensure_future(wait_for(thread.wait(receipt)))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    async def wait_for(reply: Reply[Any]) -> None:
        await reply

    receipt = thread.submit("go").result(PATIENCE_S)
    arrived = scene.gate.arrival()
    asyncio.run(give_up())
    with pytest.raises(TimeoutError):
        thread.wait(receipt).result(timeout=0)

    arrived.go.set(None)

    assert ended(thread, receipt).status == "succeeded"


def test_an_error_that_nobody_took_is_logged(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    thread = scene.start(quiet)

    with caplog.at_level(logging.ERROR, "treadle"):
        thread.submit("")
        # The error's traceback and the reply hold each other, so only the collector finds them.
        gc.collect()

    assert "Nobody took the error of a reply" in caplog.text
    assert "empty" in caplog.text


def test_what_comes_of_a_wait_that_an_interrupt_ended_is_not_logged_as_left_behind(
    either: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    """The body was told of its interruption; an error that comes later has nobody left to take it."""

    def waits(state: ThreadState) -> Replies:
        yield either.gate.here()

    thread = either.start(waits)
    execution_id = began(thread.submit("go").result(PATIENCE_S))
    arrived = either.gate.arrival()
    thread.interrupt(execution_id).result(PATIENCE_S)
    assert ended(thread, execution_id).status == "cancelled"
    with caplog.at_level(logging.ERROR, "treadle"):
        arrived.go.fail(ValueError("too late to be taken"))
        del arrived
        gc.collect()

    assert "too late to be taken" not in caplog.text


def test_an_interrupt_ends_what_a_worker_body_waits_for(either: Scene) -> None:
    def waits_for_ever(state: ThreadState) -> Replies:
        try:
            yield either.gate.here()
        except ExecutionCancelled as error:
            either.seen.append((error.execution_id, error.reason, error.source))
            raise

    thread = either.start(waits_for_ever)
    execution_id = began(thread.submit("go").result(PATIENCE_S))
    either.gate.arrival()

    thread.interrupt(execution_id, reason="enough", source="parent").result(PATIENCE_S)

    assert ended(thread, execution_id).status == "cancelled"
    assert either.seen == [(execution_id, "enough", "parent")]


def test_a_body_that_blocks_on_its_abort_signal_is_told_by_it_and_not_by_an_error(scene: Scene) -> None:
    @agent(name="actor")
    def listens(state: ThreadState) -> None:
        assert state.execution is not None
        signal = state.execution.abort_signal
        assert not signal.wait_blocking(0)
        scene.gate.here()
        scene.seen.append(signal.wait_blocking(PATIENCE_S))
        state.inject_message("assistant", "I was told").result()

    scene.open(listens)
    thread = scene.thread()
    execution_id = began(thread.submit("go").result(PATIENCE_S))
    scene.gate.arrival()
    thread.interrupt(execution_id).result(PATIENCE_S)

    assert ended(thread, execution_id).status == "cancelled"
    assert scene.seen == [True]
    assert texts(thread) == ["go", "I was told"]


def test_a_worker_that_waits_gives_its_place_to_another(scene: Scene) -> None:
    @agent(name="actor")
    def asks(state: ThreadState) -> None:
        helper = scene.runtime.thread("helper")
        receipt = helper.submit("help").result()
        scene.seen.append(helper.wait(receipt).result().status)

    @agent(name="helper")
    def helps(state: ThreadState) -> None:
        state.inject_message("assistant", "here you are").result()

    scene.open(asks, helps, workers=1)
    thread = scene.thread()
    scene.thread("helper", thread_id="helper")

    assert ended(thread, thread.submit("go").result(PATIENCE_S)).status == "succeeded"
    assert scene.seen == ["succeeded"]


def test_closing_ends_every_wait_and_later_calls_say_that_the_runtime_is_closed(scene: Scene) -> None:
    thread = scene.gated()
    first = thread.submit("first").result(PATIENCE_S)
    scene.gate.arrival()
    queued = thread.submit("second", on_busy="queue").result(PATIENCE_S)
    running, waiting = thread.wait(first), thread.wait(queued)

    scene.close()

    assert running.result(PATIENCE_S).status == "cancelled"
    with pytest.raises(RuntimeClosed):
        waiting.result(PATIENCE_S)
    for call in (
        lambda: thread.submit("x"),
        lambda: thread.wait(first),
        thread.status,
        thread.messages,
        lambda: scene.runtime.create_thread("actor"),
        lambda: scene.runtime.delete_thread(thread.id),
        scene.runtime.threads,
    ):
        with pytest.raises(RuntimeClosed):
            call().result(PATIENCE_S)


def test_a_full_mailbox_refuses_at_the_call_and_stores_nothing_of_it() -> None:
    @agent(name="actor")
    async def rests(state: ThreadState) -> None:
        pass

    async def play() -> None:
        async with Stepper(rests) as stepper:
            thread: Thread = await stepper.get(stepper.runtime.create_thread("actor"))
            sent = [thread.inject_message("user", f"{n}") for n in range(1_024)]

            with pytest.raises(ThreadOverloaded) as refused:
                thread.inject_message("user", "one too many")

            assert refused.value.details["thread_id"] == thread.id
            for reply in sent:
                await stepper.get(reply)
            page = thread.messages(limit=1_000, order="desc").result()
            assert (page.total, page.messages[0].content) == (1_024, "1023")
            assert (await stepper.get(thread.inject_message("user", "now"))).content == "now"

    asyncio.run(play())


def test_a_call_with_missing_arguments_is_a_type_error_at_the_call(scene: Scene) -> None:
    thread = scene.start(echo)

    with pytest.raises(TypeError):
        thread.submit()  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        thread.steer("e")  # type: ignore[call-arg]

    assert tags(thread) == ["THREAD_CREATED"]
    assert texts(thread) == []
