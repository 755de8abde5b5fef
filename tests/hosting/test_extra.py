"""Tests that the runtime needs nothing of what its service needs: the extra is asked for by those who serve."""

from __future__ import annotations

import subprocess
import sys

import pytest

OF_THE_SERVICE = [
    "fastapi",
    "starlette",
    "uvicorn",
    "websockets",
    "httpx",
    "typer",
    "rich",
    "prometheus_client",
    "opentelemetry",
]

PROGRAM = f"""
import sys

import pytest
for name in {OF_THE_SERVICE}:
    sys.modules[name] = None  # an import of it fails
import treadle.hosting
from treadle.actors import Runtime
from treadle.agents import agent
from treadle.storage import LmdbStore, MemoryStore

@agent
async def quick(state):
    await state.inject_message("assistant", "done")

with Runtime(MemoryStore(), agents=[quick]) as runtime:
    thread = runtime.create_thread("quick").result()
    thread.wait(thread.submit("go").result()).result(60)
    print(thread.messages().result().messages[-1].content)
"""


@pytest.mark.slow
def test_the_runtime_works_without_the_packages_of_the_service() -> None:
    ran = subprocess.run([sys.executable, "-W", "error", "-c", PROGRAM], capture_output=True, text=True, timeout=300)

    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "done\n", "")
