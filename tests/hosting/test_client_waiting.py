"""Tests hosting/client_waiting.py: a client waits as a handle does, over many calls, and gives up as it does."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from tests.hosting.served import Served
from treadle.actors import Runtime, Thread
from treadle.agents import ThreadState, agent
from treadle.hosting import AsyncClient, Client, client_waiting
from treadle.hosting.client_waiting import Waiting
from treadle.protocol.errors import ExecutionNotFound, InputNotFound, InputWithdrawn, InvalidInput
from treadle.protocol.receipts import ControlReceipt, Disposition, Receipt
from treadle.storage import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator

GUARD_S = 60.0


@agent
async def asks(state: ThreadState) -> None:
    await state.request("approval")


@agent
async def quick(state: ThreadState) -> None:
    pass


@pytest.fixture
def runtime() -> Iterator[Runtime]:
    with Runtime(MemoryStore(), agents=[asks, quick], drain_timeout=0) as opened:
        yield opened


@pytest.fixture
def thread(runtime: Runtime) -> Thread:
    return runtime.create_thread("asks", thread_id="t").result()


@pytest.fixture
def client(served: Served) -> Iterator[Client]:
    with Client(served.url, timeout=GUARD_S) as made:
        yield made


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Make each call short, and note how long it was to be."""
    asked: list[float] = []
    call = Waiting.call

    def noted(self: Waiting) -> Any:
        made = call(self)
        asked.append(made.patience)
        return made

    monkeypatch.setattr(client_waiting, "_POLL_S", 0.01)
    monkeypatch.setattr(Waiting, "call", noted)
    return asked


def answer_it(thread: Thread) -> None:
    """Answer the request of the execution that runs, once it asks."""
    with thread.stream(after="1:0") as frames:
        while (frame := frames.next(GUARD_S)) is not None and not thread.state().result().pending_requests:
            assert frame["type"] != "closed"
    request = thread.state().result().pending_requests[0]["request_id"]
    assert thread.respond(request, value=True).result() == "accepted"


def test_what_is_over_is_answered_at_once(runtime: Runtime, client: Client) -> None:
    thread = client.create_thread("quick", thread_id="q")
    receipt = thread.submit("go")
    inside = runtime.thread("q")

    record = thread.wait(receipt, timeout=GUARD_S)
    assert record == inside.wait(receipt).result(GUARD_S) == thread.wait(record.execution_id, timeout=0)


def test_a_wait_takes_as_many_calls_as_it_needs(client: Client, thread: Thread, short: list[float]) -> None:
    receipt = client.thread("t").submit("go")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.thread("t").wait, receipt, timeout=GUARD_S)
        while len(short) < 3:
            thread.status().result()
        assert not waiting.done()
        answer_it(thread)
        assert waiting.result(GUARD_S).status == "succeeded"
    assert set(short) == {0.01}


def test_a_queued_receipt_is_followed_into_its_execution(client: Client, thread: Thread, short: list[float]) -> None:
    first = client.thread("t").submit("go")
    receipt = client.thread("t").submit("next", on_busy="queue")
    assert receipt.execution_id is None
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.thread("t").wait, receipt, timeout=GUARD_S)
        answer_it(thread)
        assert client.thread("t").wait(first, timeout=GUARD_S).status == "succeeded"
        answer_it(thread)
        record = waiting.result(GUARD_S)
    assert (record.status, record.input_id) == ("succeeded", receipt.input_id)
    assert short


def test_when_the_time_is_up_a_wait_fails_as_a_handles_does(client: Client, thread: Thread) -> None:
    receipt = client.thread("t").submit("go")
    queued = client.thread("t").submit("next", on_busy="queue")
    for target in (receipt, receipt.execution_id, queued):
        with pytest.raises(TimeoutError, match="has not ended within"):
            client.thread("t").wait(target, timeout=0.01)  # type: ignore[arg-type]
        with pytest.raises(TimeoutError):
            client.thread("t").wait(target, timeout=0)  # type: ignore[arg-type]


def test_what_cannot_be_waited_for_is_said(client: Client, thread: Thread) -> None:
    there = client.thread("t")
    there.submit("go")
    queued = there.submit("next", on_busy="queue", input_id="i")
    there.withdraw("i")
    for target, kind in (
        (queued, InputWithdrawn),
        ("nobody", ExecutionNotFound),
        (Receipt(Disposition.QUEUED, "nobody"), InputNotFound),
        ("", InvalidInput),
        (5, InvalidInput),
        (Receipt(Disposition.BUSY, None), InvalidInput),
        (ControlReceipt(Disposition.NO_ACTIVE_EXECUTION, None, "x"), InvalidInput),
    ):
        with pytest.raises(kind):
            there.wait(target, timeout=GUARD_S)  # type: ignore[arg-type]
    for timeout in (-1, float("nan"), "1", True):
        with pytest.raises(InvalidInput):
            there.wait("x", timeout=timeout)  # type: ignore[arg-type]


def test_a_client_that_waits_gives_the_server_longer_than_usual(served: Served, thread: Thread) -> None:
    receipt = thread.submit("go").result()
    with Client(served.url, timeout=5) as client:
        request = Waiting("t", receipt, None).call().request(client._http)
        usual = Waiting("t", receipt, 0).call().request(client._http)

    assert request.extensions["timeout"] == {"connect": 5, "read": 25, "write": 5, "pool": 5}
    assert usual.extensions["timeout"]["read"] == 5


def test_the_client_that_is_awaited_waits_and_calls_tools_too(served: Served, thread: Thread) -> None:
    async def use() -> tuple[str, Receipt]:
        async with AsyncClient(served.url, timeout=GUARD_S) as client:
            there = client.thread("t")
            receipt = await there.submit("go")
            with pytest.raises(TimeoutError):
                await there.wait(receipt, timeout=0)
            tool = await there.queue_tool("fetch", {"a": 1}, input_id="tool")
            await there.interrupt(receipt.execution_id or "")
            record = await there.wait(receipt, timeout=GUARD_S)
            with pytest.raises(TimeoutError):
                await there.wait(tool, timeout=0.01)
            return record.status, tool

    status, tool = asyncio.run(use())
    assert status == "cancelled"
    assert thread.receipt("tool").result() == tool


def test_a_tool_that_is_queued_by_a_client_is_called_once(client: Client, thread: Thread) -> None:
    there = client.thread("t")
    there.stop()
    first = there.queue_tool("fetch", {"a": 1}, input_id="i")

    assert (first.disposition, first.held) == (Disposition.QUEUED, True)
    assert there.queue_tool("fetch", {"a": 1}, input_id="i") == first == there.receipt("i")
    assert there.queue_tool("fetch").input_id != there.queue_tool("fetch").input_id
    assert thread.state().result().waiting == 3
