"""Holds treadle.hosting.websocket: the message stream's frames, pings and close codes. Real sockets, a real client."""

from __future__ import annotations

import json
import socket
import threading
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from fastapi import FastAPI
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection

from tests.hosting.served import Served
from tests.hosting.watching import Watching, connect
from treadle.actors import Runtime, Thread
from treadle.agents import ThreadState, agent
from treadle.hosting.auth import Auth, Principal
from treadle.hosting.hosted import Limits
from treadle.storage import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator

AUTH = Auth({"for-anna": Principal("user", "anna"), "for-bo": Principal("user", "bo"), "for-all": Principal("admin")})
GUARD_S = 60.0


@agent
async def echo(state: ThreadState) -> None:
    for message in state.execution.new_messages:
        await state.inject_message(role="assistant", content=f"heard: {message.content}")


@pytest.fixture
def runtime() -> Iterator[Runtime]:
    with Runtime(MemoryStore(), agents=[echo]) as runtime:
        yield runtime


@pytest.fixture
def thread(runtime: Runtime) -> Thread:
    return runtime.create_thread(echo, thread_id="t").result()


def receive(client: ClientConnection) -> dict[str, Any]:
    frame = json.loads(client.recv(GUARD_S))
    assert isinstance(frame, dict)
    return frame


def until(client: ClientConnection, kind: str) -> dict[str, Any]:
    while (frame := receive(client))["type"] != kind:
        continue
    return frame


def drain(client: ClientConnection) -> None:
    while True:
        client.recv(GUARD_S)


def send_for_ever(client: socket.socket, data: bytes) -> None:
    while True:
        client.sendall(data)


def end_of(client: ClientConnection) -> tuple[int, str]:
    with pytest.raises(ConnectionClosed) as caught:
        drain(client)
    assert caught.value.rcvd is not None
    return caught.value.rcvd.code, caught.value.rcvd.reason


def refusal(address: str, **headers: str) -> tuple[int, dict[str, Any]]:
    with pytest.raises(InvalidStatus) as caught:
        connect(address, additional_headers=headers).close()
    return caught.value.response.status_code, json.loads(caught.value.response.body)


def test_the_first_frame_holds_all_that_a_client_needs_and_each_change_of_status_follows(
    served: Served, thread: Thread
) -> None:
    with connect(f"{served.ws}/threads/t/stream") as client:
        first = receive(client)
        thread.wait(thread.submit("hi").result()).result()
        frames = [receive(client) for _ in range(4)]

    assert set(first) == {
        "type", "status", "cursor", "active_execution", "pending_requests", "held", "boot_id",
    }  # fmt: skip
    assert [frame["type"] for frame in frames] == ["message_data", "thread_status", "message_data", "thread_status"]
    assert [frame["status"]["state"] for frame in frames[1::2]] == ["running", "idle"]
    assert all(set(frame) == {"type", "status"} for frame in frames[1::2])
    history = thread.messages().result().messages
    assert [frame["data"] for frame in frames[::2]] == [message.model_dump(mode="json") for message in history]
    assert set(frames[0]) == {"type", "message_id", "depth", "data"}


def test_a_client_that_asks_for_the_journal_resumes_by_cursor(served: Served, thread: Thread) -> None:
    thread.wait(thread.submit("hi").result()).result()
    head = thread.state().result().cursor

    with connect(f"{served.ws}/threads/t/stream?after=1:1") as client:
        assert receive(client)["cursor"] == str(head)
        committed = []
        while len(committed) < head.sequence - 1:
            frame = receive(client)
            if "cursor" in frame:
                committed.append(frame["cursor"])

    assert committed == [f"1:{n}" for n in range(2, head.sequence + 1)]


def test_pings_are_answered(served: Served, thread: Thread) -> None:
    with connect(f"{served.ws}/threads/t/stream") as client:
        receive(client)
        client.send("ping")
        client.send("stream_ping")

        assert [client.recv(GUARD_S), client.recv(GUARD_S)] == ["pong", "stream_pong"]


@pytest.mark.parametrize("garbage", ["", "Ping", "{}", '{"type": "ping"}', "\0", "p" * 60_000, b"ping", b"\xff\0"])
def test_anything_else_that_a_client_sends_ends_the_connection(
    served: Served, thread: Thread, garbage: str | bytes
) -> None:
    with connect(f"{served.ws}/threads/t/stream") as client:
        receive(client)
        client.send(garbage)

        assert end_of(client) == (1003, "only ping and stream_ping are understood")
    assert thread.state().result().cursor.sequence == 1


def test_a_message_over_the_limit_ends_the_connection(served: Served, thread: Thread) -> None:
    with connect(f"{served.ws}/threads/t/stream") as client:
        receive(client)
        client.send("p" * 200_000)

        assert end_of(client)[0] == 1009


def test_events_of_values_and_of_callers_have_the_form_of_this_stream(served: Served, thread: Thread) -> None:
    with connect(f"{served.ws}/threads/t/stream") as client:
        receive(client)
        thread.set_value("k", 1).result()
        changed = receive(client)
        thread.emit("mine", {"n": 1})
        mine = receive(client)

    data = changed.pop("data")
    assert changed == {"type": "event", "eventType": "kv_changed", "timestamp": data["updated_at"] // 1000}
    assert (data["key"], data["deleted"]) == ("k", False)
    assert type(mine.pop("timestamp")) is int
    assert mine == {"type": "event", "eventType": "mine", "data": {"n": 1}}


def test_silent_messages_are_sent_only_where_they_are_asked_for(served: Served, thread: Thread) -> None:
    with (
        connect(f"{served.ws}/threads/t/stream") as plain,
        connect(f"{served.ws}/threads/t/stream?includeSilent=true") as all_of_it,
        connect(f"{served.ws}/threads/t/stream?include_silent=1") as in_our_words,
    ):
        for client in (plain, all_of_it, in_our_words):
            receive(client)
        thread.inject_message(role="user", content="aside", silent=True).result()
        thread.inject_message(role="user", content="aloud").result()

        assert receive(plain)["data"]["content"] == "aloud"
        assert receive(all_of_it)["data"]["content"] == "aside"
        assert receive(in_our_words)["data"]["silent"] is True


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/threads/nobody/stream", 404, "thread_not_found"),
        ("/threads/t/stream?after=1:99", 409, "cursor_conflict"),
        ("/threads/t/stream?after=x", 400, "invalid_cursor"),
        ("/threads/t/stream?depth=-1", 400, "invalid_request"),
        ("/threads/t/stream?depth=65", 400, "invalid_request"),
        ("/threads/t/stream?reasoning=perhaps", 400, "invalid_request"),
        ("/threads/t/stream?ticket=none", 401, "unauthenticated"),
    ],
)
def test_what_is_wrong_is_said_instead_of_a_handshake_and_is_no_error_of_ours(
    served: Served, thread: Thread, path: str, status: int, code: str, caplog: pytest.LogCaptureFixture
) -> None:
    answered, problem = refusal(served.ws + path)

    assert (answered, problem["code"]) == (status, code)
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []
    assert served.runtime._parts().hub.counts()["readers"] == 0


def test_a_request_that_asks_for_no_websocket_is_told_so(served: Served, thread: Thread) -> None:
    answer = httpx.get(f"{served.url}/threads/t/stream", timeout=GUARD_S)

    assert (answer.status_code, answer.json()["code"]) == (400, "upgrade_required")


def test_a_page_of_another_origin_opens_nothing(served: Served, thread: Thread) -> None:
    assert refusal(f"{served.ws}/threads/t/stream", origin="http://elsewhere.example")[0] == 403


def test_a_foreign_thread_is_none_and_without_a_token_there_is_nothing(runtime: Runtime) -> None:
    runtime.create_thread(echo, thread_id="of-bo", user_id="bo").result()
    with Served(runtime, auth=AUTH) as served:
        address = f"{served.ws}/threads/of-bo/stream"
        assert refusal(address, authorization="Bearer for-anna")[0] == 404
        assert refusal(address)[0] == 401
        assert refusal(address, authorization="Bearer for-nobody")[0] == 401
        with connect(address, additional_headers={"authorization": "Bearer for-bo"}) as client:
            assert receive(client)["type"] == "thread_status"


def test_a_ticket_opens_one_stream_once(runtime: Runtime) -> None:
    runtime.create_thread(echo, thread_id="a/b", user_id="anna").result()
    with Served(runtime, auth=AUTH) as served:

        def ticket(path: str, token: str) -> str:
            answer = httpx.post(
                f"{served.url}/tickets",
                json={"path": path},
                headers={"authorization": f"Bearer {token}"},
                timeout=GUARD_S,
            )
            assert (answer.status_code, answer.headers["cache-control"]) == (201, "no-store")
            assert answer.json()["expires_in"] == 30
            return str(answer.json()["ticket"])

        path = "/threads/a%2Fb/stream"
        address = f"{served.ws}{path}?ticket="
        given = ticket(path, "for-anna")
        with connect(address + given) as client:
            assert receive(client)["type"] == "thread_status"
        assert refusal(address + given)[0] == 401, "used"
        assert refusal(address + ticket("/threads/a/stream", "for-anna"))[0] == 401, "of another path"
        assert refusal(address + ticket(path, "for-bo"))[0] == 404, "of somebody else"


def test_a_stream_ends_with_its_thread(served: Served, thread: Thread) -> None:
    with connect(f"{served.ws}/threads/t/stream") as client:
        receive(client)
        served.runtime.delete_thread("t").result()

        assert until(client, "thread_deleted") == {"type": "thread_deleted"}
        assert end_of(client) == (1000, "thread_deleted")


def test_a_client_that_goes_is_forgotten_at_once(served: Served, thread: Thread) -> None:
    hub = served.runtime._parts().hub
    gone = threading.Event()
    detach = type(hub).detach

    with pytest.MonkeyPatch.context() as patch:
        with connect(f"{served.ws}/threads/t/stream") as client:
            receive(client)
            patch.setattr(type(hub), "detach", lambda self, watch: (detach(self, watch), gone.set()))
        assert gone.wait(GUARD_S)

    assert hub.counts()["readers"] == 0


@pytest.mark.slow
def test_a_client_that_pings_and_takes_nothing_is_dropped(runtime: Runtime, thread: Thread) -> None:
    """Its frames and its pongs stand in bounded buffers; then it is not read any more, then it is gone."""
    with Served(runtime, limits=Limits(write_seconds=0.2)) as served, socket.socket() as silent:
        silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        silent.connect(("127.0.0.1", served.port))
        silent.settimeout(GUARD_S)
        silent.sendall(
            (
                f"GET /threads/t/stream HTTP/1.1\r\nhost: 127.0.0.1:{served.port}\r\nupgrade: websocket\r\n"
                "connection: upgrade\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
            ).encode()
        )
        with silent.makefile("rb") as file:
            assert file.read(12) == b"HTTP/1.1 101"
        pings = b"\x81\x84\0\0\0\0ping" * 1000
        with pytest.raises(ConnectionError):
            send_for_ever(silent, pings)
        with connect(f"{served.ws}/threads/t/stream") as other:
            assert receive(other)["type"] == "thread_status"


def test_streams_and_tickets_work_in_an_app_that_is_mounted(runtime: Runtime, thread: Thread) -> None:
    def mounted(app: FastAPI) -> FastAPI:
        parent = FastAPI()
        parent.mount("/agents", app)
        return parent

    with Served(runtime, auth=AUTH, around=mounted) as served:
        header = {"authorization": "Bearer for-all"}
        with Watching(f"{served.url}/agents/threads/t/events", token="for-all") as watching:
            assert watching.next().name == "snapshot"
        path = "/agents/threads/t/stream"
        answer = httpx.post(f"{served.url}/agents/tickets", json={"path": path}, headers=header, timeout=GUARD_S)
        with connect(f"{served.ws}{path}?ticket={answer.json()['ticket']}") as client:
            assert receive(client)["type"] == "thread_status"


@pytest.mark.parametrize("path", ["/", "/nosuch", "/threads", "/threads/t/stream/"])
def test_a_websocket_to_an_address_without_one_is_told_so_by_a_problem_document(served: Served, path: str) -> None:
    with pytest.raises(InvalidStatus) as refused, connect(served.ws + path):
        pass
    assert refused.value.response.status_code == 404
    assert json.loads(refused.value.response.body)["code"] == "route_not_found"
