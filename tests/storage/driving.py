"""Owns how storage tests talk to a store: batches in one line, answers waited for by events. Checks nothing itself."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import TYPE_CHECKING

from treadle.storage.batch import Answer, Batch, Confirm, Op
from treadle.storage.head import Head, thread_key, unpack_head
from treadle.storage.tables import Table

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Self

    from treadle.storage.store import Store

PATIENCE_S = 60.0  # only a broken store makes a test wait this long


def key(number: int) -> bytes:
    return number.to_bytes(8, "big")


def ignore(_: Answer) -> None:
    """Be the confirm of a batch whose answer does not matter."""


def batch(
    number: int = 1,
    at: tuple[int, int] = (0, 0),
    *,
    to: tuple[int, int] | None = None,
    by: tuple[int, int] = (1, 1),
    ops: Iterable[Op] = (),
    change: bytes | None = None,
    absent: tuple[int, bytes] | None = None,
    record: bytes = b"record",
    size: int = 100,
    confirm: Confirm = ignore,
) -> Batch:
    """Return a batch of thread `number` that expects the head `at` and moves it `to`, one sequence on by default."""
    generation, sequence = to or (max(1, at[0]), at[1] + 1)
    return Batch(
        number=number,
        generation=at[0],
        sequence=at[1],
        boot=by[0],
        life=by[1],
        head_generation=generation,
        head_sequence=sequence,
        record=record,
        ops=list(ops),
        size=size,
        confirm=confirm,
        change=change,
        absent=absent,
    )


class Answers:
    """Collects answers in the order in which they come, whatever worker brings them."""

    def __init__(self) -> None:
        self.all: list[tuple[object, Answer]] = []
        self._came = threading.Condition()

    def confirm(self, name: object) -> Confirm:
        def take(answer: Answer) -> None:
            with self._came:
                self.all.append((name, answer))
                self._came.notify_all()

        return take

    def wait(self, count: int) -> list[Answer]:
        """Return the first `count` answers, waiting for them."""
        with self._came:
            assert self._came.wait_for(lambda: len(self.all) >= count, PATIENCE_S), f"only {self.all} came"
            return [answer for _, answer in self.all[:count]]

    def kinds(self) -> list[str]:
        return [answer.kind for _, answer in self.all]


def write(store: Store, *batches: Batch) -> list[Answer]:
    """Hand over batches together and return their answers, in the order of the batches."""
    answers = Answers()
    for index, one in enumerate(batches):
        one.confirm = answers.confirm(index)
        store.commit(one)
    answers.wait(len(batches))
    return [answer for _, answer in sorted(answers.all, key=lambda pair: str(pair[0]).zfill(9))]


def barrier(store: Store, number: int, by: tuple[int, int]) -> Answer:
    answers = Answers()
    store.barrier(number, *by, answers.confirm("barrier"))
    return answers.wait(1)[0]


def read(store: Store, table: int, name: bytes) -> bytes | None:
    with store.view() as view:
        return view.get(table, name)


def contents(store: Store, table: int) -> dict[bytes, bytes]:
    with store.view() as view:
        return dict(view.scan(table, b"", None))


def head(store: Store, number: int) -> Head | None:
    row = read(store, Table.THREADS, thread_key(number))
    return None if row is None else unpack_head(row, thread_key(number))


def run(script: str, *arguments: object, warnings: str = "error") -> subprocess.CompletedProcess[str]:
    """Run Python source in a process of its own and wait for it; pytest shows what it wrote if the test fails."""
    done = subprocess.run(
        [sys.executable, "-W", warnings, "-c", script, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=5 * PATIENCE_S,
        check=False,
    )
    print(done.stdout, done.stderr, sep="\n")
    return done


class Process:
    """Runs Python source in a process of its own and talks with it line by line."""

    def __init__(self, script: str, *arguments: object) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", script, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def line(self) -> str:
        """Return the next line that it prints, or an empty string once it has ended."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def say(self, text: str = "") -> None:
        """Send it a line."""
        assert self._process.stdin is not None
        self._process.stdin.write(text + "\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        """Kill it, if it still runs, and wait until it is gone."""
        self._process.kill()
        self._process.communicate()
