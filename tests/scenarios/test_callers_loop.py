"""A runtime on its caller's own loop: bodies share it with the app, and everything is awaited from there."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from tests.scenarios.scene import PATIENCE_S, texts
from treadle.actors import ExecutionCancelled, Runtime
from treadle.actors.fake_clock import FakeClock
from treadle.agents import ThreadState, agent

if TYPE_CHECKING:
    from treadle.storage import LmdbStore, MemoryStore


def opened(store: MemoryStore | LmdbStore, *agents: Any, **options: Any) -> Runtime:
    return Runtime(store, agents=agents, always_evict=pytest.always_evict, **options)  # type: ignore[attr-defined]


def test_bodies_share_the_loop_of_the_app_and_its_objects(store: MemoryStore | LmdbStore) -> None:
    async def app() -> None:
        shared: asyncio.Queue[str] = asyncio.Queue()
        places: list[tuple[object, int]] = []

        @agent
        async def tells(state: ThreadState) -> None:
            places.append((asyncio.get_running_loop(), threading.get_ident()))
            await shared.put(state.thread_id)

        async with opened(store, tells) as runtime:
            thread = await runtime.create_thread("tells")
            receipt = await thread.submit("go")
            async with asyncio.timeout(PATIENCE_S):
                assert await shared.get() == thread.id
            assert (await thread.wait(receipt)).status == "succeeded"
            assert places == [(asyncio.get_running_loop(), threading.get_ident())]

    asyncio.run(app())


def test_a_plain_function_runs_beside_the_loop_and_never_on_it(store: MemoryStore | LmdbStore) -> None:
    async def app() -> None:
        beat = asyncio.Event()

        @agent
        def blocks(state: ThreadState) -> None:
            # The loop must turn while this blocks, or the event would never be set.
            asyncio.run_coroutine_threadsafe(turn(), loop).result(PATIENCE_S)
            state.inject_message("assistant", "it turned").result()

        async def turn() -> None:
            beat.set()

        loop = asyncio.get_running_loop()
        async with opened(store, blocks) as runtime:
            thread = await runtime.create_thread("blocks")
            record = await thread.wait(await thread.submit("go"))
            assert record.status == "succeeded"
            assert beat.is_set()
            page = await thread.messages(order="asc")
            assert [message.content for message in page.messages] == ["go", "it turned"]

    asyncio.run(app())


def test_controls_awaited_beside_a_body_on_the_same_loop_reach_it(store: MemoryStore | LmdbStore) -> None:
    async def app() -> None:
        stands = asyncio.Event()
        told: list[str] = []

        @agent
        async def waits(state: ThreadState) -> None:
            told.extend(str(message.content) for message in state.execution.new_messages)  # type: ignore[union-attr]
            stands.set()
            try:
                if len(told) > 1:
                    await asyncio.Event().wait()
                else:
                    await go.wait()
            except asyncio.CancelledError:
                # Not a reply was awaited, so this is the loop's own cancellation; the next reply still works.
                await state.inject_message("assistant", "cut short")
                raise

        go = asyncio.Event()
        async with opened(store, waits) as runtime:
            thread = await runtime.create_thread("waits")
            receipt = await thread.submit("go")
            assert receipt.execution_id is not None
            await stands.wait()
            stands.clear()
            assert (await thread.steer(receipt.execution_id, "shorter")).disposition == "accepted"
            go.set()
            await stands.wait()
            assert told == ["go", "shorter"]
            assert (await thread.interrupt(receipt.execution_id)).disposition == "accepted"
            assert (await thread.wait(receipt)).status == "cancelled"
            assert texts(thread) == ["go", "shorter", "cut short"]

    asyncio.run(app())


def test_leaving_interrupts_what_runs_and_every_execution_has_its_finish(store: MemoryStore | LmdbStore) -> None:
    cancelled: list[str] = []

    @agent
    async def waits(state: ThreadState) -> None:
        begun.append(state.thread_id)
        try:
            await state.sleep(3_600)
        except ExecutionCancelled as error:
            cancelled.append(error.source)
            raise

    begun: list[str] = []

    async def app() -> list[Any]:
        async with opened(store, waits, drain_timeout=0, clock=FakeClock()) as runtime:
            threads = [await runtime.create_thread("waits") for _ in range(10)]
            receipts = [await thread.submit("go") for thread in threads]
            waits_for = [thread.wait(receipt) for thread, receipt in zip(threads, receipts, strict=True)]
            while len(begun) < 10:
                await asyncio.sleep(0)
        return [(await reply).status for reply in waits_for]

    assert asyncio.run(app()) == ["cancelled"] * 10
    assert cancelled == ["system"] * 10
    with opened(store, waits) as runtime:
        for summary in runtime.threads().result(PATIENCE_S).threads:
            (record,) = runtime.thread(summary.id).executions().result(PATIENCE_S).executions
            assert (record.status, record.reason) == ("cancelled", "aborted")


def test_a_loop_that_ends_under_its_executions_loses_them_and_the_thread_goes_on(
    store: MemoryStore | LmdbStore,
) -> None:
    @agent
    async def waits(state: ThreadState) -> None:
        await state.sleep(3_600)

    runtime = opened(store, waits, clock=FakeClock())

    async def app() -> Any:
        await runtime.__aenter__()
        thread = await runtime.create_thread("waits")
        receipt = await thread.submit("go")
        return thread, receipt

    loop = asyncio.new_event_loop()
    thread, receipt = loop.run_until_complete(app())
    for task in asyncio.all_tasks(loop):
        # Its loop is gone for good; without this, Python says so at the task's collection.
        task._log_destroy_pending = False  # type: ignore[attr-defined]
    loop.close()
    # The next thing that needs the loop finds it closed.
    thread.interrupt(receipt.execution_id).result(PATIENCE_S)

    record = thread.wait(receipt).result(PATIENCE_S)

    assert record.status == "interrupted"
    assert record.evidence is not None
    assert record.evidence["cause"] == "loop_closed"
    assert thread.status().result(PATIENCE_S).reason == "execution_lost"
    runtime.close(drain_timeout=0)
