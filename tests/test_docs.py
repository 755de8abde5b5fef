"""The documentation says what the code has: every table, event, fact and error code; its links lead somewhere, its code runs."""

from __future__ import annotations

import importlib
import importlib.util
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from treadle.agents.hooks import markdown
from treadle.protocol import errors
from treadle.protocol.events import EVENT_TYPES
from treadle.protocol.facts import LIVELY, STEADY, STORED
from treadle.protocol.limits import LOST_MAX
from treadle.protocol.receipts import Disposition, RespondStatus
from treadle.storage.codec import VERSION
from treadle.storage.head import HEAD_SIZE
from treadle.storage.schema import SCHEMA
from treadle.storage.tables import KEY_BYTES_MAX, Table

ROOT = Path(__file__).parent.parent
DOCS = sorted((ROOT / "docs").glob("*.md"))
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|^\[[^\]]+\]: (\S+)$", re.MULTILINE)
FENCED = re.compile(r"^( *)```python\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
GIVEN = re.compile(r'(?:\b(?:code|limit)=|_refuse_call\(state, |_too_many\("[a-z ]+", met, )"([a-z_]+)"')
OURS = ("protocol", "storage", "actors", "agents", "hosting")


def text(name: str) -> str:
    return (ROOT / "docs" / name).read_text()


def rows(name: str) -> list[list[str]]:
    """Return the cells of every table row of a page, without the marks of code."""
    lines = [line for line in text(name).splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" |")] for line in lines]


def listed(name: str) -> set[str]:
    """Return what stands as code in the first cell of a table's row."""
    return {word for cells in rows(name) for word in re.findall(r"`([^`]+)`", cells[0])}


def blocks(path: Path) -> list[str]:
    return [textwrap.dedent(found[2]) for found in FENCED.finditer(path.read_text())]


def given() -> set[str]:
    """Return every code and limit that the code names."""
    sources = [path.read_text() for folder in OURS for path in (ROOT / folder).rglob("*.py")]
    found = {word for source in sources for word in GIVEN.findall(source)}
    # `check_one_of("on_busy", ...)` makes `invalid_on_busy` of it.
    return found | {f"invalid_{word}" for source in sources for word in re.findall(r'check_one_of\("(\w+)"', source)}


def error_classes() -> list[type[errors.TreadleError]]:
    """Return every class of ours but those of hosting, which has a table of its own, wherever it is defined."""
    for layer in OURS[:4]:
        for path in (ROOT / layer).rglob("*.py"):
            if re.search(r"^    code(: .*)? = ", path.read_text(), re.MULTILINE):
                importlib.import_module(f"treadle.{'.'.join(path.relative_to(ROOT).with_suffix('').parts)}")
    found, left = [], [errors.TreadleError]
    while left:
        found.append(kind := left.pop())
        left += kind.__subclasses__()
    return [kind for kind in found if kind.__module__.startswith(tuple(f"treadle.{layer}." for layer in OURS[:4]))]


def test_every_table_is_in_the_storage_page() -> None:
    sections = re.findall(r"^### (\w+)$", text("storage.md"), re.MULTILINE)

    assert sections == [table.name.lower() for table in Table]


def test_every_event_is_in_the_storage_page_with_its_fields_in_order() -> None:
    stored = {(str(code), f"`{kind.type}`", ", ".join(kind.model_fields)) for code, kind in EVENT_TYPES.items()}

    written = {(cells[0], cells[1], cells[2]) for cells in rows("storage.md") if cells[0].isdigit() and len(cells) == 3}

    assert written == stored


def test_every_fact_is_in_the_storage_page_in_order() -> None:
    section = text("storage.md").split("### threads")[1].split("### names")[0]
    first_cells = [line.split(" |")[0] for line in section.splitlines() if line.startswith("| `")]

    assert [word for cell in first_cells for word in re.findall(r"`(\w+)`", cell)] == list(STORED)
    assert f"{len(STEADY)} facts that" in section
    assert f"a list of the {len(LIVELY)} that" in section
    assert f"at most {LOST_MAX} |" in section


def test_the_numbers_of_the_storage_page_are_those_of_the_code() -> None:
    page = text("storage.md")

    assert f"Schema {SCHEMA}." in page
    assert f"the schema version of a record, {VERSION}." in page
    assert f"the head, {HEAD_SIZE} bytes" in page
    assert f"ends at {KEY_BYTES_MAX} bytes" in page


def test_every_error_code_is_in_the_errors_page_with_its_class() -> None:
    written = {(cells[0], cells[1]) for cells in rows("errors.md") if len(cells) == 4}

    assert {(f"`{kind.code}`", f"`{kind.__name__}`") for kind in error_classes()} <= written
    assert {cells[0].strip("`") for cells in rows("errors.md") if len(cells) == 4} - {"code"} == {
        kind.code for kind in error_classes()
    }


def test_every_code_and_limit_that_the_code_gives_is_in_the_errors_page() -> None:
    assert given() - listed("errors.md") == set()


def test_the_errors_page_lists_nothing_that_the_code_does_not_give() -> None:
    known = given() | {kind.code for kind in error_classes()}
    bodies = {"ExecutionCancelled", "ExecutionFenced"}

    assert listed("errors.md") - known - bodies == set()


def test_every_disposition_is_in_the_glossary() -> None:
    assert [word for word in [*Disposition, *RespondStatus] if f"`{word}`" not in text("glossary.md")] == []


def test_the_table_of_hooks_is_in_the_agents_page() -> None:
    assert markdown() in text("agents.md"), "the table is `treadle.agents.hooks.markdown()`"


def test_links_lead_somewhere() -> None:
    broken = []
    for page in [*DOCS, ROOT / "README.md", ROOT / "CHANGELOG.md"]:
        for found in LINK.finditer(page.read_text()):
            target, _, anchor = (found[1] or found[2]).partition("#")
            if target.startswith("https:"):
                continue
            path = (page.parent / target).resolve() if target else page
            if not path.exists():
                broken.append(f"{page.name}: {found[0]}")
            elif anchor and anchor not in _anchors(path):
                broken.append(f"{page.name}: {found[0]}: no such heading")

    assert broken == []


def _anchors(path: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_is_reached_from_the_readme() -> None:
    readme = (ROOT / "README.md").read_text()

    assert [page.name for page in DOCS if f"(docs/{page.name})" not in readme] == []


@pytest.mark.parametrize("page", [page for page in DOCS if page.name != "testing.md"], ids=lambda page: str(page.name))
def test_the_code_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for block in blocks(page):
        exec(compile(block, str(page), "exec"), {"__name__": "__main__"})


@pytest.mark.slow
def test_the_tests_of_the_testing_page_pass(tmp_path: Path) -> None:
    tests = blocks(ROOT / "docs" / "testing.md")
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["treadle.actors.testing"]\n')
    (tmp_path / "test_page.py").write_text("\n\n".join(tests))
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", str(tmp_path)]

    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{sum(block.count('def test_') for block in tests)} passed" in done.stdout


def test_the_page_of_calls_is_fresh_and_names_all_that_users_call() -> None:
    place = ROOT / "docs" / "make_api.py"
    spec = importlib.util.spec_from_file_location("make_api", place)
    assert spec is not None and spec.loader is not None
    maker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(maker)

    assert maker.PAGE.read_text() == maker.page(), "run `python docs/make_api.py`"
    for call in ("Thread.submit", "Thread.respond", "Runtime.create_thread", "ThreadState.checkpoint", "Reply.result"):
        assert f"#### {call}\n" in maker.page()
