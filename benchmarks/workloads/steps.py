"""Measures declared agents: executions of one model step with an embedded model, and the assembly of a request.

The driver is that of `executions`. With `--messages` one thread is grown first, and what is measured is the processor
time from the input to the request, for each message that is sent.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from benchmarks.collector import settle_collector
from benchmarks.workloads.executions import busy
from benchmarks.workloads.stage import CONTENT, parser, place, report
from treadle.actors import Runtime
from treadle.agents import Agent, Model, Prompt, Side
from treadle.agents.models import FunctionModel
from treadle.storage import LmdbStore

if TYPE_CHECKING:
    import argparse

    from treadle.agents.models.seam import ModelRequest

INPUTS = 20  # executions of which the median is taken
asked: list[tuple[float, int]] = []


def answer(request: ModelRequest) -> str:
    asked.append((time.process_time(), len(request.messages)))
    return CONTENT


def declared(history_limit: int | None) -> Agent:
    model = Model(name="embedded", model=FunctionModel(answer))
    prompt = Prompt(name="answer", prompt="Answer.", model=model, history_limit=history_limit)
    return Agent(name="declared", side_a=Side(prompt=prompt), side_b=Side(human=True))


async def measure_context(options: argparse.Namespace, directory: str) -> dict[str, object]:
    async with Runtime(LmdbStore(directory, durability="process"), agents=[declared(options.history_limit)]) as runtime:
        thread = await runtime.create_thread("declared")
        for start in range(0, options.messages, 200):
            numbers = range(start, min(start + 200, options.messages))
            await asyncio.gather(*(thread.inject_message("user", CONTENT) for _ in numbers))
        costs = []
        for _ in range(INPUTS):
            began = time.process_time()
            await thread.wait(await thread.submit("go on"))
            ended, sent = asked[-1]
            costs.append((ended - began) / sent)
    return {
        "messages": options.messages,
        "sent": asked[-1][1],
        "us_per_message": round(sorted(costs)[INPUTS // 2] * 1e6, 2),
    }


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--threads", type=int, default=1)
    arguments.add_argument("--executions", type=int, default=10_000)
    arguments.add_argument("--messages", type=int, help="measure the assembly of a request in a thread of so many")
    arguments.add_argument("--history-limit", type=int, help="of the prompt")
    options = arguments.parse_args()
    settle_collector()
    with place(options) as directory:
        if options.messages is None:
            report(asyncio.run(busy(options, directory, [declared(10)], "declared")))
        else:
            report(asyncio.run(measure_context(options, directory)))


if __name__ == "__main__":
    main()
