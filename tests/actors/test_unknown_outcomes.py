"""A store that never can say what became of a thread's batches: that thread is read again at a pace, and nobody else waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from treadle.actors.testing import Puppet, Stage
from treadle.actors.testing.stage import StageStore
from treadle.protocol.errors import OutcomeUnknown, RuntimeClosed
from treadle.protocol.limits import RETRY_FIRST_S, RETRY_LAST_S
from treadle.storage.batch import Answer, Batch, Confirm, refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from treadle.actors import Thread

    Enter = Callable[..., Stage]

UNKNOWN = OutcomeUnknown("nobody can say (on purpose)")


class Forgetful(StageStore):
    """A store that answers `unknown` for every batch of one thread, whether it writes it or not."""

    def __init__(self) -> None:
        super().__init__()
        self.forgets = 0
        self.writes = False
        self.met = 0

    def commit(self, batch: Batch) -> None:
        """Hand over a batch; one of the thread that is forgotten is answered as unknown in its turn."""
        if batch.number != self.forgets:
            super().commit(batch)
            return
        self.met += 1
        confirm: Confirm = batch.confirm

        def unknown(_answer: Answer) -> None:
            confirm(refused(UNKNOWN, "unknown"))

        if self.writes:
            batch.confirm = unknown
            super().commit(batch)
        else:
            self.barrier(0, 0, 0, unknown)


@pytest.fixture
def store() -> Forgetful:
    return Forgetful()


@pytest.fixture
def on(stage: Enter, store: Forgetful) -> Stage:
    return stage(Puppet(), store=store)


def lost(on: Stage, store: Forgetful) -> Thread:
    """Return a thread whose execution was lost with an unknown outcome, and cannot be settled for the same reason."""
    thread = on.thread(thread_id="t")
    on.ask(thread.submit("go"))
    on.settle()
    store.forgets = on.services.directory.entry("t").number
    reply = thread.set_value("k", 1)
    on.settle()
    assert isinstance(reply.error(), OutcomeUnknown)
    return thread


def test_each_life_waits_twice_as_long_as_the_one_before(on: Stage, store: Forgetful) -> None:
    lost(on, store)
    # The first outcome is nothing unusual: the next life tried to settle at once.
    assert store.met == 2
    waits = [RETRY_FIRST_S * 2**doubled for doubled in range(7)] + [RETRY_LAST_S] * 3
    for tried, wait in enumerate(waits, 2):
        assert store.met == tried
        on.advance(wait - 0.001)
        on.settle()
        assert store.met == tried
        on.advance(0.002)
        on.settle()
    assert store.met == 2 + len(waits)


def test_other_threads_do_not_wait(on: Stage, store: Forgetful) -> None:
    lost(on, store)
    other = on.thread(thread_id="other")

    assert on.ask(other.submit("go")).disposition == "accepted"


@pytest.mark.parametrize("written", [False, True])
def test_once_the_store_can_say_again_the_thread_goes_on_from_what_is_there(
    on: Stage, store: Forgetful, written: bool
) -> None:
    thread = lost(on, store)
    waits = thread.set_value("k", 2)
    store.writes = written
    on.advance(RETRY_FIRST_S)
    on.settle()
    assert not waits.done()
    store.forgets = 0
    on.advance(RETRY_LAST_S)

    assert on.ask(waits) is None
    assert thread.get_value("k").result() == 2
    assert thread.status().result().reason == "execution_lost"
    (record,) = thread.executions().result().executions
    assert record.status == "interrupted"


def test_where_the_head_moved_meanwhile_the_count_begins_anew(on: Stage, store: Forgetful) -> None:
    thread = lost(on, store)
    store.forgets = 0
    on.advance(RETRY_FIRST_S)
    on.settle()
    store.forgets, store.met = on.services.directory.entry("t").number, 0
    for _ in range(2):
        unknown = thread.set_value("k", 1)
        on.settle()
        assert isinstance(unknown.error(), OutcomeUnknown)
    assert store.met == 2
    behind = thread.set_value("k", 1)
    on.settle()
    assert not behind.done()
    on.advance(RETRY_FIRST_S)
    on.settle()
    assert isinstance(behind.error(), OutcomeUnknown)


def test_an_open_reports_it_as_unsettled_and_goes_on(on: Stage, store: Forgetful) -> None:
    thread = lost(on, store)
    on.kill()
    runtime = on.reopen()

    assert runtime.opened is not None
    assert (runtime.opened.settled, runtime.opened.unsettled) == ((), (thread.id,))
    assert runtime.thread("t").status().result().reason == "execution_lost"
    store.forgets = 0
    on.advance(RETRY_FIRST_S)
    on.settle()
    (record,) = runtime.thread("t").executions().result().executions
    assert record.status == "interrupted"


def test_what_waits_is_answered_by_a_close(on: Stage, store: Forgetful) -> None:
    thread = lost(on, store)
    waits = thread.set_value("k", 2)
    on.advance(RETRY_FIRST_S)
    on.settle()
    on.runtime._tear_down(on.services)

    assert isinstance(waits.error(), RuntimeClosed)
