"""Owns the proof of treadle.hosting.cli.serve: a service from the command line, until a signal, and what keeps one from starting."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.hosting.watching import GUARD_S
from treadle.actors import Runtime
from treadle.hosting import Client
from treadle.hosting.cli.serve import _runtime
from treadle.protocol.errors import InvalidInput
from treadle.storage import MemoryStore
from treadle.storage.check import check

from .commands import COMMAND, command, echo, lines

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MODULE = """
from treadle.actors import Runtime
from treadle.agents import agent
from treadle.storage import LmdbStore

@agent
async def clerk(state):
    await state.inject_message("assistant", "good day")

@agent
async def collects(state):
    import gc
    await state.inject_message("assistant", str((gc.get_threshold()[0], gc.get_freeze_count() > 1_000)))

@agent
async def waits(state):
    await state.sleep(3600)

AGENTS = [clerk, waits, collects]
RUNTIME = Runtime(LmdbStore("own"), agents=AGENTS)
LOST = 5
"""


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "desk.py").write_text(MODULE)
    return tmp_path


@contextmanager
def served(here: Path, *arguments: object) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run `treadle serve` and give the process and its address; kill what is left."""
    process = subprocess.Popen(
        [*COMMAND, "serve", *map(str, arguments), "--port", "0", "--json"],
        cwd=here, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.communicate()
        yield process, json.loads(line)["address"]
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_agents_are_served_on_a_store_until_a_signal(here: Path) -> None:
    with served(here, "desk:AGENTS", "--data", "data") as (process, address):
        assert httpx.get(f"{address}/healthz", timeout=GUARD_S).status_code == 200
        looked = command("inspect", here / "data", "--json")
        assert json.loads(looked.stdout)["store"]["last_owner"]["pid"] == process.pid
        second = command("serve", "desk:AGENTS", "--data", "data", "--port", "0", "--json", cwd=here)
        assert (second.returncode, lines(second.stderr)[-1]["code"]) == (3, "store_in_use")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0

    assert check(here / "data").broken == ()


@pytest.mark.slow
def test_the_deadline_ends_what_still_runs_and_the_exit_is_clean(here: Path) -> None:
    with served(here, "desk:waits", "-d", "data", "--deadline", "0") as (process, address):
        made = httpx.post(f"{address}/threads", json={"agent_id": "waits", "thread_id": "t"}, timeout=GUARD_S)
        assert made.status_code == 201, made.text
        sent = httpx.post(
            f"{address}/threads/t/inputs", json={"type": "USER_MESSAGES_INPUT", "messages": "hello"}, timeout=GUARD_S
        )
        assert sent.status_code == 202, sent.text
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0

    found = json.loads(command("inspect", here / "data", "t", "--json").stdout)
    assert [one["status"] for one in found["last_executions"]] == ["cancelled"]
    assert (found["active_execution"], found["next_open"]) == (None, None)
    assert check(here / "data").broken == ()


def said_of_the_collector(here: Path, module: str) -> object:
    """Return what a body in the service's process finds: the threshold, and whether much was taken out of sight."""
    with served(here, f"{module}:AGENTS", "-d", "data") as (_, address), Client(address) as client:
        thread = client.create_thread("collects")
        thread.wait(thread.submit("look"), timeout=GUARD_S)
        return thread.messages().messages[-1].content


@pytest.mark.slow
def test_the_collector_of_the_service_does_not_walk_what_is_imported(here: Path) -> None:
    assert said_of_the_collector(here, "desk") == "(50000, True)"


@pytest.mark.slow
def test_a_module_that_sets_the_collector_itself_is_left_alone(here: Path) -> None:
    (here / "tuned.py").write_text("import gc\nfrom desk import AGENTS\ngc.set_threshold(1234)\n")

    assert said_of_the_collector(here, "tuned") == "(1234, False)"


@pytest.mark.slow
def test_a_runtime_brings_its_own_store(here: Path) -> None:
    (here / "tokens").write_text("secret-of-mia mia\n")
    (here / "tokens").chmod(0o600)
    with served(here, "desk:RUNTIME", "--token-file", "tokens") as (process, address):
        assert httpx.get(f"{address}/threads", timeout=GUARD_S).status_code == 401
        taken = httpx.get(f"{address}/threads", headers={"authorization": "Bearer secret-of-mia"}, timeout=GUARD_S)
        assert taken.status_code == 200, taken.text
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0

    assert check(here / "own").broken == ()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "code", "named"),
    [
        (["desk:LOST", "-d", "data"], 2, "invalid_target"),
        (["desk:AGENTS", "-d", "data", "--token-file", "missing"], 2, "os_error"),
        (["desk:AGENTS", "-d", "desk.py"], 4, "not_a_store"),
        (["desk:AGENTS", "-d", "data", "--port", "99999"], 2, "usage"),
        (["desk:AGENTS", "-d", "data", "--host", "0.0.0.0"], 2, "invalid_option"),
    ],
)
def test_what_keeps_a_service_from_starting_is_one_line(
    arguments: list[str], code: int, named: str, here: Path
) -> None:
    done = command("serve", *arguments, "--json", cwd=here)

    assert (done.returncode, done.stdout) == (code, "")
    assert lines(done.stderr)[-1]["code"] == named


@pytest.mark.slow
def test_an_address_that_is_taken_is_one_line_and_the_store_is_let_go(here: Path) -> None:
    with served(here, "desk:AGENTS", "--data", "data") as (_, address):
        port = address.rpartition(":")[2]
        done = command("serve", "desk:AGENTS", "--data", "other", "--port", port, cwd=here)
        assert done.returncode == 3
        assert done.stderr.splitlines()[-1] == f"treadle: os_error: 127.0.0.1:{port}: {os.strerror(errno.EADDRINUSE)}"
    assert check(here / "other").broken == ()


def test_where_threads_are_kept_is_said_once() -> None:
    runtime = Runtime(MemoryStore(), agents=[echo])

    assert _runtime(runtime, None) is runtime
    for served_, data in ((runtime, "data"), ([echo], None)):
        with pytest.raises(InvalidInput, match="--data"):
            _runtime(served_, data)  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_name_that_was_allowed_is_answered_and_no_other(here: Path) -> None:
    with served(here, "desk:AGENTS", "--data", "data", "--allow-host", "desk.example") as (_, address):
        statuses = [
            httpx.get(f"{address}/healthz", headers={"host": name}, timeout=30).status_code
            for name in ("desk.example", "localhost")
        ]

    assert statuses == [200, 421]
