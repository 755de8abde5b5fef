"""Tests actors/abort.py: a signal is raised once, and everybody who waits for it is told."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest

from treadle.actors.abort import AbortSignal
from treadle.agents import agent

if TYPE_CHECKING:
    from collections.abc import Callable

    from treadle.actors import Runtime
    from treadle.agents import ThreadState

GUARD_S = 60.0


def raised(signal: AbortSignal, reason: str | None = None, source: str = "user") -> bool:
    first = signal.mark(reason, source)
    signal.tell()
    return first


def test_a_signal_is_raised_once_and_keeps_its_first_reason() -> None:
    signal = AbortSignal()
    assert (signal.aborted, signal.reason, signal.source) == (False, None, "")

    assert raised(signal, "enough", "parent")
    assert not raised(signal, "later", "user")

    assert (signal.aborted, signal.reason, signal.source) == (True, "enough", "parent")


def test_a_signal_is_neither_true_nor_false() -> None:
    with pytest.raises(TypeError, match="aborted"):
        bool(AbortSignal())


def test_callbacks_run_once_when_it_is_raised_and_at_once_where_it_was() -> None:
    signal, calls = AbortSignal(), list[str]()
    signal.add_callback(lambda: calls.append("first"))
    taken_back = signal.add_callback(lambda: calls.append("taken back"))
    signal.remove_callback(taken_back)
    signal.mark(None, "user")
    assert calls == []  # marked, and nobody told yet
    signal.tell()
    signal.tell()
    assert calls == ["first"]

    late = signal.add_callback(lambda: calls.append("late"))
    assert calls == ["first", "late"]
    signal.remove_callback(late)


def test_who_asks_between_the_mark_and_the_telling_is_told_once() -> None:
    signal, calls = AbortSignal(), list[str]()
    signal.mark(None, "user")
    signal.add_callback(lambda: calls.append("between"))
    signal.tell()

    assert calls == ["between"]


def test_a_worker_waits_as_long_as_it_said_and_no_longer() -> None:
    signal = AbortSignal()
    assert signal.wait_blocking(0) is False
    waits = threading.Thread(target=raised, args=(signal,))
    waits.start()
    assert signal.wait_blocking(GUARD_S) is True
    waits.join()
    assert signal.wait_blocking(0) is True


def test_any_number_of_coroutines_may_wait() -> None:
    async def wait() -> int:
        signal = AbortSignal()
        waiting = [asyncio.ensure_future(signal.wait()) for _ in range(3)]
        waiting[0].cancel()  # one that gives up does not disturb the others
        raised(signal)
        ended = await asyncio.gather(*waiting, return_exceptions=True)
        await signal.wait()
        return sum(one is None for one in ended)

    assert asyncio.run(wait()) == 2


def test_a_plain_function_that_waits_for_the_signal_returns_from_the_wait(runtime: Callable[..., Runtime]) -> None:
    """It waits for just this, so it is told by the return and not by an error; what it does next is refused."""
    waits, seen = threading.Event(), list[object]()

    @agent
    def patient(state: ThreadState) -> None:
        assert state.execution is not None
        signal = state.execution.abort_signal
        signal.add_callback(lambda: seen.append("callback"))
        waits.set()
        seen.append(signal.wait_blocking(GUARD_S))
        seen.append((signal.reason, signal.source))

    thread = runtime(patient).create_thread(patient).result(GUARD_S)
    execution_id = thread.submit("go").result(GUARD_S).execution_id
    assert execution_id is not None
    assert waits.wait(GUARD_S)
    thread.interrupt(execution_id, reason="enough").result(GUARD_S)

    assert thread.wait(execution_id).result(GUARD_S).status == "cancelled"
    assert sorted(map(str, seen)) == ["('enough', 'user')", "True", "callback"]
