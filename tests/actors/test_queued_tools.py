"""Queued tools on a live thread: durable, joined at a boundary, each call with exactly one result, in every life."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from treadle.actors import ExecutionFenced
from treadle.actors.testing import Puppet, Stage
from treadle.protocol.errors import IdempotencyConflict, InvalidInput, StorageFull, ThreadTerminated
from treadle.storage.check import check_tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from treadle.actors import Message, Thread

    Enter = Callable[..., Stage]


@pytest.fixture
def puppet() -> Puppet:
    return Puppet(obeys=False)


@pytest.fixture
def on(stage: Enter, puppet: Puppet) -> Iterator[Stage]:
    on = stage(puppet)
    yield on
    assert check_tables(on.store).broken == ()


@pytest.fixture
def thread(on: Stage) -> Thread:
    return on.thread(thread_id="t")


def history(thread: Thread) -> list[Message]:
    return thread.messages(include_silent=True, limit=1_000).result().messages


def call_of(message: Message) -> dict[str, Any]:
    calls = json.loads(message.tool_calls or "[]")
    assert len(calls) == 1
    return dict(calls[0])


def result(call_id: str, text: str = "done") -> dict[str, Any]:
    return {"id": f"r-{call_id}", "role": "tool", "content": text, "tool_call_id": call_id, "closes": True}


def results(thread: Thread) -> list[str]:
    return [message.tool_call_id or "" for message in history(thread) if message.role == "tool"]


def test_at_rest_it_starts_an_execution_whose_new_message_is_the_call(
    on: Stage, thread: Thread, puppet: Puppet
) -> None:
    receipt = on.ask(thread.queue_tool("fetch", {"url": "x"}))
    on.settle()

    assert receipt.disposition == "queued"
    (message,) = puppet.execution.new_messages
    assert (message.id, message.role, message.silent) == (receipt.message_ids[0], "assistant", True)
    assert message.metadata is not None
    assert message.metadata["queued_tool"] is True
    call = call_of(message)
    assert call["function"] == {"name": "fetch", "arguments": '{"url":"x"}'}
    steer = on.ask(thread.steer(puppet.execution.id, "no"))
    assert steer.disposition == "active_input_not_steerable"

    on.ask(puppet.execution.append(result(call["id"])))
    puppet.returns()
    on.settle()
    assert thread.status().result().state == "idle"
    assert results(thread) == [call["id"]]


def test_a_call_without_a_result_gets_one_at_the_end(on: Stage, thread: Thread, puppet: Puppet) -> None:
    on.ask(thread.queue_tool("fetch"))
    on.settle()
    call = call_of(puppet.execution.new_messages[0])
    puppet.returns()
    on.settle()
    assert results(thread) == [call["id"]]
    assert history(thread)[-1].tool_status == "error"


def test_while_an_execution_runs_it_joins_at_the_next_boundary(on: Stage, thread: Thread, puppet: Puppet) -> None:
    on.ask(thread.submit("go"))
    on.settle()
    on.ask(thread.queue_tool("fetch"))
    pending = history(thread)[-1]
    assert (pending.status, pending.silent) == ("pending", True)

    (joined,) = on.ask(puppet.execution.consume())
    call = call_of(joined)
    on.ask(thread.queue_message("later"))
    assert on.ask(puppet.execution.consume()) == []  # a call is open
    on.ask(puppet.execution.append(result(call["id"])))
    assert [message.content for message in on.ask(puppet.execution.consume())] == ["later"]
    assert on.ask(thread.steer(puppet.execution.id, "yes")).disposition == "accepted"


def test_a_body_queues_tools_to_its_own_thread_until_it_is_over(on: Stage, thread: Thread, puppet: Puppet) -> None:
    on.ask(thread.submit("go"))
    on.settle()
    first = puppet.execution
    on.ask(first.queue_tool("fetch", {"n": 1}))
    puppet.returns()
    on.settle()

    assert (puppet.execution is first, first.passes) == (True, 2)
    assert call_of(first.new_messages[0])["function"]["name"] == "fetch"
    puppet.returns()
    on.settle()
    assert isinstance(first.queue_tool("late").error(), ExecutionFenced)


def test_many_come_in_their_order_and_no_more_at_once_than_an_ending_closes(
    on: Stage, thread: Thread, puppet: Puppet
) -> None:
    on.ask(thread.submit("go"))
    on.settle()
    for number in range(100):
        on.ask(thread.queue_tool(f"tool{number}"))
    puppet.returns()
    on.settle()
    first = [call_of(message)["function"]["name"] for message in puppet.execution.new_messages]
    puppet.returns()
    on.settle()
    second = [call_of(message)["function"]["name"] for message in puppet.execution.new_messages]
    assert (len(first), len(second)) == (64, 36)
    assert first + second == [f"tool{number}" for number in range(100)]
    puppet.returns()
    on.settle()
    assert len(results(thread)) == len(set(results(thread))) == 100


def test_a_held_thread_keeps_it_and_a_withdrawal_takes_it_back(on: Stage, thread: Thread, puppet: Puppet) -> None:
    on.ask(thread.stop())
    receipt = on.ask(thread.queue_tool("fetch"))
    assert receipt.held is True
    assert on.ask(thread.withdraw(receipt.input_id or "")) == "withdrawn"
    assert history(thread) == []
    on.ask(thread.queue_tool("other"))
    on.ask(thread.resume())
    on.settle()
    assert call_of(puppet.execution.new_messages[0])["function"]["name"] == "other"


def test_a_waiting_one_is_deleted_and_a_joined_one_goes_with_its_result(
    on: Stage, thread: Thread, puppet: Puppet
) -> None:
    on.ask(thread.stop())
    waiting = on.ask(thread.queue_tool("fetch"))
    assert on.ask(thread.delete_message(waiting.message_ids[0])) is True
    assert history(thread) == []

    on.ask(thread.queue_tool("fetch"))
    on.ask(thread.resume())
    on.settle()
    (message,) = puppet.execution.new_messages
    assert isinstance(_error(on, thread, message.id), InvalidInput)  # its call is open
    puppet.returns()
    on.settle()
    assert on.ask(thread.delete_message(message.id)) is True
    assert history(thread) == []


def _error(on: Stage, thread: Thread, message_id: str) -> BaseException | None:
    reply = thread.delete_message(message_id)
    on.settle()
    return reply.error()


def test_one_on_a_terminated_thread_fails_and_none_is_taken(on: Stage, thread: Thread, puppet: Puppet) -> None:
    on.ask(thread.stop())
    on.ask(thread.queue_tool("fetch"))
    on.ask(thread.terminate())
    on.settle()
    message, result = history(thread)
    assert message.status == "failed"
    made = call_of(message)
    assert (result.role, result.name, result.tool_call_id) == ("tool", "fetch", made["id"])
    assert (result.tool_status, result.content) == ("error", "The thread was terminated before this call was made.")
    assert isinstance(_error(on, thread, result.id), InvalidInput)
    assert on.ask(thread.delete_message(message.id)) is True
    assert history(thread) == []
    late = thread.queue_tool("fetch")
    on.settle()
    assert isinstance(late.error(), ThreadTerminated)


def test_it_survives_the_process_while_it_waits_and_starts_at_open(on: Stage, thread: Thread, puppet: Puppet) -> None:
    on.ask(thread.submit("go"))
    on.settle()
    on.ask(thread.queue_tool("fetch"))
    on.reopen()
    on.settle()
    assert call_of(puppet.execution.new_messages[0])["function"]["name"] == "fetch"
    assert puppet.execution.passes == 1
    again = on.runtime.thread("t")
    assert on.ask(again.steer(puppet.execution.id, "no")).disposition == "active_input_not_steerable"


def test_one_that_had_joined_has_an_unknown_outcome_after_the_process(
    on: Stage, thread: Thread, puppet: Puppet
) -> None:
    on.ask(thread.queue_tool("fetch"))
    on.settle()
    call = call_of(puppet.execution.new_messages[0])
    on.reopen()
    on.settle()
    again = on.runtime.thread("t")
    assert results(again) == [call["id"]]
    assert "unknown" in (history(again)[-1].content or "")


@pytest.mark.parametrize("point", ["THREAD_EXECUTION_STARTED committed", "MESSAGES_JOINED committed"])
def test_an_actor_that_crashes_behind_its_start_leaves_one_result(
    on: Stage, thread: Thread, crash_after: Callable[..., object], point: str
) -> None:
    crash_after(point)
    thread.queue_tool("fetch").add_done_callback(lambda reply: reply.error())
    on.settle()
    on.reports.clear()
    assert len(results(thread)) == 1
    assert thread.state().result().active_execution is None


def test_a_store_that_refuses_stores_nothing(on: Stage, thread: Thread) -> None:
    reply = thread.queue_tool("fetch")
    on.act()
    on.refuse()
    on.settle()
    assert isinstance(reply.error(), StorageFull)
    assert history(thread) == []


@pytest.mark.parametrize(("name", "args"), [("", {}), (5, {}), ("fetch", [1]), ("fetch", {"x": {1}})])
def test_what_is_no_tool_call_is_refused_before_anything_is_stored(
    on: Stage, thread: Thread, puppet: Puppet, name: Any, args: Any
) -> None:
    assert isinstance(thread.queue_tool(name, args).error(), InvalidInput)
    on.ask(thread.submit("go"))
    on.settle()
    assert isinstance(puppet.execution.queue_tool(name, args).error(), InvalidInput)


def test_a_call_under_an_id_is_made_once(on: Stage, thread: Thread, puppet: Puppet) -> None:
    on.ask(thread.stop())
    first = on.ask(thread.queue_tool("fetch", {"a": 1, "b": 2}, input_id="i"))
    again = on.ask(thread.queue_tool("fetch", {"b": 2, "a": 1}, input_id="i"))

    assert again == first
    assert thread.receipt("i").result() == first
    for name, args in (("fetch", {"a": 1}), ("other", {"a": 1, "b": 2}), ("fetch", None)):
        with pytest.raises(IdempotencyConflict):
            on.ask(thread.queue_tool(name, args, input_id="i"))
    with pytest.raises(IdempotencyConflict):
        on.ask(thread.queue_message("fetch", input_id="i"))
    assert len(history(thread)) == 1
