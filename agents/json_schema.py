"""Owns the check of JSON data against a JSON schema, the part of it that tools use. Reads no references but local ones.

Keywords that are not here are ignored, as the standard says of unknown ones; `problems_of` names what is malformed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from ..protocol.errors import shorten

__all__ = ["breaches", "problems_of", "shown_path"]

_PATH_SHOWN: Final = 200  # characters of a path; a model may write a key of a megabyte
_DEPTH_MAX: Final = 64  # of schemas within schemas; a reference to itself would never end


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_integer(value: object) -> bool:
    return _is_number(value) and (isinstance(value, int) or (isinstance(value, float) and value.is_integer()))


_TYPES: Final[Mapping[str, Callable[[object], bool]]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "integer": _is_integer,
    "number": _is_number,
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
}


def breaches(value: object, schema: Mapping[str, object], most: int | None = None) -> list[tuple[str, str]]:
    """Return where and how JSON data does not fit a schema: paths joined by dots, `$` for the whole; the first `most`."""
    found = islice(_check(value, schema, "", schema, _DEPTH_MAX), most)
    return [(path or "$", msg) for path, msg in found]


def shown_path(path: str) -> str:
    """Return a path as it is shown, of a long one the end: it names the place as well."""
    return path if len(path) <= _PATH_SHOWN else "…" + path[1 - _PATH_SHOWN :]


def problems_of(schema: Mapping[str, object]) -> list[str]:
    """Return what is malformed in the schema of a call's arguments, which are an object."""
    problems = [] if schema.get("type") == "object" else ["its type is not 'object'"]
    properties = schema.get("properties", {})
    if not isinstance(properties, dict) or not all(isinstance(one, dict | bool) for one in properties.values()):
        problems.append("its properties are not schemas by name")
    required = schema.get("required", [])
    if not isinstance(required, list) or not all(isinstance(one, str) for one in required):
        problems.append("its required is not a list of names")
    return problems + list(_bad_patterns(schema, _DEPTH_MAX))


def _bad_patterns(schema: object, left: int) -> Iterator[str]:
    if isinstance(schema, dict) and isinstance(schema.get("pattern"), str) and not _compiles(schema["pattern"]):
        yield f"{shorten(schema['pattern'])} is no regular expression"
    below = list(schema.values()) if isinstance(schema, dict) else schema if isinstance(schema, list) else []
    for one in below if left > 0 else []:
        yield from _bad_patterns(one, left - 1)


def _compiles(pattern: str) -> bool:
    try:
        re.compile(pattern)
    except re.error:
        return False
    return True


def _check(
    value: object, schema: object, path: str, root: Mapping[str, object], left: int
) -> Iterator[tuple[str, str]]:
    if schema is True or left <= 0:
        return
    if schema is False:
        yield path, "Unexpected argument"
        return
    if not isinstance(schema, dict):
        return
    reference = schema.get("$ref")
    if isinstance(reference, str):
        yield from _check(value, _follow(reference, root), path, root, left - 1)
    wrong = _wrong_type(value, schema.get("type"))
    if wrong is not None:
        yield path, wrong
        return
    yield from ((path, msg) for msg in _scalars(value, schema))
    if isinstance(value, dict):
        yield from _members(value, schema, path, root, left)
    if isinstance(value, list) and "items" in schema:
        for index, item in enumerate(value):
            yield from _check(item, schema["items"], _at(path, index), root, left - 1)
    yield from _combined(value, schema, path, root, left)


def _wrong_type(value: object, kinds: object) -> str | None:
    names = [kinds] if isinstance(kinds, str) else kinds if isinstance(kinds, list) else []
    known = [name for name in names if isinstance(name, str) and name in _TYPES]
    if not known or any(_TYPES[name](value) for name in known):
        return None
    return f"Input should be of type {' or '.join(known)}"


def _scalars(value: object, schema: Mapping[str, object]) -> Iterator[str]:
    allowed = schema.get("enum")
    if isinstance(allowed, list) and not any(_same(value, one) for one in allowed):
        yield f"Input should be one of {shorten(allowed)}"
    if "const" in schema and not _same(value, schema["const"]):
        yield f"Input should be {shorten(schema['const'])}"
    if _is_number(value):
        yield from _bounds(value, schema, "", "minimum", "maximum")
    elif isinstance(value, str):
        yield from _bounds(len(value), schema, " characters", "minLength", "maxLength")
        pattern = schema.get("pattern")
        if isinstance(pattern, str) and _compiles(pattern) and not re.search(pattern, value):
            yield f"Input should match {shorten(pattern)}"
    elif isinstance(value, list):
        yield from _bounds(len(value), schema, " items", "minItems", "maxItems")


def _bounds(size: object, schema: Mapping[str, object], unit: str, least: str, most: str) -> Iterator[str]:
    low, high = schema.get(least), schema.get(most)
    if isinstance(low, int | float) and isinstance(size, int | float) and size < low:
        yield f"Input should be at least {low}{unit}"
    if isinstance(high, int | float) and isinstance(size, int | float) and size > high:
        yield f"Input should be at most {high}{unit}"


def _members(
    value: Mapping[str, object], schema: Mapping[str, object], path: str, root: Mapping[str, object], left: int
) -> Iterator[tuple[str, str]]:
    properties = schema.get("properties")
    known: Mapping[str, object] = properties if isinstance(properties, dict) else {}
    required = schema.get("required")
    for name in required if isinstance(required, list) else ():
        if name not in value:
            yield _at(path, name), "Field required"
    for name, member in value.items():
        if name in known:
            yield from _check(member, known[name], _at(path, name), root, left - 1)
        elif "additionalProperties" in schema:
            yield from _check(member, schema["additionalProperties"], _at(path, name), root, left - 1)


def _combined(
    value: object, schema: Mapping[str, object], path: str, root: Mapping[str, object], left: int
) -> Iterator[tuple[str, str]]:
    for one in _schemas(schema, "allOf"):
        yield from _check(value, one, path, root, left - 1)
    for key in ("anyOf", "oneOf"):
        choices = _schemas(schema, key)
        fitting = sum(not any(True for _ in _check(value, one, path, root, left - 1)) for one in choices)
        if choices and not (fitting == 1 or (fitting > 1 and key == "anyOf")):
            yield path, "Input should fit one of the allowed forms" if not fitting else "Input fits more than one form"


def _schemas(schema: Mapping[str, object], key: str) -> Sequence[object]:
    found = schema.get(key)
    return found if isinstance(found, list) else ()


def _follow(reference: str, root: Mapping[str, object]) -> object:
    at: object = root
    if not reference.startswith("#"):
        return True
    for part in filter(None, reference[1:].split("/")):
        at = at.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(at, dict) else None
    return True if at is None else at


def _same(one: object, other: object) -> bool:
    # In JSON true is not 1.
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def _at(path: str, part: object) -> str:
    return shown_path(f"{path}.{part}" if path else str(part))
