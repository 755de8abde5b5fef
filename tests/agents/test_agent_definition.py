"""Tests agents/agent_definition.py: a declared agent, what it is to a runtime, and where its names are looked up."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from treadle.actors import Runtime
from treadle.agents import Agent, DefinitionNotFound, Definitions, Model, Prompt, Side, hook
from treadle.agents.models import FunctionModel
from treadle.protocol.errors import InvalidDefinitions
from treadle.storage import MemoryStore

if TYPE_CHECKING:
    from treadle.agents import ThreadState

MAIN = Model(name="main", model=FunctionModel(lambda request: "yes"))
SUPPORT = Prompt(name="support", prompt="Help.", model=MAIN)


def agent(**more: Any) -> Agent:
    return Agent(**{"name": "desk", "side_a": Side(prompt=SUPPORT), **more})


def test_side_b_is_a_human_by_default_and_both_sides_may_be_models() -> None:
    """Contract E.2 agent: ai_human is side B {human: true}; dual_ai is two runtime-backed sides."""
    assert agent().side_b == Side(human=True)
    assert agent(side_b=Side(prompt="customer")).side_b.backing == "prompt"
    with pytest.raises(ValidationError):
        Agent.model_validate({"name": "desk"})


def test_the_defaults_are_the_contracts() -> None:
    """Contract E.2 agent: exposeAsTool=false, primary=true, no maxSessionTurns."""
    made = agent()

    assert (made.expose_as_tool, made.primary, made.max_session_turns) == (False, True, None)


def test_the_type_of_older_versions_is_gone() -> None:
    """Contract E.2 agent: type is gone."""
    with pytest.raises(ValidationError):
        agent(type="ai_human")


@pytest.mark.parametrize(
    "wrong", [{"max_session_turns": 0}, {"timeout": 0}, {"timeout": float("inf")}, {"on_lost": "retry"}]
)
def test_what_is_no_setting_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        agent(**wrong)


def test_an_agent_alone_looks_up_what_it_reaches() -> None:
    alone = agent()

    assert alone.definitions is alone.definitions
    assert alone.definitions.prompt("support") is SUPPORT
    with pytest.raises(DefinitionNotFound):
        alone.definitions.prompt("other")


def test_definitions_give_their_agents_themselves() -> None:
    made = agent()
    first, second = Definitions(agents=[made]), Definitions(agents=[made])

    assert made.definitions is second
    assert first.agent("desk") is made


def test_a_copy_of_an_agent_has_a_namespace_of_its_own() -> None:
    made = agent()
    Definitions(agents=[made], prompts=[Prompt(name="other", prompt="x", model=MAIN)])
    copied = made.model_copy(update={"name": "copy"})

    assert made.definitions.prompt_names() == ["other", "support"]
    assert copied.definitions.agent("copy") is copied
    assert copied.definitions.prompt_names() == ["support"]


def test_values_of_variables_are_shown_in_no_repr() -> None:
    made = agent(env={"KEY": "hunter22"})

    assert repr(made) == "<agent 'desk' prompt and human>"
    assert "hunter22" not in str(made)


def test_a_runtime_that_opens_names_all_that_is_wrong_at_once() -> None:
    """Contract E.2 both human: both sides human is rejected."""
    human = Agent(name="people", side_a=Side(human=True))
    unknown = agent(side_a=Side(prompt="nobody"), hooks=["nothing"])

    with pytest.raises(InvalidDefinitions) as caught:
        with Runtime(MemoryStore(), agents=[human, unknown]):
            raise AssertionError("it opened")

    assert caught.value.details["problems"] == [
        "agent 'people': both sides are human",
        "agent 'desk': hooks: no hook is called 'nothing'",
        "agent 'desk': side_a: no prompt is called 'nobody'",
    ]


def test_a_runtime_runs_a_declared_agent_and_its_hook_hears_of_the_new_thread() -> None:
    """Contract E.7 after_thread_created: after_thread_created, once."""
    told: list[str] = []
    heard = threading.Event()

    @hook("after_thread_created", id="greet")
    def greet(state: ThreadState) -> None:
        told.append(state.thread_id)
        heard.set()

    with Runtime(MemoryStore(), agents=[agent(hooks=[greet])]) as runtime:
        thread = runtime.create_thread("desk").result()
        assert heard.wait(60)

        receipt = thread.submit("hello").result()
        thread.wait(receipt).result()

        assert [m.content for m in thread.messages().result().messages] == ["hello", "yes"]
    assert told == [thread.id]


def test_without_such_a_hook_nobody_is_called_for_a_new_thread() -> None:
    @hook("after_thread_created", id="greet")
    def greet(state: ThreadState) -> None: ...

    assert agent().created is None
    assert agent(hooks=[greet]).created is not None
    assert agent(side_a=Side(prompt=SUPPORT.model_copy(update={"hooks": (greet,)}))).created is not None
