"""What `on_busy` makes of a submit, seen from outside: the whole table of semantics 3, and races for the slot."""

from __future__ import annotations

import threading
from asyncio import CancelledError
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.scenarios.scene import (
    PATIENCE_S,
    Latch,
    Scene,
    began,
    contents,
    ended,
    pending,
    quiet,
    tags,
    texts,
)
from treadle.protocol.errors import InputWithdrawn, LimitExceeded
from treadle.storage import MemoryStore

if TYPE_CHECKING:
    from tests.scenarios.scene import Replies
    from treadle.actors import Receipt, Thread
    from treadle.actors.handle import OnBusy
    from treadle.agents import ThreadState


class Busy(NamedTuple):
    """A thread whose execution stands in one phase until `end` is called."""

    thread: Thread
    execution_id: str
    end: Callable[[], object]


def running(scene: Scene, *, steerable: bool = True) -> Busy:
    def is_deaf(state: ThreadState) -> Replies:
        # Else an interrupt would end it, and what waits behind it would run.
        assert state.execution is not None
        go = scene.gate.here([message.content for message in state.execution.new_messages])
        while not go.done():
            with suppress(CancelledError):
                yield go

    thread = scene.start(is_deaf, steerable=steerable)
    execution_id = began(thread.submit("first").result(PATIENCE_S))
    arrived = scene.gate.arrival()
    return Busy(thread, execution_id, lambda: arrived.go.set(None))


def stopping(scene: Scene) -> Busy:
    thread = scene.start(scene.is_stubborn)
    execution_id = began(thread.submit("first").result(PATIENCE_S))
    scene.gate.arrival()
    assert thread.interrupt(execution_id).result(PATIENCE_S).disposition == "accepted"
    arrived = scene.gate.arrival()
    assert arrived.brought == "told to stop"
    return Busy(thread, execution_id, lambda: arrived.go.set(None))


def finishing(scene: Scene) -> Busy:
    latch = Latch()

    def owns_a_latch(state: ThreadState) -> Replies:
        assert state.execution is not None
        if not latch.closing.is_set():
            state.execution.own(latch)
        yield scene.gate.here([message.content for message in state.execution.new_messages])

    thread = scene.start(owns_a_latch)
    execution_id = began(thread.submit("first").result(PATIENCE_S))
    scene.gate.let_go()
    assert latch.closing.wait(PATIENCE_S)
    return Busy(thread, execution_id, latch.may_close.set)


PHASES = {"running": running, "stopping": stopping, "finishing": finishing}
CLOSING = {"stopping": stopping, "finishing": finishing}


@pytest.fixture(params=PHASES)
def busy(request: pytest.FixtureRequest, scene: Scene) -> Busy:
    return PHASES[request.param](scene)


@pytest.fixture(params=CLOSING)
def closing(request: pytest.FixtureRequest, scene: Scene) -> Busy:
    return CLOSING[request.param](scene)


@pytest.mark.parametrize("on_busy", ["reject", "queue", "steer", "interrupt"])
def test_at_rest_every_submit_is_accepted_and_starts(scene: Scene, on_busy: OnBusy) -> None:
    thread = scene.gated()

    receipt = thread.submit("hello", on_busy=on_busy).result(PATIENCE_S)

    assert receipt.disposition == "accepted"
    assert receipt.delivered_as == "input"
    assert receipt.active_execution is not None
    assert receipt.active_execution.execution_id == receipt.execution_id
    assert receipt.active_execution.started_at == receipt.started_at
    assert len(receipt.message_ids) == 1
    assert receipt.interrupted is None
    assert not receipt.held
    assert scene.gate.let_go() == ["hello"]
    assert ended(thread, receipt).status == "succeeded"


def test_a_busy_thread_rejects_a_submit_and_stores_nothing(scene: Scene, busy: Busy) -> None:
    before = contents(scene.store)

    receipt = busy.thread.submit("second").result(PATIENCE_S)

    assert (receipt.disposition, receipt.execution_id, receipt.message_ids) == ("busy", None, ())
    assert receipt.active_execution is not None
    assert receipt.active_execution.execution_id == busy.execution_id
    assert contents(scene.store) == before
    busy.end()
    ended(busy.thread, busy.execution_id)
    assert texts(busy.thread) == ["first"]


@pytest.mark.parametrize("on_busy", ["queue", "interrupt"])
def test_a_busy_thread_keeps_a_submit_that_may_wait_for_an_execution_of_its_own(
    scene: Scene, busy: Busy, on_busy: OnBusy
) -> None:
    receipt = busy.thread.submit("second", on_busy=on_busy).result(PATIENCE_S)

    assert (receipt.disposition, receipt.execution_id, receipt.started_at) == ("queued", None, None)
    assert receipt.delivered_as == "input"
    assert pending(busy.thread) == ["second"]
    busy.end()
    assert scene.gate.let_go() == ["second"]
    following = ended(busy.thread, receipt)
    assert following.execution_id != busy.execution_id
    assert following.input_id == receipt.input_id
    assert tags(busy.thread).count("THREAD_EXECUTION_STARTED") == 2
    assert texts(busy.thread) == ["first", "second"]


def test_a_submit_that_may_steer_joins_the_running_execution(scene: Scene) -> None:
    thread, execution_id, end = running(scene)

    receipt = thread.submit("second", on_busy="steer").result(PATIENCE_S)

    assert (receipt.disposition, receipt.delivered_as, receipt.execution_id) == ("accepted", "steer", execution_id)
    end()
    assert scene.gate.let_go() == ["second"]
    assert ended(thread, receipt).execution_id == execution_id
    assert tags(thread).count("THREAD_EXECUTION_STARTED") == 1


def test_a_submit_that_may_steer_is_busy_where_the_execution_takes_no_steers(scene: Scene) -> None:
    thread, execution_id, end = running(scene, steerable=False)
    before = contents(scene.store)

    receipt = thread.submit("second", on_busy="steer").result(PATIENCE_S)

    assert receipt.disposition == "busy"
    assert receipt.active_execution is not None
    assert receipt.active_execution.execution_id == execution_id
    assert contents(scene.store) == before
    end()
    ended(thread, execution_id)


def test_a_submit_that_may_steer_is_busy_once_the_execution_is_ending(scene: Scene, closing: Busy) -> None:
    before = contents(scene.store)

    receipt = closing.thread.submit("second", on_busy="steer").result(PATIENCE_S)

    assert (receipt.disposition, receipt.delivered_as) == ("busy", "input")
    assert contents(scene.store) == before
    closing.end()
    ended(closing.thread, closing.execution_id)
    assert texts(closing.thread) == ["first"]


def test_a_submit_that_may_interrupt_is_queued_at_once_and_the_old_execution_cancelled(scene: Scene) -> None:
    thread = scene.start(scene.is_stubborn)
    first = began(thread.submit("first").result(PATIENCE_S))
    scene.gate.arrival()

    # The old body is still there when the answer comes.
    receipt = thread.submit("second", on_busy="interrupt").result(PATIENCE_S)

    assert (receipt.disposition, receipt.interrupted) == ("queued", first)
    assert scene.gate.let_go() == "told to stop"
    assert ended(thread, first).status == "cancelled"
    assert scene.gate.let_go() == ["second"]
    assert ended(thread, receipt).status == "succeeded"


def test_a_submit_that_may_interrupt_interrupts_nothing_that_is_ending_already(closing: Busy, scene: Scene) -> None:
    receipt = closing.thread.submit("second", on_busy="interrupt").result(PATIENCE_S)

    assert (receipt.disposition, receipt.interrupted) == ("queued", None)
    closing.end()
    scene.gate.let_go()
    ended(closing.thread, receipt)
    assert tags(closing.thread).count("THREAD_EXECUTION_INTERRUPTED") <= 1


def test_interrupting_submits_line_up_before_all_others_behind_one_interruption(scene: Scene) -> None:
    thread = scene.start(scene.is_stubborn)
    first = began(thread.submit("first").result(PATIENCE_S))
    scene.gate.arrival()
    thread.submit("queued", on_busy="queue").result(PATIENCE_S)
    thread.queue_message("message").result(PATIENCE_S)

    one = thread.submit("one", on_busy="interrupt").result(PATIENCE_S)
    two = thread.submit("two", on_busy="interrupt").result(PATIENCE_S)

    assert (one.interrupted, two.interrupted) == (first, None)
    assert scene.gate.let_go() == "told to stop"
    assert [scene.gate.let_go() for _ in range(3)] == [["one", "message"], ["two"], ["queued"]]
    assert tags(thread).count("THREAD_EXECUTION_INTERRUPTED") == 1


def test_queued_submits_run_in_order_each_in_an_execution_of_its_own(scene: Scene) -> None:
    thread = scene.gated()
    receipts = [thread.submit(f"{n}", on_busy="queue").result(PATIENCE_S) for n in range(5)]

    seen = [scene.gate.let_go() for _ in receipts]

    assert seen == [[f"{n}"] for n in range(5)]
    ran = [ended(thread, receipt).execution_id for receipt in receipts]
    assert len(set(ran)) == 5


def test_a_submit_that_may_queue_stands_behind_submits_that_wait_at_rest(scene: Scene) -> None:
    thread = scene.gated()
    thread.submit("first").result(PATIENCE_S)
    scene.gate.arrival()
    thread.submit("second", on_busy="queue").result(PATIENCE_S)
    stopped = thread.stop().result(PATIENCE_S)
    ended(thread, stopped)
    assert thread.state().result(PATIENCE_S).held

    receipt = thread.submit("third", on_busy="queue").result(PATIENCE_S)

    assert (receipt.disposition, receipt.held) == ("queued", False)
    assert [scene.gate.let_go() for _ in range(2)] == [["second"], ["third"]]
    ended(thread, receipt)


def test_a_submit_at_rest_takes_its_input_first_whatever_waits(scene: Scene) -> None:
    thread = scene.gated()
    thread.submit("first").result(PATIENCE_S)
    scene.gate.arrival()
    thread.submit("waiting submit", on_busy="queue").result(PATIENCE_S)
    ended(thread, thread.stop().result(PATIENCE_S))
    assert thread.queue_message("waiting message").result(PATIENCE_S).held

    receipt = thread.submit("now").result(PATIENCE_S)

    assert receipt.disposition == "accepted"
    assert [scene.gate.let_go() for _ in range(2)] == [["now", "waiting message"], ["waiting submit"]]


def test_of_fifty_that_race_for_an_idle_thread_one_wins_and_all_others_are_told_its_id(scene: Scene) -> None:
    """Scenario 2."""
    thread = scene.gated()
    line = threading.Barrier(50)
    receipts: list[Receipt] = []

    def race(rank: int) -> None:
        line.wait(PATIENCE_S)
        receipts.append(scene.runtime.thread(thread.id).submit(f"from {rank}").result(PATIENCE_S))

    callers = [threading.Thread(target=race, args=(rank,)) for rank in range(50)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(PATIENCE_S)

    won = [receipt for receipt in receipts if receipt.disposition == "accepted"]
    lost = [receipt for receipt in receipts if receipt.disposition == "busy"]
    assert (len(won), len(lost)) == (1, 49)
    told = {receipt.active_execution.execution_id for receipt in lost if receipt.active_execution is not None}
    assert told == {won[0].execution_id}
    assert [scene.gate.let_go()] == [texts(thread)]
    assert ended(thread, won[0]).status == "succeeded"


def test_an_input_withdrawn_before_it_ran_is_told_apart_from_the_execution_interrupted_before_it(scene: Scene) -> None:
    """Scenario 4."""
    thread = scene.gated()
    first = thread.submit("A", input_id="a").result(PATIENCE_S)
    scene.gate.arrival()
    second = thread.submit("B", input_id="b", on_busy="queue").result(PATIENCE_S)
    waits = thread.wait(second)

    assert thread.withdraw("b").result(PATIENCE_S) == "withdrawn"
    thread.interrupt(began(first)).result(PATIENCE_S)

    assert ended(thread, first).status == "cancelled"
    for told in (waits, thread.wait(second)):
        with pytest.raises(InputWithdrawn) as withdrawn:
            told.result(PATIENCE_S)
        assert withdrawn.value.details["input_id"] == "b"
    assert texts(thread) == ["A"]
    assert thread.executions().result(PATIENCE_S).total == 1
    assert scene.gate.nobody_came()


@pytest.mark.parametrize("verb", ["queue", "interrupt", "message"])
def test_what_comes_right_after_an_interrupt_gets_an_execution_of_its_own(either: Scene, verb: Any) -> None:
    """Scenario 11."""
    thread = either.gated()
    first = began(thread.submit("first").result(PATIENCE_S))
    either.gate.arrival()

    thread.interrupt(first)
    sent = thread.queue_message("second") if verb == "message" else thread.submit("second", on_busy=verb)

    assert either.gate.let_go() == ["second"]
    record = ended(thread, sent.result(PATIENCE_S))
    assert (record.status, ended(thread, first).status) == ("succeeded", "cancelled")
    assert record.execution_id != first
    assert texts(thread) == ["first", "second"]


@pytest.mark.slow
def test_an_inbox_takes_ten_thousand_rows_and_refuses_the_next_one() -> None:
    scene = Scene(MemoryStore())
    thread = scene.start(quiet)
    thread.stop().result(PATIENCE_S)
    for _ in range(20):
        replies = [thread.queue_message("waits") for _ in range(500)]
        assert {reply.result(PATIENCE_S).disposition for reply in replies} == {"queued"}
    before = contents(scene.store)

    with pytest.raises(LimitExceeded) as refused:
        thread.queue_message("one too many").result(PATIENCE_S)

    assert refused.value.details == {"limit": "queued", "maximum": 10_000, "met": 10_001, "thread_id": thread.id}
    assert contents(scene.store) == before
    scene.close()
