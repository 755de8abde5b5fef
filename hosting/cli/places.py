"""Owns how a path is given on the command line: it is never empty, and shells complete it. Opens nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

__all__ = ["DataArgument", "complete_path", "given_path"]

_OFFERED_MAX: Final = 1_000


def given_path(text: str | Path) -> Path:
    """Return a path; an empty one, of a variable that is not set say, would be wherever the command is run."""
    if not str(text):
        raise typer.BadParameter("a path is not empty")
    return Path(text)


def complete_path(incomplete: str) -> list[str]:
    """Return the paths that begin so, folders with a slash behind."""
    folder, _, begun = incomplete.rpartition("/")
    front = f"{folder}/" if "/" in incomplete else ""
    try:
        found = sorted(entry for entry in Path(front or ".").iterdir() if entry.name.startswith(begun))
    except OSError:
        return []
    return [f"{front}{entry.name}{'/' if entry.is_dir() else ''}" for entry in found[:_OFFERED_MAX]]


DataArgument = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help="The store's directory.",
        show_default=False,
        parser=given_path,
        autocompletion=complete_path,
    ),
]
