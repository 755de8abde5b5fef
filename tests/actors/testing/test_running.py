"""The runtimes of a test: opened on its clock, closed at its end, and what went wrong unseen is said."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from treadle.actors.testing import Crash, FakeClock, Puppet, Runtimes
from treadle.actors.testing.running import check_reports
from treadle.protocol.errors import CloseIncomplete, RuntimeClosed
from treadle.storage.faults import FaultyStore
from treadle.storage.memory_store import MemoryStore

if TYPE_CHECKING:
    from treadle.storage import LmdbStore

GUARD_S = 60.0


def test_a_second_runtime_finds_what_the_first_left() -> None:
    runtimes = Runtimes(MemoryStore(), FakeClock())
    first = runtimes(Puppet())
    thread = first.create_thread("puppet").result(GUARD_S)
    first.close()
    second = runtimes(Puppet())

    assert second.thread(thread.id).status().result(GUARD_S).state == "idle"
    runtimes.close()
    assert isinstance(second.thread(thread.id).status().error(), RuntimeClosed)


def test_a_store_on_disk_takes_the_place_of_the_one_in_memory(disk_store: LmdbStore) -> None:
    runtimes = Runtimes(MemoryStore(), FakeClock())
    hosted = runtimes(Puppet(), store=disk_store)
    hosted.create_thread("puppet", thread_id="t").result(GUARD_S)
    hosted.close()

    assert runtimes(Puppet(), store=disk_store).thread("t").status().result(GUARD_S).state == "idle"
    runtimes.close()


@pytest.mark.slow
def test_a_body_that_does_not_stop_is_abandoned_on_the_test_s_clock() -> None:
    clock, puppet = FakeClock(), Puppet(obeys=False)
    runtimes = Runtimes(MemoryStore(), clock)
    thread = runtimes(puppet, interrupt_grace=30).create_thread("puppet").result(GUARD_S)
    thread.submit("go").result(GUARD_S)
    puppet.wait_for_pass(1)
    runtimes.close()

    assert clock.monotonic() >= 30


@pytest.mark.slow
def test_a_close_that_the_test_began_and_was_cut_off_in_is_brought_to_its_end() -> None:
    clock, puppet = FakeClock(), Puppet()
    runtimes = Runtimes(MemoryStore(), clock)
    hosted = runtimes(puppet, drain_timeout=3_600)
    thread = hosted.create_thread("puppet").result(GUARD_S)
    receipt = thread.submit("go").result(GUARD_S)
    puppet.wait_for_pass(1)
    begun = threading.Thread(target=hosted.close)
    begun.start()
    clock.wait_for_timers(2, GUARD_S)  # the sweep, and the end of the drain
    runtimes.close()
    begun.join(GUARD_S)

    assert not begun.is_alive()
    assert runtimes(puppet).thread(thread.id).execution(receipt.execution_id).result(GUARD_S).status == "cancelled"
    runtimes.close()


@pytest.mark.slow
def test_a_close_that_is_incomplete_fails_the_test() -> None:
    faulty, puppet = FaultyStore(MemoryStore()), Puppet()
    runtimes = Runtimes(faulty, FakeClock())
    thread = runtimes(puppet).create_thread("puppet").result(GUARD_S)
    thread.submit("go").result(GUARD_S)
    puppet.wait_for_pass(1)
    faulty.fail(persistent=True)
    with pytest.raises(CloseIncomplete):
        runtimes.close()


def test_crashes_that_nobody_asked_for_fail_the_test_and_others_do_not() -> None:
    bug = ZeroDivisionError("a bug")
    check_reports(
        [("actor_crashed", {"error": Crash("on purpose"), "thread_id": "t"}), ("actor_reloaded", {"thread_id": "t"})]
    )
    with pytest.raises(AssertionError, match="actor_crashed on thread 't': ZeroDivisionError"):
        check_reports([("actor_crashed", {"error": bug, "thread_id": "t"})])
    with pytest.raises(AssertionError, match="decide_failed"):
        check_reports([("decide_failed", {"error": bug, "thread_id": "t"})])
