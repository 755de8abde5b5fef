"""Owns `Definitions`, the namespace in which definitions name each other. Judges nothing itself, and runs nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias, TypeVar

from ..protocol.errors import CallerError, shorten
from ..protocol.limits import ID_LENGTH_MAX
from .agent_definition import Agent
from .handler import Handler
from .hook import Hook
from .model_definition import Model
from .prompt import Prompt, PromptTool, SubPrompt
from .tool import Tool

if TYPE_CHECKING:
    from ..actors.services import Body
    from .environment import Environment

__all__ = ["DefinitionNotFound", "Definitions", "Offered"]

Kind: TypeAlias = Literal["agent", "prompt", "model", "tool", "hook", "handler"]
Definition: TypeAlias = Agent | Prompt | Model | Tool | Hook | Handler
T = TypeVar("T", Prompt, Model, Tool, Hook, Handler)

KINDS: Final[Mapping[Kind, type[Definition]]] = {
    "agent": Agent, "prompt": Prompt, "model": Model, "tool": Tool, "hook": Hook, "handler": Handler,
}  # fmt: skip


class DefinitionNotFound(CallerError):
    """Nothing of this kind has this name here; `details` has `kind` and `name`."""

    code = "definition_not_found"

    def __init__(self, kind: str, name: object) -> None:
        shown = name if isinstance(name, str) and len(name) <= ID_LENGTH_MAX else shorten(name)
        super().__init__(f"{kind.capitalize()} not found: {shown}", kind=kind, name=shown)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.details["kind"], self.details["name"])


class Offered(NamedTuple):
    """One entry of a prompt's tools: what it is, and how the prompt has it.

    Attributes:
        name: what the model calls it by.
        target: a tool to run, a prompt to run below, or an agent to hand the thread to.
        entry: what the prompt says of it beside its name; None where that is nothing.
    """

    name: str
    target: Tool | Prompt | Body
    entry: PromptTool | SubPrompt | None = None

    @property
    def kind(self) -> Literal["tool", "prompt", "agent"]:
        """What the target is."""
        if isinstance(self.target, Tool):
            return "tool"
        return "prompt" if isinstance(self.target, Prompt) else "agent"


class Definitions:
    """A namespace of definitions; what they hold as objects, rather than by name, is in it by itself.

    Its agents look names up here from now on. Looking up raises `DefinitionNotFound`; given an object instead of a name,
    a look-up returns the object. Any worker may look up.

    Attributes:
        environment: where values of variables come from beside threads, agents and prompts; None for nowhere.
    """

    def __init__(
        self, agents: Iterable[Agent] = (), prompts: Iterable[Prompt] = (), models: Iterable[Model] = (),
        tools: Iterable[Tool] = (), hooks: Iterable[Hook] = (), handlers: Iterable[Handler] = (), *,
        environment: Environment | None = None, files: Mapping[int, str] | None = None,
    ) -> None:  # fmt: skip
        self.environment = environment
        self.files: Mapping[int, str] = files or {}  # where a definition was loaded from, by its `id()`
        self.held: dict[Kind, dict[str, Definition]] = {kind: {} for kind in KINDS}
        self.doubled: list[tuple[Kind, Definition, Definition]] = []  # two of one kind and name
        self.strange: list[tuple[Kind, object]] = []  # what is none of its kind
        self._bodies: dict[str, Body] = {}
        self._offered: dict[int, Mapping[str, Offered]] = {}
        self._collect([
            ("agent", agents), ("prompt", prompts), ("model", models), ("tool", tools), ("hook", hooks), ("handler", handlers),
        ])  # fmt: skip
        for one in [*self.held["agent"].values(), *(second for _, _, second in self.doubled)]:
            if isinstance(one, Agent):
                one.join_namespace(self)

    def _collect(self, given: Sequence[tuple[Kind, Iterable[object]]]) -> None:
        seen: set[int] = set()
        left = [(kind, one) for kind, several in given for one in several]
        while left:
            kind, one = left.pop(0)
            if not isinstance(one, Agent | Prompt | Model | Tool | Hook | Handler) or not isinstance(one, KINDS[kind]):
                self.strange.append((kind, one))
            elif id(one) not in seen:
                seen.add(id(one))
                first = self.held[kind].setdefault(_name(one), one)
                if first is not one:
                    self.doubled.append((kind, first, one))
                left += [(_kind(below), below) for below in _below(one)]

    def holds(self, agent: Agent) -> bool:
        """Say whether this very agent is in here."""
        return self.held["agent"].get(agent.name) is agent or any(one is agent for _, _, one in self.doubled)

    def prompt(self, name: str | Prompt) -> Prompt:
        """Return a prompt."""
        return self._find(Prompt, "prompt", name)

    def model(self, name: str | Model) -> Model:
        """Return a model."""
        return self._find(Model, "model", name)

    def tool(self, name: str | Tool) -> Tool:
        """Return a tool."""
        return self._find(Tool, "tool", name)

    def hook(self, name: str | Hook) -> Hook:
        """Return a hook, by its id."""
        return self._find(Hook, "hook", name)

    def handler(self, name: str | Handler) -> Handler:
        """Return a handler."""
        return self._find(Handler, "handler", name)

    def _find(self, of: type[T], kind: Kind, name: str | T) -> T:
        if isinstance(name, of):
            return name
        found = self.held[kind].get(name) if isinstance(name, str) else None
        if not isinstance(found, of):
            raise DefinitionNotFound(kind, name)
        return found

    def agent(self, name: str) -> Agent:
        """Return a declared agent, of this namespace or of the runtime that opened with it."""
        found = (self.held["agent"].get(name) or self._bodies.get(name)) if isinstance(name, str) else None
        if not isinstance(found, Agent):
            raise DefinitionNotFound("agent", name)
        return found

    def body(self, name: str) -> Body:
        """Return an agent of any kind, a plain callable's included."""
        found = (self._bodies.get(name) or self.held["agent"].get(name)) if isinstance(name, str) else None
        if found is None or isinstance(found, Prompt | Model | Tool | Hook | Handler):
            raise DefinitionNotFound("agent", name)
        return found

    def callable(self, name: str) -> Tool | Prompt | Body:
        """Return what a call of this name runs: a tool, else a prompt, else an agent."""
        if not isinstance(name, str):
            raise DefinitionNotFound("tool", name)
        if name in self.held["tool"]:
            return self.tool(name)
        if name in self.held["prompt"]:
            return self.prompt(name)
        if name in self._bodies or name in self.held["agent"]:
            return self.body(name)
        raise DefinitionNotFound("tool", name)

    def offered(self, prompt: Prompt) -> Mapping[str, Offered]:
        """Return the entries of a prompt's tools by name, in their order; those with `optional` whatever its value is."""
        known = self._offered.get(id(prompt))
        if known is None:
            known = {one.name: one for one in map(self._offer, prompt.tools)}
            if self.held["prompt"].get(prompt.name) is prompt:  # else its id may be another's later
                self._offered[id(prompt)] = known
        return known

    def _offer(self, entry: str | Tool | Prompt | PromptTool | SubPrompt) -> Offered:
        if isinstance(entry, Tool | Prompt):
            return Offered(entry.name, entry)
        if isinstance(entry, SubPrompt):
            return Offered(entry.name, self.prompt(entry.name), entry)
        if isinstance(entry, PromptTool):
            return Offered(entry.name, self.callable(entry.name), entry)
        return Offered(entry, self.callable(entry))

    def model_chain(self, model: str | Model) -> tuple[Model, ...]:
        """Return a model and its fallbacks in order, each once; their own fallbacks are not followed."""
        first = self.model(model)
        chain = [first]
        for fallback in map(self.model, first.fallbacks):
            if not any(fallback is one for one in chain):
                chain.append(fallback)
        return tuple(chain)

    def agent_names(self) -> list[str]:
        """Return the names of all agents that a thread can be handed to, sorted."""
        return sorted(self.held["agent"].keys() | self._bodies.keys())

    def prompt_names(self) -> list[str]:
        """Return the names of the prompts, sorted."""
        return sorted(self.held["prompt"])

    def model_names(self) -> list[str]:
        """Return the names of the models, sorted."""
        return sorted(self.held["model"])

    def tool_names(self) -> list[str]:
        """Return the names of the tools, sorted."""
        return sorted(self.held["tool"])

    def hook_names(self) -> list[str]:
        """Return the ids of the hooks, sorted."""
        return sorted(self.held["hook"])

    def handler_names(self) -> list[str]:
        """Return the names of the handlers, sorted."""
        return sorted(self.held["handler"])

    def bind(self, agent: Agent, bodies: Mapping[str, Body]) -> list[str]:
        """Take a runtime's agents in reach, and return the problems; none for all but the first agent of a namespace."""
        # Added, not replaced: a test may open several runtimes over the same definitions.
        self._bodies |= bodies
        self._offered.clear()
        first = next((one for one in bodies.values() if isinstance(one, Agent) and one.definitions is self), agent)
        return self.problems(bodies) if first is agent else []

    def problems(self, bodies: Mapping[str, Body] | None = None) -> list[str]:
        """Return all that is wrong with the definitions, in words; pure but for pydantic.

        Args:
            bodies: the agents that a thread can be handed to; None for those of this namespace and what it was bound to.
        """
        from .definition_checks import problems_of

        return problems_of(self, self._bodies | self.held["agent"] if bodies is None else bodies)


def _name(definition: Definition) -> str:
    return definition.id if isinstance(definition, Hook) else definition.name


def _kind(definition: Definition) -> Kind:
    return next(kind for kind, of in KINDS.items() if isinstance(definition, of))


def _below(definition: Definition) -> Iterator[Definition]:
    """Go through what a definition holds as an object."""
    held: list[object] = []
    if isinstance(definition, Agent):
        for side in (definition.side_a, definition.side_b):
            held += [side.prompt, side.handler]
        held += definition.hooks
    elif isinstance(definition, Prompt):
        held += [definition.model, *definition.tools, *definition.hooks]
    elif isinstance(definition, Model):
        held += definition.fallbacks
    yield from (one for one in held if isinstance(one, Prompt | Model | Tool | Hook | Handler))
