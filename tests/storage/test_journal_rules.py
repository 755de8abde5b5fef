"""storage/journal_rules.py: a journal that keeps the promises passes; each way of breaking one is named."""

from __future__ import annotations

from typing import Any

import pytest

from treadle.protocol.events import (
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
    MessagesJoined,
    ProcessRecorded,
    RequestOpened,
    RequestTerminated,
    ThreadCreated,
    ThreadTerminated,
)
from treadle.storage.journal_rules import JournalRules

CREATED = ThreadCreated(thread_id="t", agent_id="a", user_id=None, arguments=None, tags=[], env=None)
LIVE = ["e1", "a", 1, "running"]


def started(execution: str = "e1", given: str = "i1", cause: Any = "submit", agent_id: str = "a") -> ExecutionStarted:
    return ExecutionStarted(
        execution_id=execution, agent_id=agent_id, cause=cause, input_id=given, messages=[said(f"{given}-m")] if given else [],
        digest=None, steerable=True, timeout=None,
    )  # fmt: skip


def finished(execution: str = "e1", outcome: Any = "succeeded", agent_id: str = "a") -> ExecutionFinished:
    error = ("ValueError", "bad") if outcome == "failed" else (None, None)
    return ExecutionFinished(
        execution_id=execution, agent_id=agent_id, outcome=outcome, finished_at=9, error_type=error[0], error_message=error[1],
        reason=None, abandoned=False, leftovers=[],
    )  # fmt: skip


def lost(execution: str = "e1", last: int = 2) -> ExecutionLost:
    return ExecutionLost(
        execution_id=execution, boot_id="b", last_sequence=last, cause="process_ended", dispatched=True, leftovers=[]
    )


def queued(given: str, kind: Any = "message", *, execution: str | None = None, first: bool = False) -> InputQueued:
    verb: Any = {"message": "queue", "tool": "queue", "steer": "steer", "submit": "submit"}[kind]
    return InputQueued(
        input_id=given, kind=kind, verb=verb, execution_id=execution, messages=[said(f"{given}-m")], digest=None, first=first,
        interrupted=None, active=None, held=False, originating_execution_id=None, timeout=None, size=50,
    )  # fmt: skip


def tool(given: str = "q1", call: str = "c1", kind: Any = "tool") -> InputQueued:
    waiting = queued(given, kind)
    return waiting.model_copy(update={"messages": [{**waiting.messages[0], "calls": [call]}]})


def changed(agent: str, execution: str = "e1") -> AgentChanged:
    return AgentChanged(execution_id=execution, agent_id=agent)


def joined(*rows: tuple[int, str], execution: str | None = "e1", consumed: bool = True) -> MessagesJoined:
    stored = [[sequence, kind, 1, 0, 50] for sequence, kind in rows]
    return MessagesJoined(
        execution_id=execution, rows=stored, consumed=consumed, reason=None if consumed else "cancelled"
    )


def interrupted(source: Any = "user", control: str | None = None) -> ExecutionInterrupted:
    return ExecutionInterrupted(
        execution_id="e1", source=source, reason=None, hold=False, control_id=control, digest=None, active=LIVE
    )


def control(given: str) -> ControlRecorded:
    return ControlRecorded(execution_id="e1", control_id=given, digest=None, active=LIVE, held=False)


def added(name: str, execution: str | None = "e1", **more: Any) -> MessageAdded:
    return MessageAdded(execution_id=execution, message={**said(name), **more})


def said(name: str) -> dict[str, Any]:
    return {"id": name, "role": "user", "content": name}


CALL = added("m1", calls=["c1"])
RESULT = added("m2", tool_call_id="c1", closes=True)
REQUEST = RequestOpened(execution_id="e1", request_id="r1", kind="approval", payload=None)
ANSWER = RequestTerminated(request_id="r1", status="resolved", value=None)
GROUP = ProcessRecorded(execution_id="e1", group=7, start_time=1)
WITHDRAWN = InputWithdrawn(input_id="q1", row=[2, "message", 1, 0, 50])
TERMINATED = ThreadTerminated()

WHOLE: dict[str, list[Event]] = {
    "an execution": [started(), added("m"), finished(), started("e2", "i2"), finished("e2")],
    "a queued tool": [
        tool(), started(cause="rows", given=""), joined((2, "tool")), RESULT, finished(), tool("q2", "c1"),
        started("e2", "", "rows"), joined((7, "tool"), execution="e2"),
    ],
    "a hand-off": [
        started(), changed("b"), finished(agent_id="b"), started("e2", "i2", agent_id="b"), changed("a", "e2"),
        finished("e2"),
    ],
    "a loss": [started(), lost(last=2), started("e2", "i2")],
    "calls": [started(), CALL, RESULT, CALL.model_copy(update={"message": {**said("m3"), "calls": ["c1"]}})],
    "requests and groups": [started(), REQUEST, ANSWER, GROUP, finished()],
    "an abandoned request": [
        started(), REQUEST, interrupted(), RequestTerminated(request_id="r1", status="abandoned", value=None),
        finished(outcome="cancelled"),
    ],
    "steers": [started(), queued("s1", "steer", execution="e1"), joined((3, "steer")), finished()],
    "unread steers": [
        started(), queued("s1", "steer", execution="e1"), interrupted(), joined((3, "steer"), consumed=False),
        finished(outcome="cancelled"),
    ],
    "rows": [queued("q1"), queued("q2"), started(cause="rows", given=""), joined((2, "message"), (3, "message"))],
    "kinds do not wait for each other": [
        queued("s1", "submit"), queued("q1"), queued("s2", "submit"), started(cause="rows", given=""),
        joined((2, "submit"), (3, "message")), finished(), started("e2", "", "rows"), joined((4, "submit"), execution="e2"),
    ],
    "first before older": [
        started(), queued("s1", "submit"), queued("s2", "submit", first=True), queued("s3", "submit", first=True), finished(),
        started("e2", "", "rows"), joined((4, "submit"), execution="e2"), finished("e2"),
        started("e3", "", "rows"), joined((5, "submit"), execution="e3"), finished("e3"),
        started("e4", "", "rows"), joined((3, "submit"), execution="e4"),
    ],
    "a withdrawal": [queued("q1"), WITHDRAWN],
    "a deadline, then an interrupt": [started(), interrupted("deadline"), interrupted(), finished(outcome="failed")],
    "controls": [started(), interrupted(control="k1"), control("k2"), finished(outcome="cancelled")],
    "a termination": [queued("q1"), TERMINATED, InboxFailed(through=2), joined((2, "message"), execution=None, consumed=False)],
}  # fmt: skip

BROKEN: dict[str, tuple[str, list[Event]]] = {
    "a start of another agent": ("is of agent b", [started(agent_id="b")]),
    "a finish of another agent": ("is of agent b", [started(), finished(agent_id="b")]),
    "a hand-off to itself": ("agent a, whose it is", [started(), changed("a")]),
    "a hand-off at rest": ("the owner is None", [changed("b")]),
    "a queued tool without a result": (
        "calls ['c1'] have no result", [tool(), started(cause="rows", given=""), joined((2, "tool")), finished()],
    ),
    "a queued tool without a call": ("makes [0] calls", [queued("q1", "tool")]),
    "a message with a call": ("makes [1] calls", [tool(kind="message")]),
    "created twice": ("created a second time", [CREATED]),
    "two owners": ("owns the thread", [started(), started("e2", "i2")]),
    "an id twice": ("execution e1 appears twice", [started(), finished(), started("e1", "i2")]),
    "an input twice": ("input i1 appears twice", [started(), finished(), started("e2", "i1")]),
    "a queued input twice": ("input q1 appears twice", [queued("q1"), queued("q1")]),
    "a message twice": ("message m appears twice", [started(), added("m"), added("m")]),
    "a finish without a start": ("the owner is None", [finished()]),
    "a finish of another": ("the owner is e1", [started(), finished("e2")]),
    "two finishes": ("the owner is None", [started(), finished(), finished()]),
    "a finish and a loss": ("the owner is None", [started(), finished(), lost()]),
    "a finish with open calls": ("have no result", [started(), CALL, finished()]),
    "a finish with a pending request": ("are pending", [started(), REQUEST, finished()]),
    "a finish with unread steers": ("have not joined", [started(), queued("s", "steer", execution="e1"), finished()]),
    "a loss with unread steers": ("have not joined", [started(), queued("s", "steer", execution="e1"), lost()]),
    "evidence of what was to come": ("names sequence 9", [started(), lost(last=9)]),
    "success after an interrupt": ("succeeded", [started(), interrupted(), finished()]),
    "success past a deadline": ("past its deadline", [started(), interrupted("deadline"), finished()]),
    "two interruptions": ("a second interruption", [started(), interrupted(), interrupted()]),
    "an interruption at rest": ("the owner is None", [interrupted()]),
    "a control at rest": ("the owner is None", [control("k")]),
    "a control twice": ("control k appears twice", [started(), control("k"), control("k")]),
    "a fenced message": ("the owner is None", [started(), finished(), added("m")]),
    "a call opened twice": ("while it is open", [started(), CALL, added("m9", calls=["c1"])]),
    "two results": ("second result", [started(), CALL, RESULT, added("m9", tool_call_id="c1", closes=True)]),
    "a steer at rest": ("the owner is None", [queued("s", "steer", execution="e1")]),
    "a steer of another": ("the owner is e1", [started(), queued("s", "steer", execution="e0")]),
    "joined twice": ("a second time", [started(), queued("q"), joined((3, "message")), joined((3, "message"))]),
    "joined and withdrawn": ("does not wait", [queued("q1"), started(), joined((2, "message")), WITHDRAWN]),
    "withdrawn and joined": ("a second time", [queued("q1"), WITHDRAWN, started(), joined((2, "message"))]),
    "never accepted": ("never accepted", [started(), joined((9, "message"))]),
    "out of order": ("before row 3", [started(), queued("a"), queued("b"), joined((4, "message"))]),
    "older before first": (
        "before row 4",
        [started(), queued("a", "submit"), queued("b", "submit", first=True), joined((3, "submit"))],
    ),
    "told as another kind": ("accepted as", [started(), queued("q"), joined((3, "submit"))]),
    "joined while calls are open": ("are open", [started(), queued("q"), CALL, joined((3, "message"))]),
    "read by nobody": ("the owner is None", [queued("q"), joined((2, "message"))]),
    "unread without a reason": (
        "without a reason",
        [queued("q"), joined((2, "message"), consumed=False).model_copy(update={"reason": None})],
    ),
    "a steer that joins later": (
        "joins in e2",
        [started(), queued("s", "steer", execution="e1"), finished(), started("e2", "i2"), joined((3, "steer"), execution="e2")],
    ),
    "another input withdrawn": ("is row q2", [queued("q2"), WITHDRAWN]),
    "a request twice": ("while it is open", [started(), REQUEST, REQUEST]),
    "a request again": ("request r1 appears twice", [started(), REQUEST, ANSWER, REQUEST]),
    "an answer after an interruption": ("is resolved after an interruption", [started(), REQUEST, interrupted(), ANSWER]),
    "an end with an answer": (
        "has an answer",
        [started(), REQUEST, RequestTerminated(request_id="r1", status="expired", value=1)],
    ),
    "an answer to nothing": ("was not open", [ANSWER]),
    "terminated twice": ("a second time", [TERMINATED, TERMINATED]),
    "a start after termination": ("on a terminated thread", [TERMINATED, started()]),
    "an input after termination": ("on a terminated thread", [TERMINATED, queued("q")]),
    "an inbox that fails by itself": ("is not terminated", [InboxFailed(through=1)]),
    "an inbox that fails ahead": ("to come", [TERMINATED, InboxFailed(through=7)]),
    "a group at rest": ("the owner is None", [GROUP]),
}  # fmt: skip


def follow(events: list[Event]) -> JournalRules:
    rules = JournalRules()
    for at, event in enumerate([CREATED, *events], 1):
        rules.take(event, at)
    return rules


@pytest.mark.parametrize("name", WHOLE)
def test_a_journal_that_keeps_the_promises_passes(name: str) -> None:
    assert follow(WHOLE[name]).found == []


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_promise_is_named(name: str) -> None:
    promise, events = BROKEN[name]

    found = follow(events).found
    assert any(promise in why for _, why in found), found
    # Each is named where it shows: at the last event of its script.
    assert found[0][0] == len(events) + 1 or name == "a steer that joins later", found


def test_a_journal_begins_with_its_threads_creation() -> None:
    rules = JournalRules()
    rules.take(TERMINATED, 1)

    assert rules.found == [(1, "a journal begins with THREAD_TERMINATED")]


def test_times_that_stand_still_are_named() -> None:
    rules = JournalRules()
    rules.take(CREATED, 5)
    rules.take(TERMINATED, 5)

    assert rules.found == [(2, "its time 5 is not after 5")]


def test_what_is_open_is_counted_without_the_fold() -> None:
    rules = follow([started(), CALL, REQUEST, GROUP, queued("q"), queued("s", "steer", execution="e1")])

    assert (rules.owner, rules.calls, rules.requests, rules.groups) == ("e1", {"c1"}, {"r1"}, {7})
    assert sorted(rules.waiting) == [6, 7]
    assert (rules.messages.joined, rules.messages.positions) == ({0: 2}, 2)
