"""A crash happens at the point that was named, to whoever passes it, at the pass that was asked for."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from treadle.actors.testing import ACTOR_POINTS, STORE_POINTS, ArmedCrash, Crash, Puppet, Stage, crash_points
from treadle.protocol.errors import InvalidInput, StoreFailed, ThreadActorCrashed
from treadle.storage.points import armed, disarm

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from treadle.actors import Runtime

    Arm = Callable[..., ArmedCrash]
    Enter = Callable[..., Stage]


@pytest.fixture(autouse=True)
def _nothing_stays_armed() -> Iterator[None]:
    yield
    disarm()


def test_the_points_are_those_that_the_store_and_the_actor_pass() -> None:
    assert STORE_POINTS == ("before put", "before commit", "after commit before confirm")
    assert {"START committed", "FINISH committed", "MESSAGE_ADDED committed", "after reply"} < set(ACTOR_POINTS)
    assert len(set(ACTOR_POINTS)) == len(ACTOR_POINTS)


def test_an_unknown_point_is_refused_with_those_there_are() -> None:
    with pytest.raises(InvalidInput, match=r"no crash point 'START'.*START committed"):
        crash_points.crash_after("START")


@pytest.mark.parametrize("wrong", [{"nth": 0}, {"nth": "2"}, {"nth": True}, {"how": "rise"}, {"how": None}], ids=str)
def test_what_is_no_way_to_crash_is_refused_and_arms_nothing(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=next(iter(wrong))) as refused:
        crash_points.crash_after("START committed", **wrong)

    assert refused.value.code == "invalid_option"
    assert not armed()


def test_an_actor_crashes_at_its_point_and_is_settled(stage: Enter, crash_after: Arm) -> None:
    on = stage(Puppet())
    thread = on.thread()
    crash = crash_after("MESSAGE_ADDED committed", nth=2)
    assert on.ask(thread.inject_message("user", "first")).content == "first"
    assert not crash.reached()
    second = thread.inject_message("user", "second")
    on.settle()

    assert crash.reached()
    error = second.error()
    assert isinstance(error, ThreadActorCrashed)
    assert isinstance(error.__cause__, Crash)
    assert thread.messages().result().total == 2
    assert not armed()


def test_a_store_s_writer_fails_at_its_point(stage: Enter, crash_after: Arm) -> None:
    on = stage(Puppet())
    thread = on.thread()
    crash_after("before commit")
    reply = thread.set_value("k", 1)
    on.settle()

    assert isinstance(on.store.failure(), StoreFailed)
    assert reply.error() is not None
    on.reopen()
    assert on.ask(on.runtime.thread(thread.id).get_value("k")) is None


def test_a_test_waits_for_a_crash_on_another_worker(runtime: Callable[..., Runtime], crash_after: Arm) -> None:
    thread = runtime(Puppet()).create_thread("puppet").result(60)
    crash = crash_after("after reply")
    thread.set_value("k", 1).result(60)
    crash.wait()

    assert thread.get_value("k").result(60) == 1


def test_a_crash_that_is_not_reached_in_time_fails_the_wait() -> None:
    crash = crash_points.crash_after("after reply")
    with pytest.raises(AssertionError, match=r"'after reply'.*was not reached"):
        crash.wait(0)


@pytest.mark.slow
def test_a_process_is_killed_on_the_spot() -> None:
    script = """
from treadle.actors import Runtime
from treadle.actors.testing.crash_points import crash_after
from treadle.actors.testing import Puppet
from treadle.storage import MemoryStore
with Runtime(MemoryStore(), agents=[Puppet()]) as runtime:
    thread = runtime.create_thread("puppet").result()
    crash_after("START committed", how="kill")
    thread.submit("go").result()
    print("it lived on")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=False)

    assert (done.returncode, done.stdout) == (-signal.SIGKILL, "")
