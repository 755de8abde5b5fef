"""Measures a thousand watchers on two hundred threads in work: are all sequences complete, what a watcher costs in memory,
and how long an event is under way, from its decision to the watcher that has it.

With `--in-process` the watchers are subscriptions on one loop of this process, else server-sent events over loopback, read
by a process of their own. The work is paced, so that what is measured is not a queue.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from benchmarks.alternate import ROOT
from benchmarks.baseline import percentiles
from benchmarks.collector import settle_collector
from benchmarks.workloads.memory import anonymous_bytes
from benchmarks.workloads.stage import parser, place, report, speaker
from treadle.actors import Runtime
from treadle.storage import LmdbStore

if TYPE_CHECKING:
    import argparse

    from treadle.actors import Thread


def work(threads: list[Thread], options: argparse.Namespace) -> list[int]:
    """Run one execution after the other, so many a second, round the threads; return the heads."""
    began = time.perf_counter()
    waiting = []
    for number in range(options.executions):
        time.sleep(max(0.0, began + number / options.per_second - time.perf_counter()))
        thread = threads[number % len(threads)]
        # A busy machine may not be done with the one before.
        waiting.append((thread, thread.submit("go", on_busy="queue").result()))
    for thread, receipt in waiting[-len(threads) :]:
        thread.wait(receipt).result()
    return [thread.state().result().cursor.sequence for thread in threads]


class InProcess:
    """The watchers as subscriptions, each a task on one loop."""

    def __init__(self, threads: list[Thread], count: int) -> None:
        self._sequences: list[list[int]] = [[] for _ in range(count)]
        self._latencies: list[float] = []
        self._threads = threads
        self._begun = threading.Barrier(2)
        self._heads: list[int] = []
        self._worker = threading.Thread(target=lambda: asyncio.run(self._follow()), daemon=True)
        self._worker.start()
        self._begun.wait()

    def figures(self, heads: list[int]) -> dict[str, Any]:
        self._heads = heads
        # The last event that each waits for, whether it has it by now or not.
        for thread in self._threads:
            thread.inject_message(role="user", content="end").result()
        self._worker.join()
        whole = [sequences == list(range(1, heads[n % len(heads)] + 1)) for n, sequences in enumerate(self._sequences)]
        return {"complete": sum(whole), "events": len(self._latencies), **percentiles(self._latencies)}

    async def _follow(self) -> None:
        begun = asyncio.Semaphore(0)
        tasks = [asyncio.create_task(self._watch(n, begun)) for n in range(len(self._sequences))]
        for _ in tasks:
            await begun.acquire()
        await asyncio.to_thread(self._begun.wait)
        await asyncio.gather(*tasks)

    async def _watch(self, number: int, begun: asyncio.Semaphore) -> None:
        sequences = self._sequences[number]
        place = number % len(self._threads)
        async for event in self._threads[place].events():
            if self._heads and event.cursor.sequence > self._heads[place]:
                return
            sequences.append(event.cursor.sequence)
            if len(sequences) == 1:
                begun.release()
            else:
                self._latencies.append(time.time() - event.created_at / 1e6)


class OverHttp:
    """The watchers as clients of a server in this process, in a process of their own."""

    def __init__(self, runtime: Runtime, threads: int, count: int) -> None:
        # Whoever measures in process needs none of these.
        from treadle.hosting import server
        from treadle.hosting.app import create_app

        app = create_app(runtime)
        listening = server._listen("127.0.0.1", 0, needs_loopback=True)
        self._server = server._Server(server._config(app, app.state.treadle), lambda: 0)
        self._worker = threading.Thread(target=self._server.run, kwargs={"sockets": [listening]}, daemon=True)
        self._worker.start()
        arguments = [str(listening.getsockname()[1]), str(threads), str(count)]
        self._client = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.watching_client", *arguments],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._client.stdout is not None
        said = self._client.stdout.readline()
        if said != "ready\n":
            raise ChildProcessError(f"the clients said {said!r}")

    def figures(self, heads: list[int]) -> dict[str, Any]:
        said, _ = self._client.communicate(json.dumps(heads) + "\n", timeout=120)
        self._server.should_exit = True
        self._worker.join()
        return dict(json.loads(said))


def measure(options: argparse.Namespace, directory: str) -> dict[str, object]:
    with Runtime(LmdbStore(directory), agents=[speaker], loop="own") as runtime:
        threads = [runtime.create_thread("speaker", thread_id=f"t{n}").result() for n in range(options.threads)]
        before = anonymous_bytes()
        in_process, count = options.in_process, options.watchers
        watching = InProcess(threads, count) if in_process else OverHttp(runtime, len(threads), count)
        idle = anonymous_bytes()
        heads = work(threads, options)
        figures = watching.figures(heads)
        after = anonymous_bytes()
    return {
        "threads": options.threads,
        "watchers": options.watchers,
        "kib_per_watcher": round((idle - before) / options.watchers / 1024, 2),
        "kib_per_watcher_after": round((after - before) / options.watchers / 1024, 2),
        **figures,
    }


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--threads", type=int, default=200)
    arguments.add_argument("--watchers", type=int, default=1_000)
    arguments.add_argument("--executions", type=int, default=1_000)
    arguments.add_argument("--per-second", type=float, default=100.0)
    arguments.add_argument("--in-process", action="store_true")
    options = arguments.parse_args()
    settle_collector()
    with place(options) as directory:
        report(measure(options, directory))


if __name__ == "__main__":
    main()
