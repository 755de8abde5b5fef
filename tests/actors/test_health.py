"""What a runtime says of itself (treadle.actors.health); reasons of the store and the loop stand in test_runtime.py."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from treadle.actors import Runtime
from treadle.actors.testing import Puppet, Stage
from treadle.agents import ThreadState, agent
from treadle.protocol.errors import RuntimeClosed
from treadle.storage import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable

    Enter = Callable[..., Stage]

GUARD = 60


@agent(name="answer")
async def answer(state: ThreadState) -> None:
    assert state.execution is not None
    if state.execution.new_messages[-1].content == "fail":
        raise ValueError("as asked")


def test_executions_are_counted_by_their_outcome() -> None:
    with Runtime(MemoryStore(), agents=[answer]) as runtime:
        for number, text in enumerate(["a", "b", "fail"]):
            thread = runtime.create_thread("answer").result(GUARD)
            receipt = thread.submit(text, input_id=f"i{number}").result(GUARD)
            thread.wait(receipt.execution_id).result(GUARD)
        counts = runtime.counts()

    assert counts.ended == {"succeeded": 2, "failed": 1}
    assert (counts.active, counts.blocked, counts.mail, counts.waiting) == (0, 0, 0, 0)
    assert counts.actors == 3
    assert counts.store.batches >= 9
    assert sum(counts.store.sizes) == counts.store.groups
    assert set(counts.workers) == {"workers", "idle", "blocked", "abandoned", "waiting"}


def test_what_runs_waits_and_is_watched_is_counted(stage: Enter) -> None:
    on = stage(Puppet())
    thread = on.thread()
    on.ask(thread.submit("runs"))
    on.ask(thread.submit("waits", on_busy="queue"))
    with thread.stream() as stream:
        stream.next(0)
        counts = on.runtime.counts()

    assert (counts.active, counts.waiting, counts.watched, counts.readers) == (1, 1, 1, 1)


def test_a_dispatcher_that_is_stuck_makes_the_runtime_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("treadle.actors.health.DISPATCHER_SILENT_S", 0.0)
    held, goes_on = threading.Event(), threading.Event()
    with Runtime(MemoryStore(), agents=[answer]) as runtime:
        assert runtime._services is not None
        runtime._services.dispatcher.call(lambda: (held.set(), goes_on.wait(GUARD)))
        assert held.wait(GUARD)

        assert runtime.ready() == (False, ["dispatcher_silent"])
        goes_on.set()


def test_a_closed_runtime_counts_on_and_one_that_was_never_open_does_not() -> None:
    runtime = Runtime(MemoryStore(), agents=[answer])
    with pytest.raises(RuntimeClosed):
        runtime.counts()
