from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
from typing import TYPE_CHECKING, Any

import pytest

from tests.actors.breaking_off import broken_off
from treadle.actors import burst as burst_module
from treadle.actors import loops as loops_module
from treadle.actors.burst import burst_for
from treadle.actors.loops import LoopHost, LoopTask
from treadle.actors.reply import Reply

if TYPE_CHECKING:
    from collections.abc import Iterator

GUARD = 60
variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")


class Ends:
    """Collects ends, in order, and waits for them."""

    def __init__(self) -> None:
        self.reply: Reply[BaseException | None] = Reply()
        self.count = 0

    def __call__(self, error: BaseException | None) -> None:
        self.count += 1
        self.reply.set(error)

    def wait(self) -> BaseException | None:
        return self.reply.result(GUARD)


@pytest.fixture
def lost() -> list[list[LoopTask]]:
    return []


@pytest.fixture
def host(lost: list[list[LoopTask]]) -> Iterator[LoopHost]:
    made = LoopHost(on_closed=lost.append)
    made.start()
    yield made
    assert made.close(GUARD)


def on_loop(host: LoopHost, call: Any) -> Any:
    reply: Reply[Any] = Reply()
    host.submit(lambda: reply.set(call()))
    return reply.result(GUARD)


async def for_ever() -> None:
    await asyncio.Event().wait()


def test_the_end_of_a_coroutine_is_reported_on_the_loops_worker(host: LoopHost) -> None:
    where: list[str] = []

    async def body() -> None:
        where.append(threading.current_thread().name)

    ended: Reply[str] = Reply()
    task = host.run("e-1", body, lambda error: ended.set(f"{error} on {threading.current_thread().name}"))

    assert ended.result(GUARD) == "None on treadle-loop"
    assert where == ["treadle-loop"]
    assert task.ended()
    assert task.stack() == []


def test_an_error_is_reported_and_never_logged_as_unretrieved(host: LoopHost, caplog: pytest.LogCaptureFixture) -> None:
    async def body() -> None:
        raise ValueError("broken in test_loops")

    ends = Ends()
    host.run("e-1", body, ends)

    assert repr(ends.wait()) == "ValueError('broken in test_loops')"
    on_loop(host, lambda: None)  # behind all that the end of the task brings about
    gc.collect()
    assert "broken in test_loops" not in caplog.text


def not_callable_twice() -> Any:
    raise LookupError("no coroutine")


@pytest.mark.parametrize(
    ("factory", "kind"), [(not_callable_twice, LookupError), (lambda: 5, TypeError), (lambda: None, TypeError)]
)
def test_a_factory_that_gives_no_coroutine_ends_with_its_error(host: LoopHost, factory: Any, kind: type) -> None:
    ends = Ends()
    host.run("e-1", factory, ends)

    assert isinstance(ends.wait(), kind)


def test_a_factory_may_give_any_awaitable(host: LoopHost) -> None:
    ends = Ends()
    host.run("e-1", lambda: Reply.of(1), ends)

    assert ends.wait() is None


def test_a_task_cancelled_before_its_first_step_still_has_its_end_reported(host: LoopHost) -> None:
    ran: list[str] = []
    ends = Ends()

    async def body() -> None:
        try:
            ran.append("body")
        finally:
            ran.append("finally")

    def submit_both() -> None:
        # On the loop, so that both are in one burst: the task is made and cancelled before its first step.
        task = host.run("e-1", body, ends)
        host.submit(lambda: task.task and task.task.cancel())

    host.submit(submit_both)

    assert isinstance(ends.wait(), asyncio.CancelledError)
    assert ran == []
    assert ends.count == 1


def test_a_task_cancelled_before_the_loop_came_to_it_never_begins(host: LoopHost) -> None:
    held, began = threading.Event(), threading.Event()
    host.submit(lambda: (began.set(), held.wait(GUARD)))
    assert began.wait(GUARD)
    ends = Ends()
    factory_ran: list[int] = []
    task = host.run("e-1", lambda: factory_ran.append(1), ends)  # type: ignore[arg-type,return-value]
    task.cancel()
    held.set()

    assert isinstance(ends.wait(), asyncio.CancelledError)
    assert factory_ran == []


def test_a_body_that_swallows_one_cancellation_can_be_cancelled_again(host: LoopHost) -> None:
    swallowed, entered = threading.Event(), threading.Event()

    async def body() -> None:
        try:
            entered.set()
            await for_ever()
        except asyncio.CancelledError:
            swallowed.set()
        await for_ever()

    ends = Ends()
    task = host.run("e-1", body, ends)
    assert entered.wait(GUARD)
    task.cancel()
    assert swallowed.wait(GUARD)
    assert not ends.reply.done()
    task.cancel()

    assert isinstance(ends.wait(), asyncio.CancelledError)
    assert ends.count == 1


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
def test_a_child_task_that_exits_does_not_end_the_loop_for_others(
    host: LoopHost, kind: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    bystander, go_on = Ends(), asyncio.Event()

    async def waits() -> None:
        await go_on.wait()

    async def leave() -> None:
        raise kind

    async def parent() -> None:
        child = asyncio.ensure_future(leave())
        await asyncio.wait([child])
        assert isinstance(child.exception(), kind)

    host.run("bystander", waits, bystander)
    own, of_parent = Ends(), Ends()
    host.run("child", parent, of_parent)
    assert of_parent.wait() is None
    host.run("own", leave, own)
    assert isinstance(own.wait(), kind)
    host.submit(go_on.set)

    assert bystander.wait() is None
    assert "entered again" in caplog.text


def test_a_body_that_stops_the_loop_does_not_stop_it(host: LoopHost) -> None:
    async def body() -> None:
        host.loop.stop()
        await asyncio.sleep(0)

    ends = Ends()
    host.run("e-1", body, ends)

    assert ends.wait() is None


def test_each_body_runs_in_its_own_context(host: LoopHost) -> None:
    seen: list[str] = []

    async def body() -> None:
        seen.append(variable.get())
        variable.set("changed inside")

    variable.set("of the caller")
    given = contextvars.Context()
    given.run(variable.set, "given")
    ends = [Ends(), Ends(), Ends()]
    host.run("1", body, ends[0])
    host.run("2", body, ends[1], context=given)
    host.run("3", body, ends[2])
    for end in ends:
        end.wait()

    assert seen == ["of the caller", "given", "of the caller"]
    variable.set("unset")


def test_replies_awaited_on_the_loop_wake_it_through_its_burst(host: LoopHost) -> None:
    reply: Reply[int] = Reply()
    entered = threading.Event()

    async def body() -> None:
        entered.set()
        assert await reply == 3

    ends = Ends()
    host.run("e-1", body, ends)
    assert entered.wait(GUARD)
    assert burst_for(host.loop) is not None
    reply.set(3)

    assert ends.wait() is None


def test_a_silent_loop_is_told_by_its_pings_and_its_stack(lost: list[list[LoopTask]]) -> None:
    now = 100.0
    host = LoopHost(on_closed=lost.append, monotonic=lambda: now)
    host.start()
    assert host.silent_for() == 0.0
    host.ping()
    on_loop(host, lambda: None)
    assert (host.last_pong, host.silent_for()) == (100.0, 0.0)

    held, leave = threading.Event(), threading.Event()

    async def blocking_body() -> None:
        held.set()
        leave.wait(GUARD)

    ends = Ends()
    task = host.run("e-1", blocking_body, ends)
    assert held.wait(GUARD)
    host.ping()
    now = 101.5
    host.ping()
    assert host.silent_for() == 1.5
    assert any("blocking_body" in line for line in host.stack())
    assert any("blocking_body" in line for line in task.stack())
    leave.set()
    ends.wait()
    on_loop(host, lambda: None)
    assert host.silent_for() == 0.0
    assert host.close(GUARD)


def test_a_suspended_body_is_explained_by_the_chain_of_what_it_awaits(host: LoopHost) -> None:
    entered = threading.Event()

    async def inner_wait() -> None:
        entered.set()
        await Reply[int]()

    async def outer_body() -> None:
        await inner_wait()

    ends = Ends()
    task = host.run("e-1", outer_body, ends)
    assert entered.wait(GUARD)
    on_loop(host, lambda: None)
    lines = task.stack()
    task.cancel()
    ends.wait()

    functions = [line.rsplit(".", 1)[-1] for line in lines]
    assert functions[:3] == ["outer_body", "inner_wait", "__await__"]


def test_a_closed_callers_loop_gives_its_tasks_up_as_lost(lost: list[list[LoopTask]]) -> None:
    ends = Ends()

    async def main() -> tuple[LoopHost, LoopTask]:
        host = LoopHost(asyncio.get_running_loop(), on_closed=lost.append)
        host.start()
        task = host.run("e-1", for_ever, ends)
        await asyncio.sleep(0)
        return host, task

    loop = asyncio.new_event_loop()
    host, task = loop.run_until_complete(main())
    loop.close()
    host.ping()
    host.ping()
    late = host.run("e-2", for_ever, ends)
    assert not host.submit(print)

    assert [[task.key for task in tasks] for tasks in lost] == [["e-1"], ["e-2"]]
    assert task.ended()
    assert late.ended()
    assert ends.count == 0
    assert host.close()
    assert task.task is not None
    task.task._log_destroy_pending = False  # type: ignore[attr-defined]


def test_a_callers_loop_goes_on_after_the_host_is_closed() -> None:
    async def main() -> None:
        host = LoopHost(asyncio.get_running_loop(), on_closed=lambda _: None)
        host.start()
        ended: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()
        host.run("e-1", for_ever, ended.set_result)
        await asyncio.sleep(0)
        assert host.close()
        assert isinstance(await ended, asyncio.CancelledError)
        assert burst_for(host.loop) is None

    asyncio.run(asyncio.wait_for(main(), GUARD))


def test_closing_cancels_what_runs_and_its_children(lost: list[list[LoopTask]]) -> None:
    host = LoopHost(on_closed=lost.append)
    host.start()
    cleaned: list[str] = []
    entered = threading.Event()

    async def child() -> None:
        try:
            entered.set()
            await for_ever()
        finally:
            cleaned.append("child")

    kept: list[asyncio.Task[None]] = []

    async def body() -> None:
        kept.append(asyncio.ensure_future(child()))
        await for_ever()

    ends = Ends()
    host.run("e-1", body, ends)
    assert entered.wait(GUARD)
    assert host.close(GUARD)

    assert isinstance(ends.wait(), asyncio.CancelledError)
    assert cleaned == ["child"]
    assert lost == []
    assert host.loop.is_closed()
    assert not host.submit(print)


def test_closing_does_not_wait_for_a_body_that_blocks(lost: list[list[LoopTask]]) -> None:
    host = LoopHost(on_closed=lost.append)
    host.start()
    held, leave = threading.Event(), threading.Event()

    async def body() -> None:
        held.set()
        leave.wait(GUARD)

    host.run("e-1", body, Ends())
    assert held.wait(GUARD)

    assert not host.close(timeout=0.01)
    leave.set()
    assert host.close(GUARD)


def test_a_host_that_was_never_started_closes() -> None:
    host = LoopHost(on_closed=lambda _: None)

    assert host.close()
    assert host.loop.is_closed()


def test_an_end_that_cannot_be_reported_is_logged(host: LoopHost, caplog: pytest.LogCaptureFixture) -> None:
    reported = threading.Event()

    def on_end(error: BaseException | None) -> None:
        reported.set()
        raise ValueError("no mailbox")

    async def body() -> None:
        return

    host.run("e-1", body, on_end)
    assert reported.wait(GUARD)
    on_loop(host, lambda: None)

    assert "Reporting the end of e-1 failed" in caplog.text


def test_a_body_that_returns_has_its_end_reported_in_its_last_step(host: LoopHost) -> None:
    order: list[str] = []

    async def body() -> None:
        host.loop.call_soon(order.append, "next round")

    ended: Reply[None] = Reply()
    host.run("e-1", body, lambda error: (order.append(f"end {error}"), ended.set(None)))
    ended.result(GUARD)
    on_loop(host, lambda: None)

    assert order == ["end None", "next round"]


def test_a_body_that_returns_after_it_cancelled_its_own_task_ends_as_cancelled(host: LoopHost) -> None:
    async def body() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()

    ends = Ends()
    host.run("e-1", body, ends)

    assert isinstance(ends.wait(), asyncio.CancelledError)
    on_loop(host, lambda: None)
    assert ends.count == 1


def test_what_a_body_awaits_is_not_asked_what_it_awaits_itself(host: LoopHost) -> None:
    reply: Reply[None] = Reply()

    class Hostile:
        def __init__(self) -> None:
            self.steps = reply.__await__()

        def __await__(self) -> Any:
            return self

        def __iter__(self) -> Any:
            return self

        def __next__(self) -> Any:
            return next(self.steps)

        def __getattr__(self, name: str) -> Any:
            raise RuntimeError(f"nobody looks at {name}")

    async def body() -> None:
        await Hostile()

    ends = Ends()
    task = host.run("e-1", body, ends)
    on_loop(host, lambda: None)
    on_loop(host, lambda: None)

    assert task.stack()[-1] == f"awaits {Hostile.__qualname__}"
    reply.set(None)
    assert ends.wait() is None


async def _returns() -> None:
    pass


async def _raises() -> None:
    raise ValueError("broken in test_loops")


async def _returns_later() -> None:
    await asyncio.sleep(0)


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("body", [_returns, _raises, _returns_later])
def test_a_signal_handler_that_raises_loses_no_end_on_the_callers_loop(body: Any) -> None:
    """It comes in where a function begins, or behind a call, at whatever step of a coroutine's life on the loop."""
    ours = {loops_module.__file__, burst_module.__file__}

    def live(loop: asyncio.AbstractEventLoop, step: int) -> bool:
        host = LoopHost(loop, on_closed=lambda _: None)
        host.start()
        ends = Ends()
        task = host.run("e-1", body, ends)
        host.ping()
        broke = broken_off(lambda: loop.run_until_complete(_rounds()), step, ours, KeyboardInterrupt)
        if not task.ended():
            host.ping()
            loop.run_until_complete(_rounds())

        assert ends.count
        assert task.ended()
        host.ping()
        loop.run_until_complete(_rounds())
        assert host.silent_for() == 0
        assert host.close()
        if task.task is not None:
            task.task.exception()  # what the handler raised into it is nobody's to log
        return broke

    step, broke = 1, True
    while broke:
        step += 1
        loop = asyncio.new_event_loop()
        broke = live(loop, step)
        loop.close()
    assert step > 10


async def _rounds() -> None:
    for _ in range(8):
        await asyncio.sleep(0)
