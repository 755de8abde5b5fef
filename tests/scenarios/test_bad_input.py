"""Bad ids, contents and values, at every entry that takes one: a documented error, what was given, nothing written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.scenarios.garbage import BAD_CONTENT, BAD_IDS, BAD_VALUES, TOO_LARGE, TOO_MUCH, Refusals
from tests.scenarios.scene import PATIENCE_S, Scene, began, ended, quiet, texts
from treadle.protocol.errors import (
    AgentNotFound,
    ExecutionNotFound,
    InputNotFound,
    LimitExceeded,
    ThreadNotFound,
    TreadleError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.scenarios.scene import Replies
    from treadle.actors import Reply, Thread
    from treadle.agents import ThreadState

    Call = Callable[[Any], Reply[Any]]


def entries_with_an_id(scene: Scene, thread: Thread) -> dict[str, Call]:
    runtime = scene.runtime
    return {
        "thread": lambda given: runtime.thread(given).status(),
        "thread, sending": lambda given: runtime.thread(given).submit("x"),
        "create_thread": lambda given: runtime.create_thread("actor", thread_id=given),
        "create_thread, user": lambda given: runtime.create_thread("actor", user_id=given),
        "delete_thread": lambda given: runtime.delete_thread(given),
        "threads": lambda given: runtime.threads(user_id=given),
        "submit": lambda given: thread.submit("x", input_id=given),
        "queue_message": lambda given: thread.queue_message("x", input_id=given),
        "withdraw": lambda given: thread.withdraw(given),
        "steer": lambda given: thread.steer(given, "x"),
        "steer, control": lambda given: thread.steer("e", "x", control_id=given),
        "interrupt": lambda given: thread.interrupt(given),
        "interrupt, control": lambda given: thread.interrupt("e", control_id=given),
        "wait": lambda given: thread.wait(given),
        "receipt": lambda given: thread.receipt(given),
        "execution": lambda given: thread.execution(given),
        "message": lambda given: thread.message(given),
        "messages, before": lambda given: thread.messages(before=given),
        "messages, after": lambda given: thread.messages(after=given),
    }


def test_a_blank_over_long_or_otherwise_malformed_id_is_refused_at_every_entry(scene: Scene) -> None:
    thread = scene.start(quiet)
    refusals = Refusals(scene)

    for entry, call in entries_with_an_id(scene, thread).items():
        for given in BAD_IDS:
            details = refusals.invalid(lambda call=call, given=given: call(given), "invalid_id", (entry, given))  # type: ignore[misc]
            assert details["kind"].endswith("id"), entry

    refusals.nothing_was_written()


def test_an_id_may_have_any_printable_character_and_128_of_them(scene: Scene) -> None:
    scene.open(scene.body(quiet, name="actor"))
    for given in ("x", "a b", "!~", "x" * 128, "a/b:c?d#e%20", '"\\', "0"):
        thread = scene.thread(thread_id=given, user_id=given)
        receipt = thread.submit("x", input_id=given).result(PATIENCE_S)
        assert (thread.id, receipt.input_id) == (given, given)
        ended(thread, receipt)
        assert thread.receipt(given).result(PATIENCE_S) == receipt


def test_unknown_threads_agents_executions_and_inputs_are_named(scene: Scene) -> None:
    thread = scene.start(quiet)
    unknown = scene.runtime.thread("never-was")
    refusals = Refusals(scene)
    calls: list[tuple[Callable[[], Reply[Any]], type[TreadleError], str, str]] = [
        (unknown.status, ThreadNotFound, "thread_not_found", "thread_id"),
        (lambda: unknown.submit("x"), ThreadNotFound, "thread_not_found", "thread_id"),
        (lambda: unknown.queue_message("x"), ThreadNotFound, "thread_not_found", "thread_id"),
        (lambda: unknown.steer("e", "x"), ThreadNotFound, "thread_not_found", "thread_id"),
        (lambda: unknown.interrupt("e"), ThreadNotFound, "thread_not_found", "thread_id"),
        (unknown.messages, ThreadNotFound, "thread_not_found", "thread_id"),
        (lambda: unknown.set_value("k", 1), ThreadNotFound, "thread_not_found", "thread_id"),
        (lambda: unknown.wait("e"), ThreadNotFound, "thread_not_found", "thread_id"),
        (lambda: scene.runtime.delete_thread("never-was"), ThreadNotFound, "thread_not_found", "thread_id"),
        (lambda: scene.runtime.create_thread("never-was"), AgentNotFound, "agent_not_found", "agent"),
        (lambda: thread.execution("never-was"), ExecutionNotFound, "execution_not_found", "execution_id"),
        (lambda: thread.wait("never-was"), ExecutionNotFound, "execution_not_found", "execution_id"),
        (lambda: thread.receipt("never-was"), InputNotFound, "input_not_found", "id"),
    ]

    for call, error, code, key in calls:
        assert "never-was" in refusals.refused(call, error, code, code)[key]
    for agent in (None, 5, "", "x" * 500, object(), ["actor"]):
        refusals.refused(
            lambda agent=agent: scene.runtime.create_thread(agent),  # type: ignore[misc]
            AgentNotFound,
            "agent_not_found",
            agent,
        )

    refusals.nothing_was_written()


def entries_with_content(thread: Thread, execution_id: str) -> dict[str, Call]:
    return {
        "submit": lambda given: thread.submit(given, on_busy="queue"),
        "submit as steer": lambda given: thread.submit(given, on_busy="steer"),
        "steer": lambda given: thread.steer(execution_id, given),
        "queue_message": lambda given: thread.queue_message(given),
    }


def test_empty_malformed_and_foreign_content_is_refused_by_every_verb(scene: Scene) -> None:
    thread = scene.gated()
    execution_id = began(thread.submit("go").result(PATIENCE_S))
    arrived = scene.gate.arrival()
    refusals = Refusals(scene)

    for entry, call in entries_with_content(thread, execution_id).items():
        for given, code in BAD_CONTENT:
            refusals.invalid(lambda call=call, given=given: call(given), code, (entry, given))  # type: ignore[misc]
        if entry != "queue_message":
            # What the user did not say cannot steer, nor start anything.
            foreign = [{"content": "x", "role": "assistant"}]
            refusals.invalid(lambda call=call, foreign=foreign: call(foreign), "invalid_role", entry)  # type: ignore[misc]

    refusals.nothing_was_written()
    arrived.go.set(None)
    ended(thread, execution_id)
    assert texts(thread) == ["go"]


def test_too_much_content_is_refused_by_every_verb_with_the_limit_and_what_was_met(scene: Scene) -> None:
    thread = scene.gated()
    execution_id = began(thread.submit("go").result(PATIENCE_S))
    arrived = scene.gate.arrival()
    refusals = Refusals(scene)

    for entry, call in entries_with_content(thread, execution_id).items():
        for given, limit in TOO_MUCH:
            refusals.over(lambda call=call, given=given: call(given), limit, (entry, limit))  # type: ignore[misc]

    refusals.nothing_was_written()
    arrived.go.set(None)
    ended(thread, execution_id)


def test_a_message_of_exactly_one_mebibyte_is_taken(scene: Scene) -> None:
    thread = scene.start(quiet)

    for text in ("x" * (1 << 20), "é" * (1 << 19)):
        receipt = thread.submit(text).result(PATIENCE_S)
        ended(thread, receipt)
        message = thread.message(receipt.message_ids[0]).result(PATIENCE_S)
        assert message is not None
        assert message.content == text


def test_an_injected_message_is_checked_like_any_other(scene: Scene) -> None:
    thread = scene.start(quiet)
    refusals = Refusals(scene)
    calls: list[tuple[Callable[[], Reply[Any]], str]] = [
        (lambda: thread.inject_message("robot", "x"), "invalid_role"),
        (lambda: thread.inject_message(None, "x"), "invalid_role"),  # type: ignore[arg-type]
        (lambda: thread.inject_message(["user"], "x"), "invalid_role"),  # type: ignore[arg-type]
        (lambda: thread.inject_message("user", ""), "empty_content"),
        (lambda: thread.inject_message("user", None), "empty_content"),
        (lambda: thread.inject_message("assistant", ""), "empty_content"),
        (lambda: thread.inject_message("user", 5), "invalid_content"),  # type: ignore[arg-type]
        (lambda: thread.inject_message("user", "\ud800"), "invalid_content"),
        (lambda: thread.inject_message("user", "x", silent="yes"), "invalid_content"),  # type: ignore[arg-type]
        (lambda: thread.inject_message("user", "x", metadata=[]), "invalid_value"),  # type: ignore[arg-type]
        (lambda: thread.inject_message("user", "x", attachments={}), "invalid_value"),  # type: ignore[arg-type]
        (lambda: thread.inject_message("user", "x", attachments=[5]), "invalid_value"),  # type: ignore[list-item]
        (lambda: thread.queue_message("x", role="system"), "invalid_role"),
        (lambda: thread.queue_message("x", silent=1), "invalid_content"),  # type: ignore[arg-type]
        (lambda: thread.queue_message(["x"], silent=True), "invalid_content"),
        (lambda: thread.queue_message(["x"], metadata={}), "invalid_content"),
        (lambda: thread.queue_message(["x"], attachments=[]), "invalid_content"),
    ]

    for rank, (call, code) in enumerate(calls):
        refusals.invalid(call, code, rank)
    refusals.over(lambda: thread.inject_message("user", "x" * ((1 << 20) + 1)), "message_bytes", "inject")
    refusals.over(lambda: thread.inject_message("user", "x", attachments=[{}] * 257), "attachments", "inject")

    refusals.nothing_was_written()


def entries_with_a_value(scene: Scene, thread: Thread, execution_id: str) -> dict[str, tuple[str, Call]]:
    """Return each entry with the path under which a value given to it is named."""

    def content(given: Any, key: str) -> list[dict[str, Any]]:
        return [{"content": "x", key: {"k": given} if key == "metadata" else [{"k": given}]}]

    return {
        "set_value": ("$", lambda given: thread.set_value("k", given)),
        "inject, metadata": (
            "$.metadata.k",
            lambda given: thread.inject_message("user", "x", metadata={"k": given}),
        ),
        "inject, attachments": (
            "$.attachments[0].k",
            lambda given: thread.inject_message("user", "x", attachments=[{"k": given}]),
        ),
        "queue, metadata": ("$.metadata.k", lambda given: thread.queue_message("x", metadata={"k": given})),
        "queue, attachments": ("$.attachments[0].k", lambda given: thread.queue_message(content(given, "attachments"))),
        "submit": ("$.metadata.k", lambda given: thread.submit(content(given, "metadata"), on_busy="queue")),
        "steer": ("$.metadata.k", lambda given: thread.steer(execution_id, content(given, "metadata"))),
        "create_thread": (
            "$.arguments.k",
            lambda given: scene.runtime.create_thread("actor", arguments={"k": given}),
        ),
    }


def test_what_is_no_json_data_is_refused_at_every_entry_with_its_path(scene: Scene) -> None:
    thread = scene.gated()
    execution_id = began(thread.submit("go").result(PATIENCE_S))
    arrived = scene.gate.arrival()
    refusals = Refusals(scene)

    for entry, (path, call) in entries_with_a_value(scene, thread, execution_id).items():
        for name, given in BAD_VALUES.items():
            details = refusals.invalid(lambda call=call, given=given: call(given), "invalid_value", (entry, name))  # type: ignore[misc]
            assert details["path"].startswith((path, "…")), (entry, name)
            assert len(details["path"]) <= 200
        # Each way of being too large costs its size, so one entry meets them all and the others the first.
        for name, given in list(TOO_LARGE.items())[: None if entry == "set_value" else 1]:
            refusals.over(lambda call=call, given=given: call(given), "value_bytes", (entry, name))  # type: ignore[misc]

    refusals.nothing_was_written()
    arrived.go.set(None)
    ended(thread, execution_id)


@pytest.mark.parametrize("key", ["", None, 5, b"k", "\0", "a\0b", "\ud800", ["k"]])
def test_what_is_no_key_of_a_value_is_refused(scene: Scene, key: Any) -> None:
    thread = scene.start(quiet)
    refusals = Refusals(scene)

    refusals.invalid(lambda: thread.set_value(key, 1), "invalid_name", key)
    refusals.invalid(lambda: thread.set_value(key, None), "invalid_name", key)
    refusals.invalid(lambda: thread.get_value(key), "invalid_name", key)

    refusals.nothing_was_written()


def test_a_body_gets_the_same_errors_and_nothing_that_it_got_wrong_is_written(either: Scene) -> None:
    codes: dict[str, str] = {}

    def gets_it_wrong(state: ThreadState) -> Replies:
        yield either.gate.here()
        calls: dict[str, Callable[[], Reply[Any]]] = {
            **{f"value: {name}": lambda given=given: state.set_value("k", given) for name, given in BAD_VALUES.items()},  # type: ignore[misc]
            **{f"large: {name}": lambda given=given: state.set_value("k", given) for name, given in TOO_LARGE.items()},  # type: ignore[misc]
            "key: empty": lambda: state.set_value("", 1),
            "key: get": lambda: state.get_value(None),  # type: ignore[arg-type]
            "content: empty": lambda: state.inject_message("assistant", ""),
            "content: surrogate": lambda: state.inject_message("assistant", "\ud800"),
            "content: queue": lambda: state.queue_message(""),
            "role": lambda: state.inject_message("robot", "x"),
            "role: queue": lambda: state.queue_message("x", "tool"),
            "id: input": lambda: state.queue_message("x", input_id=" "),
            "id: message": lambda: state.get_message(""),
            "page": lambda: state.get_messages(limit=-1),
            "sleep": lambda: state.sleep(-1),
        }
        for name, call in calls.items():
            try:
                yield call()
            except TreadleError as error:
                codes[name] = error.code
        yield either.gate.here()

    thread = either.start(gets_it_wrong)
    execution_id = began(thread.submit("go").result(PATIENCE_S))
    arrived = either.gate.arrival()
    refusals = Refusals(either)
    arrived.go.set(None)
    arrived = either.gate.arrival()

    refusals.nothing_was_written()
    arrived.go.set(None)
    assert ended(thread, execution_id).error is None
    expected = {
        **dict.fromkeys((f"value: {name}" for name in BAD_VALUES), "invalid_value"),
        **dict.fromkeys((f"large: {name}" for name in TOO_LARGE), LimitExceeded.code),
        "key: empty": "invalid_name",
        "key: get": "invalid_name",
        "content: empty": "empty_content",
        "content: surrogate": "invalid_content",
        "content: queue": "empty_content",
        "role": "invalid_role",
        "role: queue": "invalid_role",
        "id: input": "invalid_id",
        "id: message": "invalid_id",
        "page": "invalid_page",
        "sleep": "invalid_value",
    }
    assert codes == expected
