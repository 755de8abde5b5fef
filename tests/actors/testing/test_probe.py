"""A probe waits for what a test expects, in order, and says what came instead."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from treadle.actors.testing import Probe, Puppet

if TYPE_CHECKING:
    from collections.abc import Callable

    from treadle.actors import Runtime, Thread

    Follow = Callable[..., Probe]

GUARD_S = 60.0


@pytest.fixture
def puppet() -> Puppet:
    return Puppet()


@pytest.fixture
def thread(runtime: Callable[..., Runtime], puppet: Puppet) -> Thread:
    return runtime(puppet).create_thread("puppet").result(GUARD_S)


def test_it_begins_with_the_snapshot(probe: Follow, thread: Thread) -> None:
    seen = probe(thread)

    assert seen.snapshot["status"]["state"] == "idle"
    assert seen.types() == ["thread_status"]


def test_it_waits_for_statuses_and_events_in_the_order_in_which_they_come(
    probe: Follow, thread: Thread, puppet: Puppet
) -> None:
    seen = probe(thread)
    thread.submit("go").result(GUARD_S)
    started = seen.next_event("THREAD_EXECUTION_STARTED")
    seen.until_status("running")
    puppet.wait_for_pass(1)
    puppet.returns()
    finished = seen.next_event("THREAD_EXECUTION_FINISHED", outcome="succeeded")
    seen.until_status("idle", "awaiting_human")

    assert started["execution_id"] == finished["execution_id"]


def test_what_was_published_since_the_snapshot_stands_before_it(probe: Follow, thread: Thread, puppet: Puppet) -> None:
    seen = probe(thread)
    thread.submit("go").result(GUARD_S)
    assert not puppet.passes or puppet.execution
    puppet.wait_for_pass(1)
    ends = threading.Timer(0, puppet.returns)
    ends.start()
    assert seen.until_status("idle") is not seen.snapshot
    ends.join()


def test_a_snapshot_that_says_it_already_is_enough(probe: Follow, thread: Thread) -> None:
    seen = probe(thread)

    assert seen.until_status("idle") is seen.snapshot


def test_it_waits_for_whatever_a_predicate_says(probe: Follow, thread: Thread) -> None:
    seen = probe(thread)
    thread.inject_message("user", "one").result(GUARD_S)
    thread.inject_message("user", "two").result(GUARD_S)
    frame = seen.until(lambda one: one.get("message", {}).get("content") == "two")

    assert frame["type"] == "MESSAGE_ADDED"
    assert seen.types() == ["thread_status", "MESSAGE_ADDED", "MESSAGE_ADDED"]


def test_what_does_not_come_fails_with_what_came(probe: Follow, thread: Thread) -> None:
    seen = probe(thread, guard=0)
    thread.inject_message("user", "x").result(GUARD_S)
    with pytest.raises(AssertionError, match=r"waited for status failed, not within 0 s; what came: MESSAGE_ADDED"):
        seen.until_status("failed")
    with pytest.raises(AssertionError, match=r"THREAD_EXECUTION_FINISHED outcome='failed'.*what came: nothing"):
        seen.next_event("THREAD_EXECUTION_FINISHED", outcome="failed")


def test_a_stream_that_ends_fails_the_wait(probe: Follow, thread: Thread, runtime: Callable[..., Runtime]) -> None:
    seen = probe(thread)
    runtime.close()  # type: ignore[attr-defined]
    assert seen.next()["type"] == "closed"
    with pytest.raises(AssertionError, match="the stream ended"):
        seen.next()


def test_it_follows_from_a_cursor(probe: Follow, thread: Thread) -> None:
    thread.inject_message("user", "before").result(GUARD_S)
    cursor = thread.state().result(GUARD_S).cursor
    thread.inject_message("user", "behind").result(GUARD_S)
    with Probe(thread, after=cursor) as seen:
        assert seen.next_event("MESSAGE_ADDED")["message"]["content"] == "behind"
