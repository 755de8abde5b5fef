from __future__ import annotations

import asyncio
import gc
import sys
import threading
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from tests.actors.publishing import World, at, finish, lost, message, request, start
from treadle.actors.snapshot import snapshot_of
from treadle.protocol.cursors import Cursor
from treadle.protocol.errors import (
    CorruptRecord,
    CursorConflict,
    InvalidInput,
    RuntimeClosed,
    StoreClosed,
    ThreadNotFound,
)
from treadle.protocol.events import Event, ExecutionStarted
from treadle.protocol.limits import JOURNAL_PAGE, WATCH_BYTES_MAX, WATCH_FRAMES_MAX
from treadle.protocol.status import ThreadStatus

if TYPE_CHECKING:
    from collections.abc import Iterator

    from treadle.actors.feed import Feed
    from treadle.actors.snapshot import Snapshot

GUARD = 60


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.close()


def drain(feed: Feed[Any]) -> list[Any]:
    """Take everything that is there."""
    found: list[Any] = []
    while True:
        try:
            item = feed.next(timeout=0)
        except TimeoutError:
            return found
        if item is None:
            return [*found, None]
        found.append(item)


def brief(frames: list[Any]) -> list[Any]:
    """Show a committed frame as its cursor, a status frame as its state, the first one as both, others as their type."""
    shown: list[Any] = []
    for frame in frames:
        if frame is None:
            shown.append(None)
        elif frame["type"] == "thread_status":
            state = frame["status"]["state"]
            shown.append((frame["cursor"], state) if "cursor" in frame else state)
        else:
            shown.append(frame.get("cursor") or frame["type"])
    return shown


# Events


def test_events_are_the_journal_from_its_beginning(world: World) -> None:
    entry = world.create("t")
    world.run(entry, start(), message())
    feed = world.hub.events("t")

    assert drain(feed) == world.journal(entry)
    world.run(entry, finish())
    assert drain(feed) == world.journal(entry)[3:]
    assert feed.cursor == at(4)


@pytest.mark.parametrize("after", ["1:2", Cursor(1, 2)])
def test_events_after_a_cursor_are_exactly_those_behind_it(world: World, after: str | Cursor) -> None:
    entry = world.create("t")
    world.run(entry, start(), message())
    world.run(entry, finish())

    assert drain(world.hub.events("t", after)) == world.journal(entry)[2:]
    assert drain(world.hub.events("t", "1:4")) == []


def test_an_event_is_seen_when_it_is_published_not_when_it_is_committed(world: World) -> None:
    entry = world.create("t")
    feed = world.hub.events("t", "1:1")
    late = world.hub.events("t", "1:1")
    assert drain(feed) == []
    world.commit(entry, start())
    world.commit(entry, finish())

    assert drain(feed) == []
    assert drain(late) == []
    world.publish(entry)
    assert [event.cursor for event in drain(feed)] == [at(2)]
    assert [event.cursor for event in drain(late)] == [at(2)]


def test_a_thread_that_no_actor_holds_is_read_from_the_store(world: World) -> None:
    entry = world.create("t")
    world.run(entry, start(), message())
    world.run(entry, finish())
    world.passivate(entry)

    assert drain(world.hub.events("t")) == world.journal(entry)
    assert brief(drain(world.hub.stream("t"))) == [("1:4", "idle")]


def test_an_actor_that_comes_up_while_the_store_is_read_has_the_last_word(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = world.create("t")
    world.passivate(entry)
    view = world.store.view

    def viewing() -> Any:
        # The entry has been found to have no actor. Now one comes up and commits, and has not published yet.
        if not entry.unpublished:
            entry.snapshot = snapshot_of(entry.number, entry.facts, None)
            world.commit(entry, start())
        return view()

    feed = world.hub.stream("t")
    monkeypatch.setattr(world, "entry", lambda _: entry)
    monkeypatch.setattr(world.store, "view", viewing)

    assert brief(drain(feed)) == [("1:1", "idle")]
    world.publish(entry)
    assert brief(drain(feed)) == ["1:2", "running"]


def test_many_events_come_page_by_page(world: World) -> None:
    entry = world.create("t")
    for _ in range(5):
        world.run(entry, *(message() for _ in range(200)))

    feed = world.hub.events("t")
    found, pages = [], []
    while feed.cursor != at(1_001):
        before = len(feed._page)
        found.append(feed.next(timeout=0))
        if not before:
            pages.append(len(feed._page) + 1)

    # A short one first; none is longer than the limit.
    assert pages == [16, 32, 64, 128, JOURNAL_PAGE, JOURNAL_PAGE, 1_001 - 3 * JOURNAL_PAGE + 16]
    assert found == world.journal(entry)


def test_a_page_of_large_events_is_a_short_one(world: World) -> None:
    entry = world.create("t")
    for _ in range(100):
        world.run(entry, message("x" * 100_000))

    feed = world.hub.events("t")
    found, longest = [], 0
    while feed.cursor != at(101):
        found.append(feed.next(timeout=0))
        longest = max(longest, len(feed._page))

    assert longest * 100_000 < WATCH_BYTES_MAX + 8 * 100_000
    assert found == world.journal(entry)


def test_a_client_that_was_away_for_a_thousand_events_gets_exactly_the_gap_and_then_live(world: World) -> None:
    """Scenario 25."""
    entry = world.create("t")
    feed = world.hub.stream("t")
    assert brief(drain(feed)) == [("1:1", "idle")]
    feed.close()
    for _ in range(10):
        world.run(entry, *(message() for _ in range(100)))

    feed = world.hub.stream("t", "1:1")

    assert brief(drain(feed)) == [("1:1001", "idle"), *(f"1:{n}" for n in range(2, 1002))]
    world.run(entry, start())
    assert brief(drain(feed)) == ["1:1002", "running"]


# Errors


@pytest.mark.parametrize("kind", ["events", "stream"])
def test_nothing_is_wrong_before_the_first_step(world: World, kind: str) -> None:
    open_feed = getattr(world.hub, kind)
    world.create("t")
    for thread_id, after, error in (
        ("nobody", None, ThreadNotFound),
        ("t", "1:x", InvalidInput),
        ("t", 5, InvalidInput),
        ("t", (1, 1), InvalidInput),
        ("t", "2:1", CursorConflict),
        ("t", "1:2", CursorConflict),
        ("nobody", "1:x", InvalidInput),
    ):
        feed = open_feed(thread_id, after)
        assert feed.cursor is None
        for _ in range(2):
            with pytest.raises(error):
                feed.next()

            async def step(feed: Feed[Any] = feed) -> None:
                await anext(feed)

            with pytest.raises(error):
                asyncio.run(step())
        assert world.hub.counts()["readers"] == 0


def test_a_cursor_beyond_the_head_names_the_head(world: World) -> None:
    world.create("t")

    with pytest.raises(CursorConflict) as caught:
        world.hub.events("t", "1:7").next()

    assert caught.value.details == {"thread_id": "t", "cursor": "1:7", "head": "1:1"}


def test_a_cursor_that_is_committed_and_not_published_lies_beyond_the_head(world: World) -> None:
    entry = world.create("t")
    world.commit(entry, message())

    with pytest.raises(CursorConflict):
        world.hub.events("t", "1:2").next()


@pytest.mark.parametrize("missing", [2, 3, 4])
def test_a_hole_in_the_journal_is_a_corrupt_record(world: World, missing: int) -> None:
    entry = world.create("t")
    world.run(entry, message(), message(), message())
    world.write(_remove(world, missing))

    with pytest.raises(CorruptRecord) as caught:
        drain(world.hub.events("t", "1:1"))

    assert caught.value.details["table"] == "journal"


def _remove(world: World, sequence: int) -> Any:
    from treadle.storage.batch import Batch
    from treadle.storage.codec import encode_facts
    from treadle.storage.keys import journal_key
    from treadle.storage.tables import Table

    entry = world.entries["t"]
    facts = entry.facts
    return Batch(
        number=entry.number, generation=1, sequence=facts.sequence, boot=world.boot.number, life=1, head_generation=1,
        head_sequence=facts.sequence, record=encode_facts(facts), change=None, absent=None,
        ops=[(int(Table.JOURNAL), journal_key(entry.number, 1, sequence), None)], size=1, confirm=print,
    )  # fmt: skip


# Streams


def test_a_stream_begins_with_one_frame_that_holds_all_that_a_client_needs(world: World) -> None:
    entry = world.create("t")
    world.run(entry, start(), request("r"), message())

    first = world.hub.stream("t").next()

    assert first == {
        "type": "thread_status",
        "status": {"state": "running", "since": 1_000_002, "reason": None},
        "cursor": "1:4",
        "active_execution": {
            "execution_id": "e1",
            "agent_id": "a",
            "started_at": 1_000_002,
            "phase": "running",
        },
        "pending_requests": [
            {
                "request_id": "r",
                "execution_id": "e1",
                "kind": "approval",
                "payload": {"about": "r"},
                "timeout": None,
                "created_at": 1_000_003,
            }
        ],
        "held": False,
        "boot_id": world.boot.id,
    }


def test_a_status_frame_follows_every_change_in_order_exactly_once(world: World) -> None:
    entry = world.create("t")
    feed = world.hub.stream("t")
    assert brief(drain(feed)) == [("1:1", "idle")]
    world.run(entry, start("e1"), message())
    world.run(entry, finish("e1"), start("e2"))
    world.run(entry, lost("e2"))
    world.run(entry, start("e3"))
    world.run(entry, message(), finish("e3", failed=True))

    frames = drain(feed)

    assert brief(frames) == [
        "1:2", "running", "1:3", "1:4", "idle", "1:5", "running", "1:6", "failed", "1:7", "running", "1:8", "1:9", "failed",
    ]  # fmt: skip
    statuses = [frame["status"] for frame in frames if frame["type"] == "thread_status"]
    assert statuses[-1] == entry.facts.status.to_wire()
    assert [status["reason"] for status in statuses] == [
        None, "awaiting_human", None, "execution_lost", None, "step_error",
    ]  # fmt: skip


def test_a_reader_in_the_journal_sees_the_same_frames_as_one_in_the_ring(world: World) -> None:
    entry = world.create("t")
    near, far = world.hub.stream("t"), world.hub.stream("t")
    seen = [*drain(near)]
    first = far.next(timeout=0)
    for number in range(WATCH_FRAMES_MAX):
        world.run(entry, start(f"e{number}"), message())
        world.run(entry, lost(f"e{number}") if number % 3 else finish(f"e{number}", failed=number % 2 == 0))
        seen += drain(near)

    assert [first, *drain(far)] == seen


def test_a_replay_does_not_go_back_in_status(world: World) -> None:
    entry = world.create("t")
    world.run(entry, start())
    world.run(entry, finish())
    feed = world.hub.stream("t", "1:1")

    assert brief(drain(feed)) == [("1:3", "idle"), "1:2", "1:3"]
    world.run(entry, start("e2"))
    assert brief(drain(feed)) == ["1:4", "running"]


def test_control_frames_never_move_the_cursor(world: World) -> None:
    entry = world.create("t")
    feed = world.hub.stream("t")
    world.run(entry, start())
    world.run(entry, finish())
    world.hub.live(entry, {"type": "message_chunk"})
    reached = []
    for frame in drain(feed):
        if "cursor" in frame:
            reached.append(frame["cursor"])
        assert str(feed.cursor) == reached[-1]


def test_reconnecting_after_any_frame_gives_the_journal_once(world: World) -> None:
    """Scenario 24."""
    entry = world.create("t")
    script: list[list[Event]] = [
        [start("e1"), message()],
        [finish("e1")],
        [message()],
        [start("e2")],
        [lost("e2"), message()],
    ]
    for stop in range(1, 14):
        thread = f"t{stop}"
        entry = world.create(thread)
        feed = world.hub.stream(thread)
        cursor, seen, taken = None, [], 0
        for events in script:
            while True:
                try:
                    frame = feed.next(timeout=0)
                except TimeoutError:
                    break
                assert frame is not None
                if "cursor" in frame:
                    cursor = frame["cursor"]
                    if frame["type"] != "thread_status":
                        seen.append(cursor)
                taken += 1
                if taken % stop == 0:
                    feed.close()
                    feed = world.hub.stream(thread, cursor)
                    first = feed.next(timeout=0)
                    assert first is not None
                    assert first["status"] == entry.snapshot.status.to_wire()  # type: ignore[union-attr]
            world.run(entry, *events)
            world.hub.live(entry, {"type": "message_chunk"})
        seen += [frame["cursor"] for frame in drain(feed) if "cursor" in frame and frame["type"] != "thread_status"]

        assert seen == [f"1:{number}" for number in range(2, 9)]


def test_a_status_that_could_not_be_written_is_pushed_all_the_same(world: World) -> None:
    entry = world.create("t")
    world.run(entry, start())
    feed = world.hub.stream("t")
    assert brief(drain(feed)) == [("1:2", "running")]
    before = entry.snapshot
    assert before is not None
    status = ThreadStatus("failed", 99, "execution_lost")
    entry.snapshot = before._replace(status=status, active=None)
    world.hub.published(entry, before, entry.snapshot, [])
    world.hub.flush(entry)

    assert drain(feed) == [{"type": "thread_status", "status": status.to_wire()}]
    assert drain(feed) == []
    assert drain(world.hub.stream("t"))[0]["status"] == status.to_wire()


def test_a_status_that_another_reader_has_begun_with_still_follows_its_event(world: World) -> None:
    entry = world.create("t")
    feed = world.hub.stream("t")
    drain(feed)
    world.commit(entry, start())
    entry.snapshot = snapshot_of(entry.number, entry.facts, None)
    late = world.hub.stream("t")

    assert brief(drain(late)) == [("1:2", "running")]
    assert brief(drain(feed)) == []
    world.publish(entry)
    assert brief(drain(feed)) == ["1:2", "running"]
    assert brief(drain(late)) == []


def test_a_reader_asleep_is_told_of_a_status_that_could_not_be_written(world: World) -> None:
    entry = world.create("t")
    world.run(entry, start())
    before = entry.snapshot
    assert before is not None

    async def main() -> Any:
        feed = world.hub.stream("t")
        await anext(feed)
        task = asyncio.ensure_future(anext(feed))
        await asyncio.sleep(0)
        entry.snapshot = before._replace(status=ThreadStatus("failed", 99, "execution_lost"), active=None)
        world.hub.published(entry, before, entry.snapshot, [])
        world.hub.flush(entry)
        return await asyncio.wait_for(task, GUARD)

    assert brief([asyncio.run(main())]) == ["failed"]


def test_live_frames_come_in_their_place_and_a_slow_reader_is_told_how_many_it_missed(world: World) -> None:
    entry = world.create("t")
    feed, slow, events = world.hub.stream("t"), world.hub.stream("t"), world.hub.events("t", "1:1")
    for reader in (feed, slow, events):
        drain(reader)
    world.run(entry, start())
    assert world.hub.live(entry, {"type": "message_chunk", "chunk": "a"})
    world.run(entry, message())

    assert brief(drain(feed)) == ["1:2", "running", "message_chunk", "1:3"]
    for _ in range(WATCH_FRAMES_MAX):
        world.hub.live(entry, {"type": "message_chunk", "chunk": "b"})
    assert brief(drain(feed)) == ["message_chunk"] * WATCH_FRAMES_MAX
    missed = drain(slow)
    assert missed[0] == {"type": "gap", "dropped": 1}
    assert brief(missed) == ["gap", "1:2", "running", "1:3", *["message_chunk"] * WATCH_FRAMES_MAX]
    assert [event.cursor.sequence for event in drain(events)] == [2, 3]


def test_live_frames_of_the_past_are_not_replayed(world: World) -> None:
    entry = world.create("t")
    keeper = world.hub.stream("t")
    drain(keeper)
    world.hub.live(entry, {"type": "message_chunk"})
    world.run(entry, message())

    assert brief(drain(world.hub.stream("t", "1:1"))) == [("1:2", "idle"), "1:2"]
    assert brief(drain(keeper)) == ["message_chunk", "1:2"]


# Ends


def test_a_deleted_thread_ends_its_subscriptions(world: World) -> None:
    entry = world.create("t")
    stream, events, waiting = world.hub.stream("t"), world.hub.events("t"), world.hub.stream("t")
    for feed in (stream, events, waiting):
        drain(feed)
    world.run(entry, message())
    drain(waiting)
    world.delete(entry)
    world.remove_contents(entry)

    assert brief(drain(stream)) == ["1:2", "thread_deleted", None]
    assert [event and event.cursor.sequence for event in drain(events)] == [2, None]
    assert brief(drain(waiting)) == ["thread_deleted", None]
    with pytest.raises(ThreadNotFound):
        world.hub.stream("t").next()
    assert world.hub.counts()["readers"] == 0


def test_one_behind_on_a_deleted_thread_ends_too(world: World) -> None:
    entry = world.create("t")
    world.run(entry, *(message() for _ in range(600)))
    stream, told = world.hub.stream("t", "1:1"), world.hub.stream("t", "1:1")
    for feed in (stream, told):
        feed.next()
        assert brief([feed.next()]) == ["1:2"]
    # The one finds out when it reads the next page, the other is told before.
    world.delete(entry, flush=False)
    assert brief(drain(stream)) == [*[f"1:{n}" for n in range(3, 18)], "thread_deleted", None]
    world.hub.flush(entry)
    assert brief(drain(told)) == [*[f"1:{n}" for n in range(3, 18)], "thread_deleted", None]


def test_a_thread_deleted_while_a_subscription_opens_is_not_found(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = world.create("t")
    find = world.snapshot

    def finding(wanted: Any) -> Snapshot:
        found = find(wanted)
        if not entry.gone:
            world.delete(entry)
        return found

    monkeypatch.setattr(world, "snapshot", finding)

    with pytest.raises(ThreadNotFound):
        world.hub.stream("t").next()
    assert world.hub.counts()["watched"] == 0


def test_closing_the_hub_ends_every_subscription_after_all_that_was_published(world: World) -> None:
    entry = world.create("t")
    stream, events, behind, new = (
        world.hub.stream("t"),
        world.hub.events("t"),
        world.hub.stream("t", "1:1"),
        world.hub.stream("t"),
    )
    drain(stream)
    behind.next()
    events.next()
    for _ in range(WATCH_FRAMES_MAX):
        world.run(entry, message(), message())
        drain(stream)
    world.run(entry, message())
    world.hub.close()

    closed = {"type": "closed", "complete": True}
    assert drain(stream)[-2:] == [closed, None]
    assert [event and event.cursor.sequence for event in drain(events)] == [*range(2, 2 * WATCH_FRAMES_MAX + 3), None]
    assert drain(behind)[-2:] == [closed, None]
    with pytest.raises(RuntimeClosed):
        new.next()


def test_one_behind_on_a_closed_store_ends_and_says_that_something_is_missing(world: World) -> None:
    entry = world.create("t")
    stream, events, near = world.hub.stream("t"), world.hub.events("t", "1:1"), world.hub.stream("t")
    for feed in (stream, events, near):
        drain(feed)
    for number in range(WATCH_FRAMES_MAX + 5):
        world.run(entry, message())
        if number > 10:
            drain(near)
    world.run(entry, message())
    world.close()

    assert drain(stream) == [{"type": "closed", "complete": False}, None]
    assert drain(events) == [None]
    assert events.cursor == at(1)
    assert brief(drain(near)) == [f"1:{WATCH_FRAMES_MAX + 7}", "closed", None]


def test_a_store_that_closes_before_the_hub_is_an_error(world: World) -> None:
    entry = world.create("t")
    for _ in range(10):
        world.run(entry, message())
    feed = world.hub.events("t", "1:1")
    feed.next()
    feed = world.hub.events("t", "1:1")
    world.store.close()

    with pytest.raises(StoreClosed):
        feed.next()


@pytest.mark.parametrize("how", ["closed", "deleted"])
def test_readers_asleep_are_woken_by_the_end(world: World, how: str) -> None:
    entry = world.create("t")

    async def main() -> list[Any]:
        feed = world.hub.stream("t")
        await anext(feed)
        task = asyncio.ensure_future(anext(feed))
        await asyncio.sleep(0)
        end = world.hub.close if how == "closed" else (lambda: world.delete(entry))
        worker = threading.Thread(target=end)
        worker.start()
        found = [await asyncio.wait_for(task, GUARD)]
        worker.join(GUARD)
        return [*found, *[frame async for frame in feed]]

    assert brief(asyncio.run(main())) == ["closed" if how == "closed" else "thread_deleted"]


# Holding on and letting go


def test_a_watch_is_there_while_anybody_watches(world: World) -> None:
    entry = world.create("t")
    one, two = world.hub.stream("t"), world.hub.events("t")
    assert entry.watch is None
    one.next()
    two.next()
    assert entry.watch is not None
    assert world.hub.counts() == {"watched": 1, "readers": 2, "changes_waiting": 0}
    one.close()
    one.close()
    assert entry.watch is not None
    with two:
        pass

    assert entry.watch is None
    assert world.hub.counts() == {"watched": 0, "readers": 0, "changes_waiting": 0}
    assert one.next() is None
    assert one._watch is None


def test_a_forgotten_subscription_lets_go(world: World) -> None:
    entry = world.create("t")
    feed = world.hub.stream("t")
    feed.next()
    del feed
    gc.collect()

    assert entry.watch is None


def test_closing_twice_at_once_lets_go_once(world: World) -> None:
    entry = world.create("t")
    keeper = world.hub.events("t")
    keeper.next()
    for _ in range(20):
        feed = world.hub.events("t")
        feed.next()
        barrier = threading.Barrier(3)

        def close(feed: Any = feed, barrier: threading.Barrier = barrier) -> None:
            barrier.wait(GUARD)
            feed.close()

        workers = [threading.Thread(target=close) for _ in range(3)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(GUARD)
        assert world.hub.counts()["readers"] == 1
    assert entry.watch is not None


def test_watching_outlives_actors(world: World) -> None:
    entry = world.create("t")
    feed = world.hub.stream("t")
    drain(feed)
    for number in range(3):
        world.passivate(entry)
        world.run(entry, start(f"e{number}"))
        world.run(entry, finish(f"e{number}"))

    assert brief(drain(feed)) == [
        "1:2", "running", "1:3", "idle", "1:4", "running", "1:5", "idle", "1:6", "running", "1:7", "idle",
    ]  # fmt: skip


# Races


def racing_reader(world: World, kind: str, total: int, seen: list[Any]) -> None:
    feed = world.hub.events("t") if kind == "events" else world.hub.stream("t", "1:0")
    with feed:
        for item in feed:
            seen.append(item)
            if feed.cursor == at(total):
                return


def test_a_stream_begins_where_its_with_is_entered_however_late_it_is_read(world: World) -> None:
    entry = world.create("t")
    with world.hub.stream("t") as feed:
        world.run(entry, start("e1"), message())
        world.run(entry, finish("e1"))
        types = [frame["type"] for frame in drain(feed)]
    assert types[0] == "thread_status"
    assert "MESSAGE_ADDED" in types
    assert "THREAD_EXECUTION_FINISHED" in types


def test_a_stream_that_is_entered_on_a_loop_begins_there_too(world: World) -> None:
    entry = world.create("t")

    async def read() -> list[str]:
        async with world.hub.stream("t") as feed:
            world.run(entry, start("e1"))
            return [frame["type"] for frame in drain(feed)]

    assert "THREAD_EXECUTION_STARTED" in asyncio.run(read())


def test_a_stream_that_is_entered_while_it_is_read_loses_nothing(world: World) -> None:
    entry = world.create("t")
    feed = world.hub.stream("t")
    drain(feed)
    world.run(entry, start("e1"))
    with feed:
        assert [frame["type"] for frame in drain(feed)] == ["THREAD_EXECUTION_STARTED", "thread_status"]


def test_a_stream_of_no_thread_says_so_when_it_is_read(world: World) -> None:
    with world.hub.stream("nobody") as feed, pytest.raises(ThreadNotFound):
        feed.next(timeout=0)


@pytest.mark.slow
def test_readers_of_every_kind_and_speed_see_the_same_journal_while_it_grows() -> None:
    world = World()
    entry = world.create("t")
    rounds = 400
    total = 1 + 3 * rounds
    seen: list[list[Any]] = [[] for _ in range(4)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    loop_seen: list[Any] = []

    async def on_loop() -> None:
        async with world.hub.stream("t", "1:0") as feed:
            async for frame in feed:
                loop_seen.append(frame)
                if feed.cursor == at(total):
                    return

    readers = [
        threading.Thread(target=racing_reader, args=(world, kind, total, found))
        for kind, found in zip(["events", "stream"] * 2, seen, strict=True)
    ]
    readers.append(threading.Thread(target=lambda: asyncio.run(on_loop())))
    try:
        for rank, reader in enumerate(readers):
            reader.start()
            for number in range(rank * rounds // 5, (rank + 1) * rounds // 5):
                world.run(entry, start(f"e{number}"), message())
                world.run(entry, finish(f"e{number}"))
        for reader in readers:
            reader.join(GUARD)
    finally:
        sys.setswitchinterval(interval)

    journal = world.journal(entry)
    assert len(journal) == total
    assert seen[0] == seen[2] == journal
    for frames in (seen[1], seen[3], loop_seen):
        committed = [frame for frame in frames[1:] if "cursor" in frame]
        assert committed == [event.to_wire() for event in journal]
        states = [frame["status"]["state"] for frame in frames if frame["type"] == "thread_status"]
        assert all(one != two for one, two in pairwise(states))
    world.close()


@pytest.mark.slow
def test_clients_that_come_and_go_while_the_journal_grows_see_each_event_once() -> None:
    world = World()
    entry = world.create("t")
    rounds = 300
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)

    def come_and_go(stay: int, seen: list[str]) -> None:
        cursor = "1:1"
        while cursor != f"1:{1 + 2 * rounds}":
            with world.hub.stream("t", cursor) as feed:
                for _, frame in zip(range(stay), feed, strict=False):
                    if "cursor" in frame and frame["type"] != "thread_status":
                        cursor = frame["cursor"]
                        seen.append(cursor)
                    if cursor == f"1:{1 + 2 * rounds}":
                        return

    seen: list[list[str]] = [[], [], []]
    readers = [
        threading.Thread(target=come_and_go, args=(stay, found)) for stay, found in zip((2, 3, 17), seen, strict=True)
    ]
    try:
        for reader in readers:
            reader.start()
        for number in range(rounds):
            world.run(entry, start(f"e{number}"))
            world.run(entry, finish(f"e{number}"))
        for reader in readers:
            reader.join(GUARD)
    finally:
        sys.setswitchinterval(interval)

    for found in seen:
        assert found == [f"1:{number}" for number in range(2, 2 + 2 * rounds)]
    assert world.hub.counts()["readers"] == 0
    world.close()


@pytest.mark.slow
def test_what_a_frame_tells_of_is_found_the_instant_it_arrives() -> None:
    """Scenario 19: a watcher that goes by the frame finds the execution, and its owner, in what is published."""
    from treadle.storage.pages import read_execution

    world = World()
    entry = world.create("t")
    rounds = 1_000
    wrong: list[Any] = []

    def look() -> None:
        with world.hub.events("t", "1:1") as feed:
            for event in feed:
                snapshot = entry.snapshot
                assert snapshot is not None
                if event.cursor > snapshot.cursor:
                    wrong.append(event)
                if isinstance(event.event, ExecutionStarted):
                    with world.store.view() as view:
                        found = read_execution(
                            view, entry.number, 1, event.event.execution_id, live_id=None, through=event.cursor.sequence
                        )
                    if found is None:
                        wrong.append(event)
                if event.cursor.sequence == 2 * rounds + 1:
                    return

    reader = threading.Thread(target=look)
    reader.start()
    for number in range(rounds):
        world.run(entry, start(f"e{number}"))
        world.run(entry, finish(f"e{number}"))
    reader.join(GUARD)

    assert not reader.is_alive()
    assert wrong == []
    world.close()
