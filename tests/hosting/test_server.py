"""Holds treadle.hosting.server: real processes, real sockets, real signals (scenarios 18 and 27)."""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import signal
import socket
import threading
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.hosting.service import INTERVAL, STUBBORN, WAITING, Service
from tests.hosting.watching import Watching, connect
from treadle.actors import Runtime
from treadle.agents import ThreadState, agent
from treadle.hosting import server as module
from treadle.hosting.app import create_app
from treadle.hosting.auth import Auth, Principal
from treadle.protocol.errors import InvalidInput
from treadle.storage import LmdbStore, MemoryStore
from treadle.storage.faults import FaultyStore

if TYPE_CHECKING:
    from pathlib import Path

GUARD = 60


@agent(name="rests")
async def rests(state: ThreadState) -> None:
    pass


@agent(name=WAITING)
async def waits(state: ThreadState) -> None:
    pass


@agent(name=STUBBORN)
def stubborn(state: ThreadState) -> None:
    pass


def post(service: Service, path: str, body: Any) -> httpx.Response:
    return httpx.post(service.url + path, json=body, timeout=GUARD)


def begin(service: Service, name: str, thread_id: str) -> str:
    """Have an execution run on a new thread, and return its id once its body has begun."""
    assert post(service, "/threads", {"agent_id": name, "thread_id": thread_id}).status_code == 201
    with Watching(f"{service.url}/threads/{thread_id}/events") as watching:
        watching.next("snapshot")
        answer = post(service, f"/threads/{thread_id}/inputs", {"type": "USER_MESSAGES_INPUT", "messages": "go"})
        assert answer.status_code == 202, answer.text
        watching.next("VALUE_CHANGED")
    execution_id: str = answer.json()["execution_id"]
    return execution_id


def ends(data: Path, executions: dict[str, str]) -> dict[str, tuple[str, str | None]]:
    """Return how each execution stands in the store: status and reason, as the next open reads them."""
    found = {}
    with Runtime(LmdbStore(data), agents=[waits, stubborn]) as runtime:
        for thread_id, execution_id in executions.items():
            record = runtime.thread(thread_id).execution(execution_id).result(GUARD)
            found[thread_id] = (record.status, record.error.type if record.error else None)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_with_ten_executions_running_ends_each_durably_and_exits_with_0(tmp_path: Path, number: int) -> None:
    with Service(tmp_path / "store", drain=0.2) as service:
        agents = [STUBBORN if rank % 5 == 0 else WAITING for rank in range(10)]
        running = {f"t{rank}": begin(service, name, f"t{rank}") for rank, name in enumerate(agents)}
        service.signal(number)

        assert service.ended() == 0

    assert {status for status, _ in ends(tmp_path / "store", running).values()} == {"cancelled"}


@pytest.mark.slow
def test_a_signal_with_twenty_open_streams_sends_their_last_frames_and_exits_with_0(tmp_path: Path) -> None:
    ready = threading.Barrier(21)

    def follow(service: Service, rank: int) -> list[str]:
        thread_id = f"t{rank % 2}"
        if rank % 2:
            with Watching(f"{service.url}/threads/{thread_id}/events") as watching:
                watching.next("snapshot")
                ready.wait(GUARD)
                return [block.name for block in watching if block.name != "heartbeat"]
        url = service.url.replace("http", "ws") + f"/threads/{thread_id}/stream?journal=true"
        with connect(url) as client:
            client.recv(GUARD)
            ready.wait(GUARD)
            return [json.loads(text)["type"] for text in client]

    with Service(tmp_path / "store", drain=0.2) as service, concurrent.futures.ThreadPoolExecutor(20) as pool:
        running = {thread_id: begin(service, WAITING, thread_id) for thread_id in ("t0", "t1")}
        following = [pool.submit(follow, service, rank) for rank in range(20)]
        ready.wait(GUARD)
        service.signal(signal.SIGTERM)
        frames = [one.result(GUARD) for one in following]

        assert service.ended() == 0

    assert {names[-1] for names in frames} == {"closed"}
    assert all("THREAD_EXECUTION_FINISHED" in names for names in frames), frames
    assert {status for status, _ in ends(tmp_path / "store", running).values()} == {"cancelled"}


@pytest.mark.slow
def test_clients_that_read_nothing_and_half_a_request_keep_no_service_from_ending(tmp_path: Path) -> None:
    with Service(tmp_path / "store", drain=0.2) as service:
        begin(service, WAITING, "t")
        for rank in range(40):
            body = {"content": "x" * 500_000, "input_id": f"m{rank}"}
            assert post(service, "/threads/t/messages", body).status_code == 202
        port = int(service.url.rpartition(":")[2])
        with contextlib.ExitStack() as open_:
            for request in ("GET /threads/t/events HTTP/1.1\r\nHost: localhost\r\n\r\n", "GET /thr", ""):
                for _ in range(5):
                    client = open_.enter_context(socket.create_connection(("127.0.0.1", port), GUARD))
                    client.sendall(request.encode())
            httpx.get(f"{service.url}/healthz", timeout=GUARD)
            service.signal(signal.SIGTERM)

            assert service.ended() == 0


@pytest.mark.slow
def test_while_it_drains_the_server_answers_and_takes_no_new_work_and_a_second_signal_ends_it_at_once(
    tmp_path: Path,
) -> None:
    with Service(tmp_path / "store", drain=3_600) as service:
        execution_id = begin(service, WAITING, "t")
        service.signal(signal.SIGTERM)
        while httpx.get(f"{service.url}/readyz", timeout=GUARD).status_code == 200:
            pass
        refused = post(
            service, "/threads/t/inputs", {"type": "USER_MESSAGES_INPUT", "messages": "more", "on_busy": "queue"}
        )
        assert (refused.status_code, refused.json()["code"]) == (503, "runtime_closed")
        assert httpx.get(f"{service.url}/readyz", timeout=GUARD).json()["reasons"] == ["runtime_closed"]
        assert httpx.get(f"{service.url}/healthz", timeout=GUARD).status_code == 200
        service.signal(signal.SIGTERM)

        assert service.ended() == 128 + signal.SIGTERM

    # As after any death: the next open settles it.
    assert ends(tmp_path / "store", {"t": execution_id})["t"][0] == "interrupted"


@pytest.mark.slow
def test_an_idle_service_ends_at_once_and_its_interval_is_short(tmp_path: Path) -> None:
    with Service(tmp_path / "store", drain=3_600) as service:
        post(service, "/threads", {"agent_id": INTERVAL, "thread_id": "t"})
        with Watching(f"{service.url}/threads/t/events") as watching:
            post(service, "/threads/t/inputs", {"type": "USER_MESSAGES_INPUT", "messages": "go"})
            watching.next("THREAD_EXECUTION_FINISHED")
        interval = httpx.get(f"{service.url}/threads/t/values/interval", timeout=GUARD).json()["value"]
        service.signal(signal.SIGTERM)

        assert service.ended() == 0
    assert interval["seconds"] == pytest.approx(module.SWITCH_INTERVAL_S)
    assert interval["soft"] == interval["hard"]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_without_tokens_no_address_beyond_this_machine_is_listened_on(host: str) -> None:
    with Runtime(MemoryStore(), agents=[rests]) as runtime:
        with pytest.raises(InvalidInput) as refused:
            module.serve(runtime, create_app(runtime), host, 0)
        assert runtime.ready() == (True, []), "nothing was closed"

    assert refused.value.code == "invalid_option"
    assert "token" in str(refused.value)


def test_with_tokens_every_address_is_listened_on() -> None:
    auth = Auth({"secret": Principal("admin")})
    with module._listen("0.0.0.0", 0, needs_loopback=auth.is_open) as listening:
        assert module._address(listening, "0.0.0.0").startswith("http://0.0.0.0:")


def test_an_address_in_use_is_an_error_of_the_system() -> None:
    with module._listen("127.0.0.1", 0, needs_loopback=True) as listening, pytest.raises(OSError, match="in use"):
        module._listen("127.0.0.1", listening.getsockname()[1], needs_loopback=True)


@pytest.mark.slow
def test_a_store_that_refuses_last_commits_makes_the_exit_code_1(caplog: pytest.LogCaptureFixture) -> None:
    store = FaultyStore(MemoryStore())
    runtime = Runtime(store, agents=[rests], interrupt_grace=0, release_timeout=0)
    with runtime:
        thread = runtime.create_thread("rests").result(GUARD)
        store.fail(in_commits=2, persistent=True)
        thread.submit("go").result(GUARD)

        assert module._close(runtime, 0) == 1
    assert [record.code for record in caplog.records if hasattr(record, "code")][-1] == "close_incomplete"  # type: ignore[attr-defined]
