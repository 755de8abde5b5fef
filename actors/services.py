"""Owns what the parts of one runtime share: store, clock, dispatcher, loop, pools, agents, options. Does nothing itself."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from ..protocol.ids import format_id
from ..protocol.limits import (
    DRAIN_TIMEOUT_S,
    IDLE_AFTER_S,
    INTERRUPT_GRACE_S,
    RELEASE_TIMEOUT_S,
    RESIDENT_MAX,
)

if TYPE_CHECKING:
    from ..storage.store import Boot, Store
    from .clock import Clock, TimerService
    from .directory import Directory
    from .dispatcher import Dispatcher
    from .execution import Execution
    from .hub import Hub
    from .loops import LoopHost
    from .supervisor import Supervisor
    from .verifying import Verifier
    from .wait_graph import WaitGraph
    from .workers import WorkerPool

__all__ = ["Body", "Options", "Services"]


class Body(Protocol):
    """The agent's code as the runtime knows it.

    Optional attributes: `timeout` (seconds, None for none), `steerable` (True), `on_lost` (`settle` or `resume`),
    `stopped_text` (what a system row says where a user stopped an execution whose body had to be abandoned; None).
    Optional methods: `bind(bodies) -> list[str]`, called before the store is opened with all bodies by name, which returns
    problems, one sentence each; and `created(thread)`, called on a worker once a thread of it is durable, which may return
    an awaitable for the loop.
    """

    @property
    def name(self) -> str:
        """The agent's name: what threads are created under."""

    @property
    def runs_on(self) -> Literal["loop", "worker"]:
        """Where `run` is called: on the event loop, or on a worker of the pool."""

    def run(self, execution: Execution, /) -> Awaitable[None] | None:
        """One pass; returns an awaitable exactly when it runs on the loop."""


class Options(NamedTuple):
    """How a runtime behaves; durations in seconds."""

    interrupt_grace: float = INTERRUPT_GRACE_S
    release_timeout: float = RELEASE_TIMEOUT_S
    drain_timeout: float = DRAIN_TIMEOUT_S
    idle_after: float = IDLE_AFTER_S
    resident_max: int = RESIDENT_MAX
    always_evict: bool = False


class Services:
    """The shared parts; filled once, by the runtime, before any mail."""

    __slots__ = (
        "__weakref__", "agents", "boot", "clock", "closing", "directory", "dispatcher", "ended", "hub", "idle_callbacks", "loop",
        "options", "pool", "release_lane", "report", "running", "store", "supervisor", "timers", "verifier", "waits",
    )  # fmt: skip

    store: Store
    boot: Boot
    clock: Clock
    timers: TimerService
    dispatcher: Dispatcher
    directory: Directory
    supervisor: Supervisor
    hub: Hub
    loop: LoopHost
    pool: WorkerPool
    release_lane: WorkerPool
    waits: WaitGraph
    verifier: Verifier | None  # with `always_evict`
    agents: Mapping[str, Body]
    options: Options
    closing: bool  # no START is made by itself any more
    idle_callbacks: list[
        Callable[[], object]
    ]  # of a close that waits: called when executions begin and end, and threads rest
    running: dict[str, Execution]  # executions whose body is out, by id
    ended: dict[str, int]  # executions since the open, by outcome; `lost` for those without one
    report: Callable[[str, Mapping[str, object]], None]


_CHANCE_BYTES = 9
_chance: deque[str] = deque()


def new_id(time_us: int) -> str:
    """Return a fresh id of ours that sorts by time; its chance is the system's, drawn for many ids at once.

    A call for each id would give up the interpreter lock each time: 60 µs beside a busy worker, measured, for 0.3.
    """
    try:
        chance = _chance.popleft()
    except IndexError:
        chance, *more = os.urandom(_CHANCE_BYTES * 512).hex(" ", _CHANCE_BYTES).split()
        _chance.extend(more)
    return format_id(time_us, chance)


# A child must not draw what its parent draws.
os.register_at_fork(after_in_child=_chance.clear)
