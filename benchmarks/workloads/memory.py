"""Measures what an idle thread that ran once costs in memory: the difference in RssAnon, after a collection.

The map of the store is memory of the file and not counted. A first hundred threads warm everything that is made once.
"""

from __future__ import annotations

import gc
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.workloads.stage import parser, place, report, speaker
from treadle.actors import Runtime
from treadle.storage import LmdbStore

if TYPE_CHECKING:
    import argparse

WAVE = 256  # executions at once


def anonymous_bytes() -> int:
    """Return this process's RssAnon, collected first."""
    gc.collect()
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise OSError("this system does not tell RssAnon")


def run_once(runtime: Runtime, threads: int) -> None:
    """Create so many threads and let each run one execution; keep no handle of any."""
    for start in range(0, threads, WAVE):
        created = [runtime.create_thread("speaker") for _ in range(min(WAVE, threads - start))]
        handles = [reply.result() for reply in created]
        submitted = [thread.submit("once") for thread in handles]
        ending = [thread.wait(reply.result()) for thread, reply in zip(handles, submitted, strict=True)]
        assert {reply.result().outcome for reply in ending} == {"succeeded"}


def measure(options: argparse.Namespace, directory: str) -> dict[str, object]:
    resident = options.threads + 1_000
    with Runtime(LmdbStore(directory), agents=[speaker], idle_after=3_600.0, resident_max=resident) as runtime:
        run_once(runtime, 100)
        before = anonymous_bytes()
        run_once(runtime, options.threads)
        after = anonymous_bytes()
        workers = sum(1 for _ in Path("/proc/self/task").iterdir())
    return {
        "threads": options.threads,
        "bytes_per_thread": round((after - before) / options.threads),
        "workers": workers,
    }


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--threads", type=int, default=20_000)
    options = arguments.parse_args()
    with place(options) as directory:
        report(measure(options, directory))


if __name__ == "__main__":
    main()
