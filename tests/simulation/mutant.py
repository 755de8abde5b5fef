"""Owns what a mutant is, how it is patched in for a while, and what kills it. Lists none."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple

from treadle.protocol import lifecycle
from treadle.protocol.decision import Phase
from treadle.protocol.errors import TreadleError
from treadle.protocol.triggers import Kind

from .explore import explore
from .oracles import Violation
from .script import Script

__all__ = ["Mutant", "Survived", "attributes", "explored", "rules", "tested"]

Patch = Callable[[], AbstractContextManager[None]]
Killer = Callable[[], None]


class Survived(Exception):
    """A mutant that its killer did not notice, or that something else noticed first."""


class Mutant(NamedTuple):
    """A rule broken on purpose.

    Attributes:
        name: what is broken, as a phrase.
        patch: makes a context in which it is broken.
        killer: raises an AssertionError (a `Violation` among them) or a TreadleError when it notices.
        by: what the killer says when it notices: a part of the error's text, and of the printed line.
    """

    name: str
    patch: Patch
    killer: Killer
    by: str

    def kill(self) -> str:
        """Break the rule, run the killer, mend the rule, and return what noticed. Raises: Survived."""
        try:
            with self.patch():
                self.killer()
        except (AssertionError, TreadleError) as error:
            if self.by not in str(error):
                raise Survived(f"expected {self.by!r}, but noticed was {error}") from error
            where = f" [{error.promise}]" if isinstance(error, Violation) and error.promise != self.by else ""
            return f"{self.by}{where}"
        raise Survived(f"{self.by!r} did not notice")


@contextmanager
def attributes(*changes: tuple[Any, str, Any]) -> Iterator[None]:
    """Set attributes (owner, name, value) for a while: module functions, methods."""
    before = [(owner, name, owner.__dict__[name]) for owner, name, _ in changes]
    for owner, name, value in changes:
        setattr(owner, name, value)
    try:
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)


@contextmanager
def rules(kind: Kind, **changes: Any) -> Iterator[None]:
    """Change cells of one row of the table for a while: phase name in lower case -> rule."""
    before = {}
    for name, rule in changes.items():
        place = Phase(name), kind
        before[place] = lifecycle.TABLE[place]
        lifecycle.TABLE[place] = before[place]._replace(rule=rule)
        lifecycle.RULES[place[0]][kind] = rule
    try:
        yield
    finally:
        lifecycle.TABLE.update(before)
        for (phase, _), cell in before.items():
            lifecycle.RULES[phase][kind] = lifecycle.rule_of(cell)


def tested(module: str, name: str, *arguments: object) -> Killer:
    """Return the killer that runs one test of the rules: its module under `tests`, its name, its parameters."""

    def killer() -> None:
        test = getattr(importlib.import_module(f"tests.{module}"), name)
        try:
            test(*arguments)
        except (AssertionError, TreadleError, ValueError) as error:
            raise AssertionError(f"{name}: {error}") from error

    return killer


def explored(script: Script) -> Killer:
    """Return the killer that explores a script and judges every edge."""

    def killer() -> None:
        explore(script)

    return killer
