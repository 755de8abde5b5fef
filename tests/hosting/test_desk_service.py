"""Holds `make serve`: the support desk as a service, in a process of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.hosting.watching import Watching

ROOT = Path(__file__).parent.parent.parent
GUARD = 60


def start(data: Path, *options: str) -> subprocess.Popen[str]:
    program = [sys.executable, "-W", "error", str(ROOT / "examples/support_desk/service.py"), "--data", str(data)]
    env = {"DESK_PACE": "0", "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [*program, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env
    )  # fmt: skip


@pytest.mark.slow
def test_the_desk_answers_over_http_keeps_what_was_said_and_leaves_with_0(tmp_path: Path) -> None:
    answers = []
    for question in ("where is order 1002?", "shorter please"):
        desk = start(tmp_path, "--port", "0")
        try:
            assert desk.stdout is not None
            said = desk.stdout.readline()
            assert said.startswith("Serving on http://127.0.0.1:"), desk.communicate(timeout=GUARD)
            url = said.removeprefix("Serving on ").strip()
            with Watching(f"{url}/threads/mia/events") as watching:
                watching.next("snapshot")
                asked = {"type": "USER_MESSAGES_INPUT", "messages": question}
                receipt = httpx.post(f"{url}/threads/mia/inputs", json=asked, timeout=GUARD).json()
                while watching.next("THREAD_EXECUTION_FINISHED").data["execution_id"] != receipt["execution_id"]:
                    continue  # the stream begins with all that was said before
            told = httpx.get(f"{url}/threads/mia/messages", timeout=GUARD).json()["messages"]
            answers.append(told[-1]["content"])
            desk.send_signal(signal.SIGTERM)

            assert desk.wait(GUARD) == 0
        finally:
            desk.kill()
            _, errors = desk.communicate()
            assert "Traceback" not in errors, errors

    assert "on its way" in answers[0]
    assert answers[1] == "1002: on its way."


@pytest.mark.slow
def test_a_desk_that_is_open_elsewhere_says_so(tmp_path: Path) -> None:
    first = start(tmp_path, "--port", "0")
    assert first.stdout is not None
    first.stdout.readline()
    second = start(tmp_path, "--port", "0")
    _, errors = second.communicate(timeout=GUARD)
    first.terminate()

    assert (second.returncode, first.wait(GUARD)) == (1, 0)
    assert errors.startswith("The desk is open elsewhere:")
    first.communicate()
