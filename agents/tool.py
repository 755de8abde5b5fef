"""Owns `Tool` and `@tool`: a function that a model may call, and what the model is told of it. Runs none."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Literal, overload

from ..protocol.errors import InvalidInput
from .callables import name_of, place_of
from .tool_arguments import Arguments, ToolArgumentsInvalid
from .tool_docstring import read_docstring
from .variable import Variable

if TYPE_CHECKING:
    from ..protocol.values import JsonObject

__all__ = ["Tool", "ToolArgumentsInvalid", "tool"]


class Tool:
    """A function that a model may call; made by `tool`. Calling it calls the function, for its own tests.

    Attributes:
        name: what prompts and models name it by.
        description: what the model reads.
        schema: the JSON schema of its arguments, an object.
        uses: names of the tools that it may itself queue or invoke; empty for any.
        variables: the environment variables that it uses.
        function: called with the `ThreadState`, then by name with what `validate` returned.
        runs_on: `loop` for a coroutine function, `worker` for a plain one.
    """

    __slots__ = (
        "__weakref__",
        "_arguments",
        "description",
        "function",
        "name",
        "runs_on",
        "schema",
        "uses",
        "variables",
    )

    def __init__(
        self, function: Callable[..., object], *, name: str | None, description: str | None, uses: Iterable[str],
        variables: Iterable[Variable], local: Mapping[str, object],
    ) -> None:  # fmt: skip
        self.function = function
        self.name = name_of(function, name, "a tool", code="invalid_tool")
        self.runs_on: Literal["loop", "worker"] = place_of(function, "a tool", code="invalid_tool")
        said, of_parameters = read_docstring(inspect.getdoc(function))
        self.description = said if description is None else description
        self.uses = _names(uses, self.name)
        self.variables = _variables(variables, self.name)
        self._arguments = Arguments(function, self.name, local)
        self.schema: JsonObject = self._arguments.schema
        for parameter, schema in self.schema.get("properties", {}).items():
            if parameter in of_parameters:
                schema.setdefault("description", of_parameters[parameter])

    def validate(self, args: object) -> dict[str, object]:
        """Return the keyword arguments of a call, of the types that the function asks for.

        Args:
            args: a dict of JSON data, or the JSON text that a model wrote; nothing stands for `{}`.

        Raises:
            ToolArgumentsInvalid: they do not fit; its text is `[<path>] <msg>`.
        """
        return self._arguments.check(args)

    def __call__(self, state: object, /, *args: object, **kwargs: object) -> object:
        """Call the function itself, outside any execution; nothing is validated."""
        return self.function(state, *args, **kwargs)

    def __repr__(self) -> str:
        return f"<tool {self.name!r} on a {self.runs_on}>"


@overload
def tool(function: Callable[..., object], /) -> Tool: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    uses: Iterable[str] = (),
    variables: Iterable[Variable] = (),
) -> Callable[[Callable[..., object]], Tool]: ...
def tool(
    function: Callable[..., object] | None = None, /, *, name: str | None = None, description: str | None = None,
    uses: Iterable[str] = (), variables: Iterable[Variable] = (),
) -> Tool | Callable[[Callable[..., object]], Tool]:  # fmt: skip
    """Make a function a tool: `@tool`, or `@tool(name="lookup", uses=("refund",))`.

    Its first parameter is the `ThreadState`; the others, by their type hints, are what a model has to give. Hints are
    pydantic's: `Annotated[int, Field(description="...", ge=1)]`, defaults, models. A parameter is also described by its
    line under `Args:` in the docstring. It returns text, a `ToolResult`, None or JSON data.

    Args:
        function: a coroutine function, which runs on the event loop, or a plain one, which runs on a worker.
        name: by default the function's own.
        description: by default the docstring, up to its first section.
        uses: the tools that it may queue or invoke; empty for any.
        variables: the environment variables that it uses.

    Raises:
        InvalidInput: `invalid_tool`: no such function, or a parameter that no JSON can fill.
    """
    frame = inspect.currentframe()
    caller = None if frame is None else frame.f_back
    # Hints of a function inside a function may name classes that only its frame knows.
    local = {} if caller is None or caller.f_locals is caller.f_globals else dict(caller.f_locals)

    def decorate(decorated: Callable[..., object]) -> Tool:
        return Tool(decorated, name=name, description=description, uses=uses, variables=variables, local=local)

    return decorate if function is None else decorate(function)


def _names(uses: Iterable[str], name: str) -> tuple[str, ...]:
    names = () if isinstance(uses, str) else tuple(uses)
    if isinstance(uses, str) or not all(isinstance(one, str) for one in names):
        raise InvalidInput(f"tool {name!r}: uses is a list of tool names", code="invalid_tool", tool=name)
    return names


def _variables(variables: Iterable[Variable], name: str) -> tuple[Variable, ...]:
    given = tuple(variables)
    if not all(isinstance(one, Variable) for one in given):
        raise InvalidInput(f"tool {name!r}: variables is a list of Variable", code="invalid_tool", tool=name)
    return given
