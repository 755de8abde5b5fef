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


def without_the_service(program: str) -> subprocess.CompletedProcess[str]:
    """Run a program where none of the packages of the service can be imported."""
    absent = f"""
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {OF_THE_SERVICE}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
"""
    given = [sys.executable, "-W", "error", "-c", absent + program]
    return subprocess.run(given, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Client", "AsyncClient", "create_app", "serve", "Auth"])
def test_a_part_of_the_service_says_what_to_install(name: str) -> None:
    ran = without_the_service(f"from treadle.hosting import {name}")

    assert ran.returncode == 1
    last = ran.stderr.splitlines()[-1]
    assert last.startswith(
        f"ModuleNotFoundError: treadle.hosting.{name} needs more packages: pip install 'treadle[serve]' ("
    )


@pytest.mark.slow
def test_the_program_says_what_to_install_and_fails() -> None:
    ran = without_the_service("from treadle.hosting.cli import main; main()")

    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == (
        "treadle: extra_missing: the command line needs more packages: pip install 'treadle[serve]'"
        " (No module named 'typer')\n"
    )
