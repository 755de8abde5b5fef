"""Holds how streams end with their server: each with its last frame, whoever else is silent."""

from __future__ import annotations

import json
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection

from tests.hosting.served import Served
from tests.hosting.service import WAITING, Service
from tests.hosting.watching import GUARD_S, Watching, connect
from treadle.actors import Runtime
from treadle.agents import ThreadState, agent
from treadle.hosting.auth import Auth, Principal
from treadle.storage import MemoryStore

if TYPE_CHECKING:
    from pathlib import Path

CLOSED = {"type": "closed", "complete": True}


@agent
async def nothing(state: ThreadState) -> None:
    return


def frames_of(client: ClientConnection) -> tuple[list[dict[str, object]], int]:
    """Return all frames up to the end, and the close code."""
    found: list[dict[str, object]] = []
    with pytest.raises(ConnectionClosed) as caught:
        collect(client, found)
    assert caught.value.rcvd is not None, found
    return found, caught.value.rcvd.code


def collect(client: ClientConnection, found: list[dict[str, object]]) -> None:
    while True:
        found.append(json.loads(client.recv(60)))


@pytest.mark.slow
def test_a_server_that_ends_under_its_watchers_sends_each_its_last_frame() -> None:
    with Runtime(MemoryStore(), agents=[nothing]) as runtime, Served(runtime) as served, ExitStack() as stack:
        for n in range(10):
            runtime.create_thread(nothing, thread_id=f"t{n}").result()
        addresses = [f"threads/t{n % 10}" for n in range(50)]
        sse = [stack.enter_context(Watching(f"{served.url}/{path}/events")) for path in addresses]
        everything = stack.enter_context(Watching(f"{served.url}/events"))
        sockets = [stack.enter_context(connect(f"{served.ws}/{path}/stream")) for path in addresses]
        for watching in [*sse, everything]:
            watching.next("snapshot")

        served.end()

        assert [list(watching)[-1].data for watching in [*sse, everything]] == [CLOSED] * 51
        ends = [frames_of(client) for client in sockets]
        assert [(frames[-1], code) for frames, code in ends] == [(CLOSED, 1001)] * 50


@agent
async def waits(state: ThreadState) -> None:
    await state.request("approval", {})


def test_a_user_who_follows_all_its_threads_is_told_what_a_closing_server_made_of_them() -> None:
    """Of threads that the stream has shown, and of those that it hears of when the runtime takes no calls any more."""
    auth = Auth({"for-anna": Principal("user", "anna")})
    over = threading.Event()

    @agent
    def lasts(state: ThreadState) -> None:
        over.wait(GUARD_S)

    with (
        Runtime(MemoryStore(), agents=[waits, lasts], drain_timeout=0) as runtime,
        Served(runtime, auth=auth) as served,
    ):
        for thread_id, user_id, body in (("one", "anna", waits), ("two", "anna", waits), ("his", "bo", lasts)):
            runtime.create_thread(body, thread_id=thread_id, user_id=user_id).result().submit("go").result()
        with (
            Watching(f"{served.url}/events", token="for-anna") as shown,
            Watching(f"{served.url}/events?after=latest", token="for-anna") as unshown,
            ThreadPoolExecutor(1) as worker,
        ):
            shown.committed(2)
            unshown.next("snapshot")

            ending = worker.submit(served.end)
            for watching in (shown, unshown):
                ends = [(block.data["thread_id"], block.data["status"]["state"]) for block in watching.committed(2)]
                assert sorted(ends) == [("one", "idle"), ("two", "idle")]
            over.set()

            assert [list(watching)[-1].name for watching in (shown, unshown)] == ["closed"] * 2
            ending.result()


def test_a_message_that_changes_while_the_server_closes_is_shown_as_it_is_then() -> None:
    closes, seen = threading.Event(), threading.Event()

    @agent
    def corrects(state: ThreadState) -> None:
        said = state.inject_message(role="assistant", content="at onc").result()
        closes.wait(GUARD_S)
        state.update_message(said.id, content="at once").result()
        seen.wait(GUARD_S)

    with Runtime(MemoryStore(), agents=[corrects], drain_timeout=GUARD_S) as runtime, Served(runtime) as served:
        thread = runtime.create_thread(corrects, thread_id="t").result()
        with connect(f"{served.ws}/threads/t/stream") as client, ThreadPoolExecutor(1) as worker:
            thread.submit("go").result()
            ending = worker.submit(served.end)
            while runtime.ready()[0]:
                httpx.get(f"{served.url}/readyz", timeout=GUARD_S)
            closes.set()
            said: list[str] = []
            while len(said) < 3:
                frame = json.loads(client.recv(GUARD_S))
                said += [frame["data"]["content"]] if frame["type"] == "message_data" else []
            seen.set()
            frames, code = frames_of(client)
            ending.result()

    assert said == ["go", "at onc", "at once"]
    assert (frames[-1]["type"], code) == ("closed", 1001)


@pytest.mark.slow
def test_a_signal_ends_twenty_streams_with_what_their_executions_came_to(tmp_path: Path) -> None:
    """Scenario 27: the final frames are sent, each execution's end among them; exit code 0 within the deadline."""
    with Service(tmp_path / "data", 1.0) as service, ExitStack() as stack:
        sse, sockets = [], []
        for n in range(10):
            created = httpx.post(
                f"{service.url}/threads", json={"agent_id": WAITING, "thread_id": f"t{n}"}, timeout=GUARD_S
            )
            assert created.status_code == 201, created.text
            sse.append(stack.enter_context(Watching(f"{service.url}/threads/t{n}/events")))
            address = f"{service.url.replace('http', 'ws', 1)}/threads/t{n}/stream"
            sockets.append(stack.enter_context(connect(address)))
            body = {"type": "USER_MESSAGES_INPUT", "messages": [{"role": "user", "content": "go"}]}
            sent = httpx.post(f"{service.url}/threads/t{n}/inputs", json=body, timeout=GUARD_S)
            assert sent.status_code == 202, sent.text
        for watching in sse:
            watching.next("VALUE_CHANGED")

        service.signal(signal.SIGTERM)

        for watching in sse:
            blocks = list(watching)
            finished = next(block for block in blocks if block.name == "THREAD_EXECUTION_FINISHED")
            assert finished.data["outcome"] == "cancelled"
            assert blocks[-1].data == CLOSED
        for client in sockets:
            frames, code = frames_of(client)
            assert (frames[-1], code) == (CLOSED, 1001)
            assert [f["status"]["state"] for f in frames if f["type"] == "thread_status"][-1] == "idle"  # type: ignore[index]
        assert service.ended() == 0
