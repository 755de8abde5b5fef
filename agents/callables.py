"""Owns what tools, hooks and handlers ask of a function: its own name, and where it runs. Calls none."""

from __future__ import annotations

import functools
import inspect
from typing import Literal

from ..protocol.errors import InvalidInput, shorten

__all__ = ["name_of", "place_of"]


def place_of(function: object, what: str, *, code: str) -> Literal["loop", "worker"]:
    """Say where a function runs: a coroutine function on the loop, a plain one on a worker.

    Args:
        function: bound methods, partials and callable objects too.
        what: it is to be, for the error.
        code: the error's.

    Raises:
        InvalidInput: no function, or a generator function, since calling one runs nothing.
    """
    inner = _innermost(function)
    if not callable(function) or isinstance(inner, type):
        raise InvalidInput(
            f"{what} must be a function or a callable object, not {shorten(function)}",
            code=code,
            value=shorten(function),
        )
    tested = [inner, getattr(inner, "__call__", None)]  # noqa: B004 - a callable object's own method is looked at
    if any(inspect.isgeneratorfunction(one) or inspect.isasyncgenfunction(one) for one in tested):
        raise InvalidInput(
            f"{what} must be no generator function, since calling one runs nothing: {shorten(function)}",
            code=code,
            value=shorten(function),
        )
    return "loop" if any(inspect.iscoroutinefunction(one) for one in tested) else "worker"


def name_of(function: object, given: str | None, what: str, *, code: str) -> str:
    """Return the name given, or the function's own.

    Raises:
        InvalidInput: there is none, as for a lambda.
    """
    inner = _innermost(function)
    name = given if given is not None else getattr(inner, "__name__", type(inner).__name__)
    if not isinstance(name, str) or not name or name == "<lambda>":
        raise InvalidInput(f"{what} needs a name: give name=", code=code, value=shorten(function))
    return name


def _innermost(function: object) -> object:
    while isinstance(function, functools.partial):
        function = function.func
    return function
