"""Owns the removal of one deleted thread's contents, a thousand rows a batch, in the background. Deletes no live thread.

The tombstone came first, so nothing here can be seen. A crash in between leaves the thread in the index of work, and
the next open goes on.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ..protocol.errors import TreadleError
from ..protocol.limits import DELETE_ROWS
from ..storage.batch import Answer, Batch, Op
from ..storage.head import unpack_head
from ..storage.keys import numbered, prefix_end
from ..storage.tables import Table

if TYPE_CHECKING:
    from collections.abc import Callable

    from .services import Services

__all__ = ["Removal"]

logger = logging.getLogger("treadle")

_TABLES = (
    Table.JOURNAL, Table.MESSAGES, Table.MESSAGE_IDS, Table.EXECUTIONS, Table.INBOX, Table.RECEIPTS, Table.VALUES, Table.OPEN,
)  # fmt: skip


class Removal:
    """The removal of one thread's rows; `done` is called once nothing is left, or the store takes no more."""

    def __init__(self, services: Services, number: int, done: Callable[[], object]) -> None:
        self._services = services
        self._number = number
        self._done = done

    def go_on(self) -> None:
        """Hand the next batch over; any worker, blocks for one page of reads."""
        prefix = numbered(self._number)
        ops: list[Op] = []
        try:
            with self._services.store.view() as view:
                row = view.get(Table.THREADS, prefix)
                for table in _TABLES:
                    if len(ops) >= DELETE_ROWS:
                        break
                    page = view.scan(table, prefix, prefix_end(prefix), limit=DELETE_ROWS - len(ops))
                    ops += [(int(table), key, None) for key, _ in page]
            if row is None:
                self._done()
                return
            head = unpack_head(row, prefix)
        except TreadleError:
            if not self._services.closing:
                logger.exception("Removing deleted thread %d stopped; the next open goes on", self._number)
            self._done()
            return
        last = len(ops) < DELETE_ROWS
        if last:
            ops.append((int(Table.WORK), prefix, None))
        batch = Batch(
            number=self._number,
            generation=head.generation,
            sequence=head.sequence,
            boot=self._services.boot.number,
            life=self._services.directory.next_life(),
            head_generation=head.generation,
            head_sequence=head.sequence,
            record=b"",
            ops=ops,
            size=sum(len(key) for _, key, _ in ops),
            confirm=lambda answer: self._answered(answer, last=last),
        )
        self._services.store.commit(batch)

    def _answered(self, answer: Answer, *, last: bool) -> None:
        if answer.kind != "committed" and not self._services.closing:
            logger.warning("Removing deleted thread %d stopped: %s", self._number, answer.error)
        if (
            last
            or answer.kind != "committed"
            or self._services.closing
            or not self._services.dispatcher.call(self.go_on)
        ):
            self._done()
