"""Owns which spans an execution's events make: its own, one a step, one a tool call. Follows nothing by itself.

A step ends with the last result of its calls, or with its answer; it begins where the one before ended. A tool's span goes
from its call's commit to that of its result.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from opentelemetry.trace import Span, SpanKind, Status, StatusCode, set_span_in_context

from ..protocol.cursors import Cursor
from ..protocol.errors import RuntimeClosed
from ..protocol.events import ExecutionFinished, ExecutionLost, ExecutionStarted, MessageAdded
from ..protocol.limits import BATCH_RECORDS_MAX

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

    from ..actors import Runtime
    from ..protocol.events import JournalEvent
    from ..protocol.frames import Frame
    from ..protocol.values import JsonObject

__all__ = ["Traced"]

_THREADS_MAX: Final = 10_000  # whose place in the journal is kept; the others' is looked for again
_LOOKED_BACK: Final = 4 * BATCH_RECORDS_MAX  # events before a change, in which a START that was not seen is looked for


class _Step:
    __slots__ = ("began", "calls", "depth", "ended", "tools")

    def __init__(self, began: int, ended: int, depth: int, calls: dict[str, str]) -> None:
        self.began = began
        self.ended = ended
        self.depth = depth
        self.calls = calls  # open ones: id to name
        self.tools: list[tuple[str, str, int, int, bool]] = []


class _Course:
    """One execution, as far as its events were seen."""

    def __init__(self, execution_id: str, agent_id: str, began: int, cause: str) -> None:
        self.execution_id = execution_id
        self.agent_id = agent_id
        self.began = began
        self.cause = cause
        self.steps: list[_Step] = []
        self._boundary: dict[int, int] = {}

    def take(self, at: int, message: JsonObject) -> None:
        """Take a message of the execution."""
        depth = message.get("depth") or 0
        assert isinstance(depth, int)
        if message.get("role") == "assistant":
            step = _Step(self._boundary.get(depth, self.began), at, depth, _calls(message.get("tool_calls")))
            self.steps.append(step)
            self._boundary[depth] = at
        elif message.get("role") == "tool":
            call_id = str(message.get("tool_call_id"))
            for step in reversed(self.steps):
                name = step.calls.pop(call_id, None)
                if name is not None:
                    step.tools.append(
                        (call_id, name, self.answered_from(step), at, message.get("tool_status") == "error")
                    )
                    step.ended = self._boundary[step.depth] = at
                    return

    def answered_from(self, step: _Step) -> int:
        """Return when the calls of a step were there: with its own message."""
        return step.tools[0][2] if step.tools else step.ended


def _calls(text: object) -> dict[str, str]:
    calls = json.loads(text) if isinstance(text, str) else []
    return {str(call["id"]): str(call["function"]["name"]) for call in calls}


class Traced:
    """Makes spans of the executions of a runtime's threads, told of each change of a status; one worker calls.

    Args:
        runtime: whose journals are read.
        provider: takes the spans.
    """

    def __init__(self, runtime: Runtime, provider: TracerProvider) -> None:
        self._runtime = runtime
        self._tracer = provider.get_tracer("treadle")
        self._places: OrderedDict[str, Cursor] = OrderedDict()
        self._courses: dict[str, _Course] = {}
        self._since = runtime.clock.now_us()

    def changed(self, frame: Frame) -> None:
        """Read what led to a change, and make the spans of the executions that ended."""
        if "thread_id" not in frame:
            return
        thread_id = str(frame["thread_id"])
        if frame["deleted"]:
            self._places.pop(thread_id, None)
            self._courses.pop(thread_id, None)
            return
        to = Cursor.parse(str(frame["cursor"]))
        after = self._places.get(thread_id)
        if after is None or after.generation != to.generation:
            after = Cursor(to.generation, max(0, to.sequence - _LOOKED_BACK))
        if after >= to:
            return
        try:
            self._read(thread_id, after, to)
        except RuntimeClosed:
            self._told(thread_id, frame)
            return
        self._places[thread_id] = to
        self._places.move_to_end(thread_id)
        if len(self._places) > _THREADS_MAX:
            self._places.popitem(last=False)

    def _read(self, thread_id: str, after: Cursor, to: Cursor) -> None:
        with self._runtime.thread(thread_id).events(after) as events:
            for entry in events:
                self._take(thread_id, entry)
                if entry.cursor >= to:
                    return

    def _take(self, thread_id: str, entry: JournalEvent) -> None:
        event, at = entry.event, entry.created_at
        course = self._courses.get(thread_id)
        if isinstance(event, ExecutionStarted):
            if at >= self._since:  # what is looked back at may hold executions of old
                self._courses[thread_id] = _Course(event.execution_id, event.agent_id, at, event.cause)
        elif isinstance(event, MessageAdded) and course is not None and event.execution_id == course.execution_id:
            course.take(at, event.message)
        elif isinstance(event, ExecutionFinished | ExecutionLost):
            self._courses.pop(thread_id, None)
            if course is None or course.execution_id != event.execution_id:
                return
            lost = isinstance(event, ExecutionLost)
            outcome = "lost" if isinstance(event, ExecutionLost) else event.outcome
            reason = "execution_lost" if isinstance(event, ExecutionLost) else event.reason
            error = event.cause if isinstance(event, ExecutionLost) else event.error_type
            self._end(thread_id, course, at, outcome, reason, error if lost or outcome == "failed" else None)

    def _told(self, thread_id: str, frame: Frame) -> None:
        """Close a span by the status alone: the runtime closed before its journal was read."""
        course = self._courses.get(thread_id)
        status = frame["status"]
        if course is None or status["state"] == "running":
            return
        del self._courses[thread_id]
        failed = status["state"] == "failed"
        reason, since = status["reason"], int(status["since"])
        self._end(thread_id, course, since, "unknown", reason, reason if failed else None)

    def _end(
        self, thread_id: str, course: _Course, at: int, outcome: str, reason: str | None, error: str | None
    ) -> None:
        about = {"treadle.thread_id": thread_id, "treadle.execution_id": course.execution_id}
        attributes = {
            **about,
            "treadle.agent_id": course.agent_id,
            "treadle.cause": course.cause,
            "treadle.outcome": outcome,
            "treadle.reason": reason or "",
        }
        span = self._tracer.start_span(
            "treadle.execution", start_time=course.began * 1_000, attributes=attributes, kind=SpanKind.CONSUMER
        )
        for step in course.steps:
            self._step(span, step, about, at)
        if error is not None:
            # The type alone: what it says may be the customer's.
            span.set_status(Status(StatusCode.ERROR, error))
        span.end(at * 1_000)

    def _step(self, above: Span, step: _Step, about: dict[str, str], at: int) -> None:
        asked = step.tools[0][2] if step.tools else step.ended
        ended = at if step.calls else step.ended
        span = self._tracer.start_span(
            "treadle.step", set_span_in_context(above), start_time=step.began * 1_000,
            attributes={**about, "treadle.depth": step.depth, "treadle.calls": len(step.tools) + len(step.calls)},
        )  # fmt: skip
        unanswered = [(call_id, name, asked, at, True) for call_id, name in step.calls.items()]
        for call_id, name, began, answered, failed in [*step.tools, *unanswered]:
            tool = self._tracer.start_span(
                "treadle.tool", set_span_in_context(span), start_time=began * 1_000,
                attributes={**about, "treadle.tool": name, "treadle.call_id": call_id},
            )  # fmt: skip
            if failed:
                tool.set_status(Status(StatusCode.ERROR))
            tool.end(answered * 1_000)
        span.end(ended * 1_000)
