"""Owns the queue of batches and the worker that groups, writes and answers them. Never touches bytes: an `Engine` does.

Theory of operation: any worker puts a batch into one list. The writer worker takes that list, up to the limits of a
group, hands it to its engine, which makes it durable as a whole, and answers each batch in order. What waits meanwhile
is the next group, so one sync serves as many batches as arrive during one sync, and a lone batch waits for nothing.

Rules:
1. Whatever entered the queue is answered exactly once, whatever the engine or a `confirm` raises.
2. Nothing enters the queue after the refusal is set; both happen under one lock.
3. A barrier is a group of its own, so "older" and "later" are places in the queue.
4. A batch costs the writer nothing between the queue and the engine: the list of those that wait becomes the group.
"""

from __future__ import annotations

import copy
import logging
import threading
import time
from collections import deque
from operator import attrgetter, length_hint
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final, Protocol, cast

from ..protocol.errors import InternalError, StorageFull, StoreClosed, StoreFailed, TreadleError
from ..protocol.limits import GROUP_BATCHES_MAX, GROUP_BYTES_MAX
from .batch import COMMITTED, Answer, Batch, Confirm, complain, refused, tell
from .points import AFTER_COMMIT, reach
from .store import StoreCounts

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Barriers", "Engine", "Writer"]

_log = logging.getLogger("treadle.storage")

IDLE_S: Final = 1.0  # without work, after which the writer does what was put off

_size = attrgetter("size")

Barriers = dict[int, tuple[int, int]]


class Engine(Protocol):
    """What makes a group of batches durable. Called by one worker at a time."""

    def write(self, batches: list[Batch], barriers: Barriers, answers: list[Answer], /) -> TreadleError | None:
        """Write the batches, in order, and append one answer for each.

        Returns:
            Why the store must take no more writes, or None while it stays usable.
        """
        ...

    def is_tidy(self) -> bool:
        """Say whether `tidy` would find nothing to do."""
        ...

    def tidy(self) -> TreadleError | None:
        """Do what was put off, where nobody waits for it; as durable as a group. What cannot be done stays put off.

        Returns:
            As `write`.
        """
        ...


class _Barrier:
    __slots__ = ("boot", "confirm", "life", "number", "size")

    def __init__(self, number: int, boot: int, life: int, confirm: Confirm) -> None:
        self.number = number
        self.boot = boot
        self.life = life
        self.confirm = confirm
        # Larger than any group, so that a group ends before a barrier without a look at types.
        self.size = GROUP_BYTES_MAX + 1


class Writer:
    """Group commit over one engine.

    Without `start()` it is driven by `step()` on the caller's worker, one group at a time.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._barriers: Barriers = {}
        # Reentrant: a finalizer or signal handler may commit in the middle of a commit.
        self._lock = threading.RLock()
        self._waiting: list[Batch | _Barrier] = []
        self._rest: deque[Batch | _Barrier] = deque()  # older than those that wait, did not fit the last group
        self._unanswered: Iterator[Batch | _Barrier] = iter(())  # of the group under way
        self._asleep = False
        self._bell: SimpleQueue[None] = SimpleQueue()
        self._refusal: TreadleError | None = None
        self._failed: TreadleError | None = None
        self._closing = False
        self._groups = 0
        self._batches = 0
        self._seconds = 0.0
        self._sizes = [0] * GROUP_BATCHES_MAX.bit_length()
        self._full_at: float | None = None
        self._worker: threading.Thread | None = None
        self._alive = threading.Lock()  # the worker's, while it runs

    def start(self) -> None:
        """Start the writer worker."""
        self._worker = threading.Thread(target=self._run, name="treadle-writer", daemon=True)
        self._alive.acquire()
        self._worker.start()

    def commit(self, batch: Batch) -> None:
        """Queue a batch, or refuse it at once on this worker."""
        # `with`, though it costs twice what taking the lock by hand does: Ctrl-C may come between any two calls here.
        # For the same reason the bell comes first: the writer waits for the lock then, and finds what it was rung for.
        with self._lock:
            refusal = self._refusal
            if refusal is None:
                if self._asleep:
                    self._wake()
                self._waiting.append(batch)
                return
        tell(batch.confirm, refused(refusal))

    def barrier(self, number: int, boot: int, life: int, confirm: Confirm) -> None:
        """Queue a barrier, or refuse it at once on this worker."""
        with self._lock:
            refusal = self._refusal
            if refusal is None:
                if self._asleep:
                    self._wake()
                self._waiting.append(_Barrier(number, boot, life, confirm))
                return
        tell(confirm, refused(refusal))

    def failure(self) -> TreadleError | None:
        """Return why nothing more is taken, or None."""
        return copy.copy(self._refusal)

    def backlog(self) -> int:
        """Return how many batches and barriers were accepted and not yet answered."""
        with self._lock:
            return len(self._waiting) + len(self._rest) + length_hint(self._unanswered)

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
                if self._asleep:
                    self._wake()
                self._refusal = StoreClosed("the store is closed")
                self._closing = True
        if self._worker is not None:
            # Not by `join` alone: once Ctrl-C ended one, the next takes a worker that still writes for ended.
            with self._alive:
                pass
            self._worker.join()
        else:
            while self.step():
                pass
            self._tidy()

    def forget(self) -> None:
        """Refuse everything from now on, in a forked child: the worker and what it held live in the parent only."""
        self._lock = threading.RLock()
        self._worker = None
        self.discard()
        self._refusal = StoreClosed("the store belongs to the parent of this process")
        # Or a close here would put what waits in the parent's log into its tables, beside the parent.
        self._failed = copy.copy(self._refusal)

    def discard(self) -> None:
        """Drop all that waits without an answer, as the death of the process would. For stores without a worker."""
        assert self._worker is None
        with self._lock:
            self._refusal = StoreClosed("the store is closed")
            self._waiting = []
            self._rest.clear()
            self._unanswered = iter(())

    def step(self) -> int:
        """Write and answer the next group, if one waits; return how many batches or barriers that answered."""
        group = self._gather()
        if group:
            self._serve(group)
        return len(group)

    def _run(self) -> None:
        try:
            while True:
                closing = self._closing  # looked at first: nothing enters the queue after it
                group = self._gather()
                if group:
                    self._serve(group)
                elif closing:
                    self._tidy()
                    return
                else:
                    self._sleep()
        finally:
            self._alive.release()

    def _sleep(self) -> None:
        with self._lock:
            # In this order, since a finalizer may commit between the two: a bell too many wakes for nothing, and no more.
            self._asleep = True
            if self._waiting or self._closing:
                self._asleep = False
                return
        if self._failed is None and not self._engine.is_tidy():
            try:
                self._bell.get(timeout=IDLE_S)
            except Empty:
                self._tidy()
            else:
                return
        # Rung meanwhile, or from now on; and what could not be tidied waits for the next group.
        self._bell.get()

    def _tidy(self) -> None:
        try:
            if self._failed is None and not self._engine.is_tidy():
                failed = self._engine.tidy()
                if failed is not None:
                    self._fail(failed)
        except BaseException as error:  # noqa: BLE001 - rule 1, as in `_serve`
            self._break(error, iter(()))

    def _wake(self) -> None:
        self._bell.put(None)
        self._asleep = False

    def _gather(self) -> list[Batch | _Barrier]:
        """Take the next group, or a barrier alone, or nothing."""
        with self._lock:
            group, self._waiting = self._waiting, []
            if self._rest or len(group) > GROUP_BATCHES_MAX or sum(map(_size, group)) > GROUP_BYTES_MAX:
                group = self._cut(group)
            self._unanswered = iter(group)
        return group

    def _cut(self, waiting: list[Batch | _Barrier]) -> list[Batch | _Barrier]:
        rest = self._rest
        rest.extend(waiting)
        group = [rest.popleft()]
        size = group[0].size
        while rest and len(group) < GROUP_BATCHES_MAX:
            size += rest[0].size
            if size > GROUP_BYTES_MAX:
                break
            group.append(rest.popleft())
        return group

    def _serve(self, group: list[Batch | _Barrier]) -> None:
        unanswered = self._unanswered
        try:
            if isinstance(group[0], _Barrier):
                next(unanswered)
                self._settle(group[0])
            else:
                self._write(cast("list[Batch]", group), cast("Iterator[Batch]", unanswered))
        except BaseException as error:  # noqa: BLE001 - rule 1: nothing may end the worker while others wait
            self._break(error, unanswered)

    def _write(self, group: list[Batch], unanswered: Iterator[Batch]) -> None:
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
        for answer, batch in zip(answers, unanswered, strict=True):
            try:
                batch.confirm(answer)
            except BaseException:  # noqa: BLE001 - see `tell`, which this is: one call less for each batch
                complain(answer)

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

    def _settle(self, barrier: _Barrier) -> None:
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

    def _break(self, error: BaseException, unanswered: Iterator[Batch | _Barrier]) -> None:
        failed = StoreFailed(f"the writer met {type(error).__name__}: {error}")
        failed.__cause__ = error
        self._fail(failed)
        # Those whose confirm was called are no longer in it, also where that raised.
        for batch in unanswered:
            tell(batch.confirm, refused(failed, "unknown"))
