"""Owns the proof of treadle.hosting.cli.target: what a name stands for, and what is said of one that stands for nothing."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from treadle.actors import Runtime
from treadle.hosting.cli.target import load_target
from treadle.protocol.errors import InvalidDefinitions, InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MODULE = """
from treadle.actors import Runtime
from treadle.agents import agent
from treadle.protocol.errors import InvalidDefinitions
from treadle.storage import MemoryStore

@agent
async def clerk(state): ...

AGENTS = (clerk,)
RUNTIME = Runtime(MemoryStore(), agents=AGENTS)
NUMBER, TEXT = 5, "clerk"

class Desk:
    agents = [clerk]

def make():
    return AGENTS

def make_runtime():
    return Runtime(MemoryStore(), agents=AGENTS)

def breaks():
    raise ValueError("on purpose\\nand more")

def unfit():
    raise InvalidDefinitions("they do not fit")
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "served_desk.py").write_text(MODULE)
    (tmp_path / "served_broken.py").write_text("1 / 0")
    (tmp_path / "served_exit.py").write_text("raise SystemExit(3)")
    (tmp_path / "served_needs.py").write_text("import served_nowhere")
    (tmp_path / "served_syntax.py").write_text("def")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("served_")]:
        del sys.modules[name]


@pytest.mark.parametrize("name", ["clerk", "AGENTS", "Desk.agents", "make"])
def test_agents_are_found_under_every_kind_of_name(name: str, here: Path) -> None:
    found = load_target(f"served_desk:{name}")

    assert isinstance(found, list)
    assert [body.name for body in found] == ["clerk"]


@pytest.mark.parametrize("name", ["RUNTIME", "make_runtime"])
def test_a_runtime_is_found_or_made(name: str, here: Path) -> None:
    assert isinstance(load_target(f"served_desk:{name}"), Runtime)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("served_desk", "it is MODULE:NAME"),
        ("served_desk:", "it is MODULE:NAME"),
        (":clerk", "it is MODULE:NAME"),
        ("served_desk.py:clerk", "there is no module served_desk.py"),
        ("./served_desk:clerk", "it is MODULE:NAME"),
        ("served_desk:nobody", "served_desk has no nobody"),
        ("served_desk:Desk.nobody", "served_desk has no Desk.nobody"),
        ("served_desk:NUMBER", "it is no agent"),
        ("served_desk:TEXT", "it is no agent"),
        ("served_desk:breaks", "calling it failed: ValueError"),
        ("served_nowhere:x", "there is no module served_nowhere"),
        ("served_needs:x", "could not be imported: No module named 'served_nowhere'"),
        ("served_broken:x", "could not be imported: ZeroDivisionError"),
        ("served_exit:x", "could not be imported: SystemExit"),
        ("served_syntax:x", "could not be imported: SyntaxError"),
    ],
)
def test_what_cannot_be_served_is_named_with_the_reason(text: str, why: str, here: Path) -> None:
    with pytest.raises(InvalidInput, match="nothing can be served of") as caught:
        load_target(text)

    assert caught.value.code == "invalid_target"
    assert why in str(caught.value)


def test_what_a_module_says_in_errors_of_ours_is_passed_on(here: Path) -> None:
    with pytest.raises(InvalidDefinitions):
        load_target("served_desk:unfit")
