"""Plays a script as an agent on a real runtime: as a coroutine and as a plain function, on every store.

A script is a generator function of one `ThreadState` that yields replies and gets their values, so that one text is
both an agent that awaits and one that blocks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from treadle.actors import Runtime
from treadle.actors.fake_clock import FakeClock
from treadle.agents import FunctionAgent, ThreadState, agent

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator
    from types import TracebackType
    from typing import TypeAlias

    from treadle.actors import Reply, Thread
    from treadle.protocol.executions import ExecutionRecord
    from treadle.storage import Store

    Replies: TypeAlias = Generator[Reply[Any], Any, None]
    Script: TypeAlias = Callable[[ThreadState], Replies]

PATIENCE_S = 60.0  # for what must come at once; a hang fails with the place where it hangs


async def follow(script: Script, state: ThreadState) -> None:
    """Play a script in a coroutine: each reply that it yields is awaited."""
    replies = script(state)
    step = _sending(replies, None)
    while True:
        try:
            reply = step()
        except StopIteration:
            return
        try:
            value = await reply
        except BaseException as error:
            step = _throwing(replies, error)
        else:
            step = _sending(replies, value)


def block(script: Script, state: ThreadState) -> None:
    """Play a script in a plain function: each reply that it yields is blocked on."""
    replies = script(state)
    step = _sending(replies, None)
    while True:
        try:
            reply = step()
        except StopIteration:
            return
        try:
            value = reply.result()
        except BaseException as error:
            step = _throwing(replies, error)
        else:
            step = _sending(replies, value)


def in_coroutine(script: Script, **options: Any) -> FunctionAgent[Awaitable[None] | None]:
    async def body(state: ThreadState) -> None:
        await follow(script, state)

    return agent(body, **{"name": "actor", **options})


def in_function(script: Script, **options: Any) -> FunctionAgent[Awaitable[None] | None]:
    def body(state: ThreadState) -> None:
        block(script, state)

    return agent(body, **{"name": "actor", **options})


def _sending(replies: Replies, value: object) -> Callable[[], Reply[Any]]:
    return lambda: replies.send(value)


def _throwing(replies: Replies, error: BaseException) -> Callable[[], Reply[Any]]:
    return lambda: replies.throw(error)


class Stage:
    """A runtime on a fake clock with one agent, `actor`, and one thread of it."""

    def __init__(
        self, store: Store, make: Callable[..., FunctionAgent[Awaitable[None] | None]], *, always_evict: bool
    ) -> None:
        self.store = store
        self._always_evict = always_evict
        self.clock = FakeClock()
        self._make = make
        self._runtime: Runtime | None = None
        self.thread: Thread

    def __call__(self, script: Script, *, arguments: dict[str, Any] | None = None, **options: Any) -> Self:
        self._runtime = Runtime(
            self.store, agents=[self._make(script, **options)], clock=self.clock, always_evict=self._always_evict
        )
        self._runtime.open()
        self.thread = self._runtime.create_thread("actor", user_id="u1", arguments=arguments).result(PATIENCE_S)
        return self

    def play(self, content: str = "go") -> ExecutionRecord:
        """Submit, and wait for the end."""
        return self.end(self.thread.submit(content).result(PATIENCE_S).execution_id)

    def end(self, execution_id: str | None) -> ExecutionRecord:
        assert execution_id is not None
        record: ExecutionRecord = self.thread.wait(execution_id).result(PATIENCE_S)
        return record

    def texts(self, **options: Any) -> list[str | None]:
        return [message.content for message in self.thread.messages(**options).result(PATIENCE_S).messages]

    def close(self) -> None:
        if self._runtime is not None:
            self._runtime.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
