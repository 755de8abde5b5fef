"""Tests hosting/sockets.py: a WebSocket's client cannot make the server keep more and more of it. Real sockets, by hand."""

from __future__ import annotations

import select
import socket
import struct
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.hosting.served import Served
from treadle.actors import Runtime
from treadle.agents import ThreadState, agent
from treadle.hosting import sockets
from treadle.hosting.sockets import FRAGMENTS_MAX, Socket
from treadle.storage import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator

GUARD_S = 60.0
HANDSHAKE = (
    b"GET /threads/t/stream HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
TEXT, CONT, PING = 1, 0, 9


def frame(kind: int, data: bytes = b"", *, last: bool = True) -> bytes:
    assert len(data) < 126
    # Masked with zeros, which change nothing.
    return bytes([(0x80 if last else 0) | kind, 0x80 | len(data)]) + b"\0\0\0\0" + data


@agent
async def rests(state: ThreadState) -> None:
    pass


@pytest.fixture
def runtime() -> Iterator[Runtime]:
    with Runtime(MemoryStore(), agents=[rests]) as opened:
        opened.create_thread("rests", thread_id="t").result()
        yield opened


@pytest.fixture
def client(served: Served) -> Iterator[socket.socket]:
    with socket.socket() as made:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        made.settimeout(GUARD_S)
        made.connect(("127.0.0.1", served.port))
        made.sendall(HANDSHAKE)
        assert made.recv(12, socket.MSG_WAITALL) == b"HTTP/1.1 101"
        yield made


def rest(client: socket.socket) -> bytes:
    received = b""
    while chunk := client.recv(65_536):
        received += chunk
    return received


def test_a_message_of_some_fragments_is_one(client: socket.socket) -> None:
    client.sendall(frame(TEXT, b"pi", last=False) + frame(CONT, last=False) * (FRAGMENTS_MAX - 2) + frame(CONT, b"ng"))
    received = b""
    while not received.endswith(b"\x81\x04pong"):
        received += client.recv(65_536)


@pytest.mark.parametrize(("sent", "pong"), [(frame(PING), b"\x8a\x00"), (frame(TEXT, b"ping"), b"\x81\x04pong")])
def test_a_crowd_of_frames_is_taken_in_turns_and_each_is_answered(
    client: socket.socket, monkeypatch: pytest.MonkeyPatch, sent: bytes, pong: bytes
) -> None:
    turns: list[int] = []
    take = Socket._take

    def counted(self: Socket) -> None:
        turns.append(min(len(self._rest), sockets._TURN_BYTES))
        take(self)

    monkeypatch.setattr(Socket, "_take", counted)
    client.sendall(sent * 5_000)
    received = b""
    while received.count(pong) < 5_000:
        received += client.recv(65_536)

    assert sum(turns) == len(sent) * 5_000
    assert len(turns) >= sum(turns) // sockets._TURN_BYTES
    client.sendall(frame(TEXT, b"stream_ping"))
    while not received.endswith(b"stream_pong"):
        received += client.recv(65_536)


def test_a_message_without_end_is_ended(served: Served, client: socket.socket) -> None:
    client.sendall(frame(TEXT, last=False) + frame(CONT, last=False) * 5_000)
    said = rest(client)

    assert said.endswith(b"fragments at most")
    assert struct.pack("!H", 1009) in said[-40:]
    assert httpx.get(f"{served.url}/healthz", timeout=GUARD_S).status_code == 200


@pytest.mark.slow
def test_a_client_that_pings_and_reads_nothing_is_read_no_further(served: Served, client: socket.socket) -> None:
    pings = memoryview(frame(PING, b"x" * 125) * 1_000)
    client.setblocking(False)
    sent = 0
    while select.select([], [client], [], 1)[1]:
        # What was cut off goes on where it was.
        sent += client.send(pings[sent % len(pings) :])
        assert sent < 64 << 20, "the server answers for ever"

    assert httpx.get(f"{served.url}/healthz", timeout=GUARD_S).status_code == 200


@pytest.mark.slow
def test_a_crowd_of_pings_from_a_client_that_is_gone_is_not_answered_one_by_one(
    served: Served, client: socket.socket, caplog: pytest.LogCaptureFixture
) -> None:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # closing it is a reset
    client.sendall(frame(TEXT, b"ping") * 20_000)
    client.close()

    assert httpx.get(f"{served.url}/healthz", timeout=GUARD_S).status_code == 200
    served.end(closing=False)
    assert sum("socket.send() raised" in record.getMessage() for record in caplog.records) < 100
