"""Owns what `MODULE:NAME` stands for: agents, or a runtime. Imports the user's module, and runs nothing else of it."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeAlias

from ...actors import Runtime
from ...protocol.errors import InvalidInput, TreadleError, shorten

if TYPE_CHECKING:
    from ...actors.services import Body

__all__ = ["Served", "load_target"]

Served: TypeAlias = "Runtime | list[Body]"


def load_target(text: str) -> Served:
    """Import what `MODULE:NAME` names, as Python would from where the command is run.

    Args:
        text: the name, with dots where it is within something, is of an agent, of agents, of a runtime that is not open yet,
            or of a function without arguments that returns one of these.

    Raises:
        InvalidInput: `invalid_target`; there is no such thing, or it could not be imported.
        TreadleError: as the module raised it.
    """
    module_name, colon, name = text.partition(":")
    if not colon or not all(part.isidentifier() for part in [*module_name.split("."), *name.split(".")]):
        raise _invalid(text, "it is MODULE:NAME, as in desk.agents:AGENTS")
    found: object = _imported(text, module_name)
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError as error:
            raise _invalid(text, f"{module_name} has no {name}") from error
    if callable(found) and not isinstance(found, type) and not _is_body(found):
        found = _made(text, found)
    if isinstance(found, Runtime):
        return found
    if _is_body(found):
        return [found]  # type: ignore[list-item]  # looked at by the runtime, as all that it is given
    if isinstance(found, Iterable) and not isinstance(found, str | bytes):
        return list(found)
    raise _invalid(text, f"it is no agent, no list of agents and no Runtime, but {shorten(found)}")


def _imported(text: str, name: str) -> object:
    here = os.getcwd()  # noqa: PTH109 - as Python puts it there
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except TreadleError:
        raise
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise _invalid(text, f"there is no module {error.name}") from error
        raise _invalid(text, f"{name} could not be imported: {error}") from error
    except (Exception, SystemExit) as error:
        raise _invalid(text, f"{name} could not be imported: {type(error).__name__}: {error}") from error


def _made(text: str, make: object) -> object:
    assert callable(make)
    try:
        made: object = make()
    except TreadleError:
        raise
    except Exception as error:
        raise _invalid(text, f"calling it failed: {type(error).__name__}: {error}") from error
    return made


def _is_body(found: object) -> bool:
    return all(hasattr(found, name) for name in ("name", "runs_on", "run"))


def _invalid(text: str, why: str) -> InvalidInput:
    return InvalidInput(f"nothing can be served of {text!r}: {why}", code="invalid_target", value=shorten(text))
