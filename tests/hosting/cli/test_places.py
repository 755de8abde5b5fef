"""Owns the proof of treadle.hosting.cli.places: what is offered to a shell, and that an empty path is none."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from treadle.hosting.cli.places import complete_path, given_path

from .commands import call


def test_paths_are_completed_as_far_as_they_are_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "store").mkdir()
    (tmp_path / "dates.txt").touch()
    monkeypatch.chdir(tmp_path)

    assert complete_path("da") == ["data/", "dates.txt"]
    assert complete_path("data/") == ["data/store/"]
    assert complete_path(f"{tmp_path}/dat") == [f"{tmp_path}/data/", f"{tmp_path}/dates.txt"]
    assert complete_path("nowhere/x") == []


def test_an_empty_path_is_none() -> None:
    assert given_path("a") == Path("a")
    with pytest.raises(typer.BadParameter):
        given_path("")


@pytest.mark.parametrize(
    "arguments",
    [
        ["inspect", ""], ["check", ""], ["compact", ""], ["backup", "", "x"], ["backup", "x", ""], ["export", ""],
        ["export", "x", "-o", ""], ["serve", "a:b", "--data", ""], ["serve", "a:b", "--token-file", ""],
    ],
)  # fmt: skip
def test_no_command_takes_an_empty_path(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert call(*arguments) == 2
    assert "a path is not empty" in capsys.readouterr().err
