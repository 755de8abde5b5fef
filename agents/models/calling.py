"""Owns asking models until one answers: attempts, waits, fallbacks, time limits. Knows no provider, and stores nothing."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ...protocol.errors import CallerError, InvalidInput, kind_of, shorten, text_of
from ...protocol.limits import (
    FIRST_CHUNK_TIMEOUT_S,
    RETRY_AFTER_MAX_S,
    SECONDS_MAX,
    STALL_TIMEOUT_S,
    STREAM_CLOSE_TIMEOUT_S,
)
from .collecting import Collector
from .errors import ModelError
from .patience import Overdue, within
from .seam import Attachment, Delta, LanguageModel, ModelMessage, ModelRequest, ModelResponse

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from ...actors.clock import TimerService

__all__ = ["ResolvedModel", "call"]

logger = logging.getLogger("treadle")

_BURST: Final = 64  # deltas that are taken at once


@dataclass(frozen=True, slots=True)
class ResolvedModel:
    """One model of a chain of fallbacks, ready to be asked.

    Attributes:
        name: its definition's.
        attempts: how often it is asked before the next one is.
        first_delay: seconds before the second attempt, doubled before each further one.
        settings: its own; those of a request win over them.
        vision: whether it takes pictures; without, it is told only that there is one.
    """

    model: LanguageModel
    name: str
    attempts: int = 2
    first_delay: float = 1.0
    settings: Mapping[str, object] = field(default_factory=dict)
    vision: bool = True


async def call(
    models: Sequence[ResolvedModel], request: ModelRequest, *, begin: Callable[[str], object],
    sleep: Callable[[float], Awaitable[object]], clock: TimerService, on_delta: Callable[[Delta], object],
    on_restart: Callable[[], object] | None = None, on_failure: Callable[[ModelError], object] | None = None,
    first_chunk_timeout: float = FIRST_CHUNK_TIMEOUT_S, stall_timeout: float = STALL_TIMEOUT_S,
) -> ModelResponse:  # fmt: skip
    """Ask the models in order until one answers (contract E.5); on the loop.

    A cancellation, like all that is no `Exception`, ends the call at once, the provider's stream closed before.

    Args:
        models: the chain, the preferred one first.
        request: what to ask; `model_name`, `attempt` and its settings are filled in for each attempt.
        begin: called with "model request" before each attempt; what it raises ends the call.
        sleep: waits so many seconds: `execution.sleep`.
        clock: where the time limits are set: the runtime's timers.
        on_delta: gets each delta that says something, as it comes; what it raises ends the call.
        on_restart: called when deltas of a failed attempt were handed out and another attempt follows: they are void.
        on_failure: gets the error of each failed attempt, its text not redacted.
        first_chunk_timeout: seconds for the first delta of an attempt.
        stall_timeout: seconds for each further one.

    Returns:
        The response, which is empty where the model returned nothing.

    Raises:
        ModelError: no model answered; the last attempt's, its detail `attempts` says how many there were.
        InvalidInput: `invalid_model`: there is none to ask.
    """
    if not models:
        raise InvalidInput("a request needs a model to ask", code="invalid_model")
    asked = 0
    last = cause = None
    for rank, resolved in enumerate(models):
        for number in range(1, max(1, resolved.attempts) + 1):
            begin("model request")
            asked += 1
            attempt = _Attempt(resolved, clock, on_delta, first_chunk_timeout, stall_timeout)
            try:
                return (await attempt.run(addressed(request, resolved, number))).response(asked)
            except ModelError as error:
                # Under the name that whoever asked knows; an adapter has its own.
                last, cause = error.again(model=resolved.name), error
            if on_failure is not None:
                on_failure(last)
            wait = _wait(last, resolved, number)
            if wait is None and rank + 1 == len(models):
                break
            if attempt.told and on_restart is not None:
                on_restart()
            if wait is None:
                break
            await sleep(wait)
    assert last is not None
    raise last.again(attempts=asked) from cause


def addressed(request: ModelRequest, resolved: ResolvedModel, attempt: int) -> ModelRequest:
    """Return a request as one model gets it: under its name, with its settings, without pictures if it sees none."""
    messages = request.messages
    if not resolved.vision and any(any(a.is_image for a in message.attachments) for message in messages):
        messages = tuple(_without_pictures(message) for message in messages)
    settings = {**resolved.settings, **request.settings} if resolved.settings else request.settings
    return ModelRequest(
        messages, request.tools, request.tool_choice, request.parallel_tool_calls, settings, request.reasoning,
        request.provider_options, resolved.name, attempt,
    )  # fmt: skip


def _without_pictures(message: ModelMessage) -> ModelMessage:
    """Leave a picture its name: an attachment without contents."""
    seen = tuple(Attachment(a.name, a.mime_type, path=a.path) if a.is_image else a for a in message.attachments)
    return ModelMessage(
        message.role, message.content, message.tool_calls, message.tool_call_id, message.name, seen, message.id,
        message.reasoning, message.failed,
    )  # fmt: skip


def _wait(error: ModelError, resolved: ResolvedModel, number: int) -> float | None:
    """Return the seconds before this model is asked again; None when it is not."""
    if error.stalled or not error.retryable or number >= resolved.attempts:
        return None
    said = error.retry_after
    if said is not None and math.isfinite(said) and said > 0:
        return said if said <= RETRY_AFTER_MAX_S else None
    return min(resolved.first_delay * 2.0 ** (number - 1), SECONDS_MAX)


class _Attempt:
    """One request to one model; `told` says whether any delta was handed out."""

    __slots__ = ("_first", "_name", "_on_delta", "_resolved", "_stall", "_timers", "told")

    def __init__(
        self, resolved: ResolvedModel, timers: TimerService, on_delta: Callable[[Delta], object], first: float, stall: float
    ) -> None:  # fmt: skip
        self._resolved = resolved
        self._name = resolved.name
        self._timers = timers
        self._on_delta = on_delta
        self._first = first
        self._stall = stall
        self.told = False

    async def run(self, request: ModelRequest) -> Collector:
        """Read the stream to its end; close it, whatever happens."""
        try:
            stream = self._resolved.model.stream(request)
        except Exception as error:
            raise _failed(self._name, error) from error
        collector = Collector(self._name)
        limit = self._first
        try:
            count = 0
            while not collector.finished:
                count += 1
                if count % _BURST == 0:
                    # A stream whose deltas are there already never waits, and would keep the loop from all others.
                    await asyncio.sleep(0)
                delta = await self._next(stream, limit)
                limit = self._stall
                if collector.add(delta):
                    self.told = True
                    self._on_delta(delta)
        finally:
            await self._close(stream)
        return collector

    async def _next(self, stream: AsyncGenerator[Delta, None], limit: float) -> Delta:
        name = self._name
        try:
            return await within(anext(stream), limit, self._timers)
        except StopAsyncIteration:
            raise ModelError(f"the stream of model {name!r} was cut", model=name, retryable=True) from None
        except Overdue:
            raise ModelError(f"model {name!r} was silent for {limit:g} s", model=name, stalled=True) from None
        except ModelError:
            raise
        except Exception as error:
            raise _failed(name, error) from error

    async def _close(self, stream: AsyncGenerator[Delta, None]) -> None:
        try:
            await within(stream.aclose(), STREAM_CLOSE_TIMEOUT_S, self._timers)
        except Exception as error:  # noqa: BLE001 - the response, or what went wrong before, matters more
            # Without its text, which may hold what the provider was sent.
            logger.warning("Closing the stream of model %s failed: %s", self._name, kind_of(error))


def _failed(name: str, error: Exception) -> ModelError:
    # A caller's error comes again with the same request; of all else a model raises nothing is known.
    return ModelError(
        f"model {name!r} raised {kind_of(error)}: {shorten(text_of(error), 400)}",
        model=name,
        retryable=not issubclass(type(error), CallerError),
        error_type=kind_of(error),
    )
