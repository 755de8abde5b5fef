"""Tests agents/thread_state.py on real runtimes: in coroutines and plain functions, in memory and on disk."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Any

import pytest

from treadle.actors import ExecutionCancelled, ExecutionFenced, Reply
from treadle.agents import ThreadState
from treadle.protocol.errors import IdempotencyConflict, InvalidInput, LimitExceeded, ThreadTerminated, TreadleError
from treadle.protocol.limits import MESSAGE_BYTES_MAX, VALUE_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.agents.stage import Replies, Stage
    from treadle.protocol.messages import Message


def call(call_id: str) -> dict[str, object]:
    return {"id": call_id, "type": "function", "function": {"name": "look", "arguments": "{}"}}


def contents(messages: list[Message]) -> list[str | None]:
    return [message.content for message in messages]


# Identity and what lives for one execution


def test_a_state_tells_whose_thread_it_is(stage: Stage) -> None:
    seen: list[ThreadState] = []

    def script(state: ThreadState) -> Replies:
        seen.append(state)
        assert state.arguments["depth"] == 3
        with pytest.raises(TypeError):
            state.arguments["depth"] = 4  # type: ignore[index]
        assert (yield state.status()).state == "running"

    stage(script, arguments={"depth": 3})
    assert stage.play().status == "succeeded"

    (state,) = seen
    assert (state.thread_id, state.agent_id, state.user_id) == (stage.thread.id, "actor", "u1")
    assert state.created_at <= stage.clock.now_us()
    assert state.terminated is None
    assert stage.thread.id in repr(state)


def test_a_thread_without_arguments_has_none(stage: Stage) -> None:
    def script(state: ThreadState) -> Replies:
        assert dict(state.arguments) == {}
        yield state.set_value("ran", True)

    assert stage(script).play().error is None


def test_the_context_survives_the_passes_of_an_execution_and_no_longer(stage: Stage) -> None:
    seen: list[tuple[int, list[str | None]]] = []

    def script(state: ThreadState) -> Replies:
        assert state.execution is not None
        state.context["passes"] = state.context.get("passes", 0) + 1
        seen.append((state.context["passes"], contents(state.execution.new_messages)))
        if seen[-1] == (1, ["one"]):
            yield state.queue_message("more")

    stage(script)
    stage.play("one")
    stage.play("two")

    assert seen == [(1, ["one"]), (2, ["more"]), (1, ["two"])]


# Messages


def test_an_injected_message_is_in_history_when_its_reply_is_there(stage: Stage) -> None:
    def script(state: ThreadState) -> Replies:
        assert state.execution is not None
        said = yield state.inject_message("assistant", "hello", metadata={"mood": "good"}, name="bot")
        assert (said.role, said.content, said.metadata, said.name) == ("assistant", "hello", {"mood": "good"}, "bot")
        assert (said.status, said.depth, said.silent) == ("completed", 0, False)
        assert state.execution.message_history[-1] == said
        assert (yield state.get_message(said.id)) == said

    assert stage(script).play().error is None
    assert stage.texts() == ["go", "hello"]


def test_a_silent_message_is_kept_from_people_and_in_the_history(stage: Stage) -> None:
    def script(state: ThreadState) -> Replies:
        assert state.execution is not None
        yield state.inject_message("system", "psst", silent=True)
        assert contents(list(state.execution.message_history)) == ["go", "psst"]
        assert (yield state.get_messages()).total == 1
        assert contents((yield state.get_messages(include_silent=True)).messages) == ["go", "psst"]

    assert stage(script).play().error is None


BAD_MESSAGES: list[tuple[Callable[[ThreadState], Reply[Any]], str]] = [
    (lambda state: state.inject_message("robot", "x"), "invalid_role"),
    (lambda state: state.inject_message("user", ""), "empty_content"),
    (lambda state: state.inject_message("user"), "empty_content"),
    (lambda state: state.inject_message("user", b"x"), "invalid_content"),  # type: ignore[arg-type]
    (lambda state: state.inject_message("user", "\ud800"), "invalid_content"),
    (lambda state: state.inject_message("user", "x" * (MESSAGE_BYTES_MAX + 1)), "limit_exceeded"),
    (lambda state: state.inject_message("user", "x", silent=1), "invalid_content"),  # type: ignore[arg-type]
    (lambda state: state.inject_message("user", "x", metadata={"at": math.nan}), "invalid_value"),
    (lambda state: state.inject_message("user", "x", attachments=[{}] * 257), "limit_exceeded"),
    (lambda state: state.inject_message("assistant", tool_calls=[call("a"), call("a")]), "invalid_tool_calls"),
    (lambda state: state.inject_message("assistant", tool_calls="{"), "invalid_tool_calls"),
    (lambda state: state.inject_message("tool", "x", tool_call_id="nobody"), "call_not_open"),
    (lambda state: state.queue_message(""), "empty_content"),
    (lambda state: state.queue_message("x", "system"), "invalid_role"),
    (lambda state: state.queue_message("x", input_id=""), "invalid_id"),
    (lambda state: state.queue_message("x", metadata=[]), "invalid_value"),  # type: ignore[arg-type]
    (lambda state: state.get_messages(limit=-1), "invalid_page"),
    (lambda state: state.get_messages(limit=1001), "invalid_page"),
    (lambda state: state.get_messages(offset=-1), "invalid_page"),
    (lambda state: state.get_messages(offset=0.5), "invalid_page"),  # type: ignore[arg-type]
    (lambda state: state.get_messages(order="up"), "invalid_page"),  # type: ignore[arg-type]
    (lambda state: state.get_messages(max_depth=True), "invalid_page"),
    (lambda state: state.get_message(""), "invalid_id"),
    (lambda state: state.get_message(None), "invalid_id"),  # type: ignore[arg-type]
    (lambda state: state.get_value(""), "invalid_name"),
    (lambda state: state.get_value(7), "invalid_name"),  # type: ignore[arg-type]
    (lambda state: state.set_value("a\0", 1), "invalid_name"),
    (lambda state: state.set_value("k", object()), "invalid_value"),
    (lambda state: state.set_value("k", {"a": [1, 2**63]}), "invalid_value"),
    (lambda state: state.set_value("k", "x" * (VALUE_BYTES_MAX + 1)), "limit_exceeded"),
    (lambda state: state.sleep(-1), "invalid_value"),
    (lambda state: state.sleep(math.nan), "invalid_value"),
    (lambda state: state.sleep(10**400), "invalid_value"),
    (lambda state: state.sleep(True), "invalid_value"),
    (lambda state: state.sleep("1"), "invalid_value"),  # type: ignore[arg-type]
]


def test_bad_input_comes_through_the_reply_and_writes_nothing(stage: Stage) -> None:
    met: list[str] = []

    def script(state: ThreadState) -> Replies:
        assert state.execution is not None
        for bad, _ in BAD_MESSAGES:
            reply = bad(state)
            with pytest.raises(TreadleError) as refused:
                yield reply
            met.append(refused.value.code)
        assert len(state.execution.message_history) == 1

    assert stage(script).play().error is None
    assert met == [code for _, code in BAD_MESSAGES]
    assert stage.texts(include_silent=True) == ["go"]


def test_an_argument_that_no_call_has_is_a_type_error_at_the_call(stage: Stage) -> None:
    def script(state: ThreadState) -> Replies:
        with pytest.raises(TypeError):
            state.inject_message("user", "x", colour="red")  # type: ignore[call-arg]
        yield state.set_value("ran", True)

    assert stage(script).play().error is None


def test_pages_are_cut_from_either_end(stage: Stage) -> None:
    def script(state: ThreadState) -> Replies:
        for number in range(4):
            yield state.inject_message("assistant", str(number))
        newest = yield state.get_messages(2)
        assert (contents(newest.messages), newest.total, newest.has_more) == (["2", "3"], 5, True)
        assert contents((yield state.get_messages(2, 1, "asc")).messages) == ["0", "1"]
        last = yield state.get_messages(2, 3, "desc")
        assert (contents(last.messages), last.has_more) == (["0", "go"], False)

    assert stage(script).play().error is None


def test_a_message_that_nobody_has_is_none(stage: Stage) -> None:
    def script(state: ThreadState) -> Replies:
        assert (yield state.get_message("nobody")) is None

    assert stage(script).play().error is None


# Tool calls


def test_waiting_messages_join_only_after_each_open_call_has_its_result(stage: Stage) -> None:
    def script(state: ThreadState) -> Replies:
        assert state.execution is not None
        if contents(state.execution.new_messages) != ["go"]:
            return
        asked = yield state.inject_message("assistant", tool_calls=[call("a"), call("b")])
        assert asked.content is None
        yield state.queue_message("meanwhile")
        assert (yield state.checkpoint()) == []
        done = yield state.inject_message("tool", "1", tool_call_id="a", tool_status="success", name="look")
        assert (done.tool_call_id, done.tool_status, done.name) == ("a", "success", "look")
        assert (yield state.checkpoint()) == []
        with pytest.raises(InvalidInput, match="exactly one result"):
            yield state.inject_message("tool", "again", tool_call_id="a")
        yield state.inject_message("tool", "2", tool_call_id="b")
        assert contents((yield state.checkpoint())) == ["meanwhile"]

    assert stage(script).play().error is None
    assert stage.texts() == ["go", None, "1", "2", "meanwhile"]


def test_a_call_id_is_free_again_once_its_call_was_answered(stage: Stage) -> None:
    def script(state: ThreadState) -> Replies:
        for _ in range(2):
            yield state.inject_message("assistant", tool_calls=[call("a")])
            with pytest.raises(InvalidInput):
                yield state.inject_message("assistant", tool_calls=[call("b"), call("a")])
            yield state.inject_message("tool", "done", tool_call_id="a")

    assert stage(script).play().error is None


def test_a_call_left_open_at_the_end_gets_an_error_result(stage: Stage) -> None:
    def script(state: ThreadState) -> Replies:
        yield state.inject_message("assistant", "let me see", tool_calls=[call("a")])

    assert stage(script).play().status == "succeeded"
    result = stage.thread.messages().result().messages[-1]
    assert (result.role, result.tool_call_id, result.tool_status) == ("tool", "a", "error")


def test_what_the_heart_notes_of_calls_is_shown_to_nobody(stage: Stage) -> None:
    def script(state: ThreadState) -> Replies:
        asked = yield state.inject_message("assistant", tool_calls=[call("a")])
        assert "calls" not in asked.model_dump()
        yield state.inject_message("tool", "x", tool_call_id="a")

    assert stage(script).play().error is None


# The inbox


def test_a_queued_message_waits_listed_and_counted_until_the_next_boundary(stage: Stage) -> None:
    def script(state: ThreadState) -> Replies:
        assert state.execution is not None
        if contents(state.execution.new_messages) != ["go"]:
            return
        receipt = yield state.queue_message("later", "assistant", silent=False, metadata={"n": 1})
        assert (receipt.disposition, receipt.execution_id, len(receipt.message_ids)) == ("queued", None, 1)
        waiting = yield state.get_message(receipt.message_ids[0])
        assert (waiting.status, waiting.metadata["queued"], waiting.metadata["n"]) == ("pending", True, 1)
        page = yield state.get_messages()
        assert (page.messages[-1].id, page.total) == (waiting.id, 2)
        assert contents(list(state.execution.message_history)) == ["go"]
        (joined,) = yield state.checkpoint()
        assert (joined.id, joined.role, joined.status) == (waiting.id, "assistant", "completed")
        assert state.execution.message_history[-1] == joined

    assert stage(script).play().error is None


def test_a_repeated_input_id_gets_the_first_receipt_and_other_content_a_conflict(stage: Stage) -> None:
    def script(state: ThreadState) -> Replies:
        assert state.execution is not None
        if contents(state.execution.new_messages) != ["go"]:
            return
        first = yield state.queue_message("once", input_id="i1")
        assert (yield state.queue_message("once", input_id="i1")) == first
        with pytest.raises(IdempotencyConflict):
            yield state.queue_message("twice", input_id="i1")
        assert contents((yield state.checkpoint())) == ["once"]

    assert stage(script).play().error is None


def test_a_checkpoint_joins_what_arrived_from_outside_in_order_and_once(stage: Stage) -> None:
    arrived: Reply[None] = Reply()
    begun: Reply[None] = Reply()

    def script(state: ThreadState) -> Replies:
        begun.set(None)
        yield arrived
        assert contents((yield state.checkpoint())) == ["shorter", "in French"]
        assert (yield state.checkpoint()) == []

    execution_id = stage(script).thread.submit("go").result().execution_id
    assert execution_id is not None
    begun.result(60)
    stage.thread.steer(execution_id, "shorter").result()
    stage.thread.steer(execution_id, "in French").result()
    arrived.set(None)

    assert stage.end(execution_id).error is None
    assert stage.texts() == ["go", "shorter", "in French"]


# Interruption, time, the end of a thread


def test_an_interrupt_ends_a_sleep_that_no_clock_would_end(stage: Stage) -> None:
    begun: Reply[None] = Reply()
    caught: list[BaseException] = []

    def script(state: ThreadState) -> Replies:
        begun.set(None)
        try:
            yield state.sleep(3600)
        except ExecutionCancelled as error:
            caught.append(error)
            raise

    execution_id = stage(script).thread.submit("go").result().execution_id
    assert execution_id is not None
    begun.result(60)
    stage.thread.interrupt(execution_id, reason="enough").result()

    assert stage.end(execution_id).status == "cancelled"
    (error,) = caught
    assert isinstance(error, ExecutionCancelled)
    assert (error.execution_id, error.reason, error.source) == (execution_id, "enough", "user")


def test_an_interrupted_body_begins_nothing_further_but_may_still_say_its_last_word(stage: Stage) -> None:
    begun: Reply[None] = Reply()
    said: list[str] = []

    def script(state: ThreadState) -> Replies:
        begun.set(None)
        try:
            yield state.sleep(3600)
        except ExecutionCancelled:
            with pytest.raises(ExecutionCancelled):
                yield state.sleep(0)
            with pytest.raises(ExecutionCancelled):
                yield state.checkpoint()
            yield state.inject_message("assistant", "stopping")
            yield state.set_value("stopped", True)
            yield state.queue_message("go on later")
            said.append("all")
            raise

    execution_id = stage(script).thread.submit("go").result().execution_id
    assert execution_id is not None
    begun.result(60)
    stage.thread.interrupt(execution_id, hold=True).result()

    assert stage.end(execution_id).status == "cancelled"
    assert said == ["all"]
    assert stage.texts() == ["go", "stopping", "go on later"]
    assert stage.thread.get_value("stopped").result() is True


def test_a_sleep_goes_by_the_runtimes_clock(stage: Stage) -> None:
    asleep: Reply[None] = Reply()
    woken: list[float] = []

    def script(state: ThreadState) -> Replies:
        nap = state.sleep(60)
        asleep.set(None)
        yield nap
        woken.append(stage.clock.monotonic())

    execution_id = stage(script).thread.submit("go").result().execution_id
    asleep.result(60)
    stage.clock.advance(59.5)
    stage.clock.advance(0.5)

    assert stage.end(execution_id).status == "succeeded"
    assert woken == [60.0]


def test_values_outlive_executions_until_they_are_deleted(stage: Stage) -> None:
    def script(state: ThreadState) -> Replies:
        assert state.execution is not None
        if contents(state.execution.new_messages) == ["set"]:
            assert (yield state.get_value("k")) is None
            assert (yield state.set_value("k", {"a": (1, 2.5, None)})) is None
        elif contents(state.execution.new_messages) == ["get"]:
            assert (yield state.get_value("k")) == {"a": [1, 2.5, None]}
            yield state.set_value("k", None)
            assert (yield state.get_value("k")) is None

    stage(script)

    assert stage.play("set").error is None
    assert stage.play("get").error is None


def test_a_value_is_a_copy_of_what_was_given(stage: Stage) -> None:
    def script(state: ThreadState) -> Replies:
        given: dict[str, Any] = {"list": [1]}
        reply = state.set_value("k", given)
        given["list"].append(2)
        yield reply
        assert (yield state.get_value("k")) == {"list": [1]}

    assert stage(script).play().error is None


def test_a_thread_can_end_itself_for_good(stage: Stage) -> None:
    times: list[int | None] = []

    def script(state: ThreadState) -> Replies:
        ending = state.terminate()
        try:
            yield ending
        except asyncio.CancelledError:
            # Its own execution is interrupted by it, this wait included; the time comes all the same.
            times.append((yield ending))
            times.append((yield state.terminate()))
            times.append(state.terminated)
            with pytest.raises(ThreadTerminated):
                yield state.queue_message("more")
            raise

    record = stage(script).play()

    assert (record.status, record.reason) == ("cancelled", "aborted")
    assert len(times) == 3
    assert len(set(times)) == 1
    with pytest.raises(ThreadTerminated):
        stage.thread.submit("again").result()


def test_a_state_of_an_execution_that_is_over_has_no_effect(stage: Stage) -> None:
    kept: list[ThreadState] = []

    def script(state: ThreadState) -> Replies:
        kept.append(state)
        yield kept[0].inject_message("assistant", "first" if len(kept) == 1 else "late")

    stage(script)
    assert stage.play("one").status == "succeeded"
    record = stage.play("two")

    assert record.status == "failed"
    assert record.error is not None
    assert record.error.type == "ExecutionFenced"
    assert stage.texts() == ["one", "first", "two"]
    with pytest.raises(ExecutionFenced):
        kept[0].set_value("k", 1).result()


# At rest


def test_a_state_at_rest_has_no_execution_and_says_so(stage: Stage) -> None:
    def script(state: ThreadState) -> Replies:
        resting = ThreadState(state._access)
        assert resting.execution is None
        assert resting.context == {}
        assert "at rest" in repr(resting)
        for verb in (resting.checkpoint, lambda: resting.sleep(1)):
            with pytest.raises(InvalidInput, match="at rest") as refused:
                yield verb()
            assert refused.value.code == "no_active_execution"
        yield resting.inject_message("system", "noted")

    assert stage(script).play().error is None
    assert stage.texts() == ["go", "noted"]


def test_too_many_open_calls_are_refused_by_their_limit(stage: Stage) -> None:
    def script(state: ThreadState) -> Replies:
        with pytest.raises(LimitExceeded) as refused:
            yield state.inject_message("assistant", tool_calls=[call(str(number)) for number in range(201)])
        assert refused.value.details["limit"] == "unread"

    assert stage(script).play().error is None
