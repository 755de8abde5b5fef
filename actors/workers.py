"""Owns the OS threads that plain-function bodies and releases run on. Never waits for one: a hostile body keeps its own.

They are daemons of our own, not `concurrent.futures` or `asyncio.to_thread`, which join at exit and so wait for a hostile
body for ever.
"""

from __future__ import annotations

import contextvars
import logging
import sys
import threading
from collections import deque
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final

from ..protocol.errors import NoWorker, RuntimeClosed
from ..protocol.limits import ABANDONED_MAX, WORKERS_MAX
from .loops import stack_lines

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Job", "WorkerLost", "WorkerPool", "release_lane"]

logger = logging.getLogger("treadle")

RELEASE_WORKERS: Final = 16  # closers at once; a closer that hangs is abandoned and replaced
BLOCKED_MAX: Final = 256  # replacements for workers that wait in `result()`; a chain of waits must not eat the machine

WAITING, RUNNING, ENDED, CANCELLED = "waiting", "running", "ended", "cancelled"


class WorkerLost(Exception):
    """A job's worker is gone and nobody can say how the job ended; `began` says whether its call was entered."""

    def __init__(self, *, began: bool) -> None:
        super().__init__("the worker under the body is gone")
        self.began = began


class Job:
    """One call on its way to a worker, on it, or over.

    Attributes:
        key: what its owner calls it, an execution id.
        state: `waiting`, `running`, `ended` or `cancelled`.
        abandoned: its worker was written off; its end is still reported, whenever that may be.
        ident: its worker's, 0 before it runs; the pool's to set.
        blocked: it waits in `result()` and its place may be taken meanwhile; the pool's to set.
    """

    __slots__ = (
        "_began", "_call", "_context", "_on_end", "_pool", "_told", "abandoned", "blocked", "ident", "key", "state",
    )  # fmt: skip

    def __init__(
        self,
        pool: WorkerPool,
        key: str,
        call: Callable[[], object],
        on_end: Callable[[BaseException | None], object],
        context: contextvars.Context,
    ) -> None:
        self.key = key
        self.state = WAITING
        self.abandoned = False
        self._began = False
        self._told = False
        self._pool = pool
        self._call = call
        self._on_end = on_end
        self._context = context
        self.ident = 0
        self.blocked = False

    def cancel(self) -> bool:
        """Take it out of the line; any worker, never blocks.

        Returns:
            True when it will never run, and no end be reported; False when it began before.
        """
        return self._pool.withdraw(self)

    def abandon(self) -> bool:
        """Write its worker off: another may take its place; any worker, never blocks.

        Returns:
            False when it does not run, or was abandoned before.
        """
        return self._pool.abandon(self)

    def stack(self) -> list[str]:
        """Show where its worker is; empty unless it runs. Any worker."""
        return stack_lines(sys._current_frames().get(self.ident)) if self.state == RUNNING else []  # noqa: SLF001

    def run(self) -> None:
        """Run it; the pool's to call. Nothing comes out, its end is reported from a `finally`."""
        error: BaseException | None = None
        try:
            self._began = True
            self._context.run(self._call)
        except BaseException as raised:  # noqa: BLE001 - SystemExit ends the body, not the worker
            error = raised
        finally:
            self.state = ENDED
            self._tell(error)
            # Its traceback holds this frame, and this frame would hold it.
            del error

    def lose(self) -> None:
        """Report that its worker is gone, unless its end was reported; the pool's to call."""
        if not self._told:
            self.state = ENDED
            self._tell(WorkerLost(began=self._began))

    def _tell(self, error: BaseException | None) -> None:
        try:
            self._on_end(error)
        except Exception:
            logger.exception("Reporting the end of %s failed", self.key)
        # After the call: an end that is told twice is ignored, one that is not told holds its thread for ever.
        self._told = True


class WorkerPool:
    """Daemon workers, started when needed and kept.

    Args:
        maximum: bodies at once, those of abandoned workers and of workers waiting in `result()` not counted.
        abandoned_max: with more abandoned workers than this alive, `submit` fails; None for no limit.
        name: of the OS threads.
    """

    def __init__(
        self, maximum: int = WORKERS_MAX, abandoned_max: int | None = ABANDONED_MAX, name: str = "treadle-body"
    ) -> None:
        self._maximum = maximum
        self._abandoned_max = abandoned_max
        self._name = name
        # Reentrant, since a signal handler may interrupt an execution while its worker is inside. No condition, whose parts
        # are code of Python's: a handler that raises there leaves a lock taken, or a sleep listed that is over.
        self._lock = threading.RLock()
        self._bell: SimpleQueue[None] = SimpleQueue()  # each ring has one sleeper look at the line
        self._line: deque[Job] = deque()
        self._running: dict[int, Job] = {}
        self._coming: set[object] = set()  # workers that were started and did not arrive yet
        self._workers = 0  # those not abandoned
        self._idle = 0
        self._blocked = 0
        self._abandoned = 0
        self._closed = False

    def submit(
        self,
        key: str,
        call: Callable[[], object],
        on_end: Callable[[BaseException | None], object],
        context: contextvars.Context | None = None,
    ) -> Job:
        """Have a worker run `call`, in line when all are busy; any worker, never blocks.

        Args:
            key: what the job is called in logs and explanations.
            call: the body.
            on_end: called once on its worker with what ended it, None for a return, however late; `WorkerLost` where the
                worker ended and not the body. Not after `cancel`.
            context: what it runs in; by default a copy of the caller's.

        Raises:
            NoWorker: too many workers are abandoned, or the system gives no OS thread.
            RuntimeClosed: the pool is closed.
        """
        job = Job(self, key, call, on_end, contextvars.copy_context() if context is None else context)
        with self._lock:
            if self._closed:
                raise RuntimeClosed("the worker pool is closed")
            if self._abandoned_max is not None and self._abandoned > self._abandoned_max:
                raise NoWorker(
                    f"{self._abandoned} workers are held by bodies that do not end",
                    abandoned=self._abandoned,
                    maximum=self._abandoned_max,
                )
            self._grow(1)
            if self._workers == 0:
                raise NoWorker("the system gives no OS thread", abandoned=self._abandoned)
            self._ring()
            self._line.append(job)  # last: where a handler raised before, all that is there now finds no job
        return job

    def withdraw(self, job: Job) -> bool:
        """Take a job out of the line; False when it is not in it."""
        with self._lock:
            if job.state != WAITING:
                return False
            job.state = CANCELLED
            self._line.remove(job)
            return True

    def abandon(self, job: Job) -> bool:
        """Write a job's worker off and let another take its place; False when it does not run or was abandoned before."""
        with self._lock:
            if job.state != RUNNING or job.abandoned or self._running.get(job.ident) is not job:
                return False
            job.abandoned = True
            self._workers -= 1
            self._abandoned += 1
            self._unblock(job)
            self._grow()
            return True

    def begin_blocking(self) -> None:
        """Note that the job on this worker waits for a reply, so that a replacement may start meanwhile."""
        with self._lock:
            job = self._running.get(threading.get_ident())
            if job is not None and not job.abandoned and not job.blocked and self._blocked < BLOCKED_MAX:
                job.blocked = True
                self._blocked += 1
                self._grow()

    def end_blocking(self) -> None:
        """Note that the job on this worker goes on; there may be more than `maximum` until one of them ends."""
        with self._lock:
            job = self._running.get(threading.get_ident())
            if job is not None:
                self._unblock(job)

    def orphan(self) -> None:
        """Take no more jobs, in a forked child: the one worker that there may be ends with its job."""
        self._lock = threading.RLock()
        self._bell = SimpleQueue()
        self._line.clear()
        self._closed = True

    def close(self) -> list[Job]:
        """Take no more, let idle workers end, and return the jobs that were still in line: they never run.

        Running jobs go on: nobody can end a worker from outside. Their ends are still reported.
        """
        with self._lock:
            self._closed = True
            left = list(self._line)
            self._line.clear()
            for job in left:
                job.state = CANCELLED
            self._bell.put(None)  # whoever leaves for that rings for the next one
            return left

    def counts(self) -> dict[str, int]:
        """Count workers, idle ones, those waiting in `result()`, abandoned ones, and jobs in line."""
        with self._lock:
            return {
                "workers": self._workers,
                "idle": self._idle,
                "blocked": self._blocked,
                "abandoned": self._abandoned,
                "waiting": len(self._line),
            }

    def _unblock(self, job: Job) -> None:
        if job.blocked:
            job.blocked = False
            self._blocked -= 1

    def _ring(self) -> None:
        """Have a sleeper look at the line, unless all are about to: rings that nobody hears would pile up."""
        if self._bell.qsize() < self._idle:
            self._bell.put(None)

    def _grow(self, more: int = 0) -> None:
        """Start workers for the jobs that no idle one will take, `more` to come included, as far as the limit allows."""
        while len(self._line) + more > self._idle and self._workers - self._blocked < self._maximum:
            coming = object()
            worker = threading.Thread(target=self._work, args=(coming,), name=self._name, daemon=True)
            self._coming.add(coming)
            self._workers += 1
            self._idle += 1  # it comes for one of them
            try:
                worker.start()
            except BaseException as error:
                # A signal handler's error does not say whether it comes: it is counted once it is there.
                self._coming.discard(coming)
                self._workers -= 1
                self._idle -= 1
                if not isinstance(error, RuntimeError):
                    raise
                logger.exception("The system gives no OS thread")
                return

    def _work(self, coming: object) -> None:
        job: Job | None = None
        left = False
        with self._lock:
            if coming in self._coming:
                self._coming.remove(coming)
            else:
                self._workers += 1
                self._idle += 1
        try:
            while not left:
                job = self._take()
                if job is None:
                    left = True
                else:
                    job.run()
                    left = not self._finished(job)
                    job = None  # what a body held must not live until the next one
        finally:
            # An exception forced into this worker from outside ends it here: its place goes to another.
            if not left:
                self._forced_out()

    def _take(self) -> Job | None:
        """Wait for a job; None ends the worker."""
        while True:
            with self._lock:
                if self._line:
                    # Noted before it leaves the line: a worker that dies here must not take it along unseen.
                    job = self._running[threading.get_ident()] = self._line[0]
                    job.ident = threading.get_ident()
                    self._line.popleft()
                    self._idle, job.state = self._idle - 1, RUNNING
                    return job
                if self._closed:
                    self._idle -= 1
                    self._workers -= 1
                    self._bell.put(None)
                    return None
            self._bell.get()

    def _finished(self, job: Job) -> bool:
        """Forget a job that ended; return whether its worker goes on."""
        with self._lock:
            self._running.pop(threading.get_ident(), None)
            self._unblock(job)
            if job.abandoned:
                self._abandoned -= 1
                return False
            if self._workers - self._blocked > self._maximum:
                self._workers -= 1
                return False
            self._idle += 1
            return True

    def _forced_out(self) -> None:
        with self._lock:
            job = self._running.get(threading.get_ident())
            handed_over = job is not None and job.state != WAITING
            if job is not None and not handed_over:
                self._running.pop(threading.get_ident())
                if job in self._line:
                    self._line.remove(job)
            # It either goes on after this job, and so counts as idle now, or it was waiting for one.
            if job is None or not handed_over or self._finished(job):
                self._idle -= 1
                self._workers -= 1
            self._grow()
            self._ring()  # it may have heard one that was not for it alone
        if job is not None:
            job.lose()


def release_lane() -> WorkerPool:
    """Make the pool that closes what executions own, apart from bodies so that hostile ones cannot hold up a FINISH."""
    return WorkerPool(maximum=RELEASE_WORKERS, abandoned_max=None, name="treadle-release")
