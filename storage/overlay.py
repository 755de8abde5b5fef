"""Owns the view of a store with a batch under way laid over it: what will be there once that is written. Writes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from .store import Rows, View

__all__ = ["Overlay"]


class Overlay:
    """A `View` in which some rows are other than in the one below.

    Args:
        view: the one below; entered and left with this.
        changes: by table the rows that differ; None: the row is gone.
    """

    __slots__ = ("_changes", "_view")

    def __init__(self, view: View, changes: Mapping[int, Mapping[bytes, bytes | None]]) -> None:
        self._view = view
        self._changes = changes

    def __enter__(self) -> Self:
        self._view = self._view.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self._view.__exit__(kind, error, trace)

    def get(self, table: int, key: bytes, /) -> bytes | None:
        """Return the value under `key`, or None."""
        changed = self._changes.get(table)
        return changed[key] if changed is not None and key in changed else self._view.get(table, key)

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
        """Return rows with `low <= key < high`; see `View.scan`."""
        changed = {
            key: value
            for key, value in self._changes.get(table, {}).items()
            if low <= key and (high is None or key < high)
        }
        if not changed:
            return self._view.scan(table, low, high, reverse=reverse, limit=limit, skip=skip)
        # What is changed may be among what is found below, so that much more may have to be read.
        most = None if limit is None else skip + limit + len(changed)
        found = dict(self._view.scan(table, low, high, reverse=reverse, limit=most))
        rows = [(key, value) for key, value in (found | changed).items() if value is not None]
        rows.sort(reverse=reverse)
        if most is not None and len(found) == most:
            # Beyond the last that was read the view below may have more: what is changed there stands behind those.
            last = max(found) if not reverse else min(found)
            rows = [row for row in rows if (row[0] >= last if reverse else row[0] <= last)]
        return rows[skip : None if limit is None else skip + limit]
