"""Owns the proof of treadle.storage.environment: its flags, its map, its reader slots, one opening a process."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, NoReturn

import pytest

from treadle.protocol.errors import NotAStore, StorageFull, StoreInUse
from treadle.storage.environment import MAP_SIZE_FIRST, Environment, lacks_room, open_environment
from treadle.storage.tables import Table

from .driving import run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def opening(tmp_path: Path) -> Iterator[Callable[..., Environment]]:
    """Give `open_environment` on one directory, with defaults; what it opens is closed after the test."""
    made: list[Environment] = []

    def open_it(
        *, sync: bool = True, map_size: int | None = None, readers: int = 8, read_only: bool = False
    ) -> Environment:
        made.append(open_environment(tmp_path, sync=sync, map_size=map_size, readers=readers, read_only=read_only))
        return made[-1]

    yield open_it
    for environment in made:
        environment.close()


def test_what_makes_a_commit_durable_is_pinned(opening: Callable[..., Environment]) -> None:
    flags = opening().env.flags()

    assert (flags["sync"], flags["metasync"], flags["writemap"], flags["map_async"], flags["lock"]) == (
        True,
        True,
        False,
        False,
        True,
    )


def test_without_sync_only_the_sync_is_missing(opening: Callable[..., Environment]) -> None:
    flags = opening(sync=False).env.flags()

    assert (flags["sync"], flags["metasync"], flags["writemap"], flags["map_async"]) == (False, False, False, False)


def test_the_map_reserves_a_tebibyte_of_addresses_and_no_disk(
    opening: Callable[..., Environment], tmp_path: Path
) -> None:
    assert opening().env.info()["map_size"] == MAP_SIZE_FIRST == 1 << 40
    assert (tmp_path / "data.mdb").stat().st_size < 1 << 20


HALVED = """
import resource, sys
from pathlib import Path
from treadle.protocol.errors import StoreFailed
from treadle.storage.environment import open_environment

resource.setrlimit(resource.RLIMIT_AS, (12 << 30, 12 << 30))
options = dict(sync=True, readers=8, read_only=False)
environment = open_environment(Path(sys.argv[1]), map_size=None, **options)
print(environment.env.info()["map_size"] >> 30)
print(environment.grow(), environment.env.info()["map_size"] >> 30)
with environment.env.begin(write=True) as txn:
    txn.put(b"still", b"works", db=environment.tables[3])
environment.close()
try:
    open_environment(Path(sys.argv[1]), map_size=1 << 40, **options)
except StoreFailed as error:
    print(error.details["reason"])
"""


def test_the_map_is_halved_while_the_system_refuses_it_and_a_refused_growth_hurts_nobody(tmp_path: Path) -> None:
    assert run(HALVED, tmp_path).stdout == "8\nFalse 8\nCannot allocate memory\n"


def test_growing_doubles_the_map_and_keeps_everything_open(opening: Callable[..., Environment]) -> None:
    environment = opening(map_size=1 << 20)
    with environment.env.begin(write=True) as txn:
        txn.put(b"a", b"1", db=environment.tables[Table.JOURNAL])

    assert environment.grow()

    assert environment.env.info()["map_size"] == 2 << 20
    with environment.env.begin() as txn:
        assert txn.get(b"a", db=environment.tables[Table.JOURNAL]) == b"1"


def test_a_map_smaller_than_the_store_is_as_large_as_the_store(opening: Callable[..., Environment]) -> None:
    environment = opening(map_size=1 << 26)
    with environment.env.begin(write=True) as txn:
        for n in range(100):
            txn.put(n.to_bytes(8, "big"), bytes(50_000), db=environment.tables[Table.JOURNAL])
    environment.close()

    assert opening(map_size=1 << 20).env.info()["map_size"] > 4_000_000


@pytest.mark.parametrize("size", [1, 4096, 65_537])
def test_a_map_too_small_for_a_new_store_is_rounded_up(opening: Callable[..., Environment], size: int) -> None:
    environment = opening(map_size=size)

    with environment.env.begin(write=True) as txn:
        assert txn.put(b"a", b"1", db=environment.tables[Table.JOURNAL])


def test_a_new_lock_file_has_all_its_blocks(opening: Callable[..., Environment], tmp_path: Path) -> None:
    # LMDB writes to it through a map: a hole that a full disk cannot fill would kill the process by SIGBUS.
    opening(readers=1000)

    status = (tmp_path / "lock.mdb").stat()
    assert status.st_size >= 1000 * 64
    assert status.st_blocks * 512 >= status.st_size


def test_who_only_reads_a_copy_gets_a_lock_file_with_all_its_blocks(
    opening: Callable[..., Environment], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opening().close()
    (tmp_path / "lock.mdb").unlink()

    def full(*_: object) -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", full)
        with pytest.raises(StorageFull):
            opening(read_only=True)
    assert not (tmp_path / "lock.mdb").exists()
    opening(read_only=True)
    status = (tmp_path / "lock.mdb").stat()

    assert status.st_blocks * 512 >= status.st_size > 0


def test_no_more_workers_read_at_once_than_the_lock_file_has_slots(opening: Callable[..., Environment]) -> None:
    small = opening(readers=4)
    slots = small.env.max_readers()
    small.close()

    # The file keeps its size while others may use it; LMDB extends it when nobody does.
    large = opening(readers=1000)

    assert slots >= 4 + 32
    assert large.lock._readers_max <= large.env.max_readers() - 32


def test_one_process_opens_a_directory_once(opening: Callable[..., Environment]) -> None:
    first = opening()

    for read_only in (False, True):
        with pytest.raises(StoreInUse, match="open in this process"):
            opening(read_only=read_only)

    first.close()
    opening(read_only=True)


def test_a_failed_opening_leaves_the_directory_free(opening: Callable[..., Environment], tmp_path: Path) -> None:
    (tmp_path / "data.mdb").write_bytes(b"text" * 5000)
    with pytest.raises(NotAStore):
        opening()
    (tmp_path / "data.mdb").unlink()

    opening()


def test_the_room_left_is_told_where_files_cannot_be_allocated_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some systems have no posix_fallocate: the count of free blocks stands in for it."""
    (tmp_path / "data.mdb").write_bytes(b"")
    monkeypatch.delattr(os, "posix_fallocate")
    assert lacks_room(tmp_path) is None

    full = os.statvfs_result((4096, 4096, 100, 0, 0, 100, 50, 50, 0, 255))
    monkeypatch.setattr(os, "fstatvfs", lambda _file: full)
    error = lacks_room(tmp_path)

    assert error is not None
    assert error.errno == errno.ENOSPC
