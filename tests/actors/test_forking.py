"""Owns the proof of treadle.actors.forking: in a forked child every call is answered at once, and the parent goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

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


def test_a_forked_child_is_refused_at_once_and_closes_nothing(tmp_path: Path) -> None:
    assert run(CLIENT, tmp_path / "store", warnings="ignore").stdout.split() == ["succeeded", "2"]


def test_a_body_that_forks_is_fenced_in_the_child_and_goes_on_in_the_parent(tmp_path: Path) -> None:
    assert run(BODY, tmp_path / "store", warnings="ignore").stdout.strip() == "succeeded ['hi', '0']"
