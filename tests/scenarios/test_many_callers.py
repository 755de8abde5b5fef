"""Many callers do everything to the same threads at once; then history must tell one story, and everybody's receipts too."""

from __future__ import annotations

import threading
from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.scenarios.scene import PATIENCE_S, Scene, history, journal
from treadle.actors import Receipt
from treadle.protocol.events import (
    ExecutionFinished,
    ExecutionInterrupted,
    ExecutionStarted,
    InputQueued,
    InputWithdrawn,
    MessagesJoined,
)
from treadle.storage.check import check_tables

if TYPE_CHECKING:
    from tests.scenarios.scene import Replies
    from treadle.actors import Thread
    from treadle.agents import ThreadState
    from treadle.protocol.events import JournalEvent

CALLERS = 6
CALLS = 120
THREADS = 3


class Sent(NamedTuple):
    """What a caller was told about an input or steer with this id."""

    thread: str
    verb: str
    disposition: str
    execution_id: str | None


class Crowd:
    """Callers with a seed each, and what bodies saw."""

    def __init__(self, scene: Scene, seed: int) -> None:
        self.scene = scene
        self.seed = seed
        self.sent: dict[str, Sent] = {}
        self.withdrawn: set[str] = set()
        self.seen: Counter[str] = Counter()
        self._lock = threading.Lock()

    def body(self, state: ThreadState) -> Replies:
        assert state.execution is not None
        chance = Random(state.execution.new_messages[0].id if state.execution.new_messages else state.execution.id)
        self.see(state.execution.new_messages)
        for _ in range(chance.randrange(4)):
            step = chance.randrange(4)
            if step == 0:
                yield state.inject_message("assistant", "working")
            elif step == 1:
                self.see((yield state.checkpoint()))
            elif step == 2:
                yield state.set_value("k", chance.randrange(10))
            else:
                yield state.get_messages(5)
        if chance.random() < 0.1:
            raise ValueError("on purpose")

    def see(self, messages: list[Any]) -> None:
        with self._lock:
            self.seen.update(message.id for message in messages)

    def call(self, caller: int, line: threading.Barrier) -> None:
        chance = Random(f"{self.seed}/{caller}")
        line.wait(PATIENCE_S)
        for n in range(CALLS):
            thread = self.scene.runtime.thread(f"t{chance.randrange(THREADS)}")
            self.one_call(thread, chance, f"{caller}-{n}")

    def one_call(self, thread: Thread, chance: Random, given: str) -> None:
        verb = chance.choice(
            ["submit"] * 6 + ["queue", "queue", "steer", "steer", "interrupt", "withdraw", "stop", "resume"]
        )
        live = thread.state().result(PATIENCE_S).active_execution
        target = live.execution_id if live is not None else "none"
        if verb == "submit":
            on_busy: Any = chance.choice(["reject", "queue", "steer", "interrupt"])
            self.note(thread, on_busy, given, thread.submit(given, input_id=given, on_busy=on_busy).result(PATIENCE_S))
        elif verb == "queue":
            self.note(thread, verb, given, thread.queue_message(given, input_id=given).result(PATIENCE_S))
        elif verb == "steer":
            self.note(thread, verb, given, thread.steer(target, given, control_id=given).result(PATIENCE_S))
        elif verb == "interrupt":
            thread.interrupt(target, hold=chance.random() < 0.2).result(PATIENCE_S)
        elif verb == "withdraw":
            with self._lock:
                mine = [one for one, sent in self.sent.items() if sent.thread == thread.id]
            wanted = chance.choice(mine) if mine else "none"
            if thread.withdraw(wanted).result(PATIENCE_S) == "withdrawn":
                self.withdrawn.add(wanted)
        elif verb == "stop":
            thread.stop().result(PATIENCE_S)
        else:
            thread.resume().result(PATIENCE_S)

    def note(self, thread: Thread, verb: str, given: str, receipt: Any) -> None:
        steered = not isinstance(receipt, Receipt) or receipt.delivered_as == "steer"
        with self._lock:
            self.sent[given] = Sent(thread.id, "steer" if steered else verb, receipt.disposition, receipt.execution_id)


def settle(scene: Scene) -> None:
    """Lift every hold and wait until nothing waits anywhere."""
    for n in range(THREADS):
        thread = scene.runtime.thread(f"t{n}")
        while True:
            state = thread.state().result(PATIENCE_S)
            if state.active_execution is not None:
                thread.wait(state.active_execution.execution_id).result(PATIENCE_S)
            elif state.waiting:
                thread.resume().result(PATIENCE_S)
            else:
                break


def check_story(crowd: Crowd, thread: Thread, events: list[JournalEvent]) -> None:
    """Check one thread's journal against what callers were told and bodies saw."""
    active: str | None = None
    interrupted: set[str] = set()
    queued: dict[int, InputQueued] = {}
    inputs: Counter[str] = Counter()
    orders: dict[str, list[int]] = {"message": [], "steer": []}
    for entry in events:
        event = entry.event
        if isinstance(event, ExecutionStarted):
            assert active is None
            active = event.execution_id
            if event.messages:
                inputs[str(event.input_id)] += 1
        elif isinstance(event, ExecutionFinished):
            assert active == event.execution_id
            assert event.outcome != "succeeded" or active not in interrupted
            active = None
        elif isinstance(event, ExecutionInterrupted):
            assert active == event.execution_id
            assert active not in interrupted
            interrupted.add(event.execution_id)
        elif isinstance(event, InputQueued):
            queued[entry.cursor.sequence] = event
            inputs[event.input_id] += 1
            assert event.kind != "steer" or event.execution_id == active
        elif isinstance(event, MessagesJoined):
            assert event.execution_id == active
            for row in event.rows:
                joined = queued.pop(row[0])
                if joined.kind in orders:
                    orders[joined.kind].append(row[0])
                if event.consumed and active not in interrupted:
                    # A checkpoint's own reply may still be lost to an interrupt that follows it.
                    crowd.scene.seen.append((event.execution_id, [draft["id"] for draft in joined.messages]))
                if joined.kind == "steer":
                    assert crowd.sent[joined.input_id].execution_id == active
        elif isinstance(event, InputWithdrawn):
            assert queued.pop(event.row[0]).input_id in crowd.withdrawn
    assert active is None
    assert not queued
    for order in orders.values():
        assert order == sorted(order)
    for given, sent in crowd.sent.items():
        if sent.thread == thread.id:
            assert inputs[given] == (sent.disposition in {"accepted", "queued"}), (given, sent)
    for execution_id, ids in crowd.scene.seen:
        if execution_id not in interrupted:
            assert [crowd.seen[given] for given in ids] == [1] * len(ids), execution_id
    crowd.scene.seen.clear()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_whatever_many_callers_do_at_once_history_tells_one_story(either: Scene, seed: int) -> None:
    crowd = Crowd(either, seed)
    either.open(either.body(crowd.body, name="actor"))
    for n in range(THREADS):
        either.thread(thread_id=f"t{n}")
    line = threading.Barrier(CALLERS)
    callers = [threading.Thread(target=crowd.call, args=(caller, line)) for caller in range(CALLERS)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(60)

    settle(either)

    assert len(crowd.sent) > CALLERS * CALLS / 2
    assert max(crowd.seen.values()) == 1
    for n in range(THREADS):
        thread = either.runtime.thread(f"t{n}")
        events = journal(thread)
        check_story(crowd, thread, events)
        assert Counter(str(message.status) for message in history(thread)) == {"completed": len(history(thread))}
    before = {n: journal(either.runtime.thread(f"t{n}")) for n in range(THREADS)}
    assert check_tables(either.store).broken == ()
    either.reopen()
    for n in range(THREADS):
        assert journal(either.runtime.thread(f"t{n}")) == before[n]
