"""Owns `Runtime`: opens a store, hosts threads on it, and closes in order. Knows agents only as bodies."""

from __future__ import annotations

import asyncio
import math
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Self

from ..protocol.errors import CallerError, InvalidInput, RuntimeClosed, TreadleError, bad_option
from ..protocol.ids import check_id
from ..protocol.limits import RELEASE_TIMEOUT_S, WORKERS_MAX
from ..protocol.triggers import Delete, Terminate
from . import forking
from .apart import apart, awaited_apart, runs_loop
from .bodies import bind, by_name
from .clock import SystemClock
from .closing import drain
from .creating import create_thread
from .directory import Directory
from .dispatcher import Dispatcher
from .handle import Thread
from .health import Counts, counts, readiness
from .hub import Hub
from .listing import ThreadPage, list_threads
from .loops import LoopHost
from .mailbox import Mail
from .own_thread import answer
from .recovery import OpenReport, recover
from .reply import Reply
from .reporting import Reporter
from .services import Body, Options, Services
from .supervisor import Supervisor
from .verifying import Verifier
from .wait_graph import WaitGraph
from .waiting import Await, fail_waiters
from .workers import WorkerPool, release_lane

if TYPE_CHECKING:
    from types import TracebackType

    from ..protocol.values import JsonObject
    from ..storage.store import Store
    from .change_feed import ChangeSubscription
    from .clock import Clock

__all__ = ["Runtime"]


class Runtime:
    """Hosts threads on one store: `with Runtime(LmdbStore("data"), agents=[...]) as runtime:`, or `async with`.

    Args:
        store: where threads live; opened and closed by the runtime.
        agents: whatever has `name`, `runs_on` and `run(execution)`; `treadle.agents.agent` makes them of callables.
        loop: where coroutine agents run: `own`, a loop of the runtime's, or `caller`, the one that `async with` runs on.
            None is `own` under `with` and `caller` under `async with`.
        interrupt_grace: seconds from an accepted interrupt to abandoning a body that does not stop; 5 by default.
        drain_timeout: seconds that `close`, and so the end of a `with`, lets executions end by themselves; 30 by default.
        idle_after: seconds after which an idle thread's actor is let go; 60 by default.
        resident_max: idle actors kept at most; 20,000 by default.
        release_timeout: seconds for closing what an execution owns.
        workers: plain-function agents at once.
        clock: for tests.
        on_report: called with a name and details of what there is to report, as a crash; on a worker of its own.

    Attributes:
        opened: what the open found and did.
    """

    def __init__(
        self,
        store: Store,
        *,
        agents: Iterable[Body],
        loop: Literal["own", "caller"] | None = None,
        interrupt_grace: float | None = None,
        drain_timeout: float | None = None,
        idle_after: float | None = None,
        resident_max: int | None = None,
        release_timeout: float = RELEASE_TIMEOUT_S,
        workers: int = WORKERS_MAX,
        clock: Clock | None = None,
        dispatcher: Dispatcher | None = None,
        always_evict: bool = False,
        on_report: Callable[[str, Mapping[str, object]], None] | None = None,
    ) -> None:
        given = {
            "interrupt_grace": interrupt_grace,
            "drain_timeout": drain_timeout,
            "idle_after": idle_after,
            "resident_max": resident_max,
            "release_timeout": release_timeout,
        }
        chosen: dict[str, Any] = {
            name: _check_option(name, value) for name, value in given.items() if value is not None
        }
        if type(resident_max) is float and resident_max != math.inf:
            raise bad_option("resident_max is a whole number of at least 0, or without end", resident_max)
        self._options = Options(always_evict=always_evict, **chosen)
        if type(workers) is not int or workers < 1:
            raise bad_option("workers is a whole number of at least 1", workers)
        if on_report is not None and not callable(on_report):
            raise bad_option("on_report is called with a name and details", on_report)
        if isinstance(store, type) or not callable(getattr(store, "commit", None)):
            raise bad_option("store is LmdbStore(path) or MemoryStore()", store)
        for name, part, verb in (("clock", clock, "monotonic"), ("dispatcher", dispatcher, "call")):
            if part is not None and (isinstance(part, type) or not callable(getattr(part, verb, None))):
                raise bad_option(f"{name} is an object with what a {name} can do", part)
        if loop not in (None, "own", "caller"):
            raise bad_option("loop is 'own' or 'caller'", loop)
        self._loop_kind = loop
        self._agents = by_name(agents)
        self._workers = workers
        self._store = store
        self._clock = clock or SystemClock()
        self._dispatcher = dispatcher
        self._reporter = Reporter(on_report)
        self._services: Services | None = None
        self._closer: int | None = None  # the worker that closes, or has closed
        self._over = threading.Event()
        self._lock = threading.Lock()
        self.opened: OpenReport | None = None

    # Opening and closing

    def open(self) -> Self:
        """Open the store, settle what a dead process left, start what waits. Blocks until the former is durable.

        Raises:
            InvalidDefinitions: its agents do not fit together; the store was not opened.
            StoreInUse, NotAStore, SchemaTooNew: nothing was changed.
        """
        if self._loop_kind == "caller":
            raise InvalidInput(
                "loop='caller' needs async with: there is no loop here", code="invalid_option", value="caller"
            )
        apart(lambda: self._open(None), undo=self._give_up)
        return self

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        loop = None if self._loop_kind == "own" else asyncio.get_running_loop()
        await awaited_apart(lambda: self._open(loop), undo=self._give_up)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    def _open(self, loop: asyncio.AbstractEventLoop | None) -> None:
        with self._lock:
            if self._services is not None:
                raise CallerError("a runtime is opened once; make a new one")
            bind(self._agents)
            services = Services()
            services.boot = self._store.open()
            self._fill(services, loop)
            forking.opened(services)
            self._services = services
            try:
                services.dispatcher.start()
                services.loop.start()
                services.directory.load()
                services.hub.load()
                self.opened = recover(services)
            except BaseException:
                self._tear_down(services)
                raise
            services.supervisor.start_sweep()

    def _fill(self, services: Services, loop: asyncio.AbstractEventLoop | None) -> None:
        services.store = self._store
        services.options = self._options
        services.agents = self._agents
        services.closing = False
        services.running = {}
        services.ended = {}
        services.idle_callbacks = []
        services.clock = self._clock
        services.timers = self._clock.timers()
        services.report = self._reporter.tell
        services.supervisor = Supervisor(services)
        services.dispatcher = self._dispatcher or Dispatcher()
        services.dispatcher.on_crash = services.supervisor.crashed
        services.directory = Directory(services)
        services.waits = WaitGraph()
        services.verifier = Verifier(self._store) if self._options.always_evict else None
        services.loop = LoopHost(
            loop,
            on_closed=lambda tasks: services.supervisor.loop_closed([task.key for task in tasks]),
            monotonic=self._clock.monotonic,
        )
        services.pool = WorkerPool(self._workers)
        services.release_lane = release_lane()
        services.hub = Hub(services.store, services.boot.id, services.directory)

    def close(self, drain_timeout: float | None = None) -> None:
        """Refuse new work, let executions end, interrupt the rest, abandon what does not stop. Blocks; idempotent.

        A second call waits for the first one, except where that one's worker or an event loop makes it. An interrupted
        wait leaves the closing to go on. In a forked child, where nothing of the runtime runs, there is nothing to close.

        Args:
            drain_timeout: seconds; by default the runtime's.

        Raises:
            InvalidInput, WouldBlock: no number of at least 0; a worker of the runtime's own calls. Nothing was closed.
            CloseIncomplete: the store refused some last commits; the next open settles them.
        """
        if self._closer is not None and (self._closer == threading.get_ident() or runs_loop()):
            return
        apart(lambda: self._close(drain_timeout), needs=self._services)

    def _give_up(self) -> None:
        self._close(0)

    def _close(self, drain_timeout: float | None) -> None:
        if drain_timeout is not None:
            _check_option("drain_timeout", drain_timeout)
        services = self._services
        if services is not None and not forking.is_ours(services):
            return
        with self._lock:  # behind an open under way
            services = self._services
            if services is None or not forking.is_ours(services):
                return
            closer, self._closer = self._closer, self._closer or threading.get_ident()
        if closer is not None:
            self._over.wait()
            return
        services.closing = True
        services.hub.begin_end()
        try:
            drain(services, self._options.drain_timeout if drain_timeout is None else drain_timeout)
        finally:
            try:
                self._tear_down(services)
            finally:
                self._over.set()

    async def aclose(self, drain_timeout: float | None = None) -> None:
        """Close without blocking the event loop."""
        await awaited_apart(lambda: self._close(drain_timeout))

    def _tear_down(self, services: Services) -> None:
        services.closing = True
        services.supervisor.stop_sweep()
        services.hub.close()
        # The store answers all that it holds; the dispatcher delivers it; then nobody is left to speak to.
        self._store.close()
        services.dispatcher.stop()
        services.supervisor.refuse_fallen()
        for entry in services.directory.known_entries():
            fail_waiters(entry, RuntimeClosed("the runtime is closed", thread_id=entry.thread_id))
            entry.mailbox.refuse(lambda: RuntimeClosed("the runtime is closed"))
        services.timers.stop()
        self._reporter.close()
        services.loop.close()
        services.pool.close()
        services.release_lane.close()
        forking.left(services)

    # Threads

    def create_thread(
        self, agent: Body | str, *, thread_id: str | None = None, user_id: str | None = None,
        arguments: JsonObject | None = None, tags: Iterable[str] = (), env: dict[str, str] | None = None,
    ) -> Reply[Thread]:  # fmt: skip
        """Create a thread, at rest; durable when the reply is there.

        Args:
            agent: a registered agent, or its name.
            thread_id: 1 to 128 printable ASCII characters; by default a new one.
            user_id: whom it belongs to.
            arguments: JSON data that the agent finds in `state.arguments`.
            tags: names to find it by.
            env: variables of the thread: such names and texts as a process may be given.

        Raises:
            AgentNotFound, ThreadExists, InvalidInput, LimitExceeded: nothing was stored.
        """
        return create_thread(
            self._services, agent, thread_id=thread_id, user_id=user_id, arguments=arguments, tags=tags, env=env
        )

    def thread(self, thread_id: str) -> Thread:
        """Return a handle at once; an unknown id fails at the first reply."""
        return Thread(self._parts(), thread_id)

    def threads(
        self, *, user_id: str | None = None, agent: Body | str | None = None, state: str | None = None,
        order: Literal["created", "activity"] = "created", limit: int = 100, after: str | None = None,
    ) -> Reply[ThreadPage]:  # fmt: skip
        """Return a page of threads; blocks for one page of reads."""
        filters = {"user_id": user_id, "agent": agent, "state": state}
        return answer(lambda: list_threads(self._parts(taking=True), **filters, order=order, limit=limit, after=after))

    def delete_thread(self, thread_id: str) -> Reply[None]:
        """Terminate a thread, wait for its execution to end, and leave a tombstone; its contents go in the background.

        From the reply on the id answers `ThreadNotFound`, and cannot be created again. Raises: ThreadNotFound.
        """
        reply: Reply[None] = Reply()
        try:
            services = self._parts(taking=True)
            entry = services.directory.entry(check_id("thread_id", thread_id))
        except TreadleError as error:
            reply.fail(error)
            return reply

        def tried(done: Reply[object]) -> None:
            error = done.error()
            if error is not None:
                reply.fail(error)
            elif done.result():
                reply.set(None)
            else:
                again(None)

        def again(_done: Reply[object] | None) -> None:
            if _done is not None and (error := _done.error()) is not None:
                reply.fail(error)
                return
            shown = entry.snapshot
            if shown is not None and shown.active is not None:
                ended: Reply[object] = Reply()
                ended.add_done_callback(again)
                entry.mailbox.put(Mail(Await("execution", shown.active.execution_id), ended), internal=True)
                return
            deleted: Reply[object] = Reply()
            deleted.add_done_callback(tried)
            entry.mailbox.put(Mail(Delete(), deleted), internal=True)

        terminated: Reply[object] = Reply()
        terminated.add_done_callback(again)
        entry.mailbox.put(Mail(Terminate("system"), terminated))
        return reply

    def events(self, after: int | str | None = None) -> ChangeSubscription:
        """Follow the latest status of all changed threads: after a change number, or `latest` for what comes after this call."""
        return self._parts().hub.changes(after)

    @property
    def clock(self) -> Clock:
        """What it reads time from."""
        return self._clock

    @property
    def agents(self) -> list[str]:
        """The names of its agents, sorted."""
        return sorted(self._agents)

    @property
    def boot_id(self) -> str:
        """The id of this opening, as first frames carry it. Raises: RuntimeClosed: it was never open."""
        return self._parts().boot.id

    # Health

    def ready(self) -> tuple[bool, list[str]]:
        """Say whether the runtime can take and finish work, and why not."""
        services = self._services
        if services is None or services.closing:
            return False, ["runtime_closed"]
        reasons = readiness(services)
        return not reasons, reasons

    def counts(self) -> Counts:
        """Count what was done since the open, and what is at hand; looks at every thread in use, and never at the store."""
        return counts(self._parts())

    def _parts(self, *, taking: bool = False) -> Services:
        if self._services is None:
            raise RuntimeClosed("the runtime is not open; use it in a with statement")
        if taking and self._services.closing:
            raise RuntimeClosed("the runtime is closing or closed")
        return self._services


def _check_option(name: str, value: object) -> float | int:
    # Beyond a float no clock can be asked for it; without end is one.
    if type(value) in (int, float) and (0 <= value <= sys.float_info.max or value == math.inf):  # type: ignore[operator]
        return value  # type: ignore[return-value]
    raise bad_option(f"{name} is a number of at least 0", value)
