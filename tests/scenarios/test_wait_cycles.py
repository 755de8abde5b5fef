"""A wait from inside an execution that would close a circle of waits is refused; all others are let wait."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.scenarios.scene import PATIENCE_S, Scene, ended
from treadle.protocol.errors import WaitCycle

if TYPE_CHECKING:
    from tests.scenarios.scene import Replies
    from treadle.agents import ThreadState


def asks_in_turn(scene: Scene, order: dict[str, str]) -> Any:
    """Return a script that waits for what the next thread in `order` runs, once the test lets it."""

    def asks(state: ThreadState) -> Replies:
        yield scene.gate.here(state.thread_id)
        following = scene.runtime.thread(order[state.thread_id])
        target = following.state().result().active_execution
        assert target is not None
        waits = following.wait(target.execution_id)
        scene.gate.here("asked")
        try:
            record = yield waits
        except WaitCycle as error:
            scene.seen.append((state.thread_id, error.details["threads"]))
        else:
            scene.seen.append((state.thread_id, record.status))

    return asks


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_the_wait_that_would_close_a_circle_is_refused_and_the_others_go_on(either: Scene, size: int) -> None:
    ids = [f"t{n}" for n in range(size)]
    order = dict(zip(ids, [*ids[1:], ids[0]], strict=True))
    either.open(either.body(asks_in_turn(either, order), name="actor"))
    threads = [either.thread(thread_id=given) for given in ids]
    receipts = [thread.submit("go").result(PATIENCE_S) for thread in threads]
    arrivals = {arrived.brought: arrived for arrived in [either.gate.arrival() for _ in ids]}

    for given in ids:
        assert not either.seen
        arrivals[given].go.set(None)
        assert either.gate.arrival().brought == "asked"

    for thread, receipt in zip(threads, receipts, strict=True):
        assert ended(thread, receipt).status == "succeeded"
    closing = ids[-1]
    assert either.seen[0] == (closing, [closing, *ids])
    assert set(either.seen[1:]) == {(given, "succeeded") for given in ids[:-1]}


def test_a_wait_for_what_is_queued_behind_a_waiting_execution_closes_a_circle_too(either: Scene) -> None:
    def waits(state: ThreadState) -> Replies:
        assert state.execution is not None
        words = state.execution.new_messages[0].content
        own = either.runtime.thread(state.thread_id)
        if words == "own":
            queued = yield own.submit("later", on_busy="queue")
            try:
                yield own.wait(queued)
            except WaitCycle:
                either.seen.append("refused")

    thread = either.start(waits)
    receipt = thread.submit("own").result(PATIENCE_S)

    assert ended(thread, receipt).status == "succeeded"
    assert either.seen == ["refused"]


def test_a_body_may_wait_for_what_has_ended_on_its_own_thread(either: Scene) -> None:
    def looks_back(state: ThreadState) -> Replies:
        own = either.runtime.thread(state.thread_id)
        if either.seen:
            record = yield own.wait(either.seen[0])
            either.seen.append(record.status)

    thread = either.start(looks_back)
    first = thread.submit("first").result(PATIENCE_S)
    ended(thread, first)
    either.seen.append(first)

    assert ended(thread, thread.submit("second").result(PATIENCE_S)).status == "succeeded"
    assert either.seen[1:] == ["succeeded"]


def test_waits_that_are_over_stand_in_nobodys_way(either: Scene) -> None:
    def visits(state: ThreadState) -> Replies:
        assert state.execution is not None
        words = state.execution.new_messages[0].content
        if words in {"a", "b"}:
            other = either.runtime.thread(str(words))
            receipt = yield other.submit("quiet")
            either.seen.append((yield other.wait(receipt)).status)

    either.open(either.body(visits, name="actor"))
    one, two = either.thread(thread_id="a"), either.thread(thread_id="b")

    for _ in range(3):
        ended(one, one.submit("b").result(PATIENCE_S))
        ended(two, two.submit("a").result(PATIENCE_S))

    assert either.seen == ["succeeded"] * 6
