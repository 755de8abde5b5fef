"""Owns whole copies of a store: a backup beside work that goes on, and a compaction in its place. Writes to no store.

A copy is made in a directory of its own, synced, checked as `check` does, and only then gets its name, in one step. A
crash at any moment leaves the store as it was, or compacted; a backup is there in whole, or not at all.
"""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from ..protocol.errors import CorruptRecord, InvalidInput, NotAStore, StoreInUse
from .check import check, refuse_damage
from .directory import DATA_FILE, check_store, store_path
from .half_made import HalfMade, sync_directory
from .lmdb_errors import copy_error, open_error
from .lmdb_store import LmdbStore, open_here
from .meta_pages import count_on, last_transaction
from .owner import OwnerLock
from .points import reach
from .tables import Table

if TYPE_CHECKING:
    from .check import CheckReport

__all__ = [
    "CHECKED", "COMPACTING", "COPIED", "PLACED", "PLACING", "SYNCED", "BackupReport", "CompactReport", "backup", "compact",
]  # fmt: skip

COMPACTING: Final = "compacting"  # the directory inside of the store in which its compacted copy is made
COPIED: Final = "copied"
SYNCED: Final = "copy synced"
CHECKED: Final = "copy checked"
PLACING: Final = "before copy placed"
PLACED: Final = "copy placed"


class BackupReport(NamedTuple):
    """A backup that was made: where it is, its bytes, and what the check of it found."""

    path: str
    size: int
    report: CheckReport


class CompactReport(NamedTuple):
    """A compaction that was done: bytes of the data file before and after, and what the check of it found."""

    path: str
    before: int
    after: int
    report: CheckReport


def backup(path: str | os.PathLike[str], target: str | os.PathLike[str], *, broken_too: bool = False) -> BackupReport:
    """Copy a store, as it is at one moment, to a new directory; durable when it returns. Blocks for all of it.

    Its owner, another process, may be at work meanwhile. The copy is a store: open it where it is, or copy it to where a
    runtime looks for one.

    Args:
        path: the store.
        target: a directory that does not exist, in one that does.
        broken_too: keep the copy of a store with broken invariants, too; they are in the report.

    Raises:
        InvalidInput: `invalid_path`, or `target_exists`; nothing was changed.
        CorruptRecord: the copy has broken invariants, as the store has; it was dropped.
        StoreInUse: this process has the store open, or another one makes a backup of this name.
        NotAStore, SchemaTooNew, StorageFull, StoreFailed: see each; no copy is left.
    """
    directory, goal = store_path(path), _target(path, target)
    if open_here(directory) is not None:
        # While one copies, LMDB's binding lets none of its process drop a transaction; a batch that fails would wait for
        # all of the copy, and every reader behind it.
        raise StoreInUse(
            f"{directory} is open in this process; make its backup in another one",
            path=str(directory),
            holder="this process",
        )
    refuse_damage(directory)
    check_store(directory)
    with HalfMade(goal.with_name(f".{goal.name}.partial")) as made:
        try:
            _copy(directory, made, compact=False)
            reach(COPIED)
            report = _judged(made, directory, broken_too=broken_too)
            size = made.data.stat().st_size
            reach(PLACING)
            _refuse_existing(goal)
            # Replaces an empty directory at most, should one have come up meanwhile.
            made.path.rename(goal)
            reach(PLACED)
            sync_directory(goal.parent)
        except OSError as error:
            raise copy_error(goal, error) from error
    return BackupReport(str(goal), size, report)


def compact(path: str | os.PathLike[str]) -> CompactReport:
    """Rewrite a store that nobody owns without its free pages; durable when it returns. Blocks for all of it.

    The old data file is replaced, in one step, by a new one that is synced and checked. Whoever reads the old one at this
    moment, in another process, reads on in it; its disk space is free once they close. Needs room for both.

    Raises:
        StoreInUse: somebody owns it; nothing was changed.
        CorruptRecord: the store has broken invariants; it was left as it is.
        InvalidInput, NotAStore, SchemaTooNew, StorageFull, StoreFailed: see each; the store is as it was.
    """
    directory = store_path(path)
    if open_here(directory) is None:
        refuse_damage(directory)
    check_store(directory)
    owner = OwnerLock(directory)
    owner.acquire(uuid.uuid4().hex)
    try:
        return _compact(directory)
    except OSError as error:
        raise copy_error(directory, error) from error
    finally:
        owner.release()


def _compact(directory: Path) -> CompactReport:
    data = directory / DATA_FILE
    if data.is_symlink():
        raise NotAStore(f"{data} is a link; compact the store that it leads into", path=str(directory))
    before = data.stat()
    with HalfMade(directory / COMPACTING) as made:
        rows = _copy(directory, made, compact=True)
        reach(COPIED)
        last = last_transaction(data)
        count_on(made.data, last)
        # The next owner must be able to open it, whoever it is that compacts.
        os.chown(made.data, before.st_uid, before.st_gid)
        made.data.chmod(before.st_mode & 0o7777)
        report = _judged(made, directory, broken_too=False)
        if _rows(made.path) != rows:
            raise CorruptRecord(f"the compacted copy of {directory} lacks rows; the store was left as it is")
        made.keep_data_only()
        after = made.data.stat().st_size
        reach(PLACING)
        # Which of its two meta pages counts, whoever reads on in the old file is told by the lock file, and so by the new
        # one's transactions: both say what the newer said, or every second look would be at the last transaction but one.
        count_on(data, last)
        made.data.replace(data)
        reach(PLACED)
        sync_directory(directory)
    return CompactReport(str(directory), before.st_size, after, report)


def _copy(directory: Path, made: HalfMade, *, compact: bool) -> list[int]:
    """Fill the copy, and return how many rows the store's tables have."""
    store = LmdbStore(directory, read_only=True)
    store.open()
    try:
        rows = _counted(store)
        made.fill(lambda file: store.copy_to(file, compact=compact))
        return rows
    finally:
        store.close()


def _rows(directory: Path) -> list[int]:
    store = LmdbStore(directory, read_only=True)
    store.open()
    try:
        return _counted(store)
    finally:
        store.close()


def _counted(store: LmdbStore) -> list[int]:
    with store.view() as view:
        return [view.size(table).rows for table in Table]


def _judged(made: HalfMade, directory: Path, *, broken_too: bool) -> CheckReport:
    """Sync the copy, then read all of it. Raises: CorruptRecord: it is not as it must be."""
    made.sync()
    reach(SYNCED)
    report = check(made.path)
    made.keep_data_only()
    reach(CHECKED)
    if report.broken and not broken_too:
        raise CorruptRecord(
            f"{directory} has {len(report.broken)} broken invariants, the first: {report.broken[0]}",
            path=str(directory),
            broken=len(report.broken),
        )
    return report


def _target(path: str | os.PathLike[str], target: str | os.PathLike[str]) -> Path:
    goal = store_path(target)
    try:
        # Of the parent only: what stands at the target itself, a link say, is not to be followed.
        goal = goal.parent.resolve(strict=True) / goal.name
        inside = goal.is_relative_to(Path(path).resolve())
    except (FileNotFoundError, NotADirectoryError) as error:
        raise InvalidInput(
            f"a backup goes into a directory that is there; {goal.parent} is none", code="invalid_path", value=str(goal)
        ) from error
    except (OSError, RuntimeError) as error:
        raise open_error(goal, error if isinstance(error, OSError) else OSError(str(error))) from error
    if not goal.name or inside:
        raise InvalidInput(f"a backup goes outside of the store, not to {goal}", code="invalid_path", value=str(goal))
    _refuse_existing(goal)
    return goal


def _refuse_existing(goal: Path) -> None:
    if os.path.lexists(goal):
        raise InvalidInput(
            f"{goal} exists already; a backup never replaces anything", code="target_exists", value=str(goal)
        )
