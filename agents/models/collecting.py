"""Owns the `Collector`, which makes one response of a stream of deltas, within bounds. Reads no stream itself."""

from __future__ import annotations

from ...protocol.errors import shorten
from ...protocol.limits import RESPONSE_CALLS_MAX, RESPONSE_CHARS_MAX
from .errors import ModelError
from .halves import clean
from .seam import Delta, Finished, ModelResponse, ReasoningDelta, TextDelta, ToolCall, ToolCallDelta, Usage

__all__ = ["Collector", "collect"]


class _Call:
    __slots__ = ("arguments", "id", "name")

    def __init__(self) -> None:
        self.id = ""
        self.name: list[str] = []
        self.arguments: list[str] = []


class Collector:
    """What a stream has said so far.

    Args:
        model: what the model is called in errors.

    Attributes:
        finished: whether `Finished` came.
    """

    __slots__ = ("_calls", "_model", "_reason", "_reasoning", "_size", "_text", "_usage", "finished")

    def __init__(self, model: str) -> None:
        self._model = model
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: dict[int, _Call] = {}
        self._usage: Usage | None = None
        self._reason: str | None = None
        self._size = 0
        self.finished = False

    def add(self, delta: Delta) -> bool:
        """Take one delta; return whether it said anything.

        Raises:
            ModelError: the response grew beyond its bounds, or this is no delta; asking again would change nothing.
        """
        if isinstance(delta, TextDelta):
            return self._say(self._text, delta.text)
        if isinstance(delta, ToolCallDelta):
            return self._call(delta)
        if isinstance(delta, ReasoningDelta):
            return self._say(self._reasoning, delta.text)
        if not (isinstance(delta, Finished) and _is_usage(delta.usage)):
            raise self._garbage(delta)
        self.finished = True
        self._usage, self._reason = delta.usage, delta.finish_reason
        return True

    def response(self, attempts: int = 1) -> ModelResponse:
        """Return what all deltas came to."""
        return ModelResponse(
            clean("".join(self._text)),
            clean("".join(self._reasoning)),
            tuple(
                ToolCall(call.id, clean("".join(call.name)), clean("".join(call.arguments)))
                for call in self._calls.values()
            ),
            self._usage,
            self._reason,
            self._model,
            attempts,
        )

    def _say(self, to: list[str], text: str) -> bool:
        if not text:
            return False
        if not isinstance(text, str):
            raise self._garbage(text)
        self._grow(len(text))
        to.append(text)
        return True

    def _call(self, delta: ToolCallDelta) -> bool:
        if not (isinstance(delta.index, int) and isinstance(delta.id, str | None)):
            raise self._garbage(delta)
        call = self._calls.get(delta.index)
        if call is None:
            if len(self._calls) >= RESPONSE_CALLS_MAX:
                raise self._too_large(f"more than {RESPONSE_CALLS_MAX} tool calls")
            # A dict keeps them in the order in which the model began them, whatever it numbers them with.
            call = self._calls[delta.index] = _Call()
        if delta.id and not call.id:
            self._grow(len(delta.id))
            call.id = delta.id
        if delta.name:
            self._say(call.name, delta.name)
        self._say(call.arguments, delta.arguments)
        return True

    def _grow(self, by: int) -> None:
        self._size += by
        if self._size > RESPONSE_CHARS_MAX:
            raise self._too_large(f"more than {RESPONSE_CHARS_MAX} characters")

    def _garbage(self, what: object) -> ModelError:
        return ModelError(f"model {self._model!r} sent {shorten(what)}, which is no delta", model=self._model)

    def _too_large(self, what: str) -> ModelError:
        return ModelError(f"model {self._model!r} sent {what} in one response", model=self._model)


def _is_usage(usage: object) -> bool:
    return usage is None or (
        isinstance(usage, Usage) and isinstance(usage.input_tokens, int) and isinstance(usage.output_tokens, int)
    )


def collect(*deltas: Delta, model: str = "") -> ModelResponse:
    """Make one response of deltas that are all there.

    Raises:
        ModelError: as `Collector.add`.
    """
    collector = Collector(model)
    for delta in deltas:
        collector.add(delta)
    return collector.response()
