"""The actor's order: decide, commit, act; what waits, what is refused at once, and what a refused batch takes back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.actors.started import started
from treadle.actors.building import Building
from treadle.actors.mailbox import Mail
from treadle.actors.testing import Puppet, Stage
from treadle.protocol.decision import Phase
from treadle.protocol.errors import InternalError, OutcomeUnknown, StorageFull, StoreFailed
from treadle.protocol.facts import Facts
from treadle.protocol.receipts import Disposition
from treadle.protocol.triggers import Kind
from treadle.storage.batch import COMMITTED
from treadle.storage.check import check_tables
from treadle.storage.reading import read_journal, read_thread

if TYPE_CHECKING:
    from collections.abc import Callable

    from treadle.actors import Thread
    from treadle.actors.thread import ThreadActor

    Enter = Callable[..., Stage]


def actor_of(on: Stage, thread: Thread) -> ThreadActor:
    entry = on.services.directory.entry(thread.id)
    assert entry.actor is not None
    return entry.actor


def facts_of(on: Stage, thread: Thread) -> tuple[Any, ...]:
    """Return what is durable of a thread, its actor's word before the store's."""
    entry = on.services.directory.entry(thread.id)
    with on.store.view() as view:
        found = read_thread(view, entry.number)
    assert found is not None
    if entry.actor is not None:
        assert entry.actor.state.facts.values() == found[1].values()
    return found[1].values()


def journal(on: Stage, thread: Thread) -> list[str]:
    """Return the types of all events that are durable."""
    number = on.services.directory.entry(thread.id).number
    with on.store.view() as view:
        found = read_thread(view, number)
        assert found is not None
        return [entry.event.type for entry in read_journal(view, number, 1, 0, found[0].sequence, 1_000)]


def turns(on: Stage) -> None:
    """Let the actors take all their mail; the store and the bodies stand still."""
    while on.turn():
        pass


def test_a_reply_comes_only_after_its_batch_is_durable(stage: Enter) -> None:
    on = stage(Puppet())
    thread = on.thread()
    reply = thread.submit("hello")
    turns(on)
    assert not reply.done()

    on.commit()
    assert not reply.done()  # durable, but the actor has not taken the answer yet
    on.turn()

    assert reply.result().disposition is Disposition.ACCEPTED


def test_mail_that_comes_while_a_batch_is_in_flight_waits_and_is_then_decided_in_order(stage: Enter) -> None:
    puppet = Puppet()
    on = stage(puppet)
    thread = on.thread()
    first, second, third = thread.submit("a"), thread.submit("b"), thread.submit("c", on_busy="queue")
    turns(on)
    assert actor_of(on, thread).mail_waiting == 2
    assert (first.done(), second.done(), third.done()) == (False, False, False)

    on.settle()

    assert [reply.result().disposition for reply in (first, second, third)] == ["accepted", "busy", "queued"]
    assert second.result().active_execution.execution_id == first.result().execution_id


def test_all_that_waited_goes_into_one_batch(stage: Enter) -> None:
    on = stage(Puppet())
    thread = on.thread()
    thread.inject_message("user", "0")
    turns(on)
    replies = [thread.inject_message("user", str(rank)) for rank in range(1, 6)]
    turns(on)
    on.commit()
    turns(on)
    assert on.store.pending() == 1

    on.commit()
    turns(on)

    assert [reply.result().content for reply in replies] == ["1", "2", "3", "4", "5"]


def test_a_batch_holds_at_most_as_many_mails_as_the_limit_says(stage: Enter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("treadle.actors.building.BATCH_RECORDS_MAX", 3)
    on = stage(Puppet())
    thread = on.thread()
    replies = [thread.inject_message("user", str(rank)) for rank in range(8)]
    turns(on)
    batches = []
    while not all(reply.done() for reply in replies):
        before = sum(reply.done() for reply in replies)
        on.commit()
        turns(on)
        batches.append(sum(reply.done() for reply in replies) - before)

    assert batches == [1, 3, 3, 1]


def test_a_decision_sees_those_before_it_in_the_batch_under_way(stage: Enter) -> None:
    puppet = Puppet()
    on = stage(puppet)
    thread = on.thread()
    execution_id = started(on, thread)
    thread.inject_message("user", "holds the actor up")
    turns(on)
    replies = [
        thread.queue_message("q", input_id="i"),
        thread.queue_message("q", input_id="i"),
        thread.withdraw("i"),
        thread.withdraw("i"),
        thread.interrupt(execution_id),
        thread.interrupt(execution_id),
        thread.steer(execution_id, "too late"),
    ]
    on.settle()
    queued, repeated, withdrawn, again, accepted, already, refused = [reply.result() for reply in replies]

    assert queued == repeated
    assert (withdrawn, again) == ("withdrawn", "withdrawn")
    assert (accepted.disposition, already.disposition, refused.disposition) == (
        "accepted", "accepted", "execution_finishing",
    )  # fmt: skip
    assert journal(on, thread).count("THREAD_EXECUTION_INTERRUPTED") == 1


@pytest.mark.parametrize("closing", ["START", "FINISH", "JOIN"])
def test_what_starts_joins_or_ends_closes_its_batch(stage: Enter, closing: str) -> None:
    puppet = Puppet()
    on = stage(puppet)
    thread = on.thread()
    if closing != "START":
        execution_id = started(on, thread)
    if closing == "JOIN":
        on.ask(thread.steer(execution_id, "more"))
    thread.set_value("holds", "the actor up")
    turns(on)
    if closing == "START":
        thread.submit("go")
    else:
        puppet.returns()
        on.act()
    behind = thread.set_value("stands", "behind")
    on.act()
    on.commit()
    on.act()
    assert actor_of(on, thread).in_flight == {"JOIN": "join before a pass"}.get(closing, closing)
    on.commit()
    on.act()
    assert not behind.done()

    on.settle()

    assert behind.result() is None


def test_while_finish_is_in_flight_refusals_are_given_at_once_and_what_writes_waits(stage: Enter) -> None:
    puppet = Puppet()
    on = stage(puppet)
    thread = on.thread()
    execution_id = started(on, thread)
    puppet.returns()
    on.act()
    assert actor_of(on, thread).in_flight == "FINISH"
    steer, busy, queued = thread.steer(execution_id, "late"), thread.submit("x"), thread.queue_message("later")
    on.act()

    assert steer.result().disposition is Disposition.EXECUTION_FINISHING
    assert busy.result().disposition is Disposition.BUSY
    assert not queued.done()
    on.settle()
    assert queued.result().disposition is Disposition.QUEUED
    assert puppet.texts == ["go", "later"]


def test_a_repeat_of_what_the_finish_batch_holds_waits_until_that_is_durable(stage: Enter) -> None:
    puppet = Puppet()
    on = stage(puppet)
    thread = on.thread()
    started(on, thread)
    thread.set_value("holds", "the actor up")
    turns(on)
    first = thread.queue_message("q", input_id="i")
    turns(on)
    puppet.execution.stop()
    puppet.returns()
    on.act()
    on.commit()
    on.act()
    assert actor_of(on, thread).in_flight == "FINISH"
    repeat = thread.queue_message("q", input_id="i")
    on.act()

    assert (first.done(), repeat.done()) == (False, False)
    on.settle()
    assert repeat.result() == first.result()


def test_a_termination_that_the_finish_batch_holds_refuses_nobody_before_it_is_durable(stage: Enter) -> None:
    puppet = Puppet()
    on = stage(puppet)
    thread = on.thread()
    started(on, thread)
    thread.set_value("holds", "the actor up")
    turns(on)
    terminated = thread.terminate()
    turns(on)
    puppet.returns()
    on.act()
    on.commit()
    on.act()
    assert actor_of(on, thread).in_flight == "FINISH"
    late = thread.submit("late")
    on.act()

    assert (terminated.done(), late.done()) == (False, False)
    on.settle()
    assert terminated.result()
    assert late.error() is not None


def test_a_refused_batch_leaves_no_trace_in_the_facts_and_tells_each_caller(stage: Enter) -> None:
    on = stage(Puppet())
    thread = on.thread()
    before = facts_of(on, thread)
    replies = [thread.inject_message("user", "a"), thread.queue_message("b"), thread.set_value("k", 1)]
    turns(on)
    while on.refuse():
        turns(on)

    errors = [reply.error() for reply in replies]
    assert [type(error) for error in errors] == [StorageFull] * 3
    assert len({id(error) for error in errors}) == 3
    assert journal(on, thread) == ["THREAD_CREATED"]
    assert facts_of(on, thread) == before
    assert on.ask(thread.inject_message("user", "a")).content == "a"


def test_a_refused_start_frees_the_slot_and_the_same_id_is_judged_afresh(stage: Enter) -> None:
    on = stage(Puppet())
    thread = on.thread()
    refused = thread.submit("go", input_id="i")
    turns(on)
    on.refuse()
    on.act()
    assert isinstance(refused.error(), StorageFull)
    assert thread.status().result().state == "idle"

    assert on.ask(thread.submit("go", input_id="i")).disposition is Disposition.ACCEPTED


def test_an_interrupt_that_cannot_be_recorded_is_in_force_and_says_so(stage: Enter) -> None:
    puppet = Puppet(obeys=False)
    on = stage(puppet)
    thread = on.thread()
    execution_id = started(on, thread)
    reply = thread.interrupt(execution_id, reason="stop it")
    turns(on)
    on.refuse()
    on.act()
    error = reply.error()

    assert isinstance(error, StorageFull)
    assert error.details["applied"] is True
    assert puppet.cancels == 1
    assert thread.state().result().active_execution.phase == "stopping"
    puppet.returns()
    on.settle()
    assert thread.execution(execution_id).result().outcome == "cancelled"
    assert journal(on, thread)[-2:] == ["THREAD_EXECUTION_INTERRUPTED", "THREAD_EXECUTION_FINISHED"]


@pytest.mark.parametrize("again", ["interrupt", "queue", "submit"])
def test_the_id_of_an_interrupt_that_was_refused_is_judged_afresh_and_recorded_once(stage: Enter, again: str) -> None:
    puppet = Puppet(obeys=False)
    on = stage(puppet)
    thread = on.thread()
    execution_id = started(on, thread)
    refused = thread.interrupt(execution_id, control_id="c")
    turns(on)
    on.refuse()
    on.act()
    assert isinstance(refused.error(), StorageFull)
    if again == "interrupt":
        assert on.ask(thread.interrupt(execution_id, control_id="c")).disposition is Disposition.ACCEPTED
    elif again == "queue":
        assert on.ask(thread.queue_message("x", input_id="c")).disposition is Disposition.QUEUED
    else:
        assert on.ask(thread.submit("x", input_id="c", on_busy="queue")).disposition is Disposition.QUEUED
    first = thread.receipt("c").result()
    puppet.returns()
    on.settle()

    assert journal(on, thread).count("THREAD_EXECUTION_INTERRUPTED") == 1
    assert thread.receipt("c").result() == first
    on.kill()
    on.store.open()
    assert check_tables(on.store).broken == ()


@pytest.mark.parametrize("written", [True, False])
def test_where_the_outcome_is_unknown_the_caller_is_told_and_the_thread_is_read_again(
    stage: Enter, written: bool
) -> None:
    on = stage(Puppet())
    thread = on.thread()
    reply = thread.inject_message("user", "a")
    turns(on)
    on.store.lose_next(written=written)
    on.settle()

    assert isinstance(reply.error(), OutcomeUnknown)
    assert ("MESSAGE_ADDED" in journal(on, thread)) is written
    assert on.ask(thread.inject_message("user", "b")).content == "b"
    assert thread.messages().result().total == 1 + written


def test_mail_behind_an_unknown_outcome_goes_to_the_next_incarnation(stage: Enter) -> None:
    on = stage(Puppet())
    thread = on.thread()
    lost = thread.inject_message("user", "a")
    turns(on)
    behind = thread.inject_message("user", "b")
    turns(on)
    life = actor_of(on, thread).life
    on.store.lose_next(written=False)
    on.settle()

    assert isinstance(lost.error(), OutcomeUnknown)
    assert behind.result().content == "b"
    if not on.services.options.always_evict:
        assert actor_of(on, thread).life > life


def test_an_error_in_decide_costs_that_mail_alone(stage: Enter, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scenario 33: the mail fails, the supervisor reports it, and the other fifty are answered."""
    puppet = Puppet()
    on = stage(puppet)
    thread = on.thread()
    execution_id = started(on, thread)
    from treadle.actors import thread as module

    real = module.decide

    def buggy(state: Any, trigger: Any) -> Any:
        if trigger.kind is Kind.INJECT and trigger.message["content"] == "0":
            raise ZeroDivisionError("a bug")
        return real(state, trigger)

    monkeypatch.setattr(module, "decide", buggy)
    replies = [thread.inject_message("user", str(rank)) for rank in range(51)]
    on.settle()

    assert isinstance(replies[0].error(), InternalError)
    assert [reply.result().content for reply in replies[1:]] == [str(rank) for rank in range(1, 51)]
    assert [(name, details["thread_id"]) for name, details in on.reports] == [("decide_failed", thread.id)]
    assert thread.state().result().active_execution.execution_id == execution_id
    on.reports.clear()


def test_a_failed_store_leaves_the_thread_owned_until_the_next_open(stage: Enter) -> None:
    puppet = Puppet()
    on = stage(puppet)
    thread = on.thread()
    started(on, thread)
    puppet.returns()
    on.act()
    on.store.break_next(StoreFailed("an I/O error"))
    on.commit()
    on.settle()

    assert thread.status().result().state == "running"
    assert thread.state().result().active_execution.phase == "finishing"
    blocked = thread.explain().result().blocked
    assert (blocked.what, blocked.error) == ("FINISH", "an I/O error")
    ready, why = on.runtime.ready()
    assert not ready
    assert "store_failed" in why
    assert on.advance(60) >= 0
    assert on.settle() == 0 or actor_of(on, thread).state.phase is Phase.FINISHING
    on.reopen()
    assert on.runtime.opened.settled == (thread.id,)


def test_a_refused_finish_is_tried_again_after_twice_the_time_each_time(stage: Enter) -> None:
    puppet = Puppet()
    on = stage(puppet)
    thread = on.thread()
    execution_id = started(on, thread)
    puppet.returns()
    on.act()
    waits = []
    # More attempts than there are powers of two that a float can hold.
    for attempt in range(1, 1_030):
        on.refuse()
        on.act()
        blocked = thread.explain().result().blocked
        assert (blocked.what, blocked.attempts) == ("FINISH", attempt)
        waits.append((blocked.next_attempt_at - on.clock.now_us()) / 1_000_000)
        assert thread.status().result().state == "running"
        on.advance(waits[-1] - 0.001)
        on.act()
        assert on.store.pending() == 0
        on.advance(0.002)
        on.act()
    assert waits[:9] == [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    assert set(waits[9:]) == {5.0}
    on.settle()

    assert thread.status().result().state == "idle"
    assert thread.explain().result().blocked is None
    assert journal(on, thread).count("THREAD_EXECUTION_FINISHED") == 1
    assert thread.execution(execution_id).result().outcome == "succeeded"


def test_an_answer_for_a_batch_of_an_earlier_life_changes_nothing(stage: Enter) -> None:
    on = stage(Puppet())
    thread = on.thread()
    entry = on.services.directory.entry(thread.id)
    started(on, thread)
    before = journal(on, thread)
    stale = Building(entry.number, Facts(), entry.mailbox)
    stale.answer = COMMITTED
    entry.mailbox.put(Mail(stale), internal=True)
    on.settle()

    assert on.reports == []
    assert journal(on, thread)[: len(before)] == before
