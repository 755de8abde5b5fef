"""Owns the proof of treadle.hosting.cli.compact: the store is smaller, the same, and never touched under an owner."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.storage.test_copying import fill as fill_with_free_pages
from tests.storage.test_copying import tables_of
from treadle.actors import Runtime
from treadle.storage import LmdbStore

from .commands import call, command, echo, error

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.slow
def test_the_command_makes_a_store_smaller(tmp_path: Path) -> None:
    fill_with_free_pages(tmp_path)
    rows = tables_of(tmp_path)
    done = command("compact", tmp_path, "--json")

    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert found["after"] == (tmp_path / "data.mdb").stat().st_size < found["before"]
    assert tables_of(tmp_path) == rows


def test_a_store_in_use_and_none_at_all_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Runtime(LmdbStore(tmp_path / "data"), agents=[echo]):
        assert call("compact", tmp_path / "data") == 3
        assert capsys.readouterr().err.startswith("treadle: store_in_use: ")
    assert call("compact", tmp_path / "data") == 0
    assert " bytes before, " in capsys.readouterr().out
    assert call("compact", tmp_path / "missing", "--json") == 4
    assert error(capsys.readouterr().err)["code"] == "not_a_store"
    assert not (tmp_path / "missing").exists()
