"""Owns `with_model`: a declared agent with another model in the place of all of its own. Changes no given definition."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar, cast

from ..agent_definition import Agent
from ..definitions import Definitions
from ..handler import Handler
from ..hook import Hook
from ..model_definition import Model
from ..prompt import Prompt
from ..tool import Tool

if TYPE_CHECKING:
    from ..environment import Environment
    from ..models.seam import LanguageModel
    from ..side import Side

__all__ = ["agents_of", "with_model"]

T = TypeVar("T")


def with_model(agent: Agent, model: LanguageModel, *, environment: Environment | None = None) -> Agent:
    """Return a copy of an agent, and of all that it reaches, in which one model answers for every prompt.

    What a `Model` says of attempts and settings holds; fallbacks are left out. The agents that it can hand over to are
    copied too, and found in `copy.definitions`.

    Args:
        agent: with its namespace: from `load_agents`, `Definitions`, or alone.
        model: mostly a `ScriptedModel`.
        environment: in the place of the namespace's own.
    """
    held = agent.definitions
    swap = _Swap(model)
    Definitions(
        agents=[swap.agent(one) for one in _all(held, Agent)],
        prompts=[swap.prompt(one) for one in _all(held, Prompt)],
        models=[swap.model(one) for one in _all(held, Model)],
        tools=_all(held, Tool),
        hooks=_all(held, Hook),
        handlers=_all(held, Handler),
        environment=environment or held.environment,
    )
    return swap.agent(agent)


def agents_of(definitions: Definitions) -> list[Agent]:
    """Return the declared agents of a namespace."""
    return _all(definitions, Agent)


def _all(definitions: Definitions, kind: type[T]) -> list[T]:
    return [one for several in definitions.held.values() for one in several.values() if isinstance(one, kind)]


class _Swap:
    """Copies definitions, each once, so that what was one object is one in the copy."""

    def __init__(self, model: LanguageModel) -> None:
        self._model = model
        self._copies: dict[int, object] = {}

    def agent(self, agent: Agent) -> Agent:
        changed = {"side_a": self._side(agent.side_a), "side_b": self._side(agent.side_b)}
        return self._copy(agent, lambda: agent.model_copy(update=changed))

    def prompt(self, prompt: Prompt) -> Prompt:
        def copy() -> Prompt:
            tools = tuple(self.prompt(one) if isinstance(one, Prompt) else one for one in prompt.tools)
            given = prompt.model
            return prompt.model_copy(
                update={"tools": tools, "model": self.model(given) if isinstance(given, Model) else given}
            )

        return self._copy(prompt, copy)

    def model(self, model: Model) -> Model:
        return self._copy(model, lambda: model.model_copy(update={"model": self._model, "fallbacks": ()}))

    def _side(self, side: Side) -> Side:
        given = side.prompt
        return side.model_copy(update={"prompt": self.prompt(given)}) if isinstance(given, Prompt) else side

    def _copy(self, original: T, make: Callable[[], T]) -> T:
        if id(original) not in self._copies:
            self._copies[id(original)] = make()
        return cast("T", self._copies[id(original)])
