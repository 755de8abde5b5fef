"""Owns the proof of treadle.hosting.cli.backup: a command beside a service at work, and what it says."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.storage.test_check import break_it
from tests.storage.test_copying import OWNER, Process, tables_of
from treadle.storage.check import check

from .commands import call, command, error, fill

if TYPE_CHECKING:
    from pathlib import Path


def test_a_backup_is_made_and_restored_by_the_same_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(tmp_path / "data")
    rows = tables_of(tmp_path / "data")
    assert call("backup", tmp_path / "data", tmp_path / "copy", "--json") == 0
    made = json.loads(capsys.readouterr().out)
    assert (made["path"], made["threads"], made["broken"]) == (str(tmp_path / "copy"), 2, 0)
    (tmp_path / "data").rename(tmp_path / "away")
    assert call("backup", tmp_path / "copy", tmp_path / "data") == 0
    assert capsys.readouterr().out.startswith(f"{tmp_path / 'data'}: {made['bytes']:,} bytes; 2 threads")

    assert tables_of(tmp_path / "data") == rows


def test_a_target_that_is_there_and_a_broken_store_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(tmp_path / "data")
    (tmp_path / "there").mkdir()
    assert call("backup", tmp_path / "data", tmp_path / "there", "--json") == 2
    assert error(capsys.readouterr().err)["code"] == "target_exists"
    break_it(tmp_path / "data")
    assert call("backup", tmp_path / "data", tmp_path / "copy", "--json") == 4
    assert error(capsys.readouterr().err)["code"] == "corrupt_record"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["data", "there"]
    assert call("backup", tmp_path / "data", tmp_path / "copy", "--broken-too", "--json") == 0
    assert json.loads(capsys.readouterr().out)["broken"] > 0


@pytest.mark.slow
def test_the_command_copies_beside_an_owner_at_work(tmp_path: Path) -> None:
    with Process(OWNER, tmp_path / "data") as owner:
        assert owner.line() == "works"
        done = command("backup", tmp_path / "data", tmp_path / "copy", "--json")
        compacted = command("compact", tmp_path / "data", "--json")
        owner.say()
        total = int(owner.line())

    assert (done.returncode, done.stderr) == (0, "")
    report = check(tmp_path / "copy")
    assert report.broken == ()
    assert 5 <= report.threads + report.deleted < total
    assert compacted.returncode == 3
    refused = error(compacted.stderr)
    assert (refused["code"], refused["details"]["pid"]) == ("store_in_use", owner.pid)
    assert check(tmp_path / "data").broken == ()
