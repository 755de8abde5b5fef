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
from treadle.hosting import AsyncClient, Client
from treadle.storage import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator

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


@pytest.fixture
def served(runtime: Runtime) -> Iterator[Served]:
    with Served(runtime) as served:
        yield served


def write(runtime: Runtime, count: int) -> None:
    thread = runtime.thread("t")
    for number in range(count):
        thread.set_value("k", f"{number} {TEXT}").result(30)


def expected(runtime: Runtime) -> list[tuple[str, object]]:
    """Return what the journal holds."""
    after = None
    found: list[tuple[str, object]] = []
    for event in runtime.thread("t").events(after):
        wire = event.to_wire()
        found.append((wire["cursor"], wire.get("value")))
        if event.cursor == runtime.thread("t").state().result().cursor:
            return found
    raise AssertionError


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
                seen.append((event["cursor"], event.get("value")))
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
                seen.append((event["cursor"], event.get("value")))
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
