"""How a body's passes begin and end: whatever the body does, its end is reported once, and costs no other thread."""

from __future__ import annotations

import asyncio
import contextvars
import ctypes
import threading
from typing import TYPE_CHECKING, Any

import pytest

from treadle.actors import passes as passes_module
from treadle.actors.execution import current_execution
from treadle.actors.passes import describe_error
from treadle.actors.testing import Puppet, Stage
from treadle.actors.workers import WorkerLost
from treadle.agents import agent
from treadle.protocol.errors import NoWorker, StorageFull
from treadle.protocol.receipts import Disposition

if TYPE_CHECKING:
    from collections.abc import Callable

    from treadle.actors import ExecutionRecord, Reply, Runtime, Thread
    from treadle.actors.execution import Execution
    from treadle.actors.testing import Probe
    from treadle.agents import ThreadState
    from treadle.protocol.receipts import Receipt

    Enter = Callable[..., Stage]

GUARD_S = 60.0


class Body:
    """A bare body, as the runtime knows it."""

    def __init__(self, run: Callable[[Execution], Any], runs_on: str = "loop") -> None:
        self.name = "body"
        self.runs_on = runs_on
        self.run = run


def play(on: Stage, thread: Thread) -> ExecutionRecord:
    """Start an execution, let everything come to rest, and return its record."""
    receipt = on.ask(thread.submit("go"))
    on.settle()
    assert receipt.execution_id is not None
    record: ExecutionRecord = thread.execution(receipt.execution_id).result()
    return record


def decided(on: Stage, reply: Reply[Any]) -> Any:
    """Let the actors and the store go on, and no body, until a reply is there."""
    while not reply.done():
        assert on.turn() or on.commit()
    return reply.result()


HOSTILE = [
    asyncio.CancelledError(), SystemExit(1), KeyboardInterrupt(), GeneratorExit(), RecursionError("deep"), MemoryError("big"),
    ValueError("bad"), StopIteration(1), StopAsyncIteration(2), Exception(),
]  # fmt: skip


@pytest.mark.parametrize("runs_on", ["loop", "worker"])
@pytest.mark.parametrize("error", HOSTILE, ids=lambda error: type(error).__name__)
def test_whatever_a_body_raises_its_execution_settles_and_no_other_thread_notices(
    stage: Enter, runs_on: str, error: BaseException
) -> None:
    """Scenario 12."""
    if runs_on == "loop":

        async def raises(_execution: Execution) -> None:
            raise error
    else:

        def raises(_execution: Execution) -> None:  # type: ignore[misc]
            raise error

    puppet = Puppet()
    on = stage(Body(raises, runs_on), puppet)
    other = on.thread("puppet")
    on.ask(other.submit("go"))
    on.settle()
    record = play(on, on.thread("body"))

    # Python itself turns what would end a coroutine's protocol into RuntimeError.
    turned = runs_on == "loop" and isinstance(error, StopIteration)
    assert (record.status, record.outcome) == ("failed", "failed")
    assert record.error.type == ("RuntimeError" if turned else type(error).__name__)
    assert record.error.message.strip()
    assert other.state().result().active_execution.phase == "running"
    puppet.returns()
    on.settle()
    assert other.status().result().state == "idle"


@pytest.mark.parametrize("returned", [None, 3, "text", [], object()], ids=lambda value: type(value).__name__)
def test_a_body_on_the_loop_that_returns_no_awaitable_fails_with_a_type_error(stage: Enter, returned: object) -> None:
    on = stage(Body(lambda _execution: returned))
    record = play(on, on.thread())

    assert record.outcome == "failed"
    assert record.error.type == "TypeError"


def test_a_body_may_return_any_awaitable(stage: Enter) -> None:
    def run(execution: Execution) -> Any:
        return execution.append({"id": execution.new_id(), "role": "assistant", "content": "said"})

    on = stage(Body(run))
    thread = on.thread()

    assert play(on, thread).outcome == "succeeded"
    assert thread.messages().result().messages[-1].content == "said"


def steered(stage: Enter) -> tuple[Puppet, Stage, Thread, Receipt]:
    """Return a puppet whose first pass runs, and has yet to read a steer."""
    puppet = Puppet()
    on = stage(puppet)
    thread = on.thread()
    receipt = on.ask(thread.submit("go"))
    on.settle()
    on.ask(thread.steer(receipt.execution_id, "steer"))
    return puppet, on, thread, receipt


def test_what_arrives_while_a_pass_runs_begins_one_further_pass_of_the_same_execution(stage: Enter) -> None:
    puppet, on, thread, receipt = steered(stage)
    on.ask(thread.queue_message("message"))
    puppet.returns()
    on.settle()
    assert [message.content for message in puppet.passes[1]] == ["steer", "message"]
    assert puppet.execution.passes == 2
    puppet.returns()
    on.settle()

    assert len(puppet.passes) == 2
    assert thread.execution(receipt.execution_id).result().outcome == "succeeded"


@pytest.mark.parametrize("error", [None, ValueError("bad"), WorkerLost(began=True)], ids=["returned", "raised", "lost"])
@pytest.mark.parametrize("late", [False, True], ids=["at once", "late"])
def test_an_end_that_is_told_twice_ends_no_later_pass(stage: Enter, error: BaseException | None, late: bool) -> None:
    """A signal handler that raises right behind a report leaves nobody knowing whether it was made."""
    puppet, on, thread, receipt = steered(stage)
    puppet.returns()
    while not len(puppet.execution.entry.mailbox):
        assert on.body()
    if late:
        on.settle()
    passes_module._report(puppet.execution, 1, error)
    on.settle()

    assert len(puppet.passes) == 2
    assert thread.state().result().active_execution.phase == "running"
    puppet.returns()
    on.settle()
    assert thread.execution(receipt.execution_id).result().outcome == "succeeded"


def test_an_end_that_a_signal_handler_has_told_twice_ends_no_later_pass(
    stage: Enter, monkeypatch: pytest.MonkeyPatch
) -> None:
    puppet, on, thread, _ = steered(stage)
    over = passes_module._Pass._over
    told: list[BaseException | None] = []

    def raised(task: Any, error: BaseException | None) -> None:
        over(task, error)
        told.append(error)
        if len(told) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(passes_module._Pass, "_over", raised)
    puppet.returns()
    on.settle()

    assert len(told) == 2
    assert len(puppet.passes) == 2
    assert thread.state().result().active_execution.phase == "running"


def test_no_pass_begins_after_stop_and_what_was_unread_says_why(stage: Enter) -> None:
    puppet = Puppet()
    on = stage(puppet)
    thread = on.thread()
    receipt = on.ask(thread.submit("go"))
    on.settle()
    on.ask(thread.steer(receipt.execution_id, "unread"))
    puppet.execution.stop("step_limit")
    puppet.returns()
    on.settle()
    steer = thread.messages().result().messages[-1]

    assert len(puppet.passes) == 1
    assert (steer.metadata["consumed"], steer.metadata["reason"]) == (False, "step_limit")
    assert thread.status().result().reason == "step_limit"


def test_an_interrupt_before_the_body_s_first_step_ends_the_execution_cancelled(stage: Enter) -> None:
    """Scenario 9: never "ok" and no effect."""
    puppet = Puppet()
    on = stage(puppet)
    thread = on.thread()
    receipt = decided(on, thread.submit("go"))
    assert decided(on, thread.interrupt(receipt.execution_id)).disposition is Disposition.ACCEPTED
    on.settle()

    assert puppet.passes == []
    assert thread.execution(receipt.execution_id).result().status == "cancelled"


def test_an_interrupt_takes_a_body_out_of_the_line_for_a_worker(stage: Enter) -> None:
    ran: list[str] = []
    on = stage(Body(lambda execution: ran.append(execution.id), "worker"))
    thread = on.thread()
    receipt = decided(on, thread.submit("go"))
    assert thread.explain().result().waits_for_worker
    assert thread.explain().result().next == "the body is called as soon as a worker is free"
    assert decided(on, thread.interrupt(receipt.execution_id)).disposition is Disposition.ACCEPTED
    on.settle()

    assert ran == []
    assert thread.execution(receipt.execution_id).result().status == "cancelled"


def test_a_body_that_was_abandoned_ends_unheard(stage: Enter) -> None:
    puppet = Puppet(obeys=False)
    on = stage(puppet, interrupt_grace=5)
    thread = on.thread()
    receipt = on.ask(thread.submit("go"))
    on.settle()
    on.ask(thread.interrupt(receipt.execution_id))
    on.advance(5)
    on.settle()
    record = thread.execution(receipt.execution_id).result()
    assert (record.status, record.abandoned) == ("cancelled", True)
    on.ask(thread.submit("next"))
    on.settle()
    old_end = thread.status().result()
    puppet.raises(ValueError("much too late"))
    on.settle()

    assert old_end.state == "running"
    assert thread.execution(receipt.execution_id).result() == record


def test_a_body_meets_its_execution_in_a_context_variable_and_nothing_of_its_caller_s(stage: Enter) -> None:
    mark: contextvars.ContextVar[str] = contextvars.ContextVar("mark", default="nothing")
    seen: list[object] = []

    async def run(execution: Execution) -> None:
        seen.extend([current_execution.get() is execution, mark.get()])

    on = stage(Body(run))
    mark.set("the caller's")
    play(on, on.thread())

    assert seen == [True, "nothing"]
    assert current_execution.get() is None


def test_where_no_worker_is_left_the_execution_says_so(stage: Enter, monkeypatch: pytest.MonkeyPatch) -> None:
    on = stage(Body(lambda _execution: None, "worker"))
    thread = on.thread()

    def full(*_given: object) -> None:
        raise NoWorker("65 workers are held by bodies that do not end", abandoned=65)

    monkeypatch.setattr(on.pool, "submit", full)
    record = play(on, thread)

    assert record.error.type == "NoWorker"
    assert thread.status().result() == thread.status().result()._replace(state="failed", reason="no_worker")


def test_a_body_that_meets_a_full_disk_says_so_in_its_reason(stage: Enter) -> None:
    async def run(_execution: Execution) -> None:
        raise StorageFull("no room")

    on = stage(Body(run))
    thread = on.thread()
    play(on, thread)

    assert thread.status().result().reason == "storage_full"


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise SystemExit("not even that")


class NameRefused(type):
    def __getattribute__(cls, name: str) -> object:
        if name == "__name__":
            raise SystemExit("no name either")
        return super().__getattribute__(name)


class Nameless(Exception, metaclass=NameRefused):
    pass


class OwnText(str):
    __slots__ = ()

    def strip(self, *_characters: object) -> str:
        raise SystemExit("no text")

    encode = strip  # type: ignore[assignment]


class SaidInOwnText(Exception):
    def __str__(self) -> str:
        return OwnText("bad")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ValueError("bad"), ("ValueError", "bad")),
        (Nameless("bad"), ("Nameless", "bad")),
        (SaidInOwnText(), ("SaidInOwnText", "bad")),
        (type("", (Exception,), {})("bad"), ("unnamed", "bad")),
        (ValueError(""), ("ValueError", "ValueError")),
        (ValueError(" \n "), ("ValueError", "ValueError")),
        (ValueError("\ud800"), ("ValueError", "?")),
        (ValueError("a\0b"), ("ValueError", "a�b")),
        (Unspeakable(), ("Unspeakable", "(its text could not be had: SystemExit)")),
    ],
    ids=repr,
)
def test_an_error_is_described_in_valid_words_whatever_it_does(error: BaseException, expected: tuple[str, str]) -> None:
    assert describe_error(error) == expected
    assert len(describe_error(ValueError("x" * 100_000))[1]) == 4_096


@pytest.mark.parametrize("around", range(4_090, 4_102))
def test_a_text_that_was_cut_shows_it_wherever_it_was(around: int) -> None:
    """Else the half of a secret before the cut would not be known for one."""
    text = "x" * around + "\n  " + "y" * 100

    described = describe_error(ValueError(text))[1]

    assert described == text[:4_095] + "…"


@pytest.mark.parametrize("error", [Nameless("bad"), type("", (Exception,), {})("bad")], ids=["no name", "an empty one"])
@pytest.mark.parametrize("on", ["loop", "worker"])
def test_a_body_ends_as_failed_whatever_the_class_of_its_error_says(
    runtime: Callable[..., Runtime], on: str, error: BaseException
) -> None:
    async def on_loop(_state: object) -> None:
        raise error

    def on_worker(_state: object) -> None:
        raise error

    host = runtime(agent(on_loop if on == "loop" else on_worker, name="broken"))
    thread = host.create_thread("broken").result()
    record = thread.wait(thread.submit("go").result()).result(timeout=30)

    assert (record.outcome, record.reason) == ("failed", "step_error")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_worker_that_dies_before_it_runs_the_body_is_noticed_and_the_queue_moves_on(
    runtime: Callable[..., Runtime], probe: Callable[..., Probe], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scenario 17: noticed without a time-out, settled, and the next execution gets a worker."""
    from treadle.actors.workers import Job

    ran: list[str] = []
    real = Job.run
    dies = iter([True])

    def run(job: Job) -> None:
        if next(dies, False):
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(threading.get_ident()), ctypes.py_object(SystemExit)
            )
            for _ in range(1_000):  # a few instructions, on which it strikes
                pass
        real(job)

    monkeypatch.setattr(Job, "run", run)

    @agent
    def plain(state: ThreadState) -> None:
        ran.append(state.execution.id)

    hosted = runtime(plain, workers=1)
    thread = hosted.create_thread(plain).result(GUARD_S)
    seen = probe(thread)
    lost = thread.submit("lost").result(GUARD_S)
    seen.until_status("failed", "execution_lost")
    record = thread.execution(lost.execution_id).result(GUARD_S)
    assert record.status == "interrupted"
    assert record.evidence["cause"] == "worker_lost"
    assert record.evidence["dispatched"] is False
    second = thread.submit("runs").result(GUARD_S)
    seen.until_status("idle")

    assert ran == [second.execution_id]
