"""Owns the proof of treadle.hosting.cli.store: what people and programs see of a store, and the exit codes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.storage.test_check import break_it
from tests.storage.test_copying import OWNER, Process

from .commands import call, command, error, fill

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def store(tmp_path: Path) -> Path:
    fill(tmp_path / "store")
    return tmp_path / "store"


def test_a_store_is_shown_with_its_threads(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("inspect", store, "--json") == 0
    found = json.loads(capsys.readouterr().out)

    assert found["store"]["bytes"] == (store / "data.mdb").stat().st_size
    assert found["store"]["tables"]["threads"]["rows"] == 3
    assert found["store"]["last_owner"]["lives"] is True  # it was this process
    assert found["store"]["next_open"] == {"recover": 0, "start": 0, "remove": 0}
    assert found["next"] is None
    first, second = found["threads"]
    assert (first["id"], first["user_id"], first["status"]["state"], first["messages"]) == ("a", "mia", "idle", 4)
    assert (second["held"], second["waiting"]) == (True, {"messages": 1, "submits": 0, "steers": 0})

    assert call("inspect", store) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"{store}: ")
    assert [line.split()[:4] for line in text.splitlines()[5:]] == [
        ["a", "echo", "mia", "idle"],
        ["b", "echo", "-", "idle"],
    ]


def test_threads_are_filtered_and_paged(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def shown(*options: object) -> tuple[list[str], object]:
        assert call("inspect", store, "--json", *options) == 0
        found = json.loads(capsys.readouterr().out)
        return [thread["id"] for thread in found["threads"]], found["next"]

    assert shown("--user", "mia") == (["a"], None)
    assert shown("--agent", "echo", "--state", "idle") == (["a", "b"], None)
    assert shown("--state", "failed") == ([], None)
    assert shown("--agent", "nobody") == ([], None)
    assert shown("--work") == ([], None)
    ids, following = shown("--limit", 1)
    assert ids == ["a"]
    assert shown("--limit", 1, "--after", following) == (["b"], None)
    assert shown("--limit", 0) == ([], None)


def test_one_thread_is_shown_in_detail(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("inspect", store, "b", "--json") == 0
    found = json.loads(capsys.readouterr().out)

    assert [one["input_id"] for one in found["waiting_inputs"]] == ["i-later"]
    assert [one["status"] for one in found["last_executions"]] == ["succeeded"]
    assert found["created"]["type"] == "THREAD_CREATED"
    assert found["tables"]["messages"]["rows"] == 4

    assert call("inspect", store, "b") == 0
    text = capsys.readouterr().out
    assert "waiting_inputs[0].input_id: i-later" in text
    assert "status.state: idle" in text
    assert "last_executions[0].leftovers: -\n" in text


@pytest.mark.parametrize(
    ("arguments", "code", "named"),
    [
        (["inspect", "{store}", "nobody"], 2, "thread_not_found"),
        (["inspect", "{store}", "a\nb"], 2, "invalid_id"),
        (["inspect", "{store}/missing"], 4, "not_a_store"),
        (["backup", "{store}", "{store}-missing/copy"], 2, "invalid_path"),
        (["export", "{store}", "-o", "{store}-missing/lines"], 2, "invalid_path"),
        (["inspect", "{store}", "--limit", "-1"], 2, "usage"),
        (["inspect", "{store}", "--state", "sleeping"], 2, "usage"),
        (["check", "{store}/missing"], 4, "not_a_store"),
        (["check"], 2, "usage"),
        (["nonsense"], 2, "usage"),
    ],
)
def test_what_cannot_be_shown_is_one_line_and_a_code(
    arguments: list[str], code: int, named: str, store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [one.format(store=store) for one in arguments]
    assert call(*given) == code
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith(f"treadle: {named}: ")
    assert told.err.count("\n") == 1

    assert call(*given, "--json") == code
    assert error(capsys.readouterr().err)["code"] == named


def test_a_check_tells_by_its_code(store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("check", store) == 0
    assert capsys.readouterr().out.startswith("2 threads (0 running), 1 deleted")
    assert call("check", store, "--json") == 0
    assert json.loads(capsys.readouterr().out)["broken"] == []

    break_it(store)
    assert call("check", store) == 1
    assert "threads 0000000000000001" in capsys.readouterr().out
    assert call("check", store, "--json") == 1
    assert json.loads(capsys.readouterr().out)["broken"][0]["table"] == "threads"
    assert call("inspect", store) == 0
    assert "#1      cannot be read" in capsys.readouterr().out


@pytest.mark.slow
def test_the_commands_look_beside_an_owner_at_work(tmp_path: Path) -> None:
    with Process(OWNER, tmp_path / "store") as owner:
        assert owner.line() == "works"
        looked = command("inspect", tmp_path / "store", "--json")
        checked = command("check", tmp_path / "store", "--json")
        detail = command("inspect", tmp_path / "store", "new-1", "--json")
        owner.say()
        done = int(owner.line())

    assert (looked.returncode, looked.stderr) == (0, "")
    found = json.loads(looked.stdout)
    assert found["store"]["last_owner"]["pid"] == owner.pid
    assert 3 <= len(found["threads"]) <= done
    assert (checked.returncode, checked.stderr) == (0, "")
    assert json.loads(checked.stdout)["broken"] == []
    assert json.loads(detail.stdout)["executions"] == 1
