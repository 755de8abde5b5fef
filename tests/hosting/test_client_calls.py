"""Holds treadle.hosting.client_calls: what is sent, what is sent again, and how an answer becomes a result."""

from __future__ import annotations

import json
import math
from typing import Any

import httpx
import pytest

from treadle.hosting import AsyncClient, Client
from treadle.hosting.client_calls import Call, Repeats, check_stream, new_id, options, path, stream_request
from treadle.hosting.client_following import Backoff
from treadle.protocol.errors import (
    InternalError,
    InvalidInput,
    OutcomeUnknown,
    RuntimeClosed,
    ThreadNotFound,
    Unavailable,
)
from treadle.protocol.ids import check_id

URL = "http://127.0.0.1:1/desk"
STEADY = Backoff(first=1.0, attempts=3, chance=lambda: 1.0)
READ = Call("GET", "/threads", dict, repeatable=True)
WRITE = Call("POST", "/threads", dict, body={})
WITH_ID = Call("POST", "/threads", dict, body={}, repeatable=True, names={"input_id": "i"})


def answer(status: int, body: bytes = b"{}") -> httpx.Response:
    return httpx.Response(status, content=body, request=httpx.Request("GET", URL))


def test_a_segment_may_hold_anything_and_stays_one_segment() -> None:
    assert path("threads", "a/b ?#%é", ".", "..", "a.b") == "/threads/a%2Fb%20%3F%23%25%C3%A9/%2E/%2E%2E/a.b"
    with httpx.Client(**options(URL, None, 1.0)) as client:
        request = Call("GET", path("threads", "..", "a/b"), dict).request(client)
    assert request.url.raw_path == b"/desk/threads/%2E%2E/a%2Fb"
    for empty in ("", None, 5):
        with pytest.raises(InvalidInput):
            path("threads", empty)  # type: ignore[arg-type]


def test_a_query_leaves_out_what_was_not_given() -> None:
    with httpx.Client(**options(URL, "secret", 1.0)) as client:
        request = Call("GET", "/x", dict, {"a": None, "b": True, "c": 0, "d": "é&"}).request(client)

    assert request.url.query == b"b=true&c=0&d=%C3%A9%26"
    assert request.headers["authorization"] == "Bearer secret"


@pytest.mark.parametrize("value", [{1: 2}, {"a": object()}, {"a": float("nan")}, {"a": {"b", "c"}}])
def test_what_is_no_json_is_refused_before_it_is_sent(value: dict[str, object]) -> None:
    with httpx.Client(**options(URL, None, 1.0)) as client, pytest.raises(InvalidInput) as caught:
        Call("POST", "/x", dict, body={"value": value}).request(client)

    assert caught.value.code == "invalid_value"


@pytest.mark.parametrize("url", ["", "x", "127.0.0.1:80", "ftp://h", "http://", "http://h:port", None, 5])
def test_an_address_is_one(url: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        options(url, None, 1.0)
    assert caught.value.code == "invalid_url"


@pytest.mark.parametrize("token", ["", " ", "a\nb", "é", 5])
def test_a_token_is_what_a_header_can_carry(token: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        options(URL, token, 1.0)
    assert caught.value.code == "invalid_option"
    assert "a\nb" not in str(caught.value)


@pytest.mark.parametrize("timeout", ["5", 0, -1, math.nan, math.inf, 10**400, True, [], b"1"], ids=repr)
def test_a_time_limit_is_seconds_above_0(timeout: Any) -> None:
    with pytest.raises(InvalidInput, match="timeout is seconds above 0") as caught:
        options(URL, None, timeout)
    assert caught.value.code == "invalid_timeout"


@pytest.mark.parametrize("timeout", [1, 0.5, None, httpx.Timeout(5.0, connect=1.0)], ids=repr)
def test_a_time_limit_may_also_be_one_of_httpx_s(timeout: Any) -> None:
    assert options(URL, None, timeout)["timeout"] == timeout


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize("name", ["repeats", "reconnects"])
@pytest.mark.parametrize("wrong", [3, None, (0.25, 5.0, 3)], ids=repr)
def test_what_is_no_backoff_is_refused_where_the_client_is_made(kind: Any, name: str, wrong: Any) -> None:
    with pytest.raises(InvalidInput, match=rf"{name} is a Backoff\(attempts=\.\.\.\)") as caught:
        kind(URL, **{name: wrong})
    assert caught.value.code == "invalid_option"


def test_a_proxy_of_the_environment_is_not_asked_for_this_machine() -> None:
    asked = [
        options(f"http://{host}", None, 1.0)["trust_env"] for host in ("localhost", "127.0.0.9", "[::1]", "example.org")
    ]

    assert asked == [False, False, False, True]


def test_an_answer_becomes_a_result_or_the_error_that_it_stands_for() -> None:
    busy = Call("POST", "/x", lambda found: found["disposition"], refusals=frozenset({409}))
    problem = json.dumps({"code": "thread_not_found", "detail": "no"}).encode()

    assert READ.answered(answer(200, b'{"a": 1}')) == {"a": 1}
    assert READ.answered(answer(204, b"")) == {}
    assert busy.answered(answer(409, b'{"disposition": "busy"}')) == "busy"
    with pytest.raises(ThreadNotFound):
        busy.answered(answer(409, problem))
    with pytest.raises(ThreadNotFound):
        READ.answered(answer(404, problem))


@pytest.mark.parametrize("body", [b"[]", b"<html>", b"null", b"\xff", b'{"other": 1}'])
def test_a_success_that_is_none_of_ours_is_not_taken_for_one(body: bytes) -> None:
    with pytest.raises(InternalError):
        Call("GET", "/x", lambda found: found["disposition"]).answered(answer(200, body))


def test_a_call_is_sent_again_where_that_is_harmless() -> None:
    gone, unreachable = httpx.ReadError("gone"), httpx.ConnectError("refused")

    assert [Repeats(call, STEADY, URL).after(gone) for call in (READ, WITH_ID)] == [1.0, 1.0]
    assert [Repeats(call, STEADY, URL).after(unreachable) for call in (READ, WITH_ID, WRITE)] == [1.0, 1.0, 1.0]
    with pytest.raises(OutcomeUnknown):
        Repeats(WRITE, STEADY, URL).after(gone)


def test_a_call_that_was_sent_often_enough_says_what_may_have_become_of_it() -> None:
    gone, unreachable = httpx.ReadTimeout("slow"), httpx.ConnectError("refused")
    repeats = Repeats(WITH_ID, STEADY, URL)

    assert [repeats.after(gone), repeats.after(unreachable)] == [1.0, 2.0]
    # The last attempt did not arrive, but the first may have.
    with pytest.raises(OutcomeUnknown) as caught:
        repeats.after(unreachable)
    assert caught.value.details == {"url": URL, "input_id": "i"}

    reads = Repeats(READ, STEADY, URL)
    reads.after(gone)
    reads.after(gone)
    with pytest.raises(Unavailable) as read:
        reads.after(gone)
    assert type(read.value) is Unavailable


def test_a_stream_is_asked_for_with_patience_for_quiet_alone() -> None:
    with httpx.Client(**options(URL, None, 7.0)) as client:
        request = stream_request(client, "/events", {"after": "1:2"})

    assert request.extensions["timeout"] == {"connect": 7.0, "read": 45.0, "write": 7.0, "pool": 7.0}
    assert (request.url.query, request.headers["accept"]) == (b"after=1%3A2", "text/event-stream")
    with pytest.raises(InternalError):
        check_stream(answer(200))


def test_a_client_that_is_closed_says_so_as_a_runtime_does() -> None:
    client = httpx.Client(**options(URL, None, 1.0))
    client.close()

    for use in (lambda: READ.request(client), lambda: stream_request(client, "/events", {})):
        with pytest.raises(RuntimeClosed):
            use()


@pytest.mark.parametrize("token", ["", " ", "é", "a\nb"])
def test_a_token_that_fits_in_no_header_is_refused_at_once(token: str) -> None:
    with pytest.raises(InvalidInput, match="not empty; None is none"):
        options(URL, token, 1.0)


def test_ids_that_are_made_are_ids_and_differ() -> None:
    made = {new_id() for _ in range(100)}

    assert len(made) == 100
    assert all(check_id("input_id", one) for one in made)
