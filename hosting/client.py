"""Owns the client that blocks: its connections and its waits. Decides nothing: what is sent is client_routes.py's.

A handle here has the methods of a handle in process; they return what its replies hold and raise what those fail with.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Literal, TypeVar

import httpx

from ..protocol.cursors import Cursor
from ..protocol.errors import MessageNotFound
from ..protocol.message_edits import UNCHANGED, Unchanged
from . import client_routes as routes
from .client_calls import Repeats, options
from .client_following import RECONNECTS, REPEATS, Backoff, ChangeFollowing, EventFollowing, checked
from .client_streams import EventStream
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

__all__ = ["Client", "ThreadClient"]

T = TypeVar("T")


class Client:
    """Speaks to a Treadle server; usable from any worker. Close it, or use it in a `with`.

    Args:
        base_url: where the server is, such as `http://127.0.0.1:8000`, or what an app of it is mounted under.
        token: a bearer token; a server without tokens takes calls from its own machine without one.
        timeout: seconds to wait for an answer.
        repeats: how a call that is harmless twice is repeated where its answer is lost: reads, and all that has an id.
        reconnects: how a stream that was cut is taken up again.
        sleep: waits; a test's own makes time pass.

    Raises:
        InvalidInput: `base_url` is no URL, `token` none that a header can carry, `timeout` no number above 0, or what is
            to be a `Backoff` is none.
    """

    def __init__(
        self, base_url: str, token: str | None = None, *, timeout: float = 30.0,
        repeats: Backoff = REPEATS, reconnects: Backoff = RECONNECTS,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:  # fmt: skip
        self._repeats = checked("repeats", repeats)
        self._reconnects = checked("reconnects", reconnects)
        check_callable("sleep", sleep, "called with seconds")
        self._http = httpx.Client(**options(base_url, token, timeout))
        self._sleep = sleep

    def __repr__(self) -> str:
        return f"<Client of {self._http.base_url}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close its connections; streams of it end with an error."""
        self._http.close()

    def create_thread(
        self, agent: str, *, thread_id: str | None = None, user_id: str | None = None, arguments: JsonObject | None = None,
        tags: Iterable[str] = (), env: dict[str, str] | None = None,
    ) -> ThreadClient:  # fmt: skip
        """Create a thread, at rest; durable when this returns. A user's token creates threads of that user alone.

        Raises:
            AgentNotFound, ThreadExists, InvalidInput, LimitExceeded: nothing was stored.
        """
        call = routes.create_thread(agent, thread_id, user_id, arguments, tags, env)
        return ThreadClient(self, self.call(call).id)

    def thread(self, thread_id: str) -> ThreadClient:
        """Return a handle; nothing is sent, so an unknown thread fails at its first call."""
        return ThreadClient(self, thread_id)

    def threads(
        self, *, user_id: str | None = None, agent: str | None = None, state: str | None = None,
        order: Literal["created", "activity"] = "created", limit: int = 100, after: str | None = None,
    ) -> ThreadPage:  # fmt: skip
        """Return a page of the threads that this token sees; `next` of it is the `after` of the following one."""
        return self.call(routes.threads(user_id, agent, state, order, limit, after))

    def delete_thread(self, thread_id: str) -> None:
        """End a thread and take it out of the store; durable when this returns. Raises: ThreadNotFound."""
        self.call(routes.delete_thread(thread_id))

    def events(self, after: int | str | None = None) -> EventStream:
        """Follow the status of all visible threads: each changed thread's latest status, resumable by change number."""
        return EventStream(self._http, routes.EVENTS, ChangeFollowing(after, self._reconnects), self._sleep)

    def follow(self, thread_id: str, after: str | Cursor | None, *, follow: bool, live: bool) -> EventStream:
        """Follow one thread; see `ThreadClient.events`."""
        following = EventFollowing(after, self._reconnects, follow=follow, live=live)
        return EventStream(self._http, routes.events(thread_id), following, self._sleep)

    def call(self, call: Call[T]) -> T:
        """Send a call, again where that is harmless and its answer was lost, and return its result."""
        repeats = Repeats(call, self._repeats, str(self._http.base_url))
        request = call.request(self._http)
        while True:
            try:
                return call.answered(self._http.send(request))
            except httpx.RequestError as error:
                delay = repeats.after(error)
            self._sleep(delay)


class ThreadClient:
    """A handle on one thread of a server."""

    __slots__ = ("_client", "id")

    def __init__(self, client: Client, thread_id: str) -> None:
        self._client = client
        self.id = thread_id

    def __repr__(self) -> str:
        return f"<ThreadClient {self.id!r}>"

    # Inputs

    def submit(
        self, content: Content, *, input_id: str | None = None, on_busy: OnBusy = "reject", timeout: float | None = None
    ) -> Receipt:
        """Hand in an input that wants an execution of its own (contract A.4).

        Returns:
            A receipt `accepted`, `queued` or `busy`; the first two are durable when it is there.

        Raises:
            InvalidInput, LimitExceeded, ThreadNotFound, ThreadTerminated, IdempotencyConflict: nothing was stored.
            OutcomeUnknown: no answer came, however often it was asked for; repeat with `details["input_id"]`.
        """
        return self._client.call(routes.submit(self.id, content, input_id, on_busy, timeout))

    def queue_message(
        self, content: Content, *, role: str = "user", input_id: str | None = None, silent: bool = False,
        metadata: JsonObject | None = None, attachments: list[JsonObject] | None = None,
    ) -> Receipt:  # fmt: skip
        """Queue a message: it joins the active execution at its next boundary, or starts one. Raises: as `submit`."""
        call = routes.queue_message(self.id, content, role, input_id, metadata, attachments, silent=silent)
        return self._client.call(call)

    def queue_tool(self, name: str, args: JsonObject | None = None, *, input_id: str | None = None) -> Receipt:
        """Have a tool called, by the active execution or by one that this starts; an admin's to do. Raises: as `submit`."""
        return self._client.call(routes.queue_tool(self.id, name, args, input_id))

    def withdraw(self, input_id: str) -> Withdrawal:
        """Take a waiting input back as a whole: `withdrawn`, `already_delivered` or `not_found`."""
        return self._client.call(routes.withdraw(self.id, input_id))

    def receipt(self, given_id: str) -> Receipt | ControlReceipt:
        """Return the first receipt under an input or control id. Raises: InputNotFound."""
        return self._client.call(routes.receipt(self.id, given_id))

    # Controls

    def steer(self, execution_id: str, content: Content, *, control_id: str | None = None) -> ControlReceipt:
        """Give the execution `execution_id`, and no other, something to read (contract A.5). Raises: as `submit`."""
        return self._client.call(routes.steer(self.id, execution_id, content, control_id))

    def interrupt(
        self, execution_id: str, *, reason: str | None = None, source: Literal["user", "system", "parent"] = "user",
        hold: bool = False, control_id: str | None = None,
    ) -> ControlReceipt:  # fmt: skip
        """End the execution `execution_id`, and no other (contract A.5)."""
        return self._client.call(routes.interrupt(self.id, execution_id, reason, source, control_id, hold=hold))

    def stop(self) -> ControlReceipt:
        """Interrupt whatever is active, and hold the thread: nothing that waits starts by itself."""
        return self._client.call(routes.stop(self.id))

    def resume(self) -> Receipt:
        """Lift the hold and start what waits or, with nothing waiting, run on the history there is."""
        return self._client.call(routes.resume(self.id))

    def terminate(self) -> int:
        """Close the thread for good: it takes no further input. Returns since when, microseconds; idempotent."""
        return self._client.call(routes.terminate(self.id))

    def respond(self, request_id: str, value: object) -> RespondStatus:
        """Answer a request of the live execution (`state().pending_requests`); the first answer is the one."""
        return self._client.call(routes.respond(self.id, request_id, value))

    # Messages

    def messages(
        self, *, limit: int = 100, offset: int = 0, order: str | None = None, include_silent: bool = False,
        max_depth: int = 0, before: str | None = None, after: str | None = None,
    ) -> MessagePage:  # fmt: skip
        """Return a page of messages (contract D.3); with `before` or `after` a message id, those next to it."""
        call = routes.messages(
            self.id, limit, offset, order, max_depth, before, after, include_silent=include_silent
        )  # fmt: skip
        return self._client.call(call)

    def message(self, message_id: str) -> Message | None:
        """Return a message by id, at any depth, waiting ones included; None where there is none."""
        try:
            return self._client.call(routes.message(self.id, message_id))
        except MessageNotFound:
            return None

    def update_message(
        self, message_id: str, *, content: str | None | Unchanged = UNCHANGED,
        metadata: JsonObject | None | Unchanged = UNCHANGED,
    ) -> Message:  # fmt: skip
        """Change a message; metadata is merged key by key, None deletes one. Raises: MessageNotFound, InvalidInput."""
        return self._client.call(routes.update_message(self.id, message_id, content, metadata))

    def delete_message(self, message_id: str) -> bool:
        """Take a message out of the thread; return whether it was there."""
        return self._client.call(routes.delete_message(self.id, message_id))

    # Looking

    def summary(self) -> ThreadSummary:
        """Return the thread as lists show it."""
        return self._client.call(routes.thread(self.id))

    def tags(self) -> list[str]:
        """Return the thread's tags."""
        return self._client.call(routes.tags(self.id))

    def set_tags(self, tags: Iterable[str]) -> list[str]:
        """Replace the thread's tags; return them."""
        return self._client.call(routes.set_tags(self.id, tags))

    def status(self) -> ThreadStatus:
        """Return the run status (contract C)."""
        return self.summary().status

    def state(self) -> ThreadLiveState:
        """Return who owns the thread now, what is pending, and up to where history is published."""
        return self._client.call(routes.state(self.id))

    def explain(self) -> Explanation:
        """Say who holds the thread, since when and where, what waits behind, and what will happen next."""
        return self._client.call(routes.explain(self.id))

    def executions(self, *, limit: int = 100, offset: int = 0, order: str = "desc") -> ExecutionPage:
        """Return a page of execution records, newest first."""
        return self._client.call(routes.executions(self.id, limit, offset, order))

    def execution(self, execution_id: str) -> ExecutionRecord:
        """Return one execution's record. Raises: ExecutionNotFound."""
        return self._client.call(routes.execution(self.id, execution_id))

    def wait(self, target: str | Receipt | ControlReceipt, *, timeout: float | None = None) -> ExecutionRecord:
        """Wait for an execution to end, or the one that an input comes to; return its record.

        Args:
            target: an execution id, or a receipt: a queued one follows its input into its execution.
            timeout: seconds; None for as long as it takes.

        Raises:
            TimeoutError: it has not ended by then.
            ExecutionNotFound, InputNotFound, InputWithdrawn, ThreadTerminated: there is nothing to wait for.
        """
        waiting = Waiting(self.id, target, timeout)
        while (record := waiting.ended(self._client.call(waiting.call()))) is None:
            continue
        return record

    def events(self, after: str | Cursor | None = None, *, follow: bool = True, live: bool = False) -> EventStream:
        """Follow the committed events after a cursor, each once and in order, over as many connections as it takes.

        Args:
            after: the last cursor applied, as the `cursor` of an event or of the stream; None for the beginning.
            follow: go on with what comes; else end with what was there at the beginning.
            live: also what is shown to those who watch now, as pieces of messages: no cursor, lost where nobody read.
        """
        return self._client.follow(self.id, after, follow=follow, live=live)

    # Values

    def get_value(self, key: str) -> Value:
        """Return a value of the thread, None where there is none."""
        return self._client.call(routes.get_value(self.id, key))

    def set_value(self, key: str, value: object) -> None:
        """Set a value, or delete it with None; durable when this returns. Raises: InvalidInput, LimitExceeded."""
        self._client.call(routes.set_value(self.id, key, value))

    def list_values(self, search: str | None = None, limit: int = 100, offset: int = 0) -> ValuePage:
        """Return a page of the thread's values in the order of their keys."""
        return self._client.call(routes.values(self.id, search, limit, offset))
