"""Measures what other threads and the health endpoint notice of plain-function tools that block, as one waits for a disk.

One caller has whole executions of a declared agent run, and asks for `/healthz` after each; `--blocking N` threads stand
in a tool all the while.
"""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING

import httpx

from benchmarks.baseline import percentiles
from benchmarks.collector import settle_collector
from benchmarks.workloads.stage import CONTENT, parser, place, report
from treadle.actors import Runtime
from treadle.agents import Agent, Model, Prompt, Side, ThreadState, tool
from treadle.agents.models import FunctionModel, ModelRequest, ModelResponse, ToolCall
from treadle.hosting import create_app
from treadle.storage import LmdbStore

if TYPE_CHECKING:
    import argparse

standing = threading.Semaphore(0)
over = threading.Event()


@tool
def block(state: ThreadState) -> str:  # noqa: ARG001 - every tool takes it
    """Block like I/O: without the interpreter."""
    standing.release()
    over.wait()
    return "unblocked"


def call(request: ModelRequest) -> str | ModelResponse:
    if request.messages[-1].role == "tool":
        return CONTENT
    return ModelResponse("", tool_calls=(ToolCall("c1", "block", "{}"),))


def made(name: str, model: FunctionModel) -> Agent:
    tools = [block] if name == "blocked" else []
    return Agent(
        name=name,
        side_a=Side(
            prompt=Prompt(name=name, prompt="Go.", model=Model(name=name, model=model), tools=tools, history_limit=10)
        ),
    )


async def measure(options: argparse.Namespace, directory: str) -> dict[str, object]:
    agents = [made("blocked", FunctionModel(call)), made("free", FunctionModel(lambda _request: CONTENT))]
    executions, health = [], []
    async with Runtime(LmdbStore(directory, durability="process"), agents=agents) as runtime:
        waiting = []
        for _ in range(options.blocking):
            thread = await runtime.create_thread("blocked")
            waiting.append((thread, await thread.submit("go")))
            await asyncio.to_thread(standing.acquire)
        thread = await runtime.create_thread("free")
        transport = httpx.ASGITransport(app=create_app(runtime))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            for _ in range(options.executions):
                began = time.perf_counter()
                await thread.wait(await thread.submit("go"))
                ended = time.perf_counter()
                answer = await client.get("/healthz")
                executions.append(ended - began)
                health.append(time.perf_counter() - ended)
                assert answer.status_code == 200, answer.text
        over.set()
        for blocked, receipt in waiting:
            assert (await blocked.wait(receipt)).outcome == "succeeded"
    return {
        "blocking": options.blocking,
        "executions": len(executions),
        **{f"execution_{key}": value for key, value in percentiles(executions).items()},
        **{f"health_{key}": value for key, value in percentiles(health).items()},
    }


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--blocking", type=int, default=1)
    arguments.add_argument("--executions", type=int, default=2_000)
    options = arguments.parse_args()
    settle_collector()
    with place(options) as directory:
        report(asyncio.run(measure(options, directory)))


if __name__ == "__main__":
    main()
