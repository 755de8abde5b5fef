"""Holds treadle.hosting.client_streams: every event once and in order, over whatever a connection does."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest

from tests.hosting.cutting import CuttingProxy
from tests.hosting.served import Served
from treadle.actors import Runtime
from treadle.agents import agent
from treadle.hosting import AsyncClient, Backoff, Client
from treadle.protocol.errors import CursorConflict, InvalidInput, ThreadNotFound, Unavailable
from treadle.storage import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from treadle.protocol.values import JsonObject

EVENTS = 1_000
# In the status line, in the headers, inside and behind the snapshot, and anywhere in events.
CUTS = [1, 150, 600, 900, 1_100, *(1_400 + 331 * (n % 11) for n in range(45))]
TEXT = "\u2028 é \x85 🙂 \r\n"  # what splits lines for some, and takes several bytes


@agent
def silent(state: object) -> None: ...


@pytest.fixture
def runtime() -> Iterator[Runtime]:
    with Runtime(MemoryStore(), agents=[silent], loop="own") as runtime:
        yield runtime


def write(runtime: Runtime, count: int) -> None:
    thread = runtime.thread("t")
    for number in range(count):
        thread.inject_message("user", f"{number} {TEXT}").result(60)


def expected(runtime: Runtime) -> list[JsonObject]:
    """Return what the journal holds, as frames."""
    head = runtime.thread("t").state().result().cursor
    found = []
    for event in runtime.thread("t").events():
        found.append(event.to_wire())
        if event.cursor == head:
            return found
    raise AssertionError("the journal ends before its head")


@pytest.mark.slow
def test_a_thousand_events_over_fifty_cut_connections_come_once_each(runtime: Runtime, served: Served) -> None:
    """Scenarios 24, 25."""
    runtime.create_thread(silent, thread_id="t").result()
    write(runtime, EVENTS // 2)
    writer = threading.Thread(target=write, args=(runtime, EVENTS // 2 - 1))
    delays: list[float] = []
    seen = []
    with CuttingProxy(served.port, CUTS) as proxy, Client(proxy.url, sleep=delays.append) as client:
        with client.thread("t").events() as events:
            for event in events:
                seen.append(event)
                assert events.cursor == event["cursor"]
                if len(seen) == 100:
                    writer.start()
                if len(seen) == EVENTS:
                    break
        writer.join()
        assert (proxy.cut, proxy.connections) == (50, 51)

    assert seen == expected(runtime)
    assert len(delays) == 50
    assert max(delays) <= 5.0


@pytest.mark.slow
def test_a_thousand_events_over_fifty_cut_connections_come_once_each_where_they_are_awaited(
    runtime: Runtime, served: Served
) -> None:
    """Scenarios 24, 25."""
    runtime.create_thread(silent, thread_id="t").result()
    write(runtime, EVENTS // 2)
    writer = threading.Thread(target=write, args=(runtime, EVENTS // 2 - 1))
    delays: list[float] = []
    seen = []

    async def sleep(seconds: float) -> None:
        delays.append(seconds)

    async def follow(url: str) -> None:
        async with AsyncClient(url, sleep=sleep) as client, client.thread("t").events() as events:
            async for event in events:
                seen.append(event)
                if len(seen) == 100:
                    writer.start()
                if len(seen) == EVENTS:
                    return

    with CuttingProxy(served.port, CUTS) as proxy:
        asyncio.run(follow(proxy.url))
        writer.join()
        assert (proxy.cut, proxy.connections) == (50, 51)

    assert seen == expected(runtime)
    assert len(delays) == 50


def test_a_stream_that_does_not_follow_ends_at_what_was_the_head(runtime: Runtime, served: Served) -> None:
    runtime.create_thread(silent, thread_id="t").result()
    write(runtime, 5)

    with Client(served.url) as client:
        events = client.thread("t").events("1:2", follow=False)
        first = next(events)
        write(runtime, 3)
        seen = [first, *events]

        assert list(client.thread("t").events("1:9", follow=False)) == []

    assert [event["cursor"] for event in seen] == ["1:3", "1:4", "1:5", "1:6"]


def test_a_thread_that_goes_ends_its_stream_and_one_that_never_was_fails_it(runtime: Runtime, served: Served) -> None:
    runtime.create_thread(silent, thread_id="t").result()
    with Client(served.url) as client:
        events = client.thread("t").events()
        assert next(events)["type"] == "THREAD_CREATED"
        runtime.delete_thread("t").result()
        assert [event["type"] for event in events] in ([], ["THREAD_TERMINATED"])

        with pytest.raises(ThreadNotFound):
            next(client.thread("none").events())
        with pytest.raises(InvalidInput) as caught:
            client.thread("t").events("0:1")
        assert caught.value.code == "invalid_cursor"


def test_a_cursor_that_no_journal_has_is_said_and_not_asked_for_again(runtime: Runtime, served: Served) -> None:
    runtime.create_thread(silent, thread_id="t").result()
    with CuttingProxy(served.port) as proxy, Client(proxy.url) as client:
        with pytest.raises(CursorConflict) as caught:
            next(client.thread("t").events("1:7"))

        assert caught.value.details["head"] == "1:1"
        assert proxy.connections == 1


def test_a_server_that_stays_away_is_given_up_after_so_many_attempts(runtime: Runtime, served: Served) -> None:
    delays: list[float] = []
    with CuttingProxy(served.port, [0] * 9) as proxy:
        reconnects = Backoff(first=1.0, most=4.0, attempts=5, chance=lambda: 1.0)
        with Client(proxy.url, reconnects=reconnects, sleep=delays.append) as client, pytest.raises(Unavailable):
            next(client.thread("t").events())

    assert delays == [1.0, 2.0, 4.0, 4.0]


def test_the_status_of_all_threads_comes_once_per_change_over_cut_connections(runtime: Runtime, served: Served) -> None:
    for number in range(60):
        runtime.create_thread(silent, thread_id=f"t{number}").result()
    seen = []
    with (
        CuttingProxy(served.port, [900, 1_700, 2_500, 3_300]) as proxy,
        Client(proxy.url, sleep=lambda _: None) as client,
    ):
        for change in client.events():
            seen.append((change["change"], change["thread_id"]))
            if change["thread_id"] == "t59":
                break
        assert proxy.cut == 4

    assert seen == sorted(set(seen))
    assert {thread for _, thread in seen} == {f"t{number}" for number in range(60)}


def test_a_wait_that_was_cancelled_loses_no_event(runtime: Runtime, served: Served) -> None:
    runtime.create_thread(silent, thread_id="t").result()

    async def at_once(_seconds: float) -> None: ...

    async def follow() -> list[str]:
        async with AsyncClient(served.url, sleep=at_once) as client, client.thread("t").events() as events:
            seen = [(await anext(events))["cursor"]]
            for turns in range(12):
                waiting = asyncio.ensure_future(anext(events))
                for _ in range(turns):
                    await asyncio.sleep(0)
                waiting.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waiting
                await runtime.thread("t").inject_message("user", "x")
                seen.append((await anext(events))["cursor"])
            return seen

    assert asyncio.run(follow()) == [f"1:{number}" for number in range(1, 14)]


def test_what_is_shown_live_comes_where_it_is_asked_for_and_moves_no_cursor(runtime: Runtime, served: Served) -> None:
    thread = runtime.create_thread(silent, thread_id="t").result()
    with Client(served.url) as client:
        events = client.thread("t").events(live=True)
        assert next(events)["type"] == "THREAD_CREATED"
        thread.emit("typing", {"who": "anna"})
        shown = next(events)
        thread.inject_message("user", "x").result()

        assert (shown["event"], shown["data"], events.cursor) == ("typing", {"who": "anna"}, "1:1")
        assert next(events)["cursor"] == "1:2"
        events.close()
        assert list(events) == []
