"""Tests agents/thread_state.py for declared agents and threads at rest: values, session, labels, events, termination."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest

from tests.agents.stage import PATIENCE_S
from treadle.actors import ExecutionCancelled, ExecutionFenced, Reply
from treadle.agents import ThreadState
from treadle.agents.flow import SessionEnd
from treadle.protocol.errors import InvalidInput, LimitExceeded, ThreadTerminated

if TYPE_CHECKING:
    from tests.agents.declared import Declared
    from tests.agents.stage import Replies, Stage


def test_a_state_tells_whose_thread_it_is_and_which_agent_acts(declared: Declared) -> None:
    """Contract B at rest: identity is the same in an execution and at rest; a handoff changes the agent."""
    seen: list[tuple[object, ...]] = []

    def identity(state: ThreadState) -> tuple[object, ...]:
        return state.thread_id, state.user_id, state.created_at, dict(state.arguments), state.terminated

    def script(state: ThreadState) -> Replies:
        assert state.execution is not None
        seen.append((state.agent_id, *identity(state)))
        flow = state.execution.flow
        assert flow is not None
        flow.agent = flow.agent.model_copy(update={"name": "other"})
        assert state.agent_id == "other"
        yield state.status()

    assert declared(script, arguments={"topic": "tea"}).play().error is None
    rest = declared.rest()
    assert seen == [(rest.agent_id, *identity(rest))]
    assert (rest.agent_id, rest.user_id, dict(rest.arguments)) == ("actor", "u1", {"topic": "tea"})
    assert rest.context == {}
    assert rest.thread_id in repr(rest)


# Values


def test_values_are_set_read_and_deleted(declared: Declared) -> None:
    """Contract D.5 get_value; D.5 set_value; D.5 durable: in an execution, by the next one and at rest."""

    def script(state: ThreadState) -> Replies:
        assert state.execution is not None
        if state.execution.new_messages[0].content == "again":
            assert (yield state.get_value("k")) == {"a": [1, 2.5, None, True]}
            return
        assert (yield state.get_value("k")) is None
        assert (yield state.set_value("k", {"a": (1, 2.5, None, True)})) is None
        yield state.set_value("gone", 1)
        yield state.set_value("gone", None)
        assert (yield state.get_value("gone")) is None

    assert declared(script).play().error is None
    assert declared.play("again").error is None
    rest = declared.rest()
    assert rest.get_value("k").result(PATIENCE_S) == {"a": [1, 2.5, None, True]}
    rest.set_value("k", None).result(PATIENCE_S)
    assert rest.get_value("k").result(PATIENCE_S) is None


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (len, "$"),
        ({"a": [1, math.inf]}, "$.a[1]"),
        ({"a": {"b": {1: 2}}}, "$.a.b"),
        ([[2**63]], "$[0][0]"),
        ({"a": {1, 2}}, "$.a"),
        ("\ud800", "$"),
    ],
    ids=repr,
)
def test_what_is_no_json_data_is_refused_with_its_path(declared: Declared, value: object, path: str) -> None:
    """Contract D.5 not a value: and nothing is stored."""

    def script(state: ThreadState) -> Replies:
        with pytest.raises(InvalidInput) as refused:
            yield state.set_value("k", value)
        assert (refused.value.code, refused.value.details["path"]) == ("invalid_value", path)

    assert declared(script).play().error is None
    with pytest.raises(InvalidInput):
        declared.rest().set_value("k", value).result(PATIENCE_S)
    assert declared.rest().get_value("k").result(PATIENCE_S) is None


def test_a_circle_is_too_deep_and_a_key_is_a_name(declared: Declared) -> None:
    """Contract D.5 not a value: circles, and keys that are none, those of the runtime included."""
    circle: list[Any] = []
    circle.append(circle)

    def script(state: ThreadState) -> Replies:
        with pytest.raises(InvalidInput):
            yield state.set_value("k", circle)
        for key in ("", 7, None, "a\0", "treadle:env"):
            for call in (lambda key: state.set_value(key, 1), state.get_value):
                with pytest.raises(InvalidInput):
                    yield call(key)  # type: ignore[arg-type]

    assert declared(script).play().error is None


def test_values_are_listed_in_pages(declared: Declared) -> None:
    """Contract D.5 list_values: by search, at most 200 a page."""

    def script(state: ThreadState) -> Replies:
        for number in range(5):
            yield state.set_value(f"k{number}", number)
        yield state.set_value("other", "x")
        page = yield state.list_values()
        assert [(one.key, one.value) for one in page.values] == [*((f"k{n}", n) for n in range(5)), ("other", "x")]
        page = yield state.list_values(limit=2, offset=1)
        assert ([one.key for one in page.values], page.has_more) == (["k1", "k2"], True)
        page = yield state.list_values("th")
        assert ([one.key for one in page.values], page.has_more) == (["other"], False)
        for bad in ({"limit": 201}, {"limit": -1}, {"offset": -1}, {"limit": "all"}):
            with pytest.raises(InvalidInput):
                yield state.list_values(**bad)

    assert declared(script).play().error is None
    assert len(declared.rest().list_values().result(PATIENCE_S).values) == 6


def test_a_change_of_a_value_is_an_event_that_names_the_key_alone(declared: Declared) -> None:
    """Contract D.5 event: set and deleted; its content is nobody's to see."""

    def script(state: ThreadState) -> Replies:
        yield state.set_value("k", "the content")
        yield state.set_value("k", None)

    assert declared(script).play().error is None
    changes: list[dict[str, Any]] = []
    with declared.thread.events("1:0") as events:
        for event in events:
            shown = event.to_wire()
            if shown["type"] == "VALUE_CHANGED":
                changes.append(shown)
            if shown["type"] == "THREAD_EXECUTION_FINISHED":
                break
    assert [(one["key"], one["deleted"]) for one in changes] == [("k", False), ("k", True)]
    assert "the content" not in str(changes)


# The inbox


def test_a_message_queued_at_rest_starts_an_execution(declared: Declared) -> None:
    """Contract D.4 idle; D.4 order: in the order in which they came."""
    passes: list[list[str | None]] = []

    def script(state: ThreadState) -> Replies:
        assert state.execution is not None
        passes.append([one.content for one in state.execution.new_messages])
        yield state.status()

    declared(script)
    declared.thread.stop().result(PATIENCE_S)
    rest = declared.rest()
    for text in ("one", "two", "three"):
        receipt = rest.queue_message(text, input_id=f"i-{text}").result(PATIENCE_S)
        assert (receipt.disposition, receipt.held) == ("queued", True)
    assert rest.queue_message("one", input_id="i-one").result(PATIENCE_S).input_id == "i-one"
    declared.thread.wait(declared.thread.resume().result(PATIENCE_S)).result(PATIENCE_S)

    assert passes == [["one", "two", "three"]]


# The session


def test_stopping_the_session_leaves_its_end_to_the_loop(declared: Declared) -> None:
    """Contract D.11 stop_session: with a default result; the first call counts."""

    def script(state: ThreadState) -> Replies:
        assert state.execution is not None
        flow = state.execution.flow
        assert flow is not None
        assert (yield state.stop_session(status="done")) is None
        assert flow.session_end == SessionEnd("state_stop_session", "Session stopped.", "done")
        yield state.stop_session("another")
        assert flow.session_end.result == "Session stopped."

    assert declared(script).play().error is None


def test_a_plain_callables_session_is_its_execution(stage: Stage) -> None:
    """Contract D.11 stop_session; C.1 state_stop_session: it ends after the pass, with that reason."""

    def script(state: ThreadState) -> Replies:
        yield state.stop_session("found it")
        yield state.queue_message("read by the next execution")

    record = stage(script).play()
    assert (record.status, record.reason) == ("succeeded", "state_stop_session")


@pytest.mark.parametrize("given", [{"result": ""}, {"notify_parent": " "}, {"status": ""}, {"result": 7}], ids=repr)
def test_a_session_is_not_stopped_with_empty_texts(declared: Declared, given: dict[str, Any]) -> None:
    """Contract D.11 stop_session empty: nothing is stopped."""

    def script(state: ThreadState) -> Replies:
        assert state.execution is not None
        with pytest.raises(InvalidInput) as refused:
            yield state.stop_session(**given)
        assert refused.value.code == "empty_content"
        assert state.execution.flow is not None
        assert state.execution.flow.session_end is None

    assert declared(script).play().error is None


def test_a_session_needs_an_execution_that_is_not_over(declared: Declared) -> None:
    """Contract D.11 stop_session: at rest there is none, and one that is over has no session left."""
    kept: list[ThreadState] = []

    def script(state: ThreadState) -> Replies:
        kept.append(state)
        yield state.status()

    assert declared(script).play().error is None
    with pytest.raises(InvalidInput) as refused:
        declared.rest().stop_session().result(PATIENCE_S)
    assert refused.value.code == "no_active_execution"
    with pytest.raises(ExecutionFenced):
        kept[0].stop_session().result(PATIENCE_S)


# Lifecycle


def test_the_status_is_the_runs_and_the_label_something_else(declared: Declared) -> None:
    """Contract D.11 status; D.11 set_status: an empty label is refused, and another changes nothing without a parent."""

    def script(state: ThreadState) -> Replies:
        assert (yield state.status()).state == "running"
        assert (yield state.set_status("busy reading")) is None
        assert (yield state.status()).state == "running"
        for bad in ("", "  ", None, 7):
            with pytest.raises(InvalidInput):
                yield state.set_status(bad)  # type: ignore[arg-type]

    assert declared(script).play().error is None
    rest = declared.rest()
    assert rest.status().result(PATIENCE_S).state == "idle"
    assert rest.set_status("resting").result(PATIENCE_S) is None


def test_termination_is_soft_final_and_repeatable(declared: Declared) -> None:
    """Contract D.11 terminate: `terminated` is its first time; what runs is aborted; nothing is taken after it."""
    begun: Reply[None] = Reply()

    def script(state: ThreadState) -> Replies:
        begun.set(None)
        try:
            yield state.sleep(3600)
        except ExecutionCancelled:
            assert state.terminated is not None
            raise

    receipt = declared(script).thread.submit("go").result(PATIENCE_S)
    begun.result(PATIENCE_S)
    rest = declared.rest()
    assert rest.terminated is None
    at = rest.terminate().result(PATIENCE_S)

    assert declared.thread.wait(receipt).result(PATIENCE_S).status == "cancelled"
    assert rest.terminate().result(PATIENCE_S) == at == rest.terminated
    for late in (
        lambda: rest.queue_message("x"),
        lambda: rest.inject_message("user", "x"),
        lambda: rest.queue_tool("x"),
    ):
        with pytest.raises(ThreadTerminated) as refused:
            late().result(PATIENCE_S)
        assert refused.value.details["terminated_at"] == at


def test_an_event_is_shown_to_who_watches_and_stored_nowhere(declared: Declared) -> None:
    """Contract D.11 emit; D.6 redaction: live, without secrets; nobody watching is no error."""
    watching: Reply[None] = Reply()
    begun: Reply[None] = Reply()

    def script(state: ThreadState) -> Replies:
        assert (yield state.emit("early")) is False
        begun.set(None)
        yield watching
        assert (yield state.emit("progress", {"at": 1, "key": "sesame"})) is True
        for event, data in (("", None), (7, None), ("x", object())):
            with pytest.raises(InvalidInput):
                yield state.emit(event, data)  # type: ignore[arg-type]
        with pytest.raises(LimitExceeded):
            yield state.emit("x", "y" * (1 << 20))

    receipt = declared(script, env={"K": "sesame"}).thread.submit("go").result(PATIENCE_S)
    begun.result(PATIENCE_S)
    with declared.thread.stream() as stream:
        frames = iter(stream)
        next(frames)
        watching.set(None)
        frame = next(one for one in frames if one["type"] == "event")
    assert frame == {"type": "event", "event": "progress", "data": {"at": 1, "key": "[secret:K]"}}
    assert declared.thread.wait(receipt).result(PATIENCE_S).error is None
    assert declared.rest().emit("late").result(PATIENCE_S) is False
    assert declared.texts() == ["go"]


def test_a_request_is_shown_without_secrets(declared: Declared) -> None:
    """Contract D.6 redaction: of frames, those of requests included; the answer is the asker's."""

    def script(state: ThreadState) -> Replies:
        answer = yield state.request("approval", {"token": "sesame"}, request_id="r1")
        assert answer == "yes, sesame"

    declared(script, env={"K": "sesame"})
    with declared.thread.events("1:0") as events:
        receipt = declared.thread.submit("go").result(PATIENCE_S)
        opened = next(shown for event in events if (shown := event.to_wire())["type"] == "REQUEST_OPENED")
    assert opened["payload"] == {"token": "[secret:K]"}
    assert declared.thread.respond("r1", "yes, sesame").result(PATIENCE_S) == "accepted"
    assert declared.thread.wait(receipt).result(PATIENCE_S).error is None
