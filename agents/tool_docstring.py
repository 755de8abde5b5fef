"""Owns what a docstring tells a model: the description of a tool, and of each parameter under `Args:`. Judges nothing."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["read_docstring"]

_SECTION: Final = re.compile(r"(Args|Arguments|Parameters|Returns|Raises|Yields|Examples?|Notes?|Attributes):\s*\Z")
_PARAMETER: Final = re.compile(r"\*{0,2}(\w+)(?:\s*\([^)]*\))?:\s*(.*)\Z")


def read_docstring(doc: str | None) -> tuple[str, dict[str, str]]:
    """Return the text before the first section, and the descriptions of parameters; empty where there are none."""
    said: list[str] = []
    parameters: dict[str, list[str]] = {}
    section: str | None = None
    indent: int | None = None
    current: str | None = None
    for line in (doc or "").splitlines():
        heading = _SECTION.match(line)
        if heading:
            section, indent, current = heading[1], None, None
        elif section is None:
            said.append(line)
        elif section in {"Args", "Arguments", "Parameters"} and line.strip():
            depth = len(line) - len(line.lstrip())
            indent = depth if indent is None else indent
            found = _PARAMETER.match(line.strip()) if depth == indent else None
            if found:
                current = found[1]
                parameters[current] = [found[2]]
            elif current is not None:
                parameters[current].append(line.strip())
    return "\n".join(said).strip(), {name: " ".join(filter(None, lines)) for name, lines in parameters.items()}
