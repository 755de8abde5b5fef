"""Owns how a command ends: its exit code, its errors in one line, its result as JSON. Does no command's work.

| exit code | means |
|---|---|
| 0 | done |
| 1 | `check` found broken invariants; `export` left a thread out; `serve` could not store the last ends; `wait`: it failed |
| 2 | the command cannot be right: an argument, a file that is there already, a thread or file that is not |
| 3 | not now: the store is in use or full, an address is taken; nothing was changed |
| 4 | the store cannot be read: it is none, is of a newer version, or is damaged |
| 70 | a bug of ours; its traceback is printed |
| 130, 141 | it was interrupted; nobody read its output any more |
"""

from __future__ import annotations

import functools
import inspect
import json
import os
import sys
import traceback
from enum import IntEnum
from typing import TYPE_CHECKING, Annotated, Final, ParamSpec, TypeVar

import typer

from ...protocol.errors import CallerError, InternalError, StoreUnreadable, TreadleError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Exit", "JsonOption", "ending", "fail", "refuse", "run", "say"]

P = ParamSpec("P")
R = TypeVar("R")

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, errors too.")]
# Typer brings a click of its own, or uses the installed one: by its version.
_UsageError: Final[type[Exception]] = typer.BadParameter.__mro__[1]
# What a person can do about it at a command line; for programs there is the code.
_HINTS: Final = {
    "unauthenticated": "; --token or TREADLE_TOKEN has one",
    "route_not_found": "; is --url the address of a Treadle server?",
}
_encode: Final = json.JSONEncoder(ensure_ascii=False, default=str).encode


class Exit(IntEnum):
    """What a command's exit code says."""

    DONE = 0
    BROKEN = 1
    USAGE = 2
    NOT_NOW = 3
    UNREADABLE = 4
    BUG = 70
    INTERRUPTED = 130
    UNREAD = 141


def run(app: typer.Typer, arguments: Sequence[str] | None = None, *, name: str = "treadle") -> int:
    """Run a command line and return its exit code; one that cannot be right is told in one line, too.

    Args:
        app: whose commands have `ending`.
        arguments: by default the process's own; without any, the help is printed.
        name: of the program, in its help.
    """
    given = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    try:
        code = typer.main.get_command(app).main(given, prog_name=name, standalone_mode=False)
    except _UsageError as error:
        return refuse(_usage(error, name), "usage", as_json="--json" in given).exit_code
    except typer.Abort:
        return Exit.INTERRUPTED
    except OSError as error:  # of a help that nobody reads or that has no room: commands have their own end
        return _unread() if isinstance(error, BrokenPipeError) else fail(error, as_json="--json" in given)
    except SystemExit as error:  # which Rich makes of a pipe that is closed
        if isinstance(error.__context__, BrokenPipeError):
            return _unread()
        raise
    except Exception:  # noqa: BLE001 - the end of the program
        # More than a line, once: it is for those who mend it.
        traceback.print_exc()
        return Exit.BUG
    return code if isinstance(code, int) else Exit.DONE


def ending(command: Callable[P, R]) -> Callable[P, R]:
    """Have a command end with a line and a code, whatever it met. Its parameter `as_json` says how the line looks."""

    @functools.wraps(command)
    def ended(*args: P.args, **kwargs: P.kwargs) -> R:
        as_json = bool(inspect.signature(command).bind(*args, **kwargs).arguments.get("as_json"))
        try:
            found = command(*args, **kwargs)
            sys.stdout.flush()
        except (TreadleError, OSError) as error:
            if isinstance(error, BrokenPipeError):
                raise typer.Exit(_unread()) from error
            raise typer.Exit(fail(error, as_json=as_json)) from error
        except KeyboardInterrupt as error:
            raise typer.Exit(Exit.INTERRUPTED) from error
        return found

    return ended


def fail(error: TreadleError | OSError, *, as_json: bool) -> Exit:
    """Say on stderr, in one line, what was met, and return the exit code for it."""
    if isinstance(error, TreadleError):
        told = error.to_wire()
    else:
        name = f"{error.filename}: " if error.filename else ""
        told = {"code": "os_error", "message": f"{name}{error.strerror or error}", "details": {}}
    hint = _HINTS.get(str(told["code"]), "")
    line = _encode(told) if as_json else f"treadle: {told['code']}: {told['message']}{hint}"
    sys.stderr.write(f"{_printable(line)}\n")
    sys.stderr.flush()
    return _code(error)


def refuse(message: str, code: str, *, as_json: bool) -> typer.Exit:
    """Say in one line why the command cannot be right, and return what ends it so."""
    line = _encode({"code": code, "message": message, "details": {}}) if as_json else f"treadle: {code}: {message}"
    sys.stderr.write(f"{_printable(line)}\n")
    return typer.Exit(Exit.USAGE)


def say(found: object, text: str, *, as_json: bool) -> None:
    """Print a result: as one line of JSON, or as text."""
    sys.stdout.write(f"{_encode(found) if as_json else text}\n")
    sys.stdout.flush()


def _usage(error: Exception, name: str) -> str:
    said: str = getattr(error, "format_message", error.__str__)()
    said = said.replace("Value error, ", "").strip().removesuffix(".")  # of what checks for Typer
    where = getattr(getattr(error, "ctx", None), "command_path", name)
    return f"{said}{'' if said.endswith('?') else '.'} See {where} --help"


def _unread() -> Exit:
    # Whatever is flushed at exit goes where nobody complains.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return Exit.UNREAD


def _code(error: TreadleError | OSError) -> Exit:
    if isinstance(error, CallerError | FileNotFoundError | IsADirectoryError | NotADirectoryError):
        return Exit.USAGE
    if isinstance(error, StoreUnreadable):
        return Exit.UNREADABLE
    return Exit.BUG if isinstance(error, InternalError) else Exit.NOT_NOW


def _printable(line: str) -> str:
    # One line stays one, and nothing that a store or a module says moves the cursor.
    return "".join(char if char.isprintable() else " " for char in line)
