"""Queued tools: a message with one call that waits, joins as an open call, and always comes to one result."""

from __future__ import annotations

import json
from typing import Any

import pytest

from treadle.protocol.decision import Phase
from treadle.protocol.errors import InvalidInput, LimitExceeded
from treadle.protocol.events import RequestOpened
from treadle.protocol.inbox import Row
from treadle.protocol.limits import TOOLS_JOINED_MAX, UNREAD_MAX
from treadle.protocol.open_calls import OpenCall
from treadle.protocol.queued_tools import draft_queued_tool
from treadle.protocol.starting import joinable
from treadle.protocol.triggers import BodyEnded, Consume, Lost, Queue, Released, Terminate, Wake

from .states import Pure, in_phase, queue, submit


def tool(name: str = "q") -> Queue:
    draft, size = draft_queued_tool(f"{name}-m", f"{name}-c", "fetch", {"url": "x"})
    trigger = Queue(name, [draft], size, None)
    trigger.tool = True
    return trigger


def calls(thread: Pure) -> list[OpenCall]:
    return [
        OpenCall(call)
        for event in thread.events
        if event.type == "INPUT_QUEUED"
        for call in event.messages[0].get("calls", ())
    ]


def test_it_waits_as_a_silent_message_with_one_call() -> None:
    draft, size = draft_queued_tool("m", "c", "fetch", {"url": "é"})

    assert json.loads(str(draft.pop("tool_calls"))) == [
        {"id": "c", "type": "function", "function": {"name": "fetch", "arguments": '{"url":"é"}'}}
    ]
    assert draft == {
        "id": "m", "role": "assistant", "content": None, "silent": True, "metadata": {"queued_tool": True}, "calls": ["c"],
    }  # fmt: skip
    assert size > 60


def test_a_tool_without_arguments_has_empty_ones() -> None:
    draft, _ = draft_queued_tool("m", "c", "fetch", None)
    assert json.loads(str(draft["tool_calls"]))[0]["function"]["arguments"] == "{}"


@pytest.mark.parametrize(
    ("name", "args"), [("", {}), (None, {}), ("x" * 129, {}), ("f", []), ("f", "{}"), ("f", {"x": object()})]
)
def test_what_is_no_tool_call_is_refused(name: Any, args: Any) -> None:
    with pytest.raises(InvalidInput):
        draft_queued_tool("m", "c", name, args)


def test_arguments_are_bounded() -> None:
    with pytest.raises(LimitExceeded):
        draft_queued_tool("m", "c", "f", {"x": "y" * (1 << 20)})


def test_at_rest_it_starts_an_execution_that_takes_no_steers_and_has_its_call_open() -> None:
    thread = Pure()

    decision = thread.commit(tool())

    assert [event.type for event in decision.events] == ["INPUT_QUEUED", "THREAD_EXECUTION_STARTED", "MESSAGES_JOINED"]
    assert decision.events[1].steerable is False  # type: ignore[attr-defined]
    assert (thread.facts.steerable, thread.facts.open_calls, thread.facts.waiting_messages) == (False, 1, 0)
    assert thread.facts.counts == {1: 1}


def test_what_started_before_it_stays_steerable() -> None:
    thread = in_phase(Phase.RUNNING)
    thread.commit(tool())
    assert (thread.facts.steerable, thread.facts.open_calls, thread.facts.waiting_messages) == (True, 0, 1)

    joined = thread.commit(Consume("e1"))

    assert joined.events[0].rows[0][1] == "tool"  # type: ignore[attr-defined]
    assert (thread.facts.steerable, thread.facts.open_calls, thread.facts.waiting_messages) == (True, 1, 0)


def test_an_execution_that_a_message_or_a_submit_starts_takes_it_along_and_is_steerable() -> None:
    for start in (queue("first"), submit("first")):
        thread = Pure()
        thread.facts.held = True
        for waiting in ([start] if start.kind == "queue message" else []) + [tool()]:
            thread.commit(waiting)
        thread.facts.held = False
        decision = thread.commit(Wake() if start.kind == "queue message" else start)
        assert decision.events[0].steerable is True  # type: ignore[attr-defined]
        assert thread.facts.open_calls == 1


def test_nothing_joins_while_its_call_is_open() -> None:
    thread = in_phase(Phase.RUNNING)
    thread.commit(tool())
    thread.commit(Consume("e1"))
    thread.commit(queue("later"))
    assert thread.judge(Consume("e1")).events == []


def test_the_end_gives_it_its_one_result() -> None:
    thread = Pure()
    thread.commit(tool())
    thread.take(BodyEnded("e1"))

    finish = thread.commit(Released("e1"), open_calls=calls(thread))

    assert [event.type for event in finish.events] == ["MESSAGE_ADDED", "THREAD_EXECUTION_FINISHED"]
    assert finish.events[0].message["tool_call_id"] == "q-c"  # type: ignore[attr-defined]
    assert thread.facts.open_calls == 0


def test_a_further_pass_gives_it_its_result_before_the_next_joins() -> None:
    thread = Pure()
    thread.commit(tool())
    thread.commit(tool("second"))

    decision = thread.commit(BodyEnded("e1"), open_calls=[OpenCall("q-c")])

    assert [event.type for event in decision.events] == ["MESSAGE_ADDED", "MESSAGES_JOINED"]
    assert thread.facts.open_calls == 1


def test_a_loss_gives_it_a_result_of_unknown_outcome() -> None:
    thread = Pure()
    thread.commit(tool())
    thread.take(Lost("e1", boot_id="b", cause="worker_lost", dispatched=True))
    settled = thread.commit(Released("e1"), open_calls=[OpenCall("q-c")])
    assert "unknown" in settled.events[0].message["content"]  # type: ignore[attr-defined]


def test_one_that_waits_on_a_terminated_thread_opens_nothing() -> None:
    thread = Pure()
    thread.facts.held = True
    thread.commit(tool())
    thread.commit(queue("before"))
    thread.commit(queue("behind"))
    thread.commit(Terminate("user"))
    tools = [(row.sequence, OpenCall("q-c", "fetch")) for row in thread.rows if row.kind == "tool"]
    moved = thread.commit(Wake(), unmade=tools)
    assert [event.type for event in moved.events] == ["MESSAGES_JOINED", "MESSAGE_ADDED", "MESSAGES_JOINED"]
    assert (thread.facts.open_calls, thread.facts.waiting_messages, thread.facts.counts) == (0, 0, {1: 1, 0: 3})


def row(sequence: int, kind: Any) -> Row:
    return Row(sequence, kind, f"i{sequence}", None, 1, 0, 10, False, None)


def test_so_many_join_as_an_ending_can_close() -> None:
    thread = in_phase(Phase.RUNNING)
    rows = [row(at, "tool") for at in range(1, 101)] + [row(101, "message"), row(102, "submit"), row(103, "steer")]

    joined = joinable(thread.state, rows)
    assert [one.kind for one in joined] == ["tool"] * TOOLS_JOINED_MAX + ["message", "steer"]

    for at in range(UNREAD_MAX - 3):
        thread.facts.fold(RequestOpened(execution_id="e1", request_id=f"r{at}", kind="k", payload=None), 10 + at)
    assert [one.kind for one in joinable(thread.state, rows)] == ["tool"] * 3 + ["message", "steer"]
