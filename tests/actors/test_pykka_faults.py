"""One test for each of the six things that pykka leaves open; see style.md's paragraph on it."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import TYPE_CHECKING, Any

import pykka
import pytest
from pykka import ActorDeadError, ActorRegistry

from treadle.actors.actor import VirtualActor
from treadle.actors.dispatcher import Dispatcher, ManualDispatcher
from treadle.actors.mailbox import Mail, Mailbox
from treadle.protocol.errors import ThreadActorCrashed

if TYPE_CHECKING:
    from collections.abc import Iterator

GUARD = 60


class Echo(VirtualActor):
    def __init__(self, mailbox: Mailbox) -> None:
        super().__init__(mailbox)
        self.failures: list[BaseException | None] = []
        self.stops = 0
        self.seen: list[object] = []

    def on_receive(self, message: Any) -> Any:
        if isinstance(message, BaseException):
            raise message
        if isinstance(message, Mail):
            self.seen.append(message.body)
            return None
        if callable(message):
            return message()
        self.seen.append(message)
        return message

    def on_stop(self) -> None:
        self.stops += 1

    def on_failure(self, exception_type: Any, exception_value: Any, traceback: Any) -> None:
        self.failures.append(exception_value)


@pytest.fixture
def dispatcher() -> Iterator[Dispatcher]:
    running = Dispatcher()
    running.start()
    yield running
    assert running.stop()


def launch(dispatcher: Dispatcher, kind: type[Echo] = Echo) -> Echo:
    return kind.launch(Mailbox("echo", dispatcher, lambda _: None))


@pytest.mark.parametrize("turns_before_the_ask_arrives", [0, 1])
def test_an_ask_racing_with_a_stop_is_answered(turns_before_the_ask_arrives: int) -> None:
    dispatcher = ManualDispatcher()
    actor = launch(dispatcher)
    ref = actor.actor_ref
    stop = ref.stop(block=False)
    # What ask() does, with the actor stopping between its look at is_alive() and its put().
    assert ref.is_alive()
    for _ in range(turns_before_the_ask_arrives):
        dispatcher.step()
    future = VirtualActor._create_future()
    ref.actor_inbox.put(pykka._envelope.Envelope("late", reply_to=future))
    dispatcher.run_until_idle()

    with pytest.raises(ActorDeadError):
        future.get(timeout=GUARD)
    assert stop.get(timeout=GUARD) is True
    assert actor.stops == 1
    with pytest.raises(ActorDeadError):
        ref.tell("later")
    assert ref.stop(timeout=GUARD) is False


def test_a_tell_left_behind_a_stop_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    dispatcher = ManualDispatcher()
    actor = launch(dispatcher)
    ref = actor.actor_ref
    ref.stop(block=False)
    ref.tell("left behind")
    with caplog.at_level(logging.WARNING, "treadle"):
        dispatcher.run_until_idle()

    assert "stopped before it handled 'left behind'" in caplog.text
    assert actor.seen == []


def test_an_error_in_on_start_is_reported_and_fails_the_start(caplog: pytest.LogCaptureFixture) -> None:
    failures: list[Any] = []

    class Unable(Echo):
        def on_start(self) -> None:
            raise ValueError("unable")

        def on_failure(self, exception_type: Any, exception_value: Any, traceback: Any) -> None:
            failures.append(exception_value)

    dispatcher = ManualDispatcher()
    with pytest.raises(ValueError, match="unable"):
        Unable.start(dispatcher)

    assert [str(error) for error in failures] == ["unable"]
    assert "unable" in caplog.text


def test_an_error_under_tell_is_reported_and_the_actor_lives(
    dispatcher: Dispatcher, caplog: pytest.LogCaptureFixture
) -> None:
    actor = launch(dispatcher)
    ref = actor.actor_ref
    error = ValueError("told")
    ref.tell(error)

    assert ref.ask("still here", timeout=GUARD) == "still here"
    assert actor.failures == [error]
    assert "told" in caplog.text
    assert ref.is_alive()
    with pytest.raises(ValueError, match="asked"):
        ref.ask(ValueError("asked"), timeout=GUARD)
    assert ref.ask("and here", timeout=GUARD) == "and here"


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, asyncio.CancelledError, GeneratorExit])
def test_what_ends_one_actor_ends_no_other(dispatcher: Dispatcher, kind: type[BaseException]) -> None:
    bystander_of_pykka = pykka.ThreadingActor.start()
    try:
        victim, bystander = launch(dispatcher), launch(dispatcher)
        error = kind()
        asked = victim.actor_ref.ask(error, block=False)
        with pytest.raises(ThreadActorCrashed) as crash:
            asked.get(timeout=GUARD)

        assert crash.value.__cause__ is error
        assert victim.failures == [error]
        assert not victim.actor_ref.is_alive()
        assert bystander.actor_ref.ask("fine", timeout=GUARD) == "fine"
        assert bystander_of_pykka.is_alive()
        with pytest.raises(ActorDeadError):
            victim.actor_ref.ask("anyone?", timeout=GUARD)
    finally:
        bystander_of_pykka.stop()


def test_an_actor_of_another_library_that_exits_does_not_end_ours(dispatcher: Dispatcher) -> None:
    class Hostile(pykka.ThreadingActor):
        def on_receive(self, message: Any) -> None:
            raise SystemExit

    ours = launch(dispatcher)
    hostile = Hostile.start()
    hostile.tell("exit")
    assert hostile.actor_stopped.wait(GUARD)

    assert ActorRegistry.get_all() == []
    assert ours.actor_ref.ask("fine", timeout=GUARD) == "fine"


def test_awaiting_an_answer_never_blocks_the_loop(dispatcher: Dispatcher) -> None:
    may_go_on = threading.Event()
    ref = launch(dispatcher).actor_ref

    async def main() -> tuple[object, object]:
        slow = ref.ask(lambda: may_go_on.wait(GUARD), block=False)
        # pykka's future would block here, and nobody would ever let the actor go on.
        asyncio.get_running_loop().call_soon(may_go_on.set)
        first = await slow
        return first, await ref.stop(block=False)

    assert asyncio.run(asyncio.wait_for(main(), GUARD)) == (True, True)
