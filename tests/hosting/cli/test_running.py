"""Holds treadle.hosting.cli.running: a wait ends with the execution and says how, a tool is called once; a real server."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.hosting.served import Served
from treadle.actors import Runtime
from treadle.agents import ThreadState, agent
from treadle.hosting.cli.ending import run
from treadle.hosting.cli.main import app
from treadle.storage import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator

GUARD_S = 60


@agent
async def asks(state: ThreadState) -> None:
    await state.request("approval")


@agent
async def quick(state: ThreadState) -> None:
    pass


@agent
async def fails(state: ThreadState) -> None:
    raise ValueError("no")


@pytest.fixture
def runtime() -> Iterator[Runtime]:
    with Runtime(MemoryStore(), agents=[asks, quick, fails], drain_timeout=0) as opened:
        for name in ("asks", "quick", "fails"):
            opened.create_thread(name, thread_id=name).result()
        yield opened


@pytest.fixture
def called(served: Served, capsys: pytest.CaptureFixture[str]) -> Commands:
    return Commands(served.url, capsys)


class Commands:
    """Runs commands in this process."""

    def __init__(self, url: str, capsys: pytest.CaptureFixture[str]) -> None:
        self._url = url
        self._capsys = capsys

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        code = run(app, [*arguments, "--url", self._url])
        out, errors = self._capsys.readouterr()
        return code, out, errors


def test_a_wait_ends_with_what_was_sent(called: Commands) -> None:
    assert called("send", "quick", "go", "--id", "i")[0] == 0

    code, out, _ = called("wait", "quick", "--id", "i", "--timeout", "60")
    assert (code, out.startswith("succeeded: execution ")) == (0, True)
    code, out, _ = called("wait", "quick", "--json")
    record = json.loads(out)
    assert (code, record["status"], record["input_id"]) == (0, "succeeded", "i")
    assert called("wait", "quick", "--execution", record["execution_id"])[0] == 0


def test_a_wait_for_what_failed_says_so_by_its_code(called: Commands) -> None:
    called("send", "fails", "go")
    code, out, errors = called("wait", "fails")

    assert (code, errors) == (1, "")
    assert out.startswith("failed: execution ")
    assert out.endswith("(ValueError: no)\n")


def test_a_wait_that_is_too_short_is_not_now(runtime: Runtime, called: Commands) -> None:
    called("send", "asks", "go")
    called("send", "asks", "more", "--on-busy", "queue", "--id", "later")
    for which in ((), ("--id", "later")):
        code, out, errors = called("wait", "asks", *which, "--timeout", "0.01")
        assert (code, out) == (3, "")
        assert errors.startswith("treadle: unavailable: ")
        assert errors.count("\n") == 1
    runtime.thread("asks").stop().result()
    assert called("wait", "asks", "--json")[0] == 1


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("wait", "quick"), "execution_not_found"),
        (("wait", "nobody"), "thread_not_found"),
        (("wait", "quick", "--id", "nobody"), "input_not_found"),
        (("wait", "quick", "--execution", "nobody"), "execution_not_found"),
        (("wait", "quick", "--execution", "a", "--id", "b"), "usage"),
        (("wait", "quick", "--timeout", "-1"), "usage"),
        (("call", "quick", "fetch", "{"), "usage"),
        (("call", "quick", "fetch", "[1]"), "invalid_value"),
        (("call", "quick", ""), "invalid_id"),
        (("call", "nobody", "fetch"), "thread_not_found"),
    ],
)
def test_what_cannot_be_right_is_one_line(called: Commands, arguments: tuple[str, ...], code: str) -> None:
    said, out, errors = called(*arguments)

    assert (said, out) == (2, "")
    assert errors.startswith(f"treadle: {code}: ")


def test_a_tool_is_called_once_under_its_id(runtime: Runtime, called: Commands) -> None:
    thread = runtime.thread("quick")
    thread.stop().result()
    first = called("call", "quick", "fetch", '{"n": 1}', "--id", "i", "--json")
    again = called("call", "quick", "fetch", '{"n": 1}', "--id", "i", "--json")

    assert first == again
    assert (first[0], json.loads(first[1])["disposition"], json.loads(first[1])["held"]) == (0, "queued", True)
    assert thread.state().result().waiting == 1
    thread.resume().result()
    assert called("wait", "quick", "--id", "i")[0] == 0
