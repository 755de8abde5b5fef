"""Owns the live frames of the step loop (contract H.2): what they hold. They are stored nowhere and never fail a step."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from ..protocol.errors import TreadleError
from .models.halves import JoinedStream
from .models.seam import ReasoningDelta, TextDelta

if TYPE_CHECKING:
    from .flow import Flow
    from .models.seam import Delta
    from .redaction import Redactor

__all__ = ["Chunks", "show"]

logger = logging.getLogger("treadle")

_CHUNK_MAX: Final = 32_768  # characters of one frame, which holds at most 256 KiB


def show(flow: Flow, kind: str, **fields: object) -> None:
    """Show a frame to those who watch the thread; nothing is made of it while nobody does."""
    execution = flow.execution
    if execution.entry.watch is None:
        return
    # Milliseconds, as the frames of this stream always had (contract I.28).
    frame = {"type": kind, **fields, "timestamp": execution.services.clock.now_us() // 1_000}
    _emit(flow, frame)


def _emit(flow: Flow, frame: dict[str, object]) -> None:
    try:
        flow.execution.emit(frame)
    except TreadleError as error:
        logger.warning("A %s frame of %s is left out: %s", frame["type"], flow.execution.thread_id, error.code)


class Chunks:
    """The pieces of one message as they are shown, without secrets, one that is split between pieces included."""

    __slots__ = ("_flow", "_message_id", "_reasoning", "_redactor", "_text", "_told")

    def __init__(self, flow: Flow, message_id: str, redactor: Redactor) -> None:
        self._flow = flow
        self._message_id = message_id
        self._redactor = redactor
        self._text = _Shown(redactor)
        self._reasoning = _Shown(redactor)
        self._told = False

    def take(self, delta: Delta) -> None:
        """Show what may be shown of a delta by now."""
        if isinstance(delta, TextDelta):
            self._show("message_chunk", self._text.feed(delta.text))
        elif isinstance(delta, ReasoningDelta):
            self._show("reasoning_chunk", self._reasoning.feed(delta.text))

    def restart(self) -> None:
        """Take back all that was shown: another attempt begins."""
        self._text, self._reasoning = _Shown(self._redactor), _Shown(self._redactor)
        if self._told:
            self._told = False
            _emit(self._flow, {"type": "message_restart", "message_id": self._message_id, "depth": self._flow.depth})

    def finish(self) -> None:
        """Show what was held back."""
        self._show("reasoning_chunk", self._reasoning.finish())
        self._show("message_chunk", self._text.finish())

    def _show(self, kind: str, chunk: str) -> None:
        if chunk and self._flow.execution.entry.watch is not None:
            self._told = True
            about = {"type": kind, "message_id": self._message_id, "depth": self._flow.depth}
            for at in range(0, len(chunk), _CHUNK_MAX):
                _emit(self._flow, {**about, "chunk": chunk[at : at + _CHUNK_MAX]})


class _Shown:
    """One text that comes in pieces, as it may be shown: characters whole, and then without secrets."""

    __slots__ = ("_joined", "_redacted")

    def __init__(self, redactor: Redactor) -> None:
        self._joined = JoinedStream()
        self._redacted = redactor.stream()

    def feed(self, piece: str) -> str:
        return self._redacted.feed(self._joined.feed(piece))

    def finish(self) -> str:
        return self._redacted.feed(self._joined.finish()) + self._redacted.finish()
