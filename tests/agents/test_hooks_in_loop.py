"""Every kind of hook where the step loop calls it: what it gets, what it changes, and what stays out of history."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from tests.agents.looping import PATIENCE_S, Play, beside_a_human, call
from treadle.actors import Reply
from treadle.actors.fence import ExecutionCancelled, ExecutionFenced
from treadle.agents import Hook, ThreadState, ToolResult, tool
from treadle.agents.hooks import HOOKS
from treadle.storage import LmdbStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from treadle.actors import Receipt
    from treadle.agents.models.seam import ModelMessage
    from treadle.protocol.messages import Message


@tool
async def look(state: ThreadState, what: str = "") -> str:
    """Look, unless it is dark."""
    if what == "dark":
        raise ValueError("too dark")
    return f"found {what}"


def made(kind: str, function: Callable[..., Any]) -> Hook:
    return Hook(kind, f"my_{kind}", function)


def test_the_system_message_may_be_changed() -> None:
    """Contract E.7 after_system_message: before each model step, for the request alone."""
    hooks = [made("after_system_message", lambda _state, text: f"{text} Be brief.")]
    agent, model = beside_a_human("hello", hooks=hooks)
    with Play(agent) as play:
        assert play.say().error is None
        assert play.told() == [("user", "go"), ("assistant", "hello")]
    assert model.requests[0].messages[0].content == "This is p. Be brief."


def test_filter_hooks_change_the_request_and_never_the_history() -> None:
    """Contract E.7 filter_messages; E.7 prefilter_llm_history; B request is a snapshot: in that order."""
    seen: list[list[str | None]] = []

    def newest(state: ThreadState, messages: list[Message]) -> list[Message]:
        assert state.execution is not None
        seen.append([one.content for one in state.execution.message_history])
        return [one.model_copy(update={"content": f"<{one.content}>"}) for one in messages[-1:]]

    def shout(state: ThreadState, messages: list[ModelMessage]) -> list[ModelMessage]:
        assert messages[-1].content == "<two>" or messages[-1].content == "<one>"
        return [*messages, type(messages[-1])("user", "LOUDER")]

    hooks = [made("filter_messages", newest), made("prefilter_llm_history", shout)]
    agent, model = beside_a_human("first", "second", hooks=hooks)
    with Play(agent) as play:
        play.say("one")
        play.say("two")
        assert play.told() == [("user", "one"), ("assistant", "first"), ("user", "two"), ("assistant", "second")]
    assert seen == [["one"], ["one", "first", "two"]]
    assert [one.content for one in model.requests[1].messages] == ["This is p.", "<two>", "LOUDER"]


def test_hooks_around_a_call_see_it_and_may_change_its_result() -> None:
    """Contract E.7 tool_call_started; E.7 before_store_tool_result; E.7 after_tool_call_success; E.7 tool_call_done: in order."""
    order: list[tuple[str, str]] = []

    def started(state: ThreadState, given: dict[str, Any]) -> None:
        order.append(("started", given["function"]["name"]))

    def storing(state: ThreadState, given: dict[str, Any], result: ToolResult) -> ToolResult:
        order.append(("storing", result.result or ""))
        return result.model_copy(update={"result": f"{result.result}, stored"})

    def succeeded(state: ThreadState, given: dict[str, Any], result: ToolResult) -> ToolResult:
        order.append(("succeeded", result.result or ""))
        return result

    def done(state: ThreadState, given: dict[str, Any], result: ToolResult) -> None:
        order.append(("done", result.result or ""))

    hooks = [
        made("tool_call_started", started),
        made("before_store_tool_result", storing),
        made("after_tool_call_success", succeeded),
        made("tool_call_done", done),
    ]
    agent, _ = beside_a_human([call("look", what="it")], "seen", tools=[look], hooks=hooks)
    with Play(agent) as play:
        assert play.say().error is None
        assert play.results() == {"c1": [("success", "found it, stored")]}
    assert order == [
        ("started", "look"),
        ("storing", "found it"),
        ("succeeded", "found it, stored"),
        ("done", "found it, stored"),
    ]


@pytest.mark.parametrize("what", ["it", "dark"])
def test_a_hook_that_drops_a_call_keeps_it_from_the_model_and_not_from_history(what: str) -> None:
    """Contract E.7 after_tool_call_success; E.7 after_tool_call_failure: None, for either end."""
    hooks = [made(f"after_tool_call_{end}", lambda *_given: None) for end in ("success", "failure")]
    agent, model = beside_a_human([call("look", what=what)], "done", tools=[look], hooks=hooks)
    with Play(agent) as play:
        assert play.say().error is None
        ((status, _),) = play.results()["c1"]
        assert status == ("success" if what == "it" else "error")
    assert [(one.role, one.content) for one in model.requests[1].messages[1:]] == [("user", "go")]


def test_create_hooks_run_for_each_row_and_for_what_joins() -> None:
    """Contract D.4 create hooks; E.7 before_create_message; E.7 after_create_message: a drain is an insert."""
    created: list[tuple[str, str | None]] = []

    def before(state: ThreadState, fields: dict[str, Any]) -> dict[str, Any]:
        return {**fields, "metadata": {**(fields["metadata"] or {}), "marked": True}}

    async def after(state: ThreadState, message: Message) -> None:
        created.append((message.role, message.content))

    @tool
    async def queue(state: ThreadState) -> str:
        """Queue a message to the own thread."""
        await state.queue_message("and this")
        return "queued"

    hooks = [made("before_create_message", before), made("after_create_message", after)]
    agent, model = beside_a_human([call("queue")], "answer", tools=[queue], hooks=hooks)
    with Play(agent) as play:
        assert play.say().error is None
        assert all((one.metadata or {}).get("marked") for one in play.messages())
        texts = [one.content for one in play.messages()]
    assert created == [
        ("user", "go"),
        ("assistant", None),
        ("tool", "queued"),
        ("user", "and this"),
        ("assistant", "answer"),
    ]
    assert texts == ["go", None, "queued", "and this", "answer"]
    assert model.requests[1].messages[-1].content == "and this"


def test_a_before_hook_that_raises_keeps_nothing_of_the_loop_from_being_stored() -> None:
    """Contract E.7 failure: only who injects gets the error; the loop's rows and what joins are stored as they are."""

    def refuse(state: ThreadState, fields: dict[str, Any]) -> None:
        raise PermissionError("no")

    agent, _ = beside_a_human(
        [call("look", what="it")], "seen", tools=[look], hooks=[made("before_create_message", refuse)]
    )
    with Play(agent) as play:
        assert play.say().error is None
        assert [content for _, content in play.told()] == ["go", None, "found it", "seen"]


def test_a_new_thread_is_told_of_once_at_rest() -> None:
    """Contract E.7 after_thread_created: with an execution of None, and never again."""
    told: Reply[tuple[str, bool]] = Reply()
    count: list[int] = []

    async def created(state: ThreadState) -> None:
        count.append(1)
        await state.inject_message("system", "welcome")
        told.set((state.agent_id, state.execution is None))

    agent, _ = beside_a_human("hello", hooks=[made("after_thread_created", created)])
    with Play(agent) as play:
        assert told.result(PATIENCE_S) == ("agent", True)
        assert play.say().error is None
        assert play.told() == [("system", "welcome"), ("user", "go"), ("assistant", "hello")]
    assert count == [1]


@pytest.mark.parametrize("kind", sorted(set(HOOKS) - {"after_thread_created"}))
@pytest.mark.parametrize("garbage", ["raise", 7], ids=str)
def test_no_hook_that_fails_ends_a_run(kind: str, garbage: object) -> None:
    """Contract E.7 failure: of any kind, at its place in the loop; the thread says what it would have said."""
    called: list[int] = []

    def bad(*_given: object) -> object:
        called.append(1)
        if garbage == "raise":
            raise RuntimeError("broken hook")
        return garbage

    turns = ([call("look", what="it"), call("look", "c2", what="dark"), call("edit", "c3")], "seen", "still here")
    agent, _ = beside_a_human(*turns, tools=[look, edit], hooks=[made(kind, bad)])
    with Play(agent) as play:
        record = play.say()
        assert (record.status, record.reason) == ("succeeded", "stop_on_response")
        assert play.told()[-1] == ("assistant", "seen")
        assert {name: len(found) for name, found in play.results().items()} == {"c1": 1, "c2": 1, "c3": 1}
        assert play.say("again").error is None
        assert play.told()[-1] == ("assistant", "still here")
    assert called


@tool
async def edit(state: ThreadState) -> str:
    """Change the first message."""
    assert state.execution is not None
    await state.update_message(state.execution.message_history[0].id, metadata={"edited": True})
    return "edited"


# The inbox


def test_what_was_queued_outlives_the_process(tmp_path: Path) -> None:
    """Contract D.4 durable; D.4 hold: a hold keeps it waiting, also over a reopen."""
    agent, _ = beside_a_human("hello")
    with Play(agent, store=LmdbStore(tmp_path / "store")) as play:
        play.thread.stop().result(PATIENCE_S)
        ThreadState.at_rest(play.thread).queue_message("kept").result(PATIENCE_S)
        thread_id = play.thread.id
    with Play(agent, store=LmdbStore(tmp_path / "store")) as play:
        thread = play.runtime.thread(thread_id)
        (waiting,) = thread.messages().result(PATIENCE_S).messages
        assert (waiting.content, waiting.status) == ("kept", "pending")
        thread.wait(thread.resume().result(PATIENCE_S)).result(PATIENCE_S)
        assert [one.content for one in thread.messages().result(PATIENCE_S).messages] == ["kept", "hello"]


def test_what_a_stopped_run_left_starts_another() -> None:
    """Contract D.4 left over: rows that it did not read are the next execution's."""

    left: list[Receipt] = []

    @tool
    async def leave(state: ThreadState) -> str:
        """Queue a message, and stop."""
        assert state.execution is not None
        left.append(await state.queue_message("for the next"))
        state.execution.stop()
        return "stopped"

    agent, _ = beside_a_human([call("leave")], "read it", tools=[leave])
    with Play(agent) as play:
        assert play.say().reason == "stopped"
        play.thread.wait(left[0]).result(PATIENCE_S)
        assert play.told()[-2:] == [("user", "for the next"), ("assistant", "read it")]
        assert play.thread.executions().result(PATIENCE_S).total == 2


def copied(**changes: Any) -> Callable[..., Any]:
    """A hook that changes what it gets by `model_copy`, which checks nothing."""

    def changing(_state: ThreadState, *given: Any) -> Any:
        last = given[-1]
        return (
            [one.model_copy(update=changes) for one in last]
            if isinstance(last, list)
            else last.model_copy(update=changes)
        )

    return changing


@pytest.mark.parametrize("kind", ["before_store_tool_result", "after_tool_call_success", "after_tool_call_failure"])
@pytest.mark.parametrize(
    "changes",
    [{"result": 5, "error": 5}, {"status": "maybe"}, {"attachments": 5}, {"attachments": ({"x": object()},)},
     {"error_data": object()}, {"error_code": object()}],
)  # fmt: skip
def test_a_result_that_a_hook_filled_with_garbage_stays_as_it_was(kind: str, changes: dict[str, Any]) -> None:
    """Contract E.7 failure: garbage inside of a result is garbage, too."""
    agent, _ = beside_a_human(
        [call("look", what="it"), call("look", "c2", what="dark")],
        "done",
        tools=[look],
        hooks=[made(kind, copied(**changes))],
    )
    with Play(agent) as play:
        assert play.say().reason == "stop_on_response"
        assert play.results() == {
            "c1": [("success", "found it")],
            "c2": [("error", "Failed to execute tool: ValueError: too dark")],
        }


@pytest.mark.parametrize(
    "changes",
    [{"tool_calls": "garbage"}, {"tool_calls": "[1]"}, {"metadata": 5}, {"attachments": 5}, {"tool_call_id": 5}, {"role": "x"},
     {"content": 5}, {"depth": "x", "created_at": None}],
)  # fmt: skip
def test_messages_that_a_hook_filled_with_garbage_stay_as_they_were(changes: dict[str, Any]) -> None:
    """Contract E.7 failure: garbage inside of a message is garbage, too."""
    agent, model = beside_a_human(
        call("look", what="it"), "done", tools=[look], hooks=[made("filter_messages", copied(**changes))]
    )
    with Play(agent) as play:
        assert play.say().reason == "stop_on_response"
    assert [one.content for one in model.requests[1].messages] == ["This is p.", "go", None, "found it"]


@pytest.mark.parametrize(
    "garbage", [{"role": "nobody"}, {"content": 5}, {"tool_calls": (5,)}, {"tool_calls": None}, {"attachments": (5,)}]
)
def test_what_a_model_is_told_is_no_garbage_of_a_hook(garbage: dict[str, Any]) -> None:
    """Contract E.7 failure: the same for the messages as a model gets them."""

    def spoil(_state: ThreadState, messages: list[ModelMessage]) -> list[ModelMessage]:
        return [*messages, type(messages[-1])(**{"role": "user", **garbage})]

    agent, model = beside_a_human("done", hooks=[made("prefilter_llm_history", spoil)])
    with Play(agent) as play:
        assert play.say().reason == "stop_on_response"
    assert [one.content for one in model.requests[0].messages] == ["This is p.", "go"]


IN_A_STEP = sorted(HOOKS.keys() - {"after_thread_created", "before_update_message", "after_update_message"})


@pytest.mark.parametrize("kind", IN_A_STEP)
@pytest.mark.parametrize("ending", [ExecutionCancelled("another"), ExecutionFenced("another"), None])
def test_a_hook_that_meets_the_end_of_something_else_is_logged_and_the_run_goes_on(
    kind: str, ending: BaseException | None
) -> None:
    """Contract E.7 failure: of another execution, whose state it had kept, or of its own task, which it cancelled."""

    async def ends(_state: ThreadState, *given: Any) -> Any:
        if ending is not None:
            raise ending
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        return given[-1]

    agent, _ = beside_a_human(
        [call("look", what="it"), call("look", "c2", what="dark")], "done", tools=[look], hooks=[made(kind, ends)]
    )
    with Play(agent) as play:
        assert play.say().reason == "stop_on_response"
        assert [len(found) for found in play.results().values()] == [1, 1]
