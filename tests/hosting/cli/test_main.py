"""Holds treadle.hosting.cli.main: which commands there are, and what the program says of itself."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from treadle.hosting.cli.main import app

TREADLE = Path(sys.executable).with_name("treadle")
COMMANDS = {
    "serve", "inspect", "check", "export", "backup", "compact", "threads", "show", "send", "steer", "stop", "tail", "wait",
    "call",
}  # fmt: skip


def run(*arguments: str, **env: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [TREADLE, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONWARNINGS": "error", "COLUMNS": "200", "TERM": "dumb", **env},
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def names() -> set[str]:
    return {info.name or getattr(info.callback, "__name__", "") for info in app.registered_commands}


def test_there_are_these_commands() -> None:
    assert names() == COMMANDS


def test_every_command_explains_itself_by_examples_and_speaks_json() -> None:
    for info in app.registered_commands:
        name, doc = getattr(info.callback, "__name__", ""), getattr(info.callback, "__doc__", "") or ""
        assert f"  treadle {name}" in doc.partition("Examples:")[2], name
        assert "as_json" in getattr(info.callback, "__annotations__", {}), name


def test_the_list_of_commands_has_each_in_one_piece() -> None:
    for info in app.registered_commands:
        first, _, more = (getattr(info.callback, "__doc__", "") or "").partition("\n")
        assert first.endswith("."), f"{first} goes on below, where the list would break it"
        assert not more or more.startswith("\n")


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [(), ("threads", "--help"), ("check", "/nowhere"), ("show", "t")])
@pytest.mark.parametrize("closed", [">&-", "<&- >&- 2>&-", "2>&-"])
def test_a_program_whose_streams_are_closed_ends_as_if_they_were_not(closed: str, arguments: tuple[str, ...]) -> None:
    whole = run(*arguments, TREADLE_URL="http://127.0.0.1:1")[0]

    line = f'"$@" {closed}'
    done = subprocess.run(
        ["sh", "-c", line, "sh", TREADLE, *arguments],
        capture_output=True, text=True, timeout=60, check=False, env={**os.environ, "TREADLE_URL": "http://127.0.0.1:1"},
    )  # fmt: skip

    assert done.returncode == whole
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_help_that_nobody_reads_or_that_has_no_room_is_no_bug() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as unread, Path("/dev/full").open("wb") as full:
        for stream, code, said in ((unread, 141, ""), (full, 3, "treadle: os_error: No space left on device\n")):
            done = subprocess.run(
                [TREADLE, "--help"], stdout=stream, stderr=subprocess.PIPE, text=True, timeout=60, check=False
            )
            assert (done.returncode, done.stderr) == (code, said)


@pytest.mark.slow
def test_the_program_says_what_it_is() -> None:
    assert run("--version") == (0, f"treadle {version('treadle')}\n", "")
    code, out, errors = run()
    assert (code, errors) == (0, "")
    assert all(f" {name} " in out for name in COMMANDS)
    code, out, _ = run("tail", "-h")
    assert code == 0
    assert "treadle tail mia --after 1:42" in out


@pytest.mark.slow
def test_a_command_that_is_none_is_said_in_one_line() -> None:
    code, out, errors = run("frobnicate")

    assert (code, out, errors.count("\n")) == (2, "", 1)
    assert errors.startswith("treadle: usage: ")


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_its_commands(shell: str) -> None:
    code, script, _ = run("--show-completion", shell, SHELL=f"/bin/{shell}")
    assert code == 0
    assert "_TREADLE_COMPLETE" in script


@pytest.mark.slow
def test_completion_finds_commands_and_states() -> None:
    asked = {"_TREADLE_COMPLETE": "complete_bash"}

    _, found, _ = run(**asked, COMP_WORDS="treadle t", COMP_CWORD="1")
    assert found.split() == ["threads", "tail"]
    _, found, _ = run(**asked, COMP_WORDS="treadle threads --state ", COMP_CWORD="3")
    assert found.split() == ["idle", "running", "failed"]
