"""Owns the queue of batches and the worker that groups, writes and answers them. Never touches bytes: an `Engine` does.

Theory of operation: any worker puts a batch into one queue. The writer worker takes all that wait, up to the limits of
a group, hands them to its engine, which makes them durable together, and answers each in order. What waits meanwhile
is the next group, so one sync serves as many batches as arrive during one sync, and a lone batch waits for nothing.

Rules:
1. Whatever entered the queue is answered exactly once, whatever the engine or a `confirm` raises.
2. Nothing enters the queue after the refusal is set; both happen under one lock.
3. A barrier is a group of its own, so "older" and "later" are places in the queue.
"""

from __future__ import annotations

import copy
import logging
import threading
import time
from queue import Empty, SimpleQueue
from typing import Final, Protocol

from ..protocol.errors import InternalError, StorageFull, StoreClosed, StoreFailed, TreadleError
from ..protocol.limits import GROUP_BATCHES_MAX, GROUP_BYTES_MAX
from .batch import COMMITTED, Answer, Batch, Confirm, refused, tell
from .points import AFTER_COMMIT, reach
from .store import StoreCounts

__all__ = ["Barriers", "Engine", "Writer"]

_log = logging.getLogger("treadle.storage")

Barriers = dict[int, tuple[int, int]]


class Engine(Protocol):
    """What makes a group of batches durable. Called by one worker at a time."""

    def write(self, batches: list[Batch], barriers: Barriers, answers: list[Answer], /) -> TreadleError | None:
        """Write the batches, in order, and append one answer for each.

        Returns:
            Why the store must take no more writes, or None while it stays usable.
        """
        ...


class _Barrier:
    __slots__ = ("boot", "confirm", "life", "number", "size")

    def __init__(self, number: int, boot: int, life: int, confirm: Confirm) -> None:
        self.number = number
        self.boot = boot
        self.life = life
        self.confirm = confirm
        # Larger than any group, so that gathering stops at a barrier without looking at types.
        self.size = GROUP_BYTES_MAX + 1


def _nothing(_: Answer) -> None:
    """Be the confirm of `_END`, which nobody waits for."""


_END: Final = _Barrier(0, 0, 0, _nothing)


class Writer:
    """Group commit over one engine.

    Without `start()` it is driven by `step()` on the caller's worker, one group at a time.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._barriers: Barriers = {}
        # SimpleQueue and a reentrant lock: a finalizer or signal handler may commit in the middle of a commit.
        self._queue: SimpleQueue[Batch | _Barrier] = SimpleQueue()
        self._lock = threading.RLock()
        self._refusal: TreadleError | None = None
        self._failed: TreadleError | None = None
        self._next: Batch | _Barrier | None = None  # taken from the queue, did not fit the last group
        self._group: list[Batch] = []
        self._answered_in_group = 0
        self._groups = 0
        self._batches = 0
        self._seconds = 0.0
        self._sizes = [0] * GROUP_BATCHES_MAX.bit_length()
        self._full_at: float | None = None
        self._accepted = 0
        self._answered = 0
        self._ended = False
        self._worker: threading.Thread | None = None

    def start(self) -> None:
        """Start the writer worker."""
        self._worker = threading.Thread(target=self._run, name="treadle-writer", daemon=True)
        self._worker.start()

    def commit(self, batch: Batch) -> None:
        """Queue a batch, or refuse it at once on this worker."""
        with self._lock:
            refusal = self._refusal
            if refusal is None:
                self._accepted += 1
                self._queue.put(batch)
                return
        tell(batch.confirm, refused(refusal))

    def barrier(self, number: int, boot: int, life: int, confirm: Confirm) -> None:
        """Queue a barrier, or refuse it at once on this worker."""
        with self._lock:
            refusal = self._refusal
            if refusal is None:
                self._accepted += 1
                self._queue.put(_Barrier(number, boot, life, confirm))
                return
        tell(confirm, refused(refusal))

    def failure(self) -> TreadleError | None:
        """Return why nothing more is taken, or None."""
        return copy.copy(self._refusal)

    def backlog(self) -> int:
        """Return how many batches and barriers were accepted and not yet answered."""
        return self._accepted - self._answered

    def counts(self) -> StoreCounts:
        """Count what was written."""
        return StoreCounts(
            self.backlog(), self._groups, self._batches, self._seconds, tuple(self._sizes), self._full_at
        )

    def close(self) -> None:
        """Take nothing more, write and answer everything queued, end the worker. Blocks; idempotent.

        Raises:
            InternalError: called from a `confirm`, where it would wait for itself.
        """
        if self._worker is threading.current_thread():
            raise InternalError("a store cannot be closed from a confirm: the close waits for that confirm")
        with self._lock:
            if self._refusal is None or self._refusal is self._failed:
                self._refusal = StoreClosed("the store is closed")
                self._queue.put(_END)
        if self._worker is not None:
            self._worker.join()
        else:
            while not self._ended:
                self.step()

    def forget(self) -> None:
        """Refuse everything from now on, in a forked child: the worker and what it held live in the parent only."""
        self._lock = threading.RLock()
        self._refusal = StoreClosed("the store belongs to the parent of this process")
        self._worker = None
        self._ended = True

    def discard(self) -> None:
        """Drop all that waits without an answer, as the death of the process would. For stores without a worker."""
        assert self._worker is None
        with self._lock:
            self._refusal = StoreClosed("the store is closed")
            self._queue = SimpleQueue()
            self._next = None
            self._ended = True

    def step(self) -> int:
        """Write and answer the next group, if one waits; return how many batches or barriers that answered."""
        if self._next is None:
            try:
                self._next = self._queue.get_nowait()
            except Empty:
                return 0
        answered = self._answered
        self._serve(self._next)
        return self._answered - answered

    def _run(self) -> None:
        while not self._ended:
            self._serve(self._next or self._queue.get())

    def _serve(self, first: Batch | _Barrier) -> None:
        self._next = None
        try:
            if isinstance(first, _Barrier):
                self._settle(first)
            else:
                self._write(first)
        except BaseException as error:  # noqa: BLE001 - rule 1: nothing may end the worker while others wait
            self._break(error)

    def _write(self, first: Batch) -> None:
        group = self._group = self._gather(first)
        self._answered_in_group = 0
        answers: list[Answer] = []
        if self._failed is None:
            began = time.perf_counter()
            failed = self._engine.write(group, self._barriers, answers)
            self._count(len(group), time.perf_counter() - began)
            if failed is not None:
                self._fail(failed)
            assert len(answers) == len(group), (len(answers), len(group))
            self._note_room(answers[-1])
            reach(AFTER_COMMIT)
        else:
            answers.extend(refused(self._failed) for _ in group)
        for batch, answer in zip(group, answers, strict=True):
            # Counted first: a confirm that raises was called, and must not be called again.
            self._answered_in_group += 1
            self._answered += 1
            tell(batch.confirm, answer)
        self._group = []

    def _count(self, size: int, seconds: float) -> None:
        self._groups += 1
        self._batches += size
        self._seconds += seconds
        self._sizes[(size - 1).bit_length()] += 1

    def _note_room(self, last: Answer) -> None:
        # Each caller is told of its own batch; whoever looks after the disk is told once, and once it is over.
        if last.kind == "committed":
            if self._full_at is not None:
                self._full_at = None
                _log.warning("the store has room again")
        elif isinstance(last.error, StorageFull):
            if self._full_at is None:
                _log.error("the store takes nothing for now: %s", last.error)
            self._full_at = time.monotonic()

    def _gather(self, first: Batch) -> list[Batch]:
        group = [first]
        size = first.size
        take = self._queue.get_nowait
        for _ in range(min(self._queue.qsize(), GROUP_BATCHES_MAX - 1)):
            item = take()
            size += item.size
            if size > GROUP_BYTES_MAX or isinstance(item, _Barrier):
                self._next = item
                break
            group.append(item)
        return group

    def _settle(self, barrier: _Barrier) -> None:
        if barrier is _END:
            self._ended = True
            return
        self._answered += 1
        if self._failed is not None:
            tell(barrier.confirm, refused(self._failed))
            return
        incarnation = (barrier.boot, barrier.life)
        self._barriers[barrier.number] = max(incarnation, self._barriers.get(barrier.number, incarnation))
        tell(barrier.confirm, COMMITTED)

    def _fail(self, error: TreadleError) -> None:
        _log.error("the store takes no more writes: %s", error, exc_info=error)
        with self._lock:
            self._failed = error
            if self._refusal is None:
                self._refusal = error

    def _break(self, error: BaseException) -> None:
        failed = StoreFailed(f"the writer met {type(error).__name__}: {error}")
        failed.__cause__ = error
        self._fail(failed)
        rest, self._group = self._group[self._answered_in_group :], []
        for batch in rest:
            self._answered += 1
            tell(batch.confirm, refused(failed, "unknown"))
