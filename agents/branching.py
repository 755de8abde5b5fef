"""Owns how often pydantic would look at each part of a call's arguments, so that no nesting costs 2^depth. Checks no data.

Of a union without a discriminator pydantic tries every choice. Where the choices hold the union again, each level of the
arguments multiplies that, and nothing can interrupt it: it would hold the event loop and every thread on it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from .core_schemas import parts_of, schemas_in

__all__ = ["LINEAR", "TOO_DEEP", "Branching", "branching_of"]

TOO_DEEP: Final = "Input is too deep to be held against its schema"
# Looks at arguments that fit cost 1 us each; where they do not fit, each leaves an error, at 30 us.
_LOOKS_MAX: Final = 10_000
_LOOKS_EACH: Final = 16  # on the average of many parts: width is no depth
_LOOKS_AT_ALL: Final = 100_000
_OBJECTS: Final = frozenset({"model-fields", "typed-dict", "dataclass-args", "dict", "arguments"})
_ARRAYS: Final = frozenset({"list", "tuple", "set", "frozenset", "generator"})


class Branching(NamedTuple):
    """By how much one more object, or one more array, around a part multiplies the looks at it."""

    objects: int
    arrays: int

    def is_too_deep(self, text: str) -> bool:
        """Say whether JSON text would cost more than it may; what is no JSON would not."""
        if self == LINEAR:
            return False
        try:
            waiting: list[tuple[object, int]] = [(json.loads(text), 1)]
        except (ValueError, RecursionError):
            return False  # whoever reads it says so better
        looks = parts = 0
        while waiting and looks <= _LOOKS_AT_ALL:
            part, times = waiting.pop()
            parts += 1
            looks += times
            below = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
            waiting += ((one, times * self._factor(one)) for one in below)
        return looks > max(_LOOKS_MAX, min(parts * _LOOKS_EACH, _LOOKS_AT_ALL))

    def _factor(self, part: object) -> int:
        return self.objects if isinstance(part, dict) else self.arrays if isinstance(part, list) else 1


LINEAR: Final = Branching(1, 1)


def branching_of(schema: object) -> Branching:
    """Return what a schema of pydantic's core multiplies by; `LINEAR` for all but unions that hold themselves."""
    known = {str(one["ref"]): one for node in schemas_in(schema) for one in _definitions(node)}
    named = {ref: _refs(one) for ref, one in known.items()}
    reached = {ref: _reached(ref, named) for ref in known}
    most = LINEAR
    for ref, definition in known.items():
        leads_back = {other for other in known if ref in reached[other]}
        if ref not in leads_back:
            continue
        for node in schemas_in(definition):
            if node.get("type") == "union":
                again = [one for one in _choices(node) if _refs(one) & leads_back]
                tried = [_shape(one, known, frozenset()) for one in again]
                most = Branching(max(most[0], sum(t[0] for t in tried)), max(most[1], sum(t[1] for t in tried)))
    return most


def _definitions(node: Mapping[str, object]) -> Iterable[Mapping[str, object]]:
    given = node.get("definitions") if node.get("type") == "definitions" else None
    return given if isinstance(given, list) else ()


def _choices(union: Mapping[str, object]) -> list[object]:
    given = union.get("choices")
    return [one[0] if isinstance(one, tuple) else one for one in given] if isinstance(given, list) else []


def _refs(schema: object) -> set[str]:
    return {str(node["schema_ref"]) for node in schemas_in(schema) if node.get("type") == "definition-ref"}


def _reached(ref: str, named: Mapping[str, set[str]]) -> set[str]:
    reached: set[str] = set()
    waiting = [ref]
    while waiting:
        new = named.get(waiting.pop(), set()) - reached
        reached |= new
        waiting += new
    return reached


def _shape(schema: object, known: Mapping[str, Mapping[str, object]], seen: frozenset[str]) -> tuple[int, int]:
    """Return how often a choice looks at an object, and at an array, that stands in its place."""
    if isinstance(schema, list | tuple):
        found = [_shape(one, known, seen) for one in schema]
    elif not isinstance(schema, dict):
        return 0, 0
    elif schema.get("type") in _OBJECTS:
        return 1, 0
    elif schema.get("type") in _ARRAYS:
        return 0, 1
    elif schema.get("type") == "definition-ref":
        ref = str(schema["schema_ref"])
        return (0, 0) if ref in seen else _shape(known.get(ref), known, seen | {ref})
    elif schema.get("type") == "union":
        tried = [_shape(one, known, seen) for one in _choices(schema)]
        return sum(one[0] for one in tried), sum(one[1] for one in tried)
    else:
        found = [_shape(part, known, seen) for part in parts_of(schema)]
    return max((one[0] for one in found), default=0), max((one[1] for one in found), default=0)
