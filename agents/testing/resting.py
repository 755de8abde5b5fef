"""Owns `run_to_rest`: drives a thread until nothing of it runs or waits. Never sleeps or polls: order comes from its stream."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from ...actors.handle import Thread
    from ...actors.live_state import ThreadLiveState
    from ...actors.subscription import StreamSubscription
    from ...protocol.executions import ExecutionRecord
    from ...protocol.frames import Frame
    from ...protocol.messages import Content, Message
    from ...protocol.status import ThreadStatus
    from ...protocol.values import JsonObject

__all__ = ["GUARD_S", "Answers", "Rest", "run_to_rest", "settle"]

GUARD_S: Final = 30.0  # real seconds that a test waits for what must come; only a broken one waits so long
_PAGE: Final = 1_000

Answers = Mapping[str, object]

_WORTH_A_LOOK: Final = frozenset(
    {"thread_status", "REQUEST_OPENED", "INPUT_QUEUED", "HOLD_CHANGED", "THREAD_TERMINATED"}
)


class Rest(NamedTuple):
    """How a thread came to rest.

    Attributes:
        status: its run status now.
        executions: those that ran meanwhile, the oldest first.
        messages: what joined history meanwhile at depth 0, silent messages included.
        frames: all that its stream brought, live frames included.
    """

    status: ThreadStatus
    executions: list[ExecutionRecord]
    messages: list[Message]
    frames: list[Frame]

    @property
    def text(self) -> str:
        """What side A said last; empty where it said nothing."""
        said = [one.content for one in self.messages if one.role == "assistant" and one.content and not one.silent]
        return said[-1] if said else ""

    @property
    def calls(self) -> list[str]:
        """The names of the tools that have results, in order."""
        return [one.name or "" for one in self.messages if one.role == "tool"]


def run_to_rest(
    thread: Thread, content: Content | None = None, *, answers: Answers | None = None, guard: float = GUARD_S
) -> Rest:  # fmt: skip
    """Submit something, and block until nothing of the thread runs and nothing waits to; never on an event loop.

    What a hold keeps back does not count as waiting.

    Args:
        thread: of an open runtime.
        content: what to submit; None to wait for what goes on already.
        answers: by the kind of a request: its answer, or a function of the request that gives it.
        guard: real seconds; a guard only.

    Raises:
        AssertionError: it did not come to rest in time, refused the input, or asks for what `answers` has not.
    """
    before = thread.messages(limit=1, include_silent=True).result(guard).total

    def answer(request: JsonObject) -> None:
        kind = request["kind"]
        if answers is None or kind not in answers:
            raise AssertionError(f"thread {thread.id!r} asks, and `answers` has no {kind!r}: {request['payload']}")
        given = answers[kind]
        thread.respond(request["request_id"], given(request) if callable(given) else given).result(guard)

    with thread.stream() as stream:
        snapshot = stream.next(guard)
        assert snapshot is not None
        if content is not None:
            receipt = thread.submit(content, on_busy="queue").result(guard)
            assert receipt.disposition in ("accepted", "queued"), receipt
        frames = [snapshot, *_settled(thread, stream, answer, guard)]
    return _rest(thread, before, frames, guard)


def settle(thread: Thread, answer: Callable[[JsonObject], None], guard: float = GUARD_S) -> None:
    """Block until nothing of the thread runs and nothing waits to; never on an event loop.

    Args:
        thread: of an open runtime.
        answer: called with each pending request, again as long as it is pending.
        guard: real seconds; a guard only.

    Raises:
        AssertionError: it did not come to rest in time.
    """
    with thread.stream() as stream:
        _settled(thread, stream, answer, guard)


def _settled(
    thread: Thread, stream: StreamSubscription, answer: Callable[[JsonObject], None], guard: float
) -> list[Frame]:  # fmt: skip
    frames: list[Frame] = []
    deadline = time.monotonic() + guard
    while not _rests(state := thread.state().result(guard)):
        active = state.active_execution
        # One that is being interrupted reads no answer any more.
        for request in state.pending_requests if active is not None and active.phase == "running" else ():
            answer(request)
        _next_change(thread, stream, frames, deadline)
    return frames


def _rests(state: ThreadLiveState) -> bool:
    return state.active_execution is None and (not state.waiting or state.held or state.terminated_at is not None)


def _next_change(thread: Thread, stream: StreamSubscription, frames: list[Frame], deadline: float) -> None:
    """Read on to the next frame that may have brought the thread to rest, or asks for something."""
    while True:
        try:
            frame = stream.next(max(0.0, deadline - time.monotonic()))
        except TimeoutError:
            raise AssertionError(f"thread {thread.id!r} is not at rest: {thread.explain().result()}") from None
        assert frame is not None, f"the stream of thread {thread.id!r} ended"
        frames.append(frame)
        if frame["type"] in _WORTH_A_LOOK:
            return


def _rest(thread: Thread, before: int, frames: list[Frame], guard: float) -> Rest:
    ran = [frame["execution_id"] for frame in frames if frame["type"] == "THREAD_EXECUTION_STARTED"]
    messages: list[Message] = []
    while True:
        page = thread.messages(
            limit=_PAGE, offset=before + len(messages), order="asc", include_silent=True
        ).result(guard)  # fmt: skip
        messages += page.messages
        if not page.has_more:
            break
    executions = [thread.execution(one).result(guard) for one in ran]
    return Rest(thread.status().result(guard), executions, messages, frames)
