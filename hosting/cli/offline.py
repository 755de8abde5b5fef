"""Owns the list of commands that need no server. Has none itself; the command line of the whole takes them from here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .backup import backup
from .compact import compact
from .export import export
from .serve import serve
from .store import check, inspect

if TYPE_CHECKING:
    from collections.abc import Callable

    import typer

__all__ = ["register"]

_COMMANDS: tuple[Callable[..., None], ...] = (serve, inspect, check, export, backup, compact)


def register(app: typer.Typer) -> None:
    """Add the commands to a Typer app."""
    for command in _COMMANDS:
        app.command()(command)
