"""What an actor does once a decision stands: timers, the retry, what is shown, and who is told what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.actors.started import started
from treadle.actors import ExecutionCancelled, ExecutionFenced
from treadle.actors.mailbox import Mail
from treadle.actors.reply import Reply
from treadle.actors.testing import Puppet, Stage
from treadle.protocol.errors import StorageFull, ThreadNotFound
from treadle.protocol.events import MessageAdded
from treadle.protocol.receipts import Disposition
from treadle.protocol.triggers import Append, Consume

if TYPE_CHECKING:
    from collections.abc import Callable

    from treadle.actors import Thread

    Enter = Callable[..., Stage]


def told(on: Stage, thread: Thread, trigger: Any) -> BaseException | None:
    """Send a trigger past the body's own checks, and return the error that it gets."""
    reply: Reply[Any] = Reply()
    on.services.directory.entry(thread.id).mailbox.put(Mail(trigger, reply))
    on.settle()
    return reply.error()


def said(execution_id: str) -> MessageAdded:
    return MessageAdded(execution_id=execution_id, message={"id": "late", "role": "assistant", "content": "late"})


def test_a_deadline_aborts_like_an_interrupt_and_the_outcome_is_a_time_out(stage: Enter) -> None:
    puppet = Puppet(timeout=60)
    on = stage(puppet)
    thread = on.thread()
    execution_id = started(on, thread)
    on.advance(59)
    on.settle()
    assert not puppet.execution.abort_signal.aborted
    on.advance(1)
    on.settle()
    record = thread.execution(execution_id).result()

    assert puppet.execution.abort_signal.source == "deadline"
    assert (record.status, record.error.type, record.abandoned) == ("failed", "ExecutionTimeout", False)
    assert thread.status().result().reason == "timeout"


def test_the_timeout_of_a_submit_stands_before_the_agent_s(stage: Enter) -> None:
    puppet = Puppet(timeout=60)
    on = stage(puppet)
    thread = on.thread()
    started(on, thread, timeout=5)
    on.advance(5)
    on.settle()

    assert thread.status().result().reason == "timeout"


def test_the_deadline_of_an_execution_that_is_over_does_not_touch_the_next(stage: Enter) -> None:
    puppet = Puppet(timeout=60)
    on = stage(puppet)
    thread = on.thread()
    started(on, thread)
    on.advance(50)
    puppet.returns()
    on.settle()
    started(on, thread)
    on.advance(15)
    on.settle()

    assert thread.state().result().active_execution.phase == "running"


def test_a_body_that_does_not_stop_is_abandoned_when_its_grace_is_over_and_not_before(stage: Enter) -> None:
    """Scenario 10: it shows that it is stopping, then finishes cancelled and abandoned; late appends are fenced."""
    puppet = Puppet(obeys=False)
    on = stage(puppet, interrupt_grace=5)
    thread = on.thread()
    execution_id = started(on, thread)
    on.ask(thread.interrupt(execution_id))
    on.ask(puppet.execution.append({"id": "m", "role": "assistant", "content": "while stopping"}))
    on.advance(4.9)
    on.settle()
    assert thread.state().result().active_execution.phase == "stopping"
    on.advance(0.1)
    on.settle()
    record = thread.execution(execution_id).result()
    late = puppet.execution.append({"id": "n", "role": "assistant", "content": "late"})

    assert (record.status, record.abandoned) == ("cancelled", True)
    assert isinstance(late.error(), ExecutionFenced)
    assert isinstance(told(on, thread, Append(execution_id, said(execution_id), 10)), ExecutionFenced)
    assert [message.content for message in thread.messages().result().messages] == ["go", "while stopping"]
    puppet.returns()
    on.settle()


def test_a_second_interrupt_gives_no_further_grace(stage: Enter) -> None:
    puppet = Puppet(obeys=False)
    on = stage(puppet, interrupt_grace=5)
    thread = on.thread()
    execution_id = started(on, thread)
    on.ask(thread.interrupt(execution_id))
    on.advance(3)
    assert on.ask(thread.interrupt(execution_id)).disposition is Disposition.ACCEPTED
    on.advance(2)
    on.settle()

    assert thread.execution(execution_id).result().abandoned
    assert puppet.cancels <= 2
    puppet.returns()
    on.settle()


def test_a_body_that_asks_once_it_was_told_is_cancelled_and_may_still_say_what_it_did(stage: Enter) -> None:
    puppet = Puppet(obeys=False)
    on = stage(puppet)
    thread = on.thread()
    execution_id = started(on, thread)
    on.ask(thread.interrupt(execution_id, reason="enough", source="parent"))
    asked = told(on, thread, Consume(execution_id))

    assert isinstance(asked, ExecutionCancelled)
    assert (asked.reason, asked.source) == ("enough", "parent")
    assert told(on, thread, Append(execution_id, said(execution_id), 10)) is None
    puppet.returns()
    on.settle()


def test_the_status_stays_running_while_finish_is_refused_and_explain_says_so(stage: Enter) -> None:
    puppet = Puppet()
    on = stage(puppet)
    thread = on.thread()
    started(on, thread)
    puppet.returns()
    on.act()
    on.refuse(StorageFull("4 MB and not a byte more"))
    on.act()
    blocked = thread.explain().result().blocked

    assert thread.status().result().state == "running"
    assert thread.state().result().active_execution.phase == "finishing"
    assert blocked is not None
    assert (blocked.what, blocked.attempts, blocked.error) == ("FINISH", 1, "4 MB and not a byte more")
    assert blocked.next_attempt_at == on.clock.now_us() + 50_000
    assert on.runtime.ready() == (False, ["storage_full", f"blocked: {thread.id}"])
    assert "FINISH is tried again" in thread.explain().result().next


def test_between_two_attempts_at_finish_what_writes_is_committed_by_itself(stage: Enter) -> None:
    puppet = Puppet()
    on = stage(puppet)
    thread = on.thread()
    execution_id = started(on, thread)
    puppet.returns()
    on.act()
    on.refuse()
    on.act()
    queued, held = thread.queue_message("later"), thread.stop()
    steer, submit = thread.steer(execution_id, "late"), thread.submit("x")
    on.settle()

    assert queued.result().disposition is Disposition.QUEUED
    assert held.result().disposition is Disposition.EXECUTION_FINISHING
    assert steer.result().disposition is Disposition.EXECUTION_FINISHING
    assert submit.result().disposition is Disposition.BUSY
    assert thread.state().result().held
    on.advance(1)
    on.settle()
    assert thread.execution(execution_id).result().outcome == "succeeded"
    assert thread.state().result().waiting == 1


def test_a_start_that_nobody_asked_for_is_tried_again_until_it_is_written(stage: Enter) -> None:
    puppet = Puppet()
    on = stage(puppet)
    thread = on.thread()
    started(on, thread)
    on.ask(thread.submit("next", on_busy="queue"))
    puppet.returns()
    on.act()
    on.commit()
    waits = []
    for _ in range(3):
        on.act()
        on.refuse()
        on.act()
        blocked = thread.explain().result().blocked
        assert blocked is not None
        assert blocked.what == "START"
        waits.append((blocked.next_attempt_at - on.clock.now_us()) / 1_000_000)
        assert thread.status().result().state == "idle"
        on.advance(waits[-1])
    on.settle()

    assert waits == [0.05, 0.1, 0.2]
    assert puppet.texts == ["go", "next"]
    assert thread.explain().result().blocked is None


def test_a_submit_that_starts_meanwhile_takes_the_place_of_the_retry(stage: Enter) -> None:
    puppet = Puppet()
    on = stage(puppet)
    thread = on.thread()
    started(on, thread)
    on.ask(thread.submit("waited", on_busy="queue"))
    puppet.returns()
    on.act()
    on.commit()
    on.act()
    on.refuse()
    on.act()
    on.ask(thread.submit("now"))
    on.settle()
    assert puppet.texts == ["go", "now"]
    on.advance(60)
    on.settle()
    assert puppet.texts == ["go", "now"]
    puppet.returns()
    on.settle()

    assert puppet.texts == ["go", "now", "waited"]


def blocked_at_rest(on: Stage, thread: Thread) -> None:
    """Let the START of a waiting input be refused."""
    puppet: Any = on.agents[0]
    started(on, thread)
    on.ask(thread.submit("waits", on_busy="queue", input_id="i"))
    puppet.returns()
    on.act()
    on.commit()
    on.act()
    on.refuse()
    on.act()
    assert on.runtime.ready() == (False, ["storage_full", f"blocked: {thread.id}"])


def test_what_was_blocked_and_is_withdrawn_blocks_nothing_any_more(stage: Enter) -> None:
    on = stage(Puppet())
    thread = on.thread()
    blocked_at_rest(on, thread)
    assert on.ask(thread.withdraw("i")) == "withdrawn"
    on.advance(1)
    on.settle()

    assert thread.explain().result().blocked is None
    assert on.runtime.ready() == (True, [])


def test_a_thread_that_is_deleted_while_it_is_blocked_leaves_nothing_behind(stage: Enter) -> None:
    on = stage(Puppet())
    thread = on.thread()
    blocked_at_rest(on, thread)
    on.ask(on.runtime.delete_thread(thread.id))
    on.settle()

    assert on.runtime.ready() == (True, [])
    assert on.services.directory.counts()["actors"] == 0
    assert on.clock.pending() == 1  # the sweep's


@pytest.mark.parametrize("target", ["execution", "queued input"])
def test_a_wait_is_answered_when_what_it_waits_for_ends(stage: Enter, target: str) -> None:
    puppet = Puppet()
    on = stage(puppet)
    thread = on.thread()
    execution_id = started(on, thread)
    queued = on.ask(thread.submit("next", on_busy="queue"))
    waiting = thread.wait(execution_id if target == "execution" else queued)
    on.settle()
    assert not waiting.done()
    puppet.returns()
    on.settle()
    assert waiting.done() is (target == "execution")
    puppet.returns()
    on.settle()

    assert waiting.result().status == "succeeded"
    assert (waiting.result().execution_id == execution_id) is (target == "execution")


def test_a_wait_for_what_is_over_is_answered_at_once(stage: Enter) -> None:
    puppet = Puppet()
    on = stage(puppet)
    thread = on.thread()
    first = started(on, thread)
    puppet.returns()
    on.settle()
    started(on, thread)
    waiting = thread.wait(first)
    on.act()

    assert waiting.result().status == "succeeded"


def test_a_deletion_tells_those_who_wait_and_leaves_a_tombstone(stage: Enter) -> None:
    puppet = Puppet()
    on = stage(puppet)
    thread = on.thread(user_id="u")
    execution_id = started(on, thread)
    waiting = thread.wait(execution_id)
    deleted = on.runtime.delete_thread(thread.id)
    on.settle()

    assert deleted.result() is None
    assert waiting.result().status == "cancelled"  # its execution ended first
    assert isinstance(thread.status().error(), ThreadNotFound)
    assert on.runtime.threads(user_id="u").result().threads == []
    assert on.runtime.threads().result().threads == []


def test_options_of_the_agent_are_those_of_every_execution(stage: Enter) -> None:
    on = stage(Puppet(steerable=False))
    thread = on.thread()
    execution_id = started(on, thread)

    assert on.ask(thread.steer(execution_id, "x")).disposition is Disposition.ACTIVE_INPUT_NOT_STEERABLE
    assert on.ask(thread.submit("x", on_busy="steer")).disposition is Disposition.BUSY


def test_what_a_body_consumes_is_what_it_gets(stage: Enter) -> None:
    puppet = Puppet()
    on = stage(puppet)
    thread = on.thread()
    execution_id = started(on, thread)
    assert on.ask(puppet.execution.consume()) == []
    on.ask(thread.steer(execution_id, "one"))
    on.ask(thread.queue_message("two"))
    got = on.ask(puppet.execution.consume())

    assert [message.content for message in got] == ["one", "two"]
    assert on.ask(puppet.execution.consume()) == []
    puppet.returns()
    on.settle()
    assert len(puppet.passes) == 1
