"""Owns what the demo prints: the progress and the tables. Counts nothing itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

if TYPE_CHECKING:
    from collections import Counter

    from examples.demo.verdict import Verdict

__all__ = ["Life", "Reporter"]

MISMATCHES_SHOWN = 20
KINDS = {"submit": "submitted", "steer": "steered", "queue": "queued"}
SPEED_NOTE = (
    "A small write with its sync takes {sync_ms:.2f} ms in this directory. An execution makes at least three commits; threads"
    " that commit at the same moment share a sync. The rate includes the clients, their notebook, and the time that the"
    " agent takes to speak; `make bench` measures without these."
)
PLAIN_STEP = 10  # percent between two lines where there is no terminal


class Life(NamedTuple):
    """One life of the hosting process: executions that ended in it, and the seconds that it had."""

    name: str
    executions: int
    seconds: float


class Reporter:
    """Prints to a terminal, or plainly to a file or pipe."""

    def __init__(self, total: int) -> None:
        self.console = Console(highlight=False)
        self.total = total
        self._printed = 0
        self._bar = Progress(
            TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TextColumn("{task.fields[detail]}"), TimeElapsedColumn(),
            console=self.console,
            disable=not self.console.is_terminal,
        )  # fmt: skip
        self._task = self._bar.add_task("replaying", total=total, detail="")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def say(self, text: str) -> None:
        """Print a paragraph, above the bar if there is one."""
        self.console.print(text)

    def advance(self, done: int, answers: int) -> None:
        """Show how many lines were said, and how many calls were answered."""
        detail = f"{done:,} lines, {answers:,} calls answered"
        self._bar.update(self._task, completed=done, detail=detail)
        percent = 100 * done // self.total
        if not self.console.is_terminal and percent >= self._printed + PLAIN_STEP:
            self._printed = percent - percent % PLAIN_STEP
            self.say(f"  {percent:3}%  {detail}")

    def tables(self, verdict: Verdict, reopened: dict[str, int], lives: list[Life], sync_ms: float) -> None:
        """Print what was counted."""
        self.console.print()
        self.console.print(_inputs(verdict))
        self.console.print(_dispositions(verdict))
        self.console.print(_counted("executions", "by projection", verdict.projections))
        self.console.print(_statuses(reopened, verdict.statuses))
        self.console.print(_speed(lives))
        self.say(SPEED_NOTE.format(sync_ms=sync_ms) + "\n")

    def conclude(self, mismatches: list[str]) -> None:
        """Say that everything fits, or name what does not."""
        if not mismatches:
            self.say(
                "[bold green]No mismatch[/]: every acknowledged input is in history exactly once and in order, every answer is right."
            )
        for mismatch in mismatches[:MISMATCHES_SHOWN]:
            self.console.print(f"[bold red]MISMATCH[/] {escape(mismatch)}", soft_wrap=True)
        if len(mismatches) > MISMATCHES_SHOWN:
            self.say(f"... and {len(mismatches) - MISMATCHES_SHOWN} more")


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", min_width=60)
    for rank, column in enumerate(columns):
        table.add_column(column, justify="right" if rank else "left")
    return table


def _inputs(verdict: Verdict) -> Table:
    # Cut short by an interruption, lost with the process, or a steer whose execution ended before it was read.
    fates = ("answered", "cut short", "lost", "unread")
    table = _table("Inputs", "input", "acknowledged", "found", *fates)
    for kind, name in KINDS.items():
        row = [verdict.acknowledged[kind], verdict.found[kind], *(verdict.fates[kind, fate] for fate in fates)]
        table.add_row(name, *(f"{number:,}" for number in row))
    sums = [verdict.acknowledged.total(), verdict.found.total()]
    sums += [sum(verdict.fates[kind, fate] for kind in KINDS) for fate in fates]
    table.add_section()
    table.add_row("all", *(f"{number:,}" for number in sums), style="bold")
    return table


def _dispositions(verdict: Verdict) -> Table:
    verbs = ("submit", "steer", "queue", "interrupt")
    table = _table("Answers to calls", "disposition", *verbs)
    for disposition in sorted({d for _, d in verdict.dispositions}, key=lambda d: (d not in ("accepted", "queued"), d)):
        table.add_row(disposition, *(f"{verdict.dispositions[verb, disposition]:,}" for verb in verbs))
    return table


def _counted(title: str, about: str, counted: Counter[str]) -> Table:
    table = _table(title.capitalize(), about, "number")
    for name in ("succeeded", "cancelled", "interrupted", "failed", "active"):
        table.add_row(name, f"{counted[name]:,}")
    return table


def _statuses(reopened: dict[str, int], last: Counter[str]) -> Table:
    table = _table("Run status of the threads", "status (reason)", "at the reopening", "at the end")
    for name in sorted({*reopened, *last}):
        table.add_row(name, f"{reopened.get(name, 0):,}", f"{last[name]:,}")
    return table


def _speed(lives: list[Life]) -> Table:
    table = _table("Durable executions", "life of the process", "executions", "seconds", "per second")
    for life in lives:
        table.add_row(
            life.name, f"{life.executions:,}", f"{life.seconds:.1f}", f"{life.executions / life.seconds:,.0f}"
        )
    return table
