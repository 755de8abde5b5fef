"""Tests hosting/targets.py behind a real server: a request may name its target by a URL, whose host is the one that counts."""

from __future__ import annotations

import base64
import json
import os
import socket
import sys
from typing import TYPE_CHECKING

import pytest

from tests.hosting.served import Served
from tests.hosting.watching import GUARD_S
from treadle.actors import Runtime
from treadle.agents import ThreadState, agent
from treadle.storage import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator

KEY = base64.b64encode(os.urandom(16)).decode()
UPGRADE = f"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {KEY}\r\n"


@agent
async def rests(state: ThreadState) -> None:
    pass


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with Runtime(MemoryStore(), agents=[rests]) as runtime, Served(runtime) as served:
        runtime.create_thread("rests", thread_id="a/b").result()
        yield served


def asked(served: Served, line: str, headers: str = "Host: localhost\r\n", body: str = "") -> tuple[int, str]:
    """Return the status and the body of an answer."""
    with socket.create_connection(("127.0.0.1", served.port), GUARD_S) as client:
        client.sendall(f"{line}\r\n{headers}\r\n{body}".encode("latin-1"))
        received = b""
        while b"\r\n\r\n" not in received and (chunk := client.recv(65_536)):
            received += chunk
        head, _, rest = received.partition(b"\r\n\r\n")
        lengths = [part for part in head.lower().split(b"\r\n") if part.startswith(b"content-length:")]
        # Without a length an answer ends with its connection, but for a handshake's.
        switched = head.split()[1] == b"101"
        length = int(lengths[0].split(b":")[1]) if lengths else 0 if switched else sys.maxsize
        while len(rest) < length and (chunk := client.recv(65_536)):
            rest += chunk
    return int(head.split()[1]), rest[:length].decode()


@pytest.mark.parametrize(
    "target",
    [
        "http://localhost/threads/a%2Fb",
        "http://localhost:9/threads/a%2Fb",
        "HTTP://LOCALHOST/threads/a%2Fb",
        "https://127.0.0.1/threads/a%2fb",
        "http://[::1]:1/threads/a%2Fb",
    ],
)
def test_a_url_is_a_target(served: Served, target: str) -> None:
    status, body = asked(served, f"GET {target} HTTP/1.1")

    assert (status, json.loads(body)["id"]) == (200, "a/b")


def test_a_url_without_a_path_is_the_root_and_keeps_its_query(served: Served) -> None:
    assert asked(served, "GET http://localhost HTTP/1.1")[0] == 200
    status, body = asked(served, "GET http://localhost/threads?limit=0 HTTP/1.1")
    assert (status, json.loads(body)["code"]) == (400, "invalid_page")


def test_the_host_of_the_url_is_the_one_that_counts(served: Served) -> None:
    foreign = asked(served, "GET http://evil.example/threads HTTP/1.1", "Host: localhost\r\n")
    ours = asked(served, "GET http://localhost/threads HTTP/1.1", "Host: evil.example\r\n")

    assert (foreign[0], json.loads(foreign[1])["code"]) == (421, "host_not_allowed")
    assert ours[0] == 200


def test_the_host_of_the_url_is_what_an_origin_is_compared_with(served: Served) -> None:
    headers = "Host: evil.example\r\nOrigin: http://{}\r\nContent-Type: application/json\r\nContent-Length: 21\r\n"
    line, body = "POST http://localhost/threads HTTP/1.1", '{"agent_id": "rests"}'

    assert asked(served, line, headers.format("localhost"), body)[0] == 201
    status, said = asked(served, line, headers.format("evil.example"), body)
    assert (status, json.loads(said)["code"]) == (403, "origin_not_allowed")


@pytest.mark.parametrize("headers", ["", "Host: localhost\r\nHost: localhost\r\n"])
def test_a_url_is_no_excuse_for_a_host_that_is_missing_or_said_twice(served: Served, headers: str) -> None:
    status, body = asked(served, "GET http://localhost/threads HTTP/1.1", headers)

    assert (status, json.loads(body)["code"]) == (400, "invalid_request")


@pytest.mark.parametrize(
    "line",
    [
        "OPTIONS * HTTP/1.1",
        "CONNECT localhost:80 HTTP/1.1",
        "GET threads HTTP/1.1",
        "GET localhost/threads HTTP/1.1",
        "GET ftp://localhost/threads HTTP/1.1",
        "GET http:///threads HTTP/1.1",
        "GET http:/threads HTTP/1.1",
        "GET http://user@localhost/threads HTTP/1.1",
        "GET http://localhost%2F/threads HTTP/1.1",
        "GET http://localhost\\@evil.example/threads HTTP/1.1",
        "GET http://localhost:x/threads HTTP/1.1",
        "GET http://localhost#/threads HTTP/1.1",
    ],
)
def test_any_other_target_is_refused(served: Served, line: str) -> None:
    status, body = asked(served, line)

    assert (status, json.loads(body)["code"]) == (400, "invalid_request")


def test_a_path_is_never_taken_for_a_url(served: Served) -> None:
    status, body = asked(served, "GET //localhost/threads HTTP/1.1")

    assert (status, json.loads(body)["code"]) == (404, "route_not_found")


def test_a_websocket_is_opened_by_a_url_too(served: Served) -> None:
    opened = asked(served, "GET http://localhost/threads/a%2Fb/stream HTTP/1.1", f"Host: localhost\r\n{UPGRADE}")
    foreign = asked(served, "GET http://evil.example/threads/a%2Fb/stream HTTP/1.1", f"Host: localhost\r\n{UPGRADE}")

    assert opened[0] == 101
    assert (foreign[0], json.loads(foreign[1])["code"]) == (421, "host_not_allowed")


def test_a_ticket_for_a_path_opens_the_url_of_that_path(served: Served) -> None:
    body = json.dumps({"path": "/threads/a%2Fb/stream"})
    head = f"Host: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    ticket = json.loads(asked(served, "POST /tickets HTTP/1.1", head, body)[1])["ticket"]
    line = f"GET http://localhost/threads/a%2Fb/stream?ticket={ticket} HTTP/1.1"

    assert [asked(served, line, f"Host: localhost\r\n{UPGRADE}")[0] for _ in range(2)] == [101, 401]
