from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from treadle.actors import Runtime
from treadle.agents import agent
from treadle.agents.transcript import Transcript
from treadle.storage import MemoryStore

if TYPE_CHECKING:
    from treadle.actors.message_history import MessageHistory
    from treadle.agents import ThreadState
    from treadle.protocol.messages import Message


class Counted:
    """A thread's history that counts the messages that are taken from it."""

    def __init__(self, history: MessageHistory) -> None:
        self._history = history
        self.taken = 0

    def mark(self) -> tuple[int, int]:
        return self._history.mark()

    def between(self, low: int, high: int) -> list[Message]:
        found = self._history.between(low, high)
        self.taken += len(found)
        return found


def contents(messages: object) -> list[str]:
    return [one.content for one in messages]  # type: ignore[attr-defined]


def test_a_look_reads_only_what_is_new() -> None:
    """Contract F.2 row 8: history is looked at anew before each step, at the cost of what is new."""
    looks: list[tuple[int, int]] = []

    @agent
    async def reader(state: ThreadState) -> None:
        history = Counted(state._execution.history)  # type: ignore[union-attr]
        transcript = Transcript(history)  # type: ignore[arg-type]
        for number in range(3):
            history.taken = 0
            looks.append((len(await transcript.messages()), history.taken))
            await state.inject_message("assistant", f"new {number}")

    async def main() -> None:
        async with Runtime(MemoryStore(), agents=[reader]) as runtime:
            thread = await runtime.create_thread("reader")
            await asyncio.gather(*(thread.inject_message("user", str(n)) for n in range(450)))
            await thread.wait(await thread.submit("go"))

    asyncio.run(main())
    assert looks == [(451, 451), (452, 1), (453, 1)]


def test_only_the_newest_are_read_where_only_they_are_asked_for() -> None:
    looks: list[tuple[list[str], int]] = []

    @agent
    async def reader(state: ThreadState) -> None:
        history = Counted(state._execution.history)  # type: ignore[union-attr]
        transcript = Transcript(history)  # type: ignore[arg-type]
        for newest in (2, 2, 4, None, 3):
            history.taken = 0
            found = contents(await transcript.messages(newest))
            looks.append((found if newest else [str(len(found))], history.taken))
            await state.inject_message("assistant", "new")

    async def main() -> None:
        async with Runtime(MemoryStore(), agents=[reader]) as runtime:
            thread = await runtime.create_thread("reader")
            await asyncio.gather(*(thread.inject_message("user", str(n)) for n in range(250)))
            await thread.wait(await thread.submit("go"))

    asyncio.run(main())
    assert looks == [
        (["249", "go"], 2),
        (["go", "new"], 1),
        (["249", "go", "new", "new"], 1),
        (["254"], 250),
        (["new", "new", "new"], 1),
    ]


@pytest.mark.parametrize("edit", ["update", "delete"])
def test_an_edit_of_what_was_read_is_seen_at_the_next_look(edit: str) -> None:
    seen: list[list[str]] = []

    @agent
    async def reader(state: ThreadState) -> None:
        assert state.execution is not None
        transcript = Transcript(state._execution.history)  # type: ignore[union-attr, arg-type]
        seen.append(contents(await transcript.messages()))
        if edit == "update":
            await state.update_message(first.id, content="changed")
        else:
            await state.delete_message(first.id)
        await state.inject_message("assistant", "new")
        seen.append(contents(await transcript.messages()))

    async def main() -> None:
        nonlocal first
        async with Runtime(MemoryStore(), agents=[reader]) as runtime:
            thread = await runtime.create_thread("reader")
            first = await thread.inject_message("user", "one")
            await thread.wait(await thread.submit("go"))

    first = None  # type: ignore[assignment]
    asyncio.run(main())
    assert seen == [["one", "go"], ["changed", "go", "new"] if edit == "update" else ["go", "new"]]


def test_a_long_history_is_read_page_by_page_and_the_loop_serves_others_between() -> None:
    async def main() -> None:
        async with Runtime(MemoryStore(), agents=[reader]) as runtime:
            thread = await runtime.create_thread("reader")
            await asyncio.gather(*(thread.inject_message("user", str(n)) for n in range(350)))
            await thread.wait(await thread.submit("go"))

    turns: list[int] = []

    @agent
    async def reader(state: ThreadState) -> None:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0)

        beside = asyncio.create_task(tick())
        assert state.execution is not None
        await Transcript(state._execution.history).messages()  # type: ignore[union-attr, arg-type]
        turns.append(ticks)
        beside.cancel()

    asyncio.run(main())
    assert turns[0] >= 3
