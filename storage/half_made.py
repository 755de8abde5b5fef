"""Owns the directory in which a copy of a store is made: nobody takes it for a store, and one process at a time has it.

Its name is fixed by the copy's, so what a process left that died is found, and used again, by the next one. The lock is
`flock` on the directory itself.
"""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING, Final

from ..protocol.errors import NotAStore, StoreInUse
from .directory import DATA_FILE, LOCK_FILE
from .lmdb_errors import copy_error
from .owner import OWNER_FILE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import TracebackType
    from typing import Self

__all__ = ["HalfMade", "sync_directory"]

_OURS: Final = (DATA_FILE, LOCK_FILE, OWNER_FILE)


class HalfMade:
    """A directory with at most one data file; on leaving, all that is left of it goes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.data = path / DATA_FILE
        self._file: int | None = None

    def __enter__(self) -> Self:
        """Make it and have it alone.

        Raises:
            StoreInUse: another process makes the same copy at this moment.
            NotAStore: something else stands at its path.
            StorageFull, StoreFailed: it cannot be made.
        """
        try:
            while self._file is None:
                self._file = self._claim()
            self._clear()
        except OSError as error:
            self._let_go()
            raise copy_error(self.path, error) from error
        except BaseException:
            self._let_go()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            # Where it was moved to its place, the place is not ours to clear.
            if self._is_here():
                self._clear()
                self.path.rmdir()
        except OSError as left:
            # What the copy met before says more than what is left of it, which the next one takes away.
            if error is None:
                raise copy_error(self.path, left) from left
        finally:
            self._let_go()

    def fill(self, write: Callable[[int], None]) -> None:
        """Have the data file written by `write`, which gets a descriptor. Raises: what `write` raises, OSError."""
        file = os.open(self.data, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            write(file)
        finally:
            os.close(file)

    def sync(self) -> None:
        """Have what was written survive the machine; blocks. Raises: OSError."""
        file = os.open(self.data, os.O_RDWR | os.O_CLOEXEC)
        try:
            os.fsync(file)
        finally:
            os.close(file)
        sync_directory(self.path)

    def keep_data_only(self) -> None:
        """Take away what LMDB added for a look at the copy."""
        for name in (LOCK_FILE, OWNER_FILE):
            (self.path / name).unlink(missing_ok=True)

    def _claim(self) -> int | None:
        """Return the locked directory, None where it went away meanwhile."""
        self.path.mkdir(mode=0o700, exist_ok=True)
        file = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if self._is_here(file):
                return file
        except BlockingIOError as error:
            os.close(file)
            raise StoreInUse(
                f"another process makes this copy: {self.path}", path=str(self.path), holder="another process"
            ) from error
        except BaseException:
            os.close(file)
            raise
        os.close(file)
        return None

    def _is_here(self, file: int | None = None) -> bool:
        held = self._file if file is None else file
        assert held is not None
        try:
            return os.path.samestat(os.fstat(held), self.path.stat())
        except FileNotFoundError:
            return False

    def _clear(self) -> None:
        foreign = sorted({entry.name for entry in self.path.iterdir()} - {*_OURS})
        if foreign:
            raise NotAStore(f"{self.path} holds other files and no copy: {', '.join(foreign[:5])}", path=str(self.path))
        for name in _OURS:
            (self.path / name).unlink(missing_ok=True)

    def _let_go(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            os.close(file)


def sync_directory(path: Path) -> None:
    """Have the names in a directory survive the machine; blocks. Raises: OSError."""
    file = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)
