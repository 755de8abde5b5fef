"""Sets the scene for a scenario: a runtime on a fake clock, a body that stops where the test wants, and what is durable.

A script is a generator function of one `ThreadState` that yields replies and gets their values, so that one text is both
an agent that awaits and one that blocks.
"""

from __future__ import annotations

import threading
from asyncio import CancelledError
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.agents.stage import in_coroutine, in_function
from treadle.actors import Reply, Runtime
from treadle.actors.fake_clock import FakeClock
from treadle.storage.tables import Table

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator
    from typing import TypeAlias

    from treadle.actors import ControlReceipt, ExecutionRecord, Message, Receipt, Thread
    from treadle.agents import FunctionAgent, ThreadState
    from treadle.protocol.events import JournalEvent
    from treadle.storage import Store

    Replies: TypeAlias = Generator[Reply[Any], Any, None]
    Script: TypeAlias = Callable[[ThreadState], Replies]
    Made: TypeAlias = FunctionAgent[Awaitable[None] | None]

PATIENCE_S = 60.0  # for what must come at once; a hang fails with the place where it hangs
KINDS = {"coroutine": in_coroutine, "function": in_function}


class Arrival(NamedTuple):
    """A body that stands at a gate: what it brought along, and what lets it go on."""

    brought: Any
    go: Reply[Any]


class Gate:
    """A place where bodies stop; a test waits until one is there, and lets it go on or fails it."""

    def __init__(self) -> None:
        self._arrivals: SimpleQueue[Arrival] = SimpleQueue()

    def here(self, brought: object = None) -> Reply[Any]:
        """Called by a body, which then waits for what it gets."""
        go: Reply[Any] = Reply()
        self._arrivals.put(Arrival(brought, go))
        return go

    def arrival(self) -> Arrival:
        """Block until a body is there."""
        return self._arrivals.get(timeout=PATIENCE_S)

    def let_go(self) -> Any:
        """Block until a body is there, let it go on, and return what it brought."""
        arrived = self.arrival()
        arrived.go.set(None)
        return arrived.brought

    def nobody_came(self) -> bool:
        """Say whether no body stopped here that was not seen yet."""
        return self._arrivals.empty()


class Scene:
    """A runtime with the agents of one test, on one store, closed at the end of the test."""

    def __init__(self, store: Store, kind: str = "coroutine") -> None:
        self.store = store
        self.clock = FakeClock()
        self.gate = Gate()
        self.seen: list[Any] = []
        self.kind = kind
        self._agents: tuple[Made, ...] = ()
        self._options: dict[str, Any] = {}
        self._closing = False
        self.runtime: Runtime

    def body(self, script: Script, **options: Any) -> Made:
        """Make an agent of a script, of the kind that this scene is about."""
        return KINDS[self.kind](script, **options)

    def open(self, *agents: Made, **options: Any) -> Runtime:
        self._agents, self._options, self._closing = agents, options, False
        self.runtime = Runtime(
            self.store,
            agents=agents,
            clock=self.clock,
            always_evict=pytest.always_evict,  # type: ignore[attr-defined]
            **options,
        ).open()
        return self.runtime

    def reopen(self, *agents: Made) -> Runtime:
        """Close, and open the same store with the same agents or others."""
        self.close()
        self.clock = FakeClock(self.clock.now_us())
        return self.open(*(agents or self._agents), **self._options)

    def start(self, script: Script, **options: Any) -> Thread:
        """Open with one agent of this script, `actor`, and return a thread of it."""
        self.open(self.body(script, **{"name": "actor", **options}))
        return self.thread()

    def thread(self, agent: str = "actor", **options: Any) -> Thread:
        return self.runtime.create_thread(agent, **options).result(PATIENCE_S)

    def gated(self, **options: Any) -> Thread:
        """Open with an agent that brings each pass's new messages to the gate, and return a thread of it."""
        return self.start(self.stops_at_gate, **options)

    def stops_at_gate(self, state: ThreadState) -> Replies:
        assert state.execution is not None
        yield self.gate.here([message.content for message in state.execution.new_messages])

    def is_stubborn(self, state: ThreadState) -> Replies:
        """Stop at the gate, and again there when told to end: only the test lets it."""
        assert state.execution is not None
        brought: object = [message.content for message in state.execution.new_messages]
        while True:
            try:
                yield self.gate.here(brought)
            except CancelledError:
                if self._closing:
                    raise  # nobody is left who would let it go
                brought = "told to stop"
            else:
                return

    def close(self) -> None:
        if hasattr(self, "runtime"):
            self._closing = True
            # Nothing that a test left running is worth waiting for.
            self.runtime.close(drain_timeout=0)


class Latch:
    """A resource that takes as long to close as the test wants."""

    def __init__(self) -> None:
        self.closing = threading.Event()
        self.may_close = threading.Event()

    def close(self) -> None:
        self.closing.set()
        assert self.may_close.wait(PATIENCE_S)


def quiet(state: ThreadState) -> Replies:
    """End at once."""
    yield from ()


def echo(state: ThreadState) -> Replies:
    """Answer each new message."""
    assert state.execution is not None
    for message in state.execution.new_messages:
        yield state.inject_message("assistant", f"re: {message.content}")


def ended(thread: Thread, target: str | Receipt | ControlReceipt | None) -> ExecutionRecord:
    """Block until an execution, or the one that an input comes to, has ended."""
    assert target is not None
    return thread.wait(target).result(PATIENCE_S)


def began(receipt: Receipt) -> str:
    """Return the id of the execution that a receipt speaks of; it must be accepted."""
    assert receipt.disposition == "accepted", receipt
    assert receipt.execution_id is not None
    return receipt.execution_id


def history(thread: Thread, **options: Any) -> list[Message]:
    """Return all messages, oldest first, those that wait included."""
    messages: list[Message] = thread.messages(limit=1_000, order="asc", **options).result(PATIENCE_S).messages
    return messages


def texts(thread: Thread, **options: Any) -> list[str | None]:
    return [message.content for message in history(thread, **options)]


def pending(thread: Thread) -> list[str | None]:
    """Return the texts of what waits."""
    return [message.content for message in history(thread) if message.status == "pending"]


def journal(thread: Thread) -> list[JournalEvent]:
    """Return all published events of a thread."""
    head = thread.state().result(PATIENCE_S).cursor
    found: list[JournalEvent] = []
    with thread.events() as events:
        for event in events:
            found.append(event)
            if event.cursor >= head:
                break
    return found


def tags(thread: Thread) -> list[str]:
    """Return the types of all published events of a thread."""
    return [entry.event.type for entry in journal(thread)]


def contents(store: Store) -> dict[Table, list[tuple[bytes, bytes]]]:
    """Return every row of every table: what must not change where a call is refused."""
    with store.view() as view:
        return {table: list(view.scan(table, b"", None, limit=100_000)) for table in Table}
