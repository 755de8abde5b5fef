"""Owns the bare baseline: the hops that one durable execution cannot do without. Never imports treadle.

One execution passes through: a submit mail -> START batch (3 records) -> a shared sync -> a mail -> a coroutine on the
loop -> with `--commits 3` a MESSAGE batch (1 record of a 180-byte message) -> a shared sync -> a mail -> the coroutine
again -> a mail -> FINISH batch (3 records) -> a shared sync -> a mail -> done, and the next submit.

The shape is the product's own: one worker drains every mailbox that has mail, one writer worker takes all batches that
wait and syncs once for them, and one event loop is woken once a burst. What is missing is everything that a product
adds: decisions, checks, receipts, indexes, subscriptions. So the ratio product / baseline is what those cost.

    python -m benchmarks.baseline executions --threads 256 --commits 3
    python -m benchmarks.baseline commit

One measurement a process, one JSON line out.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import queue
import sys
import tempfile
import threading
import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import lmdb
import msgpack

from benchmarks.collector import settle_collector

if TYPE_CHECKING:
    from collections.abc import Callable

MAILS_A_TURN = 64  # a mailbox gives way to the others after so many
BATCHES_A_SYNC = 1_024
MAP_BYTES = 1 << 33
CONTENT = "hello " * 30  # 180 bytes

Records = list[tuple[bytes, bytes]]
Turns: TypeAlias = "queue.SimpleQueue[Callable[[], None]]"


class Journal:
    """One LMDB table and the one worker that writes it: all batches that wait share a transaction and its sync."""

    def __init__(self, directory: str) -> None:
        self.environment = lmdb.open(directory, map_size=MAP_BYTES, max_dbs=4)
        self.table = self.environment.open_db(b"journal")
        self.batches: queue.SimpleQueue[tuple[Records, Callable[[], None]]] = queue.SimpleQueue()
        self.syncs = 0

    def write_forever(self) -> None:
        while True:
            group = [self.batches.get()]
            while len(group) < BATCHES_A_SYNC:
                try:
                    group.append(self.batches.get_nowait())
                except queue.Empty:
                    break
            with self.environment.begin(write=True, db=self.table) as transaction:
                for records, _ in group:
                    for key, value in records:
                        transaction.put(key, value)
            self.syncs += 1
            for _, confirm in group:
                confirm()


class Loop:
    """An event loop that is woken once a burst: calls made while it is busy join the burst under way."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.calls: deque[Callable[[], object]] = deque()

    def post(self, call: Callable[[], object]) -> None:
        # Sound because the one dispatching worker is the only caller: nobody else can see the length change.
        self.calls.append(call)
        if len(self.calls) == 1:
            self.loop.call_soon_threadsafe(self.run_burst)

    def run_burst(self) -> None:
        # A call leaves the queue only after it ran, so the queue is empty exactly when no burst is under way.
        for _ in range(len(self.calls)):
            self.calls[0]()
            self.calls.popleft()
        if self.calls:
            self.loop.call_soon(self.run_burst)


class Conversation:
    """A mailbox, and the least that an execution needs to pass through it."""

    def __init__(self, number: int, commits: int, journal: Journal, loop: Loop, ready: Turns) -> None:
        self.key = number.to_bytes(8, "big")
        self.commits = commits
        self.journal, self.loop, self.ready = journal, loop, ready
        self.sequence = 0
        self.lock = threading.Lock()
        self.mails: deque[tuple[str, Callable[[], None] | None]] = deque()
        self.scheduled = False

    def tell(self, verb: str, done: Callable[[], None] | None = None) -> None:
        with self.lock:
            self.mails.append((verb, done))
            if self.scheduled:
                return
            self.scheduled = True
        self.ready.put(self.drain)

    def drain(self) -> None:
        for _ in range(MAILS_A_TURN):
            with self.lock:
                if not self.mails:
                    self.scheduled = False
                    return
                verb, done = self.mails.popleft()
            self.receive(verb, done)
        self.ready.put(self.drain)

    def receive(self, verb: str, done: Callable[[], None] | None) -> None:
        if verb == "submit":
            self.done = done
            self.commit("THREAD_EXECUTION_STARTED", 3, "started")
        elif verb == "started":
            self.loop.post(self.dispatch)
        elif verb == "append":
            self.commit("MESSAGE_APPENDED", 1, "appended")
        elif verb == "appended":
            self.loop.post(self.resume)
        elif verb == "finish":
            self.commit("THREAD_EXECUTION_FINISHED", 3, "finished")
        elif verb == "finished" and self.done is not None:
            self.done()

    def commit(self, kind: str, count: int, then: str) -> None:
        records = []
        for _ in range(count):
            self.sequence += 1
            record = {"type": kind, "execution_id": "0" * 32, "at": time.time_ns() // 1000, "content": CONTENT}
            records.append((self.key + self.sequence.to_bytes(8, "big"), msgpack.packb(record)))
        self.journal.batches.put((records, lambda: self.tell(then)))

    def dispatch(self) -> None:
        self.task = self.loop.loop.create_task(self.run())

    def resume(self) -> None:
        self.appended.set_result(None)

    async def run(self) -> None:
        if self.commits == 3:
            self.appended = self.loop.loop.create_future()
            self.tell("append")
            await self.appended
        self.tell("finish")


def measure_executions(directory: str, threads: int, executions: int, commits: int) -> dict[str, object]:
    """Keep every conversation busy with one execution after another; return the rate and the latencies."""
    journal, loop = Journal(directory), Loop()
    ready: Turns = queue.SimpleQueue()
    latencies: list[float] = []
    finished = threading.Event()
    each = max(1, executions // threads)
    total = each * threads

    def dispatch_forever() -> None:
        while True:
            ready.get()()

    def submit(conversation: Conversation, left: int) -> None:
        began = time.perf_counter()

        def done() -> None:
            latencies.append(time.perf_counter() - began)
            if left > 1:
                submit(conversation, left - 1)
            elif len(latencies) == total:
                finished.set()

        conversation.tell("submit", done)

    for target in (dispatch_forever, journal.write_forever, loop.loop.run_forever):
        threading.Thread(target=target, daemon=True).start()
    began = time.perf_counter()
    for number in range(threads):
        submit(Conversation(number, commits, journal, loop, ready), each)
    finished.wait()
    seconds = time.perf_counter() - began
    return {
        "threads": threads,
        "commits": commits,
        "executions": total,
        "per_s": round(total / seconds),
        "syncs": journal.syncs,
        **percentiles(latencies),
    }


def measure_commit(directory: str, commits: int) -> dict[str, object]:
    """Time one caller's bare commits: one record, one transaction, one sync, with nobody else and no worker between."""
    journal = Journal(directory)
    value = msgpack.packb({"type": "STEER", "execution_id": "0" * 32, "at": 0, "content": CONTENT})
    latencies = []
    for number in range(commits):
        began = time.perf_counter()
        with journal.environment.begin(write=True, db=journal.table) as transaction:
            transaction.put(number.to_bytes(8, "big"), value)
        latencies.append(time.perf_counter() - began)
    return {"commits": commits, **percentiles(latencies)}


def percentiles(latencies: list[float]) -> dict[str, float]:
    """Return p50 and p99 in milliseconds."""
    ranked = sorted(latencies)
    return {
        "p50_ms": round(ranked[len(ranked) // 2] * 1e3, 4),
        "p99_ms": round(ranked[int(len(ranked) * 0.99)] * 1e3, 4),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="the bare baseline, one measurement")
    parser.add_argument("what", choices=("executions", "commit"))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--executions", type=int, default=20_000)
    parser.add_argument("--commits", type=int, choices=(2, 3), default=3)
    parser.add_argument("--calls", type=int, default=2_000, help="how many bare commits")
    parser.add_argument("--dir", default=".", help="where to put the temporary store; must be a real disk")
    options = parser.parse_args()
    Path(options.dir).mkdir(parents=True, exist_ok=True)
    settle_collector()
    with tempfile.TemporaryDirectory(dir=options.dir) as directory:
        if options.what == "commit":
            figure = measure_commit(directory, options.calls)
        else:
            executions = min(options.executions, 2_000 * options.threads)
            figure = measure_executions(directory, options.threads, executions, options.commits)
    print(json.dumps(figure), flush=True)
    sys.stdout.flush()
    os._exit(0)  # the workers wait forever; nothing is left to close


if __name__ == "__main__":
    main()
