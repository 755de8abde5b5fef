"""Runs declared agents with scripted models on a real runtime and a fake clock, for the tests of the step loop."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Self

import pytest

from treadle.actors import Runtime
from treadle.actors.fake_clock import FakeClock
from treadle.agents.agent_definition import Agent
from treadle.agents.definitions import Definitions
from treadle.agents.model_definition import Model
from treadle.agents.models.seam import ToolCall
from treadle.agents.prompt import Prompt
from treadle.agents.side import Side
from treadle.agents.testing.scripted_model import ScriptedModel
from treadle.storage import MemoryStore

if TYPE_CHECKING:
    from types import TracebackType

    from treadle.actors import Thread
    from treadle.protocol.executions import ExecutionRecord
    from treadle.protocol.messages import Message
    from treadle.storage import Store

PATIENCE_S = 60.0  # for what must come at once; a hang fails with the place where it hangs


def call(name: str, call_id: str = "c1", /, **arguments: Any) -> ToolCall:
    """A model's call of a tool."""
    return ToolCall(call_id, name, json.dumps(arguments))


def prompt(name: str, *turns: Any, **options: Any) -> tuple[Prompt, ScriptedModel]:
    """A prompt whose model plays a script."""
    model = ScriptedModel(*turns)
    given = {"prompt": f"This is {name}.", **options}
    return Prompt(name=name, model=Model(name=f"{name}-model", model=model, attempts=1), **given), model


def beside_a_human(
    *turns: Any, tools: Any = (), side: Any = None, prompt_options: Any = None, **options: Any
) -> tuple[Agent, ScriptedModel]:
    """An agent of one prompt beside a human, whose model plays a script."""
    made, model = prompt("p", *turns, tools=tools, **(prompt_options or {}))
    return Agent(**{"name": "agent", "side_a": Side(prompt=made, **(side or {})), **options}), model


class Play:
    """A runtime with declared agents and one thread of the first.

    Args:
        agents: the first one's thread is `thread`.
        store: by default in memory.
        clock: by default a fake one of its own.
        definitions: more of them: tools that no prompt lists, say.
        options: of the runtime.
    """

    def __init__(
        self, *agents: Any, store: Store | None = None, clock: FakeClock | None = None, definitions: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:  # fmt: skip
        self.agents = agents
        self.store = store or MemoryStore()
        self.clock = clock or FakeClock()
        if definitions is not None:
            Definitions(agents=agents, **definitions)
        self._options = {"always_evict": getattr(pytest, "always_evict", False), **options}
        self.runtime: Runtime
        self.thread: Thread

    def open(self) -> Runtime:
        self.runtime = Runtime(self.store, agents=list(self.agents), clock=self.clock, **self._options)
        self.runtime.open()
        return self.runtime

    def __enter__(self) -> Self:
        self.open()
        self.thread = self.runtime.create_thread(self.agents[0].name).result(PATIENCE_S)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self.thread.stop().error()  # what a failed test left running must not hold the close, on a clock that stands
        self.runtime.close()

    def submit(self, content: Any = "go") -> str:
        """Submit, and return the id of the execution that runs."""
        execution_id = self.thread.submit(content).result(PATIENCE_S).execution_id
        assert execution_id is not None
        return execution_id

    def say(self, content: Any = "go") -> ExecutionRecord:
        """Submit, and wait for the end."""
        return self.end(self.submit(content))

    def queue(self, content: str, role: str = "user") -> ExecutionRecord:
        """Queue a message at rest, and wait for the end of the execution that it starts."""
        receipt = self.thread.queue_message(content, role=role).result(PATIENCE_S)
        record: ExecutionRecord = self.thread.wait(receipt).result(PATIENCE_S)
        return record

    def end(self, execution_id: str) -> ExecutionRecord:
        record: ExecutionRecord = self.thread.wait(execution_id).result(PATIENCE_S)
        return record

    def messages(self, max_depth: int = 64) -> list[Message]:
        """All of history."""
        page = self.thread.messages(limit=1_000, include_silent=True, max_depth=max_depth).result(PATIENCE_S)
        return list(page.messages)

    def told(self) -> list[tuple[str, str | None]]:
        """History at depth 0 as role and content."""
        return [(one.role, one.content) for one in self.messages(0)]

    def results(self) -> dict[str, list[tuple[str | None, str | None]]]:
        """The results of every call in history, by the id of the call: status and content."""
        found: dict[str, list[tuple[str | None, str | None]]] = {}
        for message in self.messages():
            if message.tool_calls:
                for one in json.loads(message.tool_calls):
                    found.setdefault(one["id"], [])
            if message.tool_call_id is not None:
                found.setdefault(message.tool_call_id, []).append((message.tool_status, message.content))
        return found

    def state(self) -> tuple[str, str | None]:
        """The run status, without its time."""
        status = self.thread.status().result(PATIENCE_S)
        return status.state, status.reason
