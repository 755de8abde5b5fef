"""Owns what callers get wrong: values, ids, contents, each with the code of its error. Calls nothing itself."""

from __future__ import annotations

import collections
import datetime as dt
import decimal
import enum
import math
from typing import TYPE_CHECKING, Any

import pytest

from tests.scenarios.scene import PATIENCE_S, contents
from treadle.protocol.errors import InvalidInput, LimitExceeded

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.scenarios.scene import Scene
    from treadle.actors import Reply
    from treadle.protocol.errors import TreadleError

MIB = 1 << 20


class Color(enum.IntEnum):
    RED = 1


class Text(str):
    __slots__ = ()


class Broken:
    def __repr__(self) -> str:
        raise ValueError("not even that")


def deep(levels: int) -> Any:
    value: Any = {}
    for _ in range(levels - 1):
        value = {"k": value}
    return value


def endless() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


BAD_VALUES: dict[str, Any] = {
    "an integer above the largest": 2**63,
    "an integer below the smallest": -(2**63) - 1,
    "a huge integer": 10**5_000,
    "not a number": math.nan,
    "infinity": math.inf,
    "minus infinity": -math.inf,
    "a surrogate": "\ud800",
    "bytes": b"x",
    "a byte array": bytearray(b"x"),
    "a set": {1},
    "an object": object(),
    "a class": int,
    "a function": deep,
    "a complex number": 1j,
    "a decimal": decimal.Decimal(1),
    "a date": dt.date(2026, 1, 1),
    "an enumeration": Color.RED,
    "a kind of string": Text("x"),
    "a kind of dict": collections.OrderedDict(),
    "a kind of list": collections.UserList([1]),
    "a generator": iter(()),
    "what cannot be shown": Broken(),
    "an integer key": {1: "x"},
    "no key": {None: "x"},
    "a surrogate key": {"\udfff": "x"},
    "a key of a kind of string": {Text("k"): "x"},
    "too deep a dict": deep(65),
    "a circle": endless(),
}
TOO_LARGE: dict[str, Any] = {
    "a long string": "x" * (MIB + 1),
    "a long string of wide characters": "🧵" * (MIB // 4 + 1),
    "many small ones": [0] * 120_000,
    "many keys": {f"{n:08}": None for n in range(75_000)},
    "a long key": {"x" * (MIB + 1): None},
}

BAD_IDS: list[Any] = [
    "", " ", " x", "x ", "x\n", "a\nb", "\x7f", "\x00", "é", "\ud800", "x" * 129, 5, 1.5, True, b"x", ["x"], {"x": 1}, object(),
]  # fmt: skip

BAD_CONTENT: list[tuple[Any, str]] = [
    ("", "empty_content"),
    ([], "empty_content"),
    ((), "empty_content"),
    ([""], "empty_content"),
    (["x", ""], "empty_content"),
    ([{"role": "user"}], "empty_content"),
    ([{"content": None}], "empty_content"),
    (None, "invalid_content"),
    (5, "invalid_content"),
    (b"bytes", "invalid_content"),
    ({"content": "x"}, "invalid_content"),
    (object(), "invalid_content"),
    ({"x"}, "invalid_content"),
    ((text for text in ("x",)), "invalid_content"),
    ([None], "invalid_content"),
    ([5], "invalid_content"),
    ([["x"]], "invalid_content"),
    ([{"content": 5}], "invalid_content"),
    ([{"content": b"x"}], "invalid_content"),
    ([{"content": ["x"]}], "invalid_content"),
    ("\ud800", "invalid_content"),
    ("fine up to here \udfff", "invalid_content"),
    ([{"content": "x", "id": "mine"}], "invalid_content"),
    ([{"content": "x", "created_at": 5}], "invalid_content"),
    ([{"content": "x", 5: 5}], "invalid_content"),
    ([{"content": "x", "silent": "yes"}], "invalid_content"),
    ([{"content": "x", "silent": 1}], "invalid_content"),
    ([{"content": "x", "name": 5}], "invalid_content"),
    ([{"content": "x", "metadata": "x"}], "invalid_value"),
    ([{"content": "x", "metadata": [1]}], "invalid_value"),
    ([{"content": "x", "attachments": "x"}], "invalid_value"),
    ([{"content": "x", "attachments": {"n": 1}}], "invalid_value"),
    ([{"content": "x", "attachments": ["x"]}], "invalid_value"),
    ([{"content": "x", "role": "robot"}], "invalid_role"),
    ([{"content": "x", "role": None}], "invalid_role"),
    ([{"content": "x", "role": ["user"]}], "invalid_role"),
    ([{"content": "x", "role": "system"}], "invalid_role"),
    ([{"content": "x", "role": "tool"}], "invalid_role"),
]
TOO_MUCH: list[tuple[Any, str]] = [
    ("x" * (MIB + 1), "message_bytes"),
    ("é" * (MIB // 2 + 1), "message_bytes"),
    (["x"] * 257, "messages_per_input"),
    (["x" * MIB] * 4, "input_bytes"),
    ([{"content": "x", "attachments": [{}] * 257}], "attachments"),
    ([{"content": "x", "metadata": {"k": "x" * (MIB + 1)}}], "value_bytes"),
    ([{"content": "x", "attachments": [{"k": "x" * (MIB + 1)}]}], "value_bytes"),
]


class Refusals:
    """Checks that calls are refused through their replies, with their codes, and that nothing was written by any."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._before = contents(scene.store)

    def refused(self, call: Callable[[], Reply[Any]], error: type[TreadleError], code: str, case: object) -> Any:
        """Return the details of the error that a call ends with."""
        reply = call()  # all errors come through the reply
        with pytest.raises(error) as refused:
            reply.result(PATIENCE_S)
        assert refused.value.code == code, case
        assert len(str(refused.value)) < 1_000, case
        wire = refused.value.to_wire()
        assert wire["code"] == code
        return refused.value.details

    def invalid(self, call: Callable[[], Reply[Any]], code: str, case: object) -> Any:
        """The same for malformed input: the error shows what was given, shortened."""
        details = self.refused(call, InvalidInput, code, case)
        assert 0 < len(details["value"]) <= 80, case
        return details

    def over(self, call: Callable[[], Reply[Any]], limit: str, case: object) -> None:
        """The same for what is too much: the error names the limit and what was met."""
        details = self.refused(call, LimitExceeded, "limit_exceeded", case)
        assert details["limit"] == limit, case
        assert details["met"] > details["maximum"], case

    def nothing_was_written(self) -> None:
        assert contents(self._scene.store) == self._before
