"""Who is who: activation on first mail, passivation when idle, and an entry that outlives its actors."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import TYPE_CHECKING, Any

import pytest

from treadle.actors.testing import Puppet, Stage
from treadle.agents import agent
from treadle.protocol.errors import ThreadExists, ThreadNotFound
from treadle.storage.memory_store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from treadle.actors import Runtime, Thread
    from treadle.actors.directory import Directory, Entry
    from treadle.agents import ThreadState

    Enter = Callable[..., Stage]


@agent
async def quiet(state: ThreadState) -> None:
    """End at once."""


def directory(on: Stage) -> Directory:
    return on.services.directory


def entry_of(on: Stage, thread: Thread) -> Entry:
    return directory(on).entry(thread.id)


def test_an_actor_comes_with_the_first_mail_and_reading_needs_none(stage: Enter) -> None:
    on = stage(Puppet())
    thread = on.thread()
    on.reopen()
    thread = on.runtime.thread(thread.id)
    assert thread.status().result().state == "idle"
    assert thread.messages().result().total == 0
    assert thread.explain().result().next == "nothing, until an input comes"
    assert directory(on).counts()["actors"] == 0

    reply = thread.submit("go")
    assert entry_of(on, thread).actor is None
    on.turn()
    assert entry_of(on, thread).actor is not None
    assert on.ask(reply).disposition == "accepted"


def test_every_handle_and_call_meets_the_one_entry(stage: Enter) -> None:
    on = stage(Puppet())
    thread = on.thread()
    seen: list[Entry] = []

    def look() -> None:
        seen.append(directory(on).entry(thread.id))

    workers = [threading.Thread(target=look) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()

    assert len({id(entry) for entry in seen}) == 1
    assert on.runtime.thread(thread.id) == thread


def test_a_thread_that_is_idle_for_long_enough_lets_its_actor_go(stage: Enter) -> None:
    on = stage(Puppet(), idle_after=10, always_evict=False)
    thread, busy = on.thread(), on.thread()
    on.ask(thread.set_value("k", 1))
    on.ask(busy.submit("go"))
    on.settle()
    on.advance(9)
    on.settle()
    assert entry_of(on, thread).actor is not None

    on.advance(3)
    on.settle()
    assert entry_of(on, thread).actor is None
    assert entry_of(on, thread).snapshot is None
    assert entry_of(on, busy).actor is not None  # only idle actors go
    assert on.ask(thread.get_value("k")) == 1


def test_use_begins_the_idle_time_anew(stage: Enter) -> None:
    on = stage(Puppet(), idle_after=10, always_evict=False)
    thread = on.thread()
    for _ in range(5):
        on.ask(thread.set_value("k", 1))
        on.advance(6)
        on.settle()

        assert entry_of(on, thread).actor is not None


def test_beyond_the_cap_the_longest_idle_actor_goes(stage: Enter) -> None:
    on = stage(Puppet(), resident_max=2, always_evict=False)
    first, second, third = on.thread(), on.thread(), on.thread()
    for thread in (first, second, third):
        on.ask(thread.set_value("k", 1))
    assert [entry_of(on, thread).actor is not None for thread in (first, second, third)] == [False, True, True]
    on.ask(second.set_value("k", 2))
    on.ask(first.set_value("k", 2))

    assert [entry_of(on, thread).actor is not None for thread in (first, second, third)] == [True, True, False]


def test_running_threads_do_not_count_against_the_cap(stage: Enter) -> None:
    on = stage(Puppet(), resident_max=1, always_evict=False)
    threads = [on.thread() for _ in range(4)]
    for thread in threads:
        on.ask(thread.submit("go"))
    on.settle()

    assert directory(on).counts() == {"entries": 4, "actors": 4, "idle": 0}


def test_mail_in_the_box_a_batch_in_flight_or_a_waiter_keeps_the_actor(stage: Enter) -> None:
    on = stage(Puppet(), idle_after=0, always_evict=False)
    thread = on.thread()
    on.ask(thread.set_value("k", 1))
    entry = entry_of(on, thread)
    waiting_mail = thread.set_value("k", 2)
    assert not directory(on).passivate(entry)
    on.turn()
    assert not directory(on).passivate(entry)  # its batch is in flight
    on.settle()
    assert waiting_mail.result() is None
    on.ask(thread.submit("go"))
    on.settle()
    assert not directory(on).passivate(entry)  # it runs


def test_an_actor_that_has_a_retry_to_come_is_not_let_go(stage: Enter) -> None:
    on = stage(Puppet())
    thread = on.thread()
    on.ask(thread.submit("go"))
    on.ask(thread.submit("next", on_busy="queue"))
    on.settle()
    puppet: Any = on.agents[0]
    puppet.returns()
    on.act()
    on.commit()
    on.act()
    on.refuse()  # the START from rows
    on.act()
    assert thread.status().result().state == "idle"
    assert not directory(on).passivate(entry_of(on, thread))
    assert thread.explain().result().blocked.what == "START"
    on.advance(1)
    on.settle()

    assert puppet.texts == ["go", "next"]


def test_mail_that_comes_as_the_actor_goes_brings_up_the_next(stage: Enter) -> None:
    on = stage(Puppet(), always_evict=False)
    thread = on.thread()
    on.ask(thread.set_value("k", 1))
    entry = entry_of(on, thread)
    life = entry.actor.life  # type: ignore[union-attr]
    assert directory(on).passivate(entry)
    reply = thread.set_value("k", 2)
    on.settle()

    assert reply.result() is None
    assert entry.actor is not None
    assert entry.actor.life > life


def test_an_entry_nobody_uses_is_forgotten_and_found_again(stage: Enter) -> None:
    on = stage(Puppet(), always_evict=False)
    thread = on.thread()
    thread_id = thread.id
    on.ask(thread.set_value("k", 1))
    directory(on).passivate(entry_of(on, thread))
    gone = weakref.ref(entry_of(on, thread))
    del thread
    gc.collect()

    assert gone() is None
    assert directory(on).known(thread_id) is None
    assert on.ask(on.runtime.thread(thread_id).get_value("k")) == 1


def test_watching_does_not_keep_an_actor_and_the_watch_survives_it(stage: Enter) -> None:
    on = stage(Puppet(), always_evict=False)
    thread = on.thread()
    on.ask(thread.set_value("k", 1))
    with thread.stream() as stream:
        stream.next(0)
        assert directory(on).passivate(entry_of(on, thread))
        on.ask(thread.submit("go"))
        on.settle()

        assert [stream.next(0)["type"] for _ in range(2)] == ["THREAD_EXECUTION_STARTED", "thread_status"]


def test_an_unknown_id_fails_at_the_first_reply_and_a_deleted_one_for_good(stage: Enter) -> None:
    on = stage(Puppet())
    unknown = on.runtime.thread("nobody")
    assert isinstance(unknown.status().error(), ThreadNotFound)
    assert isinstance(unknown.submit("go").error(), ThreadNotFound)
    thread = on.thread(thread_id="t")
    on.ask(on.runtime.delete_thread("t"))
    on.settle()

    assert isinstance(thread.status().error(), ThreadNotFound)
    assert isinstance(thread.submit("go").error(), ThreadNotFound)
    assert isinstance(on.runtime.thread("t").messages().error(), ThreadNotFound)
    created = on.runtime.create_thread("puppet", thread_id="t")
    on.settle()
    assert isinstance(created.error(), ThreadExists)
    on.reopen()
    assert isinstance(on.runtime.thread("t").status().error(), ThreadNotFound)


def test_what_waits_behind_a_deletion_finds_no_thread(stage: Enter) -> None:
    on = stage(Puppet())
    thread = on.thread()
    deleted = on.runtime.delete_thread(thread.id)
    on.act()
    on.commit()  # the termination
    on.act()  # the tombstone is on its way
    behind = [thread.set_value("k", "v"), thread.inject_message("user", "late"), thread.stop(), thread.submit("late")]
    again = on.runtime.delete_thread(thread.id)
    on.settle()

    assert deleted.error() is None
    for reply in (*behind, again):
        assert isinstance(reply.error(), ThreadNotFound), reply.error()
    assert on.reports == []
    assert on.services.supervisor.removing == 0


def test_numbers_of_deleted_threads_are_never_given_again(stage: Enter) -> None:
    on = stage(Puppet())
    first = on.thread(thread_id="a")
    on.thread(thread_id="b")
    numbers = [directory(on).entry(name).number for name in ("a", "b")]
    on.ask(on.runtime.delete_thread("b"))
    on.settle()
    on.reopen()
    third = on.thread(thread_id="c")

    assert directory(on).entry(third.id).number > max(numbers)
    assert directory(on).entry(first.id).number == numbers[0]


@pytest.mark.slow
def test_twenty_thousand_threads_touched_over_time_leave_few_actors_and_no_os_threads() -> None:
    """Scenario 34: idle ones passivate, OS threads stay bounded, the next mail revives each with its full history."""
    count, kept = 20_000, 500
    with _open(resident_max=kept) as hosted:
        before = threading.active_count()
        threads = [reply.result(60) for reply in [hosted.create_thread(quiet) for _ in range(count)]]
        for start in range(0, count, 1_000):
            batch = threads[start : start + 1_000]
            receipts = [thread.submit("hello") for thread in batch]
            for thread, receipt in zip(batch, receipts, strict=True):
                thread.wait(receipt.result(60)).result(60)
        counts = hosted._parts().directory.counts()
        assert counts["actors"] <= kept + 10
        assert threading.active_count() <= before + 1

        for thread in threads[:: count // 50]:
            thread.wait(thread.submit("again").result(60)).result(60)
            page = thread.messages(order="asc").result(60)
            assert [message.content for message in page.messages] == ["hello", "again"]
            assert thread.executions().result(60).total == 2


def _open(**options: Any) -> Runtime:
    from treadle.actors import Runtime

    return Runtime(MemoryStore(), agents=[quiet], **options)


@pytest.mark.slow
def test_callers_that_race_with_passivation_are_all_answered(runtime: Callable[..., Runtime]) -> None:
    """Passivation decided outside the mailbox's lock hung 11 callers in 3,200 (semantics, section 9)."""
    hosted = runtime(quiet, always_evict=True)
    threads = [hosted.create_thread("quiet").result(60) for _ in range(8)]
    failed: list[BaseException] = []

    def call(thread: Thread) -> None:
        try:
            for rank in range(100):
                thread.set_value("k", rank).result(60)
        except BaseException as error:
            failed.append(error)

    workers = [threading.Thread(target=call, args=(thread,)) for thread in threads for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)

    assert failed == []
    assert not any(worker.is_alive() for worker in workers)
