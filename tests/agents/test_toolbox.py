"""A call finds what its prompt lists; code finds all that is declared."""

from __future__ import annotations

from typing import Any, cast

import pytest

from treadle.agents.agent_definition import Agent
from treadle.agents.definitions import Definitions
from treadle.agents.model_definition import Model
from treadle.agents.prompt import Prompt, SubPrompt
from treadle.agents.side import Side
from treadle.agents.testing.scripted_model import ScriptedModel
from treadle.agents.tool import tool
from treadle.agents.toolbox import find_tool, listed_tools


@tool
async def listed(state: Any) -> str:
    return "listed"


@tool
async def hidden(state: Any) -> str:
    return "hidden"


SUB = Prompt(name="sub", prompt="x", model=Model(name="m", model=ScriptedModel()))
PROMPT = Prompt(name="p", prompt="x", model="m", tools=[listed, SubPrompt(name="sub"), "other"])
AGENT = Agent(name="agent", side_a=Side(prompt=PROMPT))
OTHER = Agent(name="other", side_a=Side(prompt=SUB))
DEFINITIONS = Definitions(agents=[AGENT, OTHER], prompts=[SUB], tools=[hidden])


class Standing:
    """A state and a flow in one, as far as they are looked at."""

    def __init__(self, prompt: Prompt | None, definitions: Definitions | None) -> None:
        self.prompt = prompt
        self.definitions = definitions
        self.scene = self


def find(name: str, *, listed_only: bool, prompt: Prompt | None = PROMPT, definitions: Any = DEFINITIONS) -> Any:
    at = cast(Any, Standing(prompt, definitions))
    return find_tool(at, at, name, listed=listed_only)


@pytest.mark.parametrize(("name", "target"), [("listed", listed), ("sub", SUB), ("other", OTHER)])
def test_a_prompt_lists_functions_prompts_and_agents(name: str, target: object) -> None:
    assert find(name, listed_only=True).target is target
    assert [one.name for one in listed_tools(DEFINITIONS, PROMPT)] == ["listed", "sub", "other"]


def test_what_is_not_listed_is_found_by_code_only() -> None:
    assert find("hidden", listed_only=True) is None
    assert find("hidden", listed_only=False).target is hidden
    assert find("hidden", listed_only=False, prompt=None).target is hidden
    assert find("listed", listed_only=True, prompt=None) is None


def test_what_is_nowhere_is_not_found() -> None:
    assert find("nothing", listed_only=False) is None
    assert find("listed", listed_only=False, definitions=None) is None
    assert listed_tools(None, PROMPT) == []
