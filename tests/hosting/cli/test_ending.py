"""Owns the proof of treadle.hosting.cli.ending: whatever a command meets, it ends with one line and a code."""

from __future__ import annotations

import errno
import json

import pytest
import typer

from treadle.hosting.auth import Unauthenticated
from treadle.hosting.cli.ending import Exit, JsonOption, ending, run, say
from treadle.protocol.errors import (
    CorruptRecord,
    InternalError,
    InvalidInput,
    StoreInUse,
    ThreadNotFound,
    TreadleError,
)

MET: list[tuple[BaseException | None, int, str]] = [
    (None, 0, ""),
    (InvalidInput("no\nnumber \x1b[2J", code="invalid_page"), 2, "treadle: invalid_page: no number  [2J"),
    (ThreadNotFound("no thread 't'", thread_id="t"), 2, "treadle: thread_not_found: no thread 't'"),
    (StoreInUse("owned"), 3, "treadle: store_in_use: owned"),
    (CorruptRecord("damaged"), 4, "treadle: corrupt_record: damaged"),
    (InternalError("oh"), 70, "treadle: internal_error: oh"),
    (FileNotFoundError(errno.ENOENT, "No such file", "tokens"), 2, "treadle: os_error: tokens: No such file"),
    (OSError(errno.EADDRINUSE, "Address in use"), 3, "treadle: os_error: Address in use"),
    (KeyboardInterrupt(), 130, ""),
    (typer.Exit(7), 7, ""),
]


def app_that_meets(met: BaseException | None) -> typer.Typer:
    app = typer.Typer()

    @app.command()
    @ending
    def command(as_json: JsonOption = False) -> None:
        """Do it."""
        if met is not None:
            raise met
        say({"done": "ä"}, "done", as_json=as_json)

    return app


@pytest.mark.parametrize(("met", "code", "line"), MET, ids=lambda value: type(value).__name__)
def test_each_kind_of_end_has_its_code_and_its_line(
    met: BaseException | None, code: int, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(app_that_meets(met), ["--help"]) == 0
    assert "Do it." in capsys.readouterr().out
    assert run(app_that_meets(met), []) == 0, "without arguments the help"
    capsys.readouterr()
    assert run(_two(met), ["command"]) == code
    told = capsys.readouterr()
    assert told.err == (f"{line}\n" if line else "")
    assert told.out == ("done\n" if met is None else "")


@pytest.mark.parametrize(("met", "code", "line"), MET, ids=lambda value: type(value).__name__)
def test_programs_get_the_same_as_json(
    met: BaseException | None, code: int, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(_two(met), ["command", "--json"]) == code
    told = capsys.readouterr()
    if isinstance(met, TreadleError):
        assert json.loads(told.err) == met.to_wire()
    if met is None:
        assert json.loads(told.out) == {"done": "ä"}


def test_a_command_line_that_cannot_be_right_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["nonsense"], ["command", "--unknown"], ["command", "more"]):
        assert run(_two(None), arguments) == Exit.USAGE
        told = capsys.readouterr().err
        assert told.startswith("treadle: usage: ")
        assert told.count("\n") == 1
    assert told.endswith(". See treadle command --help\n"), "of the command that was meant"
    assert run(_two(None), ["comman"]) == Exit.USAGE
    assert capsys.readouterr().err.endswith("Did you mean 'command'? See treadle --help\n")
    assert run(_two(None), ["command", "--number", "x"]) == Exit.USAGE
    assert "Value error" not in capsys.readouterr().err


def test_a_bug_is_told_in_full_and_has_a_code_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(_two(ZeroDivisionError("ours")), ["command"]) == Exit.BUG
    assert capsys.readouterr().err.endswith("ZeroDivisionError: ours\n")


def test_what_a_person_can_do_about_it_is_said_to_people_alone(capsys: pytest.CaptureFixture[str]) -> None:
    met = Unauthenticated("this needs a known token")

    assert run(_two(met), ["command"]) == Exit.USAGE
    assert "TREADLE_TOKEN" in capsys.readouterr().err
    assert run(_two(met), ["command", "--json"]) == Exit.USAGE
    assert json.loads(capsys.readouterr().err) == met.to_wire()


def _two(met: BaseException | None) -> typer.Typer:
    app = app_that_meets(met)

    @app.command()
    def other() -> None:
        """Stand beside it, so that commands have names."""

    return app
