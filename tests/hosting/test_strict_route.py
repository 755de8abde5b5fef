"""Tests hosting/strict_route.py over a real socket: what is said twice, or in another encoding, is refused and stores nothing."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING

import httpx
import pytest
from pydantic import BaseModel
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from tests.hosting.served import Served
from tests.hosting.watching import GUARD_S
from treadle.actors import Runtime
from treadle.agents import ThreadState, agent
from treadle.hosting import envelopes, strict_route
from treadle.storage import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator

JSON = {"content-type": "application/json"}
VALUE = json.dumps({"value": "grün"}, ensure_ascii=False)


@agent
async def quick(state: ThreadState) -> None:
    await state.inject_message("assistant", "done")


@pytest.fixture(scope="module")
def opened() -> Iterator[tuple[Served, httpx.Client]]:
    """One server for all that is refused."""
    with contextlib.ExitStack() as stack:
        runtime = stack.enter_context(Runtime(MemoryStore(), agents=[quick]))
        runtime.create_thread("quick", thread_id="t").result()
        served = stack.enter_context(Served(runtime))
        yield served, stack.enter_context(httpx.Client(base_url=served.url, timeout=GUARD_S))


@pytest.fixture
def client(opened: tuple[Served, httpx.Client]) -> httpx.Client:
    return opened[1]


def refused(client: httpx.Client, method: str, path: str, status: int = 400, **given: object) -> str:
    """Return the detail of a refusal that left no trace."""
    before = client.get("/threads/t/state").json(), client.get("/threads/t/values").json()
    answer = client.request(method, path, **given)  # type: ignore[arg-type]
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json"), answer.text
    assert (client.get("/threads/t/state").json(), client.get("/threads/t/values").json()) == before
    code = answer.json()["code"]
    assert code == ("invalid_request" if status == 400 else "not_json")
    return str(answer.json()["detail"])


@pytest.mark.parametrize(
    "encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be", "latin-1"]
)
def test_a_body_in_another_encoding_is_refused(client: httpx.Client, encoding: str) -> None:
    refused(client, "PUT", "/threads/t/values/k", content=VALUE.encode(encoding), headers=JSON)


def test_a_body_behind_a_mark_of_its_byte_order_is_refused(client: httpx.Client) -> None:
    refused(client, "PUT", "/threads/t/values/k", content=VALUE.encode("utf-8-sig"), headers=JSON)


@pytest.mark.parametrize("charset", ["utf-16", "latin-1", "utf-8; x=y", "utf-8, utf-16", ""])
def test_a_body_that_names_another_charset_is_refused(client: httpx.Client, charset: str) -> None:
    headers = {"content-type": f"application/json; charset={charset}"}
    refused(client, "PUT", "/threads/t/values/k", 415, content=VALUE.encode(), headers=headers)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", "/threads/t/values/k", '{"value": 1, "value": 2}'),
        ("PUT", "/threads/t/values/k", '{"value": 1, "\\u0076alue": 1}'),
        ("PUT", "/threads/t/values/k", '{"value": [{"a": {"b": 1, "c": 2, "b": 1}}]}'),
        ("PUT", "/threads/t/values/k", '{"value": "' + "x" * 70_000 + '", "value": 1}'),  # read on a worker
        ("POST", "/threads/t/inputs", '{"type": "USER_MESSAGES_INPUT", "messages": "a", "messages": "b"}'),
        ("POST", "/threads/t/messages", '{"content": "a", "metadata": {"n": 1, "n": 2}}'),
        ("POST", "/threads", '{"agent_id": "quick", "thread_id": "x", "thread_id": "y"}'),
        ("POST", "/tickets", '{"path": "/a", "path": "/b"}'),
    ],
)
def test_a_key_that_stands_twice_is_refused_at_any_depth(
    client: httpx.Client, method: str, path: str, body: str
) -> None:
    assert "more than once" in refused(client, method, path, content=body, headers=JSON)


def test_a_crowd_of_unknown_members_is_refused_as_one(client: httpx.Client) -> None:
    crowd = {"type": "USER_MESSAGES_INPUT", "messages": "x", **{f"a{number}": 1 for number in range(100_000)}}

    for path in ("/threads", "/threads/t/inputs", "/threads/t/messages", "/tickets"):
        assert "100002 members" in refused(client, "POST", path, json=crowd)


def test_what_routes_take_has_fewer_members_than_they_may_have() -> None:
    models = [kind for kind in vars(envelopes).values() if isinstance(kind, type) and issubclass(kind, BaseModel)]

    assert max(len(kind.model_fields) for kind in models) < strict_route._MEMBERS_MAX


def test_a_large_body_is_read_as_a_small_one_is(client: httpx.Client) -> None:
    value = {"text": "ü" * 100_000, "parts": [{"n": number} for number in range(5_000)]}

    assert client.put("/threads/t/values/large", json={"value": value}).status_code == 204
    assert client.get("/threads/t/values/large").json()["value"] == value
    assert client.delete("/threads/t/values/large").status_code == 204
    detail = refused(client, "PUT", "/threads/t/values/k", content=b'{"value": ' + b" " * 100_000, headers=JSON)
    assert detail == "the body is no JSON"


ROUTES = [
    "/threads", "/threads/t", "/threads/t/state", "/threads/t/explain", "/threads/t/messages", "/threads/t/messages/m",
    "/threads/t/executions", "/threads/t/executions/e", "/threads/t/values", "/threads/t/values/k", "/threads/t/inbox/i",
    "/threads/t/events", "/events", "/healthz", "/readyz", "/metrics",
]  # fmt: skip


@pytest.mark.parametrize("path", ROUTES)
def test_a_parameter_that_a_route_does_not_have_is_refused(client: httpx.Client, path: str) -> None:
    assert "nobody" in refused(client, "GET", f"{path}?nobody=1")
    refused(client, "GET", f"{path}?=1")
    refused(client, "GET", f"{path}?%ff=1")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/threads"),
        ("PATCH", "/threads/t"),
        ("DELETE", "/threads/t"),
        ("POST", "/threads/t/inputs"),
        ("POST", "/threads/t/messages"),
        ("POST", "/threads/t/responses"),
        ("POST", "/threads/t/stop"),
        ("POST", "/threads/t/resume"),
        ("PUT", "/threads/t/values/k"),
        ("DELETE", "/threads/t/values/k"),
        ("POST", "/tickets"),
    ],
)
def test_what_writes_takes_no_parameter(client: httpx.Client, method: str, path: str) -> None:
    refused(client, method, f"{path}?wait=1", json={} if method != "DELETE" else None)


@pytest.mark.parametrize(
    "path",
    [
        "/threads?limit=1&limit=1",
        "/threads?user_id=a&user_id=b",
        "/threads/t/messages?order=asc&order=desc",
        "/threads/t/messages?l%69mit=1&limit=2",
        "/threads/t/values?search=a&limit=1&search=b",
        "/threads/t/executions?offset=0&offset=",
        "/threads/t/events?after=1:0&after=1:1",
        "/threads/t/events?live=true&live=true",
        "/events?after=1&after=2",
    ],
)
def test_a_parameter_that_is_given_twice_is_refused(client: httpx.Client, path: str) -> None:
    assert "more than once" in refused(client, "GET", path)


@pytest.mark.parametrize("path", ["/threads/t/events", "/threads/t/events?after=1:0", "/events"])
def test_two_ids_to_resume_after_are_refused(client: httpx.Client, path: str) -> None:
    headers = [("last-event-id", "1:0"), ("Last-Event-ID", "1:1")]

    assert "last-event-id" in refused(client, "GET", path, headers=headers)


@pytest.mark.parametrize("query", ["nobody=1", "depth=1&depth=2", "include_silent=1&includeSilent=0", "after=%ff"])
def test_a_websocket_has_the_same_rules(opened: tuple[Served, httpx.Client], query: str) -> None:
    served, _ = opened
    with pytest.raises(InvalidStatus) as caught, connect(f"{served.ws}/threads/t/stream?{query}"):
        pass

    assert caught.value.response.status_code == 400
    assert json.loads(caught.value.response.body or b"")["code"] == "invalid_request"
