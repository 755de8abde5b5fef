"""Owns the proof of treadle.actors.forking: in a forked child every call is answered at once, and the parent goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.storage.driving import run

if TYPE_CHECKING:
    from pathlib import Path

CLIENT = """
import os, sys
from treadle.actors import Runtime
from treadle.agents import agent
from treadle.protocol.errors import RuntimeClosed
from treadle.storage import LmdbStore

@agent
async def echo(state):
    await state.inject_message("assistant", "here")

def closed(call):
    try:
        call()
    except RuntimeClosed:
        return
    raise AssertionError("not refused")

with Runtime(LmdbStore(sys.argv[1]), agents=[echo]) as runtime:
    thread = runtime.create_thread(echo).result()
    child = os.fork()
    if child == 0:
        closed(lambda: thread.submit("hi").result())
        closed(lambda: thread.messages().result())
        closed(lambda: thread.stream().next())
        closed(lambda: runtime.create_thread(echo).result())
        closed(lambda: runtime.delete_thread(thread.id).result())
        sys.exit(7)  # by way of the runtime's own `with`
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    receipt = thread.submit("hi").result(60)
    print(thread.wait(receipt).result(60).status, len(thread.messages().result().messages))
"""

BODY = """
import os, sys
from treadle.actors import ExecutionFenced, Runtime
from treadle.agents import agent
from treadle.storage import LmdbStore

@agent
def forks(state):
    child = os.fork()
    if child == 0:
        for call in (lambda: state.inject_message("assistant", "no"), lambda: state.set_value("k", 1)):
            try:
                call().result()
            except ExecutionFenced:
                continue
            os._exit(1)
        return  # and its worker, the only one here, ends with it
    state.inject_message("assistant", str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))).result()

with Runtime(LmdbStore(sys.argv[1]), agents=[forks]) as runtime:
    thread = runtime.create_thread(forks).result()
    receipt = thread.submit("hi").result()
    print(thread.wait(receipt).result(60).status, [m.content for m in thread.messages().result().messages])
"""

# Every lock that a module keeps is held by another worker at the fork, as is the one of the hub and of each watch.
HELD = """
import os, signal, sys, threading
from treadle.actors import Runtime
from treadle.agents import agent
from treadle.storage import LmdbStore

@agent
async def says(state):
    await state.log("info", "here")
    await state.inject_message("assistant", "here")

@agent
def does(state):
    state.inject_message("assistant", "here").result()

@agent
async def waits(state):
    await state.request("approval", {})

def serve(path):
    with Runtime(LmdbStore(path), agents=[says, does, waits]) as own:
        for body in (says, does):
            for _ in range(40):
                thread = own.create_thread(body).result()
                assert thread.wait(thread.submit("hi", timeout=60).result()).result().status == "succeeded"
        thread = own.create_thread(waits).result()
        receipt = thread.submit("hi").result()
        thread.interrupt(receipt.execution_id).result()
        assert thread.wait(receipt).result().status == "cancelled"

kinds = (type(threading.Lock()), type(threading.RLock()))
locks = []
for name, module in list(sys.modules.items()):
    if name.startswith("treadle."):
        for value in list(vars(module).values()):
            locks += [lock for lock in (value if isinstance(value, tuple) else (value,)) if isinstance(lock, kinds)]
assert len(locks) > 64

with Runtime(LmdbStore(sys.argv[1] + "-parent"), agents=[says]) as runtime:
    thread = runtime.create_thread(says).result()
    with thread.stream() as stream, thread.events() as events, runtime.events() as changes:
        for feed in (stream, events, changes):
            feed.next()
        services = runtime._services
        locks += [services.hub._lock, services.directory._lock, services.hub.watermark.lock]
        locks += [watch.lock for watch in services.hub._watches]
        held, over = threading.Event(), threading.Event()

        def hold():
            for lock in locks:
                lock.acquire()
            held.set()
            over.wait()
            for lock in locks:
                lock.release()

        holder = threading.Thread(target=hold)
        holder.start()
        held.wait()
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            assert stream.next() == {"type": "closed", "complete": False}
            assert events.next() is None
            assert changes.next() == {"type": "closed", "complete": False}
            for feed in (stream, events, changes):
                feed.close()
            runtime.counts()
            serve(sys.argv[1])
            os._exit(7)
        status = os.waitpid(child, 0)[1]
        over.set()
        holder.join()
print(os.waitstatus_to_exitcode(status))
"""

# The worker that forks collects the wakes it owes, as a dispatcher does; in the child nobody gives them for it.
OWING = """
import asyncio, os, signal, threading
from treadle.actors.burst import Burst, collect_wakes

def forks():
    collect_wakes()
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        loop = asyncio.new_event_loop()
        loop.call_soon(lambda: Burst(loop).submit(loop.stop))
        loop.run_forever()
        os._exit(7)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

worker = threading.Thread(target=forks)
worker.start()
worker.join()
"""

# A coroutine forks, on the worker of the runtime's own loop, for which others wait; nobody waits for it in the child.
COROUTINE = """
import os, signal, sys
from treadle.actors import Runtime
from treadle.agents import agent
from treadle.storage import LmdbStore

@agent
async def says(state):
    await state.inject_message("assistant", "here")

@agent
async def forks(state):
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        with Runtime(LmdbStore(sys.argv[1] + "-child"), agents=[says]) as own:
            thread = own.create_thread(says).result()
            assert thread.wait(thread.submit("hi").result()).result().status == "succeeded"
        os._exit(7)
    await state.inject_message("assistant", str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])))

with Runtime(LmdbStore(sys.argv[1]), agents=[forks]) as runtime:
    thread = runtime.create_thread(forks).result()
    receipt = thread.submit("hi").result()
    print(thread.wait(receipt).result(60).status, [m.content for m in thread.messages().result().messages])
"""


def test_a_forked_child_is_refused_at_once_and_closes_nothing(tmp_path: Path) -> None:
    assert run(CLIENT, tmp_path / "store", warnings="ignore").stdout.split() == ["succeeded", "2"]


def test_a_body_that_forks_is_fenced_in_the_child_and_goes_on_in_the_parent(tmp_path: Path) -> None:
    assert run(BODY, tmp_path / "store", warnings="ignore").stdout.strip() == "succeeded ['hi', '0']"


@pytest.mark.slow
def test_no_lock_that_was_held_at_the_fork_stops_a_child_or_a_runtime_of_its_own(tmp_path: Path) -> None:
    assert run(HELD, tmp_path / "store", warnings="ignore").stdout.split() == ["7"]


def test_no_worker_of_a_child_is_taken_for_one_of_its_parent_that_wakes_loops_later(tmp_path: Path) -> None:
    assert run(OWING, tmp_path / "store", warnings="ignore").stdout.split() == ["7"]


def test_a_child_that_a_coroutine_forks_runs_a_runtime_of_its_own(tmp_path: Path) -> None:
    assert run(COROUTINE, tmp_path / "store", warnings="ignore").stdout.strip() == "succeeded ['hi', '7']"
