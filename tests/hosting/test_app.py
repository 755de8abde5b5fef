"""Tests hosting/app.py with its routes, over real sockets: who sees what, what is refused, and that nothing of it is stored."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from fastapi import FastAPI

from tests.hosting.served import Served
from tests.hosting.watching import GUARD_S
from treadle.actors import Runtime
from treadle.agents import ThreadState, agent
from treadle.hosting.app import create_app
from treadle.hosting.auth import Auth, Principal
from treadle.hosting.hosted import Limits
from treadle.storage import LmdbStore, MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from treadle.storage.store import View

TOKENS = {"root": Principal("admin"), "annas": Principal("user", "anna"), "bens": Principal("user", "ben")}
JSON = {"content-type": "application/json"}


@agent
async def asks(state: ThreadState) -> None:
    await state.request("approval", {"order": 1})


@agent
async def quick(state: ThreadState) -> None:
    await state.inject_message("assistant", "done")


@pytest.fixture
def runtime() -> Iterator[Runtime]:
    with Runtime(MemoryStore(), agents=[asks, quick], drain_timeout=0) as opened:
        yield opened


@pytest.fixture
def served(runtime: Runtime) -> Iterator[Served]:
    with Served(runtime) as server:
        yield server


@pytest.fixture
def client(served: Served) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=served.url, timeout=GUARD_S) as made:
        yield made


@pytest.fixture(scope="module")
def unmoved() -> Iterator[tuple[Runtime, httpx.Client]]:
    """One server for all that changes nothing."""
    with contextlib.ExitStack() as opened:
        runtime = opened.enter_context(Runtime(MemoryStore(), agents=[quick]))
        runtime.create_thread("quick", thread_id="t").result()
        server = opened.enter_context(Served(runtime, limits=Limits(body_bytes=100_000)))
        yield runtime, opened.enter_context(httpx.Client(base_url=server.url, timeout=GUARD_S))


@pytest.fixture
def guarded(runtime: Runtime) -> Iterator[Served]:
    with Served(runtime, auth=Auth(TOKENS)) as server:
        yield server


def asking(served: Served, token: str) -> httpx.Client:
    return httpx.Client(base_url=served.url, headers={"authorization": f"Bearer {token}"}, timeout=GUARD_S)


def asked(app: FastAPI, *calls: tuple[str, str, Any]) -> list[httpx.Response]:
    """Ask an app without a server."""

    async def ask() -> list[httpx.Response]:
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=GUARD_S) as client:
            return [await client.request(method, path, json=body) for method, path, body in calls]

    return asyncio.run(ask())


# Who sees what


def test_a_foreign_thread_is_answered_as_one_that_is_not(runtime: Runtime, guarded: Served) -> None:
    thread = runtime.create_thread("quick", thread_id="annas", user_id="anna").result()
    before = thread.state().result().cursor
    calls: list[tuple[str, str, Any]] = [
        ("GET", "", None),
        ("PATCH", "", {"tags": ["mine"]}),
        ("DELETE", "", None),
        ("GET", "/state", None),
        ("GET", "/explain", None),
        ("GET", "/messages", None),
        ("GET", "/executions", None),
        ("GET", "/values", None),
        ("GET", "/values/k", None),
        ("PUT", "/values/k", {"value": 1}),
        ("DELETE", "/values/k", None),
        ("POST", "/inputs", {"type": "USER_MESSAGES_INPUT", "messages": "hi"}),
        ("POST", "/messages", {"content": "hi"}),
        ("POST", "/responses", {"request_id": "r", "value": 1}),
        ("POST", "/stop", None),
        ("POST", "/resume", None),
        ("GET", "/inbox/i", None),
        ("DELETE", "/inbox/i", None),
        ("GET", "/messages/m", None),
        ("PATCH", "/messages/m", {"content": "x"}),
        ("DELETE", "/messages/m", None),
        ("GET", "/executions/e", None),
    ]
    with asking(guarded, "bens") as ben:
        for method, path, body in calls:
            foreign, unknown = (
                ben.request(method, f"/threads/{name}{path}", json=body) for name in ("annas", "nobodys")
            )
            assert (foreign.status_code, foreign.json()["code"]) == (404, "thread_not_found")
            assert foreign.text.replace("annas", "nobodys") == unknown.text

    assert thread.state().result().cursor == before


def test_a_taken_id_is_refused_alike_whoever_has_it_and_whether_it_is_still_there(
    runtime: Runtime, guarded: Served
) -> None:
    for name, owner in (("annas", "anna"), ("gone", "anna"), ("nobodys", None), ("bens", "ben"), ("bens-gone", "ben")):
        runtime.create_thread("quick", thread_id=name, user_id=owner).result()
    runtime.delete_thread("gone").result()
    runtime.delete_thread("bens-gone").result()

    with asking(guarded, "bens") as ben:
        said = {
            ben.post("/threads", json={"agent_id": "quick", "thread_id": name}).text.replace(name, "X")
            for name in ("annas", "gone", "nobodys", "bens-gone", "bens")
        }

    assert [json.loads(one)["code"] for one in said] == ["thread_exists"]


def test_a_user_has_its_own_threads_and_an_admin_all(guarded: Served) -> None:
    with asking(guarded, "annas") as anna, asking(guarded, "bens") as ben, asking(guarded, "root") as root:
        mine = anna.post("/threads", json={"agent_id": "quick"}).json()
        assert mine["user_id"] == "anna"
        assert anna.post("/threads", json={"agent_id": "quick", "user_id": "anna"}).status_code == 201
        refused = anna.post("/threads", json={"agent_id": "quick", "user_id": "ben", "thread_id": "bens"})
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
        root.post("/threads", json={"agent_id": "quick", "thread_id": "nobodys"})

        assert len(anna.get("/threads").json()["threads"]) == 2
        assert ben.get("/threads").json()["threads"] == []
        assert ben.get("/threads", params={"user_id": "anna"}).json()["threads"] == []
        assert len(root.get("/threads").json()["threads"]) == 3
        assert len(root.get("/threads", params={"user_id": "anna"}).json()["threads"]) == 2


@pytest.mark.parametrize("token", ["", "Root", "root ", "rootroot"])
def test_without_a_known_token_nothing_is_answered(guarded: Served, token: str) -> None:
    headers = {"authorization": f"Bearer {token}"} if token else {}
    if token == "root ":
        headers = {"authorization": "Basic root"}
    with httpx.Client(base_url=guarded.url, headers=headers, timeout=GUARD_S) as nobody:
        for method, path in [("GET", "/threads"), ("GET", "/threads/t"), ("POST", "/threads"), ("GET", "/metrics")]:
            answer = nobody.request(method, path, json={} if method == "POST" else None)
            assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")


# Bad input

BAD: dict[str, tuple[str, str, Any, int, str]] = {
    "no JSON": ("POST", "/threads/t/inputs", b'{"type": ', 400, "invalid_request"),
    "no UTF-8": ("POST", "/threads/t/inputs", b'{"type": "\xff"}', 400, "invalid_request"),
    "deep JSON": ("PUT", "/threads/t/values/k", b"[" * 50_000, 400, "invalid_request"),
    "a huge number": ("PUT", "/threads/t/values/k", b'{"value": ' + b"9" * 5_000 + b"}", 400, "invalid_request"),
    "JSON that is too deep for a value": (
        "PUT", "/threads/t/values/k", b'{"value": ' + b"[" * 65 + b"]" * 65 + b"}", 400, "invalid_value",
    ),
    "no object": ("POST", "/threads/t/inputs", [], 400, "invalid_request"),
    "no body": ("POST", "/threads/t/inputs", b"", 400, "invalid_request"),
    "null": ("POST", "/threads/t/inputs", None, 400, "invalid_request"),
    "no type": ("POST", "/threads/t/inputs", {"messages": "hi"}, 400, "invalid_request"),
    "an unknown type": ("POST", "/threads/t/inputs", {"type": "X", "messages": "hi"}, 400, "invalid_request"),
    "an unknown member of an input": (
        "POST", "/threads/t/inputs", {"type": "USER_MESSAGES_INPUT", "messages": "hi", "hold": True}, 400, "invalid_request",
    ),
    "an unknown member of a message": (
        "POST", "/threads/t/inputs", {"type": "USER_MESSAGES_INPUT", "messages": [{"content": "a", "id": "x"}]}, 400,
        "invalid_content",
    ),
    "a steer of nobody": ("POST", "/threads/t/inputs", {"type": "STEERING_INPUT", "messages": "hi"}, 400, "invalid_request"),
    "an unknown member of a queued message": ("POST", "/threads/t/messages", {"content": "a", "x": 1}, 400, "invalid_request"),
    "an unknown member of a thread": ("POST", "/threads", {"agent_id": "quick", "x": 1}, 400, "invalid_request"),
    "an unknown member of an answer": (
        "POST", "/threads/t/responses", {"request_id": "r", "value": 1, "x": 1}, 400, "invalid_request",
    ),
    "a thread that is to live again": ("PATCH", "/threads/t", {"terminated": False}, 400, "invalid_request"),
    "a thread with a bad id": ("POST", "/threads", {"agent_id": "quick", "thread_id": "a\r\nb"}, 400, "invalid_id"),
    "a body over the limit": ("PUT", "/threads/t/values/k", {"value": "x" * 100_001}, 413, "limit_exceeded"),
    "a control character in a path": ("PUT", "/threads/t%0A/values/k", {"value": 1}, 400, "invalid_id"),
    "NUL in a path": ("PUT", "/threads/t/values/k%00", {"value": 1}, 400, "invalid_request"),
    "a path that is no text": ("PUT", "/threads/t/values/%ff", {"value": 1}, 400, "invalid_path"),
    "a path that climbs": ("PUT", "/threads/t/%2e%2e/t/values/k", {"value": 1}, 404, "route_not_found"),
    "a value of the runtime's own": ("PUT", "/threads/t/values/treadle:tags", {"value": ["x"]}, 400, "reserved_name"),
    "a method that is not there": ("PUT", "/threads/t", {"value": 1}, 405, "method_not_allowed"),
    "a route that is not there": ("POST", "/thread", {}, 404, "route_not_found"),
    "a parameter that is not there": ("GET", "/threads/t/messages?limti=5", None, 400, "invalid_request"),
    "a page that is none": ("GET", "/threads?limit=0", None, 400, "invalid_page"),
    "a bad cursor of a list": ("GET", "/threads?after=1:2", None, 400, "invalid_cursor"),
    "a bad cursor": ("GET", "/threads/t/events?after=x", None, 400, "invalid_cursor"),
    "a cursor beyond": ("GET", "/threads/t/events?after=1:99", None, 409, "cursor_conflict"),
    "a cursor of another generation": ("GET", "/threads/t/events?after=9:1", None, 409, "cursor_conflict"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_input_gets_a_problem_and_stores_nothing(unmoved: tuple[Runtime, httpx.Client], name: str) -> None:
    runtime, client = unmoved
    method, path, body, status, code = BAD[name]
    thread = runtime.thread("t")
    before = thread.state().result(), runtime.threads().result()

    content = None if method == "GET" else body if isinstance(body, bytes) else json.dumps(body)
    answer = client.request(method, path, content=content, headers=JSON if content is not None else {})

    assert (answer.status_code, answer.json()["code"], answer.json()["status"]) == (status, code, status)
    assert answer.headers["content-type"] == "application/problem+json"
    assert (thread.state().result(), runtime.threads().result()) == before


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/threads", "GET, HEAD, POST"),
        ("/threads/a%2Fb", "GET, HEAD, PATCH, DELETE"),
        ("/threads/t/values/a/b", "GET, HEAD, PUT, DELETE"),
        ("/threads/t/stop", "POST"),
        ("/", "GET, HEAD"),
    ],
)
def test_a_method_that_is_not_there_is_told_all_that_are(client: httpx.Client, path: str, methods: str) -> None:
    answer = client.request("TRACE", path)

    assert (answer.status_code, answer.headers["allow"]) == (405, methods)


def test_a_body_of_too_many_parts_is_refused_before_it_is_parsed(runtime: Runtime) -> None:
    with (
        Served(runtime, limits=Limits(body_items=1_000)) as served,
        httpx.Client(base_url=served.url, timeout=GUARD_S) as client,
    ):
        runtime.create_thread("quick", thread_id="t").result()
        refused = client.put("/threads/t/values/k", content=b'{"value": [' + b"{}," * 600 + b"{}]}", headers=JSON)
        taken = client.put("/threads/t/values/k", json={"value": "x" * 2_000})

    assert (refused.status_code, refused.json()["limit"], refused.json()["met"]) == (413, "body_items", 1203)
    assert taken.status_code == 204


def test_a_body_of_too_many_members_is_refused_before_it_is_parsed_whatever_its_texts_hold(runtime: Runtime) -> None:
    with (
        Served(runtime, limits=Limits(body_members=1_000)) as served,
        httpx.Client(base_url=served.url, timeout=GUARD_S) as client,
    ):
        runtime.create_thread("quick", thread_id="t").result()
        many = {str(number): ":" for number in range(1_000)}
        refused = client.put("/threads/t/values/k", json={"value": many})
        del many["0"]
        taken = client.put("/threads/t/values/k", json={"value": many})
        text = client.put("/threads/t/values/text", json={"value": '":' * 2_000})

    assert (refused.status_code, refused.json()["limit"], refused.json()["met"]) == (413, "body_members", 1001)
    assert (taken.status_code, text.status_code) == (204, 204)


def test_a_body_of_a_long_list_is_refused_before_it_is_parsed_whatever_its_texts_hold(runtime: Runtime) -> None:
    with (
        Served(runtime, limits=Limits(body_run=1_000)) as served,
        httpx.Client(base_url=served.url, timeout=GUARD_S) as client,
    ):
        runtime.create_thread("quick", thread_id="t").result()
        refused = client.put("/threads/t/values/k", json={"value": [0] * 1_000})
        taken = client.put("/threads/t/values/k", json={"value": [0] * 996})
        text = client.put("/threads/t/values/text", json={"value": '[,"' * 2_000})

    assert (refused.status_code, refused.json()["limit"], refused.json()["met"]) == (413, "body_run", 1003)
    assert (taken.status_code, text.status_code) == (204, 204)


def test_a_body_that_is_no_json_by_its_type_is_refused(client: httpx.Client) -> None:
    for headers in ({"content-type": "text/plain"}, {"content-type": "application/x-www-form-urlencoded"}, {}):
        answer = client.post("/threads", content=b'{"agent_id": "quick"}', headers=headers)
        assert answer.status_code == 415

    assert client.get("/threads").json()["threads"] == []


def test_an_error_of_our_own_says_nothing_of_itself(runtime: Runtime) -> None:
    app = create_app(runtime)

    @app.get("/broken")
    async def broken() -> None:
        raise KeyError("a secret")

    (answer,) = asked(app, ("GET", "/broken", None))

    assert (answer.status_code, answer.json()["code"]) == (500, "internal_error")
    assert "secret" not in answer.text


# Repeats


def test_the_idempotency_key_is_the_id_of_an_input(runtime: Runtime, client: httpx.Client) -> None:
    runtime.create_thread("asks", thread_id="t").result()
    body = {"type": "USER_MESSAGES_INPUT", "messages": "hi"}
    key = {"idempotency-key": "k-1"}

    first = client.post("/threads/t/inputs", json=body, headers=key)
    again = client.post("/threads/t/inputs", json=body, headers=key)
    both = client.post("/threads/t/inputs", json={**body, "input_id": "k-1"}, headers=key)
    member = client.post("/threads/t/inputs", json={**body, "input_id": "k-1"})
    other = client.post("/threads/t/inputs", json={**body, "messages": "other"}, headers=key)

    assert first.status_code == 202
    assert first.json()["input_id"] == "k-1"
    assert first.json() == again.json() == both.json() == member.json() == client.get("/threads/t/inbox/k-1").json()
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_conflict")


def test_the_idempotency_key_is_the_id_of_controls_and_messages(runtime: Runtime, client: httpx.Client) -> None:
    thread = runtime.create_thread("asks", thread_id="t").result()
    active = thread.submit("go").result().execution_id
    steer = {"type": "STEERING_INPUT", "execution_id": active, "messages": "left"}
    interrupt = {"type": "INTERRUPTION_REQUEST", "execution_id": active}

    steered = client.post("/threads/t/inputs", json=steer, headers={"idempotency-key": "s"}).json()
    queued = client.post("/threads/t/messages", json={"content": "x"}, headers={"idempotency-key": "q"}).json()
    ended = client.post("/threads/t/inputs", json=interrupt, headers={"idempotency-key": "i"}).json()

    assert (steered["control_id"], queued["input_id"], ended["control_id"]) == ("s", "q", "i")
    assert [one["disposition"] for one in (steered, queued, ended)] == ["accepted", "queued", "accepted"]


@pytest.mark.slow
def test_one_call_that_many_connections_repeat_is_made_once(runtime: Runtime, served: Served) -> None:
    thread = runtime.create_thread("quick", thread_id="t").result()
    body = {"type": "USER_MESSAGES_INPUT", "messages": "hi", "input_id": "once", "on_busy": "queue"}
    together = threading.Barrier(16)

    def call(_number: int) -> tuple[int, str]:
        with httpx.Client(base_url=served.url, timeout=GUARD_S) as client:
            together.wait(60)
            answer = client.post("/threads/t/inputs", json=body)
            return answer.status_code, answer.text

    with ThreadPoolExecutor(16) as pool:
        answers = set(pool.map(call, range(16)))

    ((status, receipt),) = answers
    assert status == 202
    thread.wait(json.loads(receipt)["execution_id"]).result(60)
    assert thread.executions().result().total == 1
    assert [one.content for one in thread.messages().result().messages] == ["hi", "done"]


def test_two_ids_for_one_call_are_refused(runtime: Runtime, client: httpx.Client) -> None:
    thread = runtime.create_thread("quick", thread_id="t").result()
    before = thread.state().result()
    body = {"type": "USER_MESSAGES_INPUT", "messages": "hi", "input_id": "a"}

    different = client.post("/threads/t/inputs", json=body, headers={"idempotency-key": "b"})
    twice = client.post("/threads/t/messages", json={"content": "x"}, headers=[("idempotency-key", "a")] * 2)
    bad = client.post("/threads/t/messages", json={"content": "x"}, headers={"idempotency-key": "é".encode()})

    codes = [one.json()["code"] for one in (different, twice, bad)]
    assert codes == ["idempotency_key_mismatch", "invalid_request", "invalid_id"]
    assert thread.state().result() == before


# As a part of something larger


def test_a_busy_thread_is_a_conflict_that_names_the_execution(runtime: Runtime, client: httpx.Client) -> None:
    thread = runtime.create_thread("asks", thread_id="t").result()
    active = thread.submit("go").result().execution_id

    answer = client.post("/threads/t/inputs", json={"type": "USER_MESSAGES_INPUT", "messages": "me, too"})

    assert (answer.status_code, answer.headers["content-type"]) == (409, "application/json")
    assert answer.json()["disposition"] == "busy"
    assert answer.json()["active_execution"]["execution_id"] == active


def test_the_app_can_be_mounted_in_another(runtime: Runtime) -> None:
    above = FastAPI()
    above.mount("/desk", create_app(runtime))

    made, found, no_route, no_agent, health, outside = asked(
        above,
        ("POST", "/desk/threads", {"agent_id": "quick", "thread_id": "a/b"}),
        ("GET", "/desk/threads/a%2Fb", None),
        ("GET", "/desk/threads/a%2Fb/nothing", None),
        ("POST", "/desk/threads", {"agent_id": "nobody"}),
        ("GET", "/desk/healthz", None),
        ("GET", "/threads", None),
    )

    assert made.headers["location"] == "/desk/threads/a%2Fb"
    assert found.json()["id"] == "a/b"
    assert [no_route.json()["code"], no_agent.json()["code"]] == ["route_not_found", "agent_not_found"]
    assert (health.status_code, outside.status_code) == (200, 404)


def test_a_runtime_that_closed_is_unavailable(runtime: Runtime, client: httpx.Client) -> None:
    runtime.create_thread("quick", thread_id="t").result()
    runtime.close()

    for path in ("/threads", "/threads/t", "/threads/t/state"):
        answer = client.get(path)
        assert (answer.status_code, answer.json()["code"]) == (503, "runtime_closed")
        assert answer.headers["retry-after"] == "1"


class HeldStore(LmdbStore):
    """Holds up whoever reads a page, until it is let go."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.holding = threading.Event()
        self.reached = threading.Event()
        self.free = threading.Event()

    def view(self) -> View:
        if self.holding.is_set() and threading.current_thread().name.startswith("AnyIO"):
            self.reached.set()
            assert self.free.wait(60)
        return super().view()


def test_a_slow_read_holds_up_nobody_else(tmp_path: Path) -> None:
    store = HeldStore(tmp_path)
    with contextlib.ExitStack() as opened:
        runtime = opened.enter_context(Runtime(store, agents=[quick]))
        runtime.create_thread("quick", thread_id="t").result()
        served = opened.enter_context(Served(runtime))
        client = opened.enter_context(httpx.Client(base_url=served.url, timeout=GUARD_S))
        slow: list[int] = []
        store.holding.set()
        reader = threading.Thread(
            target=lambda: slow.append(httpx.get(f"{served.url}/threads/t/messages", timeout=GUARD_S).status_code),
            name="reader",
        )
        reader.start()
        assert store.reached.wait(60)

        accepted = client.post("/threads/t/inputs", json={"type": "USER_MESSAGES_INPUT", "messages": "hi"})

        assert (accepted.status_code, slow) == (202, [])
        store.free.set()
        reader.join(60)
        assert slow == [200]


def test_openapi_tells_of_every_route_and_of_no_other_host(client: httpx.Client) -> None:
    document = client.get("/openapi.json").json()

    assert {"/threads", "/threads/{thread_id}/inputs", "/threads/{thread_id}/events", "/events", "/tickets"} <= set(
        document["paths"]
    )
    for path, operations in document["paths"].items():
        for operation in operations.values():
            assert "422" not in operation["responses"], path
            assert operation["operationId"]
    assert document["components"]["schemas"]["Problem"]["required"] == ["type", "title", "status", "detail", "code"]
    assert [client.get(path).status_code for path in ("/docs", "/redoc")] == [404, 404]


def test_the_openapi_document_is_encoded_once_for_each_prefix(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded, dumps = list[object](), json.dumps

    def encode(value: object) -> bytes:
        encoded.append(value)
        return dumps(value).encode()

    def mount(app: FastAPI) -> FastAPI:
        outer = FastAPI(openapi_url=None)
        outer.mount("/desk", app)
        return outer

    monkeypatch.setattr("treadle.hosting.described._encode", encode)
    with Served(runtime) as plain, Served(runtime, around=mount) as mounted:
        first, again = (httpx.get(f"{plain.url}/openapi.json") for _ in range(2))
        under = [httpx.get(f"{mounted.url}/desk/openapi.json").json() for _ in range(2)]

    assert first.content == again.content
    assert first.headers["content-type"] == "application/json"
    assert under == [first.json() | {"servers": [{"url": "/desk"}]}] * 2
    assert len(encoded) == 2


def test_the_limits_are_above_none() -> None:
    for bad in ({"body_bytes": 0}, {"write_seconds": -1}, {"heartbeat_seconds": "1"}, {"ticket_seconds": True}):
        with pytest.raises(Exception, match="is a number above 0"):
            Limits(**bad)  # type: ignore[arg-type]
