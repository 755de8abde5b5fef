from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.actors.publishing import World, finish, lost, message, start
from treadle.actors import hub
from treadle.protocol.errors import CursorConflict, InvalidInput, RuntimeClosed, StoreClosed
from treadle.protocol.limits import JOURNAL_PAGE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from treadle.actors.change_feed import ChangeSubscription

GUARD = 60


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.close()


def drain(feed: ChangeSubscription) -> list[Any]:
    found: list[Any] = []
    while True:
        try:
            frame = feed.next(timeout=0)
        except TimeoutError:
            return found
        found.append(frame)
        if frame is None:
            return found


def brief(frames: list[Any]) -> list[Any]:
    return [
        frame and (frame["change"], frame["thread_id"], frame["status"]["state"])
        if frame and "change" in frame
        else frame
        for frame in frames
    ]


def test_a_change_is_the_latest_status_of_a_thread_under_its_number(world: World) -> None:
    entry = world.create("t")
    world.run(entry, start(), message())

    assert drain(world.hub.changes()) == [
        {
            "type": "thread_status",
            "thread_id": "t",
            "cursor": "1:3",
            "status": entry.facts.status.to_wire(),
            "change": 2,
            "deleted": False,
        }
    ]


def test_a_reader_behind_sees_each_changed_thread_once_and_one_that_keeps_up_sees_all(world: World) -> None:
    one, two = world.create("one"), world.create("two")
    near, far = world.hub.changes(), world.hub.changes()
    seen = drain(near)
    for entry, event in ((one, start()), (one, lost()), (two, start()), (one, start("e2")), (one, message())):
        world.run(entry, event)
        seen += drain(near)

    assert brief(seen) == [
        (1, "one", "idle"), (2, "two", "idle"), (3, "one", "running"), (4, "one", "failed"), (5, "two", "running"),
        (6, "one", "running"),
    ]  # fmt: skip
    assert brief(drain(far)) == [(5, "two", "running"), (6, "one", "running")]


@pytest.mark.parametrize("after", [3, "3"])
def test_a_reader_resumes_after_the_number_that_it_kept(world: World, after: int | str) -> None:
    one, two = world.create("one"), world.create("two")
    feed = world.hub.changes()
    assert feed.cursor is None
    drain(feed)
    world.run(one, start())
    drain(feed)
    assert feed.cursor == 3
    feed.close()
    world.run(two, start())

    assert brief(drain(world.hub.changes(after))) == [(4, "two", "running")]


def test_a_reader_of_the_latest_gets_what_changes_from_now_on(world: World) -> None:
    one, _ = world.create("one"), world.create("two")
    feed = world.hub.changes("latest")
    assert (drain(feed), feed.cursor) == ([], 2)

    world.run(one, start())

    assert brief(drain(feed)) == [(3, "one", "running")]


def test_the_latest_is_that_of_the_call_however_late_it_is_read(world: World) -> None:
    world.create("one")
    feed = world.hub.changes("latest")
    two = world.create("two")
    with feed:
        world.run(two, start())

        assert feed.cursor == 1
        assert brief(drain(feed)) == [(3, "two", "running")]


def test_numbers_are_read_once_all_before_them_are_published(world: World) -> None:
    one, two = world.create("one"), world.create("two")
    feed = world.hub.changes(2)
    world.commit(one, start())
    world.commit(two, start())
    world.publish(two)

    assert drain(feed) == []
    assert world.hub.counts()["changes_waiting"] == 1
    world.publish(one)
    assert brief(drain(feed)) == [(3, "one", "running"), (4, "two", "running")]


def test_a_thread_that_changed_again_and_did_not_say_so_is_not_shown_yet(world: World) -> None:
    one, two = world.create("one"), world.create("two")
    world.run(one, start())
    world.commit(one, lost())
    world.run(two, start())

    feed = world.hub.changes()
    assert brief(drain(feed)) == []
    world.publish(one)

    assert brief(drain(feed)) == [(4, "one", "failed"), (5, "two", "running")]


def test_a_number_whose_actor_crashed_holds_nobody_up(world: World) -> None:
    one, two = world.create("one"), world.create("two")
    feed = world.hub.changes(2)
    assert drain(feed) == []
    world.commit(one, start())
    _, _, change = one.unpublished.pop()
    world.run(two, start())
    assert drain(feed) == []
    world.hub.change_published(change)

    assert brief(drain(feed)) == [(3, "one", "running"), (4, "two", "running")]


def test_what_earlier_boots_took_is_published() -> None:
    world = World()
    world.run(world.create("t"), start())
    world.close()
    again = World(world.store)
    again.steps, again.entries = world.steps, world.entries

    feed = again.hub.changes(1)
    assert brief(drain(feed)) == [(2, "t", "running")]
    again.create("u")
    assert brief(drain(feed)) == [(3, "u", "idle")]
    again.close()


def test_a_deleted_thread_is_a_change(world: World) -> None:
    entry = world.create("t")
    feed = world.hub.changes()
    drain(feed)
    world.delete(entry)

    (frame,) = drain(feed)
    assert (frame["thread_id"], frame["deleted"], frame["change"]) == ("t", True, 2)


def test_many_changes_come_page_by_page(world: World) -> None:
    for number in range(600):
        world.create(f"t{number}")
    feed = world.hub.changes()

    found = [feed.next(timeout=0)]
    assert len(feed._page) == JOURNAL_PAGE - 1
    found += drain(feed)

    assert [frame and frame["change"] for frame in found] == list(range(1, 601))


@pytest.mark.parametrize("after", [-1, "", "x", "-1", "1:1", 1.5, True, 2**63, "9" * 20, "٣", [], b"1"])
def test_what_is_not_a_number_is_refused_at_the_first_step(world: World, after: Any) -> None:
    feed = world.hub.changes(after)

    with pytest.raises(InvalidInput) as caught:
        feed.next()
    assert caught.value.code == "invalid_cursor"


def test_a_number_that_was_never_published_is_a_conflict(world: World) -> None:
    entry = world.create("t")
    world.commit(entry, start())
    feed = world.hub.changes(2)
    with pytest.raises(CursorConflict) as caught:
        feed.next()
    world.publish(entry)

    assert caught.value.details == {"cursor": 2, "head": 1}
    assert drain(feed) == []


def test_a_closing_runtime_delivers_what_was_published_and_ends(world: World) -> None:
    entry = world.create("t")
    near, late, new = world.hub.changes(), world.hub.changes(1), world.hub.changes()
    drain(near)
    drain(late)
    world.run(entry, start())
    world.hub.close()

    last = [(2, "t", "running"), {"type": "closed", "complete": True}, None]
    assert brief(drain(near)) == last
    world.store.close()
    assert brief(drain(late)) == last
    with pytest.raises(RuntimeClosed):
        new.next()


@pytest.mark.parametrize("mark", [True, False])
def test_what_changes_while_a_runtime_ends_is_shown_also_once_its_store_is_closed(world: World, mark: bool) -> None:
    count = 2 * JOURNAL_PAGE + 10
    entries = [world.create(f"t{number}") for number in range(count)]
    feed = world.hub.changes("latest")
    drain(feed)
    if mark:
        world.hub.begin_end()
    for entry in entries:
        world.run(entry, start())
    world.hub.close()
    world.store.close()

    found = drain(feed)

    if mark:
        assert [frame["thread_id"] for frame in found[:-2]] == [entry.thread_id for entry in entries]
    assert found[-2:] == [{"type": "closed", "complete": mark}, None]
    # Where some are missing none is shown behind them, which the reader's place would then leave out for good.
    assert len(found) == (count + 2 if mark else 2)


def test_of_too_many_last_changes_none_is_shown_behind_one_that_is_missing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "_CHANGES_KEPT", 2)
    entries = [world.create(f"t{number}") for number in range(3)]
    early, late = world.hub.changes(3), world.hub.changes(3)
    drain(early), drain(late)
    world.run(entries[0], start())
    drain(late)
    for entry in entries[1:]:
        world.run(entry, start())
    world.hub.close()
    world.store.close()

    assert drain(early) == [{"type": "closed", "complete": False}, None]
    assert brief(drain(late)) == [
        (5, "t1", "running"), (6, "t2", "running"), {"type": "closed", "complete": True}, None,
    ]  # fmt: skip


def test_a_store_that_closes_before_the_hub_is_an_error(world: World) -> None:
    feed = world.hub.changes()
    world.create("t")
    world.store.close()

    with pytest.raises(StoreClosed):
        feed.next()


def test_readers_asleep_are_woken_by_changes_and_by_the_end(world: World) -> None:
    entry = world.create("t")
    found: list[Any] = []
    ready = threading.Event()

    async def main() -> None:
        async with world.hub.changes() as feed:
            async for frame in feed:
                found.append(frame)
                ready.set()

    def read() -> None:
        with world.hub.changes(1) as feed:
            found.extend(feed)

    workers = [threading.Thread(target=lambda: asyncio.run(main())), threading.Thread(target=read)]
    for worker in workers:
        worker.start()
    assert ready.wait(GUARD)
    ready.clear()
    world.run(entry, start())
    assert ready.wait(GUARD)
    world.hub.close()
    for worker in workers:
        worker.join(GUARD)

    assert len([frame for frame in found if frame["type"] == "closed"]) <= 2
    assert max(frame["change"] for frame in found if "change" in frame) == 2


moves = st.lists(
    st.tuples(st.sampled_from(["commit", "publish", "read", "reopen"]), st.integers(0, 2)), min_size=10, max_size=60
)


@given(moves)
@pytest.mark.slow
def test_whatever_the_order_a_reader_ends_with_every_threads_latest_status(script: list[tuple[str, int]]) -> None:
    world = World()
    entries = [world.create(f"t{number}") for number in range(3)]
    feed = world.hub.changes()
    latest: dict[str, Any] = {}
    last = 0

    def read(limit: int) -> None:
        nonlocal last
        for _ in range(limit):
            try:
                frame = feed.next(timeout=0)
            except TimeoutError:
                return
            assert frame is not None
            assert frame["change"] > last
            last = frame["change"]
            entry = world.entries[frame["thread_id"]]
            assert entry.snapshot is not None
            # Published by then: never ahead of what a look at the thread finds.
            assert int(frame["cursor"][2:]) <= entry.snapshot.cursor.sequence
            latest[frame["thread_id"]] = frame["status"]

    for kind, which in script:
        entry = entries[which]
        if kind == "commit":
            running = entry.facts.execution_id
            world.commit(entry, message(), finish(running) if running else start(f"e{world.now}"))
        elif kind == "publish" and entry.unpublished:
            world.publish(entry)
        elif kind == "read":
            read(which + 1)
        elif kind == "reopen":
            feed.close()
            feed = world.hub.changes(feed.cursor)
    for entry in entries:
        while entry.unpublished:
            world.publish(entry)
    read(1_000)

    assert latest == {entry.thread_id: entry.facts.status.to_wire() for entry in entries}
    assert world.hub.counts()["changes_waiting"] == 0
    world.close()
