"""Owns the way through a schema of pydantic's core, from each part to those that it holds. Judges none, follows no reference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

__all__ = ["parts_of", "schemas_in"]

_NO_SCHEMAS: Final = frozenset({"metadata", "serialization", "cls", "function", "config", "default"})
_BY_NAME: Final = frozenset({"fields", "choices"})  # their keys are a user's own words, which may be any of those


def schemas_in(schema: object) -> Iterator[Mapping[str, object]]:
    """Yield all schemas within one, itself included."""
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            yield part
            waiting += parts_of(part)
        elif isinstance(part, list | tuple):
            waiting += part


def parts_of(schema: Mapping[str, object]) -> Iterator[object]:
    """Yield what a schema holds: schemas, lists of them, and other things."""
    for word, part in schema.items():
        if word in _BY_NAME and isinstance(part, dict):
            yield from part.values()
        elif word not in _NO_SCHEMAS:
            yield part
