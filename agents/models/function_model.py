"""Owns `FunctionModel`, a Python function that answers in place of a model. Asks nobody else, and retries nothing."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Iterator
from typing import TypeAlias

from ...protocol.errors import InvalidInput, shorten
from .seam import (
    Delta,
    Finished,
    ModelRequest,
    ModelResponse,
    ReasoningDelta,
    TextDelta,
    ToolCall,
    ToolCallDelta,
)

__all__ = ["Answer", "FunctionModel", "Piece", "deltas_of", "pieces_of"]

Piece: TypeAlias = "str | ToolCall | Delta"
Answer: TypeAlias = "str | ToolCall | ModelResponse | Iterable[Piece] | AsyncIterable[Piece] | None"

_DELTAS = (TextDelta, ReasoningDelta, ToolCallDelta, Finished)


class FunctionModel:
    """A function as a model: embedded, offline, and asked on the event loop, so a plain one must be quick.

    Args:
        function: called with each request. It returns text, a tool call, a whole response, or pieces of one: an iterable
            of texts, calls and deltas, made by a generator if it streams; None for nothing. Coroutine functions and async
            generators stream as their answer comes, and are closed with the stream.
        name: what it is called in errors, by default as the function.

    Raises:
        InvalidInput: `invalid_model` for what cannot be called.
    """

    def __init__(self, function: Callable[[ModelRequest], Answer | Awaitable[Answer]], name: str | None = None) -> None:
        if not callable(function):
            raise InvalidInput(
                f"a model needs a function of one request, not {shorten(function)}",
                code="invalid_model",
                value=shorten(function),
            )
        self.function = function
        self.name = name or getattr(function, "__name__", None) or type(function).__name__

    async def stream(self, request: ModelRequest, /) -> AsyncGenerator[Delta, None]:
        """Answer a request; `Finished` is added where the function gives none.

        Raises:
            InvalidInput: `invalid_response`: the function returned something else.
        """
        answer = self.function(request)
        if inspect.isawaitable(answer):
            answer = await answer
        deltas = deltas_of(answer, self.name)
        try:
            async for delta in deltas:
                yield delta
        finally:
            await deltas.aclose()

    def __repr__(self) -> str:
        return f"<model {self.name!r}>"


async def deltas_of(answer: Answer, model: str) -> AsyncGenerator[Delta, None]:
    """Make a stream of deltas of what a function returned, `Finished` last.

    Args:
        answer: the answer; one that streams is closed with the stream.
        model: what the model is called in errors.

    Raises:
        InvalidInput: `invalid_response`: it is no answer.
    """
    pieces = pieces_of(answer, model)
    calls = 0
    try:
        async for piece in pieces:
            delta = _delta(piece, calls, model)
            if isinstance(delta, ToolCallDelta):
                calls = max(calls, delta.index + 1)
            yield delta
            if isinstance(delta, Finished):
                return
        yield Finished(finish_reason="tool_calls" if calls else "stop")
    finally:
        await pieces.aclose()


def _delta(piece: Piece, calls: int, model: str) -> Delta:
    if isinstance(piece, str):
        return TextDelta(piece)
    if isinstance(piece, ToolCall):
        return ToolCallDelta(calls, piece.id, piece.name, piece.arguments)
    if isinstance(piece, _DELTAS):
        return piece
    raise _refuse(piece, model)


async def pieces_of(answer: Answer, model: str) -> AsyncGenerator[Piece, None]:
    """Take an answer apart, without a look at the pieces; an answer that streams is closed with this.

    Raises:
        InvalidInput: `invalid_response`: it has no pieces.
    """
    if answer is None:
        return
    if isinstance(answer, (str, ToolCall, *_DELTAS)):
        yield answer
    elif isinstance(answer, ModelResponse):
        for piece in _whole(answer):
            yield piece
    elif isinstance(answer, AsyncIterable):
        coming: AsyncIterator[Piece] = aiter(answer)
        try:
            async for piece in coming:
                yield piece
        finally:
            if isinstance(coming, AsyncGenerator):
                await coming.aclose()
    elif isinstance(answer, Iterable) and not isinstance(answer, bytes | dict):
        made: Iterator[Piece] = iter(answer)
        try:
            for piece in made:
                yield piece
        finally:
            if inspect.isgenerator(made):
                made.close()
    else:
        raise _refuse(answer, model)


def _whole(response: ModelResponse) -> Iterator[Piece]:
    if response.reasoning:
        yield ReasoningDelta(response.reasoning)
    if response.text:
        yield response.text
    yield from response.tool_calls
    yield Finished(response.usage, response.finish_reason)


def _refuse(value: object, model: str) -> InvalidInput:
    return InvalidInput(
        f"model {model!r} must answer with text, tool calls, a response or deltas, not {shorten(value)}",
        code="invalid_response",
        model=model,
        value=shorten(value),
    )
