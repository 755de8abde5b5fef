"""Owns the form of a note: one answered call, written down the moment the answer arrives.

The hosting process writes each to its standard output; the other end of that pipe belongs to the process that will kill
it, so nothing that was acknowledged is forgotten with it.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["TAKEN", "Note", "load_notes", "save_notes", "write_line"]

TAKEN = frozenset({"accepted", "queued"})


class Note(NamedTuple):
    """One answered call.

    Attributes:
        ask: the id that the call was made under: the line's, then how it was brought in.
        verb: `submit`, `steer`, `queue` or `interrupt`.
        steered: the input joined the running execution as a steer.
        target: the execution that it started, joined or was aimed at.
        interrupted: the execution that was interrupted for it.
        repeated: an earlier process had stored it, but its answer never arrived.
    """

    thread: str
    ask: str
    verb: str
    disposition: str
    steered: bool = False
    target: str | None = None
    interrupted: str | None = None
    repeated: bool = False

    @property
    def line(self) -> str:
        """The id of the line that it brought in."""
        return self.ask.partition("/")[0]

    @property
    def taken(self) -> bool:
        """Whether the runtime promised to have it."""
        return self.disposition in TAKEN


_behind: list[str] = []  # lines that go with the next one: nothing depends on their being seen at once


def write_line(kind: str, content: object, *, at_once: bool = True) -> None:
    """Write one line to standard output; blocks while the pipe is full.

    Args:
        kind: what it is about.
        content: JSON data.
        at_once: now, or together with the next line that is.
    """
    _behind.append(json.dumps([kind, content]))
    if at_once:
        # `os.write`, not `print`: what is in Python's buffer at a SIGKILL would be lost.
        data = "".join(f"{line}\n" for line in _behind).encode()
        _behind.clear()
        while data:
            data = data[os.write(1, data) :]


def save_notes(path: Path, notes: list[Note], scenes: dict[str, int]) -> None:
    """Write, for the next hosting process, the notes and how many scenes each thread has behind it."""
    path.write_text(json.dumps([notes, scenes]))


def load_notes(path: Path) -> tuple[list[Note], dict[str, int]]:
    """Read what `save_notes` wrote."""
    notes, scenes = json.loads(path.read_text())
    return [Note(*note) for note in notes], scenes
