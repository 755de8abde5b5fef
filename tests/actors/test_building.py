"""One batch: what it holds and is about, and look-ups that see what was decided into it before."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from tests.actors.started import started
from treadle.actors.testing import Puppet, Stage
from treadle.storage.encoding import WORK_DELETING, WORK_ROWS, WORK_RUNNING
from treadle.storage.keys import numbered
from treadle.storage.reading import read_journal, read_thread
from treadle.storage.tables import Table

if TYPE_CHECKING:
    from collections.abc import Callable

    from treadle.actors import Reply, Thread

    Enter = Callable[..., Stage]


def entry_number(on: Stage, thread: Thread) -> int:
    return on.services.directory.entry(thread.id).number


def row(on: Stage, table: Table, key: bytes) -> bytes | None:
    with on.store.view() as view:
        return view.get(table, key)


def work(on: Stage, thread: Thread) -> bytes | None:
    return row(on, Table.WORK, numbered(entry_number(on, thread)))


def changes(on: Stage) -> int:
    with on.store.view() as view:
        rows = view.scan(Table.CHANGES, b"", None, reverse=True, limit=1)
    return int.from_bytes(rows[0][0], "big")


def turns(on: Stage) -> None:
    while on.turn():
        pass


def test_the_index_of_work_follows_each_batch(stage: Enter) -> None:
    puppet = Puppet()
    on = stage(puppet)
    thread = on.thread()
    assert work(on, thread) is None
    started(on, thread)
    assert work(on, thread) == WORK_RUNNING
    on.ask(thread.submit("next", on_busy="queue"))
    puppet.returns()
    on.act()
    on.commit()
    assert work(on, thread) == WORK_ROWS
    on.act()
    on.commit()
    assert work(on, thread) == WORK_RUNNING
    on.settle()
    puppet.returns()
    on.settle()
    assert work(on, thread) is None
    on.ask(thread.stop())
    on.ask(thread.queue_message("held back"))
    assert work(on, thread) is None
    deleted = on.runtime.delete_thread(thread.id)
    number = entry_number(on, thread)
    while not deleted.done():
        assert on.turn() or on.commit()
    assert row(on, Table.WORK, numbered(number)) == WORK_DELETING
    on.settle()
    assert row(on, Table.WORK, numbered(number)) is None


def test_a_change_number_is_taken_exactly_when_the_status_changes(stage: Enter) -> None:
    puppet = Puppet()
    on = stage(puppet)
    thread = on.thread()
    first = changes(on)
    on.ask(thread.inject_message("user", "x"))
    on.ask(thread.set_value("k", 1))
    assert changes(on) == first
    execution_id = started(on, thread)
    assert changes(on) == first + 1
    on.ask(thread.steer(execution_id, "x"))
    on.ask(thread.queue_message("y"))
    puppet.returns()
    on.settle()
    assert changes(on) == first + 1
    puppet.returns()
    on.settle()
    assert changes(on) == first + 2


def test_a_batch_is_full_by_bytes_too(stage: Enter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("treadle.actors.building.BATCH_BYTES_MAX", 10_000)
    on = stage(Puppet())
    thread = on.thread()
    replies = [thread.inject_message("user", "x" * 4_000) for _ in range(7)]
    turns(on)
    sizes = []
    while not all(reply.done() for reply in replies):
        before = sum(reply.done() for reply in replies)
        on.commit()
        turns(on)
        sizes.append(sum(reply.done() for reply in replies) - before)

    assert sizes == [1, 3, 3]


def test_one_message_larger_than_a_batch_goes_alone(stage: Enter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("treadle.actors.building.BATCH_BYTES_MAX", 1_000)
    on = stage(Puppet())
    thread = on.thread()
    thread.set_value("holds", "the actor up")
    turns(on)
    large, behind = thread.inject_message("user", "x" * 50_000), thread.inject_message("user", "y")
    turns(on)
    on.commit()
    turns(on)
    on.commit()
    turns(on)

    assert (large.done(), behind.done()) == (True, False)
    on.settle()
    assert behind.done()


@pytest.mark.parametrize("first", ["start", "end", "interruption"])
def test_a_start_or_an_end_outweighs_what_else_a_batch_holds(stage: Enter, first: str) -> None:
    puppet = Puppet(obeys=False)
    on = stage(puppet)
    thread = on.thread()
    if first != "start":
        execution_id = started(on, thread)
    thread.set_value("holds", "the actor up")
    turns(on)
    thread.inject_message("user", "before")
    if first == "start":
        thread.submit("go")
    else:
        if first == "interruption":
            thread.inject_message("user", "more")
        thread.interrupt(execution_id)
        if first == "end":
            turns(on)
            puppet.returns()
            while on.body():
                pass
    turns(on)
    on.commit()
    turns(on)
    actor = on.services.directory.entry(thread.id).actor
    assert actor is not None
    about = {"start": "START", "end": "FINISH", "interruption": "interruption"}[first]

    assert actor.in_flight == about
    on.settle()
    puppet.returns()
    on.settle()


def test_every_event_of_a_batch_is_a_microsecond_later_than_the_one_before(stage: Enter) -> None:
    on = stage(Puppet())
    thread = on.thread()
    thread.set_value("holds", "the actor up")
    turns(on)
    for rank in range(20):
        thread.inject_message("user", str(rank))
    on.settle()
    with on.store.view() as view:
        times = [entry.created_at for entry in read_journal(view, entry_number(on, thread), 1, 0, 100, 100)]

    assert times == sorted(set(times))
    assert times[-1] - times[0] == len(times) - 1  # the clock stands still


def calls(chance: random.Random, thread: Thread, execution_id: str) -> list[Callable[[], Reply[Any]]]:
    """Return a random script of calls that look things up."""
    ids = ["a", "b", "c"]

    def one() -> Callable[[], Reply[Any]]:
        given, busy = chance.choice(ids), chance.choice(["reject", "queue", "steer", "interrupt"])
        text = chance.choice(["x", "y"])
        hold = chance.random() < 0.3
        made: list[Callable[[], Reply[Any]]] = [
            lambda: thread.queue_message(text, input_id=given),
            lambda: thread.submit(text, input_id=given, on_busy=busy),  # type: ignore[arg-type]
            lambda: thread.steer(execution_id, text, control_id=given),
            lambda: thread.withdraw(given),
            lambda: thread.interrupt(execution_id, control_id=given, hold=hold),
            thread.stop,
            thread.resume,
            lambda: thread.inject_message("user", text),
        ]
        return chance.choices(made, weights=[6, 4, 4, 6, 1, 1, 1, 2])[0]

    return [one() for _ in range(12)]


def answer(reply: Reply[Any]) -> object:
    error = reply.error()
    if error is not None:
        return type(error).__name__
    value = reply.result()
    shown = getattr(value, "disposition", None)
    return getattr(value, "content", value) if shown is None else (shown, value.held, value.execution_id is None)


def end_of(on: Stage, thread: Thread) -> tuple[object, ...]:
    with on.store.view() as view:
        found = read_thread(view, entry_number(on, thread))
        assert found is not None
        facts = found[1]
        journal = [
            entry.event.type for entry in read_journal(view, entry_number(on, thread), 1, 0, facts.sequence, 1_000)
        ]
    times = {"created_at", "last_time", "since", "started_at", "execution_id", "thread_id", "sequence"}
    return tuple(getattr(facts, name) for name in facts.__slots__ if name not in times), sorted(journal)


@pytest.mark.parametrize("seed", range(80))
def test_calls_decided_into_one_batch_are_answered_as_if_each_had_one_of_its_own(stage: Enter, seed: int) -> None:
    ends, answers = [], []
    for together in (False, True):
        puppet = Puppet(obeys=False)
        on = stage(puppet)
        thread = on.thread(thread_id="t")
        execution_id = started(on, thread) if seed % 3 else "e" * 32
        if seed % 3 == 0:
            on.ask(thread.stop())
        replies = []
        if together:
            thread.inject_message("user", "holds the actor up")
            turns(on)
        else:
            on.ask(thread.inject_message("user", "goes first"))
        for call in calls(random.Random(seed), thread, execution_id):
            replies.append(call())
            turns(on)
            if not together:
                while not replies[-1].done():
                    assert on.turn() or on.commit()
        while not all(reply.done() for reply in replies):
            assert on.turn() or on.commit()
        answers.append([answer(reply) for reply in replies])
        ends.append(end_of(on, thread))
        puppet.returns()
        on.close()

    assert answers[0] == answers[1], f"seed {seed}"
    assert ends[0] == ends[1], f"seed {seed}"
