"""Tests hosting/paths.py: one thing has one path, decoded once, and ids may hold slashes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route, Router

from treadle.hosting.paths import Paths


async def ids(request: Any) -> PlainTextResponse:
    return PlainTextResponse(repr(sorted(request.path_params.items())))


ROUTES = [Route("/t/{one:id}", ids), Route("/t/{one:id}/v/{rest:rest}", ids), Route("/t/{one:id}/s", ids)]
APP = Paths(Router(ROUTES, redirect_slashes=False))


def asked(app: Any, raw: bytes, **more: Any) -> tuple[int, str]:
    """Ask as a server does, which decodes the path without looking."""
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    path = raw.decode("latin-1")
    scope = {
        "type": "http", "method": "GET", "path": path, "raw_path": raw, "root_path": "", "headers": [], "query_string": b"", **more,
    }  # fmt: skip
    asyncio.run(app(scope, None, send))
    return sent[0]["status"], sent[1]["body"].decode()


@pytest.mark.parametrize(
    ("raw", "found"),
    [
        (b"/t/a", [("one", "a")]),
        (b"/t/a%2Fb", [("one", "a/b")]),
        (b"/t/a%2fb/s", [("one", "a/b")]),
        (b"/t/%2F", [("one", "/")]),
        (b"/t/a%252Fb", [("one", "a%2Fb")]),
        (b"/t/..", [("one", "..")]),
        (b"/t/%2E%2E%2F%2e%2e", [("one", "../..")]),
        (b"/t/a/v/b/c%2Fd", [("one", "a"), ("rest", "b/c/d")]),
        (b"/t/a/v/../../x", [("one", "a"), ("rest", "../../x")]),
        (b"/t/a/v/%C3%A9", [("one", "a"), ("rest", "é")]),
        (b"/t/a%3Fb", [("one", "a?b")]),
        (b"/t/a?b=%ff", [("one", "a")]),
    ],
)
def test_a_path_is_decoded_once_and_an_encoded_slash_divides_nothing(raw: bytes, found: list[tuple[str, str]]) -> None:
    assert asked(APP, raw) == (200, repr(found))


@pytest.mark.parametrize("raw", [b"/t/%ff", b"/t/%C3", b"/t/%ED%A0%80", b"/t/a/v/\xff"])
def test_a_path_that_is_no_text_is_refused(raw: bytes) -> None:
    status, said = asked(APP, raw)

    assert (status, "invalid_path" in said) == (400, True)


@pytest.mark.parametrize("raw", [b"/t", b"/t/", b"/t//s", b"/t/a/v/", b"//t/a", b"/t/a%2Fs/s/s"])
def test_an_id_is_not_empty_and_is_one_segment(raw: bytes) -> None:
    assert asked(APP, raw)[0] == 404


def test_the_slashes_of_a_mount_are_its_own() -> None:
    above = Router([Mount("/a b/c", app=APP)])

    assert asked(above, b"/a%20b/c/t/x%2Fy", path="/a b/c/t/x/y") == (200, "[('one', 'x/y')]")
    assert asked(above, b"/a%20b/c/t/%ff", path="/a b/c/t/\ufffd")[0] == 400


def test_what_is_no_request_goes_through() -> None:
    seen = []

    async def app(scope: Any, _receive: Any, _send: Any) -> None:
        seen.append(scope)

    asyncio.run(Paths(app)({"type": "lifespan"}, None, None))  # type: ignore[arg-type]
    # Not every server keeps the bytes.
    asyncio.run(Paths(app)({"type": "http", "path": "/t/a"}, None, None))  # type: ignore[arg-type]
    assert seen == [{"type": "lifespan"}, {"type": "http", "path": "/t/a"}]
