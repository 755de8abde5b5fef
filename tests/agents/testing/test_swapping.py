"""Tests agents/testing/swapping.py: a copy of an agent asks one model for all, and the original goes on as it was."""

from __future__ import annotations

from tests.agents.looping import Play, call
from treadle.agents import Agent, Definitions, Model, Prompt, Side
from treadle.agents.environment import Environment
from treadle.agents.models import FunctionModel
from treadle.agents.testing import ScriptedModel, run_to_rest, with_model
from treadle.agents.testing.swapping import agents_of


def test_every_prompt_of_a_copy_asks_the_one_model() -> None:
    own = FunctionModel(lambda _request: "original")
    aside = Prompt(name="aside", prompt="Think.", model="shared")
    root = Prompt(
        name="root", prompt="Speak.", model=Model(name="m", model=own, attempts=3, fallbacks=["shared"]), tools=[aside]
    )
    agent = Agent(name="agent", side_a=Side(prompt=root), env={"A": "1"})
    other = Agent(name="other", side_a=Side(prompt="root"))
    held = Definitions(
        agents=[agent, other], models=[Model(name="shared", model=own)], environment=Environment(instance={"B": "2"})
    )
    model = ScriptedModel(call("aside"), "thought", "said")

    copy = with_model(agent, model)

    with Play(*agents_of(copy.definitions)) as play:
        assert run_to_rest(play.thread, "go").text == "said"
    assert len(model.requests) == 3
    assert copy.definitions.agent("other").side_a.prompt == "root"
    copied = copy.definitions.model("m")
    assert (copied.model, copied.attempts, copied.fallbacks) == (model, 3, ())
    assert copy.definitions.environment is held.environment
    with Play(agent, other) as play:
        assert run_to_rest(play.thread, "go").text == "original"


def test_another_environment_takes_the_place_of_the_agents_own() -> None:
    agent = Agent(
        name="a", side_a=Side(prompt=Prompt(name="p", prompt="x", model=Model(name="m", model=ScriptedModel())))
    )
    environment = Environment(instance={"B": "3"})

    assert with_model(agent, ScriptedModel(), environment=environment).definitions.environment is environment
