"""Owns what is checked of definitions when a runtime opens: names, doubles, bindings, circles. All problems, not the first."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from pydantic import PydanticUserError

from ..protocol.errors import InvalidInput, shorten
from ..protocol.ids import check_id
from .agent_definition import Agent
from .binding_checks import binding_problems
from .circles import circles
from .hook import Hook
from .hooks import HOOKS
from .model_definition import Model
from .patterns import python_pattern_problem, python_patterns
from .prompt import IncludePart, Prompt, PromptTool, SubPrompt
from .schema_checks import problems_of as schema_problems
from .tool import Tool

if TYPE_CHECKING:
    from .definitions import Definition, Definitions, Kind

__all__ = ["problems_of"]

# What every provider takes as the name of a function.
_CALLABLE_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
_HOOK_ID: Final = re.compile(r"[a-z][a-z0-9_]*\Z")


def problems_of(definitions: Definitions, agents: Iterable[str]) -> list[str]:
    """Return all that is wrong, each a sentence that begins with what it is wrong with.

    Args:
        definitions: the namespace.
        agents: names of those that a thread can be handed to.
    """
    checks = _Checks(definitions, frozenset(agents))
    return list(dict.fromkeys(checks.all()))


class _Checks:
    """One round of checks over one namespace."""

    __slots__ = ("_agents", "_definitions")

    def __init__(self, definitions: Definitions, agents: frozenset[str]) -> None:
        self._definitions = definitions
        self._agents = agents

    def all(self) -> Iterator[str]:
        held = self._definitions.held
        yield from (f"{kind}s: {shorten(one)} is no {kind}" for kind, one in self._definitions.strange)
        for kind, first, second in self._definitions.doubled:
            yield f"{self._label(kind, first)} and {self._label(kind, second)} have the same name"
        every = [(kind, one) for kind, by_name in held.items() for one in by_name.values()]
        for kind, one in [*every, *((kind, second) for kind, _, second in self._definitions.doubled)]:
            label = self._label(kind, one)
            yield from (f"{label}: {why}" for why in self._of_name(kind, one.id if isinstance(one, Hook) else one.name))
            yield from (f"{label}: {why}" for why in self._of(one))
        yield from self._of_circles()

    def _label(self, kind: Kind, one: Definition) -> str:
        name = one.id if isinstance(one, Hook) else one.name
        file = self._definitions.files.get(id(one))
        return f"{kind} {name!r}" + (f" ({file})" if file else "")

    def _of_name(self, kind: Kind, name: str) -> Iterator[str]:
        if not name:
            yield "has no name"
        elif kind == "tool":
            if not _CALLABLE_NAME.match(name):
                yield "the name of a tool is 1 to 64 letters, digits, _ and -"
        elif kind == "hook":
            if not _HOOK_ID.match(name):
                yield "the id of a hook is snake_case"
        else:
            try:
                check_id("its name", name)
            except InvalidInput as error:
                yield error.message

    def _of(self, one: Definition) -> Iterator[str]:
        if isinstance(one, Agent):
            yield from self._of_agent(one)
        elif isinstance(one, Prompt):
            yield from self._of_prompt(one)
        elif isinstance(one, Model):
            yield from self._unknown("model", one.fallbacks, "fallbacks")
            if any(fallback is one or fallback == one.name for fallback in one.fallbacks):
                yield "is its own fallback"
        elif isinstance(one, Tool):
            yield from (f"uses {name!r}, which nothing is called" for name in one.uses if not self._callable(name))
        elif isinstance(one, Hook) and one.hook not in HOOKS:
            yield f"no hook is called {shorten(one.hook)}; there are {', '.join(HOOKS)}"

    def _of_agent(self, agent: Agent) -> Iterator[str]:
        if agent.side_a.human and agent.side_b.human:
            yield "both sides are human"
        yield from self._unknown("hook", agent.hooks, "hooks")
        for where, side in (("side_a", agent.side_a), ("side_b", agent.side_b)):
            if side.prompt is not None:
                yield from self._unknown("prompt", [side.prompt], where)
                prompt = side.prompt if isinstance(side.prompt, Prompt) else self._prompts().get(side.prompt)
                if prompt is not None:
                    yield from (f"{where}: {why}" for why in binding_problems(side, prompt, self._targets(prompt)))
            if side.handler is not None:
                yield from self._unknown("handler", [side.handler], where)

    def _of_prompt(self, prompt: Prompt) -> Iterator[str]:
        yield from self._unknown("model", [prompt.model], "model")
        yield from self._unknown("hook", prompt.hooks, "hooks")
        yield from self._unknown("prompt", [part.prompt for part in _includes(prompt)], "include")
        yield from (f"required_schema: {why}" for why in _of_schema(prompt))
        if prompt.tool_choice == "required" and not prompt.tools:
            yield "tool_choice is 'required', and it has no tools"
        yield from _repeated((variable.name for variable in prompt.variables), "variables")
        yield from _repeated(map(_entry_name, prompt.tools), "tools")
        for entry in prompt.tools:
            yield from (f"tools: {why}" for why in self._of_entry(entry))

    def _of_entry(self, entry: str | Tool | Prompt | PromptTool | SubPrompt) -> Iterator[str]:
        name = _entry_name(entry)
        if not isinstance(entry, Tool) and not _CALLABLE_NAME.match(name):
            # The model calls a prompt or an agent by its name too.
            yield f"{shorten(name)} cannot be called by a model: 1 to 64 letters, digits, _ and -"
        if isinstance(entry, Tool | Prompt):
            return
        if isinstance(entry, SubPrompt):
            target = self._prompts().get(name)
            if target is None:
                yield f"no prompt is called {name!r}"
            else:
                yield from _of_properties(entry, target)
            return
        kinds = self._kinds(name)
        if not kinds:
            yield f"nothing is called {name!r}: no tool, no prompt and no agent"
        elif len(kinds) > 1:
            yield f"{name!r} is the name of {' and of '.join(kinds)}"

    def _kinds(self, name: str) -> list[str]:
        held = self._definitions.held
        kinds = [f"a {kind}" for kind in ("tool", "prompt") if name in held[kind]]
        return [*kinds, "an agent"] if name in self._agents else kinds

    def _callable(self, name: str) -> bool:
        return bool(self._kinds(name))

    def _prompts(self) -> Mapping[str, Prompt]:
        return {name: one for name, one in self._definitions.held["prompt"].items() if isinstance(one, Prompt)}

    def _targets(self, prompt: Prompt) -> dict[str, Tool | Prompt | None]:
        """Return what the entries of a prompt's tools are; None for agents and for unknown ones."""
        held = self._definitions.held
        targets: dict[str, Tool | Prompt | None] = {}
        for entry in prompt.tools:
            name = _entry_name(entry)
            found = entry if isinstance(entry, Tool | Prompt) else held["tool"].get(name) or held["prompt"].get(name)
            targets[name] = found if isinstance(found, Tool | Prompt) else None
        return targets

    def _unknown(self, kind: Kind, given: Iterable[object], where: str) -> Iterator[str]:
        for one in given:
            if isinstance(one, str) and one not in self._definitions.held[kind]:
                hint = f"; a provider's is Model(name=..., model={one!r})" if kind == "model" and ":" in one else ""
                yield f"{where}: no {kind} is called {one!r}{hint}"

    def _of_circles(self) -> Iterator[str]:
        prompts = self._prompts()
        includes = {name: [part.prompt for part in _includes(prompt)] for name, prompt in prompts.items()}
        for circle in circles(includes):
            yield f"prompt {circle[0]!r}: includes itself: {' -> '.join(circle)}"
        below = {
            name: [one for one, target in self._targets(prompt).items() if isinstance(target, Prompt)]
            for name, prompt in prompts.items()
        }
        for circle in circles(below):
            yield f"prompt {circle[0]!r}: is a tool of itself: {' -> '.join(circle)}"


def _includes(prompt: Prompt) -> list[IncludePart]:
    return [] if isinstance(prompt.prompt, str) else [part for part in prompt.prompt if isinstance(part, IncludePart)]


def _of_schema(prompt: Prompt) -> list[str]:
    if isinstance(prompt.required_schema, dict):
        return schema_problems(prompt.required_schema)
    try:
        schema = prompt.arguments_schema
    except PydanticUserError as error:
        return [f"a model could not be shown it: {error.message.splitlines()[0]}"]
    # What pydantic holds it holds itself, so that only the form matters here, and who matches its patterns.
    wrong = [] if schema.get("type", "object") == "object" else ["its type is not 'object'"]
    held = getattr(prompt.required_schema, "__pydantic_core_schema__", None)
    return wrong + [python_pattern_problem(pattern) for pattern in python_patterns(held)]


def _entry_name(entry: str | Tool | Prompt | PromptTool | SubPrompt) -> str:
    return entry if isinstance(entry, str) else entry.name


def _of_properties(entry: SubPrompt, target: Prompt) -> Iterator[str]:
    if _of_schema(target):
        return
    properties = target.arguments_schema.get("properties")
    for field in ("init_user_message_property", "init_attachments_property"):
        name = getattr(entry, field)
        if name is not None and target.required_schema is not None and name not in (properties or {}):
            yield f"{entry.name!r}: {field} names {name!r}, which its required_schema has not"


def _repeated(names: Iterable[str], where: str) -> Iterator[str]:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            yield f"{where}: {name!r} is there twice"
        seen.add(name)
