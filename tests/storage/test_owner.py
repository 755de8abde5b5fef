"""Owns the proof of treadle.storage.owner: one holder, named; gone with its process; never inherited."""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import os
import signal
import socket
import threading
from typing import TYPE_CHECKING, NoReturn

import pytest

from treadle.protocol.errors import NotAStore, StoreInUse
from treadle.storage import owner
from treadle.storage.owner import OWNER_FILE, OwnerLock, last_owner

from .driving import PATIENCE_S, Process, run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

HOLD = """
import sys
from pathlib import Path
from treadle.storage.owner import OwnerLock
OwnerLock(Path(sys.argv[1])).acquire("b" * 32)
print("held", flush=True)
sys.stdin.readline()
"""


def test_a_second_opener_in_the_same_process_is_told_that_this_process_holds_it(tmp_path: Path) -> None:
    """Scenario 20."""
    lock = OwnerLock(tmp_path)
    lock.acquire("a" * 32)

    with pytest.raises(StoreInUse) as caught:
        OwnerLock(tmp_path).acquire("b" * 32)

    lock.release()
    assert caught.value.details == {
        "path": str(tmp_path),
        "holder": f"this process, {os.getpid()} on {socket.gethostname()}",
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "boot_id": "a" * 32,
    }


def test_a_second_process_is_told_who_holds_it_until_the_holder_dies(tmp_path: Path) -> None:
    """Scenario 20."""
    lock = OwnerLock(tmp_path)
    with Process(HOLD, tmp_path) as holder:
        assert holder.line() == "held"

        with pytest.raises(StoreInUse) as caught:
            lock.acquire("a" * 32)

        assert caught.value.details["pid"] == holder.pid
        assert caught.value.details["boot_id"] == "b" * 32
        assert f"process {holder.pid} on {socket.gethostname()}" in str(caught.value)

    lock.acquire("a" * 32)
    lock.release()


def test_the_lock_can_be_taken_again_after_its_release_and_the_file_names_the_new_holder(tmp_path: Path) -> None:
    lock = OwnerLock(tmp_path)
    for boot_id in ("a" * 32, "b" * 32):
        lock.acquire(boot_id)
        lock.release()
        lock.release()

    assert json.loads((tmp_path / OWNER_FILE).read_text())["boot_id"] == "b" * 32
    assert (tmp_path / OWNER_FILE).stat().st_size == 512


def by_another_lock_file(directory: Path) -> Path:
    (directory / OWNER_FILE).unlink()
    return directory


def by_a_hard_link(directory: Path) -> Path:
    other = directory / "other"
    other.mkdir()
    (other / "data.mdb").hardlink_to(directory / "data.mdb")
    return other


@pytest.mark.parametrize("way", [by_another_lock_file, by_a_hard_link])
def test_nobody_gets_in_beside_an_owner(tmp_path: Path, way: Callable[[Path], Path]) -> None:
    with Process(HOLD, tmp_path) as holder:
        assert holder.line() == "held"
        other = way(tmp_path)
        for path in (other, other):  # a refusal leaves nothing locked
            with pytest.raises(StoreInUse, match=r"data\.mdb is owned by another process"):
                OwnerLock(path).acquire("a" * 32)

    lock = OwnerLock(other)
    lock.acquire("a" * 32)
    with pytest.raises(StoreInUse, match=f"data.mdb is owned by this process, {os.getpid()}"):
        OwnerLock(way(other)).acquire("b" * 32)
    lock.release()


def test_an_executed_program_does_not_inherit_the_lock(tmp_path: Path) -> None:
    lock = OwnerLock(tmp_path)
    lock.acquire("a" * 32)

    for file in (lock._file, lock._data):
        assert file is not None
        assert not os.get_inheritable(file)
    lock.release()


FORK = """
import os, sys
from pathlib import Path
from treadle.storage.owner import OwnerLock
lock = OwnerLock(Path(sys.argv[1]))
lock.acquire("a" * 32)
ready, done = os.pipe(), os.pipe()
child = os.fork()
if not child:
    os.write(ready[1], b"x")
    os.read(done[0], 1)
    os._exit(0)
os.read(ready[0], 1)
lock.release()
# The child lives; were the lock still its, this would raise.
lock.acquire("b" * 32)
os.write(done[1], b"x")
assert os.waitpid(child, 0)[1] == 0
print("free")
"""


def test_a_forked_child_does_not_keep_the_lock(tmp_path: Path) -> None:
    assert run(FORK, tmp_path).stdout == "free\n"


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"[1]", b"{", b"null"])
def test_a_holder_that_wrote_nothing_readable_holds_it_all_the_same(tmp_path: Path, content: bytes) -> None:
    lock = OwnerLock(tmp_path)
    lock.acquire("a" * 32)
    (tmp_path / OWNER_FILE).write_bytes(content)

    with pytest.raises(StoreInUse, match="owned by another process"):
        OwnerLock(tmp_path).acquire("b" * 32)

    lock.release()


def test_on_a_full_disk_only_the_name_of_the_holder_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object) -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    lock = OwnerLock(tmp_path)
    with caplog.at_level(logging.WARNING, "treadle.storage"):
        lock.acquire("a" * 32)

    with pytest.raises(StoreInUse):
        OwnerLock(tmp_path).acquire("b" * 32)
    lock.release()
    assert "could not be written down" in caplog.text


def test_a_file_system_without_locks_cannot_hold_a_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(*_: object) -> NoReturn:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)

    with pytest.raises(NotAStore, match="cannot be locked: No locks available"):
        OwnerLock(tmp_path).acquire("a" * 32)


def test_a_directory_that_is_not_there_cannot_be_locked(tmp_path: Path) -> None:
    with pytest.raises(NotAStore):
        OwnerLock(tmp_path / "missing").acquire("a" * 32)


def test_importing_the_store_where_there_is_no_flock_says_what_it_needs() -> None:
    done = run("import sys; sys.modules['fcntl'] = None; import treadle.storage.lmdb_store")

    assert done.returncode == 1
    assert "ImportError: treadle.storage needs a POSIX system" in done.stderr


# Dies while a child that it forked, and that has not executed anything yet, still has the lock's descriptor.
DIE_FORKING = """
import fcntl, json, os, signal, socket, sys
file = os.open(sys.argv[1] + "/treadle.lock", os.O_RDWR | os.O_CREAT, 0o600)
fcntl.flock(file, fcntl.LOCK_EX)
os.pwrite(file, json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "boot_id": "b" * 32}).encode(), 0)
if os.fork() == 0:
    print(os.getppid(), flush=True)
    sys.stdin.readline()
    os._exit(0)
signal.pause()
"""


def test_what_a_dead_holder_was_starting_is_waited_for(tmp_path: Path) -> None:
    lock = OwnerLock(tmp_path)
    with Process(DIE_FORKING, tmp_path) as holder:
        assert holder.line() == str(holder.pid)
        with pytest.raises(StoreInUse):
            lock.acquire("a" * 32)
        os.kill(holder.pid, signal.SIGKILL)
        os.waitpid(holder.pid, 0)

        taken: list[str] = []
        taker = threading.Thread(target=lambda: taken.append(str(lock.acquire("a" * 32))))
        taker.start()
        holder.say()
        taker.join(PATIENCE_S)

    assert taken == ["None"]
    lock.release()


def test_a_lock_that_a_dead_holder_left_to_another_for_long_is_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, "DEAD_HOLDER_S", 0.02)
    with Process(DIE_FORKING, tmp_path) as holder:
        assert holder.line() == str(holder.pid)
        os.kill(holder.pid, signal.SIGKILL)
        os.waitpid(holder.pid, 0)

        with pytest.raises(StoreInUse):
            OwnerLock(tmp_path).acquire("a" * 32)
        holder.say()


def test_who_had_a_directory_last_is_told_without_a_lock(tmp_path: Path) -> None:
    assert last_owner(tmp_path) is None
    with Process(HOLD, tmp_path) as holder:
        assert holder.line() == "held"
        assert last_owner(tmp_path) == (holder.pid, socket.gethostname(), "b" * 32, True)
    assert last_owner(tmp_path) == (holder.pid, socket.gethostname(), "b" * 32, False)

    signed = {"pid": os.getpid(), "host": "elsewhere", "boot_id": "c" * 32}
    (tmp_path / OWNER_FILE).write_text(json.dumps(signed))
    assert last_owner(tmp_path) == (os.getpid(), "elsewhere", "c" * 32, None)
    for unreadable in ("", "{}", "[]", '{"pid": "x"}'):
        (tmp_path / OWNER_FILE).write_text(unreadable)
        assert last_owner(tmp_path) is None
