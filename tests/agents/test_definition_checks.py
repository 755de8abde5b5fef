"""Tests agents/definition_checks.py: all that is wrong with definitions is found, each said once, and nothing that is right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, RootModel

from treadle.agents import (
    Agent,
    Binding,
    Definitions,
    IncludePart,
    Model,
    Prompt,
    PromptTool,
    Side,
    SubPrompt,
    Variable,
    handler,
    hook,
    tool,
)
from treadle.agents.hooks import HOOKS
from treadle.agents.models import FunctionModel

ECHO = FunctionModel(lambda request: "yes", name="echo")
MAIN = Model(name="main", model=ECHO)


@tool
def look(state: object, order_id: int) -> None: ...


@handler
async def relay(state: object, message: object) -> None: ...


class Slow(BaseModel, regex_engine="python-re"):
    word: str = Field(pattern="(a+)+$")


class Unshown(BaseModel):
    made: Callable[[], int]


def prompt(name: str = "support", **more: Any) -> Prompt:
    return Prompt(**{"name": name, "prompt": "Help.", "model": MAIN, **more})


def agent(**more: Any) -> Agent:
    return Agent(**{"name": "desk", "side_a": Side(prompt=prompt()), **more})


def problems(**given: Any) -> list[str]:
    return Definitions(**given).problems()


def test_what_fits_together_has_no_problems() -> None:
    class Question(BaseModel):
        text: str

    @tool
    def finish(state: object, text: str, files: list[str] | None = None) -> None: ...

    @tool(uses=["look", "ask", "desk"])
    def busy(state: object) -> None: ...

    ask = prompt("ask", required_schema=Question, prompt=[IncludePart(prompt="tone")])
    support = prompt(
        tools=[look, finish, busy, "desk", SubPrompt(name="ask", init_user_message_property="text")],
        prompt=[IncludePart(prompt="tone"), IncludePart(prompt="ask")],
        tool_choice="required",
        variables=[Variable(name="A"), Variable(name="B")],
    )
    done = Binding(name="finish", message_property="text", attachments_property="files")
    side = Side(prompt="support", session_stop=done, stop_tool="look", stop_tool_response_property="order_id")
    other = Side(handler="relay")

    assert (
        problems(agents=[agent(side_a=side, side_b=other)], prompts=[support, ask, prompt("tone")], handlers=[relay])
        == []
    )


NOTHING = "nothing is called 'x': no tool, no prompt and no agent"
UNKNOWN: list[tuple[dict[str, Any], str]] = [
    ({"agents": [agent(side_a=Side(prompt="nobody"))]}, "agent 'desk': side_a: no prompt is called 'nobody'"),
    ({"agents": [agent(side_b=Side(handler="nobody"))]}, "agent 'desk': side_b: no handler is called 'nobody'"),
    ({"agents": [agent(hooks=["nothing"])]}, "agent 'desk': hooks: no hook is called 'nothing'"),
    ({"prompts": [prompt(model="none")]}, "prompt 'support': model: no model is called 'none'"),
    ({"prompts": [prompt(hooks=["nothing"])]}, "prompt 'support': hooks: no hook is called 'nothing'"),
    ({"prompts": [prompt(prompt=[IncludePart(prompt="x")])]}, "prompt 'support': include: no prompt is called 'x'"),
    ({"prompts": [prompt(tools=["x"])]}, f"prompt 'support': tools: {NOTHING}"),
    ({"prompts": [prompt(tools=[PromptTool(name="x")])]}, f"prompt 'support': tools: {NOTHING}"),
    ({"prompts": [prompt(tools=[SubPrompt(name="x")])]}, "prompt 'support': tools: no prompt is called 'x'"),
    ({"models": [Model(name="a", model=ECHO, fallbacks=["b"])]}, "model 'a': fallbacks: no model is called 'b'"),
    ({"tools": [tool(name="t", uses=["x"])(lambda state: None)]}, "tool 't': uses 'x', which nothing is called"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "said"), UNKNOWN)
def test_an_unknown_name_is_told_with_its_place(given: dict[str, Any], said: str) -> None:
    assert problems(**given) == [said]


def test_both_sides_human_are_told() -> None:
    """Contract E.2 both human: both sides human is rejected."""
    assert problems(agents=[agent(side_a=Side(human=True))]) == ["agent 'desk': both sides are human"]


OTHERS: list[tuple[dict[str, Any], str]] = [
    ({"models": [Model(name="a", model=ECHO, fallbacks=["a"])]}, "model 'a': is its own fallback"),
    ({"prompts": [prompt(tool_choice="required")]}, "prompt 'support': tool_choice is 'required', and it has no tools"),
    ({"prompts": [prompt(tools=[look, "look"])]}, "prompt 'support': tools: 'look' is there twice"),
    (
        {"prompts": [prompt(variables=[Variable(name="A"), Variable(name="A")])]},
        "prompt 'support': variables: 'A' is there twice",
    ),
    (
        {"prompts": [prompt(required_schema={"type": "array"})]},
        "prompt 'support': required_schema: its type is not 'object'",
    ),
    (
        {"prompts": [prompt(required_schema={"type": "object", "properties": {"id": {"pattern": r"(\w)\1"}}})]},
        r"prompt 'support': required_schema: properties.id: the pattern '(\\w)\\1' cannot be used: backreferences are not supported",
    ),
    (
        {"prompts": [prompt(required_schema=Slow)]},
        ("prompt 'support': required_schema: the pattern '(a+)+$' cannot be used: Python's own engine would match it, and hold the "
        "event loop; give it as text, without look-around and backreferences"),
    ),
    (
        {"prompts": [prompt(required_schema=RootModel[list[int]])]},
        "prompt 'support': required_schema: its type is not 'object'",
    ),
    (
        {"prompts": [prompt(tools=[SubPrompt(name="b", init_user_message_property="t")]), prompt("b", required_schema=Unshown)]},
        "prompt 'b': required_schema: a model could not be shown it: Cannot generate a JsonSchema for core_schema.CallableSchema",
    ),
    (
        {"prompts": [prompt(tools=["a b"]), prompt("a b")]},
        "prompt 'support': tools: 'a b' cannot be called by a model: 1 to 64 letters, digits, _ and -",
    ),
    (
        {"prompts": [prompt(tools=["look"]), prompt("look")], "tools": [look]},
        "prompt 'support': tools: 'look' is the name of a tool and of a prompt",
    ),
    (
        {"prompts": [prompt(tools=[SubPrompt(name="b", init_user_message_property="t")]), prompt("b", required_schema={"type": "object"})]},
        "prompt 'support': tools: 'b': init_user_message_property names 't', which its required_schema has not",
    ),
    ({"tools": ["look"]}, "tools: 'look' is no tool"),
    (
        {"prompts": [prompt(model="openai:x")]},
        "prompt 'support': model: no model is called 'openai:x'; a provider's is Model(name=..., model='openai:x')",
    ),
    ({"models": [look]}, "models: <tool 'look' on a worker> is no model"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "said"), OTHERS)
def test_what_does_not_fit_is_told(given: dict[str, Any], said: str) -> None:
    assert problems(**given) == [said]


def test_two_definitions_of_one_name_are_told_and_one_held_twice_is_not() -> None:
    first, second = prompt(), prompt()

    assert problems(prompts=[first, second]) == ["prompt 'support' and prompt 'support' have the same name"]
    assert problems(agents=[agent(side_a=Side(prompt=first))], prompts=[first, first]) == []


def test_one_id_for_two_hooks_is_told() -> None:
    """Contract E.7 ids: id is unique."""
    two = [hook("after_create_message", id="log")(lambda *_: None) for _ in range(2)]

    assert problems(hooks=two) == ["hook 'log' and hook 'log' have the same name"]


@pytest.mark.parametrize("hook_id", ["Log", "log-all", "1st", "_log", "log all"])
def test_the_id_of_a_hook_is_snake_case(hook_id: str) -> None:
    """Contract E.7 ids: id is snake_case."""
    assert problems(hooks=[hook("after_create_message", id=hook_id)(print)]) == [
        f"hook {hook_id!r}: the id of a hook is snake_case"
    ]


def test_every_hook_of_the_table_is_known_and_no_other() -> None:
    """Contract E.7 kinds: defineHook({hook, ...}) names one of the list."""
    assert problems(hooks=[hook(kind, id=kind)(print) for kind in HOOKS]) == []
    assert problems(hooks=[hook("before_all", id="x")(print)])[0].startswith("hook 'x': no hook is called 'before_all'")


def test_prompts_that_include_each_other_in_a_circle_are_told_whatever_the_circle() -> None:
    def including(name: str, *included: str) -> Prompt:
        return prompt(name, prompt=[IncludePart(prompt=one) for one in included])

    assert problems(
        prompts=[including("a", "b"), including("b", "c"), including("c", "a"), including("d", "d", "a")]
    ) == [
        "prompt 'a': includes itself: a -> b -> c -> a",
        "prompt 'd': includes itself: d -> d",
    ]


def test_prompts_that_are_tools_of_each_other_in_a_circle_are_told() -> None:
    ask = prompt("ask", tools=["support"])

    assert problems(prompts=[prompt(tools=[ask]), ask]) == [
        "prompt 'support': is a tool of itself: support -> ask -> support"
    ]


def test_agents_that_hand_over_to_each_other_are_fine() -> None:
    """Contract E.3 handoff: an agent name in prompt tools is a handoff."""
    first = agent(name="first", side_a=Side(prompt=prompt("a", tools=["second"])))
    second = agent(name="second", side_a=Side(prompt=prompt("b", tools=["first", "second"])))

    assert problems(agents=[first, second]) == []


def test_an_agent_that_the_runtime_has_not_cannot_be_handed_to() -> None:
    first = agent(name="first", side_a=Side(prompt=prompt("a", tools=["second"])))
    definitions = Definitions(agents=[first, agent(name="second", side_a=Side(prompt=prompt("b")))])

    assert definitions.problems() == []
    assert definitions.problems({"first": first}) == [
        "prompt 'a': tools: nothing is called 'second': no tool, no prompt and no agent"
    ]


def test_a_definition_without_a_name_is_told() -> None:
    assert problems(prompts=[prompt("")]) == ["prompt '': has no name"]


def test_the_file_of_a_definition_is_told_where_it_is_known() -> None:
    wrong = prompt(model="none")

    assert Definitions(prompts=[wrong], files={id(wrong): "prompts/support.py"}).problems() == [
        "prompt 'support' (prompts/support.py): model: no model is called 'none'"
    ]


def test_everything_is_told_at_once_and_each_thing_once() -> None:
    everything: dict[str, list[Any]] = {}
    for given_, _ in [*UNKNOWN, *OTHERS]:
        for kind, some in given_.items():
            everything.setdefault(kind, []).extend(some)

    found = problems(**everything)

    assert len(found) == len(set(found)) > 20


NAMES = st.text(max_size=70) | st.from_regex(r"[a-zA-Z0-9_-]{1,66}", fullmatch=True)


@given(NAMES)
def test_a_tool_is_called_what_every_provider_takes(name: str) -> None:
    plain = all(c.isascii() and (c.isalnum() or c in "_-") for c in name) and 0 < len(name) <= 64
    if not name:
        return
    made = tool(name=name)(lambda state: None)

    assert (problems(tools=[made]) == []) == plain


@given(NAMES)
def test_a_prompt_and_an_agent_are_called_as_threads_are(name: str) -> None:
    printable = 0 < len(name) <= 128 and all("\x20" <= c <= "\x7e" for c in name) and name == name.strip(" ")

    assert (problems(prompts=[prompt(name)]) == []) == printable
    assert (problems(agents=[agent(name=name)]) == []) == printable


@given(st.dictionaries(st.sampled_from("abcde"), st.lists(st.sampled_from("abcdef"), unique=True, max_size=3)))
def test_any_web_of_includes_is_judged_and_no_problem_is_said_twice(web: dict[str, list[str]]) -> None:
    prompts = [prompt(name, prompt=[IncludePart(prompt=one) for one in included]) for name, included in web.items()]
    unknown = {one for included in web.values() for one in included if one not in web}

    found = problems(prompts=prompts)

    assert len(found) == len(set(found))
    assert any("is called" in one for one in found) == bool(unknown)
