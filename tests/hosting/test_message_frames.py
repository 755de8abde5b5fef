"""Holds treadle.hosting.message_frames: what each of a thread's frames is on the message stream (contract H.2)."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from treadle.actors import Runtime
from treadle.actors.testing import Puppet, Stage
from treadle.agents import ThreadState, agent
from treadle.hosting.message_frames import MessageFrames, Wanted
from treadle.protocol.frames import Frame
from treadle.storage import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from treadle.actors import Thread


@pytest.fixture
def on(stage: Callable[..., Stage]) -> Stage:
    return stage(Puppet())


@pytest.fixture
def thread(on: Stage) -> Thread:
    return on.thread(thread_id="t")


def made(on: Stage, thread: Thread, after: str = "1:0", **wanted: Any) -> list[Frame]:
    """Return what all of the thread's frames after a cursor are by now, the snapshot left out."""
    frames = MessageFrames(thread, Wanted(**wanted), on.runtime.clock)
    found: list[Frame] = []
    with thread.stream(after) as stream:
        assert stream.next(0)
        for _ in range(thread.state().result().cursor.sequence - int(after.partition(":")[2])):
            frame = stream.next(0)
            assert frame is not None
            found += frames.of(frame)
    return found


def contents(frames: list[Frame]) -> list[tuple[str, str]]:
    return [(frame["data"]["content"], frame["data"]["status"]) for frame in frames if frame["type"] == "message_data"]


def test_each_message_is_as_people_read_it(on: Stage, thread: Thread) -> None:
    on.ask(thread.submit("one"))
    on.ask(thread.inject_message(role="assistant", content="two"))

    frames = made(on, thread)

    history = thread.messages().result().messages
    assert [frame["data"] for frame in frames] == [message.model_dump(mode="json") for message in history]
    assert contents(frames) == [("one", "completed"), ("two", "completed")]


def test_a_message_that_waits_is_told_of_again_once_it_joined() -> None:
    may_end = threading.Event()

    @agent
    def waits(state: ThreadState) -> None:
        may_end.wait(60)

    with Runtime(MemoryStore(), agents=[waits]) as runtime:
        thread = runtime.create_thread(waits, thread_id="t").result()
        first = thread.submit("first").result()
        receipt = thread.queue_message("later").result()
        frames = MessageFrames(thread, Wanted(), runtime.clock)
        with thread.stream("1:2") as stream:
            shown = [next(stream), next(stream)]
            waiting = frames.of(shown[1])
            may_end.set()
            thread.wait(first).result()
            thread.wait(receipt).result()
            while (frame := next(stream))["type"] != "MESSAGES_JOINED":
                continue
            joined = frames.of(frame)

    assert [frame["type"] for frame in shown] == ["thread_status", "INPUT_QUEUED"]
    assert contents(waiting) == [("later", "pending")]
    assert waiting[0]["data"]["metadata"]["queued"] is True
    assert contents(joined) == [("later", "completed")]
    assert joined[0]["message_id"] == waiting[0]["message_id"]


def test_what_is_read_of_a_thread_that_was_deleted_meanwhile_is_left_to_its_last_frame(
    on: Stage, thread: Thread
) -> None:
    on.ask(thread.submit("first"))
    with thread.stream(str(thread.state().result().cursor)) as stream:
        assert stream.next(0)
        on.ask(thread.queue_message("waits"))
        said = on.ask(thread.inject_message(role="user", content="said"))
        on.ask(thread.update_message(said.id, content="else"))
        shown = [frame for _ in range(3) if (frame := stream.next(0)) is not None]
        on.ask(on.runtime.delete_thread("t"))
        on.settle()
        frames = MessageFrames(thread, Wanted(), on.runtime.clock)
        with_journal = MessageFrames(thread, Wanted(journal=True), on.runtime.clock)

        assert [frame["type"] for frame in shown] == ["INPUT_QUEUED", "MESSAGE_ADDED", "MESSAGE_UPDATED"]
        assert [frames.of(frame) for frame in (shown[0], shown[2])] == [[], []]
        assert with_journal.of(shown[2]) == [shown[2]]
        while (last := stream.next(0)) is not None:
            end = last
        assert end["type"] == "thread_deleted"


def test_a_message_that_was_taken_back_or_deleted_is_said_to_be_gone(on: Stage, thread: Thread) -> None:
    on.ask(thread.submit("first"))
    receipt = on.ask(thread.queue_message("taken back"))
    said = on.ask(thread.inject_message(role="user", content="deleted"))
    head = str(thread.state().result().cursor)
    on.ask(thread.withdraw(receipt.input_id))
    on.ask(thread.delete_message(said.id))

    frames = made(on, thread, head)

    assert [(frame["type"], frame["eventType"]) for frame in frames] == [("event", "message_deleted")] * 2
    assert frames[-1]["data"] == {"message_id": said.id}


def test_an_updated_message_is_told_of_as_it_is_now(on: Stage, thread: Thread) -> None:
    said = on.ask(thread.inject_message(role="user", content="old"))
    head = str(thread.state().result().cursor)
    on.ask(thread.update_message(said.id, content="new"))

    assert contents(made(on, thread, head)) == [("new", "completed")]


def test_the_journal_is_shown_only_to_who_asks_each_frame_before_its_messages(on: Stage, thread: Thread) -> None:
    on.ask(thread.inject_message(role="user", content="hi"))

    assert [frame["type"] for frame in made(on, thread)] == ["message_data"]
    assert [frame["type"] for frame in made(on, thread, journal=True)] == [
        "THREAD_CREATED", "MESSAGE_ADDED", "message_data",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("frame", "wanted", "is_shown"),
    [
        ({"type": "message_chunk", "depth": 0}, Wanted(), True),
        ({"type": "message_chunk", "depth": 1}, Wanted(), False),
        ({"type": "message_chunk", "depth": 1}, Wanted(depth=1), True),
        ({"type": "message_restart", "depth": 2}, Wanted(depth=1), False),
        ({"type": "reasoning_chunk", "depth": 0}, Wanted(), False),
        ({"type": "reasoning_chunk", "depth": 0}, Wanted(reasoning=True), True),
        ({"type": "reasoning_chunk", "depth": 1}, Wanted(reasoning=True), False),
        ({"type": "message_chunk", "depth": "deep"}, Wanted(), True),
        ({"type": "step_started"}, Wanted(), True),
        ({"type": "thread_status", "status": {}}, Wanted(), True),
        ({"type": "closed"}, Wanted(), True),
        ({"type": "gap", "dropped": 3}, Wanted(), True),
    ],
)
def test_live_frames_are_as_they_are_or_not_there(
    on: Stage, thread: Thread, frame: dict[str, object], wanted: Wanted, is_shown: bool
) -> None:
    shown = MessageFrames(thread, wanted, on.runtime.clock).of(Frame(frame))

    assert shown == ([frame] if is_shown else [])
