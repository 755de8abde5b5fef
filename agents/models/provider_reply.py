"""Owns what pydantic-ai's events and errors mean here. Reads no stream. Only `provider.py` imports it: it needs the extra."""

from __future__ import annotations

import json
from typing import Final

from pydantic_ai.exceptions import (
    ContentFilterError,
    ModelAPIError,
    ModelHTTPError,
    ModelQuotaExceededError,
    ModelRequestRejectedError,
    UserError,
)
from pydantic_ai.messages import (
    ModelResponse,
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartEndEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
)

from .errors import ModelError
from .seam import Delta, Finished, ReasoningDelta, TextDelta, ToolCallDelta, Usage

__all__ = ["Listener", "error_of", "finished_of"]

ALIVE: Final = TextDelta("")
RETRIED: Final = frozenset({408, 409, 425, 429})  # and all from 500 on
SHOWN_MAX: Final = 400  # characters of a provider's own words


class Listener:
    """Turns the events of one stream into deltas.

    Args:
        thoughts: whether thoughts are wanted; those that are not still say that the stream is alive.
    """

    __slots__ = ("_thoughts", "_whole")

    def __init__(self, *, thoughts: bool) -> None:
        self._thoughts = thoughts
        self._whole: set[int] = set()  # calls whose arguments come as data, complete only at their end

    def heard(self, event: ModelResponseStreamEvent) -> Delta:
        """Return the delta that an event is; an empty one where it is none."""
        if isinstance(event, PartDeltaEvent):
            delta = event.delta
            if isinstance(delta, TextPartDelta):
                return TextDelta(delta.content_delta)
            if isinstance(delta, ThinkingPartDelta):
                return self._thought(delta.content_delta)
            if isinstance(delta, ToolCallPartDelta):
                pieces = delta.args_delta if isinstance(delta.args_delta, str) else ""
                return ToolCallDelta(event.index, delta.tool_call_id, delta.tool_name_delta, pieces)
        elif isinstance(event, PartStartEvent):
            part = event.part
            if isinstance(part, TextPart):
                return TextDelta(part.content)
            if isinstance(part, ThinkingPart):
                return self._thought(part.content)
            if isinstance(part, ToolCallPart):
                if isinstance(part.args, dict):
                    self._whole.add(event.index)
                pieces = part.args if isinstance(part.args, str) else ""
                return ToolCallDelta(event.index, part.tool_call_id, part.tool_name, pieces)
        elif isinstance(event, PartEndEvent) and event.index in self._whole and isinstance(event.part, ToolCallPart):
            self._whole.discard(event.index)
            arguments = event.part.args
            return ToolCallDelta(
                event.index, arguments=arguments if isinstance(arguments, str) else json.dumps(arguments)
            )
        return ALIVE

    def _thought(self, text: str | None) -> Delta:
        return ReasoningDelta(text) if text and self._thoughts else ALIVE


def finished_of(response: ModelResponse, model: str) -> Finished:
    """Return the end of a stream that was read to it.

    Args:
        response: what it came to.
        model: what the model is called in errors.

    Raises:
        ModelError: the provider did not say that this was the end, or says that it failed.
    """
    reason = response.finish_reason or (response.provider_details or {}).get("finish_reason")
    # A connection that is closed in good order looks like an end; but every provider says why it finished.
    if response.state != "complete" or reason is None:
        raise ModelError(f"the stream of model {model!r} was cut", model=model, retryable=True)
    if reason == "error":
        raise ModelError(f"model {model!r} failed in the middle of its answer", model=model, retryable=True)
    usage = response.usage
    cost = Usage(usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, dict(usage.details))
    return Finished(cost, str(reason))


def error_of(model: str, error: Exception, api_key: str | None) -> ModelError:
    """Return what a failed request means for whoever asks again.

    Args:
        model: what the model is called.
        error: the library's.
        api_key: is never shown, whatever the provider says back.
    """
    said = str(error)
    if api_key:
        said = said.replace(api_key, "[api key]")
    said = said if len(said) <= SHOWN_MAX else said[: SHOWN_MAX - 1] + "…"
    return ModelError(
        f"model {model!r} failed: {said}" if said else f"model {model!r} failed: {type(error).__name__}",
        model=model,
        status=error.status_code if isinstance(error, ModelHTTPError) else None,
        retry_after=error.retry_after if isinstance(error, ModelAPIError) else None,
        retryable=_may_pass(error),
        error_type=type(error).__name__.removeprefix("_"),
    )


def _may_pass(error: Exception) -> bool:
    # A quota that is used up comes as a 429 as well, and does not pass.
    if isinstance(error, ModelQuotaExceededError | ModelRequestRejectedError | ContentFilterError | UserError):
        return False
    if isinstance(error, ModelHTTPError):
        return error.status_code in RETRIED or error.status_code >= 500
    return True  # connections that broke, answers that nobody can read
