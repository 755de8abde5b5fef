"""Holds treadle.hosting.client_async to client.py: the same surface, and the same over a real server."""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING

import pytest

from tests.hosting.cutting import CuttingProxy
from tests.hosting.served import Served
from treadle.actors import Disposition, Runtime, Withdrawal
from treadle.agents import agent
from treadle.hosting import AsyncClient, AsyncThreadClient, Client, ThreadClient
from treadle.protocol.errors import OutcomeUnknown, ThreadNotFound
from treadle.storage import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from treadle.actors import Receipt

AT_ONCE = {"thread", "events", "follow"}  # they send nothing


@agent
def silent(state: object) -> None: ...


@pytest.fixture
def served() -> Iterator[Served]:
    with Runtime(MemoryStore(), agents=[silent], loop="own") as runtime, Served(runtime) as served:
        yield served


def surface(kind: type) -> dict[str, object]:
    return {name: found for name, found in vars(kind).items() if inspect.isfunction(found) and not name.startswith("_")}


@pytest.mark.parametrize(("blocks", "awaited"), [(Client, AsyncClient), (ThreadClient, AsyncThreadClient)])
def test_both_clients_have_the_same_calls_with_the_same_arguments(blocks: type, awaited: type) -> None:
    first, second = surface(blocks), surface(awaited)
    second = {"close" if name == "aclose" else name: found for name, found in second.items()}

    assert set(first) == set(second)
    for name, found in first.items():
        one, other = inspect.signature(found), inspect.signature(second[name])
        assert one.parameters.keys() == other.parameters.keys(), name
        assert [p.default for p in one.parameters.values()] == [p.default for p in other.parameters.values()], name
        assert inspect.iscoroutinefunction(second[name]) is (name not in AT_ONCE), name


def test_every_call_reaches_the_server(served: Served) -> None:
    async def use() -> None:
        async with AsyncClient(served.url) as client:
            thread = await client.create_thread("silent", thread_id="t", user_id="mia", tags=["x"])
            receipt = await thread.submit("hello", input_id="i")
            await served.runtime.thread("t").wait(receipt)
            assert await thread.receipt("i") == receipt
            assert receipt.execution_id is not None
            assert (await thread.execution(receipt.execution_id)).outcome == "succeeded"
            said = (await thread.messages()).messages[0]
            assert await thread.message(said.id) == said
            assert await thread.message("none") is None
            assert (await thread.update_message(said.id, content="bye")).content == "bye"
            assert await thread.delete_message(said.id)
            assert (await thread.executions()).total == 1
            assert (await thread.stop()).held
            assert (await thread.queue_message("later", input_id="q")).held
            assert await thread.withdraw("q") is Withdrawal.WITHDRAWN
            assert (await thread.steer("e", "x")).disposition is Disposition.NO_ACTIVE_EXECUTION
            assert (await thread.interrupt("e")).disposition is Disposition.NO_ACTIVE_EXECUTION
            assert await thread.respond("r", 1) == "not_found"
            assert (await thread.state()).held
            assert (await thread.explain()).held
            assert (await thread.set_tags(["y"]), await thread.tags()) == (["y"], ["y"])
            await thread.set_value("k", 1)
            assert (await thread.get_value("k"), len((await thread.list_values()).values)) == (1, 1)
            assert (await thread.resume()).disposition is Disposition.NOTHING_TO_RESUME
            assert (await thread.status()).state == (await thread.summary()).status.state == "idle"
            assert await thread.terminate() == await thread.terminate()
            assert [one.id for one in (await client.threads(user_id="mia")).threads] == ["t"]
            assert (await anext(client.events()))["thread_id"] == "t"
            await client.delete_thread("t")
            with pytest.raises(ThreadNotFound):
                await client.thread("t").state()

    asyncio.run(use())


def test_an_input_whose_answer_was_lost_is_taken_once(served: Served) -> None:
    delays: list[float] = []

    async def sleep(seconds: float) -> None:
        delays.append(seconds)

    async def submit(url: str) -> Receipt:
        async with AsyncClient(url, sleep=sleep) as client:
            return await client.thread("t").submit("hello")

    async def resume(url: str) -> None:
        async with AsyncClient(url, sleep=sleep) as client:
            await client.thread("t").resume()

    served.runtime.create_thread(silent, thread_id="t").result()
    with CuttingProxy(served.port, [1, 60]) as proxy:
        receipt = asyncio.run(submit(proxy.url))
    with CuttingProxy(served.port, [1]) as proxy, pytest.raises(OutcomeUnknown):
        asyncio.run(resume(proxy.url))

    assert (receipt.disposition, len(delays)) == (Disposition.ACCEPTED, 2)
    assert served.runtime.thread("t").messages().result().total == 1
