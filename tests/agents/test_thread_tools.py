"""Tests agents/thread_tools.py: loading, queueing and invoking; awaiting and blocking, on both stores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.agents.declared import silent
from tests.agents.stage import PATIENCE_S
from treadle.actors import ExecutionCancelled, ExecutionFenced, Reply
from treadle.agents import DefinitionNotFound, ThreadState, tool
from treadle.agents.flow import flow_of
from treadle.protocol.errors import InvalidInput

if TYPE_CHECKING:
    from tests.agents.declared import Declared
    from tests.agents.stage import Replies, Stage
    from treadle.agents.flow import Flow


@tool
async def add(state: ThreadState, first: int, second: int = 1) -> str:
    """Add two numbers."""
    return str(first + second)


@tool
def whose(state: ThreadState) -> dict[str, object]:
    """Tell whose thread it is, on a worker."""
    return {"user": state.user_id, "at_rest": state.execution is None}


@tool
async def fail(state: ThreadState) -> None:
    """Fail."""
    raise RuntimeError("no luck")


@tool(uses=("add",))
async def careful(state: ThreadState, name: str) -> Any:
    """Queue and invoke another tool."""
    state.queue_tool(name, {"first": 1})
    return await state.invoke_tool(name, {"first": 2})


TOOLS = (add, whose, fail, careful)


def flow(state: ThreadState) -> Flow:
    assert state._execution is not None
    found = flow_of(state._execution)
    assert found is not None
    return found


# Invoking


def test_a_tool_is_invoked_now_and_leaves_no_message(declared: Declared) -> None:
    """Contract D.7 invoke_tool: of any class, whatever the prompt lists; its result is the reply's."""

    def script(state: ThreadState) -> Replies:
        result = yield state.invoke_tool("add", {"first": 2, "second": 3})
        assert (result.status, result.result) == ("success", "5")
        result = yield state.invoke_tool("whose")
        assert result.result == '{"user": "u1", "at_rest": false}'
        result = yield state.invoke_tool("fail")
        assert result.status == "error"
        assert "no luck" in result.error
        result = yield state.invoke_tool("add", {"first": "many"})
        assert (result.status, "first" in result.error) == ("error", True)
        result = yield state.invoke_tool("nobody")
        assert (result.status, "nobody" in result.error) == ("error", True)

    assert declared(script, tools=TOOLS).play().error is None
    assert declared.texts(include_silent=True, max_depth=8) == ["go"]


def test_a_tool_is_invoked_at_rest(declared: Declared) -> None:
    """Contract D.7 invoke_tool: with an execution of None; nothing starts."""
    declared(_nothing, tools=TOOLS)
    rest = declared.rest()

    assert rest.invoke_tool("add", {"first": 1}).result(PATIENCE_S).result == "2"
    assert rest.invoke_tool("whose").result(PATIENCE_S).result == '{"user": "u1", "at_rest": true}'
    assert rest.invoke_tool("fail").result(PATIENCE_S).status == "error"
    assert declared.thread.executions().result().total == 0


def test_what_the_calling_tool_does_not_use_is_an_error_result(declared: Declared) -> None:
    """Contract D.7 invoke_tool uses: not an exception."""

    def script(state: ThreadState) -> Replies:
        flow(state).caller = careful
        result = yield state.invoke_tool("whose")
        assert (result.status, result.error_code) == ("error", "tool_not_allowed")
        assert (yield state.invoke_tool("add", {"first": 1})).status == "success"
        flow(state).caller = add  # which declares none, and so may use all
        assert (yield state.invoke_tool("whose")).status == "success"

    assert declared(script, tools=TOOLS).play().error is None


def test_bad_arguments_of_a_call_come_through_the_reply(declared: Declared) -> None:
    def script(state: ThreadState) -> Replies:
        for name, args in (("", {}), (7, {}), ("add", [1]), ("add", {"first": object()})):
            with pytest.raises(InvalidInput):
                yield state.invoke_tool(name, args)  # type: ignore[arg-type]
            with pytest.raises(InvalidInput):
                state.queue_tool(name, args)  # type: ignore[arg-type]

    assert declared(script, tools=TOOLS).play().error is None


def test_an_interrupt_ends_an_invoked_tool(declared: Declared) -> None:
    begun: Reply[None] = Reply()

    @tool
    async def hang(state: ThreadState) -> None:
        """Hang."""
        begun.set(None)
        await state.sleep(3600)

    def script(state: ThreadState) -> Replies:
        try:
            yield state.invoke_tool("hang")
        except ExecutionCancelled:
            with pytest.raises(ExecutionCancelled):
                yield state.invoke_tool("add", {"first": 1})
            yield state.inject_message("assistant", "stopping")
            raise

    receipt = declared(script, tools=(hang, add)).thread.submit("go").result(PATIENCE_S)
    begun.result(PATIENCE_S)
    assert receipt.execution_id is not None
    declared.thread.interrupt(receipt.execution_id).result(PATIENCE_S)

    assert declared.thread.wait(receipt).result(PATIENCE_S).status == "cancelled"
    assert declared.texts() == ["go", "stopping"]


def test_a_state_that_is_over_invokes_nothing(declared: Declared) -> None:
    kept: list[ThreadState] = []

    def script(state: ThreadState) -> Replies:
        kept.append(state)
        yield state.invoke_tool("add", {"first": 1})

    assert declared(script, tools=TOOLS).play().error is None
    with pytest.raises((ExecutionFenced, ExecutionCancelled)):
        kept[0].invoke_tool("add", {"first": 1}).result(PATIENCE_S)


# Queueing


def test_in_an_execution_a_tool_is_queued_for_the_step_at_once(declared: Declared) -> None:
    """Contract D.7 queue_tool: with an id of its own, whatever the prompt lists, in the order queued."""

    def script(state: ThreadState) -> Replies:
        given = {"first": 1}
        reply = state.queue_tool("add", given)
        assert reply.done()
        given["first"] = 2
        state.queue_tool("unknown")
        queue = flow(state).tool_queue
        assert [(one.name, one.arguments) for one in queue] == [("add", {"first": 1}), ("unknown", {})]
        assert queue[0].call_id != queue[1].call_id
        yield reply

    assert declared(script, tools=TOOLS).play().error is None


def test_a_tool_queues_only_what_it_uses(declared: Declared) -> None:
    """Contract D.7 queue_tool uses: it is raised at the call."""

    def script(state: ThreadState) -> Replies:
        flow(state).caller = careful
        with pytest.raises(InvalidInput, match="'whose'") as refused:
            state.queue_tool("whose")
        assert (refused.value.code, refused.value.details["tool"]) == ("tool_not_allowed", "careful")
        assert flow(state).tool_queue == []
        yield state.queue_tool("add")

    assert declared(script, tools=TOOLS).play().error is None


def test_at_rest_a_queued_tool_starts_an_execution(declared: Declared) -> None:
    """Contract D.7 queue_tool at rest: with the call on record, and without the secrets in it."""
    calls: list[str | None] = []

    def script(state: ThreadState) -> Replies:
        assert state.execution is not None
        calls.extend(one.tool_calls for one in state.execution.new_messages)
        yield state.status()

    declared(script, tools=TOOLS, env={"K": "sesame"})
    rest = declared.rest()
    rest.queue_tool("add", {"first": 1, "note": "sesame"}).result(PATIENCE_S)
    (record,) = declared.thread.executions().result().executions
    declared.thread.wait(record.execution_id).result(PATIENCE_S)

    (call,) = calls
    assert call is not None
    assert '"add"' in call
    assert "sesame" not in call


def test_a_plain_callable_has_no_tools_to_queue_or_invoke(stage: Stage) -> None:
    def script(state: ThreadState) -> Replies:
        with pytest.raises(InvalidInput) as refused:
            state.queue_tool("add")
        assert refused.value.code == "no_step_loop"
        with pytest.raises(InvalidInput) as refused:
            yield state.invoke_tool("add")
        assert refused.value.code == "no_step_loop"

    assert stage(script).play().error is None
    rest = ThreadState.at_rest(stage.thread)
    with pytest.raises(InvalidInput):
        rest.queue_tool("add")


# Loading


def test_definitions_are_loaded_by_name(declared: Declared) -> None:
    """Contract D.6 loaders; D.6 names: in an execution and at rest; an unknown name is an error."""

    def script(state: ThreadState) -> Replies:
        assert (yield state.load_prompt("p")).name == "p"
        assert (yield state.load_model("m")).model.function is silent
        assert (yield state.load_agent("actor")).name == "actor"
        for load in (state.load_prompt, state.load_model, state.load_agent):
            for name in ("nobody", "", 7):
                with pytest.raises(DefinitionNotFound):
                    yield load(name)  # type: ignore[operator]
        assert state.get_prompt_names() == ["p"]
        assert state.get_model_names() == ["m"]
        assert state.get_agent_names() == ["actor"]

    assert declared(script).play().error is None
    rest = declared.rest()
    assert rest.load_prompt("p").result(PATIENCE_S).name == "p"
    assert rest.get_agent_names() == ["actor"]


def test_a_plain_callable_finds_the_runtimes_agents_and_nothing_else(stage: Stage) -> None:
    """Contract D.6 loaders; D.6 names."""

    def script(state: ThreadState) -> Replies:
        assert (yield state.load_agent("actor")).name == "actor"
        assert state.get_agent_names() == ["actor"]
        assert state.get_prompt_names() == state.get_model_names() == []
        for load in (state.load_prompt, state.load_model, state.load_agent):
            with pytest.raises(DefinitionNotFound):
                yield load("nobody")  # type: ignore[operator]

    assert stage(script).play().error is None


def _nothing(state: ThreadState) -> Replies:
    yield state.status()
