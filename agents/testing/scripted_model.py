"""Owns `ScriptedModel`, which answers what a test says and keeps what it was asked. Never sleeps, and calls no provider."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Iterable
from typing import Final, TypeAlias, cast

from ...actors.bell import Bell
from ..models.errors import ModelError
from ..models.function_model import Answer, Piece, deltas_of, pieces_of
from ..models.seam import Delta, Finished, ModelRequest, ModelResponse, ToolCall

__all__ = ["Pause", "ScriptedModel", "Turn"]

GUARD_S: Final = 30.0  # real seconds that a test waits for what must come; only a broken one waits so long

Part: TypeAlias = "Piece | Pause | Exception"
Said: TypeAlias = "str | ToolCall | ModelResponse | Iterable[Part] | AsyncIterable[Part] | Exception | Pause | None"
Turn: TypeAlias = "Said | Callable[[ModelRequest], Said | Awaitable[Said]]"

_OVER: Final = ModelError("the script is over", model="scripted")


class Pause:
    """A place in a turn where the model is silent until a test says so; one never released is a stalled stream."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._bell = Bell()
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []
        self._reached = self._released = False

    async def wait(self) -> None:
        """Wait for `release`; the model's to call, on the loop."""
        loop = asyncio.get_running_loop()
        with self._lock:
            released = self._released
            if not released:
                future = loop.create_future()
                self._waiting.append((loop, future))
            self._reached = True
        self._bell.ring()
        if not released:
            await future

    def release(self) -> None:
        """Let the model go on, now and whenever it comes here again; any worker, never blocks."""
        with self._lock:
            self._released = True
            waiting, self._waiting = self._waiting, []
        for loop, future in waiting:
            if not loop.is_closed():
                loop.call_soon_threadsafe(_wake, future)

    def reached(self, timeout: float = GUARD_S) -> None:
        """Block until the model is here.

        Args:
            timeout: real seconds, a guard only.

        Raises:
            AssertionError: it did not come.
        """
        if not self._bell.wait_until(lambda: self._reached, timeout):
            raise AssertionError(f"the model did not reach its pause within {timeout:g} s")


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class ScriptedModel:
    """A model that plays one turn for each request.

    Args:
        turns: each is text, a call, a response, an error to raise, a `Pause`, a function of the request, None for
            nothing, or a list of these pieces and of deltas: `["One mo", pause, "ment", ToolCall("c1", "look")]`.
        otherwise: the turn for every request beyond them; by default such a request fails, and is not repeated.
        name: what it is called in errors.

    Attributes:
        requests: those that came, oldest first.
        finished: how many streams were read to their end.
        closed: how many were closed before, by a cancellation or a time limit.
    """

    def __init__(self, *turns: Turn, otherwise: Turn = _OVER, name: str = "scripted") -> None:
        self.name = name
        self.requests: list[ModelRequest] = []
        self.finished = self.closed = 0
        self._turns = list(turns)
        self._otherwise = otherwise
        self._lock = threading.RLock()
        self._bell = Bell()
        self._next = 0

    def add(self, *turns: Turn) -> None:
        """Append turns to the script; any worker."""
        with self._lock:
            self._turns.extend(turns)

    def next(self, timeout: float = GUARD_S) -> ModelRequest:
        """Return the first request that this did not return yet; blocks until there is one.

        Args:
            timeout: real seconds, a guard only.

        Raises:
            AssertionError: none came.
        """
        taken: list[ModelRequest] = []

        def take() -> bool:
            with self._lock:
                if len(self.requests) > self._next:
                    taken.append(self.requests[self._next])
                    self._next += 1
            return bool(taken)

        if not self._bell.wait_until(take, timeout):
            raise AssertionError(f"no request beyond the {self._next} seen came within {timeout:g} s")
        return taken[0]

    def wait_closed(self, count: int = 1, timeout: float = GUARD_S) -> None:
        """Block until so many streams were closed before their end.

        Raises:
            AssertionError: they were not, within `timeout` real seconds.
        """
        if not self._bell.wait_until(lambda: self.closed >= count, timeout):
            raise AssertionError(f"{self.closed} streams were closed within {timeout:g} s, not {count}")

    async def stream(self, request: ModelRequest, /) -> AsyncGenerator[Delta, None]:
        """Play the next turn.

        Raises:
            ModelError: the script is over.
        """
        turn = self._take(request)
        done = False
        deltas = deltas_of(_played(turn, request, self.name), self.name)
        try:
            async for delta in deltas:
                done = done or isinstance(delta, Finished)
                yield delta
        except Exception:
            done = True  # the script says so, and nobody closed it
            raise
        finally:
            await deltas.aclose()
            self._ended(done)

    def _take(self, request: ModelRequest) -> Turn:
        with self._lock:
            rank = len(self.requests)
            self.requests.append(request)
            turn = self._turns[rank] if rank < len(self._turns) else self._otherwise
        self._bell.ring()
        if turn is _OVER:
            raise ModelError(f"the script has {len(self._turns)} turns; this is request {rank + 1}", model=self.name)
        return turn

    def _ended(self, done: bool) -> None:
        with self._lock:
            if done:
                self.finished += 1
            else:
                self.closed += 1
        self._bell.ring()


async def _played(turn: Turn, request: ModelRequest, name: str) -> AsyncGenerator[Piece, None]:
    """Play a turn piece by piece: pauses wait, errors are raised, the rest is what a function might return."""
    said: Said
    if callable(turn):
        made = turn(request)
        said = await made if inspect.isawaitable(made) else made
    else:
        said = turn
    pieces = pieces_of(cast("Answer", [said] if isinstance(said, Pause | Exception) else said), name)
    try:
        async for piece in cast("AsyncGenerator[Piece | Pause | Exception, None]", pieces):
            if isinstance(piece, Pause):
                await piece.wait()
            elif isinstance(piece, Exception):
                raise piece
            else:
                yield piece
    finally:
        await pieces.aclose()
