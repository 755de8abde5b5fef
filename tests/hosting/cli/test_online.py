"""Holds treadle.hosting.cli.online: the program `treadle` as a process, against a real server."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.hosting.cutting import CuttingProxy
from tests.hosting.served import Served
from tests.hosting.service import WAITING, Service
from treadle.actors import Runtime
from treadle.agents import ThreadState, agent
from treadle.hosting import Auth, Client, Principal
from treadle.storage import LmdbStore, MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.slow  # a process a call

TREADLE = Path(sys.executable).with_name("treadle")
GATE = threading.Event()
GUARD_S = 60


@agent
async def waiting(state: ThreadState) -> None:
    await asyncio.to_thread(GATE.wait)


@pytest.fixture
def runtime() -> Iterator[Runtime]:
    GATE.clear()
    with Runtime(MemoryStore(), agents=[waiting], loop="own") as runtime:
        yield runtime
        GATE.set()


@pytest.fixture
def served(runtime: Runtime) -> Iterator[Served]:
    with Served(runtime) as served:
        yield served


def started(url: str, *arguments: str, token: str = "") -> subprocess.Popen[str]:
    env = {**os.environ, "TREADLE_URL": url, "TREADLE_TOKEN": token, "PYTHONWARNINGS": "error", "TERM": "dumb"}
    pipe = subprocess.PIPE
    return subprocess.Popen([TREADLE, *arguments], stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=env)


def run(url: str, *arguments: str, token: str = "", given: str = "") -> tuple[int, str, str]:
    """Run a command; return its exit code, what it printed, and its errors."""
    process = started(url, *arguments, token=token)
    out, errors = process.communicate(given, timeout=GUARD_S)
    assert "Traceback" not in errors
    return process.returncode, out, errors


def answered(url: str, *arguments: str, given: str = "") -> object:
    code, out, errors = run(url, *arguments, "--json", given=given)
    assert (code, errors) == (0, "")
    assert out.count("\n") == 1
    return json.loads(out)


def test_a_thread_is_sent_to_steered_stopped_and_shown(runtime: Runtime, served: Served) -> None:
    sent = answered(served.url, "send", "mia", "--create", "waiting", "Good morning")
    again = answered(served.url, "send", "mia", "--create", "waiting", "--on-busy", "queue", "-", given="two\nlines")
    steered = answered(served.url, "steer", "mia", "By letter")
    shown = answered(served.url, "show", "mia")
    listed = answered(served.url, "threads", "--state", "running")
    stopped = answered(served.url, "stop", "mia")

    assert isinstance(sent, dict)
    assert isinstance(again, dict)
    assert isinstance(steered, dict)
    assert isinstance(shown, dict)
    assert isinstance(listed, dict)
    assert isinstance(stopped, dict)
    assert (sent["disposition"], again["disposition"], steered["disposition"]) == ("accepted", "queued", "accepted")
    assert steered["execution_id"] == sent["execution_id"]
    assert shown["state"]["active_execution"]["execution_id"] == sent["execution_id"]
    assert {"Good morning", "two\nlines"} <= {message["content"] for message in shown["messages"]}
    assert [one["id"] for one in listed["threads"]] == ["mia"]
    assert (stopped["disposition"], stopped["held"]) == ("accepted", True)


def test_people_read_lines_that_no_thread_can_break(runtime: Runtime, served: Served) -> None:
    thread = runtime.create_thread(waiting, thread_id="mia", user_id="anna").result()
    thread.inject_message("user", "one\ntwo\x1b[2J[bold]\u2028\u202e").result()

    code, threads, _ = run(served.url, "threads")
    assert code == 0
    assert [line.split()[:2] for line in threads.splitlines()] == [["THREAD", "STATE"], ["mia", "idle"]]

    code, shown, _ = run(served.url, "show", "mia")
    assert code == 0
    assert "\nuser: one\n  two�[2J[bold] �\n" in shown
    assert "next       nothing, until an input comes\n" in shown

    code, tailed, _ = run(served.url, "tail", "mia", "--no-follow")
    assert code == 0
    assert [line.split()[0] for line in tailed.splitlines()] == ["1:1", "1:2"]
    assert "MESSAGE_ADDED user: one⏎two�[2J[bold]" in tailed


def test_what_was_not_taken_is_one_line_and_a_code(runtime: Runtime, served: Served) -> None:
    runtime.create_thread(waiting, thread_id="mia").result()

    code, out, errors = run(served.url, "steer", "mia", "x")
    assert (code, out, errors.count("\n")) == (3, "", 1)
    assert errors.startswith("treadle: no_active_execution")

    execution = runtime.thread("mia").submit("go").result().execution_id
    code, out, errors = run(served.url, "send", "mia", "x")
    assert (code, out, errors.count("\n")) == (3, "", 1)
    assert errors.startswith("treadle: busy")
    assert str(execution) in errors
    code, out, _ = run(served.url, "send", "mia", "x", "--json")
    assert (code, json.loads(out)["active_execution"]["execution_id"]) == (3, execution)
    code, _, errors = run(served.url, "stop", "mia", "--execution", "other")
    assert (code, errors.split(":")[1].split()[0]) == (3, "active_execution_mismatch")
    code, _, errors = run(served.url, "steer", "mia", "x", "--execution", "other", "--json")
    assert code == 3


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        (["show", "none"], 2, "thread_not_found"),
        (["send", "mia", ""], 2, "empty_content"),
        (["send", "none", "x", "--create", "nobody"], 2, "agent_not_found"),
        (["tail", "mia", "--after", "x"], 2, "invalid_cursor"),
        (["tail", "mia", "--after", "1:99"], 2, "cursor_conflict"),
        (["tail", "none"], 2, "thread_not_found"),
        (["tail", "--no-follow"], 2, "usage"),
        (["stop", "mia", "--reason", "x"], 2, "usage"),
        (["threads", "--limit", "0"], 2, "usage"),
        (["show"], 2, "usage"),
        (["threads", "--url", "ftp://x"], 2, "invalid_url"),
        (["threads", "--token", "é"], 2, "invalid_option"),
        (["threads", "--url", "http://127.0.0.1:9"], 3, "unavailable"),
        (["tail", "mia", "--url", "http://127.0.0.1:9"], 3, "unavailable"),
        (["tail", "--url", "http://127.0.0.1:9"], 3, "unavailable"),
    ],
)
def test_an_error_is_one_line_with_its_code(
    runtime: Runtime, served: Served, arguments: list[str], code: int, error: str
) -> None:
    runtime.create_thread(waiting, thread_id="mia").result()

    found, out, errors = run(served.url, *arguments)
    assert (found, out, errors.count("\n")) == (code, "", 1)
    assert errors.startswith(f"treadle: {error}: ")

    found, out, errors = run(served.url, *arguments, "--json")
    assert (found, out, json.loads(errors)["code"]) == (code, "", error)


def test_what_is_no_text_is_said_and_what_a_terminal_lacks_is_told_by_number(runtime: Runtime, served: Served) -> None:
    runtime.create_thread(waiting, thread_id="mia").result().inject_message("user", "é🙂").result()
    env = {**os.environ, "TREADLE_URL": served.url, "PYTHONIOENCODING": "ascii"}

    sent = subprocess.run([TREADLE, "send", "mia", "-"], input=b"\xff\xfe", capture_output=True, env=env, check=False)
    shown = subprocess.run([TREADLE, "show", "mia"], capture_output=True, env=env, check=False)
    odd = subprocess.run([TREADLE, "show", b"\xff"], capture_output=True, env=env, check=False)

    assert (sent.returncode, sent.stderr) == (
        2,
        b"treadle: invalid_content: stdin is no UTF-8: invalid start byte at byte 0\n",
    )
    assert (shown.returncode, b"user: \\xe9\\U0001f642" in shown.stdout) == (0, True)
    assert (odd.returncode, odd.stderr[:20], odd.stderr.count(b"\n")) == (2, b"treadle: invalid_id:", 1)


def test_ids_of_threads_are_completed_from_the_server(runtime: Runtime, served: Served) -> None:
    for thread_id in ("mia", "max", "anna"):
        runtime.create_thread(waiting, thread_id=thread_id).result()

    def completed(url: str, words: str) -> list[str]:
        asked = {"_TREADLE_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        env = {**os.environ, "TREADLE_URL": url, "PYTHONWARNINGS": "error", **asked}
        done = subprocess.run([TREADLE], capture_output=True, text=True, env=env, check=True)
        return sorted(done.stdout.split())

    assert completed(served.url, "treadle show m") == ["max", "mia"]
    assert completed(served.url, "treadle tail ") == ["anna", "max", "mia"]
    assert completed("http://127.0.0.1:9", "treadle show m") == []


def test_the_token_comes_from_the_environment_and_is_never_shown(runtime: Runtime) -> None:
    runtime.create_thread(waiting, thread_id="of-anna", user_id="anna").result()
    runtime.create_thread(waiting, thread_id="of-mia", user_id="mia").result()
    with Served(runtime, auth=Auth({"for-anna": Principal("user", "anna")})) as served:
        _, out, _ = run(served.url, "threads", "--json", token="for-anna")
        refused = run(served.url, "threads", token="wrong-one")
        nobody = run(served.url, "threads")

    assert [one["id"] for one in json.loads(out)["threads"]] == ["of-anna"]
    assert refused[0] == nobody[0] == 2
    assert refused[2].startswith("treadle: unauthenticated: ")
    assert "wrong-one" not in refused[2]


def test_tail_follows_over_cut_connections_and_says_how_to_go_on(runtime: Runtime, served: Served) -> None:
    """Scenario 25."""
    thread = runtime.create_thread(waiting, thread_id="mia").result()
    for number in range(39):
        thread.inject_message("user", f"{number} \u2028").result()
    with CuttingProxy(served.port) as proxy:
        process = started(proxy.url, "tail", "mia", "--after", "1:10", "--json")
        assert process.stdout is not None
        seen = [json.loads(process.stdout.readline())["cursor"] for _ in range(30)]
        # Of the stream that is open and of each that comes after it.
        proxy.cuts.extend([1, 700, 1_500])
        proxy.cut_all()
        for number in range(20):
            thread.inject_message("user", f"{number}").result()
        seen += [json.loads(process.stdout.readline())["cursor"] for _ in range(20)]
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=GUARD_S)

    assert seen == [f"1:{number}" for number in range(11, 61)]
    assert (rest, process.returncode) == ("", 130)
    lost, *_, last = errors.splitlines()
    assert lost.startswith("treadle: connection lost; trying again in ")
    assert last == "treadle: go on with --after 1:60"


def test_tail_goes_on_after_a_restart_of_the_server(tmp_path: Path) -> None:
    store = tmp_path / "data"
    with Runtime(LmdbStore(store), agents=[waiting], loop="own") as runtime, Served(runtime) as served:
        thread = runtime.create_thread(waiting, thread_id="mia").result()
        with CuttingProxy(served.port) as proxy:
            process = started(proxy.url, "tail", "mia", "--last", "1", "--json")
            assert process.stdout is not None
            seen = [json.loads(process.stdout.readline())["type"]]
            thread.inject_message("user", "before").result()
            seen.append(json.loads(process.stdout.readline())["message"]["content"])
            served.end()
            with Runtime(LmdbStore(store), agents=[waiting], loop="own") as second, Served(second) as again:
                second.thread("mia").inject_message("user", "after").result()
                proxy.server_port = again.port
                seen.append(json.loads(process.stdout.readline())["message"]["content"])
                second.delete_thread("mia").result()
                rest, errors = process.communicate(timeout=GUARD_S)

    assert seen == ["THREAD_CREATED", "before", "after"]
    assert process.returncode == 0, errors
    assert all(json.loads(line)["type"] == "THREAD_TERMINATED" for line in rest.splitlines())


def test_tail_goes_on_after_the_server_was_killed(tmp_path: Path) -> None:
    with Service(tmp_path, drain=1.0) as first, CuttingProxy(port_of(first)) as proxy:
        with Client(first.url) as client:
            client.create_thread(WAITING, thread_id="mia").set_value("k", 1)
        process = started(proxy.url, "tail", "mia", "--json")
        assert process.stdout is not None
        seen = [json.loads(process.stdout.readline())["cursor"] for _ in range(2)]
        first.signal(signal.SIGKILL)
        first.ended()
        with Service(tmp_path, drain=1.0) as second, Client(second.url) as client:
            for value in range(3):
                client.thread("mia").set_value("k", value)
            proxy.server_port = port_of(second)
            seen += [json.loads(process.stdout.readline())["cursor"] for _ in range(3)]
            process.send_signal(signal.SIGINT)
            rest, errors = process.communicate(timeout=GUARD_S)

    assert seen == [f"1:{number}" for number in range(1, 6)]
    assert (rest, process.returncode) == ("", 130)
    assert errors.endswith("treadle: go on with --after 1:5\n")


def port_of(service: Service) -> int:
    return int(service.url.rpartition(":")[2])


def test_tail_without_a_thread_follows_them_all(runtime: Runtime, served: Served) -> None:
    runtime.create_thread(waiting, thread_id="mia").result()
    process = started(served.url, "tail")
    assert process.stdout is not None
    first = process.stdout.readline().split()
    runtime.thread("mia").submit("go").result()
    second = process.stdout.readline().split()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=GUARD_S)

    assert (first[1:], second[1:]) == (["mia", "idle"], ["mia", "running"])
    assert errors == f"treadle: go on with --after {second[0]}\n"


def test_tail_into_a_pipe_that_nobody_reads_ends(runtime: Runtime, served: Served) -> None:
    thread = runtime.create_thread(waiting, thread_id="mia").result()
    process = started(served.url, "tail", "mia")
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    process.stdout = None
    for _ in range(2):
        thread.inject_message("user", "x").result()

    assert process.wait(GUARD_S) == 141
    assert process.stderr is not None
    assert process.stderr.read() == ""
    process.communicate()
