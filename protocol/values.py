"""Owns what a value may be: the one check of JSON data at every entry. Stores nothing, converts only tuples.

A value is null, bool, an int in [-2**63, 2**63), a finite float, a string without surrogates, a list, or a dict with
such string keys; at most 64 deep. Tuples are taken as lists. Nothing else is converted (semantics 11).
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

from .errors import InvalidInput, LimitExceeded, shorten
from .limits import VALUE_BYTES_MAX, VALUE_DEPTH_MAX

__all__ = ["JsonObject", "Value", "check_thread_value", "check_value"]

_PATH_SHOWN = 200  # characters of a path in an error
Value: TypeAlias = "None | bool | int | float | str | list[Value] | dict[str, Value]"
JsonObject: TypeAlias = dict[str, Any]  # as read and as checked: `Value` would make every reader narrow every field


def check_value(value: object, *, path: str = "$", bytes_max: int = VALUE_BYTES_MAX) -> Value:
    """Return a deep copy of JSON data, or say where and how it is not.

    Runs on the caller's worker, before the mailbox. The copy makes later changes by the caller harmless.

    Raises:
        InvalidInput: `invalid_value`, with the path and the offending value shortened.
        LimitExceeded: larger than `bytes_max` once encoded.
    """
    budget = [bytes_max, bytes_max]
    return _copy(value, path, VALUE_DEPTH_MAX, budget)


def check_thread_value(value: object) -> Value:
    """Return a deep copy of what is set as a value of a thread; its errors say so, and then where (contract D.5).

    Raises:
        InvalidInput, LimitExceeded: as `check_value`.
    """
    try:
        return check_value(value)
    except InvalidInput as error:
        place, shown = error.details["path"], error.details["value"]
        why = error.message.removesuffix(f" at {place}: {shown}")
        raise InvalidInput(
            f"Thread value at {place}: {why}: {shown}", code=error.code, path=place, value=shown
        ) from None
    except LimitExceeded as error:
        details = error.details
        raise LimitExceeded(
            f"Thread value at {details['path']}: {details['met']} bytes and more; the limit value_bytes is "
            f"{details['maximum']}",
            **details,
        ) from None


def _place(path: str) -> str:
    # A key may be as long as a value; its end names the place as well.
    return path if len(path) <= _PATH_SHOWN else "…" + path[1 - _PATH_SHOWN :]


def _refuse(path: str, value: object, why: str) -> InvalidInput:
    place = _place(path)
    return InvalidInput(f"{why} at {place}: {shorten(value)}", code="invalid_value", path=place, value=shorten(value))


def _spend(budget: list[int], size: int, path: str) -> None:
    budget[0] -= size
    if budget[0] < 0:
        left, maximum = budget
        raise LimitExceeded(
            f"the value has {maximum - left} bytes and more at {_place(path)}; the limit value_bytes is {maximum}",
            limit="value_bytes",
            maximum=maximum,
            met=maximum - left,
            path=_place(path),
        )


def _copy(value: object, path: str, depth: int, budget: list[int]) -> Value:
    # `type(...) is` on purpose: a subclass (an enum, a numpy scalar, a str with more) would not come back as it went in.
    kind = type(value)
    if value is None or kind is bool:
        _spend(budget, 1, path)
        return value  # type: ignore[return-value]
    if kind is int:
        _spend(budget, 9, path)
        if -(2**63) <= value < 2**63:  # type: ignore[operator]
            return value  # type: ignore[return-value]
        raise _refuse(path, value, "an integer must lie in [-2**63, 2**63)")
    if kind is float:
        _spend(budget, 9, path)
        if math.isfinite(value):  # type: ignore[arg-type]
            return value  # type: ignore[return-value]
        raise _refuse(path, value, "a number must be finite")
    if kind is str:
        return _copy_string(value, path, budget)  # type: ignore[arg-type]
    if kind in (list, tuple, dict):
        if depth <= 0:
            raise _refuse(path, type(value).__name__, f"a value is at most {VALUE_DEPTH_MAX} deep")
        _spend(budget, 5, path)
        path = _place(path)  # every item copies it, and it may have grown by keys of a megabyte
        if kind is dict:
            return {
                _copy_key(key, path, budget): _copy(item, f"{path}.{key}", depth - 1, budget)
                for key, item in value.items()  # type: ignore[attr-defined]
            }
        items: list[object] = list(value)  # type: ignore[call-overload]
        return [_copy(item, f"{path}[{index}]", depth - 1, budget) for index, item in enumerate(items)]
    raise _refuse(path, value, f"not JSON data ({kind.__name__})")


def _copy_string(value: str, path: str, budget: list[int]) -> str:
    try:
        size = len(value) if value.isascii() else len(value.encode())
    except UnicodeEncodeError:
        raise _refuse(path, value, "a string must be valid Unicode, without surrogates") from None
    _spend(budget, size + 5, path)
    return value


def _copy_key(key: object, path: str, budget: list[int]) -> str:
    if type(key) is not str:
        raise _refuse(path, key, "a dict key must be a string")
    return _copy_string(key, f"{path}.{shorten(key, 40)}", budget)
