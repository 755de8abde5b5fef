"""Owns the client that is awaited: its connections and its waits. Decides nothing: what is sent is client_routes.py's.

The same as client.py in every name and argument; what a call does, returns and raises is said there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Literal, TypeVar

import httpx

from ..protocol.cursors import Cursor
from ..protocol.errors import MessageNotFound
from ..protocol.message_edits import UNCHANGED, Unchanged
from . import client_routes as routes
from .client_calls import Repeats, options
from .client_following import RECONNECTS, REPEATS, Backoff, ChangeFollowing, EventFollowing, checked
from .client_streams import AsyncEventStream
from .client_waiting import Waiting
from .given import check_callable

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from ..actors import (
        ControlReceipt,
        ExecutionPage,
        ExecutionRecord,
        Explanation,
        Message,
        MessagePage,
        Receipt,
        RespondStatus,
        ThreadLiveState,
        ThreadPage,
        ThreadStatus,
        ThreadSummary,
        ValuePage,
        Withdrawal,
    )
    from ..actors.handle import OnBusy
    from ..protocol.messages import Content
    from ..protocol.values import JsonObject, Value
    from .client_calls import Call

__all__ = ["AsyncClient", "AsyncThreadClient"]

T = TypeVar("T")


class AsyncClient:
    """Speaks to a Treadle server; for one event loop. Close it, or use it in an `async with`.

    Args:
        base_url, token, timeout, repeats, reconnects, sleep: as those of `Client`.
    """

    def __init__(
        self, base_url: str, token: str | None = None, *, timeout: float = 30.0,
        repeats: Backoff = REPEATS, reconnects: Backoff = RECONNECTS,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:  # fmt: skip
        self._repeats = checked("repeats", repeats)
        self._reconnects = checked("reconnects", reconnects)
        check_callable("sleep", sleep, "called with seconds")
        self._http = httpx.AsyncClient(**options(base_url, token, timeout))
        self._sleep = sleep

    def __repr__(self) -> str:
        return f"<AsyncClient of {self._http.base_url}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close its connections; streams of it end with an error."""
        await self._http.aclose()

    async def create_thread(
        self, agent: str, *, thread_id: str | None = None, user_id: str | None = None, arguments: JsonObject | None = None,
        tags: Iterable[str] = (), env: dict[str, str] | None = None,
    ) -> AsyncThreadClient:  # fmt: skip
        """Create a thread, at rest; durable when this returns. A user's token creates threads of that user alone."""
        call = routes.create_thread(agent, thread_id, user_id, arguments, tags, env)
        return AsyncThreadClient(self, (await self.call(call)).id)

    def thread(self, thread_id: str) -> AsyncThreadClient:
        """Return a handle; nothing is sent, so an unknown thread fails at its first call."""
        return AsyncThreadClient(self, thread_id)

    async def threads(
        self, *, user_id: str | None = None, agent: str | None = None, state: str | None = None,
        order: Literal["created", "activity"] = "created", limit: int = 100, after: str | None = None,
    ) -> ThreadPage:  # fmt: skip
        """Return a page of the threads that this token sees; `next` of it is the `after` of the following one."""
        return await self.call(routes.threads(user_id, agent, state, order, limit, after))

    async def delete_thread(self, thread_id: str) -> None:
        """End a thread and take it out of the store; durable when this returns."""
        await self.call(routes.delete_thread(thread_id))

    def events(self, after: int | str | None = None) -> AsyncEventStream:
        """Follow the status of all visible threads: each changed thread's latest status, resumable by change number."""
        return AsyncEventStream(self._http, routes.EVENTS, ChangeFollowing(after, self._reconnects), self._sleep)

    def follow(self, thread_id: str, after: str | Cursor | None, *, follow: bool, live: bool) -> AsyncEventStream:
        """Follow one thread; see `AsyncThreadClient.events`."""
        following = EventFollowing(after, self._reconnects, follow=follow, live=live)
        return AsyncEventStream(self._http, routes.events(thread_id), following, self._sleep)

    async def call(self, call: Call[T]) -> T:
        """Send a call, again where that is harmless and its answer was lost, and return its result."""
        repeats = Repeats(call, self._repeats, str(self._http.base_url))
        request = call.request(self._http)
        while True:
            try:
                return call.answered(await self._http.send(request))
            except httpx.RequestError as error:
                delay = repeats.after(error)
            await self._sleep(delay)


class AsyncThreadClient:
    """A handle on one thread of a server."""

    __slots__ = ("_client", "id")

    def __init__(self, client: AsyncClient, thread_id: str) -> None:
        self._client = client
        self.id = thread_id

    def __repr__(self) -> str:
        return f"<AsyncThreadClient {self.id!r}>"

    # Inputs

    async def submit(
        self, content: Content, *, input_id: str | None = None, on_busy: OnBusy = "reject",
        timeout: float | None = None,  # noqa: ASYNC109 - of the execution, not of this call
    ) -> Receipt:  # fmt: skip
        """Hand in an input that wants an execution of its own (contract A.4)."""
        return await self._client.call(routes.submit(self.id, content, input_id, on_busy, timeout))

    async def queue_message(
        self, content: Content, *, role: str = "user", input_id: str | None = None, silent: bool = False,
        metadata: JsonObject | None = None, attachments: list[JsonObject] | None = None,
    ) -> Receipt:  # fmt: skip
        """Queue a message: it joins the active execution at its next boundary, or starts one. Raises: as `submit`."""
        call = routes.queue_message(self.id, content, role, input_id, metadata, attachments, silent=silent)
        return await self._client.call(call)

    async def queue_tool(self, name: str, args: JsonObject | None = None, *, input_id: str | None = None) -> Receipt:
        """Have a tool called, by the active execution or by one that this starts; an admin's to do. Raises: as `submit`."""
        return await self._client.call(routes.queue_tool(self.id, name, args, input_id))

    async def withdraw(self, input_id: str) -> Withdrawal:
        """Take a waiting input back as a whole: `withdrawn`, `already_delivered` or `not_found`."""
        return await self._client.call(routes.withdraw(self.id, input_id))

    async def receipt(self, given_id: str) -> Receipt | ControlReceipt:
        """Return the first receipt under an input or control id. Raises: InputNotFound."""
        return await self._client.call(routes.receipt(self.id, given_id))

    # Controls

    async def steer(self, execution_id: str, content: Content, *, control_id: str | None = None) -> ControlReceipt:
        """Give the execution `execution_id`, and no other, something to read (contract A.5)."""
        return await self._client.call(routes.steer(self.id, execution_id, content, control_id))

    async def interrupt(
        self, execution_id: str, *, reason: str | None = None, source: Literal["user", "system", "parent"] = "user",
        hold: bool = False, control_id: str | None = None,
    ) -> ControlReceipt:  # fmt: skip
        """End the execution `execution_id`, and no other (contract A.5)."""
        return await self._client.call(routes.interrupt(self.id, execution_id, reason, source, control_id, hold=hold))

    async def stop(self) -> ControlReceipt:
        """Interrupt whatever is active, and hold the thread: nothing that waits starts by itself."""
        return await self._client.call(routes.stop(self.id))

    async def resume(self) -> Receipt:
        """Lift the hold and start what waits or, with nothing waiting, run on the history there is."""
        return await self._client.call(routes.resume(self.id))

    async def terminate(self) -> int:
        """Close the thread for good: it takes no further input. Returns since when, microseconds; idempotent."""
        return await self._client.call(routes.terminate(self.id))

    async def respond(self, request_id: str, value: object) -> RespondStatus:
        """Answer a request of the live execution (`state().pending_requests`); the first answer is the one."""
        return await self._client.call(routes.respond(self.id, request_id, value))

    # Messages

    async def messages(
        self, *, limit: int = 100, offset: int = 0, order: str | None = None, include_silent: bool = False,
        max_depth: int = 0, before: str | None = None, after: str | None = None,
    ) -> MessagePage:  # fmt: skip
        """Return a page of messages (contract D.3); with `before` or `after` a message id, those next to it."""
        call = routes.messages(
            self.id, limit, offset, order, max_depth, before, after, include_silent=include_silent
        )  # fmt: skip
        return await self._client.call(call)

    async def message(self, message_id: str) -> Message | None:
        """Return a message by id, at any depth, waiting ones included; None where there is none."""
        try:
            return await self._client.call(routes.message(self.id, message_id))
        except MessageNotFound:
            return None

    async def update_message(
        self, message_id: str, *, content: str | None | Unchanged = UNCHANGED,
        metadata: JsonObject | None | Unchanged = UNCHANGED,
    ) -> Message:  # fmt: skip
        """Change a message; metadata is merged key by key, None deletes one."""
        return await self._client.call(routes.update_message(self.id, message_id, content, metadata))

    async def delete_message(self, message_id: str) -> bool:
        """Take a message out of the thread; return whether it was there."""
        return await self._client.call(routes.delete_message(self.id, message_id))

    # Looking

    async def summary(self) -> ThreadSummary:
        """Return the thread as lists show it."""
        return await self._client.call(routes.thread(self.id))

    async def tags(self) -> list[str]:
        """Return the thread's tags."""
        return await self._client.call(routes.tags(self.id))

    async def set_tags(self, tags: Iterable[str]) -> list[str]:
        """Replace the thread's tags; return them."""
        return await self._client.call(routes.set_tags(self.id, tags))

    async def status(self) -> ThreadStatus:
        """Return the run status (contract C)."""
        return (await self.summary()).status

    async def state(self) -> ThreadLiveState:
        """Return who owns the thread now, what is pending, and up to where history is published."""
        return await self._client.call(routes.state(self.id))

    async def explain(self) -> Explanation:
        """Say who holds the thread, since when and where, what waits behind, and what will happen next."""
        return await self._client.call(routes.explain(self.id))

    async def executions(self, *, limit: int = 100, offset: int = 0, order: str = "desc") -> ExecutionPage:
        """Return a page of execution records, newest first."""
        return await self._client.call(routes.executions(self.id, limit, offset, order))

    async def execution(self, execution_id: str) -> ExecutionRecord:
        """Return one execution's record."""
        return await self._client.call(routes.execution(self.id, execution_id))

    async def wait(
        self, target: str | Receipt | ControlReceipt, *,
        timeout: float | None = None,  # noqa: ASYNC109 - as the client that blocks has it
    ) -> ExecutionRecord:  # fmt: skip
        """Wait for an execution to end, or the one that an input comes to; return its record; as `ThreadClient.wait`."""
        waiting = Waiting(self.id, target, timeout)
        while (record := waiting.ended(await self._client.call(waiting.call()))) is None:
            continue
        return record

    def events(self, after: str | Cursor | None = None, *, follow: bool = True, live: bool = False) -> AsyncEventStream:
        """Follow the committed events after a cursor, each once and in order, over as many connections as it takes."""
        return self._client.follow(self.id, after, follow=follow, live=live)

    # Values

    async def get_value(self, key: str) -> Value:
        """Return a value of the thread, None where there is none."""
        return await self._client.call(routes.get_value(self.id, key))

    async def set_value(self, key: str, value: object) -> None:
        """Set a value, or delete it with None; durable when this returns."""
        await self._client.call(routes.set_value(self.id, key, value))

    async def list_values(self, search: str | None = None, limit: int = 100, offset: int = 0) -> ValuePage:
        """Return a page of the thread's values in the order of their keys."""
        return await self._client.call(routes.values(self.id, search, limit, offset))
