"""Owns the inbox row: one accepted input that has not joined history. Holds no content; the journal has it."""

from __future__ import annotations

from typing import NamedTuple

from .events import RowKind, StoredRow

__all__ = ["Row"]


class Row(NamedTuple):
    """A waiting input.

    Attributes:
        sequence: of the `INPUT_QUEUED` event that holds the content; the row's identity and age.
        first: it came with an interruption and stands before all rows that did not.
        messages: how many messages it holds; `silent` of them are silent.
        edits: of its messages that were changed, the rank and the sequence of the event with the new one; 0: deleted.
    """

    sequence: int
    kind: RowKind
    input_id: str
    execution_id: str | None
    messages: int
    silent: int
    size: int
    first: bool
    timeout: float | None
    edits: tuple[tuple[int, int], ...] = ()

    def stored(self) -> StoredRow:
        """Return what a later fold must know of this row once it is gone."""
        stored: StoredRow = [self.sequence, self.kind, self.messages, self.silent, self.size]
        return [*stored, [list(edit) for edit in self.edits]] if self.edits else stored
