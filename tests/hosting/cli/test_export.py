"""Owns the proof of treadle.hosting.cli.export: lines on stdout or in a file that is gone on with, whatever cut it."""

from __future__ import annotations

import signal
import subprocess
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.storage.test_copying import OWNER, Process
from treadle.actors import Runtime
from treadle.storage import LmdbStore

from .commands import COMMAND, call, command, echo, error, fill, lines

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def store(tmp_path: Path) -> Path:
    fill(tmp_path / "store")
    return tmp_path / "store"


@pytest.mark.slow
def test_events_and_messages_come_as_lines(store: Path) -> None:
    events = command("export", store)
    assert (events.returncode, events.stderr) == (0, "")
    found = lines(events.stdout)
    assert next(line["cursor"] for line in found if line["thread_id"] == "a") == "1:1"
    assert {line["thread_id"] for line in found} == {"a", "b"}
    assert {"THREAD_CREATED", "MESSAGE_ADDED", "INPUT_QUEUED"} < {line["type"] for line in found}

    one = command("export", store, "-t", "a", "--after", found[1]["cursor"])
    assert lines(one.stdout) == [line for line in found if line["thread_id"] == "a"][2:]
    messages = lines(command("export", store, "--what", "messages", "--thread", "b").stdout)
    assert [(line["position"], line["role"]) for line in messages] == [
        (0, "user"), (1, "user"), (2, "assistant"), (3, "assistant"),
    ]  # fmt: skip
    assert messages[1]["content"] == "you \u2028 \x1b[2J ä"
    behind = command("export", store, "--what", "messages", "--thread", "b", "--after", 2)
    assert lines(behind.stdout) == messages[3:]


def test_a_file_that_is_resumed_gets_what_is_new(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "lines"
    assert call("export", store, "-o", path) == 0
    count = len(lines(path.read_text()))
    assert capsys.readouterr().out == f"{path}: {count} lines added\n"
    assert call("export", store, "-o", path, "--json") == 2
    assert error(capsys.readouterr().err)["code"] == "target_exists"
    with Runtime(LmdbStore(store), agents=[echo]) as runtime:
        runtime.thread("a").set_value("k", 1).result()
    before = path.read_text()
    assert call("export", store, "-o", path, "--resume") == 0
    assert path.read_text().startswith(before)
    assert [line["type"] for line in lines(path.read_text()[len(before) :])] == ["VALUE_CHANGED"]
    assert call("export", store, "-o", path, "--resume", "--what", "messages", "--json") == 2
    capsys.readouterr()


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--thread", "nobody"], "thread_not_found"),
        (["--after", "1:1"], "invalid_option"),
        (["--thread", "a", "--after", "x"], "invalid_cursor"),
        (["--thread", "a", "--what", "messages", "--after", "1:1"], "invalid_cursor"),
        (["--resume"], "invalid_option"),
        (["--what", "secrets"], "usage"),
    ],
)
def test_what_cannot_be_exported_is_one_line(
    options: list[str], named: str, store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("export", store, *options, "--json") == 2
    told = capsys.readouterr()
    assert (told.out, error(told.err)["code"]) == ("", named)


@pytest.mark.slow
def test_an_export_that_is_killed_and_resumed_beside_an_owner_has_every_event_once(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    with Process(OWNER, tmp_path / "store") as owner:
        assert owner.line() == "works"
        for limit in (10, 40, 200):
            # A limit on the size of its file kills it, in the midst of whatever line that hits.
            script = f'ulimit -f {limit}; exec {COMMAND[0]} -c "$0" "$@"'
            dies = (
                "import signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_DFL);"
                "from treadle.hosting.cli import main; main()"
            )
            given = ["export", str(tmp_path / "store"), "-o", str(path), "--resume"]
            done = subprocess.run(["bash", "-c", script, dies, *given], capture_output=True, check=False, timeout=60)
            assert done.returncode in (0, -signal.SIGXFSZ), done.stderr
        owner.say()
        assert owner.line()
    assert command("export", tmp_path / "store", "-o", path, "--resume").returncode == 0

    written = path.read_text().split("\n")
    places = Counter((line["thread_id"], line["cursor"]) for line in lines(path.read_text()))
    assert {*places.values()} == {1}
    # What is still there is all in it; besides that, threads that were deleted meanwhile.
    assert {*command("export", tmp_path / "store").stdout.split("\n")} <= {*written}


@pytest.mark.slow
def test_a_reader_that_leaves_ends_an_export_without_a_word(store: Path) -> None:
    with Runtime(LmdbStore(store, durability="process"), agents=[echo]) as runtime:
        for rank in range(20):
            runtime.thread("a").inject_message("assistant", f"{rank}" * 20_000).result()
    process = subprocess.Popen([*COMMAND, "export", str(store)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline()
    process.stdout.close()
    assert process.wait(60) == 141
    assert process.stderr.read() == b""
    process.stderr.close()
