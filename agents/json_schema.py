"""Owns the check of JSON data against a JSON schema, the part of it that tools use. Reads no references but local ones.

What is malformed here or not held is refused when definitions are checked (`schema_checks`); met later, it holds nothing back.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import islice
from typing import Final, NamedTuple

from ..protocol.errors import shorten
from .branching import TOO_DEEP
from .patterns import matches

__all__ = ["SCHEMA_DEPTH_MAX", "TYPES", "breaches", "follow", "is_number", "no_json", "shown_path"]

_PATH_SHOWN: Final = 200  # characters of a path; a model may write a key of a megabyte
SCHEMA_DEPTH_MAX: Final = 64  # of schemas written within schemas
_JUDGED_MAX: Final = 256  # of schemas followed for one value: data is at most 64 deep, with references between


def no_json(data: object) -> str | None:
    """Say why no request to a model could hold this; None where it can."""
    try:
        json.dumps(data, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        return f"is not JSON data: {error}"
    return None


def is_number(value: object) -> bool:
    """Say whether JSON data is a number, which true and false are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_integer(value: object) -> bool:
    return is_number(value) and (isinstance(value, int) or (isinstance(value, float) and value.is_integer()))


TYPES: Final[Mapping[str, Callable[[object], bool]]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "integer": _is_integer,
    "number": is_number,
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
}


class _Run(NamedTuple):
    """One check: the schema that references lead into, how many breaches are wanted, and what was judged already.

    Alternatives that hold the same below them would judge data of depth n 2^n times: each part is judged once by each schema.
    """

    root: Mapping[str, object]
    most: int | None
    judged: dict[tuple[int, int], list[tuple[str, str]]]


def breaches(value: object, schema: Mapping[str, object], most: int | None = None) -> list[tuple[str, str]]:
    """Return where and how JSON data does not fit a schema: paths joined by dots, `$` for the whole; the first `most`."""
    try:
        found = list(islice(_check(value, schema, "", _Run(schema, most, {}), _JUDGED_MAX), most))
    except RecursionError:
        found = [("", TOO_DEEP)]
    return [(path or "$", msg) for path, msg in found]


def shown_path(path: str) -> str:
    """Return a path as it is shown, of a long one the end: it names the place as well."""
    return path if len(path) <= _PATH_SHOWN else "…" + path[1 - _PATH_SHOWN :]


def _check(value: object, schema: object, path: str, run: _Run, left: int) -> Iterator[tuple[str, str]]:
    if not isinstance(value, dict | list) or not isinstance(schema, dict):
        yield from _judge(value, schema, path, run, left)
        return
    part = id(schema), id(value)  # of objects that outlive the check
    found = run.judged.get(part)
    if found is None:
        found = run.judged[part] = list(islice(_judge(value, schema, path, run, left), run.most))
    yield from found


def _judge(value: object, schema: object, path: str, run: _Run, left: int) -> Iterator[tuple[str, str]]:
    if left <= 0:
        yield path, TOO_DEEP
        return
    if schema is False:
        yield path, "Unexpected argument"
        return
    if not isinstance(schema, dict):
        return
    reference = schema.get("$ref")
    if isinstance(reference, str):
        yield from _check(value, follow(reference, run.root), path, run, left - 1)
    wrong = _wrong_type(value, schema.get("type"))
    if wrong is not None:
        yield path, wrong
        return
    yield from ((path, msg) for msg in _scalars(value, schema))
    if isinstance(value, dict):
        yield from _members(value, schema, path, run, left)
    if isinstance(value, list):
        yield from _items(value, schema, path, run, left)
    yield from _combined(value, schema, path, run, left)


def _wrong_type(value: object, kinds: object) -> str | None:
    names = [kinds] if isinstance(kinds, str) else kinds if isinstance(kinds, list) else []
    known = [name for name in names if isinstance(name, str) and name in TYPES]
    if not known or any(TYPES[name](value) for name in known):
        return None
    return f"Input should be of type {' or '.join(known)}"


def _scalars(value: object, schema: Mapping[str, object]) -> Iterator[str]:
    allowed = schema.get("enum")
    if isinstance(allowed, list) and _told_apart(value) not in map(_told_apart, allowed):
        yield f"Input should be one of {shorten(allowed)}"
    if "const" in schema and _told_apart(value) != _told_apart(schema["const"]):
        yield f"Input should be {shorten(schema['const'])}"
    if is_number(value):
        yield from _amounts(value, schema)
    elif isinstance(value, str):
        yield from _bounds(len(value), schema, " characters", "minLength", "maxLength")
        pattern = schema.get("pattern")
        if isinstance(pattern, str) and not matches(pattern, value):
            yield f"Input should match {shorten(pattern)}"
    elif isinstance(value, list):
        yield from _bounds(len(value), schema, " items", "minItems", "maxItems")
        if schema.get("uniqueItems") is True and len(set(map(_told_apart, value))) < len(value):
            yield "Input should have no item twice"
    elif isinstance(value, dict):
        yield from _bounds(len(value), schema, " members", "minProperties", "maxProperties")


def _amounts(value: object, schema: Mapping[str, object]) -> Iterator[str]:
    yield from _bounds(value, schema, "", "minimum", "maximum")
    above, below, step = (schema.get(word) for word in ("exclusiveMinimum", "exclusiveMaximum", "multipleOf"))
    if is_number(above) and not value > above:  # type: ignore[operator]
        yield f"Input should be above {above}"
    if is_number(below) and not value < below:  # type: ignore[operator]
        yield f"Input should be below {below}"
    # As they are written: as floats 0.3 would be no multiple of 0.1.
    if is_number(step) and Fraction(str(value)) % Fraction(str(step)):
        yield f"Input should be a multiple of {step}"


def _bounds(size: object, schema: Mapping[str, object], unit: str, least: str, most: str) -> Iterator[str]:
    low, high = schema.get(least), schema.get(most)
    if isinstance(low, int | float) and isinstance(size, int | float) and size < low:
        yield f"Input should be at least {low}{unit}"
    if isinstance(high, int | float) and isinstance(size, int | float) and size > high:
        yield f"Input should be at most {high}{unit}"


def _items(
    value: Sequence[object], schema: Mapping[str, object], path: str, run: _Run, left: int
) -> Iterator[tuple[str, str]]:
    first = _schemas(schema, "prefixItems")
    for index, item in enumerate(value):
        held = first[index] if index < len(first) else schema.get("items", True)
        yield from _check(item, held, _at(path, index), run, left - 1)


def _members(
    value: Mapping[str, object], schema: Mapping[str, object], path: str, run: _Run, left: int
) -> Iterator[tuple[str, str]]:
    known, by_pattern = _named(schema, "properties"), _named(schema, "patternProperties")
    yield from ((_at(path, name), "Field required") for name in _missing(value, schema))
    for name, member in value.items():
        at = _at(path, name)
        if any(True for _ in _check(name, schema.get("propertyNames", True), at, run, left - 1)):
            yield at, "Input has a name that is not allowed"
        held = [known[name]] if name in known else []
        held += [one for pattern, one in by_pattern.items() if matches(pattern, name)]
        for one in held or [schema.get("additionalProperties", True)]:
            yield from _check(member, one, at, run, left - 1)


def _missing(value: Mapping[str, object], schema: Mapping[str, object]) -> Iterator[str]:
    required = schema.get("required")
    yield from (name for name in (required if isinstance(required, list) else ()) if name not in value)
    for name, others in _named(schema, "dependentRequired").items():
        if name in value and isinstance(others, list):
            yield from (other for other in others if other not in value)


def _combined(
    value: object, schema: Mapping[str, object], path: str, run: _Run, left: int
) -> Iterator[tuple[str, str]]:
    def fits(one: object) -> bool:
        return not any(True for _ in _check(value, one, path, run, left - 1))

    for one in _schemas(schema, "allOf"):
        yield from _check(value, one, path, run, left - 1)
    for key in ("anyOf", "oneOf"):
        choices = _schemas(schema, key)
        fitting = sum(map(fits, choices))
        if choices and not (fitting == 1 or (fitting > 1 and key == "anyOf")):
            yield path, "Input should fit one of the allowed forms" if not fitting else "Input fits more than one form"
    if "not" in schema and fits(schema["not"]):
        yield path, "Input has a form that is not allowed"
    if "if" in schema:
        yield from _check(value, schema.get("then" if fits(schema["if"]) else "else", True), path, run, left - 1)


def _schemas(schema: Mapping[str, object], key: str) -> Sequence[object]:
    found = schema.get(key)
    return found if isinstance(found, list) else ()


def _named(schema: Mapping[str, object], key: str) -> Mapping[str, object]:
    found = schema.get(key)
    return found if isinstance(found, dict) else {}


def follow(reference: str, root: Mapping[str, object]) -> object:
    """Return what a reference names in its own schema; None where it leads nowhere, and for one to elsewhere."""
    at: object = root
    if not reference.startswith("#"):
        return None
    for part in filter(None, reference[1:].split("/")):
        if isinstance(at, list) and part in map(str, range(len(at))):
            at = at[int(part)]
        else:
            at = at.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(at, dict) else None
    return at


def _told_apart(value: object) -> Hashable:
    """Return JSON data as what is equal where the data is; in JSON true is not 1."""
    if isinstance(value, dict):
        return frozenset((name, _told_apart(member)) for name, member in value.items())
    if isinstance(value, list | tuple):
        return tuple(map(_told_apart, value))
    return (bool, value) if isinstance(value, bool) else value


def _at(path: str, part: object) -> str:
    return shown_path(f"{path}.{part}" if path else str(part))
