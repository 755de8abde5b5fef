"""Owns the lock by which one process at a time owns a data directory. Never looks at the data.

The lock is `flock` on an open file, so the system lets go of it when the process dies, however it dies. A forked child
would keep it for its parent; so the child closes its copy at once, and programs that are executed never get one.

There is a file of its own for it, which names the holder. The data file is locked as well: people remove lock files that
seem to be in their way, and copy directories by hard links, and neither must let a second owner in.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import time
from typing import TYPE_CHECKING, Final, NamedTuple

try:
    import fcntl
except ImportError as error:
    raise ImportError(
        "treadle.storage needs a POSIX system: its owner lock is flock, which this platform does not have"
    ) from error

from ..protocol.errors import NotAStore, StoreInUse
from .lmdb_errors import open_error

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["DATA_FILE", "OWNER_FILE", "LastOwner", "OwnerLock", "last_owner"]

DATA_FILE: Final = "data.mdb"
OWNER_FILE: Final = "treadle.lock"
# One size for ever: rewriting the file in place needs no new room on a full disk.
_RECORD_BYTES: Final = 512
DEAD_HOLDER_S: Final = 2.0  # for a lock that only a dead process's last fork still holds
_CLOSING_S: Final = 0.2  # for a process that dies, and of whose two locks the system has taken one

_log = logging.getLogger("treadle.storage")


class LastOwner(NamedTuple):
    """Who took a directory's lock last; `lives` says whether a process of that id does, None where it is of another host."""

    pid: int
    host: str
    boot_id: str
    lives: bool | None


class OwnerLock:
    """The right to write to one data directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._file: int | None = None
        self._data: int | None = None

    def acquire(self, boot_id: str) -> None:
        """Take the lock and write down who has it. Never waits for a holder that lives.

        Raises:
            StoreInUse: somebody holds it; `details` has `holder`, `pid`, `host` and `boot_id`.
            NotAStore, StorageFull, StoreFailed: the lock file or the data file cannot be made or locked.
        """
        _held.add(self)
        try:
            file = self._file = self._open(OWNER_FILE)
            self._take(OWNER_FILE, file)
            self._data = self._open(DATA_FILE)
            self._take(DATA_FILE, self._data)
        except BaseException:
            self.release()
            raise
        self._sign(file, boot_id)

    def release(self) -> None:
        """Let go of the lock; the file stays, since removing it would race with the next owner."""
        _held.discard(self)
        # In this order: who gets the first of the two must find the other one free.
        data, self._data = self._data, None
        file, self._file = self._file, None
        for held in (data, file):
            if held is not None:
                os.close(held)

    def _open(self, name: str) -> int:
        try:
            return os.open(self._directory / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise open_error(self._directory, error) from error

    def _take(self, name: str, file: int) -> None:
        assert self._file is not None
        try:
            _lock(file, self._file, 0.0 if file == self._file else _CLOSING_S)
        except BlockingIOError as error:
            if file == self._file:
                raise _in_use(self._directory, _read_holder(file)) from error
            raise _in_use(self._directory / name, _holder_here(file)) from error
        except OSError as error:
            path = str(self._directory / name)
            raise NotAStore(f"{path} cannot be locked: {error.strerror}", path=path) from error

    def _sign(self, file: int, boot_id: str) -> None:
        record = json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "boot_id": boot_id})
        try:
            os.pwrite(file, record.encode()[: _RECORD_BYTES - 1].ljust(_RECORD_BYTES - 1) + b"\n", 0)
        except OSError as error:
            # The lock itself needs no room; all that a full disk costs here is the holder's name.
            _log.warning("the owner of %s could not be written down: %s", self._directory, error)


def last_owner(directory: Path) -> LastOwner | None:
    """Return who signed the lock last, None where nobody has. It takes no lock: that might turn an owner away."""
    try:
        file = os.open(directory / OWNER_FILE, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None  # a copy has none, and whoever may not read it learns that from the data
    try:
        holder = _read_holder(file)
    finally:
        os.close(file)
    pid, host, boot_id = holder.get("pid"), holder.get("host"), holder.get("boot_id")
    if type(pid) is not int or not isinstance(host, str) or not isinstance(boot_id, str):
        return None
    return LastOwner(pid, host, boot_id, not _is_dead(holder) if host == socket.gethostname() else None)


def _lock(file: int, signed: int, patience: float) -> None:
    """Take the lock of a file, whose holder has signed another one perhaps. Raises: BlockingIOError: somebody has it."""
    began = time.monotonic()
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            # A program that a process starts has its descriptors from the fork until it is executed. Where the process
            # died in between, so few moments hold the lock for nobody.
            waited = time.monotonic() - began
            if waited > DEAD_HOLDER_S or (waited >= patience and not _is_dead(_read_holder(signed))):
                raise
            time.sleep(0.005)
        else:
            return


def _is_dead(holder: dict[str, object]) -> bool:
    pid = holder.get("pid")
    if holder.get("host") != socket.gethostname() or type(pid) is not int or pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False  # somebody else's, and alive
    return False


def _read_holder(file: int) -> dict[str, object]:
    try:
        holder = json.loads(os.pread(file, _RECORD_BYTES, 0))
    except (OSError, ValueError):
        # Being written at this moment, or never written on a full disk: in use all the same, by someone unnamed.
        return {}
    return holder if isinstance(holder, dict) else {}


def _holder_here(data: int) -> dict[str, object]:
    """Return this process, where it has the data file locked by another name; whoever else has signed another file."""
    wanted = os.fstat(data)
    for lock in list(_held):
        if lock._data not in {None, data} and os.path.samestat(os.fstat(lock._data), wanted):  # noqa: SLF001
            return {"pid": os.getpid(), "host": socket.gethostname()}
    return {}


def _in_use(directory: Path, holder: dict[str, object]) -> StoreInUse:
    pid, host, boot_id = (holder.get(name) for name in ("pid", "host", "boot_id"))
    if pid is None:
        name = "another process"
    elif (pid, host) == (os.getpid(), socket.gethostname()):
        name = f"this process, {pid} on {host}"
    else:
        name = f"process {pid} on {host}"
    return StoreInUse(
        f"{directory} is owned by {name}", path=str(directory), holder=name, pid=pid, host=host, boot_id=boot_id
    )


# Strong references, in a plain set: a fork may come at any moment, and a set never is half changed then.
_held: set[OwnerLock] = set()


def _let_go_in_child() -> None:
    for lock in list(_held):
        lock.release()


os.register_at_fork(after_in_child=_let_go_in_child)
