from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.actors.publishing import World, answer, finish, message, request, start

if TYPE_CHECKING:
    from treadle.actors.snapshot import Snapshot
    from treadle.protocol.events import Event


def pending(world: World, snapshot: Snapshot | None) -> list[object]:
    assert snapshot is not None
    return [found["request_id"] for found in world.hub.pending(snapshot)]


def test_a_thread_without_requests_is_not_read() -> None:
    world = World()
    entry = world.create("t")
    world.run(entry, start())
    world.store.close()

    assert pending(world, entry.snapshot) == []


def test_open_requests_are_listed_oldest_first_with_all_that_an_answer_needs() -> None:
    world = World()
    entry = world.create("t")
    world.run(entry, start(), request("b"), message())
    world.run(entry, request("a"), request("c"), answer("c"))

    assert entry.snapshot is not None
    assert world.hub.pending(entry.snapshot)[0] == {
        "request_id": "b",
        "execution_id": "e1",
        "kind": "approval",
        "payload": {"about": "b"},
        "timeout": None,
        "created_at": 1_000_003,
    }
    assert pending(world, entry.snapshot) == ["b", "a"]
    world.close()


def test_requests_of_a_lost_execution_are_not_listed() -> None:
    world = World()
    entry = world.create("t")
    world.run(entry, start(), request("a"))
    world.passivate(entry)

    assert pending(world, world.snapshot(entry)) == []
    world.close()


steps = st.lists(st.sampled_from(["open", "answer", "say", "begin"]), max_size=80)


@given(steps, steps)
@pytest.mark.slow
def test_requests_are_as_of_the_published_cursor_wherever_the_store_is(before: list[str], after: list[str]) -> None:
    world = World()
    entry = world.create("t")
    world.run(entry, start("e0"))
    open_now: list[str] = []
    serial = 0

    def play(script: list[str], publish: bool) -> None:
        nonlocal serial
        for step in script:
            serial += 1
            events: list[Event] = []
            if step == "say":
                events = [message()]
            elif step == "open":
                events = [request(f"r{serial}")]
                open_now.append(f"r{serial}")
            elif step == "answer" and open_now:
                events = [answer(open_now.pop(serial % len(open_now)))]
            elif step == "begin":
                events = [*map(answer, open_now), finish(), start(f"e{serial}")]
                open_now.clear()
            if events:
                world.commit(entry, *events)
                if publish:
                    world.publish(entry)

    play(before, publish=True)
    expected = list(open_now)
    assert pending(world, entry.snapshot) == expected
    play(after, publish=False)

    assert pending(world, entry.snapshot) == expected
    world.close()
