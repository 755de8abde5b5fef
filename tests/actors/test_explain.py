"""Tests actors/explain.py: whoever asks why a thread does not move is told, in every position it can stand in."""

from __future__ import annotations

import io
import threading
from typing import TYPE_CHECKING

import pytest

from tests.actors.started import started
from treadle.actors.testing import Puppet, Stage
from treadle.agents import agent
from treadle.protocol.errors import StorageFull, ThreadNotFound

if TYPE_CHECKING:
    from collections.abc import Callable

    from treadle.actors import Runtime, Thread
    from treadle.actors.explain import Explanation
    from treadle.agents import ThreadState

    Enter = Callable[..., Stage]

GUARD_S = 60.0


def of(thread: Thread) -> Explanation:
    explained: Explanation = thread.explain().result()
    return explained


def test_a_thread_at_rest_waits_for_an_input(stage: Enter) -> None:
    thread = stage(Puppet()).thread()
    told = of(thread)

    assert (told.thread_id, told.held_by, told.where, told.waiting, told.mail) == (thread.id, None, (), 0, 0)
    assert (told.in_flight, told.blocked, told.problems, told.interrupted) == (None, None, (), None)
    assert told.status == thread.status().result()
    assert told.next == "nothing, until an input comes"


def test_mail_and_the_batch_in_flight_are_counted(stage: Enter) -> None:
    on = stage(Puppet())
    thread = on.thread()
    thread.inject_message("user", "one")
    thread.inject_message("user", "two")
    assert of(thread).mail == 2
    on.turn()
    on.turn()
    assert (of(thread).mail, bool(of(thread).in_flight)) == (1, True)
    on.settle()
    assert (of(thread).mail, of(thread).in_flight) == (0, None)


def test_a_running_execution_says_where_it_is(stage: Enter) -> None:
    on = stage(Puppet())
    thread = on.thread()
    execution_id = started(on, thread)
    told = of(thread)

    assert told.held_by is not None
    assert (told.held_by.execution_id, told.held_by.phase) == (execution_id, "running")
    assert any("_play" in frame for frame in told.where)
    assert told.next == "the body goes on; what waits joins at its next boundary"
    on.ask(thread.steer(execution_id, "shorter"))
    assert of(thread).waiting == 1


@pytest.mark.parametrize(("reason", "told"), [("enough", "user: enough"), (None, "user")])
def test_an_interruption_says_by_whom_and_why(stage: Enter, reason: str | None, told: str) -> None:
    puppet = Puppet(obeys=False)
    on = stage(puppet)
    thread = on.thread()
    execution_id = started(on, thread)
    on.ask(thread.interrupt(execution_id, reason=reason))
    on.settle()

    assert of(thread).interrupted == told
    assert of(thread).next == "the body ends, or is abandoned after its grace"
    puppet.returns()
    on.settle()
    assert of(thread).interrupted is None


def test_what_is_owned_is_what_an_end_waits_for(stage: Enter) -> None:
    puppet = Puppet()
    on = stage(puppet)
    thread = on.thread()
    started(on, thread)
    puppet.execution.own(io.BytesIO())
    puppet.returns()
    while on.turn() or on.body():
        pass

    assert of(thread).next == "what it owns is released, then it finishes"
    on.settle()
    assert of(thread).held_by is None


def test_a_refused_commit_says_what_is_tried_again_and_when(stage: Enter) -> None:
    puppet = Puppet()
    on = stage(puppet)
    thread = on.thread()
    started(on, thread)
    puppet.returns()
    on.act()
    on.refuse()
    on.settle()
    told = of(thread)

    assert told.blocked is not None
    assert (told.blocked.what, told.blocked.attempts) == ("FINISH", 1)
    assert told.next == f"FINISH is tried again at {told.blocked.next_attempt_at} (attempt 2)"
    assert told.status.state == "running"
    on.advance(1)
    on.settle()
    assert of(thread).blocked is None


def test_a_held_thread_says_who_lifts_the_hold(stage: Enter) -> None:
    on = stage(Puppet())
    thread = on.thread()
    on.ask(thread.stop())
    assert (of(thread).held, of(thread).next) == (True, "nothing, until an input comes")
    on.ask(thread.queue_message("it waits"))

    assert of(thread).next == "nothing, until resume() or a submit lifts the hold"
    assert of(thread).waiting == 1


def test_a_terminated_thread_says_so(stage: Enter) -> None:
    on = stage(Puppet())
    thread = on.thread()
    on.ask(thread.terminate())
    on.settle()

    assert of(thread).next == "nothing: the thread is terminated"


def test_what_is_about_to_start_says_so(stage: Enter) -> None:
    puppet = Puppet()
    on = stage(puppet)
    thread = on.thread()
    started(on, thread)
    on.ask(thread.submit("waits", on_busy="queue"))
    puppet.returns()
    on.act()
    on.commit()
    while on.turn():
        pass
    told = of(thread)

    assert (told.held_by, told.waiting) == (None, 1)
    assert told.next == "the oldest waiting input starts"


def test_a_missing_agent_is_named_and_nothing_else_is_promised(stage: Enter) -> None:
    on = stage(Puppet("gone"))
    thread = on.thread()
    started(on, thread)
    on.ask(thread.submit("waits", on_busy="queue"))
    on.kill()
    on.reopen(Puppet("other"))
    on.settle()
    told = of(on.runtime.thread(thread.id))

    assert told.problems == ("agent_missing: no agent 'gone' is registered; nothing starts",)
    assert told.next == "nothing, until its agent is registered"


def test_a_quarantined_thread_is_told_from_one_at_rest(stage: Enter, monkeypatch: pytest.MonkeyPatch) -> None:
    from treadle.protocol.facts import Facts

    on = stage(Puppet())
    thread = on.thread()

    def fail(*_args: object) -> None:
        raise OSError("a bug in folding")

    monkeypatch.setattr(Facts, "fold_all", fail)
    for rank in range(4):
        thread.inject_message("user", str(rank))
        on.settle()
    monkeypatch.undo()
    told = of(thread)
    on.reports.clear()

    assert told.problems[0].startswith("thread_quarantined: ")
    assert told.next == "nothing, until the next open"


def test_a_failed_store_is_named(stage: Enter) -> None:
    on = stage(Puppet())
    thread = on.thread()
    thread.inject_message("user", "x")
    on.act()
    on.store.break_next()
    on.commit()
    on.settle()

    assert [problem.split(":")[0] for problem in of(thread).problems] == ["store_failed"]
    assert of(thread).next == "nothing, until the store is opened again"


def test_room_that_is_missing_is_no_failure_of_the_store(stage: Enter) -> None:
    on = stage(Puppet())
    thread = on.thread()
    refused = thread.inject_message("user", "x")
    on.act()
    on.refuse()
    on.settle()

    assert isinstance(refused.error(), StorageFull)
    assert of(thread).problems == ()


def test_a_thread_that_is_not_there_has_no_explanation(stage: Enter) -> None:
    on = stage(Puppet())

    assert isinstance(on.runtime.thread("stranger").explain().error(), ThreadNotFound)


def test_a_body_in_line_for_a_worker_says_so_and_an_interrupt_takes_it_out(runtime: Callable[..., Runtime]) -> None:
    out, let_go = threading.Event(), threading.Event()

    @agent
    def computes(state: ThreadState) -> None:
        out.set()
        let_go.wait(GUARD_S)

    hosted = runtime(computes, workers=1)
    busy, in_line = (hosted.create_thread(computes).result(GUARD_S) for _ in range(2))
    busy.submit("go").result(GUARD_S)
    assert out.wait(GUARD_S)
    execution_id = in_line.submit("go").result(GUARD_S).execution_id
    told = of(in_line)

    assert told.waits_for_worker
    assert told.next == "the body is called as soon as a worker is free"
    assert any("computes" in frame for frame in of(busy).where)
    assert not of(busy).waits_for_worker
    in_line.interrupt(execution_id or "").result(GUARD_S)
    assert in_line.wait(execution_id or "").result(GUARD_S).status == "cancelled"
    let_go.set()


def test_a_loop_that_does_not_answer_is_named_with_its_stack(
    runtime: Callable[..., Runtime], fake_clock: object
) -> None:
    out, let_go = threading.Event(), threading.Event()

    @agent
    async def hogs(state: ThreadState) -> None:
        out.set()
        let_go.wait(GUARD_S)

    hosted = runtime(hogs)
    thread = hosted.create_thread(hogs).result(GUARD_S)
    thread.submit("go").result(GUARD_S)
    assert out.wait(GUARD_S)
    fake_clock.wait_for_timers()  # type: ignore[attr-defined]
    for _ in range(3):
        fake_clock.advance(5)  # type: ignore[attr-defined]
    problems = of(thread).problems
    let_go.set()

    assert any(problem.startswith("loop_silent: ") and "hogs" in problem for problem in problems), problems
