"""Plays a script as the body of a declared agent: with its definitions, its hooks and a flow, and without a step loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from pydantic import PrivateAttr

from tests.agents.stage import PATIENCE_S, block, follow
from treadle.actors import Runtime
from treadle.actors.fake_clock import FakeClock
from treadle.agents import Agent, Definitions, Model, Prompt, Side, ThreadState
from treadle.agents.flow import Flow
from treadle.agents.models.function_model import FunctionModel

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from tests.agents.stage import Script
    from treadle.actors import Execution, Thread
    from treadle.agents.environment import Environment
    from treadle.protocol.executions import ExecutionRecord
    from treadle.storage import Store


def silent(_request: object) -> str:
    return "nothing to say"


MODEL = Model(name="m", model=FunctionModel(silent))


class Played(Agent):
    """A declared agent whose pass is a script; it awaits what the script yields, or blocks on it on a worker."""

    _script: Script = PrivateAttr()
    _blocking: bool = PrivateAttr(default=False)

    def run(self, execution: Execution, /) -> Awaitable[None]:
        state = ThreadState.of(execution)
        if execution.body_flow is None:
            flow = execution.body_flow = Flow(execution, self)
            flow.context = state.context
            flow.prompt_path = ["p"]
        if self._blocking:
            return execution.call(block, self._script, state)
        return follow(self._script, state)


class Declared:
    """A runtime on a fake clock with one declared agent, `actor`, and one thread of it."""

    def __init__(self, store: Store, *, blocking: bool, always_evict: bool) -> None:
        self.store = store
        self.clock = FakeClock()
        self._blocking = blocking
        self._always_evict = always_evict
        self.runtime: Runtime
        self.thread: Thread
        self._open = False

    def __call__(
        self,
        script: Script,
        *,
        arguments: dict[str, Any] | None = None,
        env: dict[str, str] | None = None,
        agent_env: dict[str, str] | None = None,
        environment: Environment | None = None,
        prompt: dict[str, Any] | None = None,
        tools: tuple[Any, ...] = (),
        **options: Any,
    ) -> Self:
        made = Prompt(name="p", prompt="be kind", model=MODEL, tools=tools, **(prompt or {}))
        agent = Played(name="actor", side_a=Side(prompt=made), env=agent_env or {}, **options)
        agent._script, agent._blocking = script, self._blocking
        Definitions(agents=(agent,), environment=environment)
        self.runtime = Runtime(self.store, agents=[agent], clock=self.clock, always_evict=self._always_evict)
        self.runtime.open()
        self._open = True
        created = self.runtime.create_thread("actor", user_id="u1", arguments=arguments, env=env)
        self.thread = created.result(PATIENCE_S)
        return self

    def play(self, content: str = "go") -> ExecutionRecord:
        receipt = self.thread.submit(content).result(PATIENCE_S)
        record: ExecutionRecord = self.thread.wait(receipt).result(PATIENCE_S)
        return record

    def rest(self) -> ThreadState:
        return ThreadState.at_rest(self.thread)

    def texts(self, **options: Any) -> list[str | None]:
        return [message.content for message in self.thread.messages(**options).result(PATIENCE_S).messages]

    def logs(self) -> list[dict[str, Any]]:
        # Nobody waits for the runtime's own entries: a write behind them tells that they are there.
        self.thread.set_value("flushed", True).result(PATIENCE_S)
        return self.rest().get_logs(order="asc").result(PATIENCE_S)

    def close(self) -> None:
        if self._open:
            self._open = False
            self.runtime.close()
