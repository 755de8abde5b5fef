"""What the README shows must run: each of its Python snippets, as it stands, in an empty directory."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"
FENCED = re.compile(r"^( *)```python\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


def snippets() -> list[object]:
    """Return every ```python block of the README, named after its line."""
    text = README.read_text() if README.exists() else ""
    return [
        pytest.param(textwrap.dedent(found[2]), id=f"line-{text[: found.start()].count(chr(10)) + 1}")
        for found in FENCED.finditer(text)
    ]


@pytest.mark.parametrize("snippet", snippets())
def test_snippet_of_the_readme_runs(snippet: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    exec(compile(snippet, str(README), "exec"), {"__name__": "__main__"})
