"""Holds treadle.hosting.cli.printing: what people see, and that no thread's text gets at their terminal."""

from __future__ import annotations

import errno
import os
import pty
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.actors import (
    ActiveExecution,
    ControlReceipt,
    Cursor,
    Disposition,
    Receipt,
    ThreadPage,
    ThreadStatus,
    ThreadSummary,
)
from treadle.hosting.cli.printing import change_line, event_line, plain, print_line, print_threads, receipt_line
from treadle.protocol.frames import change_frame

ONE = ThreadSummary("mia", "clerk", "anna", 1, ThreadStatus("idle", 1_796_051_706_769_033, "stopped"), True, None, 3)
OTHER = ONE._replace(
    id="日本 \x1b[31m", status=ThreadStatus("running", 0, None), held=False, terminated_at=5, user_id=None
)


@given(st.text())
def test_any_text_becomes_one_line_that_a_terminal_only_shows(text: str) -> None:
    line = plain(text)

    assert "".join(char for char in line if char not in "\u200c\u200d\u200e\u200f").isprintable()
    assert len(line) == len(text)


def test_letters_and_emoji_that_are_joined_stay_so_and_nothing_turns_a_line() -> None:
    family, persian = "👩\u200d👩\u200d👧", "می\u200cروم"

    assert plain(f"{family} {persian}") == f"{family} {persian}"
    assert plain("a\u202eb\u2066c\u2028d") == "a�b�c d"


def test_threads_are_rows_without_colours_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    print_threads(ThreadPage([ONE, OTHER], "7", {}))

    assert capsys.readouterr().out.splitlines() == [
        "THREAD      STATE    REASON   AGENT  USER  MESSAGES  SINCE",
        "mia         idle     stopped  clerk  anna  3         2026-11-30T15:15:06Z  held",
        "日本 �[31m  running           clerk        3         1970-01-01T00:00:00Z  terminated",
        "more: --after 7",
    ]


def test_a_pipe_that_nobody_reads_is_told_as_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w", buffering=1) as unread:
        monkeypatch.setattr(sys, "stdout", unread)
        with pytest.raises(BrokenPipeError):
            print_threads(ThreadPage([ONE], None, {}))
        os.dup2(os.open(os.devnull, os.O_WRONLY), writer)


def test_no_threads_are_their_columns_alone(capsys: pytest.CaptureFixture[str]) -> None:
    print_threads(ThreadPage([], None, {}))

    assert capsys.readouterr().out == "THREAD  STATE  REASON  AGENT  USER  MESSAGES  SINCE\n"


def _all_of(terminal: int) -> str:
    """Everything written to a terminal that nobody writes to any more: one read may return a part of it."""
    found = b""
    try:
        while more := os.read(terminal, 1 << 16):
            found += more
    except OSError as error:
        # How Linux says that the other side is closed; macOS returns nothing.
        if error.errno != errno.EIO:
            raise
    os.close(terminal)
    return found.decode()


def test_a_terminal_gets_styles_of_ours_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    shown_by, mine = pty.openpty()
    with os.fdopen(mine, "w") as out:
        monkeypatch.setattr(sys, "stdout", out)
        print_threads(ThreadPage([OTHER], None, {}))
    shown = _all_of(shown_by)

    assert "\x1b[1mTHREAD\x1b[0m" in shown
    assert "\x1b[32mrunning\x1b[0m" in shown
    assert "日本 �[31m" in shown


def test_a_receipt_is_one_line() -> None:
    active = ActiveExecution("f", "clerk", 1, "running")

    assert receipt_line(Receipt(Disposition.ACCEPTED, "i", ("m",), "e", 1)) == "accepted input_id=i execution_id=e"
    assert receipt_line(Receipt(Disposition.BUSY, None, active_execution=active)) == "busy active=f"
    control = ControlReceipt(Disposition.ACCEPTED, "c", "f", active, held=True)
    assert receipt_line(control) == "accepted control_id=c execution_id=f held"


def test_an_event_is_one_line_of_what_is_said_in_it() -> None:
    event = {
        "type": "MESSAGE_ADDED", "execution_id": None, "first": False, "tags": [], "kind": "steer", "cursor": "1:2", "created_at": 0,
        "message": {"role": "user", "content": "a\nb"}, "messages": [{"role": "tool", "content": None}, "odd"],
    }  # fmt: skip

    assert event_line(event) == "1:2      1970-01-01T00:00:00Z MESSAGE_ADDED kind=steer user: a⏎b tool:"
    assert event_line({"type": "message_chunk", "chunk": "hi"}).split() == ["message_chunk", "chunk=hi"]


def test_a_change_is_one_line() -> None:
    status = ThreadStatus("failed", 1, "step_error")

    assert (
        change_line(change_frame("mia", Cursor(1, 2), status, 9, deleted=True))
        == "9        mia failed step_error deleted"
    )


def test_a_line_is_there_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    print_line("é")

    assert capsys.readouterr().out == "é\n"
