"""storage/check.py: a store is checked closed, open here or open elsewhere; rows that lead nowhere are found."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from contextlib import suppress
from mmap import PAGESIZE
from pathlib import Path

import pytest

from treadle.actors import Runtime
from treadle.agents import ThreadState, agent
from treadle.protocol.errors import CorruptRecord, NotAStore
from treadle.storage import LmdbStore
from treadle.storage.check import check, check_tables, command, main
from treadle.storage.copying import backup, compact
from treadle.storage.lmdb_store import open_here
from treadle.storage.owner import OWNER_FILE
from treadle.storage.tables import Table

from .driving import Process, batch, head, write
from .filled import Tables, changed


@agent
async def echo(state: ThreadState) -> None:
    for message in state.execution.new_messages:
        await state.inject_message("assistant", f"heard {message.content}")


def fill(path: Path) -> None:
    with Runtime(LmdbStore(path), agents=[echo]) as runtime:
        thread = runtime.create_thread("echo", thread_id="t", user_id="u").result()
        thread.wait(thread.submit("hello").result()).result(60)
        thread.stop().result()
        thread.queue_message("later").result()


def break_it(path: Path) -> None:
    store = LmdbStore(path)
    boot = store.open()
    now = head(store, 1)
    assert now is not None
    at = (now.generation, now.sequence)
    [answer] = write(store, batch(1, at, to=at, by=(boot.number, 1), record=b"\x90"))
    assert answer.kind == "committed", answer
    store.close()


def test_a_closed_store_is_clean(tmp_path: Path) -> None:
    fill(tmp_path)
    report = check(tmp_path)

    assert report.broken == ()
    assert (report.threads, report.deleted, report.running, report.waiting) == (1, 0, (), 1)
    assert (
        str(report)
        == f"1 threads (0 running), 0 deleted, {report.events} events, 1 inputs waiting: no broken invariant"
    )


def test_an_empty_store_is_clean(tmp_path: Path) -> None:
    store = LmdbStore(tmp_path)
    store.open()
    store.close()

    assert check(tmp_path) == (0, 0, 0, 0, (), 0, ())


def test_a_check_changes_nothing(tmp_path: Path) -> None:
    fill(tmp_path)
    before = (tmp_path / "data.mdb").read_bytes()
    check(tmp_path)

    assert (tmp_path / "data.mdb").read_bytes() == before


def test_a_runtime_at_work_in_this_process_is_checked_in_its_own_environment(tmp_path: Path) -> None:
    go, began = threading.Event(), threading.Event()

    @agent
    def waits(state: ThreadState) -> None:
        began.set()
        go.wait()

    with Runtime(LmdbStore(tmp_path), agents=[waits]) as runtime:
        thread = runtime.create_thread("waits", thread_id="t").result()
        thread.submit("hello").result()
        assert began.wait(60)
        # By another name of the same directory: it is the file that may not be opened twice.
        link = tmp_path.with_name(f"{tmp_path.name}-link")
        link.symlink_to(tmp_path)
        report = check(link)
        go.set()

    assert (report.running, report.broken) == (("t",), ())
    assert open_here(tmp_path) is None


@pytest.mark.slow
def test_a_store_of_another_process_is_checked_beside_it(tmp_path: Path) -> None:
    owner = """
import sys
from treadle.actors import Runtime
from treadle.storage import LmdbStore
class Body:
    name, runs_on = "body", "worker"
    def run(self, execution):
        print("runs", flush=True)
        sys.stdin.readline()
with Runtime(LmdbStore(sys.argv[1]), agents=[Body()]) as runtime:
    runtime.create_thread("body", thread_id="t").result().submit("x").result()
"""
    with Process(owner, tmp_path) as process:
        assert process.line() == "runs"
        report = check(tmp_path)
        process.say()
        assert process.line() == ""

    assert (report.running, report.broken) == (("t",), ())


def test_what_is_no_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotAStore):
        check(tmp_path)
    with pytest.raises(NotAStore):
        check(tmp_path / "missing")

    assert list(tmp_path.iterdir()) == []


ASTRAY: dict[str, tuple[Table, bytes, bytes]] = {
    "rows of no thread": (Table.MESSAGES, (99).to_bytes(8, "big") + b"\x00", b"x"),
    "a key that is too short": (Table.RECEIPTS, b"\x01", b"x"),
    "a key beyond every number": (Table.VALUES, b"\xff" * 8, b"x"),
    "a name of no thread": (Table.NAMES, b"nobody", (99).to_bytes(8, "big")),
    "a name of another thread": (Table.NAMES, b"nobody", (1).to_bytes(8, "big")),
    "a name without a number": (Table.NAMES, b"nobody", b"abc"),
    "a user's thread that is not": (Table.USERS, b"u-1\0" + (99).to_bytes(8, "big"), b""),
    "a thread of another user": (Table.USERS, b"u-2\0" + (3).to_bytes(8, "big"), b""),
    "a second change": (Table.CHANGES, (999).to_bytes(8, "big"), (1).to_bytes(8, "big") + b"\x90"),
    "a change of no thread": (Table.CHANGES, (999).to_bytes(8, "big"), (99).to_bytes(8, "big") + b"\x90"),
    "work of no thread": (Table.WORK, (99).to_bytes(8, "big"), b"r"),
}


@pytest.mark.parametrize("name", ASTRAY)
def test_a_row_that_leads_nowhere_is_named(name: str) -> None:
    table, key, value = ASTRAY[name]
    report = check_tables(changed(lambda tables: tables[table].update({key: value})))

    assert [(broken.table, broken.key) for broken in report.broken] == [(table.name.lower(), key.hex())]


def test_a_thread_whose_row_is_gone_leaves_all_its_rows_behind() -> None:
    def forget(tables: Tables) -> None:
        del tables[Table.THREADS][tables[Table.NAMES][b"full"]]

    named = {broken.table for broken in check_tables(changed(forget)).broken}
    assert named == {
        "journal", "messages", "message_ids", "executions", "inbox", "receipts", "values", "open", "names", "users", "changes",
        "work",
    }  # fmt: skip


def test_the_exit_code_says_what_was_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(tmp_path / "whole")
    fill(tmp_path / "broken")
    break_it(tmp_path / "broken")

    assert main([str(tmp_path / "whole")]) == 0
    assert "no broken invariant" in capsys.readouterr().out
    assert main([str(tmp_path / "broken")]) == 1
    assert "thread 1, threads 0000000000000001: record" in capsys.readouterr().out
    assert main([str(tmp_path / "missing")]) == 2
    assert capsys.readouterr().err.startswith("not_a_store: ")
    assert main([]) == 2
    assert capsys.readouterr().err == "usage: python -m treadle.storage.check PATH\n"


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["here", "--help"]], ids=" ".join)
def test_the_command_tells_its_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 0
    said = capsys.readouterr()
    assert said.out.startswith("usage: python -m treadle.storage.check PATH\n")
    assert said.err == ""


@pytest.mark.parametrize("arguments", [["--verbose"], ["-v", "here"], ["here", "--fix"]], ids=" ".join)
def test_the_command_knows_no_options(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    given = next(argument for argument in arguments if argument.startswith("-"))

    assert main(arguments) == 2
    assert capsys.readouterr().err == f"unknown option {given!r}\nusage: python -m treadle.storage.check PATH\n"


@pytest.mark.parametrize("path", ["--missing", "--help"])
def test_the_command_takes_any_path_behind_two_dashes(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--", path]) == 2
    assert capsys.readouterr().err.startswith("not_a_store: ")


@pytest.mark.slow
def test_the_command_checks_a_store(tmp_path: Path) -> None:
    fill(tmp_path)
    command = [sys.executable, "-W", "error", "-m", "treadle.storage.check", os.fspath(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("1 threads (0 running)")


@pytest.mark.parametrize("owned", [True, False])
def test_a_page_that_would_end_whoever_reads_it_is_named_and_ends_nobody(tmp_path: Path, owned: bool) -> None:
    with Runtime(LmdbStore(tmp_path, durability="process"), agents=[echo]) as runtime:
        thread = runtime.create_thread("echo").result()
        for rank in range(20):  # more than a page: LMDB stops at one that is none where it goes on to the next
            thread.set_value(f"k{rank}", "x" * 1_000).result()
    if not owned:
        (tmp_path / OWNER_FILE).unlink()
    data = tmp_path / "data.mdb"
    whole = data.read_bytes()
    named = 0
    for page in range(2 * PAGESIZE, len(whole), PAGESIZE):
        data.write_bytes(whole[:page] + bytes(PAGESIZE) + whole[page + PAGESIZE :])
        with suppress(CorruptRecord):
            assert check(tmp_path).broken == ()  # of a page that is free
            continue
        named += 1
        with pytest.raises(CorruptRecord, match=f"damaged pages: .* page {page // PAGESIZE}") as caught:
            check(tmp_path)
        assert caught.value.details["path"] == str(data)
        with pytest.raises(CorruptRecord, match="damaged pages"):
            backup(tmp_path, tmp_path.with_name("backup"))
        with pytest.raises(CorruptRecord, match="damaged pages"):
            compact(tmp_path)

    assert named > 10
    assert data.read_bytes() == whole[:page] + bytes(PAGESIZE)


def test_the_command_outlives_what_ends_its_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # Beside an owner at work a damaged page may only be met by LMDB.
    reader = tmp_path / "reader"
    reader.write_text("#!/bin/sh\nkill -ABRT $$\n")
    reader.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(reader))

    assert command([str(tmp_path)]) == 2
    assert capsys.readouterr().err == "corrupt_record: LMDB met a damaged page and ended by SIGABRT\n"
