"""A thousand clients in one process, for `workloads.watchers`: each follows one thread over a connection of its own.

`python -m benchmarks.watching_client PORT THREADS WATCHERS` says `ready` once every connection has its snapshot, reads the
heads to wait for as JSON from its input, and prints what arrived.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time

from benchmarks.baseline import percentiles

# A block is sent whole, so that chunks of HTTP never begin inside of one.
EVENT = re.compile(rb'id: \d+:(\d+)\nevent: \w+\ndata: \{[^\n]*"created_at":(\d+)\}\n\n')


class Watcher(asyncio.Protocol):
    """One connection; notes the sequence of every event, and how long it was under way."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.sequences: list[int] = []
        self.latencies: list[float] = []
        self.begun = asyncio.get_running_loop().create_future()
        self.complete = asyncio.get_running_loop().create_future()
        self.head = 0
        self._pending = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        host = "127.0.0.1:{}".format(transport.get_extra_info("peername")[1])
        transport.write(f"GET {self.path} HTTP/1.1\r\nhost: {host}\r\n\r\n".encode())

    def data_received(self, data: bytes) -> None:
        now = time.time()
        self._pending += data
        if not self.begun.done():
            if b"event: snapshot" not in self._pending:
                return
            self.begun.set_result(None)
        end = 0
        for event in EVENT.finditer(self._pending):
            self.sequences.append(int(event[1]))
            self.latencies.append(now - int(event[2]) / 1e6)
            end = event.end()
        self._pending = self._pending[end:]
        self.look()

    def connection_lost(self, exc: Exception | None) -> None:
        for waiting in (self.begun, self.complete):
            if not waiting.done():
                waiting.set_exception(exc or ConnectionError(f"{self.path} ended after {self.sequences[-1:]}"))

    def look(self) -> None:
        """Say that all is there, once it is."""
        if self.head and len(self.sequences) >= self.head and not self.complete.done():
            self.complete.set_result(None)


async def follow(port: int, threads: int, count: int) -> dict[str, object]:
    loop = asyncio.get_running_loop()
    watchers = [Watcher(f"/threads/t{n % threads}/events") for n in range(count)]
    for start in range(0, count, 50):  # a burst beyond the queue of the listening socket would wait for a second try
        wave = watchers[start : start + 50]
        for watcher in wave:
            await loop.create_connection(lambda watcher=watcher: watcher, "127.0.0.1", port)  # type: ignore[misc]
        await asyncio.gather(*(watcher.begun for watcher in wave))
    print("ready", flush=True)
    heads = json.loads(await asyncio.to_thread(sys.stdin.readline))
    for n, watcher in enumerate(watchers):
        watcher.head = heads[n % threads]
        watcher.look()
    await asyncio.gather(*(watcher.complete for watcher in watchers))
    whole = [watcher.sequences == list(range(1, watcher.head + 1)) for watcher in watchers]
    # The first event was there before anybody watched.
    latencies = [latency for watcher in watchers for latency in watcher.latencies[1:]]
    return {"complete": sum(whole), "events": len(latencies), **percentiles(latencies)}


def main() -> None:
    port, threads, count = map(int, sys.argv[1:])
    print(json.dumps(asyncio.run(follow(port, threads, count))), flush=True)


if __name__ == "__main__":
    main()
