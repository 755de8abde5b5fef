"""Owns regular expressions that definitions give: they match in time linear in the text. Knows no schema.

Python's own engine may take for ever over thirty characters, and a match cannot be interrupted: it would hold the event loop
and every thread on it. The engine here is the one in pydantic's core, which knows neither look-around nor backreferences.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from pydantic_core import SchemaError, SchemaValidator, core_schema

from ..protocol.errors import shorten
from .core_schemas import parts_of

__all__ = ["matches", "pattern_problem", "python_pattern_problem", "python_patterns", "schema_problem"]

_KEPT: Final = 256  # compiled patterns; a project has a few dozen


def pattern_problem(pattern: str) -> str | None:
    """Return why a pattern cannot be used, with the pattern; None where it can."""
    compiled = _compiled(pattern)
    return compiled if isinstance(compiled, str) else None


def matches(pattern: str, text: str) -> bool:
    """Say whether a pattern is found anywhere in a text; one that cannot be used matches everything."""
    compiled = _compiled(pattern)
    return True if isinstance(compiled, str) else compiled.isinstance_python(text)


def python_patterns(schema: object) -> Iterator[str]:
    """Yield the patterns in a schema of pydantic's core that Python's own engine would match."""
    waiting: list[tuple[object, bool]] = [(schema, False)]
    while waiting:
        node, is_python = waiting.pop()
        if isinstance(node, dict):
            config = node.get("config")
            engine = node.get("regex_engine") or (config.get("regex_engine") if isinstance(config, dict) else None)
            is_python = is_python if engine is None else engine == "python-re"
            pattern = node.get("pattern") if node.get("type") == "str" else None
            if isinstance(pattern, re.Pattern):
                yield str(pattern.pattern)
            elif isinstance(pattern, str) and is_python:
                yield pattern
            waiting += ((part, is_python) for part in parts_of(node))
        elif isinstance(node, list | tuple):
            waiting += ((below, is_python) for below in node)


def python_pattern_problem(pattern: str) -> str:
    """Return what is wrong with a pattern that Python's own engine would match."""
    return (
        f"the pattern {shorten(pattern)} cannot be used: Python's own engine would match it, and hold the event loop; "
        "give it as text, without look-around and backreferences"
    )


@lru_cache(maxsize=_KEPT)
def _compiled(pattern: str) -> SchemaValidator | str:
    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))
    except SchemaError as error:
        return f"the pattern {shorten(pattern)} cannot be used: {_last_line(error)}"


def schema_problem(error: SchemaError) -> str:
    """Return what pydantic's core says is wrong with a schema, with the pattern where it is one."""
    lines = [line.strip() for line in str(error).splitlines()]
    if "SchemaError: regex parse error:" not in lines[:-1]:
        return _last_line(error)
    pattern = lines[lines.index("SchemaError: regex parse error:") + 1]
    return f"the pattern {shorten(pattern)} cannot be used: {_last_line(error)}"


def _last_line(error: SchemaError) -> str:
    return str(error).strip().splitlines()[-1].strip().removeprefix("error: ").removeprefix("SchemaError: ")
