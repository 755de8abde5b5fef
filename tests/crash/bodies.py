"""Owns the agents that run when a process is killed, and when what it left is opened again. Checks nothing itself.

Every input's text begins with its id; a body says `seen <id>` for each input that it is handed, in history, so that
history itself tells what was seen, and how often.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from treadle.actors.execution import current_execution
from treadle.agents import agent
from treadle.protocol.errors import RequestExpired

if TYPE_CHECKING:
    from treadle.agents import FunctionAgent, ThreadState

Note = Callable[[dict[str, Any]], object]

NAMES = ("talk", "work", "again")
SLEEPER = ["sleep", "86.4"]


def call(call_id: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": "look", "arguments": "{}"}}


def quiet_agents() -> list[FunctionAgent[Any]]:
    """Return agents that say what they have seen and do nothing else: for looking at what was left."""
    return make_agents(None)


def make_agents(note: Note | None) -> list[FunctionAgent[Any]]:
    """Return the agents.

    Args:
        note: is told what a body had acknowledged; None for agents that leave out all that takes time.
    """

    async def see(state: ThreadState, messages: list[Any]) -> None:
        for message in messages:
            given, _, how = (message.content or "").partition(" ")
            await state.inject_message("assistant", f"seen {given}")
            if note is not None:
                await _FLAVOURS.get(how, _nothing)(state, given, note)

    @agent(name="talk")
    async def talk(state: ThreadState) -> None:
        await see(state, state.execution.new_messages)
        if note is not None:
            await state.sleep(0.001)
            await see(state, await state.checkpoint())

    @agent(name="again", on_lost="resume", timeout=30)
    async def again(state: ThreadState) -> None:
        await see(state, state.execution.new_messages)

    @agent(name="work")
    def work(state: ThreadState) -> None:
        for message in state.execution.new_messages:
            state.inject_message("assistant", f"seen {(message.content or '').partition(' ')[0]}").result()
        if note is not None:
            state.sleep(0.001).result()

    return [talk, work, again]


async def _nothing(state: ThreadState, given: str, note: Note) -> None:
    """Be the flavour of an input that only wants to be seen."""


async def _long(state: ThreadState, given: str, note: Note) -> None:
    for _ in range(3):
        await state.sleep(0.002)


async def _tool(state: ThreadState, given: str, note: Note) -> None:
    await state.inject_message("assistant", None, tool_calls=[call(f"{given}-a"), call(f"{given}-b")])
    await state.inject_message("tool", "found", tool_call_id=f"{given}-a")
    await state.inject_message("tool", "found", tool_call_id=f"{given}-b")


async def _open(state: ThreadState, given: str, note: Note) -> None:
    await state.inject_message("assistant", None, tool_calls=[call(f"{given}-a")])
    await state.sleep(0.002)


async def _value(state: ThreadState, given: str, note: Note) -> None:
    await state.set_value("last", given)


async def _queue(state: ThreadState, given: str, note: Note) -> None:
    name = f"{given}+"
    note({"op": name, "thread": state.thread_id, "verb": "own", "text": f"{name} plain"})
    receipt = await state.queue_message(f"{name} plain", input_id=name)
    note({"ack": name, "receipt": receipt})


async def _process(state: ThreadState, given: str, note: Note) -> None:
    process = await state.execution.start_process(SLEEPER)
    note({"group": process.pid})
    await state.sleep(0.002)


async def _ask(state: ThreadState, given: str, note: Note) -> None:
    name = f"{given}?"
    asked = state.request("approval", given, 0.004, request_id=name)
    note({"asked": name, "thread": state.thread_id})
    try:
        note({"got": name, "value": await asked})
    except RequestExpired:
        note({"got": name, "value": None})


async def _hand(state: ThreadState, given: str, note: Note) -> None:
    execution = current_execution.get()
    assert execution is not None
    name = NAMES[(NAMES.index(state.agent_id) + 1) % len(NAMES)]
    note({"handing": name, "from": state.agent_id, "thread": state.thread_id})
    await execution.change_agent(name)
    note({"handed": name, "thread": state.thread_id})


async def _fail(state: ThreadState, given: str, note: Note) -> None:
    raise ValueError("on purpose")


_FLAVOURS = {
    "long": _long, "tool": _tool, "open": _open, "value": _value, "queue": _queue, "process": _process,
    "ask": _ask, "fail": _fail, "hand": _hand,
}  # fmt: skip
