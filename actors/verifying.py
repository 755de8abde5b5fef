"""Owns the comparison of what actors hold in memory with their journals, for `always_evict`. Corrects nothing.

The facts in memory are a cache of folding the journal. The verifier folds each event once more, from what the store
holds, and compares after every batch, at every activation, and between what was dropped and what was loaded again.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from ..protocol.facts import STORED, Facts
from ..protocol.limits import JOURNAL_PAGE
from ..storage.reading import read_journal

if TYPE_CHECKING:
    from ..storage.store import Store

__all__ = ["Verifier", "divergences"]

divergences: list[str] = []
"""What any verifier of this process found; a crash of an actor may hide behind its restart, so tests look here."""


class Verifier:
    """Keeps a second fold of every thread's journal; an actor's worker calls it, on behalf of its thread."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._folded: dict[int, Facts] = {}
        self._dropped: dict[int, Facts] = {}

    def committed(self, number: int, facts: Facts) -> None:
        """Compare an actor's facts with its journal, once a batch is durable.

        Raises:
            AssertionError: they differ.
        """
        self._compare("after a commit", facts, self._fold(number, facts))

    def loaded(self, number: int, facts: Facts) -> None:
        """Compare the facts that an actor begins with with its journal, and with what its predecessor dropped.

        Raises:
            AssertionError: they differ.
        """
        with self._lock:
            dropped = self._dropped.pop(number, None)
        if dropped is not None:
            self._compare("loaded again, against those dropped,", facts, dropped)
        self._compare("at activation", facts, self._fold(number, facts))

    def dropped(self, number: int, facts: Facts) -> None:
        """Note the facts of an actor that is let go; never raises: it runs under its mailbox's lock."""
        with self._lock:
            self._dropped[number] = facts.copy()

    def forget(self, number: int) -> None:
        """Forget a thread that was deleted: its journal goes."""
        with self._lock:
            self._folded.pop(number, None)
            self._dropped.pop(number, None)

    def _fold(self, number: int, facts: Facts) -> Facts:
        """Fold what the journal holds beyond the last comparison, up to where the facts stand."""
        with self._lock:
            folded = self._folded.setdefault(number, Facts())
        while folded.sequence < facts.sequence:
            with self._store.view() as view:
                page = read_journal(view, number, facts.generation, folded.sequence, facts.sequence, JOURNAL_PAGE)
            if not page:
                self._diverge(
                    f"the journal of thread {facts.thread_id!r} ends at {folded.sequence}, not at {facts.sequence}"
                )
            for entry in page:
                folded.fold(entry.event, entry.created_at)
        return folded

    def _compare(self, when: str, held: Facts, expected: Facts) -> None:
        wrong = [
            f"{name} is {mine!r}, not {true!r}"
            for name, mine, true in zip(STORED, held.values(), expected.values(), strict=True)
            if mine != true
        ]
        if wrong:
            self._diverge(f"the facts of thread {held.thread_id!r} {when} differ: {'; '.join(wrong)}")

    def _diverge(self, what: str) -> None:
        divergences.append(what)
        raise AssertionError(what)
