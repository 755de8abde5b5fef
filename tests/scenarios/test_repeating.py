"""What a repeated call gets: the first receipt for the same content, a conflict for other content, across restarts too."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from tests.scenarios.scene import PATIENCE_S, Scene, began, contents, echo, ended, quiet, tags, texts
from treadle.protocol.errors import IdempotencyConflict

if TYPE_CHECKING:
    from collections.abc import Callable

    from treadle.actors import Receipt, Reply, Thread


def test_a_caller_whose_reply_is_lost_repeats_and_gets_the_first_receipt(either: Scene) -> None:
    """Scenario 22."""
    thread = either.start(echo)
    lost = thread.submit("hello", input_id="i")
    del lost

    receipt = thread.submit("hello", input_id="i").result(PATIENCE_S)

    assert receipt.disposition == "accepted"
    ended(thread, receipt)
    assert thread.submit("hello", input_id="i").result(PATIENCE_S) == receipt
    assert thread.receipt("i").result(PATIENCE_S) == receipt
    assert tags(thread).count("THREAD_EXECUTION_STARTED") == 1
    assert texts(thread) == ["hello", "re: hello"]


def test_the_same_input_id_in_parallel_then_with_other_content_then_after_a_restart(scene: Scene) -> None:
    """Scenario 23."""
    thread = scene.start(quiet)
    line = threading.Barrier(20)
    receipts: list[Receipt] = []

    def send() -> None:
        line.wait(PATIENCE_S)
        receipts.append(thread.submit("hello", input_id="i").result(PATIENCE_S))

    callers = [threading.Thread(target=send) for _ in range(20)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(PATIENCE_S)

    assert len(receipts) == 20
    assert len(set(receipts)) == 1
    ended(thread, receipts[0])
    before = contents(scene.store)
    with pytest.raises(IdempotencyConflict) as conflict:
        thread.submit("something else", input_id="i").result(PATIENCE_S)
    assert (conflict.value.code, conflict.value.details["id"]) == ("idempotency_conflict", "i")
    assert contents(scene.store) == before
    scene.reopen()
    again = scene.runtime.thread(thread.id)
    assert again.submit("hello", input_id="i").result(PATIENCE_S) == receipts[0]
    with pytest.raises(IdempotencyConflict):
        again.submit("something else", input_id="i").result(PATIENCE_S)
    assert again.executions().result(PATIENCE_S).total == 1


def test_every_verb_repeats_to_its_first_receipt_while_it_runs_after_it_and_after_a_restart(scene: Scene) -> None:
    thread = scene.gated()
    execution_id = began(thread.submit("go", input_id="go").result(PATIENCE_S))
    scene.gate.arrival()
    calls: dict[str, Callable[[Thread], Reply[Any]]] = {
        "queue": lambda handle: handle.queue_message("m", input_id="m"),
        "submit": lambda handle: handle.submit("s", input_id="s", on_busy="queue"),
        "as steer": lambda handle: handle.submit("t", input_id="t", on_busy="steer"),
        "steer": lambda handle: handle.steer(execution_id, "u", control_id="u"),
        "interrupt": lambda handle: handle.interrupt(execution_id, control_id="c", hold=True),
    }

    first = {name: call(thread).result(PATIENCE_S) for name, call in calls.items()}

    assert {name: call(thread).result(PATIENCE_S) for name, call in calls.items()} == first
    ended(thread, execution_id)
    assert {name: call(thread).result(PATIENCE_S) for name, call in calls.items()} == first
    scene.reopen()
    handle = scene.runtime.thread(thread.id)
    before = contents(scene.store)
    assert {name: call(handle).result(PATIENCE_S) for name, call in calls.items()} == first
    assert contents(scene.store) == before
    assert tags(handle).count("INPUT_QUEUED") == 4


def test_one_id_is_one_call_whatever_the_verb(scene: Scene) -> None:
    thread = scene.gated()
    execution_id = began(thread.submit("go", input_id="taken").result(PATIENCE_S))
    arrived = scene.gate.arrival()
    before = contents(scene.store)
    others: list[Reply[Any]] = [
        thread.submit("other", input_id="taken"),
        thread.submit("go", input_id="taken", on_busy="queue"),
        thread.submit(["go", "more"], input_id="taken"),
        thread.submit([{"content": "go", "metadata": {"a": 1}}], input_id="taken"),
        thread.queue_message("go", input_id="taken"),
        thread.steer(execution_id, "go", control_id="taken"),
        thread.interrupt(execution_id, control_id="taken"),
    ]

    for other in others:
        with pytest.raises(IdempotencyConflict):
            other.result(PATIENCE_S)

    assert contents(scene.store) == before
    arrived.go.set(None)
    ended(thread, execution_id)


def test_what_is_no_content_makes_no_conflict(scene: Scene) -> None:
    thread = scene.gated()
    first = thread.submit([{"content": "go", "metadata": {"a": 1, "b": (2, 3)}}], input_id="i").result(PATIENCE_S)
    execution_id = began(first)
    scene.gate.arrival()

    same = thread.submit(
        [{"metadata": {"b": [2, 3], "a": 1}, "role": "user", "content": "go"}], input_id="i", timeout=5
    ).result(PATIENCE_S)

    assert same == first
    interrupted = thread.interrupt(execution_id, control_id="c", reason="first words").result(PATIENCE_S)
    assert thread.interrupt(execution_id, control_id="c", reason="other words").result(PATIENCE_S) == interrupted
    for other in (
        thread.interrupt("another", control_id="c"),
        thread.interrupt(execution_id, control_id="c", hold=True),
    ):
        with pytest.raises(IdempotencyConflict):
            other.result(PATIENCE_S)
    ended(thread, execution_id)


def test_a_refused_call_leaves_its_id_free(scene: Scene) -> None:
    thread = scene.gated()
    execution_id = began(thread.submit("go").result(PATIENCE_S))
    arrived = scene.gate.arrival()
    assert thread.submit("later", input_id="i").result(PATIENCE_S).disposition == "busy"
    assert thread.steer("another", "x", control_id="c").result(PATIENCE_S).disposition == "active_execution_mismatch"
    arrived.go.set(None)
    ended(thread, execution_id)

    receipt = thread.submit("quite different", input_id="i").result(PATIENCE_S)

    assert receipt.disposition == "accepted"
    arrived = scene.gate.arrival()
    assert thread.steer(began(receipt), "y", control_id="c").result(PATIENCE_S).disposition == "accepted"
    arrived.go.set(None)
    scene.gate.let_go()
    ended(thread, receipt)


def test_a_repeat_of_a_withdrawn_input_gets_its_first_receipt_and_brings_nothing_back(scene: Scene) -> None:
    thread = scene.gated()
    execution_id = began(thread.submit("go").result(PATIENCE_S))
    arrived = scene.gate.arrival()
    queued = thread.submit("later", input_id="i", on_busy="queue").result(PATIENCE_S)
    thread.withdraw("i").result(PATIENCE_S)

    assert thread.submit("later", input_id="i", on_busy="queue").result(PATIENCE_S) == queued

    arrived.go.set(None)
    ended(thread, execution_id)
    assert texts(thread) == ["go"]
    assert scene.gate.nobody_came()


def test_a_repeat_sent_before_the_first_is_durable_waits_for_it(scene: Scene) -> None:
    thread = scene.gated()

    sent = [thread.submit("go", input_id="i") for _ in range(50)]

    receipts = {reply.result(PATIENCE_S) for reply in sent}
    assert len(receipts) == 1
    scene.gate.let_go()
    ended(thread, receipts.pop())
    assert texts(thread) == ["go"]


def test_ids_are_each_threads_own(scene: Scene) -> None:
    scene.open(scene.body(quiet, name="actor"))
    one, two = scene.thread(), scene.thread()

    first = one.submit("x", input_id="i").result(PATIENCE_S)
    second = two.submit("y", input_id="i").result(PATIENCE_S)

    assert first.execution_id != second.execution_id
    ended(one, first)
    ended(two, second)
