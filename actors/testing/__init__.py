"""For people who test their agents: `pytest_plugins = ["treadle.actors.testing"]` in your top `conftest.py`.

Nothing here sleeps or polls; time is a fake clock's, order comes from events, and a wait that is not met fails.

```python
async def greeter(state): ...

def test_it_greets(runtime, probe):
    thread = runtime(agent(greeter)).create_thread("greeter").result()
    with probe(thread) as seen:
        thread.submit("hello").result()
        assert seen.next_event("MESSAGE_ADDED")["message"]["content"] == "Good day"
        seen.until_status("idle")

def test_its_deadline(runtime, probe, fake_clock):            # `state.sleep`, timeouts and grace go by this clock
    thread = runtime(agent(greeter, timeout=60)).create_thread("greeter").result()
    with probe(thread) as seen:
        thread.submit("hello").result()
        fake_clock.advance(60)
        seen.until_status("failed", "timeout")

def test_a_crash(runtime, crash_after, probe):                # see `STORE_POINTS` and `ACTOR_POINTS`
    ...
    crash_after("START committed")

def test_an_interleaving(stage):                              # nothing moves until the test says so
    on = stage(agent(greeter))
    thread = on.thread()
    receipt = thread.submit("hello")
    on.turn()                                                 # the actor decides: START is handed over
    on.commit()                                               # START is durable
    ...
    on.settle()                                               # let everything come to rest
```

Fixtures: `runtime` (a factory of open runtimes on `fake_clock`, closed at the end of the test), `store` (what it opens:
in memory; override it, or pass `store=`), `disk_store` (on disk), `probe`, `crash_after`, `stage`, and `always_evict`
(override it to return True: every thread is dropped and reloaded whenever it is free, and compared with its journal).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ...storage.lmdb_store import LmdbStore
from ...storage.memory_store import MemoryStore
from ..fake_clock import FakeClock
from ..verifying import divergences
from .crash_points import ACTOR_POINTS, STORE_POINTS, ArmedCrash, Crash, disarm
from .crash_points import crash_after as arm_crash
from .manual_pool import ManualPool
from .probe import Probe
from .puppet import Puppet
from .running import Runtimes, check_reports
from .stage import Stage, StageStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ...storage.store import Store
    from ..handle import Thread
    from ..services import Body

__all__ = [
    "ACTOR_POINTS", "STORE_POINTS", "ArmedCrash", "Crash", "FakeClock", "ManualPool", "Probe", "Puppet", "Runtimes", "Stage", "StageStore",
]  # fmt: skip


@pytest.fixture
def always_evict() -> bool:
    """Say whether runtimes drop and reload every free thread and compare it with its journal; override it to choose."""
    return False


@pytest.fixture
def fake_clock() -> FakeClock:
    """A clock that stands still until the test moves it: all deadlines of `runtime`, and `state.sleep`, go by it."""
    return FakeClock()


@pytest.fixture
def store() -> Store:
    """The store that `runtime` opens: in memory; its contents outlive a runtime, so a second one finds them."""
    return MemoryStore()


@pytest.fixture
def disk_store(tmp_path: Path) -> LmdbStore:
    """A store on disk, for `runtime(..., store=disk_store)`."""
    return LmdbStore(tmp_path / "store")


@pytest.fixture
def runtime(store: Store, fake_clock: FakeClock, always_evict: bool) -> Iterator[Runtimes]:
    """A factory of open runtimes, `runtime(agent, ..., interrupt_grace=2)`; all are closed at the end of the test."""
    runtimes = Runtimes(store, fake_clock, always_evict=always_evict)
    yield runtimes
    runtimes.close()


@pytest.fixture
def probe() -> Iterator[Callable[..., Probe]]:
    """A factory of probes, `probe(thread)`, closed at the end of the test; see `Probe`."""
    probes: list[Probe] = []

    def follow(thread: Thread, **options: Any) -> Probe:
        probes.append(Probe(thread, **options))
        return probes[-1]

    yield follow
    for one in probes:
        one.close()


@pytest.fixture
def crash_after() -> Iterator[Callable[..., ArmedCrash]]:
    """Arm crashes, `crash_after("START committed", nth=2, how="kill")`; one that is never reached fails the test."""
    armed: list[ArmedCrash] = []

    def arm(point: str, **options: Any) -> ArmedCrash:
        armed.append(arm_crash(point, **options))
        return armed[-1]

    yield arm
    disarm()
    missed = [crash for crash in armed if not crash.reached()]
    assert not missed, f"never reached: {missed}"


@pytest.fixture
def stage(always_evict: bool) -> Iterator[Callable[..., Stage]]:
    """A factory of stages, `stage(agent, ...)`, left at the end of the test; see `Stage`."""
    stages: list[Stage] = []

    def enter(*agents: Body, **options: Any) -> Stage:
        options.setdefault("always_evict", always_evict)
        stages.append(Stage(*agents, **options).__enter__())
        return stages[-1]

    yield enter
    for one in stages:
        one.close()
        check_reports(one.reports)


@pytest.fixture(autouse=True)
def _memory_equals_journal() -> Iterator[None]:
    # A divergence crashes its actor, and the restart may well hide that.
    found = len(divergences)
    yield
    assert divergences[found:] == []
