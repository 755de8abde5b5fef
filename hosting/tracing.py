"""Owns the spans of OpenTelemetry: of executions, steps, tools and commits. Writes nothing, and slows nobody down.

Spans are made of what is committed, by a worker that follows it, once an execution has ended: the way of an execution knows
nothing of them. So they are complete and their times exact, but no span is open while a tool runs: what a tool's own
libraries trace is not below it. Without the extra `otel`, or a provider to give spans to, nothing here does anything.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from itertools import chain
from queue import SimpleQueue
from typing import TYPE_CHECKING

from ..actors import Runtime
from ..protocol.errors import RuntimeClosed, TreadleError
from .given import check_is, wrong

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opentelemetry.trace import TracerProvider

    from ..actors import ChangeSubscription
    from ..protocol.frames import Frame
    from ..storage.batch import Answer, Batch, Confirm
    from ..storage.store import Boot, Store, StoreCounts, View
    from .spans import Traced

__all__ = ["TracedStore", "following", "traced"]

logger = logging.getLogger("treadle")

_LEAVING_S = 5.0  # that closing waits for the last spans


def _provider(given: TracerProvider | None) -> TracerProvider | None:
    """Return where spans go, None where nobody takes them."""
    if given is not None:
        return given
    try:
        from opentelemetry import trace
    except ImportError:
        return None
    found = trace.get_tracer_provider()
    return None if isinstance(found, trace.ProxyTracerProvider | trace.NoOpTracerProvider) else found


@contextlib.contextmanager
def following(runtime: Runtime, provider: TracerProvider | None = None) -> Iterator[None]:
    """Make spans of what an open runtime's threads do meanwhile; best left once the runtime is closed.

    They are made of the journal, of which nothing can be read once the runtime is closed: an execution that only the
    close ends may have none.

    Args:
        runtime: open.
        provider: takes the spans; by default the one of this process, where it has one.

    Raises:
        InvalidInput: `invalid_option`; it is no runtime.
    """
    check_is("runtime", runtime, Runtime, "a Runtime that is open")
    to = _provider(provider)
    if to is None:
        yield
        return
    # Only now: without the extra there is nothing to import.
    from .spans import Traced

    spans, feed = Traced(runtime, to), runtime.events("latest")
    first = _at_hand(feed)  # the place is taken here, and not whenever the worker comes to it

    def work() -> None:
        for frame in chain(first, feed):
            _make(spans, frame)
        # Closed from outside, it ends where it is; what was published up to then is still to come.
        with contextlib.suppress(RuntimeClosed):
            for frame in _at_hand(runtime.events(feed.cursor)):
                _make(spans, frame)

    worker = threading.Thread(target=work, name="treadle-tracing", daemon=True)
    worker.start()
    try:
        yield
    finally:
        if runtime.ready()[1] != ["runtime_closed"]:
            feed.close()
        worker.join(_LEAVING_S)


def _at_hand(feed: ChangeSubscription) -> list[Frame]:
    """Return what a feed has without waiting."""
    frames: list[Frame] = []
    with contextlib.suppress(TimeoutError):
        while (frame := feed.next(0)) is not None:
            frames.append(frame)
    return frames


def _make(spans: Traced, frame: Frame) -> None:
    try:
        spans.changed(frame)
    except TreadleError as error:
        logger.warning("Spans of %s are left out: %s", frame.get("thread_id"), error, extra={"code": error.code})
    except Exception:
        logger.exception("Making spans failed")


def traced(store: Store, provider: TracerProvider | None = None) -> Store:
    """Return the store, its commits traced where somebody takes spans. Raises: InvalidInput: `invalid_option`; it is none."""
    if isinstance(store, type) or not callable(getattr(store, "commit", None)):
        raise wrong("store", "LmdbStore(path) or MemoryStore()", store)
    to = _provider(provider)
    return store if to is None else TracedStore(store, to)


class TracedStore:
    """A store whose commits have a span each, from the hand-over to the answer; made by a worker of its own.

    Args:
        store: what does the work.
        provider: takes the spans.
    """

    def __init__(self, store: Store, provider: TracerProvider) -> None:
        self._store = store
        self._tracer = provider.get_tracer("treadle")
        self._line: SimpleQueue[tuple[int, int, int, int, str] | None] = SimpleQueue()
        self._worker: threading.Thread | None = None

    def open(self) -> Boot:
        """Open the store; see `Store.open`."""
        boot = self._store.open()
        self._worker = threading.Thread(target=self._work, name="treadle-tracing-commits", daemon=True)
        self._worker.start()
        return boot

    def commit(self, batch: Batch) -> None:
        """Hand over a batch, and note when."""
        inner, began = batch.confirm, time.time_ns()
        batch.confirm = self._noting(inner, began, batch.number, batch.size)
        self._store.commit(batch)

    def barrier(self, number: int, boot: int, life: int, confirm: Confirm) -> None:
        """Shut out older incarnations; see `Store.barrier`."""
        self._store.barrier(number, boot, life, confirm)

    def view(self) -> View:
        """Return a snapshot to enter; see `Store.view`."""
        return self._store.view()

    def failure(self) -> TreadleError | None:
        """Return why the store takes no more writes, or None."""
        return self._store.failure()

    def backlog(self) -> int:
        """Return how much has not been answered yet."""
        return self._store.backlog()

    def counts(self) -> StoreCounts:
        """Count what this opening wrote."""
        return self._store.counts()

    def close(self) -> None:
        """Close the store, and let the last spans go."""
        self._store.close()
        worker, self._worker = self._worker, None
        if worker is not None:
            self._line.put(None)
            worker.join(_LEAVING_S)

    def _noting(self, inner: Confirm, began: int, number: int, size: int) -> Confirm:
        def confirm(answer: Answer) -> None:
            self._line.put((began, time.time_ns(), number, size, answer.kind))
            inner(answer)

        return confirm

    def _work(self) -> None:
        while (noted := self._line.get()) is not None:
            began, ended, number, size, kind = noted
            attributes: dict[str, int | str] = {
                "treadle.thread_number": number,
                "treadle.bytes": size,
                "treadle.answer": kind,
            }
            span = self._tracer.start_span("treadle.commit", start_time=began, attributes=attributes)
            span.end(ended)
