"""Holds treadle.hosting.listening: who is turned away while no file is left, and that it is said once."""

from __future__ import annotations

import resource
import socket
from contextlib import ExitStack
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.hosting.served import Served
from tests.hosting.watching import GUARD_S
from treadle.actors import Runtime
from treadle.hosting import listening as module
from treadle.hosting.listening import Listening
from treadle.storage import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator

ADDRESS = ("127.0.0.1", 0)


@pytest.fixture
def now() -> list[float]:
    return [0.0]


@pytest.fixture
def server(now: list[float]) -> Iterator[Listening]:
    with Listening(socket.AF_INET, socket.SOCK_STREAM, clock=lambda: now[0]) as server:
        server.bind(ADDRESS)
        server.listen(200)
        server.setblocking(False)
        yield server


def client(server: Listening) -> socket.socket:
    return socket.create_connection(server.getsockname(), GUARD_S)


def test_a_connection_that_would_take_one_of_the_last_files_is_closed_at_once(
    server: Listening, monkeypatch: pytest.MonkeyPatch
) -> None:
    with client(server) as first:
        monkeypatch.setattr(module, "_files", lambda: 0)
        with pytest.raises(BlockingIOError):
            server.accept()
        assert first.recv(1) == b""

    monkeypatch.undo()
    with client(server):
        taken, _ = server.accept()
        taken.close()


def test_a_crowd_that_is_turned_away_leaves_the_loop_to_others_and_is_logged_once_a_minute(
    server: Listening, now: list[float], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "_files", lambda: 0)
    with ExitStack() as stack:
        crowd = [stack.enter_context(client(server)) for _ in range(module._TURNED_AWAY_MAX + 1)]
        with pytest.raises(BlockingIOError):
            server.accept()
        assert crowd[-2].recv(1) == b""
        crowd[-1].setblocking(False)
        with pytest.raises(BlockingIOError):
            crowd[-1].recv(1)
        now[0] = 59.0
        with pytest.raises(BlockingIOError):
            server.accept()
        assert len(caplog.records) == 1
        now[0] = 60.0
        stack.enter_context(client(server))
        with pytest.raises(BlockingIOError):
            server.accept()
        assert len(caplog.records) == 2


def test_as_many_files_as_are_kept_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    for soft, files in ((1_024, 960), (100, 50), (resource.RLIM_INFINITY, float("inf"))):
        monkeypatch.setattr(resource, "getrlimit", lambda _, soft=soft: (soft, soft))
        assert module._files() == files


@pytest.mark.slow
def test_a_server_without_a_file_left_serves_whom_it_has_and_takes_others_later(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        Runtime(MemoryStore(), agents=[]) as runtime,
        Served(runtime) as served,
        httpx.Client(timeout=GUARD_S) as known,
    ):
        assert known.get(f"{served.url}/healthz").status_code == 200
        monkeypatch.setattr(module, "_files", lambda: 0)
        for _ in range(3):
            with socket.create_connection(("127.0.0.1", served.port), GUARD_S) as client:
                assert client.recv(1) == b""
        assert known.get(f"{served.url}/healthz").status_code == 200
        monkeypatch.undo()
        assert httpx.get(f"{served.url}/healthz", timeout=GUARD_S).status_code == 200

    assert [record.levelname for record in caplog.records if "files" in record.getMessage()] == ["WARNING"]
