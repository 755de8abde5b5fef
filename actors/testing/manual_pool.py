"""Owns the workers of a stage: plain functions that move only when the test says so, one at a time. Decides no order.

Each job has an OS thread of its own and one baton between that and the test: whoever holds it runs, the other waits. A
job gives it back when it ends, and when it waits for a reply: so a blocking body can be stepped like a coroutine.
"""

from __future__ import annotations

import contextvars
import threading
from typing import TYPE_CHECKING, Any

from ...protocol.errors import InternalError
from ..reply import current_wait
from ..workers import WAITING, Job
from .probe import GUARD_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..reply import Reply, WaitGuard

__all__ = ["ManualPool"]


class _Strand:
    """One job on its way, with the wait that holds it up; the guard of its blocking waits."""

    def __init__(self, job: Job, inner: WaitGuard | None) -> None:
        self.job = job
        self._inner = inner
        self._waits_for: Reply[Any] | None = None
        self._aborted = False
        self._wakes: dict[Callable[[BaseException], object], Callable[[BaseException], object]] = {}
        self._go = threading.Semaphore(0)
        self._back = threading.Semaphore(0)
        self._worker: threading.Thread | None = None

    def can_move(self) -> bool:
        """Say whether it has not begun, or what it waited for is there."""
        return self._waits_for is None or self._aborted or self._waits_for.done()

    def move(self, forget: Callable[[_Strand], object]) -> None:
        """Run the job until it ends or waits; on the test's worker."""
        if self._worker is None:

            def run() -> None:
                self._go.acquire()
                self.job.ident = threading.get_ident()
                try:
                    self.job.run()
                finally:
                    forget(self)
                    self._back.release()

            self._worker = threading.Thread(target=run, name="treadle-stage-body", daemon=True)
            self._worker.start()
        self._go.release()
        if not self._back.acquire(timeout=GUARD_S):
            raise AssertionError(f"job {self.job.key} neither ended nor waited for a reply within {GUARD_S:g} s")

    def give_up(self) -> None:
        """End the wait it stands in, so that its OS thread can end."""
        for wake in list(self._wakes.values()):
            wake(SystemExit("the stage was left"))

    def enter(self, reply: Reply[Any], abort: Callable[[BaseException], object]) -> None:
        """Give the baton back until the reply is there or the wait is aborted; on the job's worker."""
        self._aborted = False

        def wake(error: BaseException) -> None:
            self._aborted = True
            abort(error)

        self._wakes[abort] = wake
        if self._inner is not None:
            self._inner.enter(reply, wake)
        self._waits_for = reply
        self._back.release()
        self._go.acquire()
        self._waits_for = None

    def leave(self, abort: Callable[[BaseException], object]) -> None:
        """Forget the wait; on the job's worker."""
        wake = self._wakes.pop(abort)
        if self._inner is not None:
            self._inner.leave(wake)


class ManualPool:
    """Stands in for a `WorkerPool`: `step` lets one job run until it waits for a reply or ends.

    A `result(timeout=...)` in a job waits as long as the reply is not there, whatever its timeout.
    """

    def __init__(self) -> None:
        self._strands: list[_Strand] = []
        self._closed = False

    def submit(
        self, key: str, call: Callable[[], object], on_end: Callable[[BaseException | None], object],
        context: contextvars.Context | None = None,
    ) -> Job:  # fmt: skip
        """Take a job; it begins at one of the next steps. Raises: InternalError: the stage was left."""
        if self._closed:
            raise InternalError("the stage was left")
        where = contextvars.copy_context() if context is None else context
        job = Job(self, key, call, on_end, where)  # type: ignore[arg-type]  # it asks a pool to withdraw and to abandon
        strand = _Strand(job, where.get(current_wait))
        where.run(current_wait.set, strand)
        self._strands.append(strand)
        return job

    def movable(self) -> int:
        """Count the jobs that a step could move."""
        return sum(strand.can_move() for strand in self._strands)

    def step(self, pick: int = 0) -> bool:
        """Let one job run until it waits or ends; on the test's worker.

        Args:
            pick: which of those that can move, modulo their number.

        Returns:
            False when none can.
        """
        ready = [strand for strand in self._strands if strand.can_move()]
        if not ready:
            return False
        strand = ready[pick % len(ready)]
        if strand.job.state == WAITING:
            strand.job.state = "running"
        strand.move(self._strands.remove)
        return True

    def withdraw(self, job: Job) -> bool:
        """Take a job out that has not begun; False when it has."""
        strand = next((one for one in self._strands if one.job is job), None)
        if strand is None or job.state != WAITING:
            return False
        job.state = "cancelled"
        self._strands.remove(strand)
        return True

    def abandon(self, job: Job) -> bool:
        """Mark a job as written off: its end is reported all the same, whenever a step brings it about."""
        if job.state != "running" or job.abandoned:
            return False
        job.abandoned = True
        return True

    def begin_blocking(self) -> None:
        """A job waits: nothing to do, no place is taken here."""

    def end_blocking(self) -> None:
        """A job goes on: nothing to do."""

    def counts(self) -> dict[str, int]:
        """Count jobs as a `WorkerPool` counts workers."""
        jobs = [strand.job for strand in self._strands]
        return {
            "workers": sum(job.state == "running" and not job.abandoned for job in jobs),
            "idle": 0,
            "blocked": sum(not strand.can_move() for strand in self._strands),
            "abandoned": sum(job.abandoned for job in jobs),
            "waiting": sum(job.state == WAITING for job in jobs),
        }

    def close(self) -> list[Job]:
        """Take no more, end every wait with `SystemExit`, and return the jobs that never began."""
        self._closed = True
        left = [strand.job for strand in self._strands if strand.job.state == WAITING]
        for job in left:
            self.withdraw(job)
        for _ in range(1_000):  # a body that goes on waiting after each end is given up on
            for strand in self._strands:
                strand.give_up()
            if not self.step():
                break
        return left
