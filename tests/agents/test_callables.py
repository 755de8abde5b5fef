"""Tests agents/callables.py: which functions there are, where they run, what they are called."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from treadle.agents.callables import name_of, place_of
from treadle.protocol.errors import InvalidInput


async def on_loop(state: object) -> None: ...


def on_worker(state: object) -> None: ...


class Callable:
    async def __call__(self, state: object) -> None: ...

    def method(self, state: object) -> None: ...


async def stream(state: object) -> Any:
    yield 1


@pytest.mark.parametrize(
    ("function", "place", "name"),
    [
        (on_loop, "loop", "on_loop"),
        (on_worker, "worker", "on_worker"),
        (Callable(), "loop", "Callable"),
        (Callable().method, "worker", "method"),
        (partial(on_loop), "loop", "on_loop"),
        (partial(partial(on_worker)), "worker", "on_worker"),
        (len, "worker", "len"),
    ],
)
def test_a_function_of_any_form_has_a_place_and_a_name(function: object, place: str, name: str) -> None:
    assert place_of(function, "it", code="invalid_tool") == place
    assert name_of(function, None, "it", code="invalid_tool") == name
    assert name_of(function, "given", "it", code="invalid_tool") == "given"


@pytest.mark.parametrize("wrong", [stream, Callable, 3, None, "on_loop"])
def test_what_cannot_be_called_is_refused(wrong: object) -> None:
    with pytest.raises(InvalidInput):
        place_of(wrong, "it", code="invalid_tool")


def test_a_lambda_and_an_empty_name_are_refused() -> None:
    with pytest.raises(InvalidInput, match="give name="):
        name_of(lambda: None, None, "it", code="invalid_tool")
    with pytest.raises(InvalidInput):
        name_of(on_loop, "", "it", code="invalid_tool")
