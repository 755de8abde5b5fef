"""Tests actors/handle.py and live_state.py: every input is checked at the call's worker, and every error comes by reply."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from tests.actors.started import started
from treadle.actors import Thread
from treadle.actors.testing import Puppet, Stage
from treadle.protocol.cursors import Cursor
from treadle.protocol.errors import (
    IdempotencyConflict,
    RuntimeClosed,
    ThreadNotFound,
    ThreadOverloaded,
    ThreadTerminated,
    TreadleError,
)
from treadle.protocol.limits import (
    ATTACHMENTS_MAX,
    MAILBOX_MAILS_MAX,
    MESSAGE_BYTES_MAX,
    MESSAGES_PER_INPUT_MAX,
    REASON_LENGTH_MAX,
    VALUE_BYTES_MAX,
)
from treadle.protocol.receipts import Disposition, Withdrawal

if TYPE_CHECKING:
    from collections.abc import Callable

    from treadle.actors import Reply, Runtime

    Enter = Callable[..., Stage]
    Call = Callable[[Thread], Reply[Any]]

GUARD_S = 60.0
LIVE = "e" * 32


def test_two_handles_on_one_thread_are_equal(on: Stage, thread: Thread, stage: Enter) -> None:
    other = stage(Puppet())

    assert thread == on.runtime.thread("t")
    assert {thread, on.runtime.thread("t")} == {thread}
    assert thread != on.runtime.thread("u")
    assert thread != other.runtime.thread("t")  # of another runtime
    assert thread != "t"
    assert repr(thread) == "<Thread 't'>"


BAD: list[tuple[Call, str]] = [
    (lambda t: t.submit(""), "empty_content"),
    (lambda t: t.submit([]), "empty_content"),
    (lambda t: t.submit([""]), "empty_content"),
    (lambda t: t.submit(None), "invalid_content"),  # type: ignore[arg-type]
    (lambda t: t.submit(b"x"), "invalid_content"),  # type: ignore[arg-type]
    (lambda t: t.submit(7), "invalid_content"),  # type: ignore[arg-type]
    (lambda t: t.submit("\udc00"), "invalid_content"),
    (lambda t: t.submit([{"content": "x", "role": "assistant"}]), "invalid_role"),
    (lambda t: t.submit("x" * (MESSAGE_BYTES_MAX + 1)), "limit_exceeded"),
    (lambda t: t.submit("é" * (MESSAGE_BYTES_MAX // 2 + 1)), "limit_exceeded"),
    (lambda t: t.submit(["x"] * (MESSAGES_PER_INPUT_MAX + 1)), "limit_exceeded"),
    (lambda t: t.submit(["x" * MESSAGE_BYTES_MAX] * 5), "limit_exceeded"),
    (lambda t: t.submit("x", input_id=""), "invalid_id"),
    (lambda t: t.submit("x", input_id="i" * 129), "invalid_id"),
    (lambda t: t.submit("x", input_id=7), "invalid_id"),  # type: ignore[arg-type]
    (lambda t: t.submit("x", on_busy="wait"), "invalid_on_busy"),  # type: ignore[arg-type]
    (lambda t: t.submit("x", on_busy=["queue"]), "invalid_on_busy"),  # type: ignore[arg-type]
    (lambda t: t.submit("x", timeout=0), "invalid_timeout"),
    (lambda t: t.submit("x", timeout="1"), "invalid_timeout"),  # type: ignore[arg-type]
    (lambda t: t.queue_message(""), "empty_content"),
    (lambda t: t.queue_message("x", role="system"), "invalid_role"),
    (lambda t: t.queue_message("x", role=["user"]), "invalid_role"),  # type: ignore[arg-type]
    (lambda t: t.queue_message("x", silent=None), "invalid_content"),  # type: ignore[arg-type]
    (lambda t: t.queue_message("x", metadata={1: 2}), "invalid_value"),  # type: ignore[dict-item]
    (lambda t: t.queue_message("x", attachments=[{}] * (ATTACHMENTS_MAX + 1)), "limit_exceeded"),
    (lambda t: t.queue_message(["x"], silent=True), "invalid_content"),
    (lambda t: t.queue_message(["x"], metadata={}), "invalid_content"),
    (lambda t: t.queue_message("x", input_id="\n"), "invalid_id"),
    (lambda t: t.withdraw(""), "invalid_id"),
    (lambda t: t.withdraw(None), "invalid_id"),  # type: ignore[arg-type]
    (lambda t: t.inject_message("robot", "x"), "invalid_role"),
    (lambda t: t.inject_message("user", None), "empty_content"),
    (lambda t: t.inject_message("user", "x", metadata=[]), "invalid_value"),  # type: ignore[arg-type]
    (lambda t: t.inject_message("user", "x", attachments="x"), "invalid_value"),  # type: ignore[arg-type]
    (lambda t: t.steer("", "x"), "invalid_id"),
    (lambda t: t.steer(LIVE, ""), "empty_content"),
    (lambda t: t.steer(LIVE, [{"content": "x", "role": "system"}]), "invalid_role"),
    (lambda t: t.steer(LIVE, "x", control_id=""), "invalid_id"),
    (lambda t: t.interrupt(None), "invalid_id"),  # type: ignore[arg-type]
    (lambda t: t.interrupt(LIVE, reason=7), "invalid_reason"),  # type: ignore[arg-type]
    (lambda t: t.interrupt(LIVE, reason="x" * (REASON_LENGTH_MAX + 1)), "limit_exceeded"),
    (lambda t: t.interrupt(LIVE, reason="\ud800"), "invalid_value"),
    (lambda t: t.interrupt(LIVE, source="deadline"), "invalid_source"),  # type: ignore[arg-type]
    (lambda t: t.interrupt(LIVE, hold=1), "invalid_hold"),  # type: ignore[arg-type]
    (lambda t: t.interrupt(LIVE, control_id="x" * 129), "invalid_id"),
    (lambda t: t.get_value(""), "invalid_name"),
    (lambda t: t.set_value("", 1), "invalid_name"),
    (lambda t: t.set_value("k", {"a": object()}), "invalid_value"),
    (lambda t: t.set_value("k", 2**63), "invalid_value"),
    (lambda t: t.set_value("k", "x" * VALUE_BYTES_MAX), "limit_exceeded"),
    (lambda t: t.wait(""), "invalid_id"),
    (lambda t: t.wait(None), "invalid_id"),  # type: ignore[arg-type]
    (lambda t: t.receipt(""), "invalid_id"),
    (lambda t: t.execution(7), "invalid_id"),  # type: ignore[arg-type]
    (lambda t: t.message([]), "invalid_id"),  # type: ignore[arg-type]
    (lambda t: t.messages(limit="x"), "invalid_page"),  # type: ignore[arg-type]
    (lambda t: t.executions(offset=-1), "invalid_page"),
]


@pytest.mark.parametrize("busy", [False, True], ids=["at rest", "running"])
def test_bad_input_comes_through_the_reply_and_writes_nothing(on: Stage, thread: Thread, busy: bool) -> None:
    if busy:
        started(on, thread)
    before = thread.state().result()
    for bad, code in BAD:
        error = bad(thread).error()
        assert isinstance(error, TreadleError), code
        assert error.code == code, error

    assert on.act() == 0  # nothing even reached a mailbox
    assert on.store.pending() == 0
    assert thread.state().result() == before


EVERY: list[Call] = [
    lambda t: t.submit("x"), lambda t: t.queue_message("x"), lambda t: t.withdraw("i"), lambda t: t.inject_message("user", "x"),
    lambda t: t.steer(LIVE, "x"), lambda t: t.interrupt(LIVE), lambda t: t.stop(), lambda t: t.resume(), lambda t: t.terminate(),
    lambda t: t.get_value("k"), lambda t: t.set_value("k", 1), lambda t: t.wait(LIVE), lambda t: t.receipt("i"), lambda t: t.status(),
    lambda t: t.state(), lambda t: t.explain(), lambda t: t.messages(), lambda t: t.message("m"), lambda t: t.executions(),
    lambda t: t.execution(LIVE),
]  # fmt: skip


def test_every_call_says_that_a_thread_is_not_there(on: Stage, thread: Thread) -> None:
    on.ask(on.runtime.delete_thread("t"))
    for call in EVERY:
        for gone in (on.runtime.thread("stranger"), thread):
            reply = call(gone)
            on.settle()
            assert isinstance(reply.error(), ThreadNotFound), call
        bad_id = call(on.runtime.thread("")).error()
        assert isinstance(bad_id, TreadleError)
        assert bad_id.code == "invalid_id"


def test_every_call_says_that_the_runtime_closes(on: Stage, thread: Thread) -> None:
    on.services.closing = True
    for call in EVERY:
        assert isinstance(call(thread).error(), RuntimeClosed), call


def test_an_argument_that_no_call_has_is_a_type_error_at_the_call(thread: Thread) -> None:
    with pytest.raises(TypeError):
        thread.submit("x", "i1")  # type: ignore[misc]
    with pytest.raises(TypeError):
        thread.interrupt()  # type: ignore[call-arg]


def test_a_mailbox_that_is_full_refuses_at_the_call_and_stores_nothing_of_it(on: Stage, thread: Thread) -> None:
    replies = [thread.inject_message("user", str(rank)) for rank in range(MAILBOX_MAILS_MAX)]
    with pytest.raises(ThreadOverloaded):
        thread.inject_message("user", "one too many")
    on.settle()

    assert all(reply.error() is None for reply in replies)
    assert thread.messages(limit=0).result().total == MAILBOX_MAILS_MAX
    assert on.ask(thread.inject_message("user", "room again")).content == "room again"


def test_what_the_caller_changes_afterwards_changes_nothing(on: Stage, thread: Thread) -> None:
    metadata: dict[str, Any] = {"a": [1]}
    value: dict[str, Any] = {"b": [2]}
    injected = thread.inject_message("user", "x", metadata=metadata, attachments=[metadata])
    stored = thread.set_value("k", value)
    metadata["a"].append(2)
    value["b"].append(3)
    on.ask(stored)

    message = on.ask(injected)
    assert (message.metadata, message.attachments) == ({"a": [1]}, [{"a": [1]}])
    assert thread.messages().result().messages == [message]
    assert thread.get_value("k").result() == {"b": [2]}


@pytest.mark.parametrize("value", [True, 0, -(2**63), 2**63 - 1, 1.5, "", "é", [], {}, {"a": [None, {"b": 1}]}, (1, 2)])
def test_a_value_comes_back_as_it_went_in(on: Stage, thread: Thread, value: object) -> None:
    on.ask(thread.set_value("k" * 300, value))
    found = thread.get_value("k" * 300).result()

    assert found == (list(value) if isinstance(value, tuple) else value)
    assert type(found) is (list if isinstance(value, tuple) else type(value))
    on.ask(thread.set_value("k" * 300, None))
    assert thread.get_value("k" * 300).result() is None


def test_the_state_says_who_owns_the_thread_and_up_to_where_it_is_shown(
    on: Stage, thread: Thread, puppet: Puppet
) -> None:
    rest = thread.state().result()
    assert (rest.active_execution, rest.waiting, rest.held, rest.hold_reason, rest.terminated_at) == (
        None,
        0,
        False,
        None,
        None,
    )
    assert (rest.cursor, rest.boot_id, rest.pending_requests) == (Cursor(1, 1), on.services.boot.id, ())
    execution_id = started(on, thread)
    on.ask(thread.queue_message("it waits"))
    running = thread.state().result()
    assert running.active_execution is not None
    assert (running.active_execution.execution_id, running.active_execution.agent_id) == (execution_id, "puppet")
    assert (running.active_execution.phase, running.status.state, running.waiting) == ("running", "running", 1)
    assert running.active_execution.started_at == running.status.since
    on.ask(thread.stop())
    stopping = thread.state().result()
    assert stopping.active_execution is not None
    assert (stopping.active_execution.phase, stopping.held) == ("stopping", True)
    on.settle()
    held = thread.state().result()

    assert (held.active_execution, held.held, held.waiting) == (None, True, 1)
    assert tuple(held.status)[::2] == ("idle", "aborted_by_user")


def test_an_input_taken_back_was_never_there(on: Stage, thread: Thread, puppet: Puppet) -> None:
    started(on, thread)
    receipt = on.ask(thread.submit(["a", "b"], on_busy="queue", input_id="i"))
    assert thread.messages(limit=0).result().total == 3
    assert on.ask(thread.withdraw("i")) is Withdrawal.WITHDRAWN
    assert on.ask(thread.withdraw("i")) in (Withdrawal.WITHDRAWN, Withdrawal.NOT_FOUND)
    assert on.ask(thread.withdraw("nobody")) is Withdrawal.NOT_FOUND
    assert [thread.message(one).result() for one in receipt.message_ids] == [None, None]
    late = on.ask(thread.submit("c", on_busy="queue", input_id="j"))
    puppet.returns()
    on.settle()

    assert on.ask(thread.withdraw("j")) is Withdrawal.ALREADY_DELIVERED
    assert late.disposition is Disposition.QUEUED
    assert puppet.texts == ["go", "c"]


def test_one_id_is_one_call_over_all_verbs(on: Stage, thread: Thread) -> None:
    first = on.ask(thread.submit("go", input_id="x"))
    assert on.ask(thread.submit("go", input_id="x")) == first
    execution_id = first.execution_id or ""
    for call in (
        lambda: thread.submit("other", input_id="x"),
        lambda: thread.submit("go", input_id="x", on_busy="queue"),
        lambda: thread.queue_message("go", input_id="x"),
        lambda: thread.steer(execution_id, "go", control_id="x"),
        lambda: thread.interrupt(execution_id, control_id="x"),
    ):
        reply: Reply[Any] = call()  # type: ignore[no-untyped-call]
        on.settle()
        assert isinstance(reply.error(), IdempotencyConflict), call
    one = on.ask(thread.interrupt(execution_id, control_id="c", reason="first"))
    on.settle()

    assert on.ask(thread.interrupt(execution_id, control_id="c", reason="second")) == one


def test_a_terminated_thread_takes_nothing_and_is_still_read(on: Stage, thread: Thread) -> None:
    on.ask(thread.inject_message("user", "kept"))
    since = on.ask(thread.terminate())
    assert on.ask(thread.terminate()) == since
    for call in (
        lambda: thread.submit("x"),
        lambda: thread.queue_message("x"),
        lambda: thread.inject_message("user", "x"),
    ):
        reply: Reply[Any] = call()  # type: ignore[no-untyped-call]
        on.settle()
        assert isinstance(reply.error(), ThreadTerminated)

    assert [message.content for message in thread.messages().result().messages] == ["kept"]
    assert thread.state().result().terminated_at == since


def test_a_message_given_as_a_record_is_taken_as_it_is(on: Stage, thread: Thread) -> None:
    on.ask(thread.stop())
    receipt = on.ask(thread.queue_message([{"content": "a", "metadata": {"n": 1}}, "b"]))
    page = thread.messages().result()

    assert receipt.disposition is Disposition.QUEUED
    assert receipt.held
    assert [(message.content, (message.metadata or {}).get("n")) for message in page.messages] == [
        ("a", 1),
        ("b", None),
    ]
    assert [message.id for message in page.messages] == list(receipt.message_ids)


def test_a_handle_serves_any_worker_and_any_loop(runtime: Callable[..., Runtime], puppet: Puppet) -> None:
    thread = runtime(puppet).create_thread(puppet).result(GUARD_S)

    async def use() -> str | None:
        message = await thread.inject_message("user", "from a loop")
        assert await thread.message(message.id) == message
        return (await thread.messages()).messages[0].content

    assert [asyncio.run(use()) for _ in range(2)] == ["from a loop"] * 2
    assert thread.messages().result().total == 2
