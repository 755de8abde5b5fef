"""Holds treadle.hosting.client_following: the cursor moves once an event, and only by events."""

from __future__ import annotations

import pytest

from treadle.hosting.client_following import Backoff, ChangeFollowing, EventFollowing
from treadle.hosting.sse import sse_event
from treadle.protocol.errors import CursorConflict, InternalError, InvalidInput, ThreadNotFound, Unavailable
from treadle.protocol.frames import Frame

STEADY = Backoff(first=1.0, most=8.0, attempts=4, chance=lambda: 1.0)


def event(sequence: int, generation: int = 1) -> bytes:
    cursor = f"{generation}:{sequence}"
    return sse_event(Frame(type="E", cursor=cursor), given_id=cursor)


def snapshot(head: str) -> bytes:
    return sse_event(Frame(type="thread_status", cursor=head), name="snapshot")


def taken(following: EventFollowing | ChangeFollowing, *sent: bytes) -> list[str]:
    following.connected()
    following.feed(b"".join(sent))
    found = []
    while (item := following.take()) is not None:
        found.append(item.get("cursor") or item["type"])
    return found


def test_what_came_out_before_does_not_come_again() -> None:
    following = EventFollowing(None, STEADY, follow=True)

    assert taken(following, snapshot("1:3"), event(1), event(2)) == ["1:1", "1:2"]
    assert taken(following, snapshot("1:3"), event(1), event(2), event(3)) == ["1:3"]
    assert following.query() == {"after": "1:3"}


def test_an_event_that_was_cut_off_is_dropped_with_its_connection() -> None:
    following = EventFollowing("1:4", STEADY, follow=True)

    assert taken(following, event(5)[:-1]) == []
    assert taken(following, event(5)) == ["1:5"]


def test_the_cursor_is_that_of_the_event_that_came_out_and_not_of_one_that_waits() -> None:
    following = EventFollowing(None, STEADY, follow=True)
    following.connected()
    following.feed(event(1) + event(2))
    following.take()

    assert following.after() == "1:1"


def test_a_hole_in_a_stream_is_another_connection() -> None:
    following = EventFollowing("1:4", STEADY, follow=True)

    with pytest.raises(Unavailable):
        taken(following, event(6))
    assert following.after() == "1:4"


def test_another_generation_is_said() -> None:
    with pytest.raises(CursorConflict):
        taken(EventFollowing("1:4", STEADY, follow=True), event(5, generation=2))
    failed = sse_event(Frame(type="stream_failed", code="cursor_conflict", detail="rebased"))
    with pytest.raises(CursorConflict):
        taken(EventFollowing("1:4", STEADY, follow=True), failed)


@pytest.mark.parametrize(
    "last", [Frame(type="closed", complete=True), Frame(type="stream_failed", code="store_failed")]
)
def test_a_server_that_goes_is_followed_over_its_restart(last: Frame) -> None:
    following = EventFollowing("1:4", STEADY, follow=True)

    with pytest.raises(Unavailable) as caught:
        taken(following, snapshot("1:4"), sse_event(last))

    assert following.failed(caught.value) == 1.0
    assert not following.ended


def test_frames_that_are_not_committed_come_only_where_they_are_asked_for() -> None:
    sent = [snapshot("1:1"), sse_event(Frame(type="thread_status")), sse_event(Frame(type="message_chunk")), event(1)]

    assert taken(EventFollowing(None, STEADY, follow=True), *sent) == ["1:1"]
    assert taken(EventFollowing(None, STEADY, follow=True, live=True), *sent) == ["message_chunk", "1:1"]


def test_without_following_it_ends_at_the_first_head_whatever_comes_behind() -> None:
    following = EventFollowing("1:1", STEADY, follow=False)

    assert taken(following, snapshot("1:3"), event(2)) == ["1:2"]
    assert taken(following, snapshot("1:9"), event(3), event(4)) == ["1:3"]
    assert following.ended
    assert taken(EventFollowing("1:3", STEADY, follow=False), snapshot("1:3")) == []


def test_failures_in_a_row_wait_longer_until_there_are_too_many() -> None:
    following = EventFollowing(None, STEADY, follow=True)
    away = Unavailable("away")

    assert [following.failed(away), following.failed(away), following.failed(away, at_least=9.0)] == [1.0, 2.0, 9.0]
    with pytest.raises(Unavailable):
        following.failed(away)


def test_an_answer_ends_an_outage() -> None:
    following = EventFollowing(None, STEADY, follow=True)
    for _ in range(9):
        assert following.failed(Unavailable("away")) == 1.0
        taken(following, snapshot("1:0"))


def test_what_another_attempt_cannot_mend_is_raised_at_once() -> None:
    with pytest.raises(ThreadNotFound):
        EventFollowing(None, STEADY, follow=True).failed(ThreadNotFound("gone"))


def test_waits_are_spread_bounded_and_never_overflow() -> None:
    low = Backoff(chance=lambda: 0.0, attempts=None)

    assert [low.delay(1), low.delay(2), low.delay(100_000)] == [0.125, 0.25, 2.5]
    assert 0.125 <= Backoff().delay(1) <= 0.25
    assert not low.over(10**9)


@pytest.mark.parametrize("sent", [b"id: 1:1\ndata: x\n\n", b"data: []\n\n", b"id: x\ndata: {}\n\n"])
def test_what_is_no_event_of_ours_is_not_passed_on(sent: bytes) -> None:
    with pytest.raises(InternalError):
        taken(EventFollowing(None, STEADY, follow=True), sent)


def test_changes_have_gaps_and_come_once() -> None:
    following = ChangeFollowing("3", STEADY)

    def change(number: int) -> bytes:
        return sse_event(Frame(type="thread_status", change=number), given_id=number)

    assert taken(following, change(3), change(7), change(7), change(9)) == ["thread_status"] * 2
    assert following.query() == {"after": "9"}


@pytest.mark.parametrize("after", [-1, "x", True, "٣", "1" * 20])
def test_a_change_number_is_checked_before_anything_is_sent(after: int | str) -> None:
    with pytest.raises(InvalidInput) as caught:
        ChangeFollowing(after, STEADY)
    assert caught.value.code == "invalid_cursor"
