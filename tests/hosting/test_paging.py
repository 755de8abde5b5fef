"""Tests hosting/paging.py: a query is text, judged by the read; and a page is bounded by bytes as well as by its limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
import pytest

from tests.hosting.watching import GUARD_S
from treadle.actors import Runtime
from treadle.agents import ThreadState, agent
from treadle.hosting.client import Client
from treadle.hosting.paging import MessagesQuery, ThreadsQuery
from treadle.protocol.limits import PAGE_BYTES
from treadle.storage import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.hosting.served import Served


@agent
async def fails(state: ThreadState) -> None:
    raise ValueError("é" * 8_000)


@pytest.fixture
def runtime() -> Iterator[Runtime]:
    with Runtime(MemoryStore(), agents=[fails]) as opened:
        yield opened


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ({"limit": "5", "offset": "-1"}, {"limit": 5, "offset": -1}),
        ({"limit": "5.0"}, {"limit": "5.0"}),
        ({"limit": ""}, {"limit": ""}),
        ({"limit": "\u0665"}, {"limit": "\u0665"}),
        ({"limit": "1_0"}, {"limit": "1_0"}),
        ({"limit": "9" * 50}, {"limit": "9" * 50}),
        ({"include_silent": "true", "max_depth": "1"}, {"include_silent": True, "max_depth": 1}),
        ({"include_silent": "1"}, {"include_silent": "1"}),
        ({"before": "5"}, {"before": "5"}),
        ({}, {}),
    ],
)
def test_numbers_and_flags_are_read_where_they_are_some(given: dict[str, str], read: dict[str, object]) -> None:
    assert MessagesQuery.model_validate(given).given() == read


def test_ids_that_are_digits_stay_text() -> None:
    assert ThreadsQuery(after="7", user_id="8").given() == {"after": "7", "user_id": "8"}


def test_a_page_of_messages_over_http_is_bounded_by_bytes_and_goes_on_behind(runtime: Runtime, served: Served) -> None:
    thread = runtime.create_thread("fails", thread_id="t").result()
    texts = [f"{number} " + "é" * 500_000 for number in range(10)]
    for text in texts:
        thread.inject_message("assistant", text).result()

    with Client(served.url, timeout=GUARD_S) as client:
        read: list[str | None] = []
        pages, more = 0, True
        while more:
            page = client.thread("t").messages(limit=1_000, offset=len(read), order="asc")
            assert sum(len((message.content or "").encode()) for message in page.messages) <= PAGE_BYTES
            read += [message.content for message in page.messages]
            pages, more = pages + 1, page.has_more
        newest = client.thread("t").messages(limit=1_000)
        older = client.thread("t").messages(limit=1_000, before=newest.messages[0].id)
    answer = httpx.get(f"{served.url}/threads/t/messages?limit=1000", timeout=GUARD_S)

    assert (read, pages) == (texts, 3)
    assert [message.content for message in newest.messages] == texts[6:]
    assert newest.has_more
    assert [message.content for message in older.messages] == texts[2:6]
    assert len(answer.content) < PAGE_BYTES + (1 << 20)
    assert len(thread.messages(limit=1_000).result().messages) == 10


def test_a_page_is_bounded_by_all_that_messages_hold(runtime: Runtime, served: Served) -> None:
    thread = runtime.create_thread("fails", thread_id="t").result()
    metadata = {"parts": ["x" * 500_000]}
    attachments = [{"name": "a", "data": "y" * 900_000}]
    for _ in range(2):
        thread.inject_message("user", "z" * (1 << 20), metadata=metadata, attachments=attachments).result()

    page = httpx.get(f"{served.url}/threads/t/messages", timeout=GUARD_S).json()

    assert (len(page["messages"]), page["total"], page["has_more"]) == (1, 2, True)


@pytest.mark.slow
def test_a_page_of_executions_over_http_is_bounded_by_bytes(runtime: Runtime, served: Served) -> None:
    thread = runtime.create_thread("fails", thread_id="t").result()
    for _ in range(600):
        thread.wait(thread.submit("go").result()).result(GUARD_S)

    first = httpx.get(f"{served.url}/threads/t/executions?limit=1000", timeout=GUARD_S)
    page = first.json()
    rest = httpx.get(
        f"{served.url}/threads/t/executions?limit=1000&offset={len(page['executions'])}", timeout=GUARD_S
    ).json()

    assert page["has_more"]
    assert len(first.content) < PAGE_BYTES + (1 << 20)
    assert len({one["execution_id"] for one in page["executions"] + rest["executions"]}) == 600
