"""Owns `Recording`, what a thread's journal says in terms of a replay: what came from outside and when, what was said."""

from __future__ import annotations

import json
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from ...protocol.errors import InvalidInput

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    from ...actors.handle import Thread
    from ...protocol.values import JsonObject, Value

__all__ = ["Act", "Recording", "Run"]

_CUTS: Final = frozenset({"THREAD_EXECUTION_INTERRUPTED", "THREAD_EXECUTION_LOST"})
_SHOWN: Final = ("role", "content", "name", "tool_status", "silent", "depth", "status")


class Act:
    """Something that came from outside.

    Attributes:
        verb: `submit`, `instead` (a submit that interrupts what runs), `queue`, `steer`, `tool`, `inject`, `hold`, `resume`
            or `terminate`.
        messages: what it brought.
        run: the execution that ran meanwhile, by rank; None at rest.
        at: how many messages that execution had stored when its model is to hear of it; -1 where it joined before any
            model was asked.
        request: it came while this request was open, by rank; None if none was.
    """

    __slots__ = ("at", "done", "messages", "request", "run", "verb")

    def __init__(self, verb: str, messages: list[JsonObject], run: int | None, at: int, request: int | None) -> None:
        self.verb = verb
        self.messages = messages
        self.run = run
        self.at = at
        self.request = request
        self.done = False


class Run:
    """One execution.

    Attributes:
        execution_id: its id.
        stored: the messages that it stored itself, in order.
        rows: all that joined history in it, what it asked for and whom it handed over to, each as it is compared.
        requests: status and answer of each request, in order.
        cut: how many `rows` there were when it was interrupted or lost; None if it was not. `cut_by` is the event.
        end: outcome and stop reason.
    """

    __slots__ = ("_open", "_said", "cut", "cut_by", "end", "execution_id", "requests", "rows", "stored")

    def __init__(self, execution_id: str) -> None:
        self.execution_id = execution_id
        self.stored: list[JsonObject] = []
        self.rows: list[JsonObject] = []
        self.requests: dict[str, tuple[str, Value]] = {}
        self.cut: int | None = None
        self.cut_by: JsonObject = {}
        self.end: tuple[str | None, str | None] = (None, None)
        self._open: dict[str, int] = {}  # open calls, by the rank of the response that they go back to
        self._said = 0  # the rank of the last message that a model may have said

    def store(self, message: JsonObject) -> None:
        """Take a message in that the execution stored."""
        queued = (message.get("metadata") or {}).get("queued_tool") is True
        rank = self._said if queued else len(self.stored)
        if not (message["role"] == "tool" or message.get("depth") or queued or self._open):
            self._said = rank  # while calls are open, only code adds messages
        for call_id in message.get("calls", ()):
            self._open[call_id] = rank
        if message.get("closes"):
            self._open.pop(message["tool_call_id"], None)
        self.stored.append(message)
        self.rows.append(compared(message))

    def cut_off(self, frame: JsonObject) -> None:
        """Take note that it was interrupted, or lost; the first time counts."""
        if self.cut is None:
            settled = 0
            if frame["type"] == "THREAD_EXECUTION_LOST":
                # What its settling answered comes before it in the journal, and was never in the execution itself.
                made = f"{self.execution_id}-"
                settled = len(list(takewhile(lambda one: one["id"].startswith(made), reversed(self.stored))))
            self.cut, self.cut_by = len(self.rows) - settled, frame

    def asked_at(self) -> int:
        """Return the rank of the response that is being made, or whose calls are open."""
        return max(self._open.values(), default=len(self.stored))

    def open_request(self) -> int | None:
        """Return the rank of the request that waits for an answer, None where none does."""
        waiting = [rank for rank, (status, _) in enumerate(self.requests.values()) if status == "pending"]
        return waiting[-1] if waiting else None

    def heard_at(self, at: int) -> int:
        """Return the rank of the response whose model heard of what joins now and came at `at`; -1 before the first."""
        if at < len(self.stored) and (at <= self._said or self.stored[at].get("depth")):
            return at
        # It came between a step's end and the next request, or before a queued tool: the step before has to hear of it.
        return self._said if self.stored else -1


class Recording:
    """A thread's life so far: made of its journal, kept as JSON, read by `replay`.

    Attributes:
        frames: the journal's events as they go over the wire.
        runs: its executions, the oldest first.
        acts: what came from outside, in order.
    """

    def __init__(self, frames: Iterable[JsonObject] = ()) -> None:
        self.frames: list[JsonObject] = []
        self.runs: list[Run] = []
        self.acts: list[Act] = []
        self._waiting: dict[int, tuple[Act, list[JsonObject]]] = {}  # by the sequence of what queued it
        self._running = False
        self._lifted = False  # a hold, by what comes next
        for frame in frames:
            self.take(frame)

    @classmethod
    def of(cls, thread: Thread) -> Self:
        """Read a thread's journal up to now; blocks for its pages."""
        made = cls()
        with thread.events() as events:
            while True:
                try:
                    found = events.next(0)
                except TimeoutError:
                    return made
                if found is None:
                    return made
                made.take(found.to_wire())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read what `save` wrote. Raises: InvalidInput: `invalid_recording`."""
        try:
            return cls(json.loads(Path(path).read_text()))
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise InvalidInput(
                f"{path} is no recording: {error!r}", code="invalid_recording", value=str(path)
            ) from error

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as JSON, for a test to keep; it has what the thread's messages have, and no value of a variable."""
        Path(path).write_text(json.dumps(self.frames, ensure_ascii=False, indent=1) + "\n")

    @property
    def created(self) -> JsonObject:
        """What the thread was created with."""
        return self.frames[0] if self.frames else {}

    def take(self, frame: JsonObject) -> None:
        """Take one more event in."""
        self.frames.append(frame)
        kind = frame["type"]
        if kind == "THREAD_EXECUTION_STARTED":
            self._start(frame)
        elif kind == "THREAD_EXECUTION_FINISHED":
            self.runs[-1].end = (frame["outcome"], frame["reason"])
            self._running = False
        elif kind in _CUTS:
            self.runs[-1].cut_off(frame)
            self._running = self._running and kind != "THREAD_EXECUTION_LOST"
        elif kind == "INPUT_QUEUED":
            self._queue(frame)
        elif kind == "INPUT_WITHDRAWN":
            self._withdraw(frame)
        elif kind == "MESSAGES_JOINED":
            self._join(frame)
        elif kind == "MESSAGE_ADDED":
            self._add(frame)
        elif kind == "HOLD_CHANGED":
            self._lifted = not frame["held"]
            if frame["held"]:
                self._act("hold", [])
        elif kind == "THREAD_TERMINATED":
            self._act("terminate", [])
        elif self._running:
            self._note(kind, frame)

    def _start(self, frame: JsonObject) -> None:
        if frame["cause"] == "submit":
            self._act("submit", frame["messages"])
        elif frame["cause"] != "rows" or self._lifted:
            self._act("resume", [])
        self._lifted = False
        self.runs.append(Run(frame["execution_id"]))
        self._running = True
        self.runs[-1].rows += [compared(message) for message in frame["messages"]]

    def _act(self, verb: str, messages: list[JsonObject]) -> Act:
        run = self.runs[-1] if self._running else None
        if run is None:
            act = Act(verb, messages, None, 0, None)
        else:
            act = Act(verb, messages, len(self.runs) - 1, run.asked_at(), run.open_request())
        self.acts.append(act)
        return act

    def _queue(self, frame: JsonObject) -> None:
        verb = "tool" if frame["kind"] == "tool" else "instead" if frame["first"] else frame["verb"]
        act = self._act(verb, frame["messages"])
        if frame["originating_execution_id"] is not None:
            self.acts.remove(act)  # the agent itself queued it, and will again
        self._waiting[int(frame["cursor"].split(":")[1])] = act, frame["messages"]

    def _withdraw(self, frame: JsonObject) -> None:
        act, _ = self._waiting.pop(frame["row"][0])
        if act in self.acts:
            self.acts.remove(act)  # nobody ever read it

    def _join(self, frame: JsonObject) -> None:
        for row in frame["rows"]:
            act, messages = self._waiting.pop(row[0])
            if not self._running or not self.runs:
                continue
            run = self.runs[-1]
            run.rows += [compared(message) for message in messages]
            if act.run == len(self.runs) - 1:
                act.at = run.heard_at(act.at)

    def _add(self, frame: JsonObject) -> None:
        if frame["execution_id"] is None:
            if not frame["message"].get(
                "closes"
            ):  # else the runtime itself answered what a termination kept from running
                self._act("inject", [frame["message"]])
        else:
            self.runs[-1].store(frame["message"])

    def _note(self, kind: str, frame: JsonObject) -> None:
        run = self.runs[-1]
        if kind == "REQUEST_OPENED":
            run.requests[frame["request_id"]] = "pending", None
            run.rows.append({"request": frame["kind"], "payload": frame["payload"]})
        elif kind == "REQUEST_TERMINATED":
            run.requests[frame["request_id"]] = frame["status"], frame["value"]
        elif kind == "AGENT_CHANGED":
            run.rows.append({"handoff": frame["agent_id"]})


def compared(message: JsonObject) -> JsonObject:
    """Return what of a message has to be the same in a replay: no id, no time, no metadata."""
    shown: JsonObject = {key: message[key] for key in _SHOWN if message.get(key) not in (None, False, 0)}
    if message.get("tool_calls"):
        functions = [call["function"] for call in json.loads(message["tool_calls"])]
        shown["calls"] = [f"{one['name']}({one['arguments']})" for one in functions]
    if message.get("attachments"):
        shown["attachments"] = [one.get("name") for one in message["attachments"]]
    return shown
