"""Owns `Hook` and `@hook`, which gives a function its moment and its id. Calls none; the kinds are the table in `hooks`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator

from ..protocol.errors import InvalidInput, shorten
from .callables import place_of
from .expected import expected

__all__ = ["Hook", "Hooks", "hook"]


class Hook:
    """A function that the runtime calls at its moment; made by `hook`. Calling it calls the function, for its own tests.

    Attributes:
        hook: the kind, as `filter_messages`; unknown ones are found when the runtime opens.
        id: what agents and prompts list it by; snake_case, used once.
        function: called with the `ThreadState` and what the kind takes.
        runs_on: `loop` for a coroutine function, `worker` for a plain one.
    """

    __slots__ = ("__weakref__", "function", "hook", "id", "runs_on")

    def __init__(self, kind: str, hook_id: str, function: Callable[..., object]) -> None:
        if not isinstance(kind, str) or not isinstance(hook_id, str) or not hook_id:
            raise InvalidInput(
                f"a hook has a kind and an id, both text, not {shorten(kind)} and {shorten(hook_id)}",
                code="invalid_hook",
                value=shorten(hook_id),
            )
        self.hook = kind
        self.id = hook_id
        self.function = function
        self.runs_on: Literal["loop", "worker"] = place_of(function, "a hook", code="invalid_hook")

    def __call__(self, *args: object) -> object:
        """Call the function itself, outside any execution."""
        return self.function(*args)

    def __repr__(self) -> str:
        return f"<hook {self.id!r} {self.hook}>"


Hooks: TypeAlias = Annotated[
    Sequence[Annotated[str | Hook, expected("a hook is made by @hook(kind, id=...), or named by its id", str, Hook)]],
    AfterValidator(tuple),
]
"""The hooks that an agent or a prompt lists."""


def hook(kind: str, /, *, id: str) -> Callable[[Callable[..., object]], Hook]:  # noqa: A002 - the contract's word
    """Make a function a hook: `@hook("filter_messages", id="newest_only")`.

    It runs only for agents and prompts that list it.

    Args:
        kind: one of the contract's hooks.
        id: snake_case, used once.

    Raises:
        InvalidInput: `invalid_hook`: kind or id is no text, or what is decorated is no function.
    """
    return lambda function: Hook(kind, id, function)
