"""Owns a store with a row of every kind in every table, made once by a real runtime at work. Checks nothing itself."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from treadle.actors import Runtime
from treadle.agents import agent
from treadle.protocol.errors import RequestExpired
from treadle.storage import MemoryStore
from treadle.storage.memory_store import _Snapshot, _SortedTable
from treadle.storage.tables import Table

if TYPE_CHECKING:
    from treadle.agents import ThreadState

Tables = list[dict[bytes, bytes]]
THREAD = "full"
CALLS = [
    {"id": call, "type": "function", "function": {"name": "look", "arguments": "{}"}} for call in ("c-1", "c-2", "c-3")
]


@functools.cache
def filled_tables() -> Tables:
    """Return the rows of a store in the midst of work: one thread runs, one is idle, one was deleted."""
    ready, done = threading.Event(), threading.Event()

    @agent(name="body")
    async def body(state: ThreadState) -> None:
        for message in state.execution.new_messages:
            await state.inject_message("assistant", f"heard {message.content}")
            if message.content == "fail":
                state.request("approval", request_id="r-abandoned")
                raise ValueError("on purpose")
            if message.content == "hold everything":
                await _hold_everything(state)
                ready.set()
                while not done.is_set():
                    await state.sleep(0.01)

    store = MemoryStore()
    with Runtime(store, agents=[body]) as runtime:
        try:
            _work(runtime, ready)
            return tables_of(store)
        finally:
            done.set()


async def _hold_everything(state: ThreadState) -> None:
    await state.set_value("place", {"deep": [1, 2.5, None, "x"]})
    await state.set_value("gone", 1)
    await state.set_value("gone", None)
    await state.set_value("k" * 300, True)
    await state.execution.start_process(["sleep", "60"])
    with suppress(RequestExpired):
        await state.request("approval", timeout=0.001, request_id="r-expired")
    assert await state.request("approval", request_id="r-resolved") == {"yes": True}
    state.request("approval", {"what": 1}, request_id="r-1")
    await state.inject_message("assistant", None, tool_calls=CALLS)
    await state.inject_message("tool", "found", tool_call_id="c-1")


def _work(runtime: Runtime, ready: threading.Event) -> None:
    idle = runtime.create_thread("body", thread_id="idle").result()
    idle.inject_message("user", "by the way", silent=True).result()
    runtime.create_thread("body", thread_id="deleted", user_id="u-1").result()
    runtime.delete_thread("deleted").result()
    full = runtime.create_thread("body", thread_id=THREAD, user_id="u-1", tags=["a"], arguments={"x": 1}).result()
    full.wait(full.submit("one", input_id="i-1").result()).result(60)
    full.wait(full.submit("fail").result()).result(60)
    full.stop().result()
    full.queue_message("kept").result()
    full.wait(full.resume().result()).result(60)
    with full.stream() as stream:
        receipt = full.submit("hold everything", input_id="i-2").result()
        next(frame for frame in stream if frame.get("request_id") == "r-resolved")
    full.respond("r-resolved", {"yes": True}).result()
    assert ready.wait(60)
    assert receipt.execution_id is not None
    full.steer(receipt.execution_id, ["unread", "and more"], control_id="c-9").result()
    full.queue_message("later", silent=True, input_id="q-1").result()
    waits = full.submit(["waits", "too", "and not this"], on_busy="queue", input_id="s-1").result()
    full.update_message(waits.message_ids[1], content="as well").result()
    full.delete_message(waits.message_ids[2]).result()
    heard = full.messages(order="asc", limit=3).result().messages
    full.update_message(heard[0].id, metadata={"edited": True}).result()
    full.delete_message(heard[1].id).result()
    full.submit("taken back", on_busy="queue", input_id="s-2").result()
    full.withdraw("s-2").result()
    full.interrupt("another", control_id="refused").result()


def tables_of(store: MemoryStore) -> Tables:
    with store.view() as view:
        return [dict(view.scan(table, b"", None)) for table in Table]


def store_of(tables: Tables) -> MemoryStore:
    """Return an open store, without a worker, that holds these rows."""
    store = MemoryStore(manual=True)
    store._now = _Snapshot([_SortedTable(sorted(rows), dict(rows)) for rows in tables])
    store.open()
    return store


def changed(change: Callable[[Tables], Any]) -> MemoryStore:
    """Return a store like the filled one, but for what `change` does to its rows."""
    tables = [dict(rows) for rows in filled_tables()]
    change(tables)
    return store_of(tables)
