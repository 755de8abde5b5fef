"""Holds treadle.hosting.guard: what stands before every route, with requests as a server hands them over."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from treadle.hosting.auth import Unauthenticated
from treadle.hosting.guard import Guard, is_host_allowed
from treadle.hosting.hosted import Limits

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send

LIMITS = Limits(body_bytes=1_000, header_bytes=2_000, body_seconds=0.05)
JSON = ("content-type", "application/json")


class Inner:
    """The app behind: keeps the bodies that reached it."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            self.bodies.append(b"websocket")
            return
        message = await receive()
        assert not message.get("more_body", False)
        self.bodies.append(message["body"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})


class Call:
    """One request through a guard, and what came back."""

    def __init__(self, guard: Guard, inner: Inner) -> None:
        self.guard, self.inner = guard, inner
        self.sent: list[Message] = []

    def __call__(
        self, method: str = "GET", *headers: tuple[str, str], host: str | None = "localhost:8642", chunks: Any = (b"",),
        kind: str = "http", path: str = "/threads", **scope: object,
    ) -> Call:  # fmt: skip
        given = [(name.encode(), value.encode("latin-1")) for name, value in headers]
        if host is not None:
            given.insert(0, (b"host", host.encode("latin-1")))
        whole = {
            "type": kind, "method": method, "path": path, "headers": given, "server": ("127.0.0.1", 8642),
            "client": ("127.0.0.1", 4711), **scope,
        }  # fmt: skip
        waiting = list(chunks)

        async def receive() -> Message:
            if kind == "websocket":
                return {"type": "websocket.connect"}
            if not waiting:
                await asyncio.Event().wait()
            chunk = waiting.pop(0)
            if chunk is None:
                return {"type": "http.disconnect"}
            return {"type": "http.request", "body": chunk, "more_body": bool(waiting) or chunk == b"..."}

        async def send(message: Message) -> None:
            self.sent.append(message)

        asyncio.run(self.guard(whole, receive, send))
        return self

    @property
    def status(self) -> int:
        return self.sent[0]["status"]

    @property
    def problem(self) -> dict[str, Any]:
        headers = dict(self.sent[0]["headers"])
        assert headers[b"content-type"].startswith(b"application/problem+json")
        assert headers[b"connection"] == b"close"
        return json.loads(self.sent[1]["body"])

    @property
    def code(self) -> str:
        assert self.inner.bodies == [], "a refused request reaches nobody"
        return self.problem["code"]


def guarded(**options: Any) -> Call:
    inner = Inner()
    options.setdefault("admits", lambda connection: None)
    return Call(Guard(inner, limits=options.pop("limits", LIMITS), **options), inner)


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:8642", "[::1]:8642", "127.1.2.3"])
def test_this_machines_own_names_are_hosts(host: str) -> None:
    assert guarded()(host=host).status == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "localhost.evil.example", "evil.example:8642", "192.0.2.7", "127.0.0.1.evil.example", "[::2]"],
)
def test_a_name_that_was_rebound_to_this_machine_is_refused(host: str) -> None:
    call = guarded()(host=host)

    assert (call.status, call.code) == (421, "host_not_allowed")
    assert host not in str(call.problem)


@pytest.mark.parametrize(
    "host",
    [
        None,
        "",
        " ",
        "a b",
        "localhost:",
        "localhost:port",
        "localhost:123456",
        "u@localhost",
        "localhost/x",
        "[::1",
        "é",
    ],
)
def test_what_is_no_host_is_refused(host: str | None) -> None:
    call = guarded()(host=host)

    assert (call.status, call.code) == (400, "invalid_request")


def test_two_hosts_are_refused() -> None:
    assert guarded()("GET", ("host", "localhost")).code == "invalid_request"


def test_the_address_a_connection_arrived_at_is_a_host_and_no_other_address() -> None:
    assert guarded()(host="192.0.2.7:80", server=("192.0.2.7", 80)).status == 200
    assert guarded()(host="192.0.2.8:80", server=("192.0.2.7", 80)).status == 421


def test_a_list_of_hosts_replaces_the_own_names() -> None:
    allowed = ["desk.example", "*.wild.example"]

    assert [
        is_host_allowed(name, allowed, None) for name in ("desk.example", "a.wild.example", "a.b.wild.example")
    ] == [True] * 3
    assert [
        is_host_allowed(n, allowed, None) for n in ("wild.example", "x.desk.example", "localhost", "xwild.example")
    ] == [False] * 4
    assert is_host_allowed("anything", ["*"], None)
    assert guarded(allowed_hosts=["Desk.example"])(host="desk.EXAMPLE").status == 200


@pytest.mark.parametrize("origin", ["http://localhost:8642", "https://localhost:8642", "HTTP://LOCALHOST:8642"])
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_the_own_origin_may_do_what_it_likes(method: str, origin: str) -> None:
    assert guarded()(method, ("origin", origin)).status == 200


@pytest.mark.parametrize(
    "origin",
    [
        *(
            "http://evil.example",
            "null",
            "",
            "http://localhost:8643",
            "http://localhost",
            "http://localhost.evil.example:8642",
        ),
        *("http://[", "file://", "http://localhost:99999", "chrome-extension://localhost:8642", "localhost:8642"),
    ],
)
@pytest.mark.parametrize("method", ["POST", "DELETE", "MADE-UP"])
def test_another_origin_may_do_nothing(method: str, origin: str) -> None:
    call = guarded()(method, ("origin", origin), JSON, chunks=[b"{}"])

    assert (call.status, call.code) == (403, "origin_not_allowed")


def test_a_default_port_is_the_same_said_or_not() -> None:
    assert (
        guarded(allowed_hosts=["*"])("POST", ("origin", "https://desk.example"), host="desk.example:443").status == 200
    )
    assert (
        guarded(allowed_hosts=["*"])("POST", ("origin", "https://desk.example:443"), host="desk.example").status == 200
    )


def test_reading_needs_no_origin_since_a_browser_shows_no_answer_to_another_one() -> None:
    assert guarded()("GET", ("origin", "http://evil.example")).status == 200


def test_a_websocket_of_another_origin_is_refused_before_it_is_accepted() -> None:
    call = guarded()("GET", ("origin", "http://evil.example"), kind="websocket")

    assert call.sent == [{"type": "websocket.close", "code": 1008}]
    assert call.inner.bodies == []


def test_a_websocket_is_refused_with_a_problem_where_the_server_can_say_one() -> None:
    call = guarded()(
        "GET", ("origin", "http://evil.example"), kind="websocket", extensions={"websocket.http.response": {}}
    )

    assert [message["type"] for message in call.sent] == [
        "websocket.http.response.start",
        "websocket.http.response.body",
    ]
    assert (call.status, call.code) == (403, "origin_not_allowed")


def test_a_websocket_of_the_own_origin_passes() -> None:
    assert guarded()("GET", ("origin", "http://localhost:8642"), kind="websocket").inner.bodies == [b"websocket"]


@pytest.mark.parametrize(
    "kind", ["application/json", "Application/JSON; charset=utf-8", 'application/merge-patch+json;charset="UTF-8"']
)
def test_json_passes_whole(kind: str) -> None:
    call = guarded()("POST", ("content-type", kind), ("transfer-encoding", "chunked"), chunks=[b'{"a"', b":", b"1}"])

    assert call.inner.bodies == [b'{"a":1}']


@pytest.mark.parametrize(
    "kind",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "application/jsonx",
        "",
        "application/json; charset=latin-1",
    ],
)
def test_what_a_form_can_send_is_refused(kind: str) -> None:
    call = guarded()("POST", ("content-type", kind), ("content-length", "2"), chunks=[b"{}"])

    assert (call.status, call.code) == (415, "not_json")


def test_a_body_without_a_type_two_types_and_a_packed_one_are_refused() -> None:
    assert guarded()("POST", ("content-length", "2"), chunks=[b"{}"]).code == "not_json"
    assert guarded()("POST", JSON, JSON, ("content-length", "2"), chunks=[b"{}"]).code == "not_json"
    assert (
        guarded()("POST", JSON, ("content-encoding", "gzip"), ("content-length", "2"), chunks=[b"{}"]).code
        == "not_json"
    )


def test_a_call_without_a_body_needs_no_type() -> None:
    assert guarded()("POST", ("content-length", "0")).inner.bodies == [b""]
    assert guarded()("DELETE").inner.bodies == [b""]


def test_a_body_that_says_it_is_too_large_is_not_read() -> None:
    call = guarded()("POST", JSON, ("content-length", "1001"), chunks=[])

    assert (call.status, call.code) == (413, "limit_exceeded")
    assert [call.problem[key] for key in ("limit", "maximum", "met")] == ["body_bytes", 1_000, 1_001]


def test_a_body_that_becomes_too_large_is_read_no_further() -> None:
    call = guarded()(
        "POST", JSON, ("transfer-encoding", "chunked"), chunks=[b"x" * 600, b"x" * 600, b"never read", b""]
    )

    assert (call.status, call.code) == (413, "limit_exceeded")


def test_a_body_at_the_limit_passes() -> None:
    assert guarded()("POST", JSON, ("content-length", "1000"), chunks=[b"x" * 1_000]).status == 200


@pytest.mark.parametrize("length", ["-1", "1e3", "x", "1 2", "", "٣", "9" * 30])
def test_what_is_no_length_is_refused(length: str) -> None:
    given = ("content-length", length.encode().decode("latin-1"))

    assert guarded()("POST", JSON, given).code == "invalid_request"


def test_a_slow_body_is_refused_in_time() -> None:
    call = guarded()("POST", JSON, ("content-length", "9"), chunks=[b"..."])

    assert (call.status, call.code) == (408, "request_timeout")
    assert call.problem["limit"] == "body_seconds"


def test_a_client_that_leaves_before_its_body_is_there_is_not_answered() -> None:
    call = guarded()("POST", JSON, ("content-length", "9"), chunks=[b"...", None])

    assert (call.sent, call.inner.bodies) == ([], [])


def test_headers_beyond_the_limit_are_refused() -> None:
    call = guarded()("GET", ("x-long", "x" * 2_000))

    assert (call.status, call.code, call.problem["limit"]) == (431, "limit_exceeded", "header_bytes")


def test_many_small_headers_count_together() -> None:
    assert guarded()("GET", *[(f"x-{number}", "x") for number in range(300)]).status == 431


def test_a_path_with_a_nul_is_refused() -> None:
    assert guarded()(path="/threads/a\0b").code == "invalid_request"


def test_the_body_of_somebody_unknown_is_not_read() -> None:
    def nobody(_connection: object) -> None:
        raise Unauthenticated("who are you?")

    call = guarded(admits=nobody)("POST", JSON, ("content-length", "9"), chunks=[])

    assert (call.status, call.code) == (401, "unauthenticated")


def test_who_calls_without_a_body_is_for_the_route_to_ask() -> None:
    def nobody(_connection: object) -> None:
        raise Unauthenticated("who are you?")

    assert guarded(admits=nobody)("GET").status == 200


def test_lifespan_passes() -> None:
    seen: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope["type"])

    asyncio.run(Guard(app, limits=LIMITS)({"type": "lifespan"}, None, None))  # type: ignore[arg-type]

    assert seen == ["lifespan"]
