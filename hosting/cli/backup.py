"""Owns `treadle backup`: what is asked for and what is printed. How a store is copied, storage knows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...storage.copying import backup as copy_store
from .ending import JsonOption, ending, say
from .places import DataArgument, complete_path, given_path

__all__ = ["backup"]


@ending
def backup(
    data: DataArgument,
    target: Annotated[
        Path,
        typer.Argument(
            metavar="TARGET",
            help="A directory that does not exist, in one that does.",
            show_default=False,
            parser=given_path,
            autocompletion=complete_path,
        ),
    ],
    broken_too: Annotated[
        bool, typer.Option("--broken-too", help="Keep the copy of a store with broken invariants, too.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Copy a store to a new directory, while a server works on it or while none does.

    The copy is the store of one moment. It is synced and checked before it appears under its name, in one step; a backup
    that was killed leaves nothing that looks like one. Nothing is ever replaced.

    To restore: stop the server, move its directory away, and make a backup of the backup in that place.

    \b
    Examples:
      treadle backup data /backups/monday
      treadle backup /backups/monday data        # restores
      treadle backup data /backups/$(date +%F) --json
    """
    made = copy_store(data, target, broken_too=broken_too)
    found = {
        "path": made.path,
        "bytes": made.size,
        "threads": made.report.threads,
        "events": made.report.events,
        "broken": len(made.report.broken),
    }
    say(found, f"{made.path}: {made.size:,} bytes; {made.report}", as_json=as_json)
