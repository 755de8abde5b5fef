"""Owns the program `treadle`: which commands there are, and how it ends. Does no command's work."""

from __future__ import annotations

import io
import os
import sys
from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated

import typer

from . import offline
from .ending import run
from .online import send, show, steer, stop, tail, threads
from .running import call, wait

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["app", "main"]

_ONLINE: tuple[Callable[..., None], ...] = (threads, show, send, wait, steer, stop, call, tail)

app = typer.Typer(
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    epilog="treadle COMMAND --help shows examples. Completion: treadle --install-completion.",
)


def _version(asked: bool) -> None:
    if asked:
        sys.stdout.write(f"treadle {version('treadle')}\n")
        raise typer.Exit


@app.callback()
def treadle(
    version_asked: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Host many agent threads: serve them, talk to them, and look after their store."""


for _command in _ONLINE:
    app.command(rich_help_panel="With a server")(_command)
offline.register(app)
for _info in app.registered_commands[len(_ONLINE) :]:
    _info.rich_help_panel = "On this machine"


def main() -> None:
    """Run the program and exit."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed by whoever started this; no file of ours is to get its number
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123 - until the end
    for stream in (sys.stdout, sys.stderr):
        # What a terminal of another alphabet cannot show is told by its number, and is no reason to end.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    sys.exit(run(app))
