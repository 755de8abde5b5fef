"""Owns `Handler` and `@handler`: code that answers for a side in a model's place. Delivers nothing itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, overload

from .callables import name_of, place_of

if TYPE_CHECKING:
    from ..protocol.messages import Message
    from .thread_state import ThreadState

__all__ = ["Handler", "handler"]


class Handler:
    """A function called once per inbound message, at most once (contract E.6); made by `handler`.

    Attributes:
        name: what sides name it by.
        function: called with the `ThreadState` and the message.
        runs_on: `loop` for a coroutine function, `worker` for a plain one.
    """

    __slots__ = ("__weakref__", "function", "name", "runs_on")

    def __init__(self, function: Callable[[ThreadState, Message], object], *, name: str | None) -> None:
        self.function = function
        self.name = name_of(function, name, "a handler", code="invalid_handler")
        self.runs_on: Literal["loop", "worker"] = place_of(function, "a handler", code="invalid_handler")

    def __call__(self, state: ThreadState, message: Message) -> object:
        """Call the function itself, outside any execution."""
        return self.function(state, message)

    def __repr__(self) -> str:
        return f"<handler {self.name!r} on a {self.runs_on}>"


@overload
def handler(function: Callable[[ThreadState, Message], object], /, *, name: str | None = None) -> Handler: ...
@overload
def handler(*, name: str | None = None) -> Callable[[Callable[[ThreadState, Message], object]], Handler]: ...
def handler(
    function: Callable[[ThreadState, Message], object] | None = None, /, *, name: str | None = None
) -> Handler | Callable[[Callable[[ThreadState, Message], object]], Handler]:
    """Make a function of state and message the backing of a side: `@handler`, `@handler(name="relay")`.

    Args:
        function: a coroutine function, which runs on the event loop, or a plain one, which runs on a worker.
        name: by default the function's own.

    Raises:
        InvalidInput: `invalid_handler`: no function, or one without a name.
    """

    def decorate(decorated: Callable[[ThreadState, Message], object]) -> Handler:
        return Handler(decorated, name=name)

    return decorate if function is None else decorate(function)
