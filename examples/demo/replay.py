"""Owns the hosting process: a runtime on the store, and all clients at once. Ends when told to, or by SIGKILL."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from examples.demo.client import Client
from examples.demo.notes import write_line
from examples.demo.talker import make_talker
from treadle.actors import Runtime
from treadle.protocol.errors import ThreadExists
from treadle.storage import LmdbStore

if TYPE_CHECKING:
    from pathlib import Path

    from examples.demo.dialogues import Corpus
    from examples.demo.notes import Note
    from examples.demo.scenes import Scene
    from treadle.actors import Thread

__all__ = ["host", "statuses"]


async def host(
    directory: Path, corpus: Corpus, plan: dict[str, list[Scene]], notes: list[Note], played: dict[str, int]
) -> None:
    """Host the threads of a plan and play it to its end.

    Args:
        directory: of the store.
        corpus: what the agent answers from.
        plan: what is said in each thread.
        notes: what an earlier process acknowledged.
        played: how many scenes of each thread are over; empty in a first life.
    """
    known: defaultdict[str, dict[str, Note]] = defaultdict(dict)
    for note in notes:
        known[note.thread][note.ask] = note
    # A server of its own: with Python's 5 ms, each hand-over between the loop and the runtime's workers may take as long.
    sys.setswitchinterval(0.0005)
    began = time.perf_counter()
    async with Runtime(LmdbStore(directory), agents=[make_talker(corpus)]) as runtime:
        opened = runtime.opened
        assert opened is not None
        write_line("open", (time.perf_counter() - began, opened.settled, opened.started, await statuses(runtime)))
        async with asyncio.TaskGroup() as clients:
            for name, scenes in plan.items():
                rest = scenes[played.get(name, 0) :]
                clients.create_task(_talk(runtime, name, rest, known[name], reopened=bool(notes)))
        write_line("done", None)


async def statuses(runtime: Runtime) -> dict[str, int]:
    """Count the threads of a runtime by run status and reason."""
    counted: Counter[str] = Counter()
    after = None
    while True:
        page = await runtime.threads(after=after, limit=1_000)
        for thread in page.threads:
            state, _, reason = thread.status
            counted[f"{state} ({reason})" if reason else state] += 1
        after = page.next
        if after is None:
            return dict(counted)


async def _talk(runtime: Runtime, name: str, scenes: list[Scene], known: dict[str, Note], *, reopened: bool) -> None:
    await Client(await _open_thread(runtime, name), known, reopened=reopened).play(scenes)


async def _open_thread(runtime: Runtime, name: str) -> Thread:
    try:
        return await runtime.create_thread("talker", thread_id=name)
    except ThreadExists:
        return runtime.thread(name)
