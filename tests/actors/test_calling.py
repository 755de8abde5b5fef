"""Plain functions that a body has workers run: they belong to its execution, end with it, and outlive it without effect."""

from __future__ import annotations

import contextvars
import logging
import threading
from typing import TYPE_CHECKING, Any

import pytest

from treadle.actors import ExecutionCancelled, ExecutionFenced, Reply, Runtime
from treadle.actors.calling import Calls
from treadle.actors.execution import current_execution
from treadle.actors.testing import Puppet, Stage
from treadle.protocol.errors import LimitExceeded, NoWorker
from treadle.protocol.limits import CALLS_MAX
from treadle.storage import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from treadle.actors import Thread
    from treadle.actors.execution import Execution

    Enter = Callable[..., Stage]

GUARD_S = 60.0
flavour: contextvars.ContextVar[str] = contextvars.ContextVar("flavour", default="none")


class Body:
    """A bare body, as the runtime knows it."""

    name = "body"

    def __init__(self, run: Callable[[Execution], Any], runs_on: str = "loop") -> None:
        self.run = run
        self.runs_on = runs_on


def begun(stage: Enter) -> tuple[Stage, Puppet, Thread, str]:
    puppet = Puppet(obeys=False)
    on = stage(puppet)
    thread = on.thread(thread_id="t")
    receipt = on.ask(thread.submit("go"))
    on.settle()
    assert receipt.execution_id is not None
    return on, puppet, thread, receipt.execution_id


def test_it_gives_what_the_function_returns_and_runs_it_as_the_execution(stage: Enter) -> None:
    on, puppet, _, _ = begun(stage)
    seen: list[object] = []

    def double(number: int, *, plus: int = 0) -> int:
        seen.extend([current_execution.get(), flavour.get()])
        return 2 * number + plus

    token = flavour.set("vanilla")
    reply = puppet.execution.call(double, 4, plus=1)
    flavour.reset(token)

    assert not reply.done()
    assert on.ask(reply) == 9
    assert seen == [puppet.execution, "vanilla"]


@pytest.mark.parametrize("error", [ValueError("bad"), SystemExit(3), KeyboardInterrupt(), MemoryError("big")])
def test_what_the_function_raises_comes_through_the_reply(stage: Enter, error: BaseException) -> None:
    on, puppet, thread, _ = begun(stage)

    def fail() -> None:
        raise error

    with pytest.raises(type(error)):
        on.ask(puppet.execution.call(fail))
    puppet.returns()
    on.settle()
    assert thread.status().result().reason == "awaiting_human"


def test_a_coroutine_function_is_refused(stage: Enter) -> None:
    on, puppet, _, _ = begun(stage)

    async def asks() -> None:
        raise AssertionError

    with pytest.raises(TypeError, match="coroutine"):
        on.ask(puppet.execution.call(asks))


def test_a_plain_body_waits_for_a_function_on_its_own_worker(stage: Enter) -> None:
    def body(execution: Execution) -> None:
        answer = execution.call(lambda: "made").result()
        execution.append({"id": "m", "role": "assistant", "content": answer}).result()

    on = stage(Body(body, "worker"))
    thread = on.thread()
    on.ask(thread.submit("go"))
    on.settle()

    assert thread.messages().result().messages[-1].content == "made"


def test_an_interrupt_takes_a_function_out_of_the_line(stage: Enter) -> None:
    on, puppet, thread, execution_id = begun(stage)
    ran: list[int] = []
    reply = puppet.execution.call(ran.append, 1)

    asked = thread.interrupt(execution_id)
    while not asked.done():
        assert on.turn() or on.commit()
    on.settle()

    assert isinstance(reply.error(), ExecutionCancelled)
    assert ran == []


def test_an_interrupt_ends_the_blocking_waits_of_a_function(stage: Enter) -> None:
    on, puppet, thread, execution_id = begun(stage)
    told: list[BaseException] = []

    def wait() -> str:
        try:
            Reply[None]().result()
        except ExecutionCancelled as error:
            told.append(error)
        return "cleaned up"

    reply = puppet.execution.call(wait)
    on.settle()
    on.ask(thread.interrupt(execution_id))
    on.settle()

    assert len(told) == 1
    assert reply.result() == "cleaned up"
    puppet.returns()
    on.settle()
    record = thread.execution(execution_id).result()
    assert (record.status, record.abandoned) == ("cancelled", False)


def test_nothing_is_called_after_an_interrupt_or_after_the_end(stage: Enter) -> None:
    on, puppet, thread, execution_id = begun(stage)
    on.ask(thread.interrupt(execution_id))
    on.settle()
    execution = puppet.execution

    assert isinstance(execution.call(lambda: 1).error(), ExecutionCancelled)
    puppet.returns()
    on.settle()
    assert isinstance(execution.call(lambda: 1).error(), ExecutionFenced)


def test_a_call_that_the_end_of_its_execution_passes_by_is_answered_all_the_same(stage: Enter) -> None:
    on, puppet, _, _ = begun(stage)
    execution = puppet.execution

    class Passed(Calls):
        def _add(self, call: Any) -> None:
            execution.fence()  # admitted before, in the line behind
            super()._add(call)

    ran: list[int] = []
    execution._made().calls = Passed(execution)
    reply = execution.call(ran.append, 1)
    on.settle()

    assert isinstance(reply.error(), ExecutionFenced)
    assert ran == []


def test_a_pass_is_not_over_before_its_functions_are(stage: Enter) -> None:
    on, puppet, thread, execution_id = begun(stage)
    go: Reply[None] = Reply()
    puppet.execution.call(go.result)
    on.settle()

    puppet.returns()
    on.settle()
    assert thread.execution(execution_id).result().status == "active"

    go.set(None)
    on.settle()
    assert thread.execution(execution_id).result().status == "succeeded"


def test_the_next_pass_calls_functions_of_its_own(stage: Enter) -> None:
    on, puppet, thread, execution_id = begun(stage)
    assert on.ask(puppet.execution.call(lambda: 1)) == 1
    on.ask(thread.steer(execution_id, "more"))
    puppet.returns()
    on.settle()

    assert puppet.execution.passes == 2
    assert on.ask(puppet.execution.call(lambda: 2)) == 2


def test_one_that_ignores_the_abort_is_abandoned_with_its_execution(
    stage: Enter, caplog: pytest.LogCaptureFixture
) -> None:
    on, puppet, thread, execution_id = begun(stage)
    execution = puppet.execution
    late: list[BaseException | None] = []
    go: Reply[None] = Reply()

    def stubborn() -> str:
        for _ in range(2):
            try:
                go.result()
            except ExecutionCancelled:
                continue
        late.append(execution.set_value("k", "late").error())
        return "late"

    reply = execution.call(stubborn)
    on.settle()
    on.ask(thread.interrupt(execution_id))
    on.settle()
    puppet.returns()
    on.settle()
    assert thread.execution(execution_id).result().status == "active"  # the body is back, the function is not

    on.advance(on.services.options.interrupt_grace)
    on.settle()
    record = thread.execution(execution_id).result()
    assert (record.status, record.abandoned) == ("cancelled", True)
    assert isinstance(reply.error(), ExecutionCancelled)
    assert on.pool.counts()["abandoned"] == 1

    with caplog.at_level(logging.WARNING, "treadle"):
        go.set(None)
        on.settle()
    assert isinstance(late[0], ExecutionFenced)
    assert "thrown away" in caplog.text
    assert thread.get_value("k").result() is None
    assert on.pool.counts()["abandoned"] == 0


def test_a_deadline_abandons_it_too(stage: Enter) -> None:
    on = stage(Puppet(obeys=True))
    puppet = on.agents[0]
    assert isinstance(puppet, Puppet)
    thread = on.thread()
    receipt = on.ask(thread.submit("go", timeout=5))
    on.settle()
    go: Reply[None] = Reply()

    def stubborn() -> None:
        while not go.done():
            try:
                go.result()
            except ExecutionCancelled:
                continue

    puppet.execution.call(stubborn)
    on.settle()
    on.advance(5)
    on.settle()
    on.advance(on.services.options.interrupt_grace)
    on.settle()

    record = thread.execution(receipt.execution_id or "").result()
    assert record.error is not None
    assert (record.error.type, record.abandoned) == ("ExecutionTimeout", True)
    go.set(None)


def test_a_pool_that_refuses_is_no_worker(stage: Enter, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise NoWorker("none is left (on purpose)")

    async def body(execution: Execution) -> None:
        await execution.call(lambda: 1)

    on = stage(Body(body))
    thread = on.thread()
    monkeypatch.setattr(on.pool, "submit", refuse)
    receipt = on.ask(thread.submit("go"))
    on.settle()

    assert thread.execution(receipt.execution_id or "").result().error is not None
    assert thread.status().result().reason == "no_worker"


def test_explain_lists_what_runs_and_what_waits_for_a_worker(stage: Enter) -> None:
    on, puppet, thread, _ = begun(stage)
    go: Reply[None] = Reply()

    def slow() -> None:
        go.result()

    puppet.execution.call(slow)
    on.settle()
    puppet.execution.call(len, "x")

    calls = thread.explain().result().calls
    assert len(calls) == 2
    assert "slow at " in calls[0]
    assert calls[1] == "len waits for a worker"

    go.set(None)
    on.settle()
    assert thread.explain().result().calls == ()


def test_their_number_is_bounded(stage: Enter) -> None:
    _, puppet, _, _ = begun(stage)
    execution = puppet.execution
    for _ in range(CALLS_MAX):
        execution.call(len, "x")

    error = execution.call(len, "x").error()

    assert isinstance(error, LimitExceeded)
    assert error.details["limit"] == "calls"


def test_two_functions_of_one_body_run_at_once_on_a_real_pool() -> None:
    met = threading.Barrier(2)

    async def body(execution: Execution) -> None:
        replies = [execution.call(met.wait, GUARD_S) for _ in range(2)]
        execution.append({"id": "m", "role": "assistant", "content": str(sorted([await one for one in replies]))})

    with Runtime(MemoryStore(), agents=[Body(body)]) as runtime:
        thread = runtime.create_thread("body").result(GUARD_S)
        receipt = thread.submit("go").result(GUARD_S)
        assert thread.wait(receipt).result(GUARD_S).status == "succeeded"
        assert thread.message("m").result().content == "[0, 1]"  # type: ignore[union-attr]


def test_an_interrupt_races_with_many_functions_on_a_real_pool() -> None:
    entered = threading.Semaphore(0)

    def wait() -> None:
        entered.release()
        Reply[None]().result(GUARD_S)

    async def body(execution: Execution) -> None:
        for reply in [execution.call(wait) for _ in range(60)]:
            await reply

    with Runtime(MemoryStore(), agents=[Body(body)], interrupt_grace=GUARD_S) as runtime:
        thread = runtime.create_thread("body").result(GUARD_S)
        receipt = thread.submit("go").result(GUARD_S)
        assert entered.acquire(timeout=GUARD_S)
        thread.interrupt(receipt.execution_id or "").result(GUARD_S)
        record = thread.wait(receipt).result(GUARD_S)
        assert (record.status, record.abandoned) == ("cancelled", False)
