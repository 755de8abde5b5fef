"""Holds treadle.hosting.console_page: what is served to a browser, under which rules, and what is not."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from tests.hosting.served import Served
from tests.hosting.watching import GUARD_S
from treadle.actors import Runtime
from treadle.agents import ThreadState, agent
from treadle.hosting import console_page
from treadle.hosting.app import create_app
from treadle.hosting.auth import Auth, Principal
from treadle.storage import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = Path(console_page.__file__).parent / "console"
FILES = sorted(path.name for path in FOLDER.iterdir() if path.name != "index.html")


@agent
async def quiet(state: ThreadState) -> None:
    return


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    auth = Auth({"for-all": Principal("admin")})
    with (
        Runtime(MemoryStore(), agents=[quiet]) as runtime,
        Served(runtime, auth=auth) as served,
        httpx.Client(base_url=served.url, trust_env=False, timeout=GUARD_S) as client,
    ):
        yield client


def test_the_page_needs_no_token_and_allows_nothing_but_this_server(client: httpx.Client) -> None:
    answer = client.get("/")

    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    policy = dict(rule.split(" ", 1) for rule in answer.headers["content-security-policy"].split("; "))
    assert set(policy.values()) <= {"'none'", "'self'", "'script'"}
    assert (policy["default-src"], policy["frame-ancestors"], policy["script-src"]) == ("'none'", "'none'", "'self'")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "<style" not in answer.text and not re.search(
        r"\son\w+=|style=|<script(?! type=\"module\" src=)", answer.text
    )


@pytest.mark.parametrize("name", FILES)
def test_each_file_is_served_with_its_kind_and_names_no_other_host(client: httpx.Client, name: str) -> None:
    answer = client.get(f"/console/{name}")

    kinds = {"js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8", "svg": "image/svg+xml"}
    assert answer.headers["content-type"] == kinds[name.rpartition(".")[2]]
    assert answer.content == (FOLDER / name).read_bytes()
    assert re.findall(r"https?://[^\s\"'`)]+", answer.text.replace("http://www.w3.org/2000/svg", "")) == []
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(", answer.text)


def test_the_files_that_the_page_names_are_all_there(client: httpx.Client) -> None:
    wanted = {"app.js", *re.findall(r"(?:href|src)=\"console/([^\"]+)\"", client.get("/").text)}
    for name in FILES:
        wanted |= set(re.findall(r"from \"\./([^\"]+)\"", (FOLDER / name).read_text()))

    assert sorted(wanted) == FILES


def test_a_file_that_did_not_change_is_not_sent_again(client: httpx.Client) -> None:
    first = client.get("/console/app.js")
    again = client.get("/console/app.js", headers={"if-none-match": first.headers["etag"]})
    other = client.get("/console/app.js", headers={"if-none-match": '"other"'})

    assert first.headers["cache-control"] == "no-cache"
    assert (again.status_code, again.content, other.status_code) == (304, b"", 200)


@pytest.mark.parametrize(
    "path", ["nothing.js", "index.html", "..%2Fapp.py", "%2E%2E/app.py", "app.js%00", "__init__.py"]
)
def test_nothing_else_is_served(client: httpx.Client, path: str) -> None:
    answer = client.get(f"/console/{path}", headers={"authorization": "Bearer for-all"})

    assert answer.status_code in (400, 404)
    assert answer.headers["content-type"] == "application/problem+json"


def test_the_names_of_agents_are_for_who_has_a_token(client: httpx.Client) -> None:
    refused = client.get("/console/agents")
    answered = client.get("/console/agents", headers={"authorization": "Bearer for-all"})

    assert (refused.status_code, answered.json()) == (401, {"agents": ["quiet"]})


def test_a_head_request_gets_the_same_headers_without_the_page(client: httpx.Client) -> None:
    answer = client.head("/")

    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["etag"] == client.get("/").headers["etag"]


def test_an_app_can_be_had_without_the_console_and_the_console_below_a_prefix() -> None:
    runtime = Runtime(MemoryStore(), agents=[quiet])
    without = create_app(runtime, allowed_hosts=["*"], console=False)
    outer = FastAPI()
    outer.mount("/agents", create_app(runtime, allowed_hosts=["*"]))

    assert TestClient(without).get("/").status_code == 404
    assert "console" not in str(without.openapi())
    mounted = TestClient(outer)
    assert mounted.get("/agents/").status_code == 200
    assert mounted.get("/agents/console/app.js").status_code == 200
