"""Owns docs/lifecycle.md: writes it from the lifecycle table, so that the page cannot say anything else.

Run it after a change of the table; a test holds that the page is fresh.
"""

# ruff: noqa: INP001 - a page of docs with its maker, no package
from __future__ import annotations

from itertools import groupby
from pathlib import Path

from treadle.protocol.decision import Batch, Phase, Verdict
from treadle.protocol.lifecycle import TABLE, Cell
from treadle.protocol.triggers import Kind

PAGE = Path(__file__).with_name("lifecycle.md")

_HEAD = """\
# Lifecycle

Made from the table in `protocol/lifecycle.py` by `docs/make_lifecycle.py`. Do not edit: change the table, then run
`python docs/make_lifecycle.py`.

A thread's life is one pure function, `decide(state, trigger) -> Decision`, and one total table. Whatever happens to a
thread (a call, a body's end, a timer, the store's answer) is a *trigger*; where the thread stands with its slot is its
*phase*. Each pair of the two has one cell. `state` holds durable facts, which change only by folding committed events,
and the phase, which is live and never stored. What a cell needs beyond them, time and new ids included, comes inside
the trigger.
"""

_PHASES = {
    Phase.IDLE: "nobody owns the slot",
    Phase.STARTING: "START is handed over to the store and not yet durable; all mail waits",
    Phase.RUNNING: "START is durable, the body runs, acceptance is open",
    Phase.STOPPING: "an interruption is taken, the body is not back yet",
    Phase.FINISHING: "acceptance is closed: resources are being released, FINISH is in flight, or it waits to be tried again",
}

_VERDICTS = {
    Verdict.DECIDE: "something follows; where that is events, the reply comes after their commit. A rule may still find "
    "that there is nothing to write, and answer at once",
    Verdict.REFUSE: "the reply comes now, nothing is written; a repeat of something accepted gets its first receipt",
    Verdict.IGNORE: "nothing follows, nobody is answered",
    Verdict.POSTPONE: "kept, in order, until the batch in flight is answered",
    Verdict.IMPOSSIBLE: "reaching it is a bug of ours: the mail fails with `InternalError`, nothing is folded, the thread goes on",
}

_TAIL = """\
## Before the table

Two things are judged before a cell is looked up. A steer or an interrupt for an execution that is not the live one is
`control, other id`. And a body's mail whose execution is not the live one, or whose acceptance is closed, is turned
away as fenced; the end of such a body, and the release of what it owned, is ignored.

## Batches

A thread has at most one batch in flight. All mail that waited meanwhile is decided, in order, into the next one. A
batch is about the weightiest thing in it: {batches}. A START, a FINISH, a join and a deletion close their batch. What
the store answers is a trigger like any other, in the last rows of the table.
"""


def page() -> str:
    """Return the text of the page."""
    parts = [_HEAD, "## Phases\n", *(f"- **{phase.name}**: {said}." for phase, said in _PHASES.items()), ""]
    parts += ["## Kinds of cell\n", *(f"- *{kind.value}*: {said}." for kind, said in _VERDICTS.items()), ""]
    parts += ["## The table\n", _row("trigger", [phase.name for phase in Phase]), "|---" * (len(Phase) + 1) + "|"]
    parts += [_row(kind.value, [_short(TABLE[phase, kind]) for phase in Phase]) for kind in Kind]
    parts += ["", "## Why\n", *(line for kind in Kind for line in _why(kind)), ""]
    batches = ", ".join(
        f"*{batch.value}*" for batch in (Batch.START, Batch.FINISH, Batch.JOIN, Batch.INTERRUPTION, Batch.OTHER)
    )
    return "\n".join([*parts, _TAIL.format(batches=batches)])


def _row(first: str, cells: list[str]) -> str:
    return f"| {first} | " + " | ".join(cells) + " |"


def _short(cell: Cell) -> str:
    return {Verdict.DECIDE: "**decide**", Verdict.IMPOSSIBLE: "*impossible*"}.get(cell.verdict, cell.verdict.value)


def _why(kind: Kind) -> list[str]:
    """Return the reasons of one row, one line for neighbouring phases that share theirs."""
    lines = [f"**{kind.value}**\n"]
    cells = [(phase, TABLE[phase, kind]) for phase in Phase]
    for (verdict, because), group in groupby(cells, key=lambda one: (one[1].verdict, one[1].because)):
        phases = ", ".join(phase.name for phase, _ in group)
        lines.append(f"- {phases}: {verdict.value}; {because}.")
    return [*lines, ""]


if __name__ == "__main__":
    PAGE.write_text(page())
