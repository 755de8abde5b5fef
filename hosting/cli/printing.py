"""Owns how what a server answers looks in a terminal and in a pipe. Asks no server.

Texts of threads are other people's: nothing that they say moves the cursor, colours a line or makes one of two.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ...actors import (
        ControlReceipt,
        ExecutionPage,
        ExecutionRecord,
        Explanation,
        Message,
        MessagePage,
        Receipt,
        ThreadLiveState,
        ThreadPage,
        ThreadSummary,
    )
    from ...protocol.values import JsonObject

__all__ = [
    "change_line", "event_line", "plain", "print_line", "print_thread", "print_threads", "receipt_line", "record_line",
]  # fmt: skip

_WIDE: Final = 1_000_000_000
_STYLES: Final = {"running": "green", "failed": "red", "idle": "dim"}
_OF_EVERY_EVENT: Final = frozenset({"type", "cursor", "created_at", "finished_at"})
# Scripts and emoji need them to join letters or to keep them apart; they move nothing. The ones that turn a line stay out.
_JOINERS: Final = frozenset("\u200c\u200d\u200e\u200f")


def plain(text: object) -> str:
    """Return a text on one line, without a character that a terminal would act on."""
    return "".join(char if char.isprintable() or char in _JOINERS else _shown(char) for char in str(text))


def _shown(char: str) -> str:
    return "⏎" if char == "\n" else " " if char in "\t\r\v\f\x85\u2028\u2029" or char.isspace() else "�"


class _Printer(Console):
    def on_broken_pipe(self) -> None:
        raise BrokenPipeError  # the command's end knows what to do, and with which code


def _console() -> Console:
    # As wide as its longest line: a terminal wraps what is too long, where cutting it would take ids that people copy.
    styled = None if sys.stdout.isatty() else False
    return _Printer(highlight=False, markup=False, emoji=False, width=_WIDE, force_terminal=styled)


def _when(microseconds: int) -> str:
    at = datetime.fromtimestamp(microseconds / 1_000_000, UTC)
    if sys.stdout.isatty():
        return at.astimezone().strftime("%Y-%m-%d %H:%M:%S")
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def _print_rows(console: Console, columns: Sequence[str], rows: Sequence[Sequence[str | Text]]) -> None:
    """Print rows under their columns' names, each column as wide as its widest cell, without blanks at the ends."""
    lines = [[Text(name, style="bold") for name in columns]]
    lines += [[cell if isinstance(cell, Text) else Text(cell) for cell in row] for row in rows]
    widths = [max(cell.cell_len for cell in column) for column in zip(*lines, strict=True)]
    for line in lines:
        padded = Text()
        for cell, width in zip(line, widths, strict=True):
            padded.append_text(cell).append(" " * (width - cell.cell_len + 2))
        padded.rstrip()
        console.print(padded)


def _state(state: str) -> Text:
    return Text(state, style=_STYLES.get(state, ""))


def print_threads(page: ThreadPage) -> None:
    """Print a page of threads, and how to see the next."""
    console = _console()
    rows = [
        (
            plain(one.id), _state(one.status.state), plain(one.status.reason or ""), plain(one.agent_id), plain(one.user_id or ""),
            str(one.messages), _when(one.status.since), _marks(one),
        )
        for one in page.threads
    ]  # fmt: skip
    _print_rows(console, ("THREAD", "STATE", "REASON", "AGENT", "USER", "MESSAGES", "SINCE", ""), rows)
    if page.next is not None:
        console.print(Text(f"more: --after {page.next}", style="dim"))


def _marks(one: ThreadSummary) -> str:
    return " ".join(
        name for name, is_so in (("held", one.held), ("terminated", one.terminated_at is not None)) if is_so
    )


def print_thread(
    summary: ThreadSummary, state: ThreadLiveState, said: Explanation, messages: MessagePage, executions: ExecutionPage
) -> None:
    """Print all that a person looks for first in one thread."""
    console = _console()
    facts = [
        ("thread", plain(summary.id)),
        ("agent", plain(summary.agent_id)),
        ("user", plain(summary.user_id or "")),
        (
            "state",
            f"{state.status.state} since {_when(state.status.since)} {plain(state.status.reason or '')}".rstrip(),
        ),
        ("execution", "" if state.active_execution is None else plain(" ".join(state.active_execution[::3]))),
        ("held", plain(state.hold_reason or "yes") if state.held else ""),
        ("terminated", "" if summary.terminated_at is None else _when(summary.terminated_at)),
        ("waiting", str(state.waiting) if state.waiting else ""),
        *(("request", plain(f"{one.get('request_id')} {one.get('kind')}")) for one in state.pending_requests),
        ("cursor", str(state.cursor)),
        *(("problem", plain(one)) for one in said.problems),
        ("next", plain(said.next)),
    ]
    for name, value in facts:
        if value:
            console.print(Text.assemble((f"{name:<10} ", "bold"), value))
    if executions.executions:
        console.print()
        rows = [
            (
                plain(one.execution_id),
                plain(one.status),
                plain(one.reason or ""),
                _when(one.started_at),
                plain(_error(one)),
            )
            for one in executions.executions
        ]
        _print_rows(console, ("EXECUTION", "STATUS", "REASON", "STARTED", "ERROR"), rows)
    if messages.messages:
        console.print()
        for message in messages.messages:
            who = f"{message.role}{_fate(message)}"
            console.print(Text.assemble((f"{plain(who)}: ", "bold"), _paragraphs(message.content or "")))


def _fate(message: Message) -> str:
    if message.status != "completed":
        return f" ({message.status})"
    return " (not read)" if (message.metadata or {}).get("consumed") is False else ""


def _error(one: object) -> str:
    error = getattr(one, "error", None)
    return "" if error is None else f"{error.type}: {error.message}"


def _paragraphs(text: str) -> str:
    # Further lines stand in, so that none passes for the beginning of another message.
    return "\n  ".join(plain(line) for line in text.rstrip("\n").split("\n"))


def receipt_line(receipt: Receipt | ControlReceipt) -> str:
    """Return what became of an input or a control, on one line."""
    parts = [str(receipt.disposition)]
    names = ("input_id", "control_id", "execution_id", "interrupted")
    parts += [f"{name}={plain(found)}" for name in names if (found := getattr(receipt, name, None)) is not None]
    if receipt.active_execution is not None and receipt.active_execution.execution_id != receipt.execution_id:
        parts.append(f"active={plain(receipt.active_execution.execution_id)}")
    if receipt.held:
        parts.append("held")
    return " ".join(parts)


def record_line(record: ExecutionRecord) -> str:
    """Return how an execution ended, as text."""
    took = "" if record.finished_at is None else f" after {(record.finished_at - record.started_at) / 1e6:.1f} s"
    why = _error(record) or record.reason or ""
    return plain(f"{record.status}: execution {record.execution_id}{took}{f' ({why})' if why else ''}")


def event_line(event: JsonObject) -> str:
    """Return an event on one line: its cursor, its time, its type, and what a person looks for in it."""
    at = event.get("created_at")
    head = (str(event.get("cursor", "")).ljust(8), _when(at) if isinstance(at, int) else "", str(event.get("type", "")))
    return plain(" ".join((*head, *_members(event)))).strip()


def change_line(frame: JsonObject) -> str:
    """Return a change of a thread on one line: its number, the thread, its latest status."""
    status = frame.get("status") or {}
    parts = [str(frame.get("change", "")).ljust(8), str(frame.get("thread_id", "")), str(status.get("state", ""))]
    parts += [str(status["reason"])] if status.get("reason") else []
    return plain(" ".join([*parts, *(["deleted"] if frame.get("deleted") else [])]))


def _members(event: JsonObject) -> Iterable[str]:
    for name, value in event.items():
        if name == "message" and isinstance(value, dict):
            yield _said(value)
        elif name == "messages" and isinstance(value, list):
            yield from (_said(one) for one in value if isinstance(one, dict))
        elif name not in _OF_EVERY_EVENT and value not in (None, False, [], {}, ""):
            yield f"{name}={value}"


def _said(message: JsonObject) -> str:
    return f"{message.get('role')}: {message.get('content') or ''}"


def print_line(text: str) -> None:
    """Print one line at once, so that whoever reads a pipe has it."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
