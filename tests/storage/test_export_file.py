"""Owns the proof of treadle.storage.export_file: it goes on behind its last whole line, and takes no other file for its own."""

from __future__ import annotations

import json
import resource
import signal
from typing import TYPE_CHECKING

import pytest

from treadle.protocol.errors import InvalidInput, StorageFull, StoreInUse
from treadle.storage.export_file import ExportFile
from treadle.storage.exporting import Exported

if TYPE_CHECKING:
    from pathlib import Path

LINES = [
    Exported(name, place, json.dumps({"thread_id": name, "cursor": f"1:{place}", "text": "ä" * 20}, ensure_ascii=False))
    for name in ("a", "b")
    for place in (1, 2, 3)
]
WHOLE = "".join(f"{one.line}\n" for one in LINES).encode()


def write_rest(path: Path, *, resume: bool = True) -> int:
    with ExportFile(path, "events", resume=resume) as file:
        for one in LINES:
            if one.place > file.done.get(one.thread_id, 0):
                file.add(one)
        return file.written


def test_wherever_a_file_was_cut_it_ends_whole(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    for size in range(0, len(WHOLE) + 1, 7):
        path.write_bytes(WHOLE[:size])
        assert write_rest(path) == WHOLE[size:].count(b"\n")
        assert path.read_bytes() == WHOLE
    path.write_bytes(WHOLE[:60] + bytes(4096))  # as a machine that lost its power may leave it
    write_rest(path)
    assert path.read_bytes() == WHOLE


def test_a_new_file_is_for_its_user_alone_and_an_existing_one_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    assert write_rest(path, resume=False) == len(LINES)
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(InvalidInput) as caught:
        write_rest(path, resume=False)
    assert caught.value.code == "target_exists"
    assert path.read_bytes() == WHOLE


@pytest.mark.parametrize(
    "line",
    [
        b"{}",
        b"hello",
        b"[1]",
        b'"x"',
        b"\xff",
        b'{"thread_id": 1, "cursor": "1:1"}',
        b'{"thread_id": "a", "cursor": "1"}',
    ],
)
def test_a_file_with_a_line_of_another_kind_is_not_changed(line: bytes, tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(WHOLE + line + b"\n" + WHOLE[:5])
    before = path.read_bytes()
    with pytest.raises(InvalidInput) as caught:
        write_rest(path)

    assert (caught.value.code, caught.value.details["line"]) == ("not_an_export", len(LINES) + 1)
    assert path.read_bytes() == before
    with pytest.raises(InvalidInput):
        ExportFile(path, "messages", resume=True).__enter__()


def test_one_export_at_a_time_writes_a_file(tmp_path: Path) -> None:
    with ExportFile(tmp_path / "lines", "events"):
        with pytest.raises(StoreInUse):
            write_rest(tmp_path / "lines")
    assert write_rest(tmp_path / "lines") == len(LINES)


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path, tmp_path / "missing" / "lines", tmp_path / "file" / "lines"):
        with pytest.raises(InvalidInput) as caught:
            write_rest(path)
        assert caught.value.code == "invalid_path"


def test_a_full_disk_ends_an_export_and_the_next_one_mends_it(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        with pytest.raises(StorageFull):
            write_rest(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert path.read_bytes() == WHOLE[:100]

    write_rest(path)
    assert path.read_bytes() == WHOLE
