"""Owns what one thread's journal may say, in which order: pairs, owners, joins, ids. Reads no table and no record.

It knows the promises, not the code that keeps them, so it shares neither the fold nor the encoding: what those get
wrong in the same way at both ends is found here.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from ..protocol.events import (
    AgentChanged,
    ControlRecorded,
    Event,
    ExecutionFinished,
    ExecutionInterrupted,
    ExecutionLost,
    ExecutionStarted,
    InboxFailed,
    InputQueued,
    InputWithdrawn,
    MessageAdded,
    MessageDeleted,
    MessagesJoined,
    MessageUpdated,
    ProcessRecorded,
    RequestOpened,
    RequestTerminated,
    ThreadCreated,
    ThreadTerminated,
)
from .edit_rules import EditRules

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..protocol.messages import Draft

__all__ = ["JournalRules"]


class JournalRules:
    """Follows one journal from its first event and notes everything that should not be.

    Attributes:
        owner: the execution that has begun and not ended.
        waiting: accepted inputs that have neither joined nor been withdrawn, by sequence.
        calls, requests, groups: what is open.
        messages: which stand, and how many.
        found: (sequence, what is wrong), in order.
    """

    def __init__(self) -> None:
        self.owner: str | None = None
        self.waiting: dict[int, InputQueued] = {}
        self.calls: set[str] = set()
        self._unmade: set[str] = set()  # of queued tools that joined without being run; they have results all the same
        self.requests: set[str] = set()
        self.groups: set[int] = set()
        self.messages = EditRules(self._must)
        self.found: list[tuple[int, str]] = []
        self._agent: str | None = None  # whose the thread is
        self._sequence = 0
        self._last_time = 0
        self._interrupted: set[str] = set()
        self._executions: set[str] = set()
        self._ids: set[str] = set()  # of messages, deleted ones included
        self._given: set[str] = set()
        self._asked: set[str] = set()
        self._terminated = False
        # Waiting rows by kind, and whether they came with an interruption, each in the order of acceptance.
        self._lines: dict[tuple[str, bool], OrderedDict[int, None]] = {}

    def take(self, event: Event, at: int) -> None:
        """Follow the next event, which happened `at` (microseconds)."""
        self._sequence += 1
        self._must(at > self._last_time, f"its time {at} is not after {self._last_time}")
        self._last_time = at
        if self._sequence == 1:
            self._must(isinstance(event, ThreadCreated), f"a journal begins with {event.type}")
        if not isinstance(event, MessageDeleted):
            self.messages.settled()
        rule = _RULES.get(type(event))
        if rule is not None:
            rule(self, event)

    def _must(self, true: object, otherwise: str) -> None:
        if not true:
            self.found.append((self._sequence, otherwise))

    def _once(self, kind: str, seen: set[str], given: str) -> None:
        self._must(given not in seen, f"{kind} {given} appears twice")
        seen.add(given)

    def _owned(self, event: Any) -> None:
        self._must(
            self.owner is not None and event.execution_id == self.owner,
            f"{event.type} is about execution {event.execution_id}, the owner is {self.owner}",
        )

    def _created(self, event: ThreadCreated) -> None:
        self._must(self._sequence == 1, "the thread is created a second time")
        self._agent = event.agent_id

    def _runs(self, event: ExecutionStarted | ExecutionFinished) -> None:
        self._must(
            event.agent_id == self._agent, f"{event.type} is of agent {event.agent_id}, the thread is {self._agent}'s"
        )

    def _handed_off(self, event: AgentChanged) -> None:
        self._owned(event)
        self._must(event.agent_id != self._agent, f"the thread is given to agent {event.agent_id}, whose it is")
        self._agent = event.agent_id

    def _started(self, event: ExecutionStarted) -> None:
        self._must(self.owner is None, f"execution {event.execution_id} starts while {self.owner} owns the thread")
        self._must(not self._terminated, f"execution {event.execution_id} starts on a terminated thread")
        self._runs(event)
        self._once("execution", self._executions, event.execution_id)
        self.owner = event.execution_id
        self._interrupted = set()
        if event.cause == "submit" and event.input_id is not None:
            self._once("input", self._given, event.input_id)
        for rank, draft in enumerate(event.messages):
            self._once("message", self._ids, draft["id"])
            self.messages.join(draft, self._sequence, rank, self._sequence)

    def _ended(self, event: ExecutionFinished | ExecutionLost) -> None:
        self._owned(event)
        self._must(not self.calls, f"calls {sorted(self.calls)} have no result")
        self._must(not self.requests, f"requests {sorted(self.requests)} are pending")
        steers = [sequence for sequence, content in self.waiting.items() if content.kind == "steer"]
        self._must(not steers, f"steers {steers} have not joined")
        self.owner = None
        self.calls = set()
        self.groups = set()

    def _finished(self, event: ExecutionFinished) -> None:
        self._runs(event)
        if self._interrupted - {"deadline"}:
            self._must(event.outcome != "succeeded", "an interrupted execution succeeded")
        elif self._interrupted:
            self._must(event.outcome == "failed", f"an execution past its deadline is {event.outcome}")
        self._ended(event)

    def _lost(self, event: ExecutionLost) -> None:
        self._must(event.last_sequence < self._sequence, f"its evidence names sequence {event.last_sequence}")
        self._ended(event)

    def _interruption(self, event: ExecutionInterrupted) -> None:
        self._owned(event)
        known = "deadline" if event.source == "deadline" else "caller"
        self._must(known not in self._interrupted, f"a second interruption by a {known}")
        self._interrupted.add(known)
        if event.control_id is not None:
            self._once("control", self._given, event.control_id)

    def _control(self, event: ControlRecorded) -> None:
        self._owned(event)
        self._once("control", self._given, event.control_id)

    def _added(self, event: MessageAdded) -> None:
        draft = event.message
        self._once("message", self._ids, draft["id"])
        self.messages.join(draft, self._sequence, 0, self._sequence)
        if event.execution_id is None:
            if draft.get("closes"):
                call_id = draft["tool_call_id"]
                self._must(call_id in self._unmade, f"call {call_id} gets a result outside of any execution")
                self._unmade.discard(call_id)
                self.messages.call(draft)
            return
        self._owned(event)
        self.messages.call(draft)
        self._open(draft)
        if draft.get("closes"):
            call_id = draft["tool_call_id"]
            self._must(call_id in self.calls, f"call {call_id} gets a second result, or was never made")
            self.calls.discard(call_id)

    def _open(self, draft: Draft) -> None:
        for call_id in draft.get("calls", ()):
            self._must(call_id not in self.calls, f"call {call_id} is opened while it is open")
            self.calls.add(call_id)

    def _queued(self, event: InputQueued) -> None:
        self._must(not self._terminated, "an input is accepted on a terminated thread")
        self._once("input", self._given, event.input_id)
        if event.kind == "steer":
            self._owned(event)
        calls = [len(draft.get("calls", ())) for draft in event.messages]
        fits = calls == [1] if event.kind == "tool" else not any(calls)
        self._must(fits, f"an input of kind {event.kind} makes {calls} calls")
        for draft in event.messages:
            self._once("message", self._ids, draft["id"])
        self.messages.wait(self._sequence, event)
        self.waiting[self._sequence] = event
        self._line(event)[self._sequence] = None

    def _line(self, content: InputQueued) -> OrderedDict[int, None]:
        return self._lines.setdefault((content.kind, content.first), OrderedDict())

    def _joining(self, event: MessagesJoined) -> None:
        if event.consumed:
            self._owned(event)
            self._must(not self.calls, f"rows join while calls {sorted(self.calls)} are open")
        else:
            self._must(event.reason, "rows join unread without a reason")
        for row in event.rows:
            content = self._leave(row)
            if content is None:
                continue
            if content.kind == "steer":
                fits = content.execution_id == self.owner == event.execution_id
                self._must(fits, f"steer {row[0]} of {content.execution_id} joins in {event.execution_id}")
            self.messages.leave(row[0], content, self._sequence)
            if content.kind == "tool":
                self.messages.call(content.messages[0])
                if event.consumed:
                    self._open(content.messages[0])
                else:
                    self._unmade.update(content.messages[0].get("calls", ()))

    def _leave(self, row: list[Any]) -> InputQueued | None:
        """Take a row out of its line, of which it must be the head: order is promised within each kind."""
        content = self.waiting.pop(row[0], None)
        if content is None:
            self._must(False, f"row {row[0]} joins or leaves a second time, or was never accepted")
            return None
        self._fits(row, content)
        ahead = self._lines.get((content.kind, True)) or self._line(content)
        self._must(next(iter(ahead)) == row[0], f"row {row[0]} joins before row {next(iter(ahead))}")
        self._line(content).pop(row[0], None)
        return content

    def _fits(self, row: list[Any], content: InputQueued) -> None:
        stored = self.messages.told(row[0], content)
        self._must(row[1:] == stored, f"row {row[0]} is told as {row[1:]}, it was accepted as {stored}")

    def _withdrawn(self, event: InputWithdrawn) -> None:
        content = self.waiting.pop(event.row[0], None)
        self._must(content is not None, f"row {event.row[0]} is withdrawn and does not wait")
        if content is not None:
            self._must(content.input_id == event.input_id, f"input {event.input_id} is row {content.input_id}")
            self._fits(event.row, content)
            self.messages.leave(event.row[0], content, None)
            self._line(content).pop(event.row[0], None)

    def _inbox_failed(self, event: InboxFailed) -> None:
        self._must(self._terminated, "the inbox fails and the thread is not terminated")
        self._must(event.through < self._sequence, f"it fails rows up to {event.through}, which are to come")

    def _process(self, event: ProcessRecorded) -> None:
        self._owned(event)
        self.groups.add(event.group)

    def _request(self, event: RequestOpened) -> None:
        self._owned(event)
        self._must(event.request_id not in self.requests, f"request {event.request_id} is opened while it is open")
        self._once("request", self._asked, event.request_id)
        self.requests.add(event.request_id)

    def _request_over(self, event: RequestTerminated) -> None:
        self._must(event.request_id in self.requests, f"request {event.request_id} ends and was not open")
        self.requests.discard(event.request_id)
        self._must(
            event.status == "abandoned" or not self._interrupted,
            f"request {event.request_id} is {event.status} after an interruption",
        )
        self._must(
            event.status == "resolved" or event.value is None,
            f"{event.status} request {event.request_id} has an answer",
        )

    def _updated(self, event: MessageUpdated) -> None:
        if event.execution_id is not None:
            self._owned(event)
        self.messages.update(event, self._sequence)

    def _deleted(self, event: MessageDeleted) -> None:
        if event.execution_id is not None:
            self._owned(event)
        self.messages.delete(event)

    def _terminating(self, _event: ThreadTerminated) -> None:
        self._must(not self._terminated, "the thread is terminated a second time")
        self._terminated = True


_RULES: dict[type[Event], Callable[[JournalRules, Any], None]] = {
    AgentChanged: JournalRules._handed_off,  # noqa: SLF001 - of this very file, as are all below
    ThreadCreated: JournalRules._created,  # noqa: SLF001
    ExecutionStarted: JournalRules._started,  # noqa: SLF001
    ExecutionFinished: JournalRules._finished,  # noqa: SLF001
    ExecutionLost: JournalRules._lost,  # noqa: SLF001
    ExecutionInterrupted: JournalRules._interruption,  # noqa: SLF001
    MessageAdded: JournalRules._added,  # noqa: SLF001
    InputQueued: JournalRules._queued,  # noqa: SLF001
    MessagesJoined: JournalRules._joining,  # noqa: SLF001
    InputWithdrawn: JournalRules._withdrawn,  # noqa: SLF001
    InboxFailed: JournalRules._inbox_failed,  # noqa: SLF001
    ControlRecorded: JournalRules._control,  # noqa: SLF001
    ProcessRecorded: JournalRules._process,  # noqa: SLF001
    RequestOpened: JournalRules._request,  # noqa: SLF001
    RequestTerminated: JournalRules._request_over,  # noqa: SLF001
    ThreadTerminated: JournalRules._terminating,  # noqa: SLF001
    MessageUpdated: JournalRules._updated,  # noqa: SLF001
    MessageDeleted: JournalRules._deleted,  # noqa: SLF001
}
