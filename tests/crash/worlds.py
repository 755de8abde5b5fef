"""Owns the two worlds in which a store fails on purpose: one that moves step by step, one with real workers and time."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Protocol

from treadle.actors import Runtime
from treadle.actors.testing import Stage, StageStore
from treadle.storage.faults import FaultyStore

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from treadle.actors import Reply
    from treadle.agents import FunctionAgent
    from treadle.storage import Store

__all__ = ["RealWorld", "SteppedWorld", "Stopped", "World"]

STEPS = 500  # of time, until a reply must be there
PATIENCE_S = 60.0


class Stopped(Exception):
    """The process has stopped, as far as the store can tell: nothing will be answered any more."""


class World(Protocol):
    """A runtime on a faulty store.

    Attributes:
        faults: what fails.
        reports: what the runtime reported that nobody wants.
        on_time: called whenever a reply takes time.
    """

    faults: FaultyStore
    reports: list[str]
    on_time: Callable[[], object]

    @property
    def runtime(self) -> Runtime:
        """The present life."""

    def get(self, reply: Reply[Any]) -> Any:
        """Let things go on until a reply is there. Raises: Stopped, or the reply's error."""

    def stopped(self) -> bool:
        """Say whether the process has stopped, as far as the store can tell."""

    def pass_time(self) -> None:
        """Let a retry come that is due."""

    def reopen(self) -> None:
        """Begin the next life; nothing fails any more."""

    def left(self) -> Store:
        """End the last life in order, and return the store that it leaves."""


def unwanted(reports: list[str], name: str, details: Mapping[str, object]) -> None:
    """Note a report that is a bug; a reload after an outcome that could not be told is none."""
    if name != "actor_reloaded":
        reports.append(f"{name}: {dict(details)}")


class _SteppedFaults(FaultyStore):
    """The part of a stage's store that the stage itself asks for."""

    store: StageStore

    def step(self) -> int:
        return self.store.step()

    def pending(self) -> int:
        return self.store.pending()

    def crash(self) -> None:
        self.store.crash()


class SteppedWorld:
    """Moves by hand on a fake clock: the same script meets the same commits in the same order."""

    def __init__(self, agents: list[FunctionAgent[Any]], **fault: Any) -> None:
        self.faults = _SteppedFaults(StageStore(), **fault)
        self._stage = Stage(*agents, store=self.faults)  # type: ignore[arg-type]  # it does all that is asked of one
        self._stage.__enter__()
        self.reports: list[str] = []
        self.on_time: Callable[[], object] = int

    @property
    def runtime(self) -> Runtime:
        return self._stage.runtime

    def get(self, reply: Reply[Any]) -> Any:
        for _ in range(STEPS):
            self._stage.settle()
            if reply.done():
                return reply.result()
            if self.stopped():
                raise Stopped
            self.on_time()
            self.pass_time()
        raise AssertionError(f"no reply after {STEPS} steps of time")

    def stopped(self) -> bool:
        return self.faults._stopped()

    def pass_time(self) -> None:
        self._stage.advance(self._stage.clock.next_due() or 0.0)
        self._stage.settle()

    def reopen(self) -> None:
        self._stage.kill()
        self.faults.heal()
        self._stage.reopen()

    def left(self) -> Store:
        self.faults.heal()
        self._stage.settle()
        for name, details in self._stage.reports:
            unwanted(self.reports, name, details)
        self._stage.close()
        # From here on with a writer of its own, like any other.
        self.faults.store._manual = False
        return self.faults.store


class RealWorld:
    """Real workers and real time on a store with a writer of its own."""

    def __init__(self, store: Store, agents: list[FunctionAgent[Any]], **fault: Any) -> None:
        self.faults = FaultyStore(store, **fault)
        self.reports: list[str] = []
        self.on_time: Callable[[], object] = int
        self._agents = agents
        self._open()

    def _open(self) -> None:
        self.runtime = Runtime(
            self.faults, agents=self._agents, interrupt_grace=1.0, drain_timeout=PATIENCE_S,
            on_report=lambda name, details: unwanted(self.reports, name, details),
        ).open()  # fmt: skip

    def get(self, reply: Reply[Any]) -> Any:
        for _ in range(int(PATIENCE_S / 0.02)):
            try:
                return reply.result(0.02)
            except TimeoutError:
                if self.stopped():
                    raise Stopped from None
                self.on_time()
        raise AssertionError(f"no reply after {PATIENCE_S} s")

    def stopped(self) -> bool:
        return self.faults._stopped()

    def pass_time(self) -> None:
        due = threading.Event()
        self.runtime._services.timers.after(0.05, due.set)
        assert due.wait(PATIENCE_S)

    def reopen(self) -> None:
        # What the death of the process would leave: nobody is told, nothing is drained. Only bodies have to go.
        for live in list(self.runtime._services.running.values()):
            live.abort(None, "system")
            live.fence()
        self.runtime._tear_down(self.runtime._services)
        self.faults.heal()
        self._open()

    def left(self) -> Store:
        self.faults.heal()
        self.runtime.close()
        return self.faults.store
