"""Owns how tests run the command line: in this process, or as the process that people start. Checks nothing itself."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from treadle.actors import Runtime
from treadle.agents import ThreadState, agent
from treadle.hosting.cli.ending import run
from treadle.hosting.cli.main import app
from treadle.storage import LmdbStore

if TYPE_CHECKING:
    from pathlib import Path

COMMAND = [sys.executable, "-W", "error", "-c", "from treadle.hosting.cli import main; main()"]
PATIENCE_S = 300.0


@agent
async def echo(state: ThreadState) -> None:
    for message in state.execution.new_messages:
        await state.inject_message("assistant", f"heard {message.content}")


def fill(path: Path) -> None:
    """Make a store with two threads that are there, one with waiting input, and one that is not any more."""
    with Runtime(LmdbStore(path, durability="process"), agents=[echo]) as runtime:
        for name, user in (("a", "mia"), ("gone", "mia"), ("b", None)):
            thread = runtime.create_thread("echo", thread_id=name, user_id=user).result()
            thread.wait(thread.submit(["hello", "you \u2028 \x1b[2J ä"]).result()).result(60)
        thread.stop().result()
        thread.queue_message("later", input_id="i-later").result()
        runtime.delete_thread("gone").result()


def call(*arguments: object) -> int:
    """Run a command in this process and return its exit code."""
    return run(app, [str(one) for one in arguments])


def command(*arguments: object, **more: Any) -> subprocess.CompletedProcess[str]:
    """Run a command as a process of its own."""
    given = [*COMMAND, *map(str, arguments)]
    return subprocess.run(given, capture_output=True, text=True, timeout=PATIENCE_S, check=False, **more)


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.split("\n") if line]


def error(text: str) -> dict[str, Any]:
    """Return what stderr says, which is to be one line."""
    assert text.count("\n") == 1, text
    assert text.endswith("\n")
    return dict(json.loads(text))
