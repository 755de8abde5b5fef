"""A handler is called once per inbound message, in order, and never twice; what it raises ends only that delivery."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from tests.agents.looping import PATIENCE_S, Play, prompt
from treadle.actors.testing.crash_points import crash_after
from treadle.agents.agent_definition import Agent
from treadle.agents.handler import handler
from treadle.agents.session import SESSION_KEY
from treadle.agents.side import Side
from treadle.agents.thread_state import ThreadState

if TYPE_CHECKING:
    pass


def relay(seen: list[Any], *, plain: bool = False, then: Any = None) -> Any:
    """A handler that notes each message; `then` is called with the state and the message."""
    if plain:

        @handler(name="relay")
        def relay_plainly(state: ThreadState, message: Any) -> None:
            seen.append(message.content)
            if then is not None:
                then(state, message)

        return relay_plainly

    @handler(name="relay")
    async def relay_on_loop(state: ThreadState, message: Any) -> None:
        seen.append(message.content)
        if then is not None:
            await then(state, message)

    return relay_on_loop


def beside_a_human(made: Any, **options: Any) -> Agent:
    return Agent(**{"name": "agent", "side_a": Side(handler=made), **options})


@pytest.mark.parametrize("plain", [False, True], ids=["coroutine", "plain"])
def test_a_handler_is_called_once_for_each_inbound_message_in_order(plain: bool) -> None:
    """Contract E.6 once; F.2 row 5; C.1 awaiting_human: and the turn is the human's again."""
    seen: list[Any] = []
    with Play(beside_a_human(relay(seen, plain=plain))) as play:
        execution_id = play.thread.submit(["one", "two"]).result(PATIENCE_S).execution_id
        record = play.end(str(execution_id))

        assert (record.outcome, record.reason, play.state()) == (
            "succeeded",
            "awaiting_human",
            ("idle", "awaiting_human"),
        )
        assert play.say("three").reason == "awaiting_human"
        assert seen == ["one", "two", "three"]


@pytest.mark.parametrize("plain", [False, True], ids=["coroutine", "plain"])
@pytest.mark.parametrize("escape", [ValueError, SystemExit, asyncio.CancelledError, KeyboardInterrupt])
def test_what_a_handler_raises_ends_only_that_delivery(escape: type[BaseException], plain: bool) -> None:
    """Contract E.6 failure: the next message is delivered, and the error is in the log."""
    seen: list[Any] = []

    def fail(state: Any, message: Any) -> None:
        if message.content == "bad":
            raise escape("no")

    async def fail_later(state: Any, message: Any) -> None:
        fail(state, message)

    with Play(beside_a_human(relay(seen, plain=plain, then=fail if plain else fail_later))) as play:
        execution_id = play.thread.submit(["bad", "good"]).result(PATIENCE_S).execution_id
        record = play.end(str(execution_id))

        assert (record.outcome, seen) == ("succeeded", ["bad", "good"])
        from treadle.agents.thread_state import ThreadState

        logs = ThreadState.at_rest(play.thread).get_logs(order="asc").result(PATIENCE_S)
        kinds = [(one["type"], one["data"]["data"]["kind"]) for one in logs]
        assert kinds == [("error", "handler_execution"), ("info", "handler_execution")]
        assert logs[0]["data"]["data"]["error_type"] == "handler_execution_error"


def test_a_message_is_not_delivered_again_after_a_loss() -> None:
    """Contract E.6 once; E.6 log: that it is handed over is durable before the call, so a crash in it is the end of it."""
    seen: list[Any] = []

    async def die(state: Any, message: Any) -> None:
        if message.content == "only once":
            crash_after("VALUE_CHANGED committed")
            await state.set_value("reached", True)

    with Play(beside_a_human(relay(seen, then=die), on_lost="resume")) as play:
        execution_id = str(play.thread.submit(["only once", "next"]).result(PATIENCE_S).execution_id)
        assert play.end(execution_id).status == "interrupted"
        assert play.queue("another").reason == "awaiting_human"  # behind the execution that goes on after the loss
        assert seen == ["only once", "next", "another"]


def test_a_handler_takes_no_steps_and_its_turn_counts() -> None:
    """Contract B handler turns; B handler turns count: the cap is met by a handler's turns like any others."""
    steps: list[Any] = []

    async def answer(state: Any, message: Any) -> None:
        steps.append((state.execution.current_side, state.execution.step_count, state.execution.side_b_step_count))
        await state.inject_message("user", f"about {message.content}")

    made, model = prompt("talker", "one", "two", "three")
    agent = Agent(
        name="two", side_a=Side(prompt=made), side_b=Side(handler=relay([], then=answer)), max_session_turns=2
    )
    with Play(agent) as play:
        record = play.say("begin")

        assert (record.outcome, record.reason) == ("succeeded", "max_session_turns")
        assert steps == [("b", 1, 0), ("b", 2, 0)]
        assert len(model.requests) == 2


def test_two_handlers_with_nothing_to_be_called_with_end_as_handler_idle() -> None:
    """Contract C.1 handler_idle: A was called, said nothing, and B has nothing."""
    seen: list[Any] = []
    other: list[Any] = []

    @handler(name="second")
    async def second(state: ThreadState, message: Any) -> None:
        other.append(message.content)

    agent = Agent(name="two", side_a=Side(handler=relay(seen)), side_b=Side(handler=second))
    with Play(agent) as play:
        record = play.say("hello")

        assert (record.outcome, record.reason, play.state()) == ("succeeded", "handler_idle", ("idle", "handler_idle"))
        assert (seen, other) == (["hello"], [])


def test_two_handlers_talk_until_one_has_nothing_to_say() -> None:
    """Contract E.6 once: each is called with what the other said, and with nothing of its own."""
    seen: list[Any] = []
    other: list[Any] = []

    async def ping(state: Any, message: Any) -> None:
        if len(seen) < 3:
            await state.inject_message("assistant", f"ping {len(seen)}")

    @handler(name="second")
    async def second(state: ThreadState, message: Any) -> None:
        other.append(message.content)
        await state.inject_message("user", f"pong {len(other)}")

    agent = Agent(name="two", side_a=Side(handler=relay(seen, then=ping)), side_b=Side(handler=second))
    with Play(agent) as play:
        record = play.say("hello")

        assert record.reason == "handler_idle"
        assert (seen, other) == (["hello", "pong 1", "pong 2"], ["ping 1", "ping 2"])


def test_an_interrupted_handler_is_not_called_with_what_was_left() -> None:
    """Contract E.6 once: the rest stays undelivered, and is delivered by the next execution."""
    seen: list[Any] = []
    inside = threading.Event()

    async def hang(state: Any, message: Any) -> None:
        if message.content == "one":
            inside.set()
            await state.sleep(3_600)

    with Play(beside_a_human(relay(seen, then=hang))) as play:
        execution_id = str(play.thread.submit(["one", "two"]).result(PATIENCE_S).execution_id)
        assert inside.wait(PATIENCE_S)
        play.thread.interrupt(execution_id).result(PATIENCE_S)
        assert play.end(execution_id).outcome == "cancelled"
        assert seen == ["one"]
        assert play.say("three").reason == "awaiting_human"
        assert seen == ["one", "two", "three"]


def test_the_counters_of_a_session_are_no_value_of_the_thread() -> None:
    """Contract E.2 turn counters: they live beside the thread's own values, where nobody meets them."""
    with Play(beside_a_human(relay([]))) as play:
        play.say()
        page = play.thread.list_values().result(PATIENCE_S)
        assert SESSION_KEY not in str(page)


def test_an_execution_of_a_handler_takes_no_steer() -> None:
    """Contract F.2 row 5: a steer is for a model step, which a handler's side never takes."""
    inside = threading.Event()

    async def hang(state: Any, message: Any) -> None:
        inside.set()
        await state.sleep(3_600)

    with Play(beside_a_human(relay([], then=hang))) as play:
        execution_id = play.submit()
        assert inside.wait(PATIENCE_S)
        steered = play.thread.steer(execution_id, "faster").result(PATIENCE_S)
        play.thread.interrupt(execution_id).result(PATIENCE_S)
        play.end(execution_id)

        assert steered.disposition == "active_input_not_steerable"


def test_a_handler_that_cancels_its_own_task_has_had_its_turn() -> None:
    """Contract E.6 failure: what it leaves behind does not arrive in the middle of the loop."""

    async def cancel(state: ThreadState, message: Any) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()

    seen: list[str] = []
    with Play(beside_a_human(relay(seen, then=cancel))) as play:
        assert play.say("one").reason == "awaiting_human"
        assert play.say("two").reason == "awaiting_human"
        assert seen == ["one", "two"]
