"""Owns what is checked of a JSON schema when definitions are: its form, its patterns, its words. Checks no data.

A word that is not held is refused, not passed over: whoever wrote `exclusiveMinimun` or a reference to another document
relies on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from ..protocol.errors import shorten
from .circles import circles
from .json_schema import SCHEMA_DEPTH_MAX, TYPES, follow, is_number, no_json, shown_path
from .patterns import pattern_problem

__all__ = ["problems_of"]

_PROBLEMS_MAX: Final = 20  # of one schema

_ONE: Final = ("items", "additionalProperties", "not", "if", "then", "else", "propertyNames")
_LISTED: Final = ("allOf", "anyOf", "oneOf", "prefixItems")
_NAMED: Final = ("properties", "patternProperties", "$defs", "definitions")
# They judge the same value, so a circle of them alone has no end.
_SAME_VALUE: Final = ("not", "if", "then", "else", "allOf", "anyOf", "oneOf")
# They tell a model something and hold nothing.
_SAID: Final = frozenset({
    "$schema", "$id", "$anchor", "$comment", "$vocabulary", "title", "description", "default", "examples", "example",
    "deprecated", "readOnly", "writeOnly", "format", "contentEncoding", "contentMediaType", "contentSchema",
    "discriminator", "nullable", "externalDocs", "xml",
})  # fmt: skip


def problems_of(schema: Mapping[str, object]) -> list[str]:
    """Return what is malformed in the schema of a call's arguments, which are an object, and what would not be held."""
    problems = [] if schema.get("type") == "object" else ["its type is not 'object'"]
    for path, problem in _walk(schema, "", schema, SCHEMA_DEPTH_MAX):
        problems.append(f"{path}: {problem}" if path else problem)
        if len(problems) == _PROBLEMS_MAX:
            break
    if not problems:
        problems += _endless(schema)
    unshowable = None if problems else no_json(schema)
    return problems if unshowable is None else [unshowable]


def _walk(schema: object, path: str, root: Mapping[str, object], left: int) -> Iterator[tuple[str, str]]:
    if isinstance(schema, bool):
        return
    if not isinstance(schema, dict):
        yield path, f"{shorten(schema)} is no schema"
        return
    if left <= 0:
        yield path, f"is more than {SCHEMA_DEPTH_MAX} schemas deep"
        return
    for word, given in schema.items():
        problem = _problem(word, given, root)
        if problem is not None:
            yield path, problem
    for where, below in _below(schema):
        yield from _walk(below, shown_path(f"{path}.{where}" if path else where), root, left - 1)


def _problem(word: object, given: object, root: Mapping[str, object]) -> str | None:
    """Return what is wrong with one word of a schema, the schemas below it left aside."""
    if not isinstance(word, str) or (word not in _FORMS and word not in _SAID and not word.startswith("x-")):
        return f"{shorten(word)} is not held, and would be passed over"
    if word in _SAID or word not in _FORMS:
        return None
    form, fits = _FORMS[word]
    if not fits(given):
        return f"its {word} is not {form}"
    if word == "pattern" and isinstance(given, str):
        return pattern_problem(given)
    if word == "patternProperties" and isinstance(given, dict):
        return next(filter(None, map(pattern_problem, given)), None)
    if word == "$ref" and isinstance(given, str) and follow(given, root) is None:
        return f"its $ref {shorten(given)} leads nowhere in this schema"
    return None


def _below(schema: Mapping[str, object], words: tuple[str, ...] | None = None) -> Iterator[tuple[str, object]]:
    """Yield the schemas within one, each with where it stands; only those below some words, if so asked."""
    for word, given in schema.items():
        if words is not None and word not in words:
            continue
        if word in _ONE:
            yield word, given
        elif word in _LISTED and isinstance(given, list):
            yield from ((f"{word}.{index}", one) for index, one in enumerate(given))
        elif word in _NAMED and isinstance(given, dict):
            yield from ((f"{word}.{name}", one) for name, one in given.items())


def _endless(root: Mapping[str, object]) -> Iterator[str]:
    graph: dict[str, list[str]] = {}
    at: dict[str, str] = {}
    waiting: list[tuple[str, object]] = [("$", root)]
    while waiting:
        path, schema = waiting.pop()
        if not isinstance(schema, dict) or str(id(schema)) in graph:
            continue
        at[str(id(schema))] = path
        reference = schema.get("$ref")
        same = [one for _, one in _below(schema, _SAME_VALUE)]
        same += [follow(reference, root)] if isinstance(reference, str) else []
        graph[str(id(schema))] = [str(id(one)) for one in same]
        waiting += ((f"{path}.{where}", one) for where, one in _below(schema))
    for circle in circles(graph):
        yield f"{shown_path(at[circle[0]])}: refers to itself without an end"


def _is_names(given: object) -> bool:
    return isinstance(given, list) and all(isinstance(one, str) for one in given)


def _is_type(given: object) -> bool:
    names = given if isinstance(given, list) else [given]
    return bool(names) and all(isinstance(name, str) and name in TYPES for name in names)


def _is_size(given: object) -> bool:
    return isinstance(given, int) and not isinstance(given, bool) and given >= 0


def _is_schemas(given: object) -> bool:
    return isinstance(given, list) and bool(given)


def _is_dict(given: object) -> bool:
    return isinstance(given, dict) and all(isinstance(name, str) for name in given)


_SIZE: Final = ("a whole number from 0 on", _is_size)
_NUMBER: Final = ("a number", is_number)
_SCHEMA: Final = ("a schema", lambda given: isinstance(given, dict | bool))
_SCHEMAS: Final = ("a list of schemas", _is_schemas)
_BY_NAME: Final = ("made of schemas by name", _is_dict)

_FORMS: Final[Mapping[str, tuple[str, Callable[[object], bool]]]] = {
    "type": ("a name, or a list of names, out of " + ", ".join(TYPES), _is_type),
    "enum": ("a list", lambda given: isinstance(given, list)),
    "const": ("", lambda _: True),
    "required": ("a list of names", _is_names),
    "dependentRequired": (
        "made of lists of names by name",
        lambda given: isinstance(given, dict) and all(map(_is_names, given.values())),
    ),
    "$ref": ("a reference within this schema", lambda given: isinstance(given, str) and given.startswith("#")),
    "pattern": ("a text", lambda given: isinstance(given, str)),
    "uniqueItems": ("true or false", lambda given: isinstance(given, bool)),
    "multipleOf": ("a number above 0", lambda given: is_number(given) and given > 0),  # type: ignore[operator]
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _NUMBER),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), _SIZE),
    **dict.fromkeys(_ONE, _SCHEMA),
    **dict.fromkeys(_LISTED, _SCHEMAS),
    **dict.fromkeys(_NAMED, _BY_NAME),
}
