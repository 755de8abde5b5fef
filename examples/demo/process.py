"""Owns the hosting process as its parent sees it: starts it, reads what it acknowledges, kills it. Judges nothing."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

from examples.demo.notes import Note

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["HostDied", "HostProcess", "Notebook", "Opening"]

SILENT_S = 60.0  # without any acknowledgement; a thread that hangs must end the demo, not stall it
COMPLAINT_LINES = 12


class HostDied(Exception):
    """The hosting process ended, or fell silent, by itself."""


class Opening(NamedTuple):
    """What a hosting process found when it opened the store: seconds, threads settled, threads started, statuses."""

    seconds: float
    settled: list[str]
    started: list[str]
    statuses: dict[str, int]


class Notebook:
    """Everything that hosting processes acknowledged, in order.

    Attributes:
        said: the lines that were taken, by id.
        scenes: how many scenes each thread has behind it.
        ends: (thread, line, execution, projection) as clients saw them.
    """

    def __init__(self) -> None:
        self.notes: list[Note] = []
        self.ends: list[tuple[str, str, str, str]] = []
        self.said: set[str] = set()
        self.scenes: Counter[str] = Counter()
        self.opening: Opening | None = None
        self.done = False

    def write(self, line: bytes) -> None:
        """Take in one line of a hosting process."""
        kind, content = json.loads(line)
        if kind == "note":
            note = Note(*content)
            self.notes.append(note)
            if note.taken and note.verb != "interrupt":
                self.said.add(note.line)
        elif kind == "end":
            thread, about, execution, status = content
            self.ends.append((thread, about, execution, status))
        elif kind == "scene":
            self.scenes[content] += 1
        elif kind == "open":
            self.opening = Opening(*content)
        elif kind == "done":
            self.done = True


class HostProcess:
    """One life of the hosting process. Blocks in `follow`; leave with `with`, which kills what still runs.

    Attributes:
        seconds: from the open store to the kill, or to the end of the plan.
        killed_at: the wall clock at the kill, in microseconds.
    """

    def __init__(self, arguments: Sequence[str], directory: Path, notebook: Notebook) -> None:
        self.notebook = notebook
        self.seconds = 0.0
        self.killed_at: int | None = None
        self._complaints = directory / "stderr"
        main = Path(__file__).parent / "main.py"
        with self._complaints.open("wb") as errors:
            # A session of its own: a Ctrl-C reaches the parent alone, which then ends this one.
            self._process = subprocess.Popen(
                [sys.executable, str(main), *arguments, "--host", str(directory)],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, start_new_session=True,
            )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def follow(self, kill_when: Callable[[], bool], progress: Callable[[], object]) -> None:
        """Read acknowledgements until the process ends; kill it once `kill_when` says so.

        Raises:
            HostDied: it ended by itself before it was done, or said nothing for too long.
        """
        assert self._process.stdout is not None
        pipe = self._process.stdout.fileno()
        rest, began = b"", None
        while True:
            if not select.select([pipe], [], [], SILENT_S)[0]:
                raise HostDied(f"the hosting process acknowledged nothing for {SILENT_S:.0f} s{self.complaints()}")
            data = os.read(pipe, 1 << 16)
            if not data:
                break
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                self.notebook.write(line)
            if began is None and self.notebook.opening is not None:
                began = time.perf_counter()
            # After the kill the pipe is read to its end: what was acknowledged was acknowledged.
            if self.killed_at is None and began is not None:
                self.seconds = time.perf_counter() - began
                if kill_when():
                    self._process.kill()
                    self.killed_at = time.time_ns() // 1_000
            progress()
        if self._process.wait() != 0 and self.killed_at is None:
            raise HostDied(
                f"the hosting process ended by itself with code {self._process.returncode}{self.complaints()}"
            )

    def complaints(self) -> str:
        """Return what it wrote to its standard error, if anything: a healthy one writes nothing."""
        said = self._complaints.read_text(errors="replace").strip().splitlines()
        return ": " + "\n  ".join(said[-COMPLAINT_LINES:]) if said else ""
