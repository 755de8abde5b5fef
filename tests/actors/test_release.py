"""What an execution owns is closed before its FINISH, last first, and what is not is named in it."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Any

import pytest

from tests.actors.started import started
from treadle.actors import ExecutionFenced
from treadle.actors.testing import Puppet, Stage
from treadle.agents import agent

if TYPE_CHECKING:
    from collections.abc import Callable

    from treadle.actors import OwnedProcess, Runtime
    from treadle.actors.testing import FakeClock, Probe
    from treadle.agents import ThreadState

    Enter = Callable[..., Stage]

GUARD_S = 60.0


class Closable:
    def __init__(self, log: list[str], name: str) -> None:
        self._log, self._name = log, name

    def close(self) -> None:
        self._log.append(self._name)


class AsyncClosable:
    def __init__(self, log: list[str]) -> None:
        self._log = log

    async def aclose(self) -> None:
        self._log.append("aclose")


class Managed:
    def __init__(self, log: list[str]) -> None:
        self._log = log

    def __enter__(self) -> None:
        """Not called: it was entered by whoever owns it."""

    def __exit__(self, *_error: object) -> None:
        self._log.append("__exit__")


class Broken:
    def close(self) -> None:
        raise SystemExit("it does not close")


def test_what_is_owned_is_closed_before_finish_last_first_each_in_its_own_way(stage: Enter) -> None:
    puppet = Puppet()
    on = stage(puppet)
    thread = on.thread()
    execution_id = started(on, thread)
    log: list[str] = []
    first = puppet.execution.own(Closable(log, "close"))
    puppet.execution.own(AsyncClosable(log))
    puppet.execution.own(Managed(log))
    assert isinstance(first, Closable)
    puppet.returns()
    while on.turn() or on.body():
        pass
    assert (log, on.store.pending()) == ([], 0)
    assert thread.state().result().active_execution.phase == "finishing"
    assert thread.status().result().state == "running"
    on.settle()

    assert log == ["__exit__", "aclose", "close"]
    assert thread.execution(execution_id).result().leftovers in ((), [])


def test_what_fails_to_close_is_named_and_the_others_are_closed_all_the_same(stage: Enter) -> None:
    puppet = Puppet()
    on = stage(puppet)
    thread = on.thread()
    execution_id = started(on, thread)
    log: list[str] = []
    puppet.execution.own(Closable(log, "first"))
    puppet.execution.own(Broken())
    puppet.execution.own(Closable(log, "last"))
    puppet.returns()
    on.settle()
    record = thread.execution(execution_id).result()

    assert log == ["last", "first"]
    assert record.outcome == "succeeded"
    assert [name.rpartition(".")[2] for name in record.leftovers] == ["Broken"]


def test_finish_waits_for_no_resource_longer_than_the_release_timeout(
    runtime: Callable[..., Runtime], probe: Callable[..., Probe], fake_clock: FakeClock
) -> None:
    closing, let_go = threading.Event(), threading.Event()

    class Slow:
        def close(self) -> None:
            closing.set()
            let_go.wait(GUARD_S)

    reached = threading.Event()
    processes: list[OwnedProcess] = []

    class Behind:
        def close(self) -> None:
            reached.set()

    @agent
    def owner(state: ThreadState) -> None:
        state.execution.own(Behind())
        processes.append(state.execution.start_process(["sleep", "3600"]).result())
        state.execution.own(Slow())

    thread = runtime(owner, release_timeout=5).create_thread(owner).result(GUARD_S)
    seen = probe(thread)
    receipt = thread.submit("go").result(GUARD_S)
    assert closing.wait(GUARD_S)
    fake_clock.advance(5)
    seen.until_status("idle")
    record = thread.execution(receipt.execution_id).result(GUARD_S)

    assert [name.rpartition(".")[2] for name in record.leftovers] == ["Slow", "Behind"]
    # What stands behind the slow one is closed all the same: the process before its record goes with FINISH.
    assert processes[0].returncode in (-signal.SIGTERM, -signal.SIGKILL)
    assert reached.wait(GUARD_S)
    let_go.set()


def test_what_is_neither_closable_nor_in_time_is_refused(stage: Enter) -> None:
    puppet = Puppet()
    on = stage(puppet)
    thread = on.thread()
    started(on, thread)
    execution = puppet.execution
    with pytest.raises(TypeError, match="neither aclose, close nor __exit__"):
        execution.own(object())
    puppet.returns()
    on.settle()

    with pytest.raises(ExecutionFenced):
        execution.own(Closable([], "late"))


def test_what_is_owned_is_closed_once_over_all_attempts_at_finish(stage: Enter) -> None:
    puppet = Puppet()
    on = stage(puppet)
    thread = on.thread()
    started(on, thread)
    log: list[str] = []
    puppet.execution.own(Closable(log, "closed"))
    puppet.returns()
    on.act()
    for _ in range(3):
        on.refuse()
        on.act()
        on.advance(1)
        on.act()
    on.settle()

    assert log == ["closed"]
    assert thread.status().result().state == "idle"


@pytest.mark.parametrize("ending", ["interrupt", "raise", "lost"])
def test_however_an_execution_ends_what_it_owns_is_closed(stage: Enter, ending: str) -> None:
    puppet = Puppet()
    on = stage(puppet)
    thread = on.thread()
    execution_id = started(on, thread)
    log: list[str] = []
    puppet.execution.own(Closable(log, "closed"))
    if ending == "interrupt":
        on.ask(thread.interrupt(execution_id))
    elif ending == "raise":
        puppet.raises(ValueError("bad"))
    else:
        on.services.supervisor.loop_closed([execution_id])
    on.settle()

    assert log == ["closed"]
    assert thread.state().result().active_execution is None


def test_bodies_and_releases_do_not_share_workers(runtime: Callable[..., Runtime], probe: Callable[..., Probe]) -> None:
    """A hostile body must not hold up the FINISH of another execution."""
    let_go, busy = threading.Event(), threading.Event()
    log: list[str] = []

    @agent
    def hostile(state: ThreadState) -> None:
        busy.set()
        let_go.wait(GUARD_S)

    puppet = Puppet()
    hosted = runtime(hostile, puppet, workers=1)
    stuck = hosted.create_thread(hostile).result(GUARD_S)
    stuck.submit("go").result(GUARD_S)
    assert busy.wait(GUARD_S)
    thread = hosted.create_thread(puppet).result(GUARD_S)
    seen = probe(thread)
    thread.submit("go").result(GUARD_S)
    puppet.wait_for_pass(1)
    puppet.execution.own(Closable(log, "closed"))
    puppet.returns()
    seen.until_status("running")
    seen.until_status("idle")
    let_go.set()

    assert log == ["closed"]


def test_the_evidence_names_types_and_no_contents(stage: Enter) -> None:
    puppet = Puppet()
    on = stage(puppet)
    thread = on.thread()
    execution_id = started(on, thread)

    class Secret(Broken):
        def __repr__(self) -> str:
            return "password"

    secret: Any = Secret()
    puppet.execution.own(secret)
    puppet.returns()
    on.settle()
    record = thread.execution(execution_id).result()

    assert "Secret" in record.leftovers[0]
    assert "password" not in str(record)


def test_the_time_of_a_release_runs_and_its_phase_is_shown_before_anything_is_closed(stage: Enter) -> None:
    puppet = Puppet()
    on = stage(puppet)
    thread = on.thread()
    started(on, thread)
    timers = on.clock.pending()
    seen: list[tuple[int, str]] = []

    class Looks:
        def close(self) -> None:
            seen.append((on.clock.pending() - timers, thread.state().result().active_execution.phase))

    class AtOnce:
        """A lane whose worker is quicker than whoever hands it a job."""

        def submit(self, key: str, call: Callable[[], object], on_end: Callable[[None], object]) -> AtOnce:
            call()
            on_end(None)
            return self

        def abandon(self) -> bool:
            return False

    on.services.release_lane = AtOnce()  # type: ignore[assignment]
    puppet.execution.own(Looks())
    puppet.returns()
    on.settle()

    assert seen == [(1, "finishing")]
    assert on.clock.pending() == timers
    assert thread.status().result().state == "idle"
