"""Holds treadle.hosting.sse: resumable, each event once, whatever is cut, sent or left unread. Real sockets, real clients."""

from __future__ import annotations

import logging
import socket
import threading
from typing import TYPE_CHECKING

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.hosting.served import Served
from tests.hosting.watching import GUARD_S, Watching
from treadle.actors import Runtime, Thread
from treadle.agents import ThreadState, agent
from treadle.hosting.auth import Auth, Principal
from treadle.hosting.hosted import Limits
from treadle.hosting.sse import sse_event
from treadle.protocol.frames import Frame
from treadle.storage import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator

AUTH = Auth({"for-anna": Principal("user", "anna"), "for-all": Principal("admin")})


@agent
async def echo(state: ThreadState) -> None:
    for message in state.execution.new_messages:
        await state.inject_message(role="assistant", content=f"heard: {message.content}")
    await state.set_value("heard", True)
    state.emit("heard", {"so": "far"})


@pytest.fixture
def runtime() -> Iterator[Runtime]:
    with Runtime(MemoryStore(), agents=[echo]) as runtime:
        yield runtime


@pytest.fixture
def thread(runtime: Runtime) -> Thread:
    return runtime.create_thread(echo, thread_id="t").result()


def say(thread: Thread, count: int) -> None:
    for number in range(count):
        thread.inject_message(role="user", content=f"message {number}").result()


def journal(thread: Thread) -> list[str]:
    """Return the texts of all committed events, in order."""
    head = thread.state().result().cursor
    with thread.events() as events:
        return [next(events).event.type for _ in range(head.sequence)]


def test_a_stream_begins_with_a_snapshot_without_an_id_and_then_has_the_journal(served: Served, thread: Thread) -> None:
    thread.wait(thread.submit("hi").result()).result()

    with Watching(f"{served.url}/threads/t/events") as watching:
        first = watching.next()
        events = watching.committed(len(journal(thread)))

    assert (first.name, first.id) == ("snapshot", None)
    assert first.data["type"] == "thread_status"
    assert first.data["boot_id"] == served.runtime.boot_id
    assert [event.name for event in events] == journal(thread)
    assert [event.id for event in events] == [f"1:{n}" for n in range(1, len(events) + 1)]
    assert all(event.id == event.data["cursor"] and event.name == event.data["type"] for event in events)
    assert watching.response.headers["content-type"].startswith("text/event-stream")
    assert watching.response.headers["cache-control"] == "no-cache"


@pytest.mark.slow
def test_reconnecting_after_each_kind_of_frame_gives_the_journal(runtime: Runtime, thread: Thread) -> None:
    """Scenario 24: heartbeats, status and live frames move no cursor; the connections together are the journal."""
    kinds = {
        "snapshot", "heartbeat", "thread_status", "event", "THREAD_CREATED", "THREAD_EXECUTION_STARTED", "MESSAGE_ADDED",
        "VALUE_CHANGED", "THREAD_EXECUTION_FINISHED",
    }  # fmt: skip
    cut_after: set[str] = set()
    ids: list[str] = []
    with Served(runtime, limits=Limits(heartbeat_seconds=0.01)) as served:
        while cut_after != kinds:
            after = ids[-1] if ids else ""
            with Watching(f"{served.url}/threads/t/events?live=true&after={after}") as watching:
                is_told = False
                for block in watching:
                    if block.id is not None:
                        ids.append(block.id)
                    if block.name not in cut_after:
                        cut_after.add(block.name)
                        break
                    if not is_told:
                        is_told = True
                        thread.wait(thread.submit("go on").result()).result()
        head = thread.state().result().cursor
        with Watching(f"{served.url}/threads/t/events", **{"last-event-id": ids[-1]}) as watching:
            ids += [str(block.id) for block in watching.committed(head.sequence - len(ids))]

    assert ids == [f"1:{n}" for n in range(1, head.sequence + 1)]


def test_who_was_away_for_a_thousand_events_gets_these_and_then_what_happens(served: Served, thread: Thread) -> None:
    """Scenario 25: exactly the gap, then live."""
    with Watching(f"{served.url}/threads/t/events") as watching:
        seen = watching.committed(1)[-1].id
    say(thread, 1000)

    with Watching(f"{served.url}/threads/t/events", **{"last-event-id": str(seen)}) as watching:
        gap = watching.committed(1000)
        thread.inject_message(role="user", content="here again").result()
        live = watching.committed(1)[0]

    assert [event.data["message"]["content"] for event in gap] == [f"message {n}" for n in range(1000)]
    assert (live.id, live.data["message"]["content"]) == ("1:1002", "here again")


@pytest.mark.slow
def test_a_thousand_events_across_fifty_cut_connections_come_once_each(served: Served, thread: Thread) -> None:
    writer = threading.Thread(target=say, args=(thread, 1000), daemon=True)
    writer.start()
    events, connections = [], 0
    while len(events) < 1001:
        after = f"?after={events[-1].id}" if events else ""
        with Watching(f"{served.url}/threads/t/events{after}") as watching:
            events += watching.committed(min(20, 1001 - len(events)))
        connections += 1
    writer.join()

    assert connections == 51
    assert [event.id for event in events] == [f"1:{n}" for n in range(1, 1002)]
    assert [event.data["message"]["content"] for event in events[1:]] == [f"message {n}" for n in range(1000)]


def test_the_cursor_in_the_address_wins_over_the_header_and_a_blank_one_is_the_beginning(
    served: Served, thread: Thread
) -> None:
    say(thread, 5)

    with Watching(f"{served.url}/threads/t/events?after=1:3", **{"last-event-id": "1:5"}) as watching:
        assert [event.id for event in watching.committed(3)] == ["1:4", "1:5", "1:6"]
    with Watching(f"{served.url}/threads/t/events?after=", **{"last-event-id": "1:5"}) as watching:
        assert [event.id for event in watching.committed(1)] == ["1:1"]
    with Watching(f"{served.url}/threads/t/events", **{"last-event-id": "1:5"}) as watching:
        assert [event.id for event in watching.committed(1)] == ["1:6"]


def test_live_frames_come_only_where_they_are_asked_for_and_have_no_id(served: Served, thread: Thread) -> None:
    with (
        Watching(f"{served.url}/threads/t/events?after=1:1") as committed,
        Watching(f"{served.url}/threads/t/events?after=1:1&live=1") as with_live,
    ):
        assert (committed.next().name, with_live.next().name) == ("snapshot", "snapshot")
        thread.emit("mine", {"n": 1})
        say(thread, 1)

        assert committed.next().name == "MESSAGE_ADDED"
        live = with_live.next()
        assert (live.name, live.id, live.data) == ("event", None, {"type": "event", "event": "mine", "data": {"n": 1}})


def test_heartbeats_come_however_much_there_is_that_is_not_shown(runtime: Runtime, thread: Thread) -> None:
    seen = threading.Event()

    def chatter() -> None:
        while not seen.is_set():
            thread.emit("chunk", "x")

    writer = threading.Thread(target=chatter, daemon=True)
    with Served(runtime, limits=Limits(heartbeat_seconds=0.05)) as served:
        try:
            with Watching(f"{served.url}/threads/t/events?after=1:1") as watching:
                watching.next("snapshot")
                writer.start()
                assert [watching.next().name for _ in range(2)] == ["heartbeat", "heartbeat"]
        finally:
            seen.set()
            writer.join()


def test_a_status_follows_every_change_without_an_id(served: Served, thread: Thread) -> None:
    with Watching(f"{served.url}/threads/t/events?after=1:1") as watching:
        watching.next("snapshot")
        thread.submit("hi").result()
        states = [watching.next("thread_status") for _ in range(2)]

    assert [(block.id, block.data["status"]["state"]) for block in states] == [(None, "running"), (None, "idle")]


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/threads/nobody/events", 404, "thread_not_found"),
        ("/threads/t/events?after=1:99", 409, "cursor_conflict"),
        ("/threads/t/events?after=2:0", 409, "cursor_conflict"),
        ("/threads/t/events?after=1", 400, "invalid_cursor"),
        ("/threads/t/events?after=-1:5", 400, "invalid_cursor"),
        ("/threads/t/events?live=perhaps", 400, "invalid_request"),
        ("/threads/" + "x" * 129 + "/events", 400, "invalid_id"),
    ],
)
def test_what_is_wrong_is_said_before_the_stream_begins(
    served: Served, thread: Thread, path: str, status: int, code: str
) -> None:
    answer = httpx.get(served.url + path, timeout=GUARD_S)

    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert answer.headers["content-type"] == "application/problem+json"
    assert served.runtime._parts().hub.counts()["readers"] == 0


def test_a_foreign_thread_is_none(runtime: Runtime) -> None:
    runtime.create_thread(echo, thread_id="of-bo", user_id="bo").result()
    with Served(runtime, auth=AUTH) as served:
        foreign = httpx.get(
            f"{served.url}/threads/of-bo/events", headers={"authorization": "Bearer for-anna"}, timeout=GUARD_S
        )
        unknown = httpx.get(
            f"{served.url}/threads/of-cy/events", headers={"authorization": "Bearer for-anna"}, timeout=GUARD_S
        )
        without = httpx.get(f"{served.url}/threads/of-bo/events", timeout=GUARD_S)
        with Watching(f"{served.url}/threads/of-bo/events", token="for-all") as watching:
            assert watching.next().name == "snapshot"

    assert (foreign.status_code, without.status_code) == (404, 401)
    assert foreign.text == unknown.text.replace("of-cy", "of-bo")


def test_the_stream_of_a_deleted_thread_ends_with_saying_so(served: Served, thread: Thread) -> None:
    with Watching(f"{served.url}/threads/t/events") as watching:
        watching.committed(1)
        served.runtime.delete_thread("t").result()
        blocks = list(watching)

    assert (blocks[-1].name, blocks[-1].id) == ("thread_deleted", None)


def test_a_client_that_goes_is_forgotten_at_once(served: Served, thread: Thread) -> None:
    hub = served.runtime._parts().hub
    gone = threading.Event()
    detach = type(hub).detach

    with Watching(f"{served.url}/threads/t/events") as watching, pytest.MonkeyPatch.context() as patch:
        watching.committed(1)
        patch.setattr(type(hub), "detach", lambda self, watch: (detach(self, watch), gone.set()))
        watching.response.close()
        assert gone.wait(GUARD_S)

    assert hub.counts()["readers"] == 0


@pytest.mark.slow
def test_a_client_that_takes_nothing_is_dropped_and_holds_nobody_up(
    runtime: Runtime, thread: Thread, caplog: pytest.LogCaptureFixture
) -> None:
    dropped = threading.Event()
    buffered: list[int] = []

    class Noticing(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "is dropped" in record.getMessage():
                connections = served._server.server_state.connections
                buffered.extend(one.transport.get_write_buffer_size() for one in connections)
                dropped.set()

    caplog.set_level(logging.INFO, "treadle")
    noticing = Noticing()
    logging.getLogger("treadle").addHandler(noticing)
    try:
        with Served(runtime, limits=Limits(write_seconds=0.5)) as served:
            with socket.socket() as silent:
                silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                silent.connect(("127.0.0.1", served.port))
                silent.sendall(f"GET /threads/t/events HTTP/1.1\r\nhost: 127.0.0.1:{served.port}\r\n\r\n".encode())
                with Watching(f"{served.url}/threads/t/events") as watching:
                    assert watching.committed(1)[0].id == "1:1"
                    for number in range(2, 302):
                        thread.inject_message(role="user", content="x" * 30_000).result()
                        # At once, or a busy machine would make a silent client of this one.
                        assert watching.committed(1)[0].id == f"1:{number}"
                assert dropped.wait(GUARD_S)
                # Up to the mark, then one batch, whose last frame may lie beyond; of 9 MB.
                assert 0 < max(buffered) < 3 * 65536
    finally:
        logging.getLogger("treadle").removeHandler(noticing)


@settings(max_examples=60)
@given(st.text(), st.one_of(st.none(), st.text(max_size=200)))
def test_no_text_in_a_frame_can_make_another_event_or_an_id(text: str, kind: str | None) -> None:
    frame = Frame(type=kind, text=text)
    lines = sse_event(frame).decode().split("\n")

    assert lines[-2:] == ["", ""]
    assert [line.partition(":")[0] for line in lines[:-2]] in (["data"], ["event", "data"])
    assert "\r" not in "".join(lines)
