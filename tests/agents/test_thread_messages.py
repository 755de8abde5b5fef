"""Tests agents/thread_messages.py: edits, hooks around writes, secrets in them; awaiting and blocking, on both stores."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from tests.agents.stage import PATIENCE_S
from treadle.actors import Reply
from treadle.agents import Hook, ThreadState
from treadle.agents.flow import current_flow, flow_of
from treadle.protocol.errors import InvalidInput, LimitExceeded, MessageNotFound, ThreadTerminated

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.agents.declared import Declared
    from tests.agents.stage import Replies, Stage
    from treadle.protocol.messages import Message


def hook(kind: str, function: Callable[..., Any], hook_id: str = "h") -> Hook:
    return Hook(kind, hook_id, function)


# Reading


def test_a_page_is_cut_from_either_end_and_counts_what_the_filter_lets_through(declared: Declared) -> None:
    """Contract D.3 get_messages; D.3 get_messages order; D.3 get_messages filter: slices, total and has_more."""

    def script(state: ThreadState) -> Replies:
        for number in range(4):
            yield state.inject_message("assistant", str(number), silent=number == 3)
        page = yield state.get_messages()
        assert ([one.content for one in page.messages], page.total, page.has_more) == (["go", "0", "1", "2"], 4, False)
        page = yield state.get_messages(2)
        assert ([one.content for one in page.messages], page.total, page.has_more) == (["1", "2"], 4, True)
        page = yield state.get_messages(2, 1, "asc")
        assert ([one.content for one in page.messages], page.has_more) == (["0", "1"], True)
        page = yield state.get_messages(2, 3, "desc", include_silent=True)
        assert ([one.content for one in page.messages], page.total) == (["0", "go"], 5)

    assert declared(script).play().error is None


def test_a_message_is_found_at_any_depth_and_while_it_waits(declared: Declared) -> None:
    """Contract D.3 get_message: in a sub-prompt's depth, in the inbox, or nowhere."""

    def script(state: ThreadState) -> Replies:
        assert state.execution is not None
        if state.execution.new_messages[0].content != "go":
            return
        receipt = yield state.queue_message("later")
        waiting = yield state.get_message(receipt.message_ids[0])
        assert (waiting.content, waiting.status, waiting.metadata["queued"]) == ("later", "pending", True)
        assert (yield state.get_message("nobody")) is None

    assert declared(script).play().error is None


def test_what_a_sub_prompt_injects_is_its_own_depth(declared: Declared) -> None:
    """Contract D.3 get_messages filter; D.3 get_message: deeper rows are left out of pages unless asked for."""

    def script(state: ThreadState) -> Replies:
        assert state._execution is not None
        flow = flow_of(state._execution)
        assert flow is not None
        assert flow.agent.side_a.prompt is not None
        flow.message_id = "m-parent"
        child = flow.child(flow.agent.definitions.prompt("p"), {})
        token = current_flow.set(child)
        deep = yield state.inject_message("system", "below")
        current_flow.reset(token)
        assert (deep.depth, deep.parent_id) == (1, "m-parent")
        assert [one.content for one in (yield state.get_messages()).messages] == ["go"]
        page = yield state.get_messages(max_depth=1)
        assert ([one.content for one in page.messages], page.total) == (["go", "below"], 2)
        assert (yield state.get_message(deep.id)) == deep

    assert declared(script).play().error is None


# Injecting


def test_an_injected_message_is_completed_later_than_all_before_and_starts_nothing(declared: Declared) -> None:
    """Contract D.3 inject_message: in an execution and at rest."""

    def script(state: ThreadState) -> Replies:
        assert state.execution is not None
        last = state.execution.message_history[-1]
        said = yield state.inject_message("assistant", "hello", metadata={"a": 1})
        assert (said.status, said.depth, said.metadata) == ("completed", 0, {"a": 1})
        assert said.created_at > last.created_at

    declared(script).play()
    said = declared.rest().inject_message("user", "noted", silent=True).result(PATIENCE_S)

    assert (said.status, said.depth, said.silent) == ("completed", 0, True)
    assert declared.texts(include_silent=True) == ["go", "hello", "noted"]
    assert declared.thread.status().result().state == "idle"
    assert declared.thread.executions().result().total == 1


def test_at_rest_a_call_and_its_result_are_plain_messages(declared: Declared) -> None:
    """Contract D.3 inject_message: nobody is there to answer a call, so none is open."""
    declared(_nothing)
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}

    rest = declared.rest()
    asked = rest.inject_message("assistant", tool_calls=[call]).result(PATIENCE_S)
    told = rest.inject_message("tool", "found", tool_call_id="c1", tool_status="success", name="look").result(
        PATIENCE_S
    )

    assert asked.tool_calls is not None
    assert (told.tool_call_id, told.tool_status, told.name) == ("c1", "success", "look")
    assert declared.play().error is None
    assert declared.thread.delete_message(told.id).result(PATIENCE_S)


def test_a_terminated_thread_takes_no_message_from_outside(declared: Declared) -> None:
    """Contract D.3 inject terminated; D.4 terminated: neither injected nor queued."""
    declared(_nothing)
    rest = declared.rest()
    at = rest.terminate().result(PATIENCE_S)

    with pytest.raises(ThreadTerminated) as refused:
        rest.inject_message("user", "late").result(PATIENCE_S)
    assert refused.value.details["terminated_at"] == at
    with pytest.raises(ThreadTerminated):
        rest.queue_message("late").result(PATIENCE_S)
    assert declared.texts() == []


def test_create_hooks_run_around_an_insert_and_may_change_it(declared: Declared) -> None:
    """Contract D.3 inject hooks; E.7 before_create_message; E.7 after_create_message: in an execution and at rest."""
    seen: list[Message] = []

    async def before(state: ThreadState, fields: dict[str, Any]) -> dict[str, Any]:
        assert fields["depth"] == 0
        fields["content"] += "!"
        return {**fields, "metadata": {"by": "hook" if state.execution is not None else "hook at rest"}}

    def after(state: ThreadState, message: Message) -> None:
        seen.append(message)

    def script(state: ThreadState) -> Replies:
        said = yield state.inject_message("assistant", "hello")
        assert (said.content, said.metadata) == ("hello!", {"by": "hook"})
        assert seen == [said]

    hooks = (hook("before_create_message", before), hook("after_create_message", after, "h2"))
    assert declared(script, hooks=hooks).play().error is None
    said = declared.rest().inject_message("system", "bye").result(PATIENCE_S)

    assert (said.content, said.metadata) == ("bye!", {"by": "hook at rest"})
    assert [one.content for one in seen] == ["hello!", "bye!"]


def test_a_before_create_hook_that_raises_prevents_the_insert(declared: Declared) -> None:
    """Contract D.3 inject hooks; E.7 before_create_message: its error is the call's."""

    def refuse(state: ThreadState, fields: dict[str, Any]) -> None:
        raise PermissionError("not in here")

    def script(state: ThreadState) -> Replies:
        with pytest.raises(PermissionError, match="not in here"):
            yield state.inject_message("assistant", "hello")

    assert declared(script, hooks=(hook("before_create_message", refuse),)).play().error is None
    with pytest.raises(PermissionError):
        declared.rest().inject_message("assistant", "hello").result(PATIENCE_S)
    assert declared.texts() == ["go"]
    assert [one["data"]["data"]["how"] for one in declared.logs()] == ["raised", "raised"]


@pytest.mark.parametrize(
    "change", [{"content": ""}, {"role": "robot"}, {"metadata": 7}, {"id": "other"}, {"attachments": [1]}], ids=repr
)
def test_a_hook_that_makes_what_cannot_be_stored_changes_nothing(declared: Declared, change: dict[str, Any]) -> None:
    """Contract E.7 failure: the original is stored, and the log says so."""
    hooks = (hook("before_create_message", lambda _state, fields: {**fields, **change}),)

    def script(state: ThreadState) -> Replies:
        said = yield state.inject_message("assistant", "hello")
        assert (said.role, said.content, said.metadata) == ("assistant", "hello", None)

    assert declared(script, hooks=hooks).play().error is None
    assert len(declared.logs()) == 1


def test_what_a_hook_injects_calls_no_hook_again(declared: Declared) -> None:
    """Contract E.7 composition: hooks do not call themselves without end."""

    async def echo(state: ThreadState, message: Message) -> None:
        await state.inject_message("system", f"seen: {message.content}")

    def script(state: ThreadState) -> Replies:
        yield state.inject_message("assistant", "hello")

    assert declared(script, hooks=(hook("after_create_message", echo),)).play().error is None
    assert declared.texts() == ["go", "hello", "seen: hello"]


def test_messages_injected_without_waiting_keep_their_order_whatever_their_hooks_take(declared: Declared) -> None:
    """Contract D.3 inject_message: later than all before it."""
    release = threading.Event()

    def before(state: ThreadState, fields: dict[str, Any]) -> dict[str, Any]:
        if fields["content"] == "0":
            release.wait(PATIENCE_S)
        return fields

    def script(state: ThreadState) -> Replies:
        replies = [state.inject_message("assistant", str(number)) for number in range(5)]
        release.set()
        for reply in replies:
            assert (yield reply).status == "completed"

    assert declared(script, hooks=(hook("before_create_message", before),)).play().error is None
    assert declared.texts() == ["go", "0", "1", "2", "3", "4"]


def test_a_write_whose_hook_still_runs_does_not_outlive_its_execution(declared: Declared) -> None:
    """Contract E.7 time limit: the finish ends what is under way; the message is not stored."""
    begun: Reply[None] = Reply()

    async def hang(state: ThreadState, fields: dict[str, Any]) -> None:
        begun.set(None)
        await state.sleep(3600)

    left: list[Reply[Message]] = []

    def script(state: ThreadState) -> Replies:
        left.append(state.inject_message("assistant", "hello"))
        yield begun

    assert declared(script, hooks=(hook("before_create_message", hang),)).play().error is None
    assert left[0].done()
    assert left[0].error() is not None
    assert declared.texts() == ["go"]


# Updating and deleting


def test_an_update_merges_metadata_and_leaves_what_it_does_not_name(declared: Declared) -> None:
    """Contract D.3 update_message: content is replaced, metadata merged, None takes a key away."""

    def script(state: ThreadState) -> Replies:
        assert state.execution is not None
        said = yield state.inject_message("assistant", "one", metadata={"a": 1, "b": {"c": 2}})
        new = yield state.update_message(said.id, content="two")
        assert (new.content, new.metadata, new.created_at) == ("two", {"a": 1, "b": {"c": 2}}, said.created_at)
        new = yield state.update_message(said.id, metadata={"a": None, "d": [3]})
        assert (new.content, new.metadata) == ("two", {"b": {"c": 2}, "d": [3]})
        assert state.execution.message_history[-1] == new
        assert (yield state.update_message(said.id, metadata=None)).metadata is None

    assert declared(script).play().error is None
    message = declared.thread.messages().result().messages[-1]
    assert declared.rest().update_message(message.id, content="three").result(PATIENCE_S).content == "three"


def test_an_update_that_cannot_be_is_refused_through_the_reply(declared: Declared) -> None:
    """Contract D.3 update_message: unknown ids, nothing to change, what is no content."""

    def script(state: ThreadState) -> Replies:
        assert state.execution is not None
        known = state.execution.message_history[0].id
        with pytest.raises(MessageNotFound):
            yield state.update_message("nobody", content="x")
        for given in ({}, {"content": ""}, {"content": 7}, {"metadata": 7}, {"metadata": {"a": object()}}):
            with pytest.raises(InvalidInput):
                yield state.update_message(known, **given)
        with pytest.raises(InvalidInput):
            yield state.update_message("", content="x")

    assert declared(script).play().error is None
    assert declared.texts() == ["go"]


def test_update_hooks_run_around_an_update_and_may_change_it(declared: Declared) -> None:
    """Contract D.3 update hooks; E.7 before_update_message; E.7 after_update_message: id and updates."""
    seen: list[tuple[str, dict[str, Any]]] = []

    def before(state: ThreadState, message_id: str, updates: dict[str, Any]) -> dict[str, Any]:
        return {**updates, "metadata": {"edited": True}}

    async def after(state: ThreadState, message_id: str, updates: dict[str, Any]) -> None:
        seen.append((message_id, updates))

    def script(state: ThreadState) -> Replies:
        said = yield state.inject_message("assistant", "one")
        new = yield state.update_message(said.id, content="two")
        assert (new.content, new.metadata) == ("two", {"edited": True})
        assert seen == [(said.id, {"content": "two", "metadata": {"edited": True}})]

    hooks = (hook("before_update_message", before), hook("after_update_message", after, "h2"))
    assert declared(script, hooks=hooks).play().error is None


@pytest.mark.parametrize("answer", [7, {"content": 7}, {"colour": "red"}, RuntimeError("no")], ids=repr)
def test_an_update_whose_hook_fails_is_made_as_it_was_given(declared: Declared, answer: object) -> None:
    """Contract E.7 failure: of an update, too."""

    def before(state: ThreadState, message_id: str, updates: dict[str, Any]) -> object:
        if isinstance(answer, Exception):
            raise answer
        return answer

    def script(state: ThreadState) -> Replies:
        said = yield state.inject_message("assistant", "one")
        assert (yield state.update_message(said.id, content="two")).content == "two"

    assert declared(script, hooks=(hook("before_update_message", before),)).play().error is None
    assert len(declared.logs()) == 1


class Odd(str):
    """A text whose own methods answer with something else."""

    __slots__ = ()

    def encode(self, *given: str) -> bytes:
        raise RuntimeError(given)


def test_ids_that_are_odd_texts_are_taken_as_what_they_say(declared: Declared) -> None:
    """An id that came to the actor as it was given failed there, as an internal error."""
    call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{}"}}

    def script(state: ThreadState) -> Replies:
        assert state.execution is not None
        first = yield state.queue_message("more", input_id=Odd("i1"))
        again = yield state.queue_message("more", input_id="i1")
        assert again == first
        yield state.inject_message("assistant", tool_calls=[call])
        said = yield state.inject_message("tool", "3", tool_call_id=Odd("c1"))
        assert (type(said.tool_call_id), said.tool_call_id) == (str, "c1")
        state.execution.stop()

    assert declared(script).play().error is None


def test_deleting_says_whether_there_was_something(declared: Declared) -> None:
    """Contract D.3 delete_message: False where there is none, a repeat included."""

    def script(state: ThreadState) -> Replies:
        assert state.execution is not None
        said = yield state.inject_message("assistant", "one")
        assert (yield state.delete_message(said.id)) is True
        assert (yield state.delete_message(said.id)) is False
        assert (yield state.get_message(said.id)) is None
        assert [one.content for one in state.execution.message_history] == ["go"]
        with pytest.raises(InvalidInput):
            yield state.delete_message("")

    assert declared(script).play().error is None
    assert declared.rest().delete_message("nobody").result(PATIENCE_S) is False


def test_deleting_what_waits_takes_it_back(declared: Declared) -> None:
    """Contract D.3 delete queued; D.3 pending: it was listed as pending, and never joins."""

    def script(state: ThreadState) -> Replies:
        receipt = yield state.queue_message("later")
        pending = (yield state.get_messages()).messages[-1]
        assert (pending.status, pending.metadata["queued"]) == ("pending", True)
        assert (yield state.delete_message(receipt.message_ids[0])) is True
        assert (yield state.get_messages()).total == 1

    assert declared(script).play().error is None
    assert declared.texts() == ["go"]


# Secrets


def test_no_secret_is_left_in_what_is_written(declared: Declared) -> None:
    """Contract D.6 redaction: of messages in history and in the inbox, whoever puts them there, hooks included."""

    def leak(state: ThreadState, fields: dict[str, Any]) -> dict[str, Any]:
        return {**fields, "metadata": {"hook": "sesame"}} if fields["content"].startswith("hooked") else fields

    def script(state: ThreadState) -> Replies:
        assert state.execution is not None
        if state.execution.new_messages[0].content != "go":
            return
        said = yield state.inject_message("assistant", "open sesame", metadata={"sesame": ["sesame"]})
        yield state.update_message(said.id, content="again: sesame", metadata={"x": "sesame"})
        yield state.inject_message("assistant", "hooked")
        yield state.queue_message("queued sesame")

    declared(script, env={"K": "sesame"}, hooks=(hook("before_create_message", leak),))
    assert declared.play().error is None
    declared.rest().inject_message("system", "at rest: sesame").result(PATIENCE_S)

    stored = [one.model_dump() for one in declared.thread.messages().result().messages]
    assert "sesame" not in str(stored).replace("[secret:K]", "")
    assert declared.texts() == ["go", "again: [secret:K]", "hooked", "queued [secret:K]", "at rest: [secret:K]"]


def a_circle() -> dict[str, Any]:
    circle: dict[str, Any] = {}
    circle["again"] = [circle, circle]  # two ways round: to go 64 deep on both is without end, too
    return circle


def test_what_has_no_end_is_refused_through_the_reply_beside_a_secret_too(declared: Declared) -> None:
    """Contract D.6 redaction; D.3 inject_message: it is looked through for secrets only once it is known to be data."""

    def script(state: ThreadState) -> Replies:
        said = yield state.inject_message("assistant", "hello")
        for reply in (
            state.inject_message("assistant", "x", metadata=a_circle()),
            state.inject_message("assistant", "x", attachments=[a_circle()]),
            state.inject_message("assistant", "x", tool_calls=[a_circle()]),
            state.update_message(said.id, metadata=a_circle()),
            state.queue_message("x", metadata=a_circle()),
            state.queue_message("x", attachments=[a_circle()]),
            state.request("approval", a_circle()),
        ):
            error = reply.error()
            assert isinstance(error, InvalidInput | LimitExceeded), error

    assert declared(script, env={"K": "sesame"}).play().error is None


def test_a_hook_that_answers_with_what_has_no_end_changes_nothing_beside_a_secret_too(declared: Declared) -> None:
    """Contract E.7 failure: of an insert, of an update and of what has joined."""

    def created(state: ThreadState, fields: dict[str, Any]) -> dict[str, Any]:
        return {**fields, "metadata": a_circle()}

    def updated(state: ThreadState, message_id: str, updates: dict[str, Any]) -> dict[str, Any]:
        return {**updates, "metadata": a_circle()}

    def script(state: ThreadState) -> Replies:
        said = yield state.inject_message("assistant", "one")
        assert (said.content, said.metadata) == ("one", None)
        assert (yield state.update_message(said.id, content="two")).content == "two"

    hooks = (hook("before_create_message", created), hook("before_update_message", updated, "h2"))
    assert declared(script, env={"K": "sesame"}, hooks=hooks).play().error is None
    assert declared.texts() == ["go", "two"]


def test_a_plain_callable_is_redacted_from_when_it_has_met_a_secret(stage: Stage) -> None:
    """Contract D.6 redaction: it can have no secret of ours before."""

    def script(state: ThreadState) -> Replies:
        yield state.set_env("K", "sesame")
        yield state.inject_message("assistant", "open sesame")

    assert stage(script).play().error is None
    assert stage.texts() == ["go", "open [secret:K]"]


def _nothing(state: ThreadState) -> Replies:
    yield state.status()
