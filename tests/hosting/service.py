"""A service in a process of its own, for tests that send it real signals: `python service.py DIR DRAIN_SECONDS [HOST]`.

Imported, it starts one. Its agents: `waits` stops when it is interrupted, `stubborn` never, `interval` tells what
the interpreter and the system were set to.
"""

from __future__ import annotations

import asyncio
import resource
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType

    from treadle.agents import ThreadState

GUARD_S = 60
WAITING, STUBBORN, INTERVAL = "waits", "stubborn", "interval"


class Service:
    """A running service; leaving `with` kills what is left of it."""

    def __init__(self, data: Path, drain: float, host: str = "127.0.0.1") -> None:
        self.data = data
        root = Path(__file__).parent.parent.parent
        self.process = subprocess.Popen(
            [sys.executable, __file__, str(data), str(drain), host],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=root,
            env={"PYTHONPATH": str(root), "PYTHONWARNINGS": "error"},
        )
        assert self.process.stdout is not None
        said = self.process.stdout.readline()
        assert said.startswith("Serving on http://"), self.process.communicate(timeout=GUARD_S)
        self.url = said.removeprefix("Serving on ").strip()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        _, errors = self.process.communicate()
        assert "Traceback" not in errors, errors

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def ended(self) -> int:
        """Return the exit code."""
        return self.process.wait(GUARD_S)


def main(data: str, drain: str, host: str) -> int:
    from treadle.actors import Runtime
    from treadle.agents import agent
    from treadle.hosting.app import create_app
    from treadle.hosting.server import serve
    from treadle.storage import LmdbStore

    @agent(name=WAITING)
    async def waits(state: ThreadState) -> None:
        await state.set_value("begun", value=True)
        await asyncio.Event().wait()

    @agent(name=STUBBORN)
    def stubborn(state: ThreadState) -> None:
        state.set_value("begun", value=True).result()
        threading.Event().wait()

    @agent(name=INTERVAL)
    async def interval(state: ThreadState) -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        await state.set_value("interval", {"seconds": sys.getswitchinterval(), "soft": soft, "hard": hard})

    runtime = Runtime(
        LmdbStore(data, durability="process"),
        agents=[waits, stubborn, interval],
        drain_timeout=float(drain),
        interrupt_grace=0.5,
    )
    with runtime:
        return serve(runtime, create_app(runtime), host, 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
