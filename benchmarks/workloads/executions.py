"""Measures durable executions per second: START, with three commits one awaited 180-byte message, FINISH.

One driver coroutine a thread submits, waits for the end, and submits again; drivers and bodies share the caller's loop.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING

import lmdb

from benchmarks.baseline import percentiles
from benchmarks.collector import settle_collector
from benchmarks.workloads.stage import parser, place, report, silent, speaker
from treadle.actors import Body, Runtime, Thread
from treadle.protocol.errors import ThreadExists
from treadle.storage import LmdbStore

if TYPE_CHECKING:
    import argparse


async def keep_busy(thread: Thread, executions: int, latencies: list[float]) -> None:
    for _ in range(executions):
        began = time.perf_counter()
        receipt = await thread.submit("go on")
        record = await thread.wait(receipt)
        latencies.append(time.perf_counter() - began)
        assert record.outcome == "succeeded", record


async def open_thread(runtime: Runtime, number: int, name: str) -> Thread:
    thread_id = f"thread-{number}"
    try:
        return await runtime.create_thread(name, thread_id=thread_id)
    except ThreadExists:  # a kept store of an earlier run
        return runtime.thread(thread_id)


async def busy(options: argparse.Namespace, directory: str, agents: list[Body], name: str) -> dict[str, object]:
    """Keep `options.threads` threads of one agent busy, each with one execution after another."""
    each = max(1, min(options.executions, 2_000 * options.threads) // options.threads)
    latencies: list[float] = []
    async with Runtime(LmdbStore(directory), agents=agents) as runtime:
        threads = await asyncio.gather(*(open_thread(runtime, n, name) for n in range(options.threads)))
        began = time.perf_counter()
        async with asyncio.TaskGroup() as drivers:
            for thread in threads:
                drivers.create_task(keep_busy(thread, each, latencies))
        seconds = time.perf_counter() - began
    return {
        "threads": options.threads,
        "executions": len(latencies),
        "per_s": round(len(latencies) / seconds),
        "bytes_per_execution": round(bytes_used(directory) / len(latencies)),
        **percentiles(latencies),
    }


async def measure(options: argparse.Namespace, directory: str) -> dict[str, object]:
    body = speaker if options.commits == 3 else silent
    return {"commits": options.commits, **await busy(options, directory, [speaker, silent], body.name)}


def bytes_used(directory: str) -> int:
    """Return the last used page times the page size: what the closed store takes on disk."""
    (data,) = Path(directory).rglob("data.mdb")
    with lmdb.open(str(data.parent), readonly=True, lock=False) as environment:
        return int((environment.info()["last_pgno"] + 1) * environment.stat()["psize"])


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--threads", type=int, default=1)
    arguments.add_argument("--executions", type=int, default=20_000)
    arguments.add_argument("--commits", type=int, choices=(2, 3), default=3)
    arguments.add_argument("--store", help="use and keep this store, with the threads that it has")
    options = arguments.parse_args()
    settle_collector()
    with place(options) as directory:
        report(asyncio.run(measure(options, directory)))


if __name__ == "__main__":
    main()
