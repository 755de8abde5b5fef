"""Tool calls that a body opened: each gets exactly one result, at the latest with the finish; nothing joins before it."""

from __future__ import annotations

from asyncio import CancelledError
from typing import TYPE_CHECKING, Any

import pytest

from tests.scenarios.scene import PATIENCE_S, Scene, began, ended, history, journal, pending, tags, texts
from treadle.actors import Reply
from treadle.protocol.errors import InvalidInput, LimitExceeded
from treadle.protocol.events import MessageAdded

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.scenarios.scene import Replies
    from treadle.actors import Message, Thread
    from treadle.agents import ThreadState


def calls(*ids: str) -> list[dict[str, object]]:
    return [{"id": given, "function": {"name": "look_up", "arguments": "{}"}} for given in ids]


def results(thread: Thread) -> dict[str | None, Message]:
    """Return the one result of each call; two for one call is an error."""
    found: dict[str | None, Message] = {}
    for message in history(thread, include_silent=True):
        if message.role == "tool":
            assert message.tool_call_id not in found
            found[message.tool_call_id] = message
    return found


@pytest.mark.parametrize("ending", ["return", "error", "interrupt", "terminate", "deadline", "stop", "abandon"])
def test_calls_open_at_the_end_get_an_error_result_before_the_finish_and_answered_ones_keep_theirs(
    either: Scene, ending: str
) -> None:
    go: Reply[None] = Reply()

    def opens(state: ThreadState) -> Replies:
        assert state.execution is not None
        yield state.inject_message("assistant", tool_calls=calls("a", "b", "c"))
        yield state.inject_message("tool", "found it", tool_call_id="b", tool_status="success")
        if ending == "stop":
            state.execution.stop()
        if ending == "error":
            raise ValueError("on purpose")
        while ending in {"interrupt", "terminate", "deadline", "abandon"} and not go.done():
            try:
                either.gate.here()
                yield go
            except CancelledError:
                if ending != "abandon":
                    raise

    thread = either.start(opens, timeout=60)
    execution_id = began(thread.submit("go").result(PATIENCE_S))
    if ending in {"interrupt", "terminate", "deadline", "abandon"}:
        either.gate.arrival()
    if ending in {"interrupt", "abandon"}:
        thread.interrupt(execution_id).result(PATIENCE_S)
    if ending == "terminate":
        thread.terminate().result(PATIENCE_S)
    if ending in {"deadline", "abandon"}:
        either.clock.advance(60 if ending == "deadline" else 5)

    ended(thread, execution_id)
    go.set(None)

    found = results(thread)
    assert found.keys() == {"a", "b", "c"}
    assert (found["b"].content, found["b"].tool_status) == ("found it", "success")
    for given in ("a", "c"):
        assert found[given].tool_status == "error"
        assert found[given].content
        assert found[given].created_at >= found["b"].created_at
    assert tags(thread)[-1] == "THREAD_EXECUTION_FINISHED"
    assert tags(thread)[-3:-1] == ["MESSAGE_ADDED", "MESSAGE_ADDED"]


def test_nothing_joins_while_calls_are_open(either: Scene) -> None:
    def works(state: ThreadState) -> Replies:
        yield state.inject_message("assistant", tool_calls=calls("a", "b"))
        yield either.gate.here()
        either.seen.append((yield state.checkpoint()))
        yield state.inject_message("tool", "one", tool_call_id="a")
        either.seen.append((yield state.checkpoint()))
        yield state.inject_message("tool", "two", tool_call_id="b")
        either.seen.append([message.content for message in (yield state.checkpoint())])

    thread = either.start(works)
    execution_id = began(thread.submit("go").result(PATIENCE_S))
    arrived = either.gate.arrival()
    thread.steer(execution_id, "shorter").result(PATIENCE_S)
    assert pending(thread) == ["shorter"]

    arrived.go.set(None)

    ended(thread, execution_id)
    assert either.seen == [[], [], ["shorter"]]
    assert texts(thread) == ["go", None, "one", "two", "shorter"]


def test_a_pass_that_leaves_calls_open_gets_their_results_before_the_next_one_begins(either: Scene) -> None:
    def works(state: ThreadState) -> Replies:
        assert state.execution is not None
        either.seen.append([message.content for message in state.execution.new_messages])
        if len(either.seen) == 1:
            yield state.inject_message("assistant", tool_calls=calls("a"))
            yield either.gate.here()
        else:
            either.seen.append([message.role for message in state.execution.message_history])

    thread = either.start(works)
    execution_id = began(thread.submit("go").result(PATIENCE_S))
    arrived = either.gate.arrival()
    thread.steer(execution_id, "shorter").result(PATIENCE_S)
    arrived.go.set(None)

    ended(thread, execution_id)

    assert either.seen == [["go"], ["shorter"], ["user", "assistant", "tool", "user"]]
    assert results(thread)["a"].tool_status == "error"


def test_a_call_has_one_result_and_a_result_its_call(either: Scene) -> None:
    refused: list[tuple[str, Any]] = []

    def stumbles(state: ThreadState) -> Replies:
        yield state.inject_message("assistant", tool_calls=calls("a", "b"))
        yield state.inject_message("tool", "one", tool_call_id="a")
        tries: list[Callable[[], Reply[Any]]] = [
            lambda: state.inject_message("tool", "again", tool_call_id="a"),
            lambda: state.inject_message("tool", "whose?", tool_call_id="never opened"),
            lambda: state.inject_message("assistant", tool_calls=calls("b")),
            lambda: state.inject_message("assistant", tool_calls=calls("c", "c")),
        ]
        for attempt in tries:
            try:
                yield attempt()
            except InvalidInput as error:
                refused.append((error.code, error.details.get("tool_call_id") or error.details.get("value")))

    thread = either.start(stumbles)

    assert ended(thread, thread.submit("go").result(PATIENCE_S)).status == "succeeded"
    assert refused == [
        ("call_not_open", "a"),
        ("call_not_open", "never opened"),
        ("call_already_open", "b"),
        ("invalid_tool_calls", "'c'"),
    ]
    assert results(thread).keys() == {"a", "b"}


def test_a_call_may_be_opened_again_once_it_has_its_result(either: Scene) -> None:
    def works(state: ThreadState) -> Replies:
        for n in range(2):
            yield state.inject_message("assistant", tool_calls=calls("a"))
            yield state.inject_message("tool", f"{n}", tool_call_id="a")
            either.seen.append((yield state.checkpoint()))

    thread = either.start(works)

    assert ended(thread, thread.submit("go").result(PATIENCE_S)).error is None
    assert texts(thread) == ["go", None, "0", None, "1"]


def test_open_calls_and_unread_steers_share_one_limit(either: Scene) -> None:
    refused: list[dict[str, object]] = []

    def opens_many(state: ThreadState) -> Replies:
        yield state.inject_message("assistant", tool_calls=calls(*(f"{n}" for n in range(150))))
        yield either.gate.here()
        try:
            yield state.inject_message("assistant", tool_calls=calls("one more"))
        except LimitExceeded as error:
            refused.append(error.details)

    thread = either.start(opens_many)
    execution_id = began(thread.submit("go").result(PATIENCE_S))
    arrived = either.gate.arrival()
    sent = [thread.steer(execution_id, f"s{n}") for n in range(50)]
    assert {reply.result(PATIENCE_S).disposition for reply in sent} == {"accepted"}
    with pytest.raises(LimitExceeded):
        thread.steer(execution_id, "one more").result(PATIENCE_S)
    thread.queue_message("others may wait").result(PATIENCE_S)
    arrived.go.set(None)
    arrived = either.gate.arrival()
    thread.interrupt(execution_id).result(PATIENCE_S)

    ended(thread, execution_id)

    assert [(limit["limit"], limit["maximum"], limit["met"]) for limit in refused] == [("unread", 200, 201)]


def test_a_foreign_message_with_the_form_of_a_result_closes_nothing(scene: Scene) -> None:
    def works(state: ThreadState) -> Replies:
        yield state.inject_message("assistant", tool_calls=calls("a"))
        yield scene.gate.here()
        yield state.inject_message("tool", "the real one", tool_call_id="a")

    thread = scene.start(works)
    execution_id = began(thread.submit("go").result(PATIENCE_S))
    arrived = scene.gate.arrival()
    # From outside a message joins history at once, wherever that is; it is nobody's result.
    thread.inject_message("tool", "from outside").result(PATIENCE_S)
    arrived.go.set(None)

    assert ended(thread, execution_id).error is None
    added = [entry.event for entry in journal(thread) if isinstance(entry.event, MessageAdded)]
    assert [event.execution_id for event in added] == [execution_id, None, execution_id]
    assert results(thread)["a"].content == "the real one"
