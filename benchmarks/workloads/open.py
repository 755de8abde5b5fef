"""Measures opening a store: 100 threads lost while running, 100 idle ones with rows, and any number of idle ones.

`--prepare N` makes such a store by dying twice. A first process dies while 100 threads of an agent run and have queued
messages; a second one, which does not know that agent, settles them, so that their rows wait, and dies while 100 others
run. Every measurement opens a copy.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.workloads.stage import parser, report
from treadle.actors import Runtime
from treadle.agents import ThreadState, agent
from treadle.storage import LmdbStore

if TYPE_CHECKING:
    import argparse

WITH_WORK = 100  # of each kind
WAVE = 1_000


@agent
async def steady(_state: ThreadState) -> None:
    """Run until the process dies."""
    await asyncio.Event().wait()


entered = threading.Semaphore(0)


@agent
async def leaving(_state: ThreadState) -> None:
    """Run until the process dies; the next one does not know this agent."""
    entered.release()
    await asyncio.Event().wait()


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def first_life(store: str, threads: int) -> None:
    with Runtime(LmdbStore(store, durability="process"), agents=[steady, leaving]) as runtime:
        for start in range(0, threads, WAVE):
            numbers = range(start, min(start + WAVE, threads))
            created = [
                runtime.create_thread("leaving" if n < WITH_WORK else "steady", thread_id=f"t-{n}") for n in numbers
            ]
            for reply in created:
                reply.result()
        for n in range(WITH_WORK):
            runtime.thread(f"t-{n}").submit("begin").result()
            runtime.thread(f"t-{n}").queue_message("later").result()
        die()


def second_life(store: str) -> None:
    with Runtime(LmdbStore(store, durability="process"), agents=[steady]) as runtime:
        for n in range(WITH_WORK, 2 * WITH_WORK):
            runtime.thread(f"t-{n}").submit("begin").result()
        die()


def prepare(options: argparse.Namespace) -> dict[str, object]:
    Path(options.store).mkdir(parents=True, exist_ok=True)
    for life in ("1", "2"):
        line = [sys.executable, "-m", "benchmarks.workloads.open", *sys.argv[1:], "--life", life]
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        assert done.returncode == -signal.SIGKILL, done.stderr
    return {"threads": options.prepare}


class CountingStore(LmdbStore):
    """A store that counts its read snapshots."""

    reads = 0

    def view(self):
        self.reads += 1
        return super().view()


def copy_synced(source: str, target: str) -> None:
    """Copy a store and sync the copy, or the first sync of the measured open would pay for it."""
    shutil.copytree(source, target, dirs_exist_ok=True)
    for path in Path(target).rglob("*"):
        if path.is_file():
            with path.open("rb+") as file:
                os.fsync(file.fileno())


def measure(options: argparse.Namespace) -> dict[str, object]:
    with tempfile.TemporaryDirectory(dir=Path(options.store).parent) as directory:
        copy_synced(options.store, directory)
        store = CountingStore(directory)
        runtime = Runtime(store, agents=[steady, leaving])
        began = time.perf_counter()
        runtime.__enter__()
        seconds = time.perf_counter() - began
        for _ in range(
            WITH_WORK
        ):  # what waited starts by itself; only then is everything read that this open calls for
            entered.acquire()
        reads = store.reads
        lost = {runtime.thread(f"t-{n}").status().result().reason for n in range(WITH_WORK, 2 * WITH_WORK)}
        assert lost == {"execution_lost"}, lost
    return {"open_ms": round(seconds * 1e3, 2), "reads": reads}


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--store", required=True)
    arguments.add_argument("--prepare", type=int, metavar="N", help="make the store, with N threads")
    arguments.add_argument("--life", choices=("1", "2"), help="of a store being prepared")
    options = arguments.parse_args()
    if options.life == "1":
        first_life(options.store, options.prepare)
    elif options.life == "2":
        second_life(options.store)
    elif options.prepare is not None:
        report(prepare(options))
    else:
        report(measure(options))
        os._exit(0)  # the bodies wait forever; the copy is gone already


if __name__ == "__main__":
    main()
