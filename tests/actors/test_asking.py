"""Tests actors/asking.py, and requests through the whole actor: asked by a body, answered once, in every race and fault."""

from __future__ import annotations

import gc
import math
from typing import TYPE_CHECKING, Any

import pytest

from treadle.actors import ExecutionCancelled, ExecutionFenced, Reply
from treadle.actors.testing import Puppet, Stage, StageStore
from treadle.agents import agent
from treadle.protocol.errors import (
    InvalidInput,
    LimitExceeded,
    OutcomeUnknown,
    RequestExpired,
    StorageFull,
    StoreFailed,
    ThreadActorCrashed,
    ThreadNotFound,
    ThreadOverloaded,
)
from treadle.protocol.limits import MAILBOX_MAILS_MAX, UNREAD_MAX, VALUE_BYTES_MAX
from treadle.storage.check import check_tables
from treadle.storage.faults import FaultyStore
from treadle.storage.reading import read_journal

if TYPE_CHECKING:
    from collections.abc import Callable

    from treadle.actors import Thread
    from treadle.actors.testing import Probe, Runtimes
    from treadle.agents import ThreadState
    from treadle.protocol.values import Value

    Enter = Callable[..., Stage]

TIME_S = 30.0


@pytest.fixture
def puppet() -> Puppet:
    return Puppet(obeys=False)


@pytest.fixture
def on(stage: Enter, puppet: Puppet) -> Stage:
    return stage(puppet)


@pytest.fixture
def thread(on: Stage) -> Thread:
    return on.thread(thread_id="t")


def started(on: Stage, thread: Thread) -> str:
    receipt = on.ask(thread.submit("go"))
    on.settle()
    assert receipt.execution_id is not None
    return receipt.execution_id


def asked(on: Stage, thread: Thread, puppet: Puppet, request_id: str = "r", **more: Any) -> Reply[Value]:
    """Have a running body ask, and return its reply once the request is open."""
    if thread.status().result().state != "running":
        started(on, thread)
    reply: Reply[Value] = puppet.execution.request("approval", {"of": [1]}, request_id=request_id, **more)
    on.settle()
    assert not reply.done()
    return reply


def ends(on: Stage) -> list[tuple[str, str, object]]:
    """Return how requests of the thread t ended, in order, from the journal."""
    number = on.services.directory.entry("t").number
    with on.store.view() as view:
        events = [entry.event for entry in read_journal(view, number, 1, 0, 10**6, 10**4)]
    return [(one.request_id, one.status, one.value) for one in events if one.type == "REQUEST_TERMINATED"]  # type: ignore[attr-defined]


def pending(thread: Thread) -> list[object]:
    return [request["request_id"] for request in thread.state().result().pending_requests]


def over(on: Stage, thread: Thread, puppet: Puppet) -> None:
    """Let the body return, and its execution finish."""
    puppet.returns()
    on.settle()
    assert thread.status().result().state != "running"


# Asked and answered


def test_a_body_has_its_answer_once_that_is_durable(on: Stage, thread: Thread, puppet: Puppet) -> None:
    reply = asked(on, thread, puppet)
    said = thread.respond("r", {"yes": (1, None)})
    on.act()
    assert (said.done(), reply.done(), pending(thread)) == (False, False, ["r"])
    on.commit()
    on.act()

    assert reply.result() == {"yes": [1, None]}
    assert on.ask(said) == "accepted"
    assert ends(on) == [("r", "resolved", {"yes": [1, None]})]
    assert pending(thread) == []


def test_whoever_is_told_accepted_finds_that_the_body_has_its_answer(on: Stage, thread: Thread, puppet: Puppet) -> None:
    reply = asked(on, thread, puppet)
    found: list[bool] = []
    said = thread.respond("r", None)
    said.add_done_callback(lambda _said: found.append(reply.done() and not pending(thread)))
    on.settle()

    assert (found, reply.result()) == ([True], None)


def test_a_request_is_seen_only_once_it_is_durable(on: Stage, thread: Thread, puppet: Puppet) -> None:
    started(on, thread)
    puppet.execution.request("approval", request_id="r")
    early = thread.respond("r", 1)
    on.turn()
    assert pending(thread) == []
    on.commit()
    on.act()

    (shown,) = thread.state().result().pending_requests
    assert (shown["request_id"], shown["kind"], shown["payload"], shown["timeout"]) == ("r", "approval", None, None)
    assert shown["execution_id"] == puppet.execution.id
    assert on.ask(early) == "accepted"  # it waited behind the opening


def test_every_watcher_is_told_of_a_request_and_of_its_end(
    runtime: Runtimes, probe: Callable[..., Probe], fake_clock: Any
) -> None:
    @agent
    async def asks(state: ThreadState) -> None:
        answer = await state.request("approval", {"of": 1}, 60)
        await state.inject_message("assistant", f"{answer}")
        with pytest.raises(RequestExpired):
            await state.request("clarification", timeout=60)

    thread = runtime(asks).create_thread("asks").result()
    with probe(thread) as seen:
        thread.submit("go").result()
        opened = seen.next_event("REQUEST_OPENED", payload={"of": 1}, timeout=60.0)
        told = thread.explain().result()
        with probe(thread) as late:
            assert [one["request_id"] for one in late.snapshot["pending_requests"]] == [opened["request_id"]]
        assert thread.respond(opened["request_id"], "do").result() == "accepted"
        seen.next_event("REQUEST_TERMINATED", request_id=opened["request_id"], status="resolved", value="do")
        seen.next_event("MESSAGE_ADDED")
        second = seen.next_event("REQUEST_OPENED")
        assert (opened["kind"], second["kind"]) == ("approval", "clarification")
        fake_clock.advance(60)
        seen.next_event("REQUEST_TERMINATED", request_id=second["request_id"], status="expired", value=None)
        seen.until_status("idle")

    assert told.requests == (opened["request_id"],)
    assert told.next.startswith(
        f"request {opened['request_id']!r} (approval) is answered with respond(), or expires 60 s"
    )
    assert thread.respond(second["request_id"], 1).result() == "timed_out"


def test_an_answer_to_nothing_is_told_so_in_every_phase(on: Stage, thread: Thread, puppet: Puppet) -> None:
    assert on.ask(thread.respond("r", 1)) == "not_found"
    thread.submit("go")
    on.turn()
    early = thread.respond("r", 1)
    on.act()
    assert not early.done()  # START is in flight
    on.settle()
    assert early.result() == "not_found"
    assert on.ask(thread.respond("r", 1)) == "not_found"
    on.ask(thread.interrupt(puppet.execution.id))
    assert on.ask(thread.respond("r", 1)) == "not_found"
    over(on, thread, puppet)
    assert on.ask(thread.respond("r", 1)) == "not_found"
    assert ends(on) == []


def test_a_body_may_change_its_answer_and_nobody_else_sees_it(
    on: Stage, thread: Thread, puppet: Puppet, probe: Callable[..., Probe]
) -> None:
    reply: Reply[Any] = asked(on, thread, puppet)
    value = {"list": [1]}
    stream = thread.stream()
    assert stream.next(0) is not None
    said = thread.respond("r", value)
    value["list"].append(2)
    on.settle()
    reply.result()["list"].append(3)

    frame = stream.next(0)
    assert frame is not None
    assert (frame["type"], frame["value"], said.result()) == ("REQUEST_TERMINATED", {"list": [1]}, "accepted")
    assert ends(on) == [("r", "resolved", {"list": [1]})]
    stream.close()


def test_several_requests_wait_at_once_and_each_gets_its_own_answer(on: Stage, thread: Thread, puppet: Puppet) -> None:
    replies = {name: asked(on, thread, puppet, name) for name in ("a", "b", "c")}
    assert pending(thread) == ["a", "b", "c"]
    assert thread.explain().result().requests == ("a", "b", "c")

    for name in ("b", "c", "a"):
        assert on.ask(thread.respond(name, name)) == "accepted"

    assert {name: reply.result() for name, reply in replies.items()} == {"a": "a", "b": "b", "c": "c"}


# Races


def test_of_two_answers_that_wait_together_the_first_is_the_one(on: Stage, thread: Thread, puppet: Puppet) -> None:
    reply = asked(on, thread, puppet)
    thread.set_value("k", 1)  # a batch in flight, so that both are decided into the next one
    on.turn()
    first, second = thread.respond("r", "first"), thread.respond("r", "second")
    on.turn()
    on.turn()
    on.commit()
    on.turn()
    assert (first.done(), second.done()) == (False, False)
    on.commit()
    on.settle()

    assert (first.result(), second.result(), reply.result()) == ("accepted", "already_resolved", "first")
    assert ends(on) == [("r", "resolved", "first")]


def test_an_answer_that_comes_while_another_is_in_flight_waits_for_it(
    on: Stage, thread: Thread, puppet: Puppet
) -> None:
    reply = asked(on, thread, puppet)
    first = thread.respond("r", "first")
    on.turn()
    second = thread.respond("r", "second")
    on.act()
    assert not second.done()
    on.refuse()
    on.settle()

    # The first was never written, so the second is the one.
    assert isinstance(first.error(), StorageFull)
    assert (second.result(), reply.result()) == ("accepted", "second")


@pytest.mark.parametrize("first", ["answer", "time"])
@pytest.mark.parametrize("together", [False, True])
def test_of_an_answer_and_the_end_of_the_time_the_first_is_the_one(
    on: Stage, thread: Thread, puppet: Puppet, first: str, together: bool
) -> None:
    reply = asked(on, thread, puppet, timeout=TIME_S)
    if together:
        thread.set_value("k", 1)
        on.turn()
    said: list[Reply[Any]] = []
    for what in ("answer", "time") if first == "answer" else ("time", "answer"):
        if what == "answer":
            said.append(thread.respond("r", "in time"))
        else:
            on.advance(TIME_S)
        if not together:
            on.act()
    on.settle()

    if first == "answer":
        assert (said[0].result(), reply.result()) == ("accepted", "in time")
        assert ends(on) == [("r", "resolved", "in time")]
    else:
        assert said[0].result() == "timed_out"
        assert isinstance(reply.error(), RequestExpired)
        assert ends(on) == [("r", "expired", None)]


@pytest.mark.parametrize("first", ["answer", "interrupt"])
@pytest.mark.parametrize("together", [False, True])
def test_of_an_answer_and_an_interrupt_the_first_counts(
    on: Stage, thread: Thread, puppet: Puppet, first: str, together: bool
) -> None:
    reply = asked(on, thread, puppet)
    if together:
        thread.set_value("k", 1)
        on.turn()
    if first == "answer":
        said = thread.respond("r", "in time")
        told = thread.interrupt(puppet.execution.id)
    else:
        told = thread.interrupt(puppet.execution.id)
        said = thread.respond("r", "late")
    on.settle()
    assert told.result().disposition == "accepted"
    over(on, thread, puppet)

    if first == "answer":
        assert (said.result(), reply.result()) == ("accepted", "in time")
        assert ends(on) == [("r", "resolved", "in time")]
    else:
        assert said.result() == "cancelled"
        assert isinstance(reply.error(), ExecutionCancelled)
        assert ends(on) == [("r", "abandoned", None)]


def test_an_answer_to_an_interruption_that_is_not_durable_waits_for_it(
    on: Stage, thread: Thread, puppet: Puppet
) -> None:
    asked(on, thread, puppet)
    thread.interrupt(puppet.execution.id)
    on.turn()
    said = thread.respond("r", 1)
    on.act()
    assert not said.done()
    on.refuse()
    on.settle()

    # Refused, it is in force all the same: nobody will read an answer.
    assert said.result() == "cancelled"
    over(on, thread, puppet)
    assert ends(on) == [("r", "abandoned", None)]


def test_while_finish_is_in_flight_an_answer_is_cancelled_at_once(on: Stage, thread: Thread, puppet: Puppet) -> None:
    reply = asked(on, thread, puppet)
    puppet.returns()
    on.act()
    assert thread.explain().result().in_flight == "FINISH"
    said = thread.respond("r", 1)
    on.act()
    assert said.result() == "cancelled"
    assert isinstance(reply.error(), ExecutionFenced)

    on.refuse()
    on.act()
    assert on.ask(thread.respond("r", 2)) == "cancelled"  # between two attempts
    on.advance(10)
    on.settle()
    assert on.ask(thread.respond("r", 3)) == "cancelled"
    assert ends(on) == [("r", "abandoned", None)]


@pytest.mark.parametrize("written", [True, False])
def test_an_answer_accepted_together_with_finish_is_told_to_others_only_once_it_is_durable(
    on: Stage, thread: Thread, puppet: Puppet, written: bool
) -> None:
    reply = asked(on, thread, puppet)
    thread.set_value("k", 1)
    on.turn()
    first = thread.respond("r", "last moment")
    puppet.returns()
    on.act()
    on.commit()
    on.act()
    assert thread.explain().result().in_flight == "FINISH"
    second = thread.respond("r", "too late")
    on.act()
    assert not second.done()

    if written:
        on.settle()
        assert (first.result(), second.result()) == ("accepted", "already_resolved")
        assert ends(on) == [("r", "resolved", "last moment")]
    else:
        on.refuse()
        on.act()
        assert isinstance(first.error(), StorageFull)
        assert on.ask(second) == "cancelled"
        on.advance(10)
        on.settle()
        assert ends(on) == [("r", "abandoned", None)]
    assert isinstance(reply.error(), ExecutionFenced)  # acceptance had closed before the answer was durable


def test_requests_of_older_executions_are_never_actionable(on: Stage, thread: Thread, puppet: Puppet) -> None:
    asked(on, thread, puppet, "old")
    over(on, thread, puppet)
    reply = asked(on, thread, puppet, "new")

    assert on.ask(thread.respond("old", 1)) == "cancelled"
    assert (pending(thread), reply.done()) == (["new"], False)
    assert on.ask(thread.respond("new", 2)) == "accepted"
    assert reply.result() == 2


# Time


def test_a_request_expires_on_the_runtimes_clock_and_its_body_goes_on(
    on: Stage, thread: Thread, puppet: Puppet
) -> None:
    reply = asked(on, thread, puppet, timeout=TIME_S)
    on.advance(TIME_S - 1)
    on.settle()
    assert not reply.done()
    on.advance(1)
    on.act()
    assert not reply.done()  # not before it is durable
    on.settle()

    error = reply.error()
    assert isinstance(error, RequestExpired)
    assert (error.code, error.details) == (
        "request_expired",
        {"thread_id": "t", "execution_id": puppet.execution.id, "request_id": "r"},
    )
    assert on.ask(puppet.execution.append({"id": "m", "role": "assistant", "content": "on"})).content == "on"


def test_an_answered_request_leaves_no_timer(on: Stage, thread: Thread, puppet: Puppet) -> None:
    started(on, thread)
    before = on.clock.next_due()
    asked(on, thread, puppet, timeout=0.5)
    on.ask(thread.respond("r", 1))

    assert on.clock.next_due() == before
    assert puppet.execution.requests is not None
    assert puppet.execution.requests._waits == {}


def test_time_that_is_over_before_the_request_is_open_ends_it_once_it_is(
    on: Stage, thread: Thread, puppet: Puppet
) -> None:
    started(on, thread)
    reply: Reply[Value] = puppet.execution.request("approval", request_id="r", timeout=TIME_S)
    on.turn()
    on.advance(TIME_S)
    on.settle()

    assert isinstance(reply.error(), RequestExpired)
    assert ends(on) == [("r", "expired", None)]


def test_time_that_is_over_before_the_request_is_sent_ends_it_as_well(
    on: Stage, thread: Thread, puppet: Puppet, monkeypatch: pytest.MonkeyPatch
) -> None:
    started(on, thread)
    mailbox = puppet.execution.entry.mailbox
    put = type(mailbox).put

    def slow_put(box: Any, mail: Any, **more: Any) -> None:
        monkeypatch.undo()
        on.advance(TIME_S)  # as a worker that is held up here would find it
        put(box, mail, **more)

    monkeypatch.setattr(type(mailbox), "put", slow_put)
    reply: Reply[Value] = puppet.execution.request("approval", request_id="r", timeout=TIME_S)
    on.settle()

    assert isinstance(reply.error(), RequestExpired)
    assert ends(on) == [("r", "expired", None)]


def test_an_expiry_that_the_store_refuses_is_tried_again(on: Stage, thread: Thread, puppet: Puppet) -> None:
    reply = asked(on, thread, puppet, timeout=TIME_S)
    on.advance(TIME_S)
    for _ in range(3):
        on.act()
        on.refuse()
        on.settle()
        assert (reply.done(), pending(thread)) == (False, ["r"])
        on.advance(10)
    on.settle()

    assert isinstance(reply.error(), RequestExpired)
    assert ends(on) == [("r", "expired", None)]


def test_an_answer_is_taken_while_an_expiry_waits_to_be_tried_again(on: Stage, thread: Thread, puppet: Puppet) -> None:
    reply = asked(on, thread, puppet, timeout=TIME_S)
    on.advance(TIME_S)
    on.act()
    on.refuse()
    on.settle()
    assert on.ask(thread.respond("r", "after all")) == "accepted"
    on.advance(10)
    on.settle()

    assert reply.result() == "after all"
    assert ends(on) == [("r", "resolved", "after all")]


def test_on_a_store_that_takes_no_more_writes_a_body_whose_time_is_over_is_told_so(
    on: Stage, thread: Thread, puppet: Puppet
) -> None:
    reply = asked(on, thread, puppet, timeout=TIME_S)
    on.advance(TIME_S)
    on.act()
    on.store.break_next()
    on.settle()

    assert isinstance(reply.error(), StoreFailed)


def test_an_interrupt_between_the_call_and_its_timer_leaves_no_timer(
    on: Stage, thread: Thread, puppet: Puppet, monkeypatch: pytest.MonkeyPatch
) -> None:
    execution_id = started(on, thread)
    timers: Any = on.services.timers
    after = timers.after
    made: list[Any] = []

    def late(seconds: float, call: Any) -> Any:
        monkeypatch.undo()
        on.ask(thread.interrupt(execution_id))
        made.append(after(seconds, call))
        return made[0]

    monkeypatch.setattr(timers, "after", late)
    reply: Reply[Value] = puppet.execution.request("approval", timeout=TIME_S)
    on.settle()

    assert isinstance(reply.error(), ExecutionCancelled)
    assert not made[0].pending()


# Interrupted, fenced, over


def test_an_interrupted_body_waits_no_longer_and_asks_for_nothing(on: Stage, thread: Thread, puppet: Puppet) -> None:
    reply = asked(on, thread, puppet)
    on.ask(thread.interrupt(puppet.execution.id, reason="enough", source="parent"))
    on.settle()

    error = reply.error()
    assert isinstance(error, ExecutionCancelled)
    assert (error.reason, error.source) == ("enough", "parent")
    assert isinstance(puppet.execution.request("approval").error(), ExecutionCancelled)
    assert pending(thread) == ["r"]  # until FINISH abandons it
    over(on, thread, puppet)
    assert (pending(thread), ends(on)) == ([], [("r", "abandoned", None)])


def test_a_request_on_its_way_when_the_interrupt_comes_is_never_opened(
    on: Stage, thread: Thread, puppet: Puppet
) -> None:
    execution_id = started(on, thread)
    thread.interrupt(execution_id)
    on.turn()
    reply: Reply[Value] = puppet.execution.request("approval", request_id="r")
    on.act()
    on.commit()
    on.settle()

    assert isinstance(reply.error(), ExecutionCancelled)
    assert (pending(thread), on.ask(thread.respond("r", 1))) == ([], "not_found")


@pytest.mark.parametrize("how", ["deadline", "terminate", "stop"])
def test_whatever_ends_acceptance_ends_the_wait(stage: Enter, how: str) -> None:
    puppet = Puppet(obeys=False, timeout=60)
    on = stage(puppet)
    thread = on.thread(thread_id="t")
    reply = asked(on, thread, puppet)
    if how == "deadline":
        on.advance(60)
    else:
        on.ask(getattr(thread, how)())
    on.settle()
    assert isinstance(reply.error(), ExecutionCancelled)
    assert on.ask(thread.respond("r", 1)) == "cancelled"
    over(on, thread, puppet)

    assert ends(on) == [("r", "abandoned", None)]


def test_a_body_that_returns_without_its_answer_leaves_nobody_waiting(
    on: Stage, thread: Thread, puppet: Puppet
) -> None:
    execution, reply = (asked(on, thread, puppet), puppet.execution)[::-1]
    over(on, thread, puppet)

    assert isinstance(reply.error(), ExecutionFenced)
    assert isinstance(execution.request("approval").error(), ExecutionFenced)
    assert ends(on) == [("r", "abandoned", None)]


def test_that_nobody_waits_for_an_answer_is_no_error_to_be_logged(
    on: Stage, thread: Thread, puppet: Puppet, caplog: pytest.LogCaptureFixture
) -> None:
    asked(on, thread, puppet)
    execution_id = puppet.execution.id
    over(on, thread, puppet)
    gc.collect()

    # Its error would name the execution; whatever else the collector finds is of other tests.
    assert execution_id in repr(ExecutionFenced(execution_id))
    assert [record for record in caplog.records if execution_id in record.getMessage()] == []


def test_a_body_that_does_not_stop_is_told_once_and_its_request_is_abandoned(
    on: Stage, thread: Thread, puppet: Puppet
) -> None:
    reply = asked(on, thread, puppet, timeout=TIME_S)
    on.ask(thread.interrupt(puppet.execution.id))
    on.advance(10)
    on.settle()

    assert isinstance(reply.error(), ExecutionCancelled)
    assert thread.status().result().state == "idle"
    assert ends(on) == [("r", "abandoned", None)]
    on.advance(TIME_S)
    on.settle()
    assert ends(on) == [("r", "abandoned", None)]


# Ids, limits, bad input


def test_an_id_is_used_for_one_request_for_ever(on: Stage, thread: Thread, puppet: Puppet) -> None:
    def refused() -> str:
        reply: Reply[Value] = puppet.execution.request("approval", request_id="r")
        on.settle()
        error = reply.error()
        assert isinstance(error, InvalidInput)
        return error.code

    asked(on, thread, puppet)
    assert refused() == "request_exists"
    on.ask(thread.respond("r", 1))
    assert refused() == "request_exists"
    over(on, thread, puppet)
    started(on, thread)
    assert refused() == "request_exists"
    assert ends(on) == [("r", "resolved", 1)]


def test_two_workers_of_a_body_cannot_ask_under_one_id(on: Stage, thread: Thread, puppet: Puppet) -> None:
    started(on, thread)
    first: Reply[Value] = puppet.execution.request("approval", request_id="r")
    second: Reply[Value] = puppet.execution.request("approval", request_id="r")
    on.settle()

    assert isinstance(second.error(), InvalidInput)
    assert on.ask(thread.respond("r", 1)) == "accepted"
    assert first.result() == 1


def test_an_input_and_a_request_may_have_the_same_id(on: Stage, thread: Thread, puppet: Puppet) -> None:
    receipt = on.ask(thread.submit("go", input_id="same"))
    on.settle()
    asked(on, thread, puppet, "same")
    assert on.ask(thread.respond("same", 1)) == "accepted"

    assert thread.receipt("same").result() == receipt
    assert on.ask(thread.respond("same", 1)) == "already_resolved"


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no kind": ({"kind": ""}, "invalid_id"),
    "a kind that is no text": ({"kind": 5}, "invalid_id"),
    "an endless kind": ({"kind": "k" * 129}, "invalid_id"),
    "a payload that is no data": ({"payload": {"at": object()}}, "invalid_value"),
    "a payload without end": ({"payload": math.inf}, "invalid_value"),
    "a payload too large": ({"payload": "x" * VALUE_BYTES_MAX}, "limit_exceeded"),
    "an id that is none": ({"request_id": " r"}, "invalid_id"),
    "no time": ({"timeout": 0}, "invalid_timeout"),
    "time that is none": ({"timeout": math.nan}, "invalid_timeout"),
    "time that is true": ({"timeout": True}, "invalid_timeout"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_input_is_told_before_anything_is_written(on: Stage, thread: Thread, puppet: Puppet, what: str) -> None:
    given, code = BAD[what]
    started(on, thread)
    reply: Reply[Value] = puppet.execution.request(**{"kind": "approval", **given})

    error = reply.error()
    assert isinstance(error, InvalidInput | LimitExceeded)
    assert error.code == code
    assert on.settle() == 0


@pytest.mark.parametrize(
    ("request_id", "value", "code"),
    [("", 1, "invalid_id"), (None, 1, "invalid_id"), ("r", object(), "invalid_value"), ("r", "x" * VALUE_BYTES_MAX, "limit_exceeded")],
)  # fmt: skip
def test_a_bad_answer_is_told_before_anything_is_written(
    on: Stage, thread: Thread, puppet: Puppet, request_id: Any, value: object, code: str
) -> None:
    asked(on, thread, puppet)

    error = thread.respond(request_id, value).error()
    assert isinstance(error, InvalidInput | LimitExceeded)
    assert error.code == code
    assert (on.settle(), pending(thread)) == (0, ["r"])


def test_requests_count_among_what_is_unread(on: Stage, thread: Thread, puppet: Puppet) -> None:
    started(on, thread)
    replies: list[Reply[Value]] = [puppet.execution.request("approval") for _ in range(UNREAD_MAX + 1)]
    on.settle()

    error = replies[-1].error()
    assert isinstance(error, LimitExceeded)
    assert error.details["limit"] == "unread"
    assert len(pending(thread)) == UNREAD_MAX
    over(on, thread, puppet)
    assert len(ends(on)) == UNREAD_MAX


def test_a_full_mailbox_is_told_at_the_call_and_leaves_nothing_behind(
    on: Stage, thread: Thread, puppet: Puppet
) -> None:
    started(on, thread)
    full = [thread.set_value("k", 1) for _ in range(MAILBOX_MAILS_MAX)]
    with pytest.raises(ThreadOverloaded):
        puppet.execution.request("approval", request_id="r", timeout=TIME_S)
    on.settle()

    assert all(reply.error() is None for reply in full)
    assert puppet.execution.requests is not None
    assert puppet.execution.requests._waits == {}
    asked(on, thread, puppet)


def test_a_request_that_was_not_written_was_never_there(on: Stage, thread: Thread, puppet: Puppet) -> None:
    started(on, thread)
    refused: Reply[Value] = puppet.execution.request("approval", request_id="r", timeout=TIME_S)
    on.act()
    on.refuse()
    on.settle()
    assert isinstance(refused.error(), StorageFull)
    assert on.ask(thread.respond("r", 1)) == "not_found"

    reply = asked(on, thread, puppet)
    assert on.ask(thread.respond("r", 1)) == "accepted"
    assert reply.result() == 1


def test_a_thread_that_is_gone_answers_as_any_call_does(on: Stage, thread: Thread) -> None:
    assert isinstance(on.runtime.thread("never").respond("r", 1).error(), ThreadNotFound)
    on.ask(on.runtime.delete_thread("t"))
    assert isinstance(thread.respond("r", 1).error(), ThreadNotFound)


# Faults


def test_a_refused_answer_leaves_the_request_open_for_the_next(on: Stage, thread: Thread, puppet: Puppet) -> None:
    reply = asked(on, thread, puppet)
    first = thread.respond("r", 1)
    on.act()
    on.refuse()
    on.settle()
    assert isinstance(first.error(), StorageFull)
    assert (reply.done(), pending(thread)) == (False, ["r"])

    assert on.ask(thread.respond("r", 2)) == "accepted"
    assert reply.result() == 2


@pytest.mark.parametrize("written", [True, False])
def test_where_the_outcome_cannot_be_told_a_repeat_tells_it(
    on: Stage, thread: Thread, puppet: Puppet, written: bool
) -> None:
    reply = asked(on, thread, puppet)
    said = thread.respond("r", 1)
    on.act()
    on.store.lose_next(written=written)
    on.settle()
    assert isinstance(said.error(), OutcomeUnknown)

    # The life that could not be told is over, and its execution with it.
    assert isinstance(reply.error(), ExecutionCancelled)
    assert on.ask(thread.respond("r", 2)) == ("already_resolved" if written else "cancelled")
    assert ends(on) == [("r", "resolved", 1) if written else ("r", "abandoned", None)]


def test_an_actor_that_crashes_behind_a_durable_answer_has_accepted_it(
    on: Stage, thread: Thread, puppet: Puppet, crash_after: Callable[..., object]
) -> None:
    reply = asked(on, thread, puppet)
    crash_after("REQUEST_TERMINATED committed")
    said = thread.respond("r", 1)
    on.settle()
    on.reports.clear()

    assert isinstance(said.error(), ThreadActorCrashed)
    assert isinstance(reply.error(), ExecutionCancelled)
    assert on.ask(thread.respond("r", 2)) == "already_resolved"
    assert ends(on) == [("r", "resolved", 1)]


def test_an_actor_that_crashes_behind_an_opening_abandons_it(
    on: Stage, thread: Thread, puppet: Puppet, crash_after: Callable[..., object]
) -> None:
    started(on, thread)
    crash_after("REQUEST_OPENED committed")
    reply: Reply[Value] = puppet.execution.request("approval", request_id="r", timeout=TIME_S)
    on.settle()
    on.reports.clear()

    assert reply.done()
    assert (pending(thread), on.ask(thread.respond("r", 2))) == ([], "cancelled")
    on.advance(TIME_S)
    on.settle()
    assert ends(on) == [("r", "abandoned", None)]


@pytest.mark.parametrize("answered", ["in time", "in flight", "never"])
def test_after_a_death_no_request_is_pending_and_an_answer_is_told_so(
    on: Stage, thread: Thread, puppet: Puppet, answered: str
) -> None:
    asked(on, thread, puppet)
    if answered != "never":
        thread.respond("r", 1).add_done_callback(lambda reply: reply.error())  # whatever it is: nobody hears of it
        on.act()
        if answered == "in time":
            on.commit()
    on.kill()
    on.reopen()
    again = on.runtime.thread("t")

    assert pending(again) == []
    assert on.ask(again.respond("r", 2)) == ("already_resolved" if answered == "in time" else "cancelled")
    assert ends(on) == [("r", "resolved", 1) if answered == "in time" else ("r", "abandoned", None)]
    assert check_tables(on.store).broken == ()


def test_where_a_loss_cannot_be_settled_yet_an_answer_is_cancelled_all_the_same(
    on: Stage, thread: Thread, puppet: Puppet
) -> None:
    asked(on, thread, puppet)
    on.kill()
    on.reopen(settle=False)
    on.act()
    on.refuse()
    on.act()
    again = on.runtime.thread("t")

    assert on.ask(again.respond("r", 2)) == "cancelled"
    on.advance(10)
    on.settle()
    assert (on.ask(again.respond("r", 2)), ends(on)) == ("cancelled", [("r", "abandoned", None)])


@pytest.mark.parametrize("kind", ["not_written", "written"])
def test_at_whichever_commit_the_store_fails_one_answer_at_most_is_accepted(kind: Any) -> None:
    for fail_at in range(1, 30):
        store = SteppedFaults(StageStore(), fail_at, kind)
        puppet = Puppet()
        with Stage(puppet, store=store) as on:  # type: ignore[arg-type]  # it does all that is asked of one
            accepted = _ask_and_answer(on, puppet)
            assert [one for one in ends(on) if one[1] == "resolved"][:2] == accepted
            assert check_tables(on.store).broken == ()
        if not store.fired:
            assert len(accepted) == 1
            return
    raise AssertionError("the fault was never passed")


class SteppedFaults(FaultyStore):
    """Faults before a stage's store, with the part of it that the stage itself asks for."""

    store: StageStore

    def step(self) -> int:
        return self.store.step()

    def pending(self) -> int:
        return self.store.pending()

    def crash(self) -> None:
        self.store.crash()


def _ask_and_answer(on: Stage, puppet: Puppet) -> list[tuple[str, str, object]]:
    """Ask once and answer thrice, and return what was accepted, with what the caller cannot know."""
    thread = on.runtime.thread("t")
    created = on.runtime.create_thread("puppet", thread_id="t")
    on.settle()
    if isinstance(created.error(), StorageFull):
        on.ask(on.runtime.create_thread("puppet", thread_id="t"))
    receipt = thread.submit("go")
    on.settle()
    if receipt.error() is not None:
        started(on, thread)
    puppet.execution.request("approval", request_id="r")
    on.settle()
    told = []
    for value in (1, 2, 3):
        said = thread.respond("r", value)
        on.settle()
        told.append((value, said.error() or said.result()))
    statuses = [status for _, status in told]
    assert statuses.count("accepted") <= 1
    unknown = [value for value, status in told if isinstance(status, OutcomeUnknown)]
    taken = [value for value, status in told if status == "accepted"] or (
        unknown if "already_resolved" in statuses else []
    )
    return [("r", "resolved", value) for value in taken]


# Plain functions


def test_a_plain_function_blocks_until_its_answer_is_there(stage: Enter) -> None:
    got: list[object] = []

    @agent
    def asks(state: ThreadState) -> None:
        got.append(state.request("approval", request_id="r").result())

    on = stage(asks)
    thread = on.thread(thread_id="t")
    started(on, thread)
    assert (got, pending(thread)) == ([], ["r"])
    on.ask(thread.respond("r", [1]))
    on.settle()

    assert got == [[1]]
    assert thread.status().result().state == "idle"


@pytest.mark.parametrize("how", ["interrupt", "time"])
def test_a_plain_functions_wait_ends_with_its_execution_or_its_time(stage: Enter, how: str) -> None:
    @agent
    def asks(state: ThreadState) -> None:
        state.request("approval", request_id="r", timeout=TIME_S).result()

    on = stage(asks)
    thread = on.thread(thread_id="t")
    execution_id = started(on, thread)
    if how == "interrupt":
        on.ask(thread.interrupt(execution_id))
    else:
        on.advance(TIME_S)
    on.settle()
    record = thread.execution(execution_id).result()

    if how == "interrupt":
        assert (record.outcome, ends(on)) == ("cancelled", [("r", "abandoned", None)])
    else:
        assert record.error is not None
        assert (record.outcome, record.error.type, record.reason) == ("failed", "RequestExpired", "step_error")
        assert ends(on) == [("r", "expired", None)]
