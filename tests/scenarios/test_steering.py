"""What becomes of a steer: it is read by the execution that it names, or its sender is told why not; none vanishes."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.scenarios.scene import PATIENCE_S, Scene, began, contents, ended, history, journal, quiet, tags, texts
from tests.scenarios.stepping import Stepper
from treadle.agents import ThreadState, agent
from treadle.protocol.errors import LimitExceeded, ThreadTerminated
from treadle.protocol.events import ExecutionFinished, InputQueued, MessagesJoined

if TYPE_CHECKING:
    from tests.scenarios.scene import Replies
    from treadle.actors import ControlReceipt, Reply, Thread

REFUSALS = {"execution_finishing", "no_active_execution", "active_execution_mismatch"}


def joined_by(thread: Thread) -> dict[str, tuple[str | None, bool, bool]]:
    """Say of each input that joined history: in which execution, whether consumed, and whether before its FINISH."""
    given: dict[int, str] = {}
    joined: dict[str, tuple[str | None, bool, bool]] = {}
    finished: set[str] = set()
    for entry in journal(thread):
        event = entry.event
        if isinstance(event, InputQueued):
            given[entry.cursor.sequence] = event.input_id
        elif isinstance(event, ExecutionFinished):
            finished.add(event.execution_id)
        elif isinstance(event, MessagesJoined):
            for row in event.rows:
                assert given[row[0]] not in joined
                joined[given[row[0]]] = (event.execution_id, event.consumed, event.execution_id not in finished)
    return joined


async def play_round(seed: int, steers: int) -> Counter[str]:
    """Fire steers around the end of a body, at places drawn by chance among the steps of the runtime's parts."""
    seen: dict[str, list[str | None]] = {}

    @agent(name="ends")
    async def ends(state: ThreadState) -> None:
        assert state.execution is not None
        seen.setdefault(state.execution.id, []).extend(m.content for m in state.execution.new_messages)
        for _ in range(stepper.random.randrange(4)):
            await asyncio.sleep(0)

    stepper = Stepper(ends, seed=seed)
    async with stepper:
        thread: Thread = await stepper.get(stepper.runtime.create_thread("ends"))
        first = began(await stepper.get(thread.submit("first")))
        if stepper.random.random() < 0.5:
            thread.submit("another", on_busy="queue")
        sent: dict[str, Reply[ControlReceipt]] = {}
        # Steers without a gap keep an execution going for ever: how long the gaps are decides when it may end.
        gap = stepper.random.choice((8, 40, 80, 160))
        while len(sent) < steers:
            for _ in range(min(stepper.random.choice((1, 1, 2, 20)), steers - len(sent))):
                given = f"s{len(sent)}"
                sent[given] = thread.steer(first, given, control_id=given)
            for _ in range(stepper.random.randrange(gap)):
                await stepper.step()
        for reply in sent.values():
            await stepper.get(reply)
        await stepper.until(lambda: stepper.at_rest(thread))

        joined = joined_by(thread)
        listed = texts(thread)
        for given, reply in sent.items():
            receipt = reply.result()
            if receipt.disposition == "accepted":
                assert joined[given] == (first, True, True), given
                assert seen[first].count(given) == 1, given
                assert listed.count(given) == 1, given
            else:
                assert receipt.disposition in REFUSALS
                assert given not in joined
                assert given not in listed
        accepted = [given for given, reply in sent.items() if reply.result().disposition == "accepted"]
        assert seen[first] == ["first", *accepted]
        return Counter(str(reply.result().disposition) for reply in sent.values())


@pytest.mark.slow
@pytest.mark.parametrize("hundred", [0, 1])
def test_each_of_two_hundred_steers_around_the_end_of_a_body_is_read_or_refused(hundred: int) -> None:
    """Scenario 1."""
    answered: Counter[str] = Counter()
    for seed in range(100 * hundred, 100 * (hundred + 1)):
        answered += asyncio.run(play_round(seed, 200))

    # Else the rounds missed the moment that they are about.
    assert answered.keys() == {"accepted", *REFUSALS}, answered


@pytest.mark.parametrize("seed", range(5))
def test_each_of_twenty_steers_around_the_end_of_a_body_is_read_or_refused(seed: int) -> None:
    """Scenario 1, a short form of it."""
    asyncio.run(play_round(1_000 + seed, 20))


def test_controls_with_an_id_of_the_past_name_the_live_execution_and_leave_it_alone(scene: Scene) -> None:
    """Scenario 3."""
    thread = scene.gated()
    thread.submit("first").result(PATIENCE_S)
    read = thread.state().result(PATIENCE_S).active_execution
    assert read is not None
    scene.gate.let_go()
    ended(thread, read.execution_id)
    live = began(thread.submit("second").result(PATIENCE_S))
    arrived = scene.gate.arrival()
    before = contents(scene.store)

    receipts = [
        thread.steer(read.execution_id, "shorter").result(PATIENCE_S),
        thread.interrupt(read.execution_id).result(PATIENCE_S),
        thread.interrupt(read.execution_id, hold=True, control_id="c").result(PATIENCE_S),
    ]

    for receipt in receipts:
        assert receipt.disposition == "active_execution_mismatch"
        assert receipt.execution_id == read.execution_id
        assert receipt.active_execution is not None
        assert receipt.active_execution.execution_id == live
    assert contents(scene.store) == before
    arrived.go.set(None)
    assert ended(thread, live).status == "succeeded"
    assert texts(thread) == ["first", "second"]


def test_at_rest_controls_say_that_nothing_is_active_and_write_nothing(scene: Scene) -> None:
    thread = scene.start(quiet)
    past = ended(thread, thread.submit("first").result(PATIENCE_S)).execution_id
    before = contents(scene.store)

    for target in (past, "never-was"):
        for receipt in (thread.steer(target, "x").result(PATIENCE_S), thread.interrupt(target).result(PATIENCE_S)):
            assert (receipt.disposition, receipt.active_execution) == ("no_active_execution", None)

    assert contents(scene.store) == before


def test_an_accepted_steer_is_durable_pending_and_marked_until_one_more_pass_begins_with_it(either: Scene) -> None:
    thread = either.gated()
    execution_id = began(thread.submit("first").result(PATIENCE_S))
    arrived = either.gate.arrival()

    receipt = thread.steer(execution_id, "shorter", control_id="c1").result(PATIENCE_S)

    assert (receipt.disposition, receipt.control_id, receipt.execution_id) == ("accepted", "c1", execution_id)
    waits = history(thread)[-1]
    assert (waits.content, waits.status) == ("shorter", "pending")
    assert waits.metadata is not None
    assert waits.metadata["queued"] is True
    arrived.go.set(None)
    assert either.gate.let_go() == ["shorter"]
    assert ended(thread, execution_id).status == "succeeded"
    joined = history(thread)[-1]
    assert (joined.id, joined.status) == (waits.id, "completed")
    assert joined.metadata is not None
    assert joined.metadata["source"] == "steering"
    assert "queued" not in joined.metadata
    assert tags(thread).count("THREAD_EXECUTION_STARTED") == 1


def test_steers_and_queued_messages_join_at_a_checkpoint_in_the_order_of_each_kind(either: Scene) -> None:
    def checks(state: ThreadState) -> Replies:
        yield either.gate.here()
        either.seen.append([message.content for message in (yield state.checkpoint())])
        either.seen.append([message.content for message in (yield state.checkpoint())])

    thread = either.start(checks)
    execution_id = began(thread.submit("go").result(PATIENCE_S))
    arrived = either.gate.arrival()
    for n in range(3):
        thread.steer(execution_id, f"steer {n}").result(PATIENCE_S)
        thread.queue_message(f"message {n}").result(PATIENCE_S)
    arrived.go.set(None)

    ended(thread, execution_id)

    first, second = either.seen
    assert second == []
    assert [text for text in first if text.startswith("steer")] == [f"steer {n}" for n in range(3)]
    assert [text for text in first if text.startswith("message")] == [f"message {n}" for n in range(3)]
    assert texts(thread) == ["go", *first]


def test_an_agent_that_takes_no_steers_says_so_and_stores_nothing(scene: Scene) -> None:
    thread = scene.gated(steerable=False)
    execution_id = began(thread.submit("first").result(PATIENCE_S))
    arrived = scene.gate.arrival()
    before = contents(scene.store)

    receipt = thread.steer(execution_id, "shorter", control_id="c").result(PATIENCE_S)

    assert receipt.disposition == "active_input_not_steerable"
    assert contents(scene.store) == before
    arrived.go.set(None)
    ended(thread, execution_id)


def test_a_steer_that_comes_after_an_interrupt_is_told_that_the_execution_is_finishing(scene: Scene) -> None:
    thread = scene.start(scene.is_stubborn)
    execution_id = began(thread.submit("first").result(PATIENCE_S))
    scene.gate.arrival()
    thread.interrupt(execution_id).result(PATIENCE_S)
    arrived = scene.gate.arrival()

    receipt = thread.steer(execution_id, "shorter").result(PATIENCE_S)

    assert receipt.disposition == "execution_finishing"
    arrived.go.set(None)
    ended(thread, execution_id)
    assert texts(thread) == ["first"]


@pytest.mark.parametrize(
    ("how", "reason"),
    [("interrupt", "cancelled"), ("raise", "failed"), ("stop", "stopped"), ("terminate", "terminated")],
)
def test_a_steer_that_an_end_overtakes_joins_history_as_not_consumed_with_the_reason(
    either: Scene, how: str, reason: str
) -> None:
    def ends(state: ThreadState) -> Replies:
        assert state.execution is not None
        either.seen += [message.content for message in state.execution.new_messages]
        yield either.gate.here()
        if how == "stop":
            state.execution.stop()
        if how == "raise":
            raise ValueError("on purpose")

    thread = either.start(ends)
    execution_id = began(thread.submit("first").result(PATIENCE_S))
    arrived = either.gate.arrival()
    assert thread.steer(execution_id, "too late").result(PATIENCE_S).disposition == "accepted"
    if how == "interrupt":
        thread.interrupt(execution_id).result(PATIENCE_S)
    elif how == "terminate":
        thread.terminate().result(PATIENCE_S)
    else:
        arrived.go.set(None)

    ended(thread, execution_id)

    unread = history(thread)[-1]
    assert (unread.content, unread.status) == ("too late", "completed")
    assert unread.metadata is not None
    assert (unread.metadata["consumed"], unread.metadata["reason"]) == (False, reason)
    assert either.seen == ["first"]
    found = tags(thread)
    assert found.index("MESSAGES_JOINED") < found.index("THREAD_EXECUTION_FINISHED")


def test_two_hundred_unread_steers_are_taken_and_the_next_one_is_over_the_limit(scene: Scene) -> None:
    thread = scene.gated()
    execution_id = began(thread.submit("first").result(PATIENCE_S))
    arrived = scene.gate.arrival()
    sent = [thread.steer(execution_id, f"{n}") for n in range(200)]
    assert {reply.result(PATIENCE_S).disposition for reply in sent} == {"accepted"}
    before = contents(scene.store)

    with pytest.raises(LimitExceeded) as refused:
        thread.steer(execution_id, "one too many").result(PATIENCE_S)

    assert refused.value.details["limit"] == "unread"
    assert (refused.value.details["maximum"], refused.value.details["met"]) == (200, 201)
    assert contents(scene.store) == before
    arrived.go.set(None)
    assert scene.gate.let_go() == [f"{n}" for n in range(200)]
    assert ended(thread, execution_id).status == "succeeded"


def test_two_mebibytes_of_unread_steers_are_taken_and_more_is_over_the_limit(scene: Scene) -> None:
    thread = scene.gated()
    execution_id = began(thread.submit("first").result(PATIENCE_S))
    scene.gate.arrival()
    large = "x" * (900 << 10)
    for _ in range(2):
        assert thread.steer(execution_id, large).result(PATIENCE_S).disposition == "accepted"

    with pytest.raises(LimitExceeded):
        thread.steer(execution_id, large).result(PATIENCE_S)
    # A submit that may steer takes the same place, so it meets the same limit.
    with pytest.raises(LimitExceeded):
        thread.submit(large, on_busy="steer").result(PATIENCE_S)

    thread.interrupt(execution_id).result(PATIENCE_S)
    assert ended(thread, execution_id).status == "cancelled"


def test_a_terminated_thread_answers_controls_by_its_phase(scene: Scene) -> None:
    thread = scene.start(scene.is_stubborn)
    execution_id = began(thread.submit("first").result(PATIENCE_S))
    scene.gate.arrival()
    thread.terminate().result(PATIENCE_S)
    arrived = scene.gate.arrival()

    assert thread.steer(execution_id, "x").result(PATIENCE_S).disposition == "execution_finishing"
    assert thread.interrupt(execution_id).result(PATIENCE_S).disposition == "accepted"
    assert thread.interrupt("another").result(PATIENCE_S).disposition == "active_execution_mismatch"
    with pytest.raises(ThreadTerminated):
        thread.submit("x", on_busy="steer").result(PATIENCE_S)

    arrived.go.set(None)
    ended(thread, execution_id)
    assert thread.steer(execution_id, "x").result(PATIENCE_S).disposition == "no_active_execution"
