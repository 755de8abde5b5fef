"""Measures steering: one caller, from its call to the durable `accepted`, while 1,000 executions are active.

With `--computing N`, N plain-function agents compute on workers of the pool meanwhile and compete for the interpreter.
"""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING

from benchmarks.baseline import percentiles
from benchmarks.collector import settle_collector
from benchmarks.workloads.stage import CONTENT, parser, place, report
from treadle.actors import Runtime
from treadle.agents import ThreadState, agent
from treadle.storage import LmdbStore

if TYPE_CHECKING:
    import argparse

released = asyncio.Event()  # of the runtime's loop, on which all patient bodies wait
loops: list[asyncio.AbstractEventLoop] = []
computed = threading.Event()


@agent
async def patient(_state: ThreadState) -> None:
    """Stay active until the measurement is over; the steers are read in the pass after that."""
    loops[:] = [asyncio.get_running_loop()]
    await released.wait()


@agent
def computing(_state: ThreadState) -> None:
    """Hold the interpreter as pure Python code does."""
    while not computed.is_set():
        sum(range(1_000))


def measure(options: argparse.Namespace, directory: str) -> dict[str, object]:
    latencies = []
    with Runtime(LmdbStore(directory), agents=[patient, computing]) as runtime:
        beside = [runtime.create_thread("computing").result() for _ in range(options.computing)]
        created = [runtime.create_thread("patient") for _ in range(options.threads)]
        threads = [reply.result() for reply in created]
        submitted = [thread.submit("begin") for thread in threads]
        aims = [(thread, reply.result().execution_id) for thread, reply in zip(threads, submitted, strict=True)]
        running = [thread.submit("compute").result().execution_id for thread in beside]
        for number in range(options.calls):
            thread, execution_id = aims[number % len(aims)]
            began = time.perf_counter()
            receipt = thread.steer(execution_id, CONTENT).result()
            latencies.append(time.perf_counter() - began)
            assert receipt.disposition == "accepted", receipt
        computed.set()
        loops[0].call_soon_threadsafe(released.set)
        ending = [thread.wait(execution_id) for thread, execution_id in aims]
        ending += [thread.wait(execution_id) for thread, execution_id in zip(beside, running, strict=True)]
        assert {reply.result().outcome for reply in ending} == {"succeeded"}
    return {"threads": options.threads, "calls": len(latencies), **percentiles(latencies)}


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--threads", type=int, default=1_000)
    arguments.add_argument("--calls", type=int, default=2_000)
    arguments.add_argument("--computing", type=int, default=0)
    options = arguments.parse_args()
    settle_collector()
    with place(options) as directory:
        report(measure(options, directory))


if __name__ == "__main__":
    main()
