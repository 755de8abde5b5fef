"""Holds docs/hosting.md complete: every route, limit, code and metric stands there, and nothing that is none."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from treadle.actors import Runtime
from treadle.agents import ThreadState, agent
from treadle.hosting.app import create_app
from treadle.hosting.hosted import Limits
from treadle.hosting.metrics import RuntimeCollector, StreamCollector
from treadle.storage import MemoryStore

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs/hosting.md").read_text()


@agent(name="rests")
async def rests(state: ThreadState) -> None:
    pass


def table(header: str) -> list[list[str]]:
    """Return the cells of the table that begins with a header."""
    lines = PAGE[PAGE.index(f"| {header} |") :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split(" |")] for line in lines]


def first_cells(header: str) -> list[str]:
    return [word for cells in table(header) for word in re.findall(r"`([^`]+)`", cells[0])]


def test_every_route_stands_there_with_its_methods() -> None:
    document = create_app(Runtime(MemoryStore(), agents=[rests]), console=False).openapi()
    # The document gives the path with our converters left out.
    served = {
        path: {method.upper() for method in operations} - {"PARAMETERS"}
        for path, operations in document["paths"].items()
    }
    written = {
        path: set(cells[1].split(", ")) for cells in table("route") for path in re.findall(r"`([^`]+)`", cells[0])
    }

    assert {re.sub(r":\w+}", "}", path): methods for path, methods in served.items()} == written


def test_every_limit_stands_there() -> None:
    assert first_cells("limit") == [field.name for field in dataclasses.fields(Limits)]


def test_every_code_of_http_stands_there() -> None:
    sources = "\n".join(path.read_text() for path in (ROOT / "hosting").glob("*.py"))
    refused = set(re.findall(r'(?:Refused|problem_of)\(\s*(?:\d{3}|status),\s*"([a-z_]+)"', sources))
    by_http = set(re.findall(r'\d{3}: "([a-z]+(?:_[a-z]+)+)"', sources))

    assert refused | by_http | {"unauthenticated"} == set(first_cells("code")) | {"internal_error"} & refused


def test_every_metric_stands_there() -> None:
    with Runtime(MemoryStore(), agents=[rests]) as runtime:
        collectors = (RuntimeCollector(runtime), StreamCollector(create_app(runtime).state.treadle))
        made = {
            family.name + ("_total" if family.type == "counter" else "")
            for collector in collectors
            for family in collector.collect()
        }

    assert {name.partition("{")[0] for name in first_cells("metric")} == made
