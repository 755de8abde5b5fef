"""Owns the seam that every store implements: open, commit, barrier, view, close. Implements nothing itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, Self

if TYPE_CHECKING:
    from types import TracebackType

    from ..protocol.errors import TreadleError
    from .batch import Batch, Confirm

__all__ = ["Boot", "Rows", "Store", "StoreCounts", "View"]

Rows = list[tuple[bytes, bytes]]


class Boot(NamedTuple):
    """One opening of a store: a number that rises with each, and a random id of 32 hex digits."""

    number: int
    id: str


class StoreCounts(NamedTuple):
    """What one opening of a store has written.

    Attributes:
        waiting: batches and barriers that have not been answered.
        groups: groups of batches, each written as one.
        batches: in them.
        seconds: that their writing took, together.
        sizes: groups by the bits of their size less one: of 1 batch, 2, 3 to 4, 5 to 8, and so on.
        full_at: when the last group was refused for want of room, by the monotonic clock; None once one was written.
    """

    waiting: int = 0
    groups: int = 0
    batches: int = 0
    seconds: float = 0.0
    sizes: tuple[int, ...] = ()
    full_at: float | None = None


class View(Protocol):
    """A snapshot of all tables between `with store.view() as view:` and the end of the block.

    Belongs to the worker that entered it. Keep it for one page of results: what it sees cannot be reclaimed, and a
    store that has to grow waits for it.
    """

    def __enter__(self) -> Self:
        """Take the snapshot; may wait while the store grows or all reader slots are taken."""
        ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        """Let the snapshot go."""
        ...

    def get(self, table: int, key: bytes, /) -> bytes | None:
        """Return the value under `key`, or None."""
        ...

    def scan(
        self,
        table: int,
        low: bytes,
        high: bytes | None,
        /,
        *,
        reverse: bool = False,
        limit: int | None = None,
        skip: int = 0,
    ) -> Rows:
        """Return rows with `low <= key < high` in key order.

        Args:
            table: which one.
            low: the first key that may be returned; `b""` for the start of the table.
            high: the first key beyond; None for the end of the table.
            reverse: from the far end backwards.
            limit: at most this many rows.
            skip: leave out this many rows first; costs their number.
        """
        ...


class Store(Protocol):
    """Ordered byte tables with atomic, durable, per-thread-ordered batches. All of it may be called by any worker."""

    def open(self) -> Boot:
        """Open the store and return this boot, which META then records, as `schema.pack_boot` says. Blocks.

        Raises:
            StoreInUse: another process or store object owns it; `details` names the holder.
            NotAStore, SchemaTooNew, StorageFull, StoreFailed: see each; nothing in the store was changed.
        """
        ...

    def commit(self, batch: Batch, /) -> None:
        """Hand over a batch; `batch.confirm` is called exactly once with what became of it.

        Never blocks and never raises. On a store that is closed or failed, `confirm` gets `not_written` at once, on
        the calling worker.
        """
        ...

    def barrier(self, number: int, boot: int, life: int, confirm: Confirm, /) -> None:
        """Shut out all incarnations of a thread lower than (boot, life).

        Queued in order with batches. When it is answered, every older batch has been judged, and every lower one that
        comes later will be refused with `AppendConflict`. Lasts until the store is closed.
        """
        ...

    def view(self) -> View:
        """Return a read snapshot to enter with `with`.

        Raises (on entering):
            StoreClosed: the store is not open.
            StoreFailed: the tables cannot be read.
        """
        ...

    def failure(self) -> TreadleError | None:
        """Return why the store takes no more writes, or None."""
        ...

    def backlog(self) -> int:
        """Return how many batches and barriers have not been answered yet."""
        ...

    def counts(self) -> StoreCounts:
        """Count what this opening wrote."""
        ...

    def close(self) -> None:
        """Write and answer everything that was handed over, then let go of the store. Blocks; idempotent."""
        ...
