"""Owns the proof of treadle.storage.half_made: one maker at a time, what a dead one left is used again, foreign files stay."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from treadle.protocol.errors import NotAStore, StoreFailed, StoreInUse
from treadle.storage.half_made import HalfMade

from .driving import Process

if TYPE_CHECKING:
    from pathlib import Path

MAKER = """
import sys
from pathlib import Path
from treadle.storage.half_made import HalfMade
with HalfMade(Path(sys.argv[1])) as made:
    made.fill(lambda file: None)
    print("made", flush=True)
    sys.stdin.readline()
"""


def test_nothing_is_left_of_a_copy_that_got_no_place(tmp_path: Path) -> None:
    with HalfMade(tmp_path / "copy") as made:
        made.fill(lambda file: os.write(file, b"data") and None)
        made.sync()
        (made.path / "lock.mdb").touch()
        made.keep_data_only()
        assert [entry.name for entry in made.path.iterdir()] == ["data.mdb"]
        assert (made.path.stat().st_mode & 0o777, made.data.stat().st_mode & 0o777) == (0o700, 0o600)

    assert list(tmp_path.iterdir()) == []


def test_what_was_moved_to_its_place_stays_there(tmp_path: Path) -> None:
    with HalfMade(tmp_path / "copy") as made:
        made.fill(lambda file: os.write(file, b"data") and None)
        made.path.rename(tmp_path / "goal")

    assert [entry.name for entry in tmp_path.iterdir()] == ["goal"]
    assert (tmp_path / "goal" / "data.mdb").read_bytes() == b"data"


def test_one_process_at_a_time_makes_a_copy_and_what_a_dead_one_left_goes(tmp_path: Path) -> None:
    place = tmp_path / "copy"
    with Process(MAKER, place) as maker:
        assert maker.line() == "made"
        with pytest.raises(StoreInUse), HalfMade(place):
            pytest.fail("it was had twice")
        assert (place / "data.mdb").exists()
    assert (place / "data.mdb").exists()

    with HalfMade(place) as made:
        assert not made.data.exists()

    assert not place.exists()


def test_foreign_files_at_its_path_are_not_touched(tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "diary").touch()
    with pytest.raises(NotAStore, match="diary"), HalfMade(tmp_path / "copy"):
        pytest.fail("foreign files")
    (tmp_path / "file").touch()
    with pytest.raises(StoreFailed), HalfMade(tmp_path / "file"):
        pytest.fail("no directory")
    (tmp_path / "link").symlink_to(tmp_path / "copy")
    with pytest.raises(StoreFailed), HalfMade(tmp_path / "link"):
        pytest.fail("a link")

    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["copy", "file", "link"]
    assert (tmp_path / "copy" / "diary").exists()
