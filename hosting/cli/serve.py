"""Owns `treadle serve`: a runtime of what was named, and the service of it. Signals and streams are the server's."""

from __future__ import annotations

import gc
import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...actors import Runtime
from ...protocol.errors import InvalidInput
from ...storage import LmdbStore
from .ending import JsonOption, ending
from .places import complete_path, given_path
from .target import load_target

if TYPE_CHECKING:
    from .target import Served

__all__ = ["serve"]


class Level(StrEnum):
    """From which importance on records are written."""

    debug = "debug"
    info = "info"
    warning = "warning"
    error = "error"


# The options stand apart, so that what the command does can be read on one page.
_Target = Annotated[
    str, typer.Argument(metavar="MODULE:NAME", help="An agent, a list of agents, or a Runtime.", show_default=False)
]
_Data = Annotated[
    Path | None,
    typer.Option(
        "--data",
        "-d",
        help="Where threads are kept; made if missing.",
        show_default=False,
        parser=given_path,
        autocompletion=complete_path,
    ),
]
_Host = Annotated[str, typer.Option(help="Address to listen on; beyond this machine only with tokens.")]
_Port = Annotated[int, typer.Option(min=0, max=65_535, help="0 for a free one.")]
_AllowHost = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-host",
        help="A name in Host that is answered, as desk.example or *.example; by default localhost and the address itself.",
        show_default=False,
    ),
]
_TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        help="Lines of TOKEN, for an admin, or TOKEN USER_ID; mode 600.",
        show_default=False,
        parser=given_path,
        autocompletion=complete_path,
    ),
]
_Deadline = Annotated[
    float | None,
    typer.Option(
        min=0, help="Seconds from SIGTERM in which executions may end by themselves.", show_default="the runtime's"
    ),
]
_LogLevel = Annotated[Level, typer.Option("--log-level", help="From which on stderr has log records.")]


@ending
def serve(
    target: _Target,
    data: _Data = None,
    host: _Host = "127.0.0.1",
    port: _Port = 8642,
    allow_host: _AllowHost = None,
    token_file: _TokenFile = None,
    deadline: _Deadline = None,
    log_level: _LogLevel = Level.info,
    as_json: JsonOption = False,
) -> None:
    """Serve agents over HTTP until SIGTERM or Ctrl-C; prints the address once it listens.

    NAME is looked for in MODULE, which is imported as Python does from here. A function without arguments is called for
    what it returns. A Runtime brings its own store, so --data is for agents only.

    Where MODULE sets up a tracer provider of OpenTelemetry, it gets spans of what the agents do.

    The first signal lets executions end until the deadline, interrupts the rest, and exits with 0; a second one exits at
    once, and the next start recovers what was left.

    \b
    Examples:
      treadle serve desk.agents:AGENTS --data data
      treadle serve desk:runtime --port 0
      treadle serve desk.agents:clerk -d data --host 0.0.0.0 --token-file tokens
    """
    # Before the user's module: what it says of the command line alone needs none.
    from ..app import create_app
    from ..logs import configure_logging
    from ..server import serve as serve_app
    from .token_file import read_tokens

    configure_logging("json" if as_json else "text", log_level.upper())
    given = gc.get_threshold()
    auth = None if token_file is None else read_tokens(token_file)
    runtime = _runtime(load_target(target), data)

    def announce(address: str) -> None:
        line = json.dumps({"address": address}) if as_json else f"Serving on {address}"
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()

    app = create_app(runtime, auth=auth, allowed_hosts=allow_host or None)
    with runtime:
        if gc.get_threshold() == given:  # else the module has set the collector as it wants it
            settle_collector()
        try:
            code = serve_app(runtime, app, host, port, drain_timeout=deadline, announce=announce)
        except OSError as error:
            if error.filename is None:  # of a socket, which does not say whose
                error.filename = f"{host}:{port}"
            raise
    if code:
        raise typer.Exit(code)


def settle_collector() -> None:
    """Take what is imported out of the collector's sight, and let it look after many new objects (`docs/tuning.md`).

    A library leaves that to its program; this process is the service's own, and the default costs a busy one up to a quarter of its time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


def _runtime(served: Served, data: Path | None) -> Runtime:
    if isinstance(served, Runtime):
        if data is not None:
            raise InvalidInput("a Runtime has its own store; leave --data out", code="invalid_option")
        return served
    from ..tracing import traced

    if data is None:
        raise InvalidInput("say with --data where threads are kept", code="invalid_option")
    return Runtime(traced(LmdbStore(data)), agents=served)
