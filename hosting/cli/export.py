"""Owns `treadle export`: where lines come from and go to. Which lines, and how a file is resumed, storage knows."""

from __future__ import annotations

import sys
from contextlib import closing
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...protocol.cursors import Cursor
from ...protocol.errors import InvalidInput
from ...storage import LmdbStore
from ...storage.export_file import ExportFile
from ...storage.exporting import export as export_lines
from .ending import Exit, JsonOption, ending, say
from .places import DataArgument, complete_path, given_path

if TYPE_CHECKING:
    from ...storage.exporting import Left, What

__all__ = ["export"]


class Kind(StrEnum):
    """What the lines are."""

    events = "events"
    messages = "messages"


class _Leavings:
    """Says on stderr which threads are left out, and counts them."""

    def __init__(self) -> None:
        self.count = 0

    def tell(self, left: Left) -> None:
        self.count += 1
        sys.stderr.write(f"treadle: corrupt_record: thread {left.thread} is left out from here: {left.why}\n")


@ending
def export(
    data: DataArgument,
    threads: Annotated[
        list[str] | None,
        typer.Option("--thread", "-t", metavar="ID", help="Only this thread; may be given again.", show_default=False),
    ] = None,
    what: Annotated[Kind, typer.Option(help="What the lines are.")] = Kind.events,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="A new file; by default stdout.",
            show_default=False,
            parser=given_path,
            autocompletion=complete_path,
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the file of --output, behind what is in it.")
    ] = False,
    after: Annotated[
        str | None,
        typer.Option(
            metavar="PLACE", help="Of one thread only what is behind this cursor or position.", show_default=False
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write threads as JSON lines, of all that happened in them or of their messages.

    An event is a frame as watchers get it, with its thread; contents of values are not in it. Messages are those in
    history, as they are now. A file that is resumed gets what is not yet in it, each line once, whatever ended the last
    export; so the same command, run again and again, keeps it up to date. A server may work on the store meanwhile.

    \b
    Examples:
      treadle export data > everything.jsonl
      treadle export data --what messages --thread mia
      treadle export data -o events.jsonl --resume
      treadle export data --thread mia --after 1:57
    """
    kind: What = what.value
    done = _start(after, threads, kind)
    if resume and (output is None or after is not None):
        raise InvalidInput("--resume goes on with the file of --output, and knows its own place", code="invalid_option")
    left = _Leavings()
    store = LmdbStore(data, read_only=True)
    store.open()
    with closing(store):
        if output is None:
            for one in export_lines(store, kind, only=threads, done=done, left=left.tell):
                sys.stdout.buffer.write(one.line.encode() + b"\n")
            sys.stdout.buffer.flush()
        else:
            with ExportFile(output, kind, resume=resume) as file:
                for one in export_lines(store, kind, only=threads, done={**done, **file.done}, left=left.tell):
                    file.add(one)
            found = {"path": str(output), "lines": file.written, "left_out": left.count}
            say(found, f"{output}: {file.written:,} lines added", as_json=as_json)
    if left.count:
        raise typer.Exit(Exit.BROKEN)


def _start(after: str | None, threads: list[str] | None, kind: What) -> dict[str, int]:
    """Return how far `--after` says that a thread is exported."""
    if after is None:
        return {}
    if threads is None or len(threads) != 1:
        raise InvalidInput("--after is a place in one thread; name it with --thread", code="invalid_option")
    if kind == "events":
        return {threads[0]: Cursor.parse(after).sequence}
    if not after.isascii() or not after.isdigit() or len(after) > 15:
        raise InvalidInput(f"a message's position is a number, not {after[:80]!r}", code="invalid_cursor")
    return {threads[0]: int(after)}
