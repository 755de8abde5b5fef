"""Holds treadle.hosting.outlet: batches, quiet, deadlines, and what the system does about a silent client."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import TYPE_CHECKING

import pytest

from treadle.actors import Runtime
from treadle.agents import ThreadState, agent
from treadle.hosting.outlet import batches, bound_writes, close_when, failure_frame, written
from treadle.protocol.errors import CorruptRecord, CursorConflict, RuntimeClosed, StoreClosed, TreadleError
from treadle.storage import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from treadle.actors import Thread


@agent
async def nothing(state: ThreadState) -> None:
    return


@pytest.fixture
def thread() -> Iterator[Thread]:
    with Runtime(MemoryStore(), agents=[nothing]) as runtime:
        yield runtime.create_thread(nothing, thread_id="t").result()


def test_what_is_there_comes_together_and_in_bounds(thread: Thread) -> None:
    for _ in range(200):
        thread.inject_message(role="user", content="x" * 100).result()

    async def read() -> list[list[str]]:
        found: list[list[str]] = []
        async for frames in batches(thread.stream("1:0")):
            found.append([frame["cursor"] for frame in frames])
            if sum(map(len, found)) == 202:
                break
        return found

    found = asyncio.run(read())
    assert max(map(len, found)) == 64
    # The snapshot, with the head for a cursor, then the journal.
    assert [cursor for batch in found for cursor in batch] == ["1:201", *(f"1:{n}" for n in range(1, 202))]


def test_readers_that_are_behind_take_turns_one_batch_in_each_round_of_the_loop(thread: Thread) -> None:
    for _ in range(400):
        thread.inject_message(role="user", content="x").result()
    rounds: list[int] = []

    async def read(now: list[int]) -> int:
        count = 0
        async for frames in batches(thread.stream("1:0")):
            if count:  # the first batch of a reader is read before it is known to be behind
                rounds.append(now[0])
            count += len(frames)
            if count >= 402:
                break
        return count

    async def main() -> list[int]:
        now = [0]

        async def tick() -> None:
            while True:
                now[0] += 1
                await asyncio.sleep(0)

        beside = asyncio.create_task(tick())
        counts = await asyncio.gather(*(read(now) for _ in range(8)))
        beside.cancel()
        return counts

    assert asyncio.run(main()) == [402] * 8
    assert len(rounds) > 40
    assert len(set(rounds)) == len(rounds)


def test_large_frames_make_short_batches(thread: Thread) -> None:
    for _ in range(10):
        thread.inject_message(role="user", content="x" * 40_000).result()

    async def read() -> list[int]:
        sizes: list[int] = []
        async for frames in batches(thread.stream("1:1")):
            sizes.append(len(frames))
            if sum(sizes) == 11:
                break
        return sizes

    assert max(asyncio.run(read())[1:]) == 2


def test_quiet_is_told_and_nothing_is_lost_by_it(thread: Thread) -> None:
    async def read() -> list[object]:
        told: list[object] = []
        loop = asyncio.get_running_loop()
        async for frames in batches(thread.stream(), lambda: loop.time() + 0.01):
            told.append([frame["type"] for frame in frames])
            if len(told) == 3:
                await thread.inject_message(role="user", content="hi")
            if told[-1] == ["MESSAGE_ADDED"]:
                break
        return told

    told = asyncio.run(read())
    assert told[:3] == [["thread_status"], [], []]
    assert [batch for batch in told[3:] if batch] == [["MESSAGE_ADDED"]]


def test_an_error_comes_after_the_frames_before_it(thread: Thread, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = thread.stream("1:0")
    broken = CorruptRecord("bad")

    def next_(timeout: float | None = None) -> None:
        raise broken

    sizes: list[int] = []

    async def read() -> None:
        async for frames in batches(stream):
            sizes.append(len(frames))  # noqa: PERF401 - what came before the error counts

    monkeypatch.setattr(type(stream), "next", lambda _self, timeout=None: next_(timeout))
    with pytest.raises(CorruptRecord):
        asyncio.run(read())
    assert sizes == [1]


def test_a_feed_ends_when_what_it_is_for_has_ended(thread: Thread) -> None:
    async def read() -> int:
        feed, ended, count = thread.stream(), asyncio.Event(), 0

        async def over() -> None:
            await ended.wait()

        task = close_when(over, feed)
        async for frames in batches(feed):
            count += len(frames)
            ended.set()
        await task
        return count

    assert asyncio.run(read()) == 1


def test_a_write_that_is_not_taken_in_time_is_given_up() -> None:
    async def write() -> tuple[bool, bool, bool]:
        async def at_once() -> None:
            return

        async def gone() -> None:
            raise ConnectionResetError

        never = asyncio.Event()
        return (
            await written(at_once(), 1),
            await written(gone(), 1),
            await written(asyncio.wait_for(never.wait(), 9), 0.01),
        )

    assert asyncio.run(write()) == (True, False, False)


def test_the_system_ends_connections_that_take_nothing() -> None:
    with socket.socket() as listening, socket.socket() as client:
        bound_writes(listening, 7.5)
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        client.connect(listening.getsockname())
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 7500


def test_what_is_wrong_with_the_store_is_for_the_log() -> None:
    shown = failure_frame(CorruptRecord("record 00ff of table journal is corrupt: secret", key="00ff"))
    told = failure_frame(CursorConflict("the journal goes on in another generation"))

    assert (shown["type"], shown["code"]) == ("stream_failed", "corrupt_record")
    assert "secret" not in json.dumps(shown)
    assert told["detail"] == "the journal goes on in another generation"


@pytest.mark.parametrize("error", [RuntimeClosed("the runtime is closed"), StoreClosed("the store is closed")])
def test_a_stream_whose_server_went_is_told_so_and_that_something_is_missing(error: TreadleError) -> None:
    assert dict(failure_frame(error)) == {"type": "closed", "complete": False}
