"""Tests agents/definitions.py: a namespace finds what it was given and what that holds, and nothing else."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import pytest

from treadle.agents import (
    Agent,
    DefinitionNotFound,
    Definitions,
    Model,
    Prompt,
    PromptTool,
    Side,
    SubPrompt,
    agent,
    handler,
    hook,
    tool,
)
from treadle.agents.models import FunctionModel

if TYPE_CHECKING:
    from treadle.agents import ThreadState

ECHO = FunctionModel(lambda request: "yes", name="echo")
SPARE = Model(name="spare", model=ECHO)
MAIN = Model(name="main", model=ECHO, fallbacks=[SPARE, "last", SPARE])
LAST = Model(name="last", model=ECHO, fallbacks=["main"])


@tool
def look(state: object) -> None: ...


@hook("after_system_message", id="add_date")
def add_date(state: object, text: str) -> str:
    return text


@hook("filter_messages", id="newest")
def newest(state: object, messages: list[object]) -> list[object]:
    return messages


@handler
async def relay(state: object, message: object) -> None: ...


@agent
async def coded(state: ThreadState) -> None: ...


DEEP = Prompt(name="deep", prompt="Deep.", model=SPARE)
ASK = Prompt(name="ask", prompt="Ask.", model="main", tools=[DEEP], hooks=[newest])
SUPPORT = Prompt(name="support", prompt="Help.", model=MAIN, tools=[look, ASK])


def desk(**more: Any) -> Agent:
    return Agent(
        **{"name": "desk", "side_a": Side(prompt=SUPPORT), "side_b": Side(handler=relay), "hooks": [add_date], **more}
    )


def test_what_definitions_hold_as_objects_is_found_by_name() -> None:
    made = desk()
    definitions = Definitions(agents=[made], models=[LAST])

    assert definitions.agent("desk") is made
    assert definitions.body("desk") is made
    assert definitions.prompt("deep") is DEEP
    assert definitions.model("spare") is SPARE
    assert definitions.tool("look") is look
    assert definitions.hook("newest") is newest
    assert definitions.handler("relay") is relay
    assert definitions.agent_names() == ["desk"]
    assert definitions.prompt_names() == ["ask", "deep", "support"]
    assert definitions.model_names() == ["last", "main", "spare"]
    assert definitions.tool_names() == ["look"]
    assert definitions.hook_names() == ["add_date", "newest"]
    assert definitions.handler_names() == ["relay"]


def test_an_object_is_its_own_look_up() -> None:
    empty = Definitions()

    assert empty.prompt(DEEP) is DEEP
    assert empty.model(SPARE) is SPARE
    assert empty.tool(look) is look
    assert empty.hook(newest) is newest
    assert empty.handler(relay) is relay


@pytest.mark.parametrize("kind", ["agent", "body", "prompt", "model", "tool", "hook", "handler", "callable"])
def test_an_unknown_name_is_a_documented_error(kind: str) -> None:
    with pytest.raises(DefinitionNotFound) as caught:
        getattr(Definitions(agents=[desk()]), kind)("nobody")

    with pytest.raises(DefinitionNotFound):
        getattr(Definitions(agents=[desk()]), kind)(["no", "name"])

    error = caught.value
    said = {"body": "agent", "callable": "tool"}.get(kind, kind)
    assert (error.code, error.details) == ("definition_not_found", {"kind": said, "name": "nobody"})
    assert str(pickle.loads(pickle.dumps(error))) == str(error) == f"{said.capitalize()} not found: nobody"


@pytest.mark.parametrize("name", [None, 3, ["support"], ""])
def test_what_is_no_name_is_not_found_either(name: Any) -> None:
    with pytest.raises(DefinitionNotFound):
        Definitions(agents=[desk()]).prompt(name)


def test_a_tool_hides_a_prompt_and_a_prompt_an_agent_where_a_call_names_them() -> None:
    @tool(name="both")
    def both(state: object) -> None: ...

    prompt = Prompt(name="both", prompt="x", model=MAIN)
    agent_too = desk(name="both")

    assert Definitions(agents=[agent_too], prompts=[prompt], tools=[both]).callable("both") is both
    assert Definitions(agents=[agent_too], prompts=[prompt]).callable("both") is prompt
    assert Definitions(agents=[agent_too]).callable("both") is agent_too


def test_the_entries_of_a_prompt_are_offered_by_name_and_in_order() -> None:
    """Contract E.3 tools: tools entries are names of tools, prompts and agents, or configurations of these."""
    with_more = PromptTool(name="look", env={"REGION": "eu"})
    below = SubPrompt(name="ask", include_errors=False)
    prompt = Prompt(name="main", prompt="x", model=MAIN, tools=["desk", with_more, below, DEEP])
    definitions = Definitions(agents=[desk()], prompts=[prompt])

    offered = definitions.offered(prompt)

    assert [(name, one.kind, one.entry) for name, one in offered.items()] == [
        ("desk", "agent", None), ("look", "tool", with_more), ("ask", "prompt", below), ("deep", "prompt", None),
    ]  # fmt: skip
    assert offered["look"].target is look
    assert definitions.offered(prompt) is offered


def test_entries_that_name_nothing_are_not_found() -> None:
    for entry in ("nobody", PromptTool(name="nobody"), SubPrompt(name="look")):
        prompt = Prompt(name="main", prompt="x", model=MAIN, tools=[entry, look])
        with pytest.raises(DefinitionNotFound):
            Definitions(prompts=[prompt]).offered(prompt)


def test_a_chain_of_models_is_the_model_and_its_own_fallbacks_each_once() -> None:
    """Contract E.5 fallbacks: a model has fallbacks, asked in order."""
    definitions = Definitions(models=[MAIN, LAST])

    assert definitions.model_chain("main") == (MAIN, SPARE, LAST)
    assert definitions.model_chain(LAST) == (LAST, MAIN)


def test_agents_of_the_runtime_are_in_reach_once_it_is_bound() -> None:
    """Contract E.3 handoff: an agent name in prompt tools is a handoff."""
    made, other = desk(), Agent(name="other", side_a=Side(prompt=DEEP))
    definitions = Definitions(agents=[made], models=[LAST])
    bodies: dict[str, Any] = {"desk": made, "other": other, "coded": coded}

    assert made.bind(bodies) == []
    assert definitions.agent("other") is other
    assert definitions.body("coded") is coded
    assert definitions.callable("coded") is coded
    assert definitions.agent_names() == ["coded", "desk", "other"]
    with pytest.raises(DefinitionNotFound):
        definitions.agent("coded")


def test_agents_of_one_namespace_report_its_problems_once() -> None:
    first, second = desk(name="first", hooks=["nothing"]), desk(name="second")
    Definitions(agents=[second, first], models=[LAST])
    bodies: dict[str, Any] = {"coded": coded, "first": first, "second": second}

    assert first.bind(bodies) == ["agent 'first': hooks: no hook is called 'nothing'"]
    assert second.bind(bodies) == []


def test_a_namespace_bound_by_two_runtimes_keeps_the_agents_of_both() -> None:
    made = desk()
    definitions = Definitions(agents=[made], models=[LAST])
    made.bind({"desk": made, "coded": coded})
    made.bind({"desk": made})

    assert definitions.body("coded") is coded
