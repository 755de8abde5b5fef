"""Tests actors/waiting.py: who waits for an execution or an input is told of its end, or why there will be none."""

from __future__ import annotations

import dis
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from tests.actors.started import started
from treadle.actors import Runtime, supervisor, waiting
from treadle.actors.acting import Acting
from treadle.actors.execution import current_execution
from treadle.actors.hub import Hub
from treadle.actors.testing import Puppet, Stage
from treadle.actors.testing.crash_points import Crash
from treadle.agents import ThreadState, agent
from treadle.protocol.errors import (
    CorruptRecord,
    ExecutionNotFound,
    InputNotFound,
    InputWithdrawn,
    RuntimeClosed,
    ThreadActorCrashed,
    ThreadNotFound,
    ThreadOverloaded,
    ThreadTerminated,
    WaitCycle,
)
from treadle.protocol.limits import MAILBOX_MAILS_MAX
from treadle.protocol.receipts import Disposition, Receipt
from treadle.storage import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from treadle.actors import Reply, Thread
    from treadle.protocol.executions import ExecutionRecord

    Enter = Callable[..., Stage]


@agent
async def brief(_state: ThreadState) -> None:
    """End at once."""


def ended(on: Stage, puppet: Puppet) -> None:
    puppet.returns()
    on.settle()


def test_a_wait_ends_with_the_execution_and_not_before_its_end_is_durable(
    on: Stage, thread: Thread, puppet: Puppet
) -> None:
    execution_id = started(on, thread)
    waits = [thread.wait(execution_id) for _ in range(3)]
    puppet.returns()
    on.act()
    assert [wait.done() for wait in waits] == [False] * 3
    on.settle()

    assert [wait.result().status for wait in waits] == ["succeeded"] * 3
    assert on.ask(thread.wait(execution_id)) == thread.execution(execution_id).result() == waits[0].result()


def test_a_wait_for_an_earlier_execution_is_answered_while_another_runs(
    on: Stage, thread: Thread, puppet: Puppet
) -> None:
    first = started(on, thread)
    ended(on, puppet)
    second = started(on, thread)

    assert on.ask(thread.wait(first)).execution_id == first
    waits = thread.wait(second)
    on.settle()
    assert not waits.done()


def test_a_queued_input_is_followed_into_its_execution(on: Stage, thread: Thread, puppet: Puppet) -> None:
    started(on, thread)
    receipt = on.ask(thread.submit("later", on_busy="queue"))
    waits = thread.wait(receipt)
    ended(on, puppet)
    assert not waits.done()
    again = thread.wait(receipt)  # it runs now
    ended(on, puppet)

    record = waits.result()
    assert record.input_id == receipt.input_id
    assert again.result() == record == on.ask(thread.wait(receipt))


def test_a_queued_message_is_followed_into_the_execution_that_it_joins(
    on: Stage, thread: Thread, puppet: Puppet
) -> None:
    execution_id = started(on, thread)
    receipt = on.ask(thread.queue_message("by the way"))
    waits = thread.wait(receipt)
    ended(on, puppet)
    assert not waits.done()
    assert puppet.texts == ["go", "by the way"]
    ended(on, puppet)

    assert waits.result().execution_id == execution_id


def test_a_steer_is_waited_for_by_its_receipt(on: Stage, thread: Thread, puppet: Puppet) -> None:
    execution_id = started(on, thread)
    waits = thread.wait(on.ask(thread.steer(execution_id, "shorter")))
    for _ in range(2):
        ended(on, puppet)

    assert waits.result().status == "succeeded"


def test_a_withdrawn_input_ends_its_wait_with_that(on: Stage, thread: Thread, puppet: Puppet) -> None:
    started(on, thread)
    receipt = on.ask(thread.submit("later", on_busy="queue", input_id="i"))
    waits = thread.wait(receipt)
    on.ask(thread.withdraw("i"))
    on.settle()

    for reply in (waits, thread.wait(receipt)):
        on.settle()
        error = reply.error()
        assert isinstance(error, InputWithdrawn)
        assert error.details == {"thread_id": "t", "input_id": "i"}


def test_an_input_that_a_termination_overtook_never_runs(on: Stage, thread: Thread) -> None:
    started(on, thread)
    receipt = on.ask(thread.submit("later", on_busy="queue"))
    waits = thread.wait(receipt)
    on.ask(thread.terminate())
    on.settle()

    assert isinstance(waits.error(), ThreadTerminated)
    late = thread.wait(receipt)
    on.settle()
    assert isinstance(late.error(), ThreadTerminated)


def test_there_is_no_wait_for_what_never_was(on: Stage, thread: Thread) -> None:
    def error(reply: Reply[ExecutionRecord]) -> BaseException | None:
        on.settle()
        return reply.error()

    assert isinstance(error(thread.wait("e" * 32)), ExecutionNotFound)
    assert isinstance(error(thread.wait(Receipt(Disposition.QUEUED, "nobody"))), InputNotFound)
    assert isinstance(error(on.runtime.thread("stranger").wait("e" * 32)), ThreadNotFound)


def test_a_wait_outlives_the_actor_but_not_the_runtime(on: Stage, thread: Thread, puppet: Puppet) -> None:
    started(on, thread)
    receipt = on.ask(thread.submit("later", on_busy="queue"))
    on.ask(thread.stop())
    on.settle()
    waits = thread.wait(receipt)
    on.settle()
    on.advance(300)  # long idle, but somebody waits
    on.settle()
    assert not waits.done()
    on.ask(thread.resume())
    on.settle()
    ended(on, puppet)
    assert waits.result().status == "succeeded"

    running = thread.wait(started(on, thread))
    on.settle()
    on.kill()
    assert not running.done()  # nobody answers for a process that died


def test_a_close_ends_every_wait_that_is_left(runtime: Callable[..., object], puppet: Puppet) -> None:
    hosted = runtime(puppet)
    thread = hosted.create_thread(puppet).result(60)  # type: ignore[attr-defined]
    execution_id = thread.submit("go").result(60).execution_id
    puppet.wait_for_pass(1)
    waiting = thread.submit("later", on_busy="queue").result(60)
    lives, never = thread.wait(execution_id), thread.wait(waiting)
    hosted.close(drain_timeout=0)  # type: ignore[attr-defined]

    assert lives.result(60).status == "cancelled"
    assert isinstance(never.error(), RuntimeClosed)


def test_a_deletion_ends_the_waits_behind_it(on: Stage, thread: Thread) -> None:
    started(on, thread)
    receipt = on.ask(thread.submit("later", on_busy="queue"))
    waits = thread.wait(receipt)
    on.ask(on.runtime.delete_thread("t"))
    on.settle()

    assert isinstance(waits.error(), ThreadTerminated | ThreadNotFound)
    late = thread.wait(receipt)
    on.settle()
    assert isinstance(late.error(), ThreadNotFound)


def test_a_wait_that_nobody_reads_any_more_changes_nothing(on: Stage, thread: Thread, puppet: Puppet) -> None:
    execution_id = started(on, thread)
    thread.wait(execution_id)
    on.settle()
    ended(on, puppet)

    assert thread.execution(execution_id).result().status == "succeeded"
    assert on.services.directory.entry("t").waiters is None


def test_what_an_input_came_to_is_read_without_waiting(on: Stage, thread: Thread, puppet: Puppet) -> None:
    first = started(on, thread)
    on.ask(thread.submit("next", on_busy="queue", input_id="i"))
    on.ask(thread.submit("never", on_busy="queue", input_id="w"))
    assert thread.execution_of("i").result() is None
    on.ask(thread.withdraw("w"))
    assert isinstance(thread.execution_of("w").error(), InputWithdrawn)
    assert isinstance(thread.execution_of("nobody").error(), InputNotFound)

    ended(on, puppet)
    record = thread.execution_of("i").result()
    assert record is not None
    assert (record.status, record.input_id, record.execution_id != first) == ("active", "i", True)
    ended(on, puppet)
    record = thread.execution_of("i").result()
    assert record is not None
    assert record.status == "succeeded"


def test_an_input_waits_until_its_start_is_published_however_long_that_is_stored(
    on: Stage, thread: Thread, puppet: Puppet, monkeypatch: pytest.MonkeyPatch
) -> None:
    started(on, thread)
    on.ask(thread.submit("next", on_busy="queue", input_id="i"))
    directory = on.services.directory
    published = directory.snapshot(directory.entry("t"))
    ended(on, puppet)
    with monkeypatch.context() as before:
        before.setattr(directory, "snapshot", lambda _: published)
        assert thread.execution_of("i").result() is None

    record = thread.execution_of("i").result()
    assert record is not None
    assert record.status == "active"


def test_an_input_that_a_termination_overtook_came_to_nothing(on: Stage, thread: Thread) -> None:
    started(on, thread)
    on.ask(thread.submit("next", on_busy="queue", input_id="i"))
    on.ask(thread.terminate())
    on.settle()

    assert isinstance(thread.execution_of("i").error(), ThreadTerminated)


def test_it_came_to_nothing_before_its_row_is_taken_out(on: Stage, thread: Thread) -> None:
    on.ask(thread.stop())
    on.ask(thread.queue_message("next", input_id="i"))
    assert thread.execution_of("i").result() is None
    on.ask(thread.terminate())

    assert isinstance(thread.execution_of("i").error(), ThreadTerminated)


def test_waits_that_were_given_up_are_not_kept_for_ever(on: Stage, thread: Thread, puppet: Puppet) -> None:
    execution_id = started(on, thread)
    record = thread.execution(execution_id).result()
    staying = thread.wait(execution_id)
    for _ in range(1_000):
        given_up = thread.wait(execution_id)
        on.settle()
        given_up.set(record)

    waiters = on.services.directory.entry(thread.id).waiters
    assert waiters is not None
    assert sum(map(len, waiters.values())) <= 16
    ended(on, puppet)
    assert staying.result().status == "succeeded"


def test_waits_whose_time_limit_ran_out_are_not_kept_until_the_end(on: Stage, thread: Thread, puppet: Puppet) -> None:
    execution_id = started(on, thread)
    receipt = on.ask(thread.submit("next", on_busy="queue"))
    staying = thread.wait(execution_id)
    told: list[object] = []
    thread.wait(execution_id).add_done_callback(told.append)
    for _ in range(1_000):
        with pytest.raises(TimeoutError):
            thread.wait(execution_id).result(0)
        following = thread.wait(receipt)
        on.settle()
        with pytest.raises(TimeoutError):
            following.result(0)
        del following

    waiters = on.services.directory.entry(thread.id).waiters
    assert waiters is not None
    assert sum(map(len, waiters.values())) <= 5
    ended(on, puppet)
    assert staying.result().status == "succeeded"
    assert len(told) == 1


def test_a_wait_may_be_taken_up_again_behind_a_time_limit(on: Stage, thread: Thread, puppet: Puppet) -> None:
    execution_id = started(on, thread)
    waits = [thread.wait(execution_id) for _ in range(3)]
    for wait in waits:
        with pytest.raises(TimeoutError):
            wait.result(0)
        thread.wait(execution_id)
    ended(on, puppet)

    assert [wait.result().execution_id for wait in waits] == [execution_id] * 3


def test_a_wait_that_was_given_up_pins_no_actor(on: Stage, thread: Thread, puppet: Puppet) -> None:
    on.ask(thread.stop())
    receipt = on.ask(thread.queue_message("later"))
    thread.wait(receipt)
    on.settle()
    on.ask(thread.inject_message("user", "more"))
    on.settle()

    actor = on.services.directory.entry(thread.id).actor
    assert actor is None or actor.is_free()


def test_a_wait_that_was_given_up_closes_no_circle(stage: Enter) -> None:
    first, second = Puppet("first"), Puppet("second")
    on = stage(first, second)
    one, other = on.thread("first"), on.thread("second")
    ids = [started(on, one), started(on, other)]

    def inside(puppet: Puppet, target: Thread, execution_id: str) -> Reply[ExecutionRecord]:
        token = current_execution.set(puppet.execution)
        try:
            return target.wait(execution_id)
        finally:
            current_execution.reset(token)

    with pytest.raises(TimeoutError):
        inside(first, other, ids[1]).result(0)
    back = inside(second, one, ids[0])
    assert not back.done()
    assert on.services.waits.targets(one.id) == []
    assert isinstance(inside(first, other, ids[1]).error(), WaitCycle)
    ended(on, first)
    assert back.result().status == "succeeded"


def test_a_wait_for_the_live_execution_is_kept_without_a_mail(on: Stage, thread: Thread, puppet: Puppet) -> None:
    execution_id = started(on, thread)
    entry = on.services.directory.entry(thread.id)
    waits = thread.wait(execution_id)

    assert len(entry.mailbox) == 0
    assert list(entry.waiters or {}) == [("e", execution_id)]
    ended(on, puppet)
    assert waits.result().execution_id == execution_id
    assert entry.waiters is None


@pytest.mark.parametrize("step", ["publish", "resolve"])
def test_a_wait_that_comes_while_the_end_is_shown_and_told_is_answered(
    on: Stage, thread: Thread, puppet: Puppet, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    execution_id = started(on, thread)
    waits: list[Reply[ExecutionRecord]] = []
    done = getattr(Acting, step)

    def between(acting: Acting, *given: Any) -> None:
        waits.append(thread.wait(execution_id))
        done(acting, *given)
        waits.append(thread.wait(execution_id))

    monkeypatch.setattr(Acting, step, between)
    ended(on, puppet)

    assert [wait.result(0).status for wait in waits] == ["succeeded"] * 2
    assert on.services.directory.entry(thread.id).waiters is None


def test_the_end_waits_for_a_wait_that_has_looked_and_is_not_kept_yet(
    on: Stage, thread: Thread, puppet: Puppet, monkeypatch: pytest.MonkeyPatch
) -> None:
    execution_id = started(on, thread)
    puppet.returns()
    put, met = waiting._put, threading.Event()
    resolve, flush = Acting.resolve, Hub.flush

    def at_the_end(call: Callable[..., None]) -> Callable[..., None]:
        def told(*given: Any) -> None:
            met.set()
            call(*given)

        return told

    def looked(*given: Any) -> None:
        # The actor shows the end and comes to tell it, all between the look and the keeping.
        actor.start()
        assert met.wait(60)
        put(*given)

    monkeypatch.setattr(Acting, "resolve", at_the_end(resolve))
    monkeypatch.setattr(Hub, "flush", at_the_end(flush))
    monkeypatch.setattr(waiting, "_put", looked)
    actor = threading.Thread(target=on.settle)
    waits = thread.wait(execution_id)
    actor.join(60)

    assert waits.result(0).status == "succeeded"


def test_a_wait_is_not_kept_for_an_actor_that_no_turn_will_reach(on: Stage, thread: Thread) -> None:
    execution_id = started(on, thread)
    on.services.dispatcher.stop()
    late = thread.wait(execution_id)

    assert on.services.directory.entry(thread.id).waiters is None
    assert isinstance(late.error(), RuntimeClosed)


def test_waits_from_many_workers_are_all_answered_however_they_meet_the_end() -> None:
    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with Runtime(MemoryStore(), agents=[brief]) as runtime:
            thread = runtime.create_thread("brief").result(60)

            def run(_: int) -> list[str]:
                seen = []
                for _ in range(40):
                    receipt = thread.submit("go", on_busy="queue").result(60)
                    seen.append(thread.wait(receipt).result(60).status)
                return seen

            with ThreadPoolExecutor(4) as workers:
                told = list(workers.map(run, range(4)))
    finally:
        sys.setswitchinterval(switch)

    assert told == [["succeeded"] * 40] * 4


def broken_once(monkeypatch: pytest.MonkeyPatch, where: object, name: str, error: Exception) -> list[str]:
    """Have a function fail at its next call, and note that it did."""
    whole = getattr(where, name)
    failed: list[str] = []

    def call(*given: Any) -> Any:
        if failed:
            return whole(*given)
        failed.append(name)
        raise error

    monkeypatch.setattr(where, name, call)
    return failed


def test_a_wait_is_answered_though_the_record_could_not_be_read_at_the_end(
    on: Stage, thread: Thread, puppet: Puppet, monkeypatch: pytest.MonkeyPatch
) -> None:
    execution_id = started(on, thread)
    waits: list[Reply[ExecutionRecord]] = []
    publish = Acting.publish

    def between(*given: Any) -> None:
        # Behind the look whether anybody waits, so the record has to be read.
        waits.extend(thread.wait(execution_id) for _ in range(2))
        publish(*given)

    monkeypatch.setattr(Acting, "publish", between)
    failed = broken_once(monkeypatch, waiting, "execution_record", Crash("a page that cannot be read"))
    ended(on, puppet)

    assert failed
    assert [wait.result(0).status for wait in waits] == ["succeeded"] * 2


def test_a_life_that_falls_while_it_asks_again_leaves_no_wait_behind(
    on: Stage, thread: Thread, puppet: Puppet, monkeypatch: pytest.MonkeyPatch
) -> None:
    execution_id = started(on, thread)
    waits = [thread.wait(execution_id) for _ in range(3)]
    first = broken_once(monkeypatch, Acting, "resolve", Crash("before anybody is told"))
    second = broken_once(monkeypatch, waiting, "register", Crash("while it asks again"))
    ended(on, puppet)

    assert first
    assert second
    assert [wait.result(0).status for wait in waits] == ["succeeded"] * 3


@pytest.mark.parametrize("error", [Crash("a bug"), CorruptRecord("a page that cannot be read")])
def test_a_life_that_does_not_begin_tells_those_who_wait_and_the_next_one_goes_on(
    on: Stage, thread: Thread, puppet: Puppet, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    execution_id = started(on, thread)
    waits = [thread.wait(execution_id)]
    fallen = broken_once(monkeypatch, Acting, "resolve", Crash("a bug"))
    failed = broken_once(monkeypatch, supervisor, "read_thread", error)
    ended(on, puppet)
    while not failed:
        assert on.turn() or on.commit()

    assert fallen
    kind = CorruptRecord if isinstance(error, CorruptRecord) else ThreadActorCrashed
    assert [type(wait.error()) for wait in waits] == [kind]
    # What the fallen life showed is no longer shown, so a wait brings up the next one.
    assert on.ask(thread.wait(execution_id)).status == "succeeded"


def test_a_supervisor_that_fails_leaves_no_wait_behind(
    on: Stage, thread: Thread, puppet: Puppet, monkeypatch: pytest.MonkeyPatch
) -> None:
    execution_id = started(on, thread)
    waited = thread.wait(execution_id)
    fallen = broken_once(monkeypatch, Acting, "resolve", Crash("a bug"))
    failed = broken_once(monkeypatch, supervisor.Supervisor, "_crashed", Crash("another"))
    ended(on, puppet)

    assert fallen
    assert failed
    assert isinstance(waited.error(), ThreadActorCrashed)
    assert on.ask(thread.wait(execution_id)).status == "succeeded"


@pytest.mark.parametrize("kept", [0, 1, 2, 15, 16])
def test_a_wait_that_comes_at_any_step_of_keeping_another_is_kept_as_well(on: Stage, thread: Thread, kept: int) -> None:
    """As that of a finaliser or a signal handler, which no lock keeps out of its own worker: where one allocates or calls."""
    execution_id = started(on, thread)
    entry = on.services.directory.entry(thread.id)
    waits: list[Reply[ExecutionRecord]] = []
    left, at = 0, ""

    def trace(frame: Any, event: str, _given: object) -> Any:
        nonlocal left, at
        frame.f_trace_opcodes = True
        if frame.f_code is waiting._put.__code__ and event == "opcode":
            before, at = at, dis.opname[frame.f_code.co_code[frame.f_lasti]]
            if at.startswith("BUILD") or before.startswith("CALL"):
                left -= 1
                if not left:
                    waits.append(thread.wait(execution_id))
        return trace

    traced, step = sys.gettrace(), 0
    while left <= 0:
        step += 1
        entry.waiters, left = None, step
        waits = [thread.wait(execution_id) for _ in range(kept)]
        sys.settrace(trace)
        try:
            waits.append(thread.wait(execution_id))
        finally:
            sys.settrace(traced)
        assert entry.waiters is not None
        assert set(entry.waiters["e", execution_id]) == set(waits)

    assert step > 2


def test_a_wait_that_a_full_mailbox_refuses_is_no_wait_of_the_body(stage: Enter) -> None:
    puppet = Puppet()
    on = stage(puppet)
    thread, other = on.thread(), on.thread()
    started(on, thread)
    filled = [other.inject_message("user", str(rank)) for rank in range(MAILBOX_MAILS_MAX)]
    token = current_execution.set(puppet.execution)
    try:
        with pytest.raises(ThreadOverloaded):
            other.wait("e" * 32)
    finally:
        current_execution.reset(token)

    assert on.services.waits.targets(thread.id) == []
    on.settle()
    assert all(reply.done() for reply in filled)
