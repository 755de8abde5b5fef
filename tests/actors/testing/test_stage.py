"""Nothing moves on a stage until the test says so, and the same moves do the same."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from treadle.actors.testing import Puppet, Stage, StageStore
from treadle.agents import agent
from treadle.protocol.errors import OutcomeUnknown, StorageFull, StoreFailed

if TYPE_CHECKING:
    from collections.abc import Callable

    from treadle.agents import ThreadState

    Enter = Callable[..., Stage]


@agent
async def echo(state: ThreadState) -> None:
    for message in state.execution.new_messages:
        await state.inject_message("assistant", f"re: {message.content}")


@agent
def plain(state: ThreadState) -> None:
    for message in state.execution.new_messages:
        state.inject_message("assistant", f"re: {message.content}").result()


def test_each_move_does_one_thing(stage: Enter) -> None:
    on = stage(echo)
    thread = on.thread()
    assert on.settle() == 0
    receipt = thread.submit("hello")
    assert (on.commit(), on.body()) == (0, False)
    assert on.turn()  # the actor decides: START is handed over
    assert (on.turn(), receipt.done()) == (False, False)
    assert on.commit() == 1  # START is durable
    assert not receipt.done()
    assert on.turn()  # the actor takes the answer: it shows, dispatches, replies
    assert receipt.result().disposition == "accepted"
    assert thread.status().result().state == "running"
    assert on.body()
    on.settle()

    assert thread.status().result().state == "idle"


@pytest.mark.parametrize("body", [echo, plain], ids=["coroutine", "function"])
def test_coroutines_and_plain_functions_are_moved_alike(stage: Enter, body: Any) -> None:
    on = stage(body)
    thread = on.thread()
    on.ask(thread.submit("hello"))
    on.act()
    assert on.store.pending() == 1  # its message waits for the store, and the body for its message
    assert thread.messages().result().total == 1
    on.settle()

    assert [message.content for message in thread.messages().result().messages] == ["hello", "re: hello"]


def test_a_stage_has_a_loop_that_it_can_step_whatever_loops_the_program_makes(
    stage: Enter, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Closed(asyncio.SelectorEventLoop):
        """A loop that shows nobody what is ready, as uvloop's."""

        _ready: Any = property()

    monkeypatch.setattr(asyncio, "new_event_loop", Closed)
    on = stage(echo)
    thread = on.thread()

    assert on.ask(thread.wait(on.ask(thread.submit("hello")))).status == "succeeded"


def test_the_same_moves_do_the_same() -> None:
    def play() -> list[str]:
        with Stage(echo, plain) as on:
            threads = [on.thread(), on.thread("plain")]
            seen: list[str] = []
            for thread in threads:
                thread.submit("hello").add_done_callback(lambda _: seen.append("answered"))
            moves = 0
            while on.turn(moves) or on.body(moves) or on.commit():
                moves += 1
                seen.append(" ".join(str(thread.status().result().state) for thread in threads))
            return seen

    assert play() == play()


def test_the_store_can_refuse_lose_or_break_its_next_group(stage: Enter) -> None:
    on = stage(Puppet())
    thread = on.thread()
    assert on.refuse() == 0  # nothing waits, so nothing is refused, now or later
    refused = thread.set_value("k", 1)
    on.act()
    on.refuse()
    on.act()
    assert isinstance(refused.error(), StorageFull)
    unknown = thread.set_value("k", 2)
    on.act()
    on.store.lose_next(written=True)
    on.settle()
    assert isinstance(unknown.error(), OutcomeUnknown)
    assert on.ask(thread.get_value("k")) == 2
    broken = thread.set_value("k", 3)
    on.act()
    on.store.break_next()
    on.settle()
    assert isinstance(broken.error(), StoreFailed)
    assert isinstance(on.store.failure(), StoreFailed)


def test_time_moves_only_when_the_test_moves_it(stage: Enter) -> None:
    @agent
    async def sleeper(state: ThreadState) -> None:
        await state.sleep(60)

    on = stage(sleeper)
    thread = on.thread()
    on.ask(thread.submit("go"))
    on.settle()
    assert thread.status().result().state == "running"
    on.advance(60)
    assert thread.status().result().state == "running"  # what the timer brings about still waits for its turn
    on.settle()

    assert thread.status().result().state == "idle"


def test_a_life_ends_as_a_process_dies_and_the_next_opens_what_was_durable(stage: Enter) -> None:
    puppet = Puppet()
    on = stage(puppet)
    thread = on.thread()
    on.ask(thread.submit("go"))
    on.settle()
    lost = thread.inject_message("user", "never written")
    on.act()
    now = on.clock.now_us()
    on.kill()
    assert not lost.done()
    on.reopen()
    again = on.runtime.thread(thread.id)

    assert on.clock.now_us() == now
    assert again.status().result().reason == "execution_lost"
    assert [message.content for message in again.messages().result().messages] == ["go"]


def test_another_stage_can_play_on_the_same_store() -> None:
    store = StageStore()
    with Stage(echo, store=store) as first:
        thread = first.thread(thread_id="t")
        first.ask(thread.submit("hello"))
        first.settle()
    with Stage(echo, store=store) as second:
        assert second.runtime.thread("t").messages().result().total == 2


def test_asking_for_what_never_comes_fails_at_once(stage: Enter) -> None:
    on = stage(Puppet())
    thread = on.thread()
    receipt = on.ask(thread.submit("go"))
    on.settle()
    with pytest.raises(AssertionError, match="at rest and the reply is not there"):
        on.ask(thread.wait(receipt.execution_id))


@pytest.mark.parametrize("error", [SystemExit(1), KeyboardInterrupt()], ids=lambda error: type(error).__name__)
def test_what_escapes_from_a_body_ends_that_body_and_not_the_test(stage: Enter, error: BaseException) -> None:
    @agent
    async def hostile(state: ThreadState) -> None:
        raise error

    on = stage(hostile)
    thread = on.thread()
    on.ask(thread.submit("go"))
    on.settle()

    assert thread.status().result().state == "failed"


def test_bodies_that_hang_are_left_behind_with_the_stage(stage: Enter) -> None:
    @agent
    async def hangs(state: ThreadState) -> None:
        while True:
            with suppress(asyncio.CancelledError):
                await state.sleep(1_000)

    @agent
    def blocks(state: ThreadState) -> None:
        state.sleep(1_000).result()

    on = stage(hangs, blocks)
    for name in ("hangs", "blocks"):
        on.ask(on.thread(name).submit("go"))
    on.settle()
    on.close()
    on.close()
