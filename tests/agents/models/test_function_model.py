"""A Python function that answers in place of a model: agents/models/function_model.py."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from tests.agents.models.asking import HELLO
from treadle.agents.models import (
    Finished,
    ModelRequest,
    ModelResponse,
    ReasoningDelta,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    Usage,
)
from treadle.agents.models.function_model import FunctionModel
from treadle.protocol.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from treadle.agents.models import Delta

CALL = ToolCall("c1", "look", '{"x":1}')
CALLS_MADE = Finished(None, "tool_calls")
CUT_SHORT = Finished(Usage(1), "length")
CALLED = ToolCallDelta(0, "c1", "look", '{"x":1}')


def play(model: FunctionModel) -> list[Delta]:
    async def read() -> list[Delta]:
        return [delta async for delta in model.stream(HELLO)]

    return asyncio.run(read())


async def coroutine(request: ModelRequest) -> str:
    return f"{request.messages[0].content} you"


def generator(request: ModelRequest) -> Iterator[str | ToolCall]:
    yield "a"
    yield CALL


async def async_generator(request: ModelRequest) -> AsyncIterator[str]:
    yield "a"
    yield "b"


@pytest.mark.parametrize(
    ("function", "deltas"),
    [
        (lambda _: None, [Finished(None, "stop")]),
        (lambda _: "hi", [TextDelta("hi"), Finished(None, "stop")]),
        (lambda _: CALL, [CALLED, CALLS_MADE]),
        (lambda _: [CALL, "a", CALL], [CALLED, TextDelta("a"), ToolCallDelta(1, "c1", "look", CALL.arguments), CALLS_MADE]),
        (lambda _: ModelResponse("t", "r", (CALL,), Usage(1), "length"), [ReasoningDelta("r"), TextDelta("t"), CALLED, CUT_SHORT]),
        (lambda _: [Finished(Usage(2)), "never"], [Finished(Usage(2))]),
        (coroutine, [TextDelta("hello you"), Finished(None, "stop")]),
        (generator, [TextDelta("a"), CALLED, CALLS_MADE]),
        (async_generator, [TextDelta("a"), TextDelta("b"), Finished(None, "stop")]),
    ],
)  # fmt: skip
def test_every_kind_of_answer_becomes_a_stream(function: object, deltas: list[Delta]) -> None:
    assert play(FunctionModel(function)) == deltas  # type: ignore[arg-type]


@pytest.mark.parametrize("answer", [7, b"bytes", {"role": "assistant"}, [7], ["a", None]])
def test_anything_else_is_refused(answer: object) -> None:
    with pytest.raises(InvalidInput) as refused:
        play(FunctionModel(lambda _: answer, name="odd"))  # type: ignore[arg-type,return-value]

    assert (refused.value.code, refused.value.details["model"]) == ("invalid_response", "odd")


def test_calls_of_a_function_never_share_a_place_with_those_it_numbers_itself() -> None:
    deltas = play(FunctionModel(lambda _: [ToolCallDelta(4, "a", "x"), CALL]))

    assert [delta.index for delta in deltas if isinstance(delta, ToolCallDelta)] == [4, 5]


@pytest.mark.parametrize("kind", ["generator", "async generator"])
def test_closing_the_stream_closes_the_function(kind: str) -> None:
    log: list[str] = []

    def pieces(request: ModelRequest) -> Iterator[str]:
        try:
            yield from "abc"
        finally:
            log.append("closed")

    async def async_pieces(request: ModelRequest) -> AsyncIterator[str]:
        try:
            yield "a"
            yield "b"
        finally:
            log.append("closed")

    async def read() -> None:
        stream = FunctionModel(pieces if kind == "generator" else async_pieces).stream(HELLO)
        await anext(stream)
        await stream.aclose()

    asyncio.run(read())

    assert log == ["closed"]


def test_a_model_is_called_as_its_function_or_as_it_is_told() -> None:
    assert (FunctionModel(coroutine).name, FunctionModel(coroutine, "other").name) == ("coroutine", "other")
    assert repr(FunctionModel(coroutine)) == "<model 'coroutine'>"


def test_what_cannot_be_called_is_no_model() -> None:
    with pytest.raises(InvalidInput) as refused:
        FunctionModel("hello")  # type: ignore[arg-type]

    assert refused.value.code == "invalid_model"
