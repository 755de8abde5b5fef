"""The life of a runtime: what open and close promise, and the options that it takes."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from treadle.actors import Runtime
from treadle.actors.clock import SystemClock
from treadle.actors.reply import Reply
from treadle.actors.testing import Puppet
from treadle.agents import agent
from treadle.protocol.errors import (
    CallerError,
    CloseIncomplete,
    InvalidInput,
    RuntimeClosed,
    StoreInUse,
    shorten,
)
from treadle.storage import LmdbStore, MemoryStore
from treadle.storage.batch import Answer
from treadle.storage.faults import FaultyStore
from treadle.storage.reading import read_journal, read_thread

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from treadle.actors.testing import FakeClock, Probe
    from treadle.agents import ThreadState
    from treadle.storage.batch import Batch

    Open = Callable[..., Runtime]

GUARD_S = 60.0


@agent
async def quiet(state: ThreadState) -> None:
    """End at once."""


def test_a_runtime_names_its_agents_in_order() -> None:
    @agent
    async def another(state: ThreadState) -> None:
        """End at once."""

    assert Runtime(MemoryStore(), agents=[quiet, another]).agents == ["another", "quiet"]


def test_a_runtime_tells_its_clock_always_and_its_boot_once_it_is_open() -> None:
    runtime = Runtime(MemoryStore(), agents=[quiet])
    with pytest.raises(RuntimeClosed):
        assert runtime.boot_id
    with runtime:
        thread = runtime.create_thread(quiet).result()

        assert runtime.boot_id == thread.state().result().boot_id
        assert isinstance(runtime.clock, SystemClock)


def closing(hosted: Runtime, **options: Any) -> Reply[None]:
    """Close on a worker of its own."""
    closed: Reply[None] = Reply()

    def close() -> None:
        try:
            hosted.close(**options)
        except BaseException as error:
            closed.fail(error)
        else:
            closed.set(None)

    threading.Thread(target=close, name="treadle-test-close", daemon=True).start()
    return closed


def journal(store: MemoryStore, number: int = 1) -> list[str]:
    store.open()
    try:
        with store.view() as view:
            found = read_thread(view, number)
            assert found is not None
            return [entry.event.type for entry in read_journal(view, number, 1, 0, found[0].sequence, 1_000)]
    finally:
        store.close()


def running(hosted: Runtime, puppet: Puppet, passes: int = 1) -> Any:
    thread = hosted.create_thread(puppet).result(GUARD_S)
    thread.submit("go").result(GUARD_S)
    puppet.wait_for_pass(passes)
    return thread


def test_a_runtime_is_opened_once_and_closing_is_idempotent(store: MemoryStore) -> None:
    hosted = Runtime(store, agents=[quiet])
    with pytest.raises(RuntimeClosed):
        hosted.thread("t")
    hosted.close()  # never opened: nothing to close
    with pytest.raises(InvalidInput, match="drain_timeout"):
        hosted.close(float("nan"))
    with hosted, pytest.raises(CallerError, match="opened once"):
        hosted.open()
    hosted.close()
    with pytest.raises(CallerError, match="opened once"):
        hosted.open()


def test_whoever_closes_second_leaves_when_it_is_closed(store: MemoryStore) -> None:
    puppet = Puppet()
    hosted = Runtime(store, agents=[puppet]).open()
    running(hosted, puppet)
    first = closing(hosted, drain_timeout=GUARD_S)
    second = closing(hosted)
    with pytest.raises(TimeoutError):
        second.result(0.02)
    puppet.returns()
    second.result(GUARD_S)

    assert first.done() or first.result(GUARD_S) is None
    assert journal(store)[-1] == "THREAD_EXECUTION_FINISHED"  # the store is free for another


def test_a_close_within_the_close_of_the_same_worker_does_not_wait_for_itself() -> None:
    """As a signal handler's does."""

    class Nested(MemoryStore):
        def close(self) -> None:
            hosted.close()
            super().close()

    hosted = Runtime(Nested(), agents=[quiet]).open()
    closing(hosted).result(GUARD_S)


def test_two_runtimes_cannot_have_one_store(disk_store: LmdbStore, tmp_path: Path) -> None:
    """Scenario 20, within a process."""
    with Runtime(disk_store, agents=[quiet]) as hosted:
        with pytest.raises(StoreInUse):
            Runtime(LmdbStore(tmp_path / "store"), agents=[quiet]).open()
        assert hosted.create_thread(quiet).result(GUARD_S).status().result(GUARD_S).state == "idle"


def test_after_close_every_call_says_that_the_runtime_is_closed(runtime: Open, store: MemoryStore) -> None:
    hosted = runtime(quiet)
    thread = hosted.create_thread(quiet).result(GUARD_S)
    unread = thread.stream()
    hosted.close()

    for call in (
        lambda: thread.submit("x"), lambda: thread.status(), lambda: thread.messages(), lambda: thread.wait("e" * 32),
        lambda: hosted.create_thread(quiet), lambda: hosted.delete_thread(thread.id),
    ):  # fmt: skip
        assert isinstance(call().error(), RuntimeClosed), call
    with pytest.raises(RuntimeClosed):
        unread.next(0)
    assert hosted.ready() == (False, ["runtime_closed"])


def test_the_loop_is_the_caller_s_under_async_with_and_an_own_one_under_with(store: MemoryStore) -> None:
    seen: list[object] = []

    @agent
    async def looks(state: ThreadState) -> None:
        seen.append(asyncio.get_running_loop())

    async def host(**options: Any) -> object:
        async with Runtime(store, agents=[looks], **options) as hosted:
            thread = await hosted.create_thread(looks)
            await thread.wait(await thread.submit("go"))
        return asyncio.get_running_loop()

    assert seen.append(asyncio.run(host())) is None
    assert seen[0] is seen[1]
    seen.append(asyncio.run(host(loop="own")))
    assert seen[2] is not seen[3]
    with Runtime(store, agents=[looks]) as hosted:
        thread = hosted.create_thread(looks).result(GUARD_S)
        thread.wait(thread.submit("go").result(GUARD_S)).result(GUARD_S)
    assert seen[4] not in seen[:4]


@pytest.mark.parametrize(
    "options",
    [
        {"loop": "other"}, {"interrupt_grace": -1}, {"drain_timeout": "soon"}, {"idle_after": True}, {"resident_max": -1},
        {"interrupt_grace": 10**400}, {"release_timeout": float("nan")}, {"workers": 0}, {"workers": "3"}, {"on_report": 5},
        {"resident_max": 0.5}, {"clock": "noon"}, {"clock": 0}, {"clock": SystemClock}, {"dispatcher": 5},
    ],
    ids=str,
)  # fmt: skip
def test_an_option_out_of_bounds_is_refused_with_its_value(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as raised:
        Runtime(MemoryStore(), agents=[quiet], **options)

    assert raised.value.code == "invalid_option"
    assert raised.value.details["value"] == shorten(next(iter(options.values())))


@pytest.mark.parametrize("body", [object(), "support", lambda state: None, type("Nameless", (), {"runs_on": "loop"})()])
def test_what_is_no_agent_is_refused_before_anything_is_opened(body: Any) -> None:
    with pytest.raises(InvalidInput) as raised:
        Runtime(MemoryStore(), agents=[body])

    assert raised.value.code == "invalid_agent"


def test_two_agents_of_one_name_are_refused() -> None:
    with pytest.raises(InvalidInput, match="two agents"):
        Runtime(MemoryStore(), agents=[Puppet("a"), Puppet("a")])


def test_the_caller_s_loop_needs_async_with() -> None:
    with pytest.raises(InvalidInput, match="async with"):
        Runtime(MemoryStore(), agents=[quiet], loop="caller").open()


def test_an_open_that_fails_leaves_nothing_open(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    from treadle.actors import runtime as module

    def fail(_services: object) -> None:
        raise OSError("a bug in recovery")

    with monkeypatch.context() as broken:
        broken.setattr(module, "recover", fail)
        with pytest.raises(OSError, match="recovery"):
            Runtime(store, agents=[quiet]).open()
    with Runtime(store, agents=[quiet]) as hosted:
        assert hosted.ready() == (True, [])


def test_close_lets_executions_end_by_themselves_for_as_long_as_it_drains(
    runtime: Open, store: MemoryStore, fake_clock: FakeClock
) -> None:
    puppet = Puppet()
    hosted = runtime(puppet)
    thread = running(hosted, puppet)
    closed = closing(hosted, drain_timeout=30)
    fake_clock.wait_for_timers(2)
    assert isinstance(thread.submit("late").error(), RuntimeClosed)
    assert not closed.done()
    puppet.returns()
    closed.result(GUARD_S)

    assert journal(store)[-1] == "THREAD_EXECUTION_FINISHED"
    with Runtime(store, agents=[puppet]) as again:
        assert again.opened is not None
        assert again.opened.settled == ()
        record = again.thread(thread.id).executions().result(GUARD_S).executions[0]
        assert record.outcome == "succeeded"


def test_close_interrupts_what_is_left_after_the_drain(
    runtime: Open, store: MemoryStore, fake_clock: FakeClock
) -> None:
    puppet = Puppet()
    hosted = runtime(puppet)
    thread = running(hosted, puppet)
    closed = closing(hosted, drain_timeout=30)
    fake_clock.wait_for_timers(2)
    fake_clock.advance(30)
    closed.result(GUARD_S)

    assert journal(store)[-2:] == ["THREAD_EXECUTION_INTERRUPTED", "THREAD_EXECUTION_FINISHED"]
    with Runtime(store, agents=[puppet]) as again:
        record = again.thread(thread.id).executions().result(GUARD_S).executions[0]
        assert record.outcome == "cancelled"
        assert again.thread(thread.id).status().result(GUARD_S).reason == "aborted"


@pytest.mark.parametrize("kind", ["coroutine", "function"])
def test_close_abandons_what_does_not_stop_within_its_grace(
    runtime: Open, store: MemoryStore, fake_clock: FakeClock, kind: str
) -> None:
    let_go, out = threading.Event(), threading.Event()
    if kind == "coroutine":
        puppet: Any = Puppet(obeys=False)
    else:

        @agent(name="puppet")
        def puppet(state: ThreadState) -> None:
            out.set()
            let_go.wait(GUARD_S)

    hosted = runtime(puppet, interrupt_grace=5)
    thread = hosted.create_thread("puppet").result(GUARD_S)
    thread.submit("go").result(GUARD_S)
    if kind == "coroutine":
        puppet.wait_for_pass(1)
    else:
        assert out.wait(GUARD_S)
    closed = closing(hosted, drain_timeout=0)
    fake_clock.wait_for_timers(3)  # the sweep's, the wait's, and the grace
    fake_clock.advance(5)
    closed.result(GUARD_S)
    let_go.set()

    with Runtime(store, agents=[Puppet()]) as again:
        assert again.opened is not None
        assert again.opened.settled == ()
        record = again.thread(thread.id).executions().result(GUARD_S).executions[0]
        assert (record.outcome, record.abandoned) == ("cancelled", True)
    if kind == "coroutine":
        puppet.returns()


class SlowStore(MemoryStore):
    """Answers nothing until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.let_go = threading.Event()
        self.let_go.set()

    def commit(self, batch: Batch) -> None:
        confirm = batch.confirm

        def later(answer: Answer) -> None:
            assert self.let_go.wait(GUARD_S)
            confirm(answer)

        batch.confirm = later
        super().commit(batch)


def test_close_waits_for_what_is_on_its_way_to_start_and_gives_it_a_finish(fake_clock: FakeClock) -> None:
    """An input that was accepted as the runtime closes is an execution like any other: it gets its FINISH."""
    store, puppet = SlowStore(), Puppet()
    hosted = Runtime(store, agents=[puppet], clock=fake_clock).open()
    thread = hosted.create_thread(puppet).result(GUARD_S)
    store.let_go.clear()
    accepted = thread.submit("go")
    closed = closing(hosted, drain_timeout=0)
    fake_clock.wait_for_timers(2)
    store.let_go.set()
    closed.result(GUARD_S)

    assert accepted.result(GUARD_S).disposition == "accepted"
    assert journal(store)[-1] == "THREAD_EXECUTION_FINISHED"


def test_close_starts_nothing_that_waits(runtime: Open, store: MemoryStore, fake_clock: FakeClock) -> None:
    puppet = Puppet()
    hosted = runtime(puppet)
    thread = running(hosted, puppet)
    thread.submit("waits", on_busy="queue").result(GUARD_S)
    closed = closing(hosted, drain_timeout=30)
    fake_clock.wait_for_timers(2)
    puppet.returns()
    closed.result(GUARD_S)
    assert puppet.texts == ["go"]

    with Runtime(store, agents=[puppet]):
        puppet.wait_for_pass(2)
        assert puppet.texts == ["go", "waits"]
        puppet.returns()


def test_a_store_that_refuses_the_last_commits_makes_the_close_incomplete(fake_clock: FakeClock) -> None:
    store, puppet = MemoryStore(), Puppet()
    faulty = FaultyStore(store)
    hosted = Runtime(faulty, agents=[puppet], clock=fake_clock).open()
    thread = running(hosted, puppet)
    faulty.fail(persistent=True)
    closed = closing(hosted, drain_timeout=0)
    with pytest.raises(CloseIncomplete) as raised:
        fake_clock.run_until(closed)

    assert raised.value.details["threads"] == [thread.id]
    with Runtime(store, agents=[puppet]) as again:
        assert again.opened is not None
        assert again.opened.settled == (thread.id,)


def test_waits_and_watchers_end_with_the_runtime(runtime: Open, probe: Callable[..., Probe]) -> None:
    puppet = Puppet()
    hosted = runtime(puppet)
    thread = running(hosted, puppet)
    thread.submit("waits", on_busy="queue", input_id="i").result(GUARD_S)
    waiting = thread.wait(thread.receipt("i").result(GUARD_S))
    seen = probe(thread)
    hosted.close(drain_timeout=0)

    assert isinstance(waiting.error(), RuntimeClosed)
    seen.until_status("idle")
    assert seen.next()["type"] == "closed"


def test_close_does_not_wait_for_an_actor_that_fell(
    runtime: Open, store: MemoryStore, crash_after: Callable[..., Any]
) -> None:
    puppet = Puppet()
    hosted = runtime(puppet)
    thread = running(hosted, puppet)
    crash_after("other batch committed")
    thread.set_value("k", 1).add_done_callback(lambda reply: reply.error())
    hosted.close(drain_timeout=0)

    assert journal(store)[-1] == "THREAD_EXECUTION_LOST"


def test_closing_blocks_no_event_loop(store: MemoryStore) -> None:
    async def host() -> int:
        puppet = Puppet()
        ticks = 0
        hosted = Runtime(store, agents=[puppet], clock=SystemClock())
        async with hosted:
            thread = await hosted.create_thread(puppet)
            await thread.submit("go")
            while not puppet.passes:
                await asyncio.sleep(0)
            closed = asyncio.ensure_future(hosted.aclose(drain_timeout=0))
            while not closed.done():
                ticks += 1
                await asyncio.sleep(0)
            await closed
        return ticks

    assert asyncio.run(host()) > 1


def test_a_runtime_whose_callers_loop_was_closed_says_so(store: MemoryStore, fake_clock: FakeClock) -> None:
    loop = asyncio.new_event_loop()
    # On a clock that stands still: a loop that nobody runs would be found silent in time.
    hosted = Runtime(store, agents=[quiet], clock=fake_clock)
    loop.run_until_complete(hosted.__aenter__())
    thread = hosted.create_thread(quiet).result(GUARD_S)
    assert hosted.ready() == (True, [])
    loop.close()

    assert hosted.ready() == (False, ["loop_closed"])
    assert thread.explain().result(GUARD_S).problems[0].startswith("loop_closed: ")
    record = thread.wait(thread.submit("go").result(GUARD_S)).result(GUARD_S)
    assert record.evidence is not None
    assert record.evidence["cause"] == "loop_closed"
    hosted.close()


def test_leaving_with_an_error_closes_all_the_same(store: MemoryStore) -> None:
    with pytest.raises(ZeroDivisionError), Runtime(store, agents=[quiet]):
        raise ZeroDivisionError

    with Runtime(store, agents=[quiet]) as hosted:
        assert hosted.ready() == (True, [])
