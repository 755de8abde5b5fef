"""Owns the file that an export goes to: begun anew, or gone on with behind its last whole line. Knows no store.

The file itself says how far each thread is: so nothing else has to be kept, and whatever ended the last export, a full
disk or a kill in the midst of a line, the next one goes on there and every line is in it once.
"""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..protocol.cursors import Cursor
from ..protocol.errors import InvalidInput, StoreInUse, TreadleError
from .half_made import sync_directory
from .lmdb_errors import copy_error

if TYPE_CHECKING:
    from types import TracebackType
    from typing import BinaryIO, Self

    from .exporting import Exported, What

__all__ = ["ExportFile"]

_BLOCK: Final = 1 << 16


class ExportFile:
    """A file of exported lines, open for more of them: `with ExportFile(...) as file`; synced on leaving.

    Args:
        path: of the file.
        what: its lines are.
        resume: go on with it, where it is there; without, it must not be.

    Attributes:
        done: how far each thread is exported in it, for `export`.
        written: lines that were added.
    """

    def __init__(self, path: str | os.PathLike[str], what: What, *, resume: bool = False) -> None:
        self.path = Path(path)
        self.done: dict[str, int] = {}
        self.written = 0
        self._what = what
        self._resume = resume
        self._file: BinaryIO | None = None

    def __enter__(self) -> Self:
        """Open it; blocks for reading all of a file that is resumed.

        Raises:
            InvalidInput: `target_exists`, or `not_an_export`: a line in it is none of these. It was not changed.
                `invalid_path`: it is a directory, or is in none.
            StoreInUse: another process exports to it.
            StorageFull, StoreFailed: it cannot be written.
        """
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | (0 if self._resume else os.O_EXCL)
        try:
            self._file = os.fdopen(os.open(self.path, flags, 0o600), "r+b", _BLOCK)
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._go_on(self._file)
            except BaseException:
                self._file.close()
                raise
        except FileExistsError as error:
            raise InvalidInput(
                f"{self.path} exists already; resume it, or name another file",
                code="target_exists",
                value=str(self.path),
            ) from error
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
            raise InvalidInput(
                f"{self.path} cannot be a file: {error.strerror}", code="invalid_path", value=str(self.path)
            ) from error
        except BlockingIOError as error:
            raise StoreInUse(
                f"another process exports to {self.path}", path=str(self.path), holder="another process"
            ) from error
        except OSError as error:
            raise copy_error(self.path, error) from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        file, self._file = self._file, None
        assert file is not None
        try:
            with file:
                file.flush()
                os.fsync(file.fileno())
            sync_directory(self.path.absolute().parent)
        except OSError as failed:
            if error is None:
                raise copy_error(self.path, failed) from failed

    def add(self, exported: Exported) -> None:
        """Add a line. Raises: StorageFull, StoreFailed: it may be there in part; a resumed export mends that."""
        assert self._file is not None
        try:
            self._file.write(exported.line.encode() + b"\n")
        except OSError as error:
            raise copy_error(self.path, error) from error
        self.written += 1

    def _go_on(self, file: BinaryIO) -> None:
        """Read how far each thread is, and cut off a last line that has no end."""
        whole = 0
        file.seek(0)
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                break
            whole += len(line)
            thread_id, place = self._place(line, number)
            self.done[thread_id] = place
        file.seek(0)
        file.truncate(whole)
        file.seek(0, os.SEEK_END)

    def _place(self, line: bytes, number: int) -> tuple[str, int]:
        try:
            found = json.loads(line)
            thread_id = found["thread_id"]
            place = Cursor.parse(found["cursor"]).sequence if self._what == "events" else found["position"]
        except (ValueError, LookupError, TypeError, TreadleError):
            thread_id = place = None
        if not isinstance(thread_id, str) or type(place) is not int:
            raise InvalidInput(
                f"line {number} of {self.path} is not of an export of {self._what}; nothing was changed",
                code="not_an_export",
                line=number,
            )
        return thread_id, place
