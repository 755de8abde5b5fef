"""Owns what one thread's record and rows must be, given its journal: the fold and the encoding, run anew. Writes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..protocol.errors import TreadleError
from ..protocol.events import (
    ExecutionFinished,
    ExecutionLost,
    InputQueued,
    InputWithdrawn,
    MessageDeleted,
    MessagesJoined,
    MessageUpdated,
    ValueChanged,
)
from ..protocol.facts import Facts
from ..protocol.message_edits import edited_content
from .codec import decode_event, encode_event
from .encoding import Encoding
from .head import Head
from .journal_rules import JournalRules
from .keys import journal_key, value_key
from .tables import Table

if TYPE_CHECKING:
    from ..protocol.events import Event
    from .store import Rows

__all__ = ["DERIVED", "Replay", "replay"]

# The tables that the journal determines to the last byte; VALUES only by its keys.
DERIVED: Final = (
    Table.MESSAGES, Table.MESSAGE_IDS, Table.EXECUTIONS, Table.INBOX, Table.RECEIPTS, Table.OPEN,
)  # fmt: skip


class Replay:
    """What follows from one journal.

    Attributes:
        facts: the fold; None where the journal cannot be read to its end, and then `tables` is not to be compared either.
        tables: rows by table and key.
        values: keys that VALUES must have.
        names, users: the keys there that must lead to this thread.
        status_sequence: of the event that changed the run status last.
        rules: what its order says.
        found: (key, what is wrong), in order.
    """

    def __init__(self, number: int, head: Head) -> None:
        self.facts: Facts | None = Facts()
        self.tables: dict[int, dict[bytes, bytes]] = {int(table): {} for table in (*DERIVED, Table.NAMES, Table.USERS)}
        self.values: set[bytes] = set()
        self.status_sequence = 0
        self.rules = JournalRules()
        self.found: list[tuple[bytes, str]] = []
        self._number = number
        self._generation = head.generation
        self._encoding = Encoding(number, Facts())
        self._contents: dict[int, tuple[int, InputQueued]] = {}
        self._groups: list[int] = []  # recorded before the event at hand

    def take(self, key: bytes, data: bytes) -> None:
        """Read, judge, fold and encode the next event.

        Raises:
            TreadleError: it cannot be; nothing that follows it can be judged.
        """
        assert self.facts is not None
        at, event = decode_event(data, key)
        if encode_event(event, at) != data:
            self.found.append((key, "it encodes to other bytes than are stored"))
        self.rules.take(event, at)
        before = self.facts.status
        self.facts.fold(event, at)
        if self.facts.status != before or self.facts.sequence == 1:
            self.status_sequence = self.facts.sequence
        self._encode(event, at)

    def _encode(self, event: Event, at: int) -> None:
        encoding = self._encoding
        if isinstance(event, MessagesJoined | InputWithdrawn):
            rows = event.rows if isinstance(event, MessagesJoined) else [event.row]
            encoding.contents = {row[0]: self._contents.pop(row[0]) for row in rows if row[0] in self._contents}
        elif isinstance(event, ExecutionFinished | ExecutionLost):
            encoding.groups = self._groups
        elif isinstance(event, MessageUpdated | MessageDeleted) and event.row is not None:
            self._edit(event)
        encoding.add(event, at)
        self._groups = sorted(self.rules.groups)
        if isinstance(event, InputQueued):
            self._contents[encoding.head_sequence] = (at, event)
        elif isinstance(event, ValueChanged):
            name = value_key(encoding.prefix, event.key)
            (self.values.discard if event.deleted else self.values.add)(name)
        for table, key, value in encoding.ops:
            if table == Table.JOURNAL:
                continue
            if value is None:
                self.tables[table].pop(key, None)
            else:
                self.tables[table][key] = value
        encoding.ops.clear()

    def _edit(self, event: MessageUpdated | MessageDeleted) -> None:
        """Have the row of a message that waits go on with what the message is now."""
        assert event.row is not None
        sequence, rank = event.row[0], event.place[1]
        queued_at, content = self._contents[sequence]
        draft = event.message if isinstance(event, MessageUpdated) else {}
        found = self._contents[sequence] = queued_at, edited_content(content, rank, draft)
        self._encoding.contents = {sequence: found}


def replay(number: int, head: Head, journal: Rows) -> Replay:
    """Run a thread's whole journal.

    Args:
        number: the thread's.
        head: where its row says that the journal ends.
        journal: all rows of the thread in JOURNAL.
    """
    result = Replay(number, head)
    for rank, (key, data) in enumerate(journal, 1):
        expected = journal_key(number, head.generation, rank)
        if rank > head.sequence or key != expected:
            why = (
                f"beyond the head {head.sequence}" if rank > head.sequence else f"{expected.hex()} is missing before it"
            )
            result.found.append((key, why))
            result.facts = None
            break
        try:
            result.take(key, data)
        except Exception as error:  # noqa: BLE001 - what the insides of an event do to a fold cannot be foreseen
            result.found.append(
                (key, str(error) if isinstance(error, TreadleError) else f"it does not fold: {error!r}")
            )
            result.facts = None
            break
    if result.facts is not None and result.facts.sequence < head.sequence:
        last = journal_key(number, head.generation, result.facts.sequence + 1)
        result.found.append((last, f"missing; the head is {head.sequence}"))
        result.facts = None
    result.found += [(journal_key(number, head.generation, at), why) for at, why in result.rules.found]
    return result
