"""Owns docs/contract.md: writes it from the rows in tests/contract_rows.py and from the tests that name them.

Run it after a change of a row or of a test that names one; a test holds that the page is fresh.
"""

# ruff: noqa: INP001 - a page of docs with its maker, no package
from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))  # the rows stand beside the tests, which no installation has

from tests.contract_rows import ROWS, SECTIONS, ContractRow  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = ROOT / "docs" / "contract.md"
NAMED = re.compile(r"Contract (\w[^:]*)(?::|$)")

_HEAD = """\
# The contract

Made from `tests/contract_rows.py` and the tests that name its rows, by `docs/make_contract.py`. Do not edit: run
`python docs/make_contract.py`.

What is asked of declared agents from outside, row by row in our words, and the tests that hold each. A test names its
rows at the start of its docstring. A row without a test is not built, and says why.

{tested} rows are tested, {missing} are not built.
"""


class NamedTest(NamedTuple):
    """A test, and the rows that its docstring names."""

    path: str
    name: str
    rows: list[str]


def tests() -> Iterator[NamedTest]:
    """Yield every test that names rows, by file and line."""
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        source = path.read_text()
        if "Contract " not in source:
            continue
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                found = NAMED.match(" ".join((ast.get_docstring(node) or "").split()))
                if found:
                    named = [one.strip(" .") for one in found[1].split(";")]
                    yield NamedTest(path.relative_to(ROOT).as_posix(), node.name, named)


def by_row() -> dict[str, list[NamedTest]]:
    """Return the tests of each row that a test names, unknown ones included."""
    found: dict[str, list[NamedTest]] = defaultdict(list)
    for test in tests():
        for one in test.rows:
            found[one].append(test)
    return found


def problems() -> list[str]:
    """Return what is wrong between rows and tests."""
    named = by_row()
    known = {row.id: row for row in ROWS}
    wrong = [f"{row.id}: two rows of that name" for row in ROWS if known[row.id] is not row]
    wrong += [f"{row.id}: no such section" for row in ROWS if row.id.split()[0] not in SECTIONS]
    wrong += [f"{test.path} {test.name}: no row {one!r}" for one in named for test in named[one] if one not in known]
    for row in ROWS:
        if row.id in named and row.missing:
            wrong.append(f"{row.id}: marked as not built, and {named[row.id][0].name} tests it")
        elif row.id not in named and not row.missing:
            wrong.append(f"{row.id}: no test names it, and it is not marked as not built")
    return wrong


def page() -> str:
    """Return the text of the page."""
    named = by_row()
    tested = sum(1 for row in ROWS if row.id in named)
    missing = sum(1 for row in ROWS if row.missing)
    parts = [_HEAD.format(tested=tested, missing=missing)]
    for section, title in SECTIONS.items():
        parts += [f"## {section} {title}\n", "| row | asks | status | tests |", "|---|---|---|---|"]
        parts += [_line(row, named.get(row.id, [])) for row in ROWS if row.id.split()[0] == section]
        parts.append("")
    return "\n".join(parts)


def _line(row: ContractRow, found: list[NamedTest]) -> str:
    status = f"not built: {row.missing}" if row.missing else "tested" if found else "no test names it"
    links = "<br>".join(f"[{test.name.removeprefix('test_').replace('_', ' ')}](../{test.path})" for test in found)
    return f"| {row.id} | {row.says} | {status} | {links} |"


if __name__ == "__main__":
    for problem in problems():
        print(problem, file=sys.stderr)  # noqa: T201 - what its maker has to mend
    PAGE.write_text(page())
