from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.actors.publishing import World, finish, message, start
from treadle.actors.snapshot import snapshot_of
from treadle.actors.watch import Item, Place, Turn, Watch, weigh
from treadle.protocol.events import JournalEvent
from treadle.protocol.frames import Frame
from treadle.protocol.limits import WATCH_BYTES_MAX, WATCH_FRAMES_MAX

texts = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters='"\\'))
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner) | st.dictionaries(texts, inner),
)


def watched(sequence: int = 1) -> tuple[World, Watch, Place]:
    """Return a watch on a thread that has come to a sequence, and a place at its head."""
    world = World()
    entry = world.create("t")
    while entry.facts.sequence < sequence:
        world.run(entry, message())
    watch = world.hub.attach(entry)
    assert watch is not None
    place = Place()
    assert entry.snapshot is not None
    snapshot = watch.join(entry.snapshot, place)
    place.generation, place.sequence = snapshot.cursor
    return world, watch, place


def sequences(watch: Watch, place: Place) -> list[int | str | Turn]:
    """Return everything that a place finds until it has to wait or read."""
    found: list[int | str | Turn] = []
    while True:
        item = watch.take(place)
        if isinstance(item, Turn):
            return [*found, item]
        found.append(item.frame["type"] if item.event is None else item.event.cursor.sequence)


def test_a_place_finds_each_event_once_in_order() -> None:
    world, watch, place = watched()
    entry = world.entries["t"]

    assert sequences(watch, place) == [Turn.WAIT]
    world.run(entry, start(), message())
    world.run(entry, finish())

    assert sequences(watch, place) == [2, 3, 4, Turn.WAIT]
    assert sequences(watch, place) == [Turn.WAIT]
    assert place.sequence == 4


def test_frames_are_made_once_and_shared_by_all_places() -> None:
    world, watch, place = watched()
    other = Place()
    other.generation, other.sequence = place.generation, place.sequence
    world.run(world.entries["t"], start())

    one, two = watch.take(place), watch.take(other)

    assert isinstance(one, Item)
    assert one is two
    assert one.frame is one.frame
    assert one.frame.text is one.frame.text
    assert one.status_frame is one.status_frame
    assert one.status_frame["status"]["state"] == "running"


def test_the_ring_holds_so_many_frames_and_one_behind_must_read_up_to_it() -> None:
    world, watch, place = watched()
    entry = world.entries["t"]
    for _ in range(WATCH_FRAMES_MAX + 10):
        world.run(entry, message())

    assert sequences(watch, place) == [Turn.BEHIND]
    assert place.through == 11
    place.sequence = 11
    assert sequences(watch, place) == [*range(12, WATCH_FRAMES_MAX + 12), Turn.WAIT]


@pytest.mark.slow
@given(values)
def test_what_is_weighed_is_never_much_lighter_than_its_json(value: Any) -> None:
    encoded = len(json.dumps({"x": value}, ensure_ascii=False).encode())

    assert weigh({"x": value}) * 2 >= encoded
    assert weigh({"x": value}) <= 3 * encoded + 200


def test_the_ring_holds_so_many_bytes() -> None:
    world, watch, place = watched()
    entry = world.entries["t"]
    for _ in range(50):
        world.run(entry, message("x" * 30_000))
        assert watch.size <= WATCH_BYTES_MAX

    assert sequences(watch, place) == [Turn.BEHIND]
    assert watch.size > WATCH_BYTES_MAX - 31_000


def test_an_event_larger_than_the_ring_is_read_from_the_journal() -> None:
    world, watch, place = watched()
    world.run(world.entries["t"], message("x" * (WATCH_BYTES_MAX - 50)))

    assert sequences(watch, place) == [Turn.BEHIND]
    assert (place.through, watch.size) == (2, 0)


def test_a_snapshot_swapped_before_its_events_come_is_not_delivered_twice() -> None:
    world, watch, place = watched()
    entry = world.entries["t"]
    world.commit(entry, message(), message())
    facts, events, _ = entry.unpublished[0]
    entry.snapshot = snapshot_of(entry.number, facts, None)

    late = Place()
    assert watch.join(entry.snapshot, late).cursor.sequence == 3
    late.generation, late.sequence = 1, 3
    watch.publish(entry.snapshot, events)

    assert sequences(watch, late) == [Turn.WAIT]
    assert sequences(watch, place) == [2, 3, Turn.WAIT]


def test_the_first_to_join_makes_up_for_a_publish_that_saw_no_watch() -> None:
    world = World()
    entry = world.create("t")
    world.commit(entry, message())
    facts, _, _ = entry.unpublished.pop()
    entry.snapshot = snapshot_of(entry.number, facts, None)
    watch = world.hub.attach(entry)
    assert watch is not None

    place = Place()
    snapshot = watch.join(entry.snapshot, place)
    place.generation, place.sequence = 1, 1
    world.run(entry, message())

    assert snapshot.cursor.sequence == 2
    assert sequences(watch, place) == [Turn.BEHIND]
    assert place.through == 2
    place.sequence = 2
    assert sequences(watch, place) == [3, Turn.WAIT]


def test_a_publish_before_the_first_has_joined_is_in_the_ring() -> None:
    world = World()
    entry = world.create("t")
    old = entry.snapshot
    assert old is not None
    watch = world.hub.attach(entry)
    assert watch is not None
    world.run(entry, message(), message())

    place = Place()
    snapshot = watch.join(old, place)
    place.generation, place.sequence = 1, 1

    assert snapshot.cursor.sequence == 3
    assert sequences(watch, place) == [2, 3, Turn.WAIT]


def test_a_publish_of_what_the_first_has_brought_along_changes_nothing() -> None:
    world = World()
    entry = world.create("t")
    world.commit(entry, message(), message())
    facts, events, _ = entry.unpublished.pop()
    entry.snapshot = snapshot_of(entry.number, facts, None)
    watch = world.hub.attach(entry)
    assert watch is not None
    place, old = Place(), Place()
    place.generation, place.sequence = watch.join(entry.snapshot, place).cursor
    old.generation, old.sequence = 1, 1
    watch.push_live(Frame(type="x"))
    watch.publish(entry.snapshot, events)

    assert sequences(watch, place) == ["x", Turn.WAIT]
    assert sequences(watch, old) == [Turn.BEHIND]
    assert old.through == 3


def test_a_snapshot_swapped_since_it_was_looked_at_is_the_one_to_begin_from() -> None:
    world, watch, _ = watched()
    entry = world.entries["t"]
    found = entry.snapshot
    assert found is not None
    entry.snapshot = found._replace(held=True)

    assert watch.join(found, Place()) is entry.snapshot
    world.passivate(entry)
    assert watch.join(found, Place()).held


def test_what_a_crashed_incarnation_did_not_publish_is_read_from_the_journal() -> None:
    world, watch, place = watched()
    entry = world.entries["t"]
    world.commit(entry, message(), message())
    entry.unpublished.clear()
    world.run(entry, message())

    assert sequences(watch, place) == [Turn.BEHIND]
    assert place.through == 3
    place.sequence = 3
    assert sequences(watch, place) == [4, Turn.WAIT]

    world.commit(entry, message())
    facts, _, _ = entry.unpublished.pop()
    entry.snapshot = snapshot_of(entry.number, facts, None)
    world.hub.published(entry, None, entry.snapshot, [])

    assert sequences(watch, place) == [Turn.BEHIND]
    assert place.through == 5


def test_live_frames_stand_where_they_came_and_only_for_those_who_watched() -> None:
    world, watch, place = watched()
    entry = world.entries["t"]
    watch.push_live(Frame(type="one"))
    world.run(entry, message())
    late = Place()
    assert entry.snapshot is not None
    watch.join(entry.snapshot, late)
    late.generation, late.sequence = 1, 1
    watch.push_live(Frame(type="two"))

    assert sequences(watch, place) == ["one", 2, "two", Turn.WAIT]
    assert sequences(watch, late) == [2, "two", Turn.WAIT]


def test_live_frames_that_a_place_was_too_slow_for_are_counted_once() -> None:
    world, watch, place = watched()
    for number in range(WATCH_FRAMES_MAX + 5):
        watch.push_live(Frame(type=str(number)))

    assert watch.take(place) is Turn.GAP
    assert place.dropped == 5
    assert sequences(watch, place) == [*map(str, range(5, WATCH_FRAMES_MAX + 5)), Turn.WAIT]

    for _ in range(WATCH_FRAMES_MAX):
        world.run(world.entries["t"], message())
    assert sequences(watch, place)[-1] is Turn.WAIT


def test_a_live_frame_larger_than_the_ring_is_dropped_and_counted() -> None:
    _, watch, place = watched()
    watch.push_live(Frame(type="x", content="x" * WATCH_BYTES_MAX))

    assert sequences(watch, place) == [Turn.GAP]
    assert (place.dropped, watch.size) == (1, 0)
    assert sequences(watch, place) == [Turn.WAIT]


def test_an_end_comes_after_what_the_ring_still_has() -> None:
    for end in (Turn.DELETED, Turn.CLOSED):
        world, watch, place = watched()
        world.run(world.entries["t"], message())
        watch.finish(end)
        watch.finish(Turn.CLOSED)

        assert sequences(watch, place) == [2, end]


def test_a_place_behind_on_a_deleted_thread_has_nothing_to_read_any_more() -> None:
    for end, found in ((Turn.DELETED, Turn.DELETED), (Turn.CLOSED, Turn.BEHIND)):
        _, watch, place = watched(5)
        place.sequence = 2
        watch.finish(end)

        assert sequences(watch, place) == [found]


def test_another_generation_ends_the_places_of_the_old_one() -> None:
    world, watch, place = watched(3)
    entry = world.entries["t"]
    assert entry.snapshot is not None
    facts = entry.facts.copy()
    facts.generation, facts.sequence = 2, 1
    snapshot = snapshot_of(entry.number, facts, None)
    event = JournalEvent(facts.cursor, 99, message())

    watch.publish(snapshot, [event])

    assert sequences(watch, place) == [Turn.REBASED]
    place.generation, place.sequence = 2, 0
    assert sequences(watch, place) == [1, Turn.WAIT]


def test_nothing_that_happens_leaves_a_place_asleep() -> None:
    world, watch, place = watched()
    entry = world.entries["t"]
    snapshot = entry.snapshot
    assert snapshot is not None
    happenings: list[Callable[[], object]] = [
        lambda: world.run(entry, message()),
        lambda: watch.push_live(Frame(type="x")),
        lambda: watch.publish(watch.entry.snapshot or snapshot, []),
        lambda: watch.finish(Turn.CLOSED),
    ]
    for happen in happenings:
        sequences(watch, place)
        assert watch.enlist(place.version, print)
        watch.delist(print)
        happen()
        assert not watch.enlist(place.version, print)
