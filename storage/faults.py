"""Owns a store that fails on purpose at the n-th commit. Writes nothing itself: it stands before another store."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Literal

from ..protocol.errors import OutcomeUnknown, StorageFull, TreadleError
from .batch import Answer, Batch, Confirm, tell

if TYPE_CHECKING:
    from .store import Boot, Store, StoreCounts, View

__all__ = ["FaultyStore", "Kind"]

Kind = Literal["not_written", "written", "stop"]


class FaultyStore:
    """A decorator of any store that counts commits and lets some of them fail.

    To prove something about every place where a store may fail, run it with `fail_at` 1, 2, 3 and so on, until a run
    ends with `fired` false.

    Args:
        store: what does the work.
        fail_at: the commit that fails, counted from 1; None for none.
        kind: `not_written`: answered `StorageFull`, in its place among the other answers, and nothing is written.
            `written`: written, yet answered `unknown`. `stop`: neither this one nor anything after it is written or
            answered, as if the process had stopped; what was handed over before still is.
        persistent: also fail every later commit, until `heal()`. `stop` always is.

    Attributes:
        commits: how many were handed over.
        fired: whether any of them failed on purpose.
    """

    def __init__(
        self, store: Store, fail_at: int | None = None, kind: Kind = "not_written", *, persistent: bool = False
    ) -> None:
        self.store = store
        self.commits = 0
        self.fired = False
        self._lock = threading.RLock()  # a closed store answers at once, and that answer may commit again
        self._fail_at = fail_at
        self._kind: Kind = kind
        self._persistent = persistent or kind == "stop"

    def open(self) -> Boot:
        """Open the store behind; see `Store.open`."""
        return self.store.open()

    def commit(self, batch: Batch) -> None:
        """Hand over a batch, or fail it."""
        # The lock is kept over the hand-over, so that the order here is the order behind.
        with self._lock:
            self.commits += 1
            if not self._fails():
                self.store.commit(batch)
            elif self._kind == "not_written":
                self._refuse(batch.confirm)
            elif self._kind == "written":
                batch.confirm = _as_unknown(batch.confirm)
                self.store.commit(batch)

    def barrier(self, number: int, boot: int, life: int, confirm: Confirm) -> None:
        """Shut out older incarnations; see `Store.barrier`."""
        with self._lock:
            if not self._stopped():
                self.store.barrier(number, boot, life, confirm)

    def view(self) -> View:
        """Return a snapshot of the store behind."""
        return self.store.view()

    def failure(self) -> TreadleError | None:
        """Return why the store behind takes no more writes, or None."""
        return self.store.failure()

    def backlog(self) -> int:
        """Return how much the store behind has not answered yet."""
        return self.store.backlog()

    def counts(self) -> StoreCounts:
        """Count what the store behind wrote."""
        return self.store.counts()

    def close(self) -> None:
        """Close the store behind."""
        self.store.close()

    def heal(self) -> None:
        """Fail no more commits."""
        with self._lock:
            self._fail_at = None

    def fail(self, in_commits: int = 1, kind: Kind = "not_written", *, persistent: bool = False) -> None:
        """Fail the `in_commits`-th commit from now."""
        assert in_commits >= 1, in_commits
        with self._lock:
            self._fail_at = self.commits + in_commits
            self._kind = kind
            self._persistent = persistent or kind == "stop"

    def _fails(self) -> bool:
        at = self._fail_at
        fails = at is not None and (self.commits == at or (self._persistent and self.commits > at))
        self.fired = self.fired or fails
        return fails

    def _stopped(self) -> bool:
        return self._kind == "stop" and self._fail_at is not None and self.commits >= self._fail_at

    def _refuse(self, confirm: Confirm) -> None:
        # A barrier of no incarnation shuts nobody out, and is answered where the batch would have been.
        def answer(inner: Answer) -> None:
            full = StorageFull("the disk has no room (a fault on purpose)")
            tell(confirm, inner if inner.kind != "committed" else Answer("not_written", 0, full))

        self.store.barrier(0, 0, 0, answer)


def _as_unknown(confirm: Confirm) -> Confirm:
    def answer(inner: Answer) -> None:
        unknown = OutcomeUnknown("the outcome cannot be told (a fault on purpose)")
        tell(confirm, inner if inner.kind != "committed" else Answer("unknown", 0, unknown))

    return answer
