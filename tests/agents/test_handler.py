"""Tests agents/handler.py: a function of state and message becomes a handler, under a name."""

from __future__ import annotations

from functools import partial

import pytest

from treadle.agents import Handler, handler
from treadle.protocol.errors import InvalidInput


def test_a_coroutine_function_runs_on_the_loop_and_a_plain_one_on_a_worker() -> None:
    """Contract E.6 handler: a handler is code of state and message."""

    @handler
    async def relay(state: object, message: object) -> None: ...

    @handler(name="log")
    def write(state: object, message: object) -> str:
        return f"{state} {message}"

    assert (relay.name, relay.runs_on) == ("relay", "loop")
    assert (write.name, write.runs_on) == ("log", "worker")
    assert write("s", "m") == "s m"  # type: ignore[arg-type]
    assert repr(write) == "<handler 'log' on a worker>"


def test_what_is_no_function_or_has_no_name_is_refused() -> None:
    def stream(state: object, message: object) -> object:
        yield 1

    for wrong in (3, stream, int, lambda state, message: None):
        with pytest.raises(InvalidInput) as caught:
            handler(wrong)  # type: ignore[arg-type, call-overload]
        assert caught.value.code == "invalid_handler"


def test_a_partial_has_the_name_of_its_function() -> None:
    def write(where: str, state: object, message: object) -> None: ...

    made: Handler = handler(partial(write, "log"))

    assert made.name == "write"
