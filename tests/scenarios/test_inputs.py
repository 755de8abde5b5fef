"""What becomes of inputs that wait: stored at once, listed as pending, joined once and in order, or taken back whole."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from tests.scenarios.scene import (
    PATIENCE_S,
    Scene,
    began,
    contents,
    echo,
    ended,
    history,
    journal,
    pending,
    quiet,
    tags,
    texts,
)
from treadle.protocol.errors import InputWithdrawn
from treadle.protocol.events import InputQueued, MessagesJoined

if TYPE_CHECKING:
    from tests.scenarios.scene import Replies
    from treadle.agents import ThreadState


def test_a_message_queued_during_a_body_is_durable_listed_and_delivered_exactly_once(either: Scene) -> None:
    """Scenario 5."""
    asleep = threading.Event()

    def sleeps(state: ThreadState) -> Replies:
        assert state.execution is not None
        either.seen += [message.content for message in state.execution.new_messages]
        if len(either.seen) == 1:
            sleep = state.sleep(2)
            asleep.set()
            yield sleep

    thread = either.start(sleeps)
    execution_id = began(thread.submit("go").result(PATIENCE_S))
    assert asleep.wait(PATIENCE_S)
    either.clock.advance(1)

    receipt = thread.queue_message("meanwhile").result(PATIENCE_S)

    assert (receipt.disposition, receipt.execution_id) == ("queued", None)
    assert receipt.input_id is not None
    (message_id,) = receipt.message_ids
    waits = thread.message(message_id).result(PATIENCE_S)
    assert waits is not None
    assert (waits.status, waits.content) == ("pending", "meanwhile")
    assert waits.metadata is not None
    assert waits.metadata["queued"] is True
    assert history(thread)[-1] == waits
    # Durable: a journal that anybody may read has it.
    assert any(isinstance(entry.event, InputQueued) for entry in journal(thread))
    either.clock.advance(1)
    assert ended(thread, receipt).execution_id == execution_id
    assert either.seen == ["go", "meanwhile"]
    joined = history(thread)[-1]
    assert (joined.id, joined.status) == (message_id, "completed")
    assert joined.metadata == {"queued_at": waits.created_at}
    assert joined.created_at > waits.created_at
    assert tags(thread).count("MESSAGES_JOINED") == 1


def test_a_message_queued_at_rest_starts_an_execution_with_it(either: Scene) -> None:
    thread = either.start(echo)

    receipt = thread.queue_message("hello").result(PATIENCE_S)

    assert receipt.disposition == "queued"
    assert receipt.active_execution is not None
    record = ended(thread, receipt)
    assert (record.execution_id, record.cause) == (receipt.active_execution.execution_id, "rows")
    assert record.started_at == receipt.active_execution.started_at
    assert texts(thread) == ["hello", "re: hello"]


def test_queued_messages_keep_their_fields_and_come_in_order(scene: Scene) -> None:
    thread = scene.gated()
    thread.submit("go").result(PATIENCE_S)
    arrived = scene.gate.arrival()
    thread.queue_message("one", role="assistant", metadata={"k": [1, None]}).result(PATIENCE_S)
    thread.queue_message("two", silent=True, attachments=[{"name": "a.txt"}]).result(PATIENCE_S)
    three = thread.queue_message(
        ["three", {"content": "four", "metadata": {"n": 4}}, {"role": "assistant", "content": "five"}]
    ).result(PATIENCE_S)

    arrived.go.set(None)

    assert scene.gate.let_go() == ["one", "two", "three", "four", "five"]
    ended(thread, three)
    one, two, *rest = history(thread, include_silent=True)[1:]
    assert (one.role, one.silent, (one.metadata or {})["k"]) == ("assistant", False, [1, None])
    assert (two.role, two.silent, two.attachments) == ("user", True, [{"name": "a.txt"}])
    assert [(message.id, message.role) for message in rest] == list(
        zip(three.message_ids, ["user", "user", "assistant"], strict=True)
    )
    assert len(texts(thread)) == len(texts(thread, include_silent=True)) - 1


def test_messages_left_by_an_execution_that_did_not_return_start_the_next_one(either: Scene) -> None:
    def raises_at_first(state: ThreadState) -> Replies:
        assert state.execution is not None
        words = [message.content for message in state.execution.new_messages]
        yield either.gate.here(words)
        if words == ["go"]:
            raise ValueError("on purpose")

    thread = either.start(raises_at_first)
    failed = began(thread.submit("go").result(PATIENCE_S))
    arrived = either.gate.arrival()
    waits = thread.queue_message("after the storm").result(PATIENCE_S)
    arrived.go.set(None)

    assert either.gate.let_go() == ["after the storm"]
    record = ended(thread, waits)
    assert record.execution_id != failed
    assert (record.status, ended(thread, failed).status) == ("succeeded", "failed")


def test_a_message_that_a_body_queues_to_its_own_thread_begins_its_next_pass(either: Scene) -> None:
    def talks_to_itself(state: ThreadState) -> Replies:
        assert state.execution is not None
        either.seen.append([message.content for message in state.execution.new_messages])
        if len(either.seen) < 3:
            yield state.queue_message(f"note {len(either.seen)}", input_id=f"n{len(either.seen)}")

    thread = either.start(talks_to_itself)
    receipt = thread.submit("go").result(PATIENCE_S)

    ended(thread, receipt)

    assert either.seen == [["go"], ["note 1"], ["note 2"]]
    assert tags(thread).count("THREAD_EXECUTION_STARTED") == 1
    queued = [entry.event for entry in journal(thread) if isinstance(entry.event, InputQueued)]
    assert {event.originating_execution_id for event in queued} == {receipt.execution_id}


def test_a_message_that_a_body_queues_to_another_thread_names_the_execution_it_came_from(either: Scene) -> None:
    def tells_another(state: ThreadState) -> Replies:
        yield either.runtime.thread("other").queue_message("from next door")

    either.open(either.body(tells_another, name="actor"), either.body(quiet, name="quiet"))
    other = either.thread("quiet", thread_id="other")
    thread = either.thread()
    receipt = thread.submit("go").result(PATIENCE_S)
    ended(thread, receipt)

    (queued,) = [entry.event for entry in journal(other) if isinstance(entry.event, InputQueued)]
    assert queued.originating_execution_id == receipt.execution_id


def test_a_waiting_input_is_withdrawn_as_a_whole_and_never_delivered(scene: Scene) -> None:
    thread = scene.gated()
    execution_id = began(thread.submit("go").result(PATIENCE_S))
    arrived = scene.gate.arrival()
    thread.queue_message(["one", "two"], input_id="m").result(PATIENCE_S)
    thread.submit(["three", "four"], input_id="s", on_busy="queue").result(PATIENCE_S)
    assert pending(thread) == ["one", "two", "three", "four"]

    assert thread.withdraw("m").result(PATIENCE_S) == "withdrawn"
    assert thread.withdraw("s").result(PATIENCE_S) == "withdrawn"

    assert pending(thread) == []
    page = thread.messages().result(PATIENCE_S)
    assert (len(page.messages), page.total) == (1, 1)
    assert thread.state().result(PATIENCE_S).waiting == 0
    before = contents(scene.store)
    assert thread.withdraw("m").result(PATIENCE_S) == "withdrawn"
    assert contents(scene.store) == before
    arrived.go.set(None)
    ended(thread, execution_id)
    assert texts(thread) == ["go"]
    assert not any(isinstance(entry.event, MessagesJoined) for entry in journal(thread))


def test_what_was_delivered_or_never_sent_cannot_be_withdrawn(scene: Scene) -> None:
    thread = scene.gated()
    execution_id = began(thread.submit("go", input_id="s").result(PATIENCE_S))
    arrived = scene.gate.arrival()
    thread.submit("steer", input_id="t", on_busy="steer").result(PATIENCE_S)
    before = contents(scene.store)

    # A steer was promised to the execution, so its sender cannot take it back.
    assert thread.withdraw("s").result(PATIENCE_S) == "already_delivered"
    assert thread.withdraw("t").result(PATIENCE_S) == "already_delivered"
    assert thread.withdraw("never sent").result(PATIENCE_S) == "not_found"

    assert contents(scene.store) == before
    arrived.go.set(None)
    assert scene.gate.let_go() == ["steer"]
    ended(thread, execution_id)
    assert thread.withdraw("t").result(PATIENCE_S) == "already_delivered"


def test_a_withdrawal_that_meets_the_end_of_the_body_wins_or_loses_as_a_whole(scene: Scene) -> None:
    thread = scene.gated()
    for round_ in range(20):
        first = thread.submit("go").result(PATIENCE_S)
        arrived = scene.gate.arrival()
        queued = thread.submit(["a", "b"], input_id=f"i{round_}", on_busy="queue").result(PATIENCE_S)

        arrived.go.set(None)
        answer = thread.withdraw(f"i{round_}").result(PATIENCE_S)

        if answer == "withdrawn":
            ended(thread, first)
            with pytest.raises(InputWithdrawn):
                thread.wait(queued).result(PATIENCE_S)
        else:
            assert answer == "already_delivered"
            assert scene.gate.let_go() == ["a", "b"]
            ended(thread, queued)
    assert scene.gate.nobody_came()


@pytest.mark.parametrize("amount", [1, 3, 256])
def test_an_input_holds_up_to_256_messages_and_they_join_together(scene: Scene, amount: int) -> None:
    thread = scene.start(echo_count(scene))

    receipt = thread.submit([f"{n}" for n in range(amount)]).result(PATIENCE_S)

    ended(thread, receipt)
    assert len(receipt.message_ids) == amount
    assert [message.id for message in history(thread)] == list(receipt.message_ids)
    assert scene.seen == [amount]


def echo_count(scene: Scene) -> Any:
    def counts(state: ThreadState) -> Replies:
        assert state.execution is not None
        scene.seen.append(len(state.execution.new_messages))
        yield from ()

    return counts
