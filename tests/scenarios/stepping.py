"""Moves a whole runtime by hand, on one worker: dispatcher, store and loop take a step only when the test says so."""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING, Any, Self

import pytest

from treadle.actors import Runtime
from treadle.actors.dispatcher import ManualDispatcher
from treadle.actors.fake_clock import FakeClock
from treadle.storage import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from treadle.actors import Reply, Thread
    from treadle.agents import FunctionAgent

STEPS_MAX = 100_000  # far beyond what anything here takes


class Stepper:
    """A runtime on the test's own loop; which part moves next is drawn from a seed, so every run is the same.

    Args:
        agents: coroutine agents.
        seed: of all choices.
    """

    def __init__(self, *agents: FunctionAgent[Any], seed: int = 0) -> None:
        self.random = Random(seed)
        self._dispatcher = ManualDispatcher(budget=1)
        self._store = MemoryStore(manual=True)
        self.runtime = Runtime(
            self._store,
            agents=agents,
            clock=FakeClock(),
            dispatcher=self._dispatcher,
            loop="caller",
            always_evict=pytest.always_evict,  # type: ignore[attr-defined]
        )

    async def __aenter__(self) -> Self:
        await self.runtime.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.runtime.aclose(drain_timeout=0)

    async def step(self) -> None:
        """Let one part, drawn by chance, take one step."""
        part = self.random.randrange(3)
        if part == 0:
            self._dispatcher.step(self.random.randrange(8))
        elif part == 1:
            self._store.step()
        else:
            await asyncio.sleep(0)

    def step_all_but_the_loop(self, reply: Reply[Any]) -> None:
        """Let dispatcher and store take steps until a reply is there; no coroutine moves meanwhile."""
        for _ in range(STEPS_MAX):
            if reply.done():
                return
            if not self._dispatcher.step():
                self._store.step()
        raise AssertionError(f"no reply after {STEPS_MAX} steps")

    async def until(self, true: Callable[[], bool]) -> None:
        """Take steps until something is true."""
        for _ in range(STEPS_MAX):
            if true():
                return
            await self.step()
        raise AssertionError(f"not so after {STEPS_MAX} steps")

    async def get(self, reply: Reply[Any]) -> Any:
        """Take steps until a reply is there, and return what it holds."""
        await self.until(reply.done)
        return reply.result()

    def at_rest(self, thread: Thread) -> bool:
        """Say whether a thread is at rest with nothing waiting."""
        state = thread.state().result()
        return state.active_execution is None and not state.waiting
