"""Tests agents/loading.py: a folder of modules becomes agents of one namespace, and each bad file is named."""

from __future__ import annotations

import sys
import textwrap
from typing import TYPE_CHECKING

import pytest

from treadle.actors import Runtime
from treadle.agents import Agent, FunctionAgent, load_agents
from treadle.agents.environment import Environment
from treadle.protocol.errors import InvalidDefinitions
from treadle.storage import MemoryStore

if TYPE_CHECKING:
    from pathlib import Path

PROJECT = {
    "agents/desk.py": """
        from treadle.agents import Agent, Side

        desk = Agent(side_a=Side(prompt="support"), hooks=["newest"])
    """,
    "agents/relay.py": """
        from treadle.agents import Agent, Side
        from .desk import desk

        relay = Agent(name="switch", side_a=Side(handler="pass_on"))
        held = [desk]
    """,
    "agents/coded.py": """
        from treadle.agents import agent

        @agent
        async def coded(state):
            await state.inject_message("assistant", "done")
    """,
    "prompts/support.py": """
        from treadle.agents import Prompt
        from ..tools.look_up import look_up

        support = Prompt(prompt="Help.", model="main", tools=[look_up, "switch"])
    """,
    "tools/look_up.py": """
        from __future__ import annotations

        from dataclasses import dataclass
        from pydantic import BaseModel
        from treadle.agents import tool

        class Order(BaseModel):
            number: int

        @dataclass
        class Found:
            order: Order

        @tool
        async def look_up(state, order: Order) -> str:
            return str(order.number)
    """,
    "models/main.py": """
        from treadle.agents import Model
        from treadle.agents.models import FunctionModel
        from ._answers import answer

        main = Model(model=FunctionModel(answer))
    """,
    "models/_answers.py": """
        from treadle.agents import Model

        not_one = Model(name="x", model="openai:gpt-4o")

        def answer(request):
            return "yes"
    """,
    "hooks/newest.py": """
        from treadle.agents import hook

        @hook("filter_messages", id="newest")
        def keep(state, messages):
            return messages[-1:]
    """,
    "handlers/pass_on.py": """
        from treadle.agents import handler

        @handler
        async def pass_on(state, message): ...
    """,
    "tools/notes.txt": "no module",
    "other/broken.py": "this is not looked at",
}


def project(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    return folder


def problems(folder: Path) -> list[str]:
    before = dict(sys.modules)
    with pytest.raises(InvalidDefinitions) as caught:
        load_agents(folder)
    assert {name for name in sys.modules.keys() - before.keys() if name.startswith("treadle_project")} == set()
    found = caught.value.details["problems"]
    assert isinstance(found, list)
    return [str(one) for one in found]


def test_a_folder_becomes_agents_of_one_namespace(tmp_path: Path) -> None:
    agents = load_agents(project(tmp_path, PROJECT))

    assert [one.name for one in agents] == ["coded", "desk", "switch"]
    coded, desk, switch = agents
    assert isinstance(coded, FunctionAgent)
    assert isinstance(desk, Agent)
    assert isinstance(switch, Agent)
    definitions = desk.definitions
    assert definitions is switch.definitions
    assert definitions.agent_names() == ["desk", "switch"]
    assert definitions.prompt("support").tools[0] is definitions.tool("look_up")
    assert definitions.model_names() == ["main"]
    assert definitions.hook_names() == ["newest"]
    assert definitions.handler_names() == ["pass_on"]


def test_a_runtime_opens_with_them_and_runs_them(tmp_path: Path) -> None:
    with Runtime(MemoryStore(), agents=load_agents(str(project(tmp_path, PROJECT)))) as runtime:
        for name, answer in (("desk", "yes"), ("coded", "done")):
            thread = runtime.create_thread(name).result()
            thread.wait(thread.submit("hello").result()).result()

            assert [m.content for m in thread.messages().result().messages] == ["hello", answer]


def test_two_loads_share_nothing_and_touch_no_other_module(tmp_path: Path) -> None:
    project(tmp_path, PROJECT)
    before, path = dict(sys.modules), list(sys.path)

    first, second = load_agents(tmp_path), load_agents(tmp_path)

    assert not {id(one) for one in first} & {id(one) for one in second}
    assert sys.path == path
    assert {name: sys.modules.get(name) for name in before} == before
    assert all(name.startswith("treadle_project_") for name in sys.modules.keys() - before.keys())


def test_the_environment_is_that_of_the_namespace(tmp_path: Path) -> None:
    environment = Environment()
    desk = load_agents(project(tmp_path, PROJECT), environment=environment)[1]

    assert isinstance(desk, Agent)
    assert desk.definitions.environment is environment


BAD = {
    "agents/desk.py": """
        from treadle.agents import Agent, Side
        desk = Agent(side_a=Side())
    """,
    "agents/empty.py": "",
    "prompts/support.py": """
        from treadle.agents import Prompt
        support = Prompt(prompt="x", model="main", tools=[{"name": "billing", "blocking": True}])
    """,
    "prompts/two.py": """
        from treadle.agents import Prompt
        one = Prompt(name="one", prompt="x", model="main")
        two = Prompt(name="two", prompt="x", model="main")
    """,
    "tools/broken.py": """
        def broken(:
    """,
    "tools/leaves.py": """
        raise SystemExit(3)
    """,
    "tools/hint.py": """
        from __future__ import annotations
        from treadle.agents import tool
        @tool
        def hint(state, it: Nothing): ...
    """,
    "models/ma.in.py": "",
    "models/wrong.py": """
        from treadle.agents import Model
        wrong = Model(model="gpt")
    """,
    "hooks/tool_in_hooks.py": """
        from treadle.agents import tool
        @tool
        def wrong(state): ...
    """,
    "handlers/lost.py": """
        from ..tools.nowhere import nothing
    """,
}


def test_every_bad_file_is_named_with_its_line_and_its_fault(tmp_path: Path) -> None:
    found = dict(one.split(": ", 1) for one in problems(project(tmp_path, BAD)))

    assert set(found) == set(BAD)
    assert found["agents/desk.py"].startswith("line 3: ValidationError: ")
    assert "a side is exactly one of human=True, a prompt and a handler" in found["agents/desk.py"]
    assert found["agents/empty.py"] == "defines no Agent, not one"
    assert "blocking: such keys belong to a relationship" in found["prompts/support.py"]
    assert found["prompts/two.py"] == "defines 2 of Prompt, not one"
    assert found["tools/broken.py"].startswith("line 2: SyntaxError: ")
    assert found["tools/leaves.py"] == "line 2: SystemExit: 3"
    assert "type hint that cannot be read: NameError" in found["tools/hint.py"]
    assert found["models/ma.in.py"] == "the name of a module has no dot"
    assert "'provider:model', not 'gpt'" in found["models/wrong.py"]
    assert found["hooks/tool_in_hooks.py"] == "defines no Hook, not one"
    assert found["handlers/lost.py"].startswith("line 2: ModuleNotFoundError: ")


def test_a_bad_file_shows_no_values_of_variables(tmp_path: Path) -> None:
    bad = """
        from treadle.agents import Prompt
        wrong = Prompt(prompt="x", model="main", env={"KEY": ["hunter22"]})
    """

    assert "hunter22" not in str(problems(project(tmp_path, {**PROJECT, "prompts/wrong.py": bad})))


def test_files_that_hold_each_others_definitions_are_told_apart(tmp_path: Path) -> None:
    alone = "from treadle.agents import Prompt\n{0} = Prompt(prompt='x', model='main', name='{0}')\n"
    files = {
        **PROJECT,
        "prompts/a.py": "from .b import b\nfrom .c import c\n" + alone.format("a"),
        "prompts/b.py": "from .c import c as other\n" + alone.format("b"),
        "prompts/c.py": alone.format("c"),
    }

    desk = load_agents(project(tmp_path, files))[1]

    assert isinstance(desk, Agent)
    assert desk.definitions.prompt_names() == ["a", "b", "c", "support"]


def test_a_folder_without_agents_is_told(tmp_path: Path) -> None:
    assert problems(tmp_path / "nowhere") == ["agents/: there is no such folder"]
    (tmp_path / "agents").mkdir()
    assert problems(tmp_path) == ["agents/: no file defines an agent"]


def test_what_definitions_say_of_each_other_is_told_at_open_with_the_file(tmp_path: Path) -> None:
    doubled = """
        from treadle.agents import tool

        @tool(name="look_up", uses=["nothing"])
        def again(state): ...
    """
    agents = load_agents(project(tmp_path, {**PROJECT, "tools/other.py": doubled}))

    with pytest.raises(InvalidDefinitions) as caught:
        with Runtime(MemoryStore(), agents=agents):
            raise AssertionError("it opened")

    assert caught.value.details["problems"] == [
        "tool 'look_up' (tools/look_up.py) and tool 'look_up' (tools/other.py) have the same name",
        "tool 'look_up' (tools/other.py): uses 'nothing', which nothing is called",
    ]
