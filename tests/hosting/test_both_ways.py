"""Tests that one call has one answer, in process and over HTTP: the same receipts, the same codes, the same details."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.hosting.both_ways import InProcess, OverHttp, Step
from tests.hosting.served import Served
from tests.hosting.watching import GUARD_S
from treadle.actors import Runtime
from treadle.agents import ThreadState, agent
from treadle.storage import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator

NOBODY = "0123456789abcdef"  # an id that nothing has, and that is not taken for one that was made
MIB = 1 << 20


@agent
async def asks(state: ThreadState) -> None:
    """Runs until its request is answered: a thread that is busy for as long as a row wants it."""
    await state.request("approval", {"order": 1})


@agent
async def quick(state: ThreadState) -> None:
    """Is over at once."""


@agent(steerable=False)
async def deaf(state: ThreadState) -> None:
    """As `asks`, and takes no steers."""
    await state.request("approval")


def busy(name: str = "asks") -> list[Step]:
    return [("create", {"agent_id": name}), ("submit", {"messages": "go"}), ("until", {"type": "REQUEST_OPENED"})]


def over() -> list[Step]:
    return [
        ("create", {"agent_id": "quick"}),
        ("submit", {"messages": "go", "input_id": "one"}),
        ("until", {"type": "THREAD_EXECUTION_FINISHED"}),
    ]


CREATED: list[Step] = [("create", {"agent_id": "quick"})]
FINISHED: Step = ("until", {"type": "THREAD_EXECUTION_FINISHED"})

ROWS: dict[str, list[Step]] = {
    # Threads
    "a thread with all it can have": [
        (
            "create",
            {
                "agent_id": "quick",
                "user_id": "u",
                "arguments": {"a": [1, None]},
                "tags": ["x", "x"],
                "env": {"A": "b"},
            },
        ),
        ("detail", {}),
    ],
    "a thread of no agent": [("create", {"agent_id": "nobody"})],
    "a thread of an agent that is no name": [("create", {"agent_id": 5})],
    "a thread of a bad user": [("create", {"agent_id": "quick", "user_id": "a\nb"})],
    "a thread with bad arguments": [("create", {"agent_id": "quick", "arguments": [1]})],
    "a thread with bad tags": [("create", {"agent_id": "quick", "tags": ["x\0"]})],
    "a thread with long tags": [("create", {"agent_id": "quick", "tags": ["x" * 200]})],
    "a thread with a bad variable": [("create", {"agent_id": "quick", "env": {"A=B": "c"}})],
    "a thread twice": [*CREATED, *CREATED],
    "a thread that is not": [("detail", {}), ("state", {}), ("submit", {"messages": "hi"}), ("delete", {})],
    "a thread that is gone": [*CREATED, ("delete", {}), ("detail", {}), ("delete", {}), *CREATED],
    "a thread that is deleted at work": [
        *busy(),
        ("delete", {}),
        ("steer", {"execution_id": "$execution_id", "messages": "x"}),
        ("messages", {}),
    ],
    "tags": [*CREATED, ("tag", {"tags": ["a", "b"]}), ("tag", {"tags": "a"}), ("tag", {"tags": None}), ("detail", {})],
    "a terminated thread": [
        *over(),
        ("terminate", {}),
        ("terminate", {}),
        ("submit", {"messages": "hi"}),
        ("queue", {"content": "hi"}),
        ("steer", {"execution_id": NOBODY, "messages": "hi"}),
        ("resume", {}),
        ("stop", {}),
        ("set", {"key": "k", "value": 1}),
    ],
    # Inputs
    "a submit at rest": [*over(), ("state", {}), ("executions", {}), ("execution", {"execution_id": "$execution_id"})],
    "a repeat": [*over(), ("submit", {"messages": "go", "input_id": "one"}), ("receipt", {"input_id": "one"})],
    "a repeat with other content": [*over(), ("submit", {"messages": "stay", "input_id": "one"})],
    "a repeat with another verb": [*over(), ("queue", {"content": "go", "input_id": "one"})],
    "a receipt of nothing": [*CREATED, ("receipt", {"input_id": "none"}), ("withdraw", {"input_id": "none"})],
    "an id with a slash": [
        *CREATED,
        ("submit", {"messages": "go", "input_id": "a/b"}),
        FINISHED,
        ("receipt", {"input_id": "a/b"}),
    ],
    "messages of a list": [*CREATED, ("submit", {"messages": ["a", {"content": "b", "metadata": {"n": 1}}]})],
    "no messages": [*CREATED, ("submit", {"messages": []}), ("submit", {"messages": ""})],
    "messages that are none": [
        *CREATED,
        ("submit", {"messages": 5}),
        ("submit", {"messages": None}),
        ("submit", {"messages": [{"content": "x", "extra": 1}]}),
        ("submit", {"messages": [{"content": "x", "role": "assistant"}]}),
        ("submit", {"messages": [{"content": "x", "attachments": 5}]}),
        ("submit", {"messages": "half a pair \ud800"}),
    ],
    "a message that is too long": [*CREATED, ("submit", {"messages": "x" * (MIB + 1)})],
    "too many messages": [*CREATED, ("submit", {"messages": ["x"] * 257})],
    "bad options of a submit": [
        *CREATED,
        ("submit", {"messages": "x", "on_busy": "wait"}),
        ("submit", {"messages": "x", "on_busy": None}),
        ("submit", {"messages": "x", "timeout": -1}),
        ("submit", {"messages": "x", "timeout": "soon"}),
        ("submit", {"messages": "x", "input_id": " a"}),
        ("submit", {"messages": "x", "input_id": 7}),
        ("submit", {"messages": "x", "input_id": "a\x7f"}),
    ],
    **{
        f"a submit that would {how} while one runs": [
            *busy(),
            ("submit", {"messages": "and this", "input_id": "two", "on_busy": how}),
        ]
        for how in ("reject", "queue", "steer", "interrupt")
    },
    "a steer of one that takes none": [
        *busy("deaf"),
        ("steer", {"execution_id": "$execution_id", "messages": "psst"}),
        ("submit", {"messages": "psst", "on_busy": "steer"}),
    ],
    "a queued input and its withdrawal": [
        *busy(),
        ("submit", {"messages": "later", "input_id": "two", "on_busy": "queue"}),
        ("messages", {}),
        ("withdraw", {"input_id": "two"}),
        ("withdraw", {"input_id": "two"}),
        ("receipt", {"input_id": "two"}),
    ],
    # Tools
    "a queued tool and its repeat": [
        *CREATED,
        ("tool", {"name": "fetch", "args": {"b": 1, "a": [None]}, "input_id": "one"}),
        FINISHED,
        ("tool", {"name": "fetch", "args": {"a": [None], "b": 1}, "input_id": "one"}),
        ("tool", {"name": "fetch", "input_id": "one"}),
        ("receipt", {"input_id": "one"}),
        ("came_to", {"input_id": "one"}),
    ],
    "a queued tool while one runs": [*busy(), ("tool", {"name": "fetch"}), ("messages", {"include_silent": True})],
    "bad queued tools": [
        *CREATED,
        ("tool", {"name": ""}),
        ("tool", {"name": 5}),
        ("tool", {"name": "a\nb"}),
        ("tool", {"name": "fetch", "args": [1]}),
        ("tool", {"name": "fetch", "args": {"a": 2**70}}),
        ("tool", {"name": "fetch", "args": {"a": "x" * MIB}}),
        ("tool", {"name": "fetch", "input_id": ""}),
        ("messages", {"include_silent": True}),
    ],
    # Waiting
    "waits for what is over, and for nothing": [
        *over(),
        ("wait", {"execution_id": "$execution_id"}),
        ("wait", {"execution_id": NOBODY}),
        ("came_to", {"input_id": "one"}),
        ("came_to", {"input_id": NOBODY}),
        ("came_to", {"input_id": "a\nb"}),
    ],
    "a wait for one that is interrupted": [
        *busy(),
        ("interrupt", {"execution_id": "$execution_id"}),
        ("wait", {"execution_id": "$execution_id"}),
    ],
    "what inputs that wait came to": [
        *busy(),
        ("submit", {"messages": "later", "input_id": "two", "on_busy": "queue"}),
        ("came_to", {"input_id": "two"}),
        ("withdraw", {"input_id": "two"}),
        ("came_to", {"input_id": "two"}),
    ],
    # Controls
    "a steer and its repeat": [
        *busy(),
        ("steer", {"execution_id": "$execution_id", "messages": "left", "control_id": "s"}),
        ("steer", {"execution_id": "$execution_id", "messages": "left", "control_id": "s"}),
        ("steer", {"execution_id": "$execution_id", "messages": "right", "control_id": "s"}),
    ],
    "controls at rest": [
        *CREATED,
        ("steer", {"execution_id": NOBODY, "messages": "x"}),
        ("interrupt", {"execution_id": NOBODY}),
        ("stop", {}),
        ("state", {}),
        ("resume", {}),
    ],
    "controls of another execution": [
        *busy(),
        ("steer", {"execution_id": NOBODY, "messages": "x"}),
        ("interrupt", {"execution_id": NOBODY, "reason": "no"}),
    ],
    "an interrupt and its repeat": [
        *busy(),
        ("interrupt", {"execution_id": "$execution_id", "reason": "enough", "control_id": "i", "hold": True}),
        FINISHED,
        ("interrupt", {"execution_id": "$execution_id", "reason": "other words", "control_id": "i", "hold": True}),
        ("interrupt", {"execution_id": "$execution_id", "control_id": "i"}),
        ("state", {}),
        ("execution", {"execution_id": "$execution_id"}),
    ],
    "bad controls": [
        *busy(),
        ("steer", {"execution_id": "", "messages": "x"}),
        ("steer", {"execution_id": "$execution_id", "messages": []}),
        ("interrupt", {"execution_id": 5}),
        ("interrupt", {"execution_id": "$execution_id", "source": "nobody"}),
        ("interrupt", {"execution_id": "$execution_id", "hold": "yes"}),
        ("interrupt", {"execution_id": "$execution_id", "reason": "x" * 2000}),
        ("interrupt", {"execution_id": "$execution_id", "reason": 5}),
    ],
    "stop, what waits, and resume": [
        *over(),
        ("stop", {}),
        ("queue", {"content": "waits", "input_id": "q"}),
        ("state", {}),
        ("explain", {}),
        ("resume", {}),
    ],
    # Messages
    "a queued message": [*CREATED, ("queue", {"content": "hi", "role": "user", "metadata": {"a": 1}})],
    "a queued message of the assistant's": [
        ("create", {"agent_id": "quick"}),
        ("stop", {}),
        ("queue", {"content": "hi", "role": "assistant", "silent": True, "attachments": [{"name": "a"}]}),
        ("messages", {"include_silent": True}),
        ("messages", {"include_silent": False}),
    ],
    "bad queued messages": [
        *CREATED,
        ("queue", {"content": "hi", "role": "tool"}),
        ("queue", {"content": "hi", "silent": 1}),
        ("queue", {"content": ["hi"], "silent": True}),
        ("queue", {"content": "hi", "metadata": []}),
        ("queue", {"content": "hi", "attachments": [1]}),
        ("queue", {"content": None}),
    ],
    "an edited message": [
        *over(),
        ("update", {"message_id": "$message_id", "content": "went"}),
        ("update", {"message_id": "$message_id", "metadata": {"a": 1, "b": 2}}),
        ("update", {"message_id": "$message_id", "metadata": {"a": None}}),
        ("update", {"message_id": "$message_id"}),
        ("update", {"message_id": "$message_id", "content": ""}),
        ("update", {"message_id": "$message_id", "metadata": 5}),
        ("update", {"message_id": NOBODY, "content": "x"}),
        ("remove", {"message_id": "$message_id"}),
        ("remove", {"message_id": "$message_id"}),
        ("messages", {}),
    ],
    "pages of messages": [
        *CREATED,
        ("submit", {"messages": ["a", "b", "c"]}),
        FINISHED,
        ("messages", {"limit": 2}),
        ("messages", {"limit": 1, "offset": 1, "order": "asc"}),
        ("messages", {"before": "$message_id", "limit": 1}),
        ("messages", {"limit": 0}),
        ("messages", {"limit": 1001}),
        ("messages", {"limit": -1}),
        ("messages", {"offset": -1}),
        ("messages", {"order": "up"}),
        ("messages", {"max_depth": 65}),
        ("messages", {"before": "a", "after": "b"}),
        ("messages", {"before": "\x01"}),
    ],
    # Requests and values
    "answers": [
        *busy(),
        ("state", {}),
        ("respond", {"request_id": "$request_id", "value": {"ok": True}}),
        FINISHED,
        ("respond", {"request_id": NOBODY, "value": None}),
        ("respond", {"request_id": "", "value": None}),
        ("respond", {"request_id": NOBODY, "value": 2**70}),
        ("execution", {"execution_id": "$execution_id"}),
    ],
    "values": [
        *CREATED,
        ("set", {"key": "a/../b c", "value": [1, 2.5, None, {"x": "é"}]}),
        ("get", {"key": "a/../b c"}),
        ("get", {"key": "b c"}),
        ("set", {"key": "2", "value": ""}),
        ("values", {}),
        ("values", {"search": "b", "limit": 1}),
        ("values", {"limit": 201}),
        ("set", {"key": "2", "value": None}),
        ("get", {"key": "2"}),
        ("set", {"key": "treadle:x", "value": 1}),
        ("get", {"key": "treadle:x"}),
        ("set", {"key": "n", "value": 2**64}),
        ("set", {"key": "n", "value": "x" * MIB}),
        ("set", {"key": "n", "value": float("nan")}),
        ("set", {"key": "n", "value": {"\ud800": 1}}),
        ("set", {"key": "n", "value": {"a": ["\ud800"]}}),
        ("set", {"key": "k" * 1000, "value": True}),
        ("get", {"key": "k" * 1000}),
    ],
    "executions": [
        *over(),
        ("executions", {"limit": 1}),
        ("executions", {"limit": 1, "order": "asc", "offset": 1}),
        ("executions", {"limit": 5000}),
        ("execution", {"execution_id": NOBODY}),
        ("explain", {}),
    ],
}


@pytest.fixture(scope="module")
def both() -> Iterator[tuple[Runtime, Runtime, httpx.Client]]:
    with contextlib.ExitStack() as opened:
        local, remote = (
            opened.enter_context(Runtime(MemoryStore(), agents=[asks, quick, deaf], drain_timeout=0)) for _ in range(2)
        )
        served = opened.enter_context(Served(remote))
        yield local, remote, opened.enter_context(httpx.Client(base_url=served.url, timeout=GUARD_S))


@pytest.mark.parametrize("row", ROWS)
def test_a_call_comes_to_the_same_in_process_and_over_http(
    both: tuple[Runtime, Runtime, httpx.Client], row: str
) -> None:
    local, remote, client = both
    steps: Any = ROWS[row]

    assert OverHttp(remote, row, client).run(steps) == InProcess(local, row).run(steps)
