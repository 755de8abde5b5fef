"""Owns the check of a whole store: every broken invariant of what is stored, by table and key. Changes and mends nothing.

`python -m treadle.storage.check PATH` prints what it finds and exits 0 (clean), 1 (broken) or 2 (cannot be read).

Every thread is read in one view and judged by itself; then the store-wide tables are read for rows that lead nowhere.
So it may run beside work that goes on. Memory: the rows of one thread.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from ..protocol.errors import CorruptRecord, TreadleError
from .codec import decode_facts
from .directory import DATA_FILE
from .head import HEAD_SIZE, unpack_head
from .keys import numbered, prefix_end, user_key
from .lmdb_errors import open_error
from .lmdb_store import LmdbStore, open_here
from .meta_pages import check_pages
from .schema import BOOT_KEY, unpack_boot
from .store import View
from .tables import Table
from .thread_check import OWN, Broken, ThreadCheck

if TYPE_CHECKING:
    from pathlib import Path

    from ..protocol.facts import Facts
    from .store import Store

__all__ = ["CheckReport", "check", "check_tables", "main", "refuse_damage"]

_PAGE: Final = 1_000
_Leads: TypeAlias = Callable[[View, bytes, bytes], str | None]


class CheckReport(NamedTuple):
    """What a check found.

    Attributes:
        threads, deleted, events: how much was judged.
        removing: deleted threads whose contents are still going; on a closed store the next open goes on.
        running: threads with an execution that has not ended; on a closed store the next open settles it.
        waiting: inputs that have not joined history.
        broken: what is wrong; empty for a store that is as it must be.
    """

    threads: int
    deleted: int
    removing: int
    events: int
    running: tuple[str, ...]
    waiting: int
    broken: tuple[Broken, ...]

    def __str__(self) -> str:
        found = "no broken invariant" if not self.broken else f"{len(self.broken)} broken invariants"
        return (
            f"{self.threads} threads ({len(self.running)} running), {self.deleted} deleted, {self.events} events, "
            f"{self.waiting} inputs waiting: {found}"
        )


def check(path: str | os.PathLike[str]) -> CheckReport:
    """Check the store in a directory; blocks for as long as reading all of it takes.

    The store may be closed, open in another process, or open in this one: then its own environment is used.

    Raises:
        InvalidInput: `invalid_path`; it is no path.
        NotAStore, SchemaTooNew, CorruptRecord, StoreFailed: it cannot be read as a store at all; or pages of its file are
            damaged, which LMDB would end the process for.
    """
    owner = open_here(path)
    if owner is not None:
        return check_tables(owner)
    store = LmdbStore(path, read_only=True)
    refuse_damage(store.path)
    store.open()
    try:
        return check_tables(store)
    finally:
        store.close()


def refuse_damage(directory: Path) -> None:
    """Read the pages of a store that is not open here, as bytes. Raises: CorruptRecord, StoreFailed, NotAStore."""
    try:
        check_pages(directory / DATA_FILE)
    except OSError as error:
        raise open_error(directory, error) from error


def check_tables(store: Store) -> CheckReport:
    """Check an open store of any kind; work may go on in it meanwhile. Blocks; one view a thread."""
    with store.view() as view:
        last_boot = unpack_boot(view.get(Table.META, BOOT_KEY)).number
    threads = deleted = removing = events = waiting = 0
    running: list[str] = []
    broken: list[Broken] = []
    for key in _threads_of(store, Table.THREADS):
        with store.view() as view:
            if len(key) != 8 or view.get(Table.THREADS, key) is None:
                continue  # what its key is then, `_STRAYS` says
            checked = ThreadCheck(view, int.from_bytes(key, "big"), last_boot)
        threads, deleted, events = threads + (not checked.deleted), deleted + checked.deleted, events + checked.events
        removing += checked.removing
        broken += checked.broken
        if checked.facts is not None and not checked.deleted:
            waiting += checked.facts.rows
            if checked.facts.execution_id is not None:
                running.append(checked.facts.thread_id)
    for table in OWN:
        broken += _orphans(store, table)
    for table, leads in _STRAYS.items():
        broken += _astray(store, table, leads)
    return CheckReport(threads, deleted, removing, events, tuple(running), waiting, tuple(broken))


def _lost(table: Table, key: bytes, why: str) -> Broken:
    return Broken(table.name.lower(), key.hex(), 0, why)


def _threads_of(store: Store, table: Table) -> Iterator[bytes]:
    """Yield what begins the keys of a table, each once, skipping from one thread to the next."""
    low: bytes = b""
    while True:
        with store.view() as view:
            rows = view.scan(table, low, None, limit=1)
        if not rows:
            return
        prefix = rows[0][0][:8]
        yield prefix
        if prefix == b"\xff" * 8:
            return
        # A key that is too short may be what those of many threads begin with.
        low = prefix_end(prefix) if len(prefix) == 8 else prefix + b"\0"


def _orphans(store: Store, table: Table) -> Iterator[Broken]:
    for prefix in _threads_of(store, table):
        with store.view() as view:
            # Read again in this very view: a thread that is being created was perhaps not there before.
            rows = view.scan(table, prefix, None, limit=1)
            if rows and rows[0][0][:8] == prefix and view.get(Table.THREADS, prefix) is None:
                yield _lost(table, rows[0][0], "belongs to no thread")


def _astray(store: Store, table: Table, leads: _Leads) -> Iterator[Broken]:
    low: bytes = b""
    while True:
        found = []
        with store.view() as view:
            rows = view.scan(table, low, None, limit=_PAGE)
            for key, value in rows:
                try:
                    why = leads(view, key, value)
                except CorruptRecord:
                    continue  # the thread that it leads to is named by its own check
                if why is not None:
                    found.append(_lost(table, key, why))
        yield from found
        if len(rows) < _PAGE:
            return
        low = rows[-1][0] + b"\0"


def _facts(view: View, prefix: bytes) -> Facts | None:
    row = view.get(Table.THREADS, prefix)
    return None if row is None or len(row) <= HEAD_SIZE else decode_facts(row[HEAD_SIZE:], prefix)


def _name_leads(view: View, key: bytes, value: bytes) -> str | None:
    if value == b"":
        return None  # a deleted id, which is never used again
    facts = _facts(view, value)
    return None if facts is not None and facts.thread_id.encode() == key else "leads to no thread of this name"


def _user_leads(view: View, key: bytes, value: bytes) -> str | None:
    facts = _facts(view, key[-8:])
    user_id = None if facts is None else facts.user_id
    owned = user_id is not None and user_key(user_id, int.from_bytes(key[-8:], "big")) == key
    return None if owned and value == b"" else "leads to no thread of this user"


def _change_leads(view: View, key: bytes, value: bytes) -> str | None:
    row = view.get(Table.THREADS, value[:8])
    if row is None:
        return "leads to no thread"
    change = unpack_head(row, value[:8]).change
    return None if numbered(change) == key else f"the last change of the thread that it names is {change}"


def _number_leads(view: View, key: bytes, _value: bytes) -> str | None:
    return None if len(key) == 8 and view.get(Table.THREADS, key) is not None else "the key is no thread's number"


_STRAYS: Final[dict[Table, _Leads]] = {
    Table.THREADS: _number_leads,
    Table.WORK: _number_leads,
    Table.NAMES: _name_leads,
    Table.USERS: _user_leads,
    Table.CHANGES: _change_leads,
}


_USAGE: Final = "usage: python -m treadle.storage.check PATH\n"


def main(arguments: list[str]) -> int:
    """Check the store that the command line names, print what is wrong, and return the exit code."""
    # As everywhere, what stands behind a bare `--` is a path whatever it begins with.
    paths = arguments[1:] if arguments[:1] == ["--"] else arguments
    options = (
        [given for given in arguments if isinstance(given, str) and given.startswith("-")] if paths is arguments else []
    )
    if "--help" in options or "-h" in options:
        sys.stdout.write(
            f"{_USAGE}Judges a store, open or closed. Exits with 1 where it is broken, with 2 where none was read.\n"
        )
        return 0
    if options or len(paths) != 1:
        sys.stderr.write(f"unknown option {options[0]!r}\n{_USAGE}" if options else _USAGE)
        return 2
    try:
        report = check(paths[0])
    except TreadleError as error:
        sys.stderr.write(f"{error.code}: {error}\n")
        return 2
    for broken in report.broken:
        sys.stdout.write(f"{broken}\n")
    sys.stdout.write(f"{report}\n")
    return 1 if report.broken else 0


def command(arguments: list[str]) -> int:
    """Run `main` in a process of its own: LMDB ends the one that meets a damaged page, and that is a finding, too."""
    inner = "import sys; from treadle.storage.check import main; sys.exit(main(sys.argv[1:]))"
    code = subprocess.run([sys.executable, "-c", inner, *arguments], check=False).returncode  # noqa: S603 - ourselves
    if code >= 0:
        return code
    sys.stderr.write(f"{CorruptRecord.code}: LMDB met a damaged page and ended by {signal.Signals(-code).name}\n")
    return 2


if __name__ == "__main__":
    sys.exit(command(sys.argv[1:]))
