"""Tests actors/new_messages.py: a pass is called with what joined for it, each message once, made when it is looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.actors import new_messages as module
from treadle.actors.testing import Puppet, Stage

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    Enter = Callable[..., Stage]


def test_each_pass_gets_what_joined_since_the_last_as_history_shows_it(stage: Enter) -> None:
    puppet = Puppet()
    on = stage(puppet)
    thread = on.thread()
    execution_id = on.ask(thread.submit(["one", "two"])).execution_id or ""
    on.settle()
    on.advance(1)
    on.ask(thread.steer(execution_id, "steer"))
    on.ask(thread.queue_message("queued", role="assistant", metadata={"n": 1}))
    on.ask(thread.inject_message("system", "injected"))
    on.advance(1)
    puppet.returns()
    on.settle()

    first, second = puppet.passes
    assert [message.content for message in first] == ["one", "two"]
    assert [message.content for message in second] == ["steer", "queued"]  # what is injected joined at once
    history = {message.id: message for message in thread.messages().result().messages}
    assert [history[message.id] for message in (*first, *second)] == [*first, *second]
    assert (second[1].role, (second[1].metadata or {})["n"]) == ("assistant", 1)
    assert (second[0].metadata or {})["source"] == "steering"
    assert (second[0].metadata or {})["queued_at"] < second[0].created_at


def test_a_start_from_rows_is_called_with_all_that_joined_in_its_commit(stage: Enter) -> None:
    puppet = Puppet()
    on = stage(puppet)
    thread = on.thread()
    on.ask(thread.stop())
    for rank in range(3):
        on.ask(thread.queue_message(str(rank)))
    on.ask(thread.submit("first"))
    on.settle()

    assert [[message.content for message in one] for one in puppet.passes] == [["first", "0", "1", "2"]]


def test_a_resume_without_rows_is_called_with_nothing_new(stage: Enter) -> None:
    puppet = Puppet()
    on = stage(puppet)
    thread = on.thread()
    on.ask(thread.inject_message("user", "history"))
    on.ask(thread.resume())
    on.settle()

    assert puppet.passes == [[]]
    assert [message.content for message in puppet.execution.history] == ["history"]


def test_a_checkpoint_answers_with_what_it_joined_and_the_next_pass_does_not_repeat_it(stage: Enter) -> None:
    puppet = Puppet()
    on = stage(puppet)
    thread = on.thread()
    execution_id = on.ask(thread.submit("go")).execution_id or ""
    on.settle()
    on.ask(thread.steer(execution_id, "at the checkpoint"))
    joined = on.ask(puppet.execution.consume())
    assert [message.content for message in joined] == ["at the checkpoint"]
    assert on.ask(puppet.execution.consume()) == []
    on.ask(thread.steer(execution_id, "afterwards"))
    puppet.returns()
    on.settle()

    assert [[message.content for message in one] for one in puppet.passes] == [["go"], ["afterwards"]]


def test_two_checkpoints_in_one_batch_get_each_their_own(stage: Enter) -> None:
    puppet = Puppet()
    on = stage(puppet)
    thread = on.thread()
    execution_id = on.ask(thread.submit("go")).execution_id or ""
    on.settle()
    thread.inject_message("user", "in flight")
    on.turn()
    thread.steer(execution_id, "a")
    first = puppet.execution.consume()
    thread.steer(execution_id, "b")
    second = puppet.execution.consume()
    on.settle()

    assert [message.content for message in first.result()] == ["a"]
    assert [message.content for message in second.result()] == ["b"]


def test_messages_are_made_once_and_only_if_the_body_looks(stage: Enter, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    real = module.to_message
    monkeypatch.setattr(module, "to_message", lambda draft, at: (made.append(draft["id"]), real(draft, at))[1])
    seen: list[object] = []

    class Blind(Puppet):
        def run(self, execution: object, /) -> object:  # type: ignore[override]
            seen.append(execution)

            async def end() -> None:
                """Look at nothing."""

            return end()

    on = stage(Blind())
    thread = on.thread()
    on.ask(thread.submit("go"))
    on.settle()
    assert made == []

    execution = seen[0]
    assert execution.new_messages is execution.new_messages  # type: ignore[attr-defined]
    assert len(made) == 1
