"""Tests hosting/long_polls.py over real sockets: an answer waits for an end as long as it may, and holds nothing behind it."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.hosting.served import Served
from tests.hosting.watching import GUARD_S
from treadle.actors import Runtime, Thread
from treadle.agents import ThreadState, agent
from treadle.hosting import long_polls
from treadle.hosting.auth import Auth, Principal
from treadle.hosting.hosted import Limits
from treadle.hosting.long_polls import WaitQuery
from treadle.protocol.errors import InvalidInput
from treadle.storage import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator


@agent
async def asks(state: ThreadState) -> None:
    await state.request("approval")


@pytest.fixture
def runtime() -> Iterator[Runtime]:
    with Runtime(MemoryStore(), agents=[asks], drain_timeout=0) as opened:
        yield opened


@pytest.fixture
def thread(runtime: Runtime) -> Thread:
    return runtime.create_thread("asks", thread_id="t").result()


@pytest.fixture
def client(served: Served) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=served.url, timeout=GUARD_S) as made:
        yield made


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> SimpleQueue[str]:
    """Says when a wait begins, and when it is over."""
    seen: SimpleQueue[str] = SimpleQueue()
    first = long_polls._first

    async def told(*given: Any) -> Any:
        seen.put("begun")
        try:
            return await first(*given)
        finally:
            seen.put("over")

    monkeypatch.setattr(long_polls, "_first", told)
    return seen


def busy(thread: Thread) -> str:
    """Start an execution that lasts until its request is answered."""
    with thread.stream(after="1:0") as frames:
        execution_id = thread.submit("go").result().execution_id
        while (frame := frames.next(GUARD_S)) is not None and frame["type"] != "REQUEST_OPENED":
            continue
    assert execution_id is not None
    return execution_id


def answer_it(thread: Thread) -> None:
    request = thread.state().result().pending_requests[0]["request_id"]
    assert thread.respond(request, value=True).result() == "accepted"


@pytest.mark.parametrize("text", ["0", "-0.0", "60", "60.0", "1e-05", "0.30000000000000004", "5E1", None])
def test_what_is_a_time_is_waited_for(text: str | None) -> None:
    assert 0 <= WaitQuery(wait=text).seconds() <= 60


@pytest.mark.parametrize(
    "text", ["", "60.1", "-1", "x", "nan", "inf", "1e9", "1_0", "٣", " 1", "1\n", "0x1", "9" * 500]
)
def test_what_is_no_time_is_refused(client: httpx.Client, thread: Thread, text: str) -> None:
    with pytest.raises(InvalidInput):
        WaitQuery(wait=text).seconds()
    execution_id = busy(thread)
    for path in (f"/threads/t/executions/{execution_id}", "/threads/t/inputs/i"):
        answer = client.get(path, params={"wait": text})
        assert (answer.status_code, answer.json()["code"], answer.json()["path"]) == (400, "invalid_request", "$.wait")


def test_an_answer_comes_with_the_end(client: httpx.Client, thread: Thread, waiting: SimpleQueue[str]) -> None:
    execution_id = busy(thread)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(client.get, f"/threads/t/executions/{execution_id}", params={"wait": 60})
        assert waiting.get(timeout=GUARD_S) == "begun"
        assert not asked.done()
        answer_it(thread)
        record = asked.result(GUARD_S).json()

    assert (record["execution_id"], record["status"]) == (execution_id, "succeeded")
    assert record == client.get(f"/threads/t/executions/{execution_id}").json()
    assert record == client.get(f"/threads/t/executions/{execution_id}?wait=60").json()


def test_when_the_time_is_up_the_answer_is_what_there_is(
    runtime: Runtime, served: Served, client: httpx.Client, thread: Thread
) -> None:
    execution_id = busy(thread)
    for _ in range(40):
        record = client.get(f"/threads/t/executions/{execution_id}", params={"wait": 0.001}).json()
        assert record["status"] == "active"

    waiters = runtime._services.directory.entry("t").waiters or {}  # type: ignore[union-attr]
    assert sum(map(len, waiters.values())) <= 16
    assert served.app.state.treadle.streams.held == 0
    assert client.get(f"/threads/t/executions/{execution_id}").json() == record


def test_an_input_is_followed_into_its_execution(
    client: httpx.Client, thread: Thread, waiting: SimpleQueue[str]
) -> None:
    first = busy(thread)
    thread.submit("next", on_busy="queue", input_id="i").result()
    assert client.get("/threads/t/inputs/i").status_code == 204
    assert client.get("/threads/t/inputs/i?wait=0.001").status_code == 204
    for said in ("begun", "over"):
        assert waiting.get(timeout=GUARD_S) == said
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(client.get, "/threads/t/inputs/i", params={"wait": 60})
        assert waiting.get(timeout=GUARD_S) == "begun"
        with thread.stream(after=thread.state().result().cursor) as frames:
            answer_it(thread)
            while (frame := frames.next(GUARD_S)) is not None and frame["type"] != "REQUEST_OPENED":
                continue
        active = client.get("/threads/t/inputs/i").json()
        assert not asked.done()
        answer_it(thread)
        record = asked.result(GUARD_S).json()

    assert (active["status"], record["status"], record["input_id"]) == ("active", "succeeded", "i")
    assert active["execution_id"] == record["execution_id"] != first


@pytest.mark.parametrize("ending", ["withdrawn", "terminated", "deleted"])
def test_an_input_that_never_runs_ends_the_wait_for_it(
    runtime: Runtime, client: httpx.Client, thread: Thread, waiting: SimpleQueue[str], ending: str
) -> None:
    busy(thread)
    thread.submit("next", on_busy="queue", input_id="i").result()
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(client.get, "/threads/t/inputs/i", params={"wait": 60})
        assert waiting.get(timeout=GUARD_S) == "begun"
        if ending == "withdrawn":
            thread.withdraw("i").result()
        elif ending == "terminated":
            thread.terminate().result()
        else:
            runtime.delete_thread("t").result()
        answer = asked.result(GUARD_S)

    code = {"withdrawn": "input_withdrawn", "terminated": "thread_terminated", "deleted": "thread_terminated"}[ending]
    assert (answer.status_code, answer.json()["code"]) == (409, code)


def test_a_wait_ends_when_its_client_leaves(served: Served, thread: Thread, waiting: SimpleQueue[str]) -> None:
    execution_id = busy(thread)
    with socket.create_connection(("127.0.0.1", served.port), GUARD_S) as client:
        client.sendall(f"GET /threads/t/executions/{execution_id}?wait=60 HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert waiting.get(timeout=GUARD_S) == "begun"
    assert waiting.get(timeout=GUARD_S) == "over"


def test_a_wait_is_one_of_its_callers_streams(runtime: Runtime, thread: Thread, waiting: SimpleQueue[str]) -> None:
    execution_id = busy(thread)
    path = f"/threads/t/executions/{execution_id}"
    with Served(runtime, limits=Limits(streams_per_principal=1)) as served, ThreadPoolExecutor(1) as pool:
        asked = pool.submit(httpx.get, f"{served.url}{path}?wait=60", timeout=GUARD_S)
        assert waiting.get(timeout=GUARD_S) == "begun"
        refused = httpx.get(f"{served.url}{path}?wait=1", timeout=GUARD_S)
        assert (refused.status_code, refused.json()["limit"]) == (429, "streams_per_principal")
        assert httpx.get(f"{served.url}{path}", timeout=GUARD_S).status_code == 200
        answer_it(thread)
        assert asked.result(GUARD_S).json()["status"] == "succeeded"


def test_a_wait_is_answered_by_the_end_that_a_close_brings(
    runtime: Runtime, served: Served, thread: Thread, waiting: SimpleQueue[str]
) -> None:
    execution_id = busy(thread)
    url = f"{served.url}/threads/t/executions/{execution_id}?wait=60"
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(httpx.get, url, timeout=GUARD_S)
        assert waiting.get(timeout=GUARD_S) == "begun"
        served.end()
        record = asked.result(GUARD_S).json()

    assert record["status"] == "cancelled"


def test_only_an_admin_calls_tools(runtime: Runtime) -> None:
    auth = Auth({"annas": Principal("user", "anna"), "root": Principal("admin")})
    mine = runtime.create_thread("asks", thread_id="annas", user_id="anna").result()
    mine.stop().result()
    body = {"type": "QUEUED_TOOL_INPUT", "name": "fetch", "args": {"n": 1}}
    before = mine.state().result()
    with Served(runtime, auth=auth) as served:
        url = f"{served.url}/threads/annas/inputs"
        refused, taken = (
            httpx.post(url, json=body, headers={"authorization": f"Bearer {token}"}, timeout=GUARD_S)
            for token in ("annas", "root")
        )
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
        assert (taken.status_code, taken.json()["disposition"]) == (202, "queued")
    assert before.waiting == 0
    assert mine.state().result().waiting == 1


def test_a_queued_tool_is_repeatable_under_its_key(client: httpx.Client, thread: Thread) -> None:
    thread.stop().result()
    body = {"type": "QUEUED_TOOL_INPUT", "name": "fetch"}
    said = [client.post("/threads/t/inputs", json=body, headers={"idempotency-key": "k"}).json() for _ in range(2)]

    assert said[0] == said[1] == client.get("/threads/t/inbox/k").json()
    assert thread.state().result().waiting == 1
    bad = client.post("/threads/t/inputs", json={**body, "messages": "x"})
    assert (bad.status_code, bad.json()["path"]) == (400, "$.messages")
