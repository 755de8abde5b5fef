"""Holds treadle.hosting.heads: HEAD is answered where GET is, with the same head and no body, and ends where a stream would last."""

from __future__ import annotations

import socket
from queue import SimpleQueue
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.hosting.served import Served
from tests.hosting.watching import GUARD_S
from treadle.actors import Runtime
from treadle.agents import ThreadState, agent
from treadle.hosting.auth import Auth, Principal
from treadle.hosting.shares import Shares
from treadle.storage import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

AUTH = Auth({"all": Principal("admin"), "annas": Principal("user", "anna")})
ALL = {"authorization": "Bearer all"}


@agent
async def nothing(state: ThreadState) -> None:
    return


@pytest.fixture
def runtime() -> Iterator[Runtime]:
    with Runtime(MemoryStore(), agents=[nothing]) as runtime:
        runtime.create_thread(nothing, thread_id="t").result()
        yield runtime


@pytest.fixture
def client(runtime: Runtime) -> Iterator[httpx.Client]:
    with (
        Served(runtime, auth=AUTH) as served,
        httpx.Client(base_url=served.url, headers=ALL, timeout=GUARD_S) as client,
    ):
        yield client


@pytest.mark.parametrize(
    "path",
    ["/healthz", "/readyz", "/metrics", "/openapi.json", "/threads", "/threads/t", "/threads/t/messages", "/console/agents", "/"],
)  # fmt: skip
def test_a_head_is_that_of_the_answer_to_a_get(client: httpx.Client, path: str) -> None:
    shown, head = client.get(path), client.head(path)

    assert (head.status_code, head.content) == (200, b"")
    assert head.headers.keys() == shown.headers.keys()
    assert head.headers["content-type"] == shown.headers["content-type"]
    if path != "/metrics":  # which counts on
        assert head.headers["content-length"] == shown.headers["content-length"]


@pytest.mark.parametrize(
    ("path", "token", "status"),
    [
        ("/threads/none", "all", 404), ("/threads/none/events", "all", 404), ("/threads?x=1", "all", 400), ("/no", "all", 404),
        ("/threads", "nobodys", 401), ("/metrics", "annas", 403), ("/threads/t", "annas", 404), ("/threads/t/stream", "all", 400),
    ],
)  # fmt: skip
def test_a_head_is_refused_as_a_get_is(client: httpx.Client, path: str, token: str, status: int) -> None:
    answer = client.head(path, headers={"authorization": f"Bearer {token}"})

    assert (answer.status_code, answer.content) == (status, b"")


def test_a_head_changes_nothing_and_is_refused_where_only_others_are_taken(client: httpx.Client) -> None:
    answer = client.head("/threads/t/stop")

    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    assert client.get("/threads/t/state").json()["held"] is False


@pytest.mark.parametrize("path", ["/events", "/threads/t/events", "/threads/t/events?after=1:0&live=true"])
def test_the_head_of_a_stream_ends_and_leaves_no_stream_open(
    client: httpx.Client, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: SimpleQueue[int] = SimpleQueue()
    give = Shares.give

    def given(shares: Shares, who: Hashable, amount: int = 1) -> None:
        give(shares, who, amount)
        ended.put(shares.held)

    monkeypatch.setattr(Shares, "give", given)
    for _ in range(3):
        answer = client.head(path)
        assert (answer.status_code, answer.content) == (200, b"")
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert ended.get(timeout=GUARD_S) == 0


def test_a_request_behind_a_head_is_answered_on_its_connection(client: httpx.Client) -> None:
    asked = b"%s HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer all\r\n%s\r\n"
    with socket.create_connection((client.base_url.host, client.base_url.port or 0), GUARD_S) as raw:
        raw.sendall(asked % (b"HEAD /threads/t/events", b"") + asked % (b"GET /healthz", b"connection: close\r\n"))
        received = b"".join(iter(lambda: raw.recv(65_536), b""))

    first, _, second = received.partition(b"\r\n\r\n")
    assert b"text/event-stream" in first
    assert second.startswith(b"HTTP/1.1 200 OK\r\n")
    assert second.endswith(b'{"status":"ok"}')
