"""Measures whether history gets dearer as it grows: the CPU time of an append, and the newest page.

One thread is grown to `--messages`; then one execution appends 1,000 more. `durability="process"`, so that no sync
hides the difference.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from benchmarks.collector import settle_collector
from benchmarks.workloads.stage import CONTENT, parser, place, report
from treadle.actors import Runtime
from treadle.agents import ThreadState, agent
from treadle.storage import LmdbStore

if TYPE_CHECKING:
    import argparse

    from treadle.actors import Thread

APPENDS, PAGES = 1_000, 300
cpu_seconds: list[float] = []


@agent
async def writer(state: ThreadState) -> None:
    """Append as many messages as the input says, one awaited after the other."""
    (order,) = state.execution.new_messages
    began = time.process_time()
    for _ in range(int(order.content)):
        await state.inject_message(role="assistant", content=CONTENT)
    cpu_seconds.append(time.process_time() - began)


async def append(thread: Thread, count: int) -> None:
    record = await thread.wait(await thread.submit(str(count)))
    assert record.outcome == "succeeded", record


async def measure(options: argparse.Namespace, directory: str) -> dict[str, object]:
    async with Runtime(LmdbStore(directory, durability="process"), agents=[writer]) as runtime:
        thread = await runtime.create_thread("writer")
        await append(thread, options.messages)
        began = time.perf_counter()
        for _ in range(PAGES):
            await thread.messages()
        page_seconds = (time.perf_counter() - began) / PAGES
        await append(thread, APPENDS)
    return {
        "messages": options.messages,
        "append_cpu_us": round(cpu_seconds[-1] / APPENDS * 1e6, 1),
        "newest_page_us": round(page_seconds * 1e6, 1),
    }


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--messages", type=int, default=100)
    options = arguments.parse_args()
    settle_collector()
    with place(options) as directory:
        report(asyncio.run(measure(options, directory)))


if __name__ == "__main__":
    main()
