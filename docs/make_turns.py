"""Owns docs/turns.md: writes it from the table of turns and that of stop reasons, so that it cannot say anything else.

Run it after a change of either table; a test holds that the page is fresh.
"""

# ruff: noqa: INP001 - a page of docs with its maker, no package
from __future__ import annotations

from enum import Enum
from pathlib import Path

from treadle.agents.stop_reasons import STOP_REASONS
from treadle.agents.turns import FIELDS, TURNS, Next, Row

PAGE = Path(__file__).with_name("turns.md")

_HEAD = """\
# Turns

Made from the tables in `agents/turns.py` and `agents/stop_reasons.py` by `docs/make_turns.py`. Do not edit: change the
tables, then run `python docs/make_turns.py`.

The step loop of a declared agent stops at *boundaries*: before a turn, after a model step with all of its tools, after a
handler's turn. There it describes what is true and asks one pure function, `next_turn(boundary)`, what is next. The
rows are tried in order; the first that fits counts. A test goes through every combination of values: each has a row, and
each row is the first for some.
"""


def page() -> str:
    """Return the text of the page."""
    parts = [_HEAD, "## What is known at a boundary\n"]
    parts += [f"- `{name}`: {', '.join(_said(value) for value in values)}." for name, values in FIELDS.items()]
    parts += ["", "## What can follow\n", *(f"- **{kind.name}**: {kind.value}." for kind in Next), ""]
    parts += ["## The table\n", "| # | row | fits | next | stop reason | counts a turn |", "|---|---|---|---|---|---|"]
    parts += [_line(number, row) for number, row in enumerate(TURNS, 1)]
    parts += ["", "## Why\n", *(f"{number}. **{row.label}**: {row.because}." for number, row in enumerate(TURNS, 1))]
    parts += ["", "## Stop reasons\n", "| code | ends by | run state | outcome | when |", "|---|---|---|---|---|"]
    parts += [
        f"| `{code}` | {meaning.how} | {meaning.state} | {meaning.outcome or 'none'} | {meaning.because} |"
        for code, meaning in STOP_REASONS.items()
    ]
    return "\n".join([*parts, ""])


def _said(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value.value if isinstance(value, Enum) else value)


def _line(number: int, row: Row) -> str:
    fits = "; ".join(
        f"{name}: {' or '.join(_said(value) for value in FIELDS[name] if value in values)}"
        for name, values in row.when.items()
    )
    reason = {None: "", "": "the session's"}.get(row.reason, f"`{row.reason}`")
    return f"| {number} | {row.label} | {fits} | {row.next.name} | {reason} | {'yes' if row.counts else ''} |"


if __name__ == "__main__":
    PAGE.write_text(page())
