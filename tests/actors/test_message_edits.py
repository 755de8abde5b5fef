"""Updates and deletions of messages through a whole runtime: in history, while they wait, by bodies, beside all else."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from tests.actors.started import started
from treadle.actors import ExecutionCancelled, ExecutionFenced
from treadle.actors.testing import Puppet, Stage
from treadle.protocol.errors import (
    InputWithdrawn,
    InvalidInput,
    LimitExceeded,
    MessageNotFound,
    StorageFull,
    ThreadNotFound,
)
from treadle.protocol.events import MessageAdded, MessageUpdated
from treadle.storage.check import check_tables
from treadle.storage.tables import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from treadle.actors import Message, Receipt, Thread

    Enter = Callable[..., Stage]


@pytest.fixture(autouse=True)
def _whole(on: Stage) -> Iterator[None]:
    """The tables are the fold of the journal, whatever was edited and how."""
    yield
    on.settle()
    assert check_tables(on.store).broken == ()


def texts(thread: Thread, **options: Any) -> list[str | None]:
    options.setdefault("include_silent", True)
    return [message.content for message in thread.messages(**options).result().messages]


def said(on: Stage, thread: Thread, *contents: str, **options: Any) -> list[Message]:
    return [on.ask(thread.inject_message("user", content, **options)) for content in contents]


def held(on: Stage, thread: Thread, *contents: str, **options: Any) -> Receipt:
    """Hold the thread and have one input of these messages wait."""
    on.ask(thread.stop())
    return on.ask(thread.queue_message(list(contents), **options))


def tool_calls(*ids: str) -> dict[str, Any]:
    return {"id": "made", "role": "assistant", "content": None, "tool_calls": "[]", "calls": list(ids)}


def result(call: str) -> dict[str, Any]:
    return {"id": f"of-{call}", "role": "tool", "content": "done", "tool_call_id": call, "closes": True}


# In history


def test_an_updated_message_keeps_its_place_and_its_time(on: Stage, thread: Thread) -> None:
    first, second, third = said(on, thread, "a", "b", "c", metadata={"n": 1, "m": 2})

    updated = on.ask(thread.update_message(second.id, content="B", metadata={"n": None, "k": [1]}))

    assert updated == second.model_copy(update={"content": "B", "metadata": {"m": 2, "k": [1]}})
    assert thread.message(second.id).result() == updated
    assert thread.messages().result().messages == [first, updated, third]
    assert thread.messages(before=third.id).result().messages == [first, updated]
    assert thread.messages(after=first.id).result().messages == [updated, third]
    assert thread.messages().result().total == 3


def test_a_repeated_update_writes_nothing(on: Stage, thread: Thread) -> None:
    (message,) = said(on, thread, "a")
    updated = on.ask(thread.update_message(message.id, content="b", metadata={"x": 1}))
    head = thread.state().result().cursor

    assert on.ask(thread.update_message(message.id, content="b", metadata={"x": 1, "y": None})) == updated
    assert thread.state().result().cursor == head
    cleared = on.ask(thread.update_message(message.id, metadata=None))
    assert (cleared.content, cleared.metadata) == ("b", None)


def test_a_deleted_message_is_nowhere_and_deleting_it_again_is_false(on: Stage, thread: Thread) -> None:
    messages = said(on, thread, *"abcde")
    quiet = said(on, thread, "f", silent=True)[0]

    assert on.ask(thread.delete_message(messages[2].id)) is True
    assert on.ask(thread.delete_message(quiet.id)) is True
    assert on.ask(thread.delete_message(messages[2].id)) is False
    assert on.ask(thread.delete_message("nobody")) is False

    assert texts(thread) == ["a", "b", "d", "e"]
    assert [texts(thread, offset=offset, limit=2, order="asc") for offset in (0, 1, 2, 3)] == [
        ["a", "b"], ["b", "d"], ["d", "e"], ["e"],
    ]  # fmt: skip
    assert texts(thread, offset=1, limit=2, order="desc") == ["d", "b"]
    assert thread.messages(include_silent=True).result().total == 4
    assert thread.message(messages[2].id).result() is None
    assert texts(thread, before=messages[3].id) == ["a", "b"]
    with pytest.raises(MessageNotFound):
        thread.messages(after=messages[2].id).result()
    with pytest.raises(MessageNotFound):
        on.ask(thread.update_message(messages[2].id, content="x"))
    assert [summary.messages for summary in on.runtime.threads().result().threads] == [4]
    assert [one.content for one in said(on, thread, "g")] == ["g"]
    assert texts(thread) == ["a", "b", "d", "e", "g"]


def test_history_as_a_body_reads_it_is_edited_at_once(on: Stage, thread: Thread, puppet: Puppet) -> None:
    messages = said(on, thread, *(str(rank) for rank in range(150)))
    started(on, thread)
    history = puppet.execution.history
    assert (len(history), history[3].content, history[-2].content) == (151, "3", "149")

    on.ask(thread.update_message(messages[149].id, content="last"))
    on.ask(thread.update_message(messages[3].id, content="three"))
    assert (history[3].content, history[-2].content) == ("three", "last")

    for rank in (0, 10, 11, 140):
        on.ask(thread.delete_message(messages[rank].id))
    left = [message.content for rank, message in enumerate(messages) if rank not in (0, 10, 11, 140)]
    left[2], left[-1] = "three", "last"
    left.append("go")
    assert [message.content for message in history] == left
    assert [message.content for message in reversed(history)] == left[::-1]
    assert [history[rank].content for rank in range(len(history))] == left
    assert [message.content for message in history[5:90:7]] == left[5:90:7]
    # As many as before, but others.
    said(on, thread, "new")
    on.ask(thread.delete_message(messages[1].id))
    assert [message.content for message in history[-2:]] == ["go", "new"]


def test_going_through_history_gives_each_message_that_stays_once(on: Stage, thread: Thread, puppet: Puppet) -> None:
    messages = said(on, thread, *(str(rank) for rank in range(250)))
    started(on, thread)
    doomed = {str(rank) for rank in range(60)}
    for way in (iter, reversed):
        seen = []
        for rank, message in enumerate(way(puppet.execution.history)):  # type: ignore[operator]
            seen.append(message.content)
            if rank == 40:
                for old in [one for one in messages if one.content in doomed][:30]:
                    on.ask(thread.delete_message(old.id))
                    doomed.discard(old.content or "")
                said(on, thread, "not part of it")
        staying = [str(rank) for rank in range(60, 250)]
        found = [content for content in seen if content in staying]
        assert found == (staying if way is iter else staying[::-1])


def test_limits_and_checks_are_those_of_new_messages_and_nothing_is_stored(on: Stage, thread: Thread) -> None:
    (message,) = said(on, thread, "a")
    head = thread.state().result().cursor
    bad: list[tuple[type[Exception], dict[str, Any]]] = [
        (InvalidInput, {}), (InvalidInput, {"content": ""}), (InvalidInput, {"content": None}), (InvalidInput, {"content": 5}),
        (InvalidInput, {"metadata": [1]}), (InvalidInput, {"metadata": {"x": object()}}), (InvalidInput, {"content": "\udc00"}),
        (LimitExceeded, {"content": "x" * 1_100_000}), (LimitExceeded, {"metadata": {"x": "x" * 1_100_000}}),
    ]  # fmt: skip
    for error, changes in bad:
        with pytest.raises(error):
            on.ask(thread.update_message(message.id, **changes))
    for given in ("", "x" * 129, 5):
        with pytest.raises(InvalidInput):
            on.ask(thread.update_message(given, content="x"))  # type: ignore[arg-type]
        with pytest.raises(InvalidInput):
            on.ask(thread.delete_message(given))  # type: ignore[arg-type]
    with pytest.raises(ThreadNotFound):
        on.runtime.thread("nobody").delete_message(message.id).result()

    assert thread.state().result().cursor == head
    assert thread.message(message.id).result() == message


def test_what_was_updated_can_be_changed_by_the_caller_without_effect(on: Stage, thread: Thread) -> None:
    (message,) = said(on, thread, "a")
    mine: dict[str, Any] = {"x": [1]}

    reply = thread.update_message(message.id, metadata=mine)
    mine["x"].append(2)

    assert on.ask(reply).metadata == {"x": [1]}


def test_watchers_see_edits_as_committed_frames(on: Stage, thread: Thread) -> None:
    (message,) = said(on, thread, "a")
    stream = thread.stream()
    stream.next(0)

    on.ask(thread.update_message(message.id, content="b"))
    on.ask(thread.delete_message(message.id))

    first, second = stream.next(0), stream.next(0)
    assert first is not None
    assert second is not None
    assert (first["type"], first["message"]["content"]) == ("MESSAGE_UPDATED", "b")
    assert (second["type"], second["message_id"]) == ("MESSAGE_DELETED", message.id)
    assert [type(entry.event) for entry in _journal(thread)][-3] is MessageAdded
    stream.close()


def _journal(thread: Thread) -> list[Any]:
    found = []
    with thread.events("1:0") as events, suppress(TimeoutError):
        while (entry := events.next(0)) is not None:
            found.append(entry)
    return found


# While it waits


def test_a_message_that_waits_is_read_as_it_was_updated(on: Stage, thread: Thread, puppet: Puppet) -> None:
    receipt = held(on, thread, "a", "b")
    first, second = receipt.message_ids

    shown = on.ask(thread.update_message(second, content="B", metadata={"n": 1}))

    assert shown == thread.message(second).result()
    assert (shown.content, shown.status, shown.metadata) == (
        "B", "pending", {"n": 1, "queued": True, "queued_at": shown.created_at},
    )  # fmt: skip
    assert texts(thread) == ["a", "B"]
    on.ask(thread.update_message(second, content="BB"))
    on.ask(thread.resume())
    on.settle()
    assert puppet.texts == ["a", "BB"]
    joined = thread.message(second).result()
    assert joined is not None
    assert (joined.content, joined.status, joined.metadata) == (
        "BB",
        "completed",
        {"n": 1, "queued_at": shown.created_at},
    )
    assert [message.content for message in puppet.execution.history] == ["a", "BB"]
    # And once more, in history now.
    assert on.ask(thread.update_message(second, content="C")) == joined.model_copy(update={"content": "C"})
    assert on.ask(thread.delete_message(first)) is True
    assert texts(thread) == ["C"]


def test_deleting_the_only_message_of_an_input_withdraws_it(on: Stage, thread: Thread, puppet: Puppet) -> None:
    receipt = held(on, thread, "a", input_id="mine")
    waits = thread.wait(receipt)
    on.settle()

    assert on.ask(thread.delete_message(receipt.message_ids[0])) is True

    with pytest.raises(InputWithdrawn):
        on.ask(waits)
    assert on.ask(thread.withdraw("mine")) == "withdrawn"
    assert on.ask(thread.queue_message(["a"], input_id="mine")) == receipt
    assert on.ask(thread.resume()).disposition == "nothing_to_resume"
    assert (texts(thread), thread.messages().result().total, puppet.passes) == ([], 0, [])


def test_an_input_of_several_messages_goes_on_with_those_that_are_left(
    on: Stage, thread: Thread, puppet: Puppet
) -> None:
    receipt = held(on, thread, "a", "b", "c", input_id="mine")
    assert on.ask(thread.delete_message(receipt.message_ids[1])) is True
    assert (texts(thread), thread.messages().result().total) == (["a", "c"], 2)
    assert on.ask(thread.delete_message(receipt.message_ids[1])) is False
    assert on.ask(thread.queue_message(["a", "b", "c"], input_id="mine")) == receipt

    on.ask(thread.resume())
    on.settle()

    assert puppet.texts == ["a", "c"]
    assert texts(thread) == ["a", "c"]


def test_the_last_of_several_to_be_deleted_withdraws_the_input(on: Stage, thread: Thread) -> None:
    receipt = held(on, thread, "a", "b", "c", input_id="mine")

    for message_id in receipt.message_ids:
        assert on.ask(thread.delete_message(message_id)) is True

    assert on.ask(thread.withdraw("mine")) == "withdrawn"
    assert thread.state().result().waiting == 0


def test_an_input_that_was_edited_can_be_withdrawn_as_a_whole(on: Stage, thread: Thread) -> None:
    receipt = held(on, thread, "a", "b", "c", input_id="mine")
    on.ask(thread.delete_message(receipt.message_ids[0]))
    on.ask(thread.update_message(receipt.message_ids[1], content="B"))

    assert on.ask(thread.withdraw("mine")) == "withdrawn"

    assert texts(thread) == []
    assert [thread.message(one).result() for one in receipt.message_ids] == [None] * 3


def test_a_steer_that_nobody_has_read_yet_is_edited_and_cancelled_likewise(
    on: Stage, thread: Thread, puppet: Puppet
) -> None:
    execution_id = started(on, thread)
    on.ask(thread.steer(execution_id, ["a", "b"], control_id="first"))
    on.ask(thread.steer(execution_id, "c", control_id="second"))
    a, b, c = [message.id for message in thread.messages().result().messages[1:]]

    on.ask(thread.update_message(a, content="A" * 100))
    assert on.ask(thread.delete_message(b)) is True
    assert on.ask(thread.delete_message(c)) is True
    puppet.returns()
    on.settle()

    assert puppet.texts == ["go", "A" * 100]
    assert puppet.passes[1][0].metadata["source"] == "steering"  # type: ignore[index]
    puppet.returns()
    on.settle()
    assert thread.state().result().active_execution is None


def test_a_row_of_a_terminated_thread_can_still_be_edited_as_its_history_can(on: Stage, thread: Thread) -> None:
    (message,) = said(on, thread, "a")
    first, second = held(on, thread, "x", "y"), held(on, thread, "z")
    on.ask(thread.terminate())

    assert on.ask(thread.update_message(message.id, content="A")).content == "A"
    assert on.ask(thread.delete_message(first.message_ids[0])) is True
    assert on.ask(thread.delete_message(second.message_ids[0])) is True
    assert on.ask(thread.update_message(first.message_ids[1], content="Y")).status == "failed"
    on.settle()

    assert texts(thread) == ["A", "Y"]
    assert thread.messages().result().messages[1].status == "failed"
    assert on.ask(thread.delete_message(message.id)) is True


def test_an_input_does_not_outgrow_its_limit_by_updates(on: Stage, thread: Thread) -> None:
    receipt = held(on, thread, *["x" * 900_000] * 4)

    for message_id in receipt.message_ids[:3]:
        on.ask(thread.update_message(message_id, content="y" * 1_040_000))
    with pytest.raises(LimitExceeded):
        on.ask(thread.update_message(receipt.message_ids[3], content="y" * 1_100_000))
    with pytest.raises(LimitExceeded):
        on.ask(thread.update_message(receipt.message_ids[3], content="y" * 1_048_576, metadata={"x": "y" * 90_000}))
    assert on.ask(thread.delete_message(receipt.message_ids[0])) is True
    on.ask(thread.update_message(receipt.message_ids[3], content="y" * 1_048_576, metadata={"x": "y" * 90_000}))


# By a body, and with calls


def test_a_body_edits_its_thread_until_it_is_fenced(on: Stage, thread: Thread, puppet: Puppet) -> None:
    a, b = said(on, thread, "a", "b")
    started(on, thread)
    execution = puppet.execution

    assert on.ask(execution.update_message(a.id, {"content": "A", "metadata": {"by": "body"}})).content == "A"
    assert on.ask(execution.delete_message(b.id)) is True
    assert on.ask(execution.delete_message(b.id)) is False
    for changes in ({}, {"role": "user"}, {"content": 5}, "x"):
        with pytest.raises(InvalidInput):
            on.ask(execution.update_message(a.id, changes))  # type: ignore[arg-type]
    puppet.returns()
    on.settle()
    with pytest.raises(ExecutionFenced):
        on.ask(execution.update_message(a.id, {"content": "late"}))
    with pytest.raises(ExecutionFenced):
        on.ask(execution.delete_message(a.id))
    assert texts(thread) == ["A", "go"]


def test_an_interrupted_body_may_still_edit(stage: Enter) -> None:
    puppet = Puppet(obeys=False)
    on = stage(puppet)
    thread = on.thread()
    (message,) = said(on, thread, "a")
    execution_id = started(on, thread)
    on.ask(thread.interrupt(execution_id))

    assert on.ask(puppet.execution.update_message(message.id, {"content": "b"})).content == "b"
    assert on.ask(puppet.execution.delete_message(message.id)) is True
    with pytest.raises(ExecutionCancelled):
        on.ask(puppet.execution.consume())


def test_edits_that_come_after_the_end_of_acceptance_are_fenced_in_order(
    on: Stage, thread: Thread, puppet: Puppet
) -> None:
    (message,) = said(on, thread, "a")
    started(on, thread)
    puppet.returns()
    while on.body():
        pass
    mine, theirs = (
        puppet.execution.update_message(message.id, {"content": "b"}),
        thread.update_message(message.id, content="c"),
    )

    assert on.ask(theirs).content == "c"
    with pytest.raises(ExecutionFenced):
        on.ask(mine)
    assert texts(thread) == ["c", "go"]


def test_a_message_with_calls_goes_with_their_results_once_all_have_one(
    on: Stage, thread: Thread, puppet: Puppet
) -> None:
    started(on, thread)
    execution = puppet.execution
    on.ask(execution.append(tool_calls("c", "d")))
    on.ask(execution.append(result("c")))
    said(on, thread, *"123", "between")
    with pytest.raises(InvalidInput, match="open call 'd'"):
        on.ask(execution.delete_message("made"))
    assert on.ask(thread.update_message("made", content="looking")).content == "looking"
    on.ask(execution.append({"id": "deep", "role": "assistant", "content": "x", "depth": 1}))
    on.ask(execution.append(result("d")))
    with pytest.raises(InvalidInput, match="one result of call 'c'"):
        on.ask(thread.delete_message("of-c"))
    assert on.ask(thread.update_message("of-c", content=None)).content is None

    assert on.ask(thread.delete_message("made")) is True

    assert texts(thread, max_depth=1) == ["go", "1", "2", "3", "between", "x"]
    assert on.ask(thread.delete_message("of-c")) is False
    # Its ids can be called again.
    on.ask(execution.append({**tool_calls("c"), "id": "again"}))
    with pytest.raises(InvalidInput, match="open call 'c'"):
        on.ask(thread.delete_message("again"))
    puppet.returns()
    on.settle()
    assert on.ask(thread.delete_message("again")) is True  # the end gave it a result
    assert texts(thread, max_depth=1) == ["go", "1", "2", "3", "between", "x"]


def test_results_far_behind_their_call_are_found(on: Stage, thread: Thread, puppet: Puppet) -> None:
    started(on, thread)
    on.ask(puppet.execution.append(tool_calls("c", "d")))
    said(on, thread, *map(str, range(150)))
    on.ask(puppet.execution.append(result("d")))
    said(on, thread, *map(str, range(70)))
    on.ask(puppet.execution.append(result("c")))

    assert on.ask(thread.delete_message("made")) is True

    assert thread.messages(limit=1_000).result().total == 221


# In one batch, and beside the store's refusals


def test_mail_that_waited_is_edited_in_the_batch_that_it_enters(on: Stage, thread: Thread, puppet: Puppet) -> None:
    (old,) = said(on, thread, "old")
    on.ask(thread.stop())
    a, b, c = on.ask(thread.queue_message(["a", "b", "c"], input_id="mine")).message_ids
    (quiet,) = on.ask(thread.queue_message("s", input_id="other", silent=True)).message_ids
    blocks = thread.set_value("a batch", "in flight")
    while on.turn():
        pass
    # All this waits for that batch.
    replies: list[Any] = [
        thread.update_message(a, content="A"), thread.update_message(a, content="AA"), thread.delete_message(b),
        thread.delete_message(b), thread.update_message(old.id, content="older"), thread.delete_message(old.id),
        thread.update_message(old.id, content="oldest"), thread.inject_message("user", "fresh"),
        thread.delete_message(quiet), thread.withdraw("other"), thread.update_message(c, content="C"),
        thread.resume(),
    ]  # fmt: skip
    while on.turn():
        pass
    assert on.commit() == 1
    while on.turn():
        pass
    assert blocks.done()
    assert on.commit() == 1  # all of it is one batch
    while on.turn():
        pass
    assert all(reply.done() for reply in replies)
    said_of = [reply.error() or reply.result() for reply in replies]
    assert [getattr(one, "content", one) for one in said_of[:4]] == ["A", "AA", True, False]
    assert [said_of[4].content, said_of[5], type(said_of[6])] == ["older", True, MessageNotFound]
    assert said_of[8:10] == [True, "withdrawn"]
    on.settle()
    assert puppet.texts == ["AA", "C"]
    assert texts(thread) == ["fresh", "AA", "C"]


@pytest.mark.parametrize("first", ["consume", "delete"])
def test_a_boundary_and_a_deletion_in_one_breath_keep_their_order(
    on: Stage, thread: Thread, puppet: Puppet, first: str
) -> None:
    started(on, thread)
    receipt = on.ask(thread.queue_message(["a", "b"]))
    blocks = thread.set_value("a batch", "in flight")
    while on.turn():
        pass
    consume = puppet.execution.consume if first == "consume" else None
    got = consume() if consume else None
    deleted = thread.delete_message(receipt.message_ids[0])
    updated = thread.update_message(receipt.message_ids[1], content="B")
    got = got or puppet.execution.consume()
    on.settle()

    assert blocks.done()
    assert (deleted.result(), updated.result().content) == (True, "B")
    assert [message.content for message in got.result()] == (["a", "b"] if first == "consume" else ["B"])
    assert texts(thread) == ["go", "B"]


def test_what_the_store_refuses_has_not_happened(on: Stage, thread: Thread) -> None:
    a, b = said(on, thread, "a", "b")
    receipt = held(on, thread, "x", "y")
    replies: list[Any] = [
        thread.update_message(a.id, content="A"), thread.delete_message(b.id), thread.delete_message(receipt.message_ids[0]),
        thread.update_message(receipt.message_ids[1], content="Y"),
    ]  # fmt: skip
    for _ in replies:
        while on.turn():
            pass
        on.refuse()
        while on.turn():
            pass

    assert [type(reply.error()) for reply in replies] == [StorageFull] * 4
    assert texts(thread) == ["a", "b", "x", "y"]
    assert on.ask(thread.delete_message(b.id)) is True
    assert on.ask(thread.delete_message(receipt.message_ids[0])) is True
    assert on.ask(thread.update_message(a.id, content="A")).content == "A"
    assert texts(thread) == ["A", "y"]


@pytest.mark.parametrize("written", [False, True])
def test_an_edit_whose_process_died_is_there_whole_or_not_at_all(on: Stage, thread: Thread, written: bool) -> None:
    _, b, c = said(on, thread, *"abc")
    receipt = held(on, thread, "x", "y")
    x, y = receipt.message_ids
    for make in (
        lambda now: now.delete_message(b.id), lambda now: now.update_message(c.id, content="C"),
        lambda now: now.delete_message(x), lambda now: now.update_message(y, content="Y"),
    ):  # fmt: skip
        reply = make(thread)
        while on.turn():
            pass
        if written:
            on.commit()
        on.kill()
        assert not reply.done()
        on.reopen()
        thread = on.runtime.thread("t")

    assert texts(thread) == (["a", "C", "Y"] if written else ["a", "b", "c", "x", "y"])
    assert thread.messages().result().total == (3 if written else 5)
    # Repeated, all of it is as it was asked.
    assert on.ask(thread.delete_message(b.id)) is not written
    assert on.ask(thread.update_message(c.id, content="C")).content == "C"
    assert on.ask(thread.delete_message(receipt.message_ids[0])) is not written
    assert on.ask(thread.update_message(receipt.message_ids[1], content="Y")).content == "Y"
    assert texts(thread) == ["a", "C", "Y"]


def test_a_lost_execution_leaves_its_edits(on: Stage, thread: Thread, puppet: Puppet) -> None:
    (message,) = said(on, thread, "a")
    execution_id = started(on, thread)
    on.ask(puppet.execution.append(tool_calls("c")))
    on.ask(puppet.execution.update_message(message.id, {"content": "b"}))
    on.ask(thread.steer(execution_id, ["x", "y"]))
    steered = thread.messages().result().messages[-2:]
    on.ask(thread.delete_message(steered[0].id))
    on.kill()
    on.reopen()
    thread = on.runtime.thread("t")

    assert texts(thread)[:2] == ["b", "go"]
    assert [message.content for message in thread.messages().result().messages if message.role == "user"] == [
        "b",
        "go",
        "y",
    ]
    assert on.ask(thread.delete_message("made")) is True  # the settling gave its call a result
    assert texts(thread) == ["b", "go", "y"]


def test_the_content_of_an_update_is_in_its_event_alone(on: Stage, thread: Thread) -> None:
    (message,) = said(on, thread, "a")

    on.ask(thread.update_message(message.id, content="only once"))

    with on.store.view() as view:
        holding = [
            (table, len(rows))
            for table in Table
            if (rows := [value for _, value in view.scan(table, b"", None) if b"only once" in value])
        ]
    assert holding == [(Table.JOURNAL, 1)]
    updated = [entry.event for entry in _journal(thread) if isinstance(entry.event, MessageUpdated)]
    assert [event.message["content"] for event in updated] == ["only once"]
