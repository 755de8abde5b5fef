"""Owns regular expressions that definitions give: they match in time linear in the text. Knows no schema.

Python's own engine may take for ever over thirty characters, and a match cannot be interrupted: it would hold the event loop
and every thread on it. The engine here is the one in pydantic's core, which knows neither look-around nor backreferences.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from pydantic_core import SchemaError, SchemaValidator, core_schema

from ..protocol.errors import shorten

__all__ = ["matches", "pattern_problem"]

_KEPT: Final = 256  # compiled patterns; a project has a few dozen


def pattern_problem(pattern: str) -> str | None:
    """Return why a pattern cannot be used, with the pattern; None where it can."""
    compiled = _compiled(pattern)
    return compiled if isinstance(compiled, str) else None


def matches(pattern: str, text: str) -> bool:
    """Say whether a pattern is found anywhere in a text; one that cannot be used matches everything."""
    compiled = _compiled(pattern)
    return True if isinstance(compiled, str) else compiled.isinstance_python(text)


@lru_cache(maxsize=_KEPT)
def _compiled(pattern: str) -> SchemaValidator | str:
    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))
    except SchemaError as error:
        reason = str(error).strip().splitlines()[-1].strip().removeprefix("error: ").removeprefix("SchemaError: ")
        return f"the pattern {shorten(pattern)} cannot be used: {reason}"
