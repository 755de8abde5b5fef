"""Owns the stage: a runtime in which nothing moves until a test says so, and what moves is the test's choice. Judges nothing.

Four things move on it, each by its own call: an actor takes a mail (`turn`), the store writes and answers a group
(`commit`, `refuse`), a body goes on (`body`), time passes (`advance`). Between two calls the test may look at everything.
The same calls in the same order do the same, so an interleaving that went wrong once goes wrong each time.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Self, TypeVar

from ...protocol.errors import OutcomeUnknown, StorageFull, StoreFailed, TreadleError
from ...storage.batch import Answer, Batch, refused
from ...storage.memory_store import MemoryStore
from ..burst import forget_burst
from ..dispatcher import ManualDispatcher
from ..fake_clock import FakeClock
from ..reply import Reply
from ..runtime import Runtime
from .manual_pool import ManualPool
from .running import Collect, Report

if TYPE_CHECKING:
    from types import TracebackType

    from ...storage.writer import Barriers
    from ..handle import Thread
    from ..services import Body, Services

__all__ = ["Stage", "StageStore"]

T = TypeVar("T")

logger = logging.getLogger("treadle")

_MOVES_MAX = 100_000  # a stage that has not come to rest by then never will


class StageStore(MemoryStore):
    """A manual store in memory whose next group can be refused, answered with `unknown`, or be the last."""

    def __init__(self) -> None:
        super().__init__(manual=True)
        self._instead: tuple[TreadleError, bool] | None = None
        self._breaks = False

    def refuse_next(self, error: TreadleError | None = None) -> None:
        """Have the next group not written, by default for want of room."""
        self._instead = (error or StorageFull("the disk has no room (on purpose)"), False)

    def lose_next(self, *, written: bool) -> None:
        """Have the outcome of the next group unknown, whether it is written or not."""
        self._instead = (OutcomeUnknown("the outcome cannot be told (on purpose)"), written)

    def break_next(self, error: TreadleError | None = None) -> None:
        """Have the next group not written, and nothing after it until the store is opened again."""
        self._instead = (error or StoreFailed("input/output error (on purpose)"), False)
        self._breaks = True

    def step(self) -> int:
        """Write and answer the next group; what was asked for it is over with it, were it but a barrier."""
        answered = super().step()
        if answered:
            self._instead, self._breaks = None, False
        return answered

    def write(self, batches: list[Batch], barriers: Barriers, answers: list[Answer]) -> TreadleError | None:
        """Apply one group, or refuse it; called by the writer."""
        instead, self._instead = self._instead, None
        if instead is None:
            return super().write(batches, barriers, answers)
        error, written = instead
        if written:
            super().write(batches, barriers, [])
        unknown = isinstance(error, OutcomeUnknown)
        answers.extend(refused(error, "unknown" if unknown else "not_written") for _ in batches)
        breaks, self._breaks = self._breaks, False
        return error if breaks else None


class _StageRuntime(Runtime):
    """A runtime whose loop and workers belong to the stage."""

    def __init__(self, stage: Stage, **options: Any) -> None:
        super().__init__(stage.store, agents=stage.agents, clock=stage.clock, dispatcher=stage.dispatcher, **options)
        self._stage = stage
        self.services: Services

    def _fill(self, services: Services, loop: asyncio.AbstractEventLoop | None) -> None:  # noqa: ARG002 - it has its own
        super()._fill(services, self._stage.loop)
        self.services = services
        services.pool = self._stage.pool  # type: ignore[assignment]  # it stands in for one
        services.release_lane = self._stage.release_lane  # type: ignore[assignment]


class Stage:
    """A runtime on a store in memory and a fake clock, moved by hand.

    Args:
        agents: what it hosts.
        store: to play on, for what an earlier stage left; by default an empty one.
        clock: by default one that stands at a fixed time.
        options: as of `Runtime`.

    Attributes:
        runtime, store, clock, dispatcher, loop, pool, release_lane: its parts, of the present life.
        reports: what the runtime reported, by name, with details.
    """

    def __init__(
        self, *agents: Body, store: StageStore | None = None, clock: FakeClock | None = None, **options: Any
    ) -> None:
        self.agents = agents
        self.store = store or StageStore()
        self.reports: list[Report] = []
        self.clock = clock or FakeClock()
        self._options = options
        self._open()

    def _open(self) -> None:
        self.dispatcher = ManualDispatcher(budget=1)
        self.pool = ManualPool()
        self.release_lane = ManualPool()
        # Whatever the program's policy makes: a loop that is not Python's own shows nothing of what is ready.
        self.loop = asyncio.SelectorEventLoop()
        self.runtime = _StageRuntime(self, on_report=Collect(self.reports), **self._options)
        self._left = False
        self._opening: Reply[Runtime] = Reply()
        # On a worker, since an open waits for what it settles, and only the test can bring that about.
        self._opener = ManualPool()
        self._opener.submit("open", lambda: self._opening.set(self.runtime.open()), self._opened)
        self._opener.step()

    def _opened(self, error: BaseException | None) -> None:
        if error is not None and not self._left:
            self._opening.fail(error)

    @property
    def services(self) -> Services:
        """The runtime's parts, for tests of the runtime itself."""
        return self.runtime.services

    def thread(self, agent: str | None = None, **options: Any) -> Thread:
        """Create a thread of an agent, by default the first, and let everything come to rest."""
        return self.ask(self.runtime.create_thread(agent or self.agents[0].name, **options))

    # One move

    def turn(self, pick: int = 0) -> bool:
        """Let an actor take one mail, or an internal call run; False when none waits.

        Args:
            pick: which of the mailboxes in line, modulo their number.
        """
        return self.dispatcher.step(pick)

    def commit(self) -> int:
        """Let the store write its next group and answer it; return how many batches and barriers that were."""
        return self.store.step()

    def refuse(self, error: TreadleError | None = None) -> int:
        """Let the store refuse the group that waits, by default for want of room; return how many batches that were."""
        if not self.store.pending():
            return 0
        self.store.refuse_next(error)
        return self.store.step()

    def body(self, pick: int = 0) -> bool:
        """Let bodies go on: all coroutines to their next wait or, where none can, one plain function.

        Args:
            pick: which of the plain functions that can go on, modulo their number.

        Returns:
            False when no body can.
        """
        return self._loop_step() or self.pool.step(pick)

    def release(self, pick: int = 0) -> bool:
        """Let the closing of what executions own, or the start of their processes, go on; False when there is none."""
        return self.release_lane.step(pick)

    def advance(self, seconds: float) -> int:
        """Move time on; return how many timers went off. What they bring about still waits for its turn."""
        return self.clock.advance(seconds)

    # Many moves

    def act(self) -> int:
        """Let everything go on as far as it can without the store and without time; return how many moves that took."""
        return self._move_while(commits=False)

    def settle(self) -> int:
        """Let everything go on as far as it can while time stands still; return how many moves that took."""
        return self._move_while(commits=True)

    def ask(self, reply: Reply[T]) -> T:
        """Let everything go on until a reply is there, and return its value or raise its error.

        Raises:
            AssertionError: everything has come to rest without it.
        """
        for _ in range(_MOVES_MAX):
            if reply.done():
                return reply.result()
            if not self._move(commits=True):
                break
        if reply.done():
            return reply.result()
        raise AssertionError("everything is at rest and the reply is not there; does it need time or a body's step?")

    def _move_while(self, *, commits: bool) -> int:
        for moves in range(_MOVES_MAX):
            if not self._move(commits=commits):
                return moves
        raise AssertionError(f"still not at rest after {_MOVES_MAX} moves")

    def _move(self, *, commits: bool) -> bool:
        return self.turn() or self.body() or self.release() or self._opener.step() or (commits and self.commit() > 0)

    def _loop_step(self) -> bool:
        ready: Any = self.loop  # asyncio shows what is ready to nobody; without it every step would have to guess
        if not ready._ready:  # noqa: SLF001
            return False
        self.loop.call_soon(self.loop.stop)
        try:
            self.loop.run_forever()
        except (SystemExit, KeyboardInterrupt) as error:  # out of a body; on its own loop the runtime enters again too
            logger.warning("%r escaped from a body and ended the loop's step", error)
        return True

    # Lives

    def kill(self) -> None:
        """End this life as the death of the process would: what the store has not written is lost, nobody is answered."""
        self.store.crash()
        self._leave()

    def reopen(self, *agents: Body, settle: bool = True) -> Runtime:
        """Open the store again, after `kill()`, with the same agents or others.

        Args:
            agents: by default those from before.
            settle: let everything come to rest; else the open stands at its first wait, and the test moves it on.
        """
        if not self._left:
            self.kill()
        self.agents = agents or self.agents
        self._open()
        return self.ask(self._opening) if settle else self.runtime

    def close(self) -> None:
        """Leave the stage: as `kill`, with nothing left behind. Idempotent."""
        if not self._left:
            self.kill()

    def _leave(self) -> None:
        self._left = True
        services = getattr(self.runtime, "services", None)
        if services is not None:
            services.closing = True
            services.timers.stop()
        for pool in (self._opener, self.pool, self.release_lane):
            pool.close()
        for _ in range(100):  # a body that does not end when it is cancelled, again and again, is given up on
            for task in asyncio.all_tasks(self.loop):
                task.cancel()
            if not self._loop_step():
                break
        # What is given up on is told when it is collected, to nobody's use.
        self.loop.set_exception_handler(lambda _loop, _context: None)
        forget_burst(self.loop)
        self.loop.close()

    def __enter__(self) -> Self:
        self.ask(self._opening)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
