"""Owns the check of one thread: its record and rows against its journal, within one view. Changes nothing.

The journal is folded and encoded anew, and what comes out must be what is stored, to the byte. Beside that stand the
rules' own counts, which share nothing with the fold: a mistake made the same way at both ends shows there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ..protocol.errors import CorruptRecord
from ..protocol.facts import STORED, Facts
from .codec import decode_facts, encode_facts, pack, unpack
from .encoding import WORK_DELETING, change_payload, work_kind
from .gaps import GAPS_CLASS
from .head import HEAD_SIZE, Head, unpack_head
from .keys import numbered, prefix_end
from .replay import DERIVED, Replay, replay
from .tables import Table

if TYPE_CHECKING:
    from .store import View

__all__ = ["OWN", "Broken", "ThreadCheck"]

OWN: Final = (Table.JOURNAL, *DERIVED, Table.VALUES)  # their keys begin with the thread's number


class Broken(NamedTuple):
    """One broken invariant: the row that shows it, the thread it belongs to (0: none) and what is wrong."""

    table: str
    key: str
    thread: int
    why: str

    def __str__(self) -> str:
        whose = f"thread {self.thread}, " if self.thread else ""
        return f"{whose}{self.table} {self.key}: {self.why}"


class ThreadCheck:
    """One thread as a view shows it.

    Attributes:
        facts: its record; None where it does not decode or was removed.
        deleted: it was deleted; `removing`: its contents are still going.
        events: rows of its journal.
        broken: what is wrong.
    """

    def __init__(self, view: View, number: int, last_boot: int) -> None:
        self.facts: Facts | None = None
        self.deleted = self.removing = False
        self.events = 0
        self.broken: list[Broken] = []
        self._view = view
        self._number = number
        self._prefix = numbered(number)
        try:
            self._check(last_boot)
        except CorruptRecord as error:
            self._note_error(error)
        except Exception as error:  # noqa: BLE001 - whatever a damaged record leads to, the other threads are judged
            self._note(Table.THREADS, self._prefix, f"it cannot be judged to its end: {error!r}")

    def _note(self, table: int, key: bytes, why: str) -> None:
        self.broken.append(Broken(Table(table).name.lower(), key.hex(), self._number, why))

    def _note_error(self, error: CorruptRecord) -> None:
        table, key = error.details.get("table"), error.details.get("key")
        self.broken.append(Broken(str(table), str(key), self._number, error.message))

    def _check(self, last_boot: int) -> None:
        row = self._view.get(Table.THREADS, self._prefix)
        assert row is not None, self._number
        head = unpack_head(row, self._prefix)
        if last_boot and head.boot > last_boot:
            self._note(Table.THREADS, self._prefix, f"written by boot {head.boot}; the last was {last_boot}")
        record = row[HEAD_SIZE:]
        self.facts = decode_facts(record, self._prefix) if record else None
        if self.facts is None or self._view.get(Table.NAMES, self.facts.thread_id.encode()) == b"":
            self.deleted = True
            self._check_deleted(head)
            return
        if encode_facts(self.facts) != record:
            self._note(Table.THREADS, self._prefix, "it encodes to other bytes than are stored")
        self._check_live(head, self.facts)

    def _check_deleted(self, head: Head) -> None:
        change = self._read_change(head)
        if change is not None and change[5] is not True:
            self._note(Table.CHANGES, numbered(head.change), "the thread is deleted, and this does not say so")
        if self._view.get(Table.WORK, self._prefix) == WORK_DELETING:
            self.removing = True
            return  # how far that is cannot be told
        if self.facts is not None:
            self._note(Table.WORK, self._prefix, "the thread is deleted, and nothing says that its contents must go")
            return
        for table in (*OWN, Table.WORK):
            for key, _ in self._view.scan(table, self._prefix, prefix_end(self._prefix), limit=1):
                self._note(table, key, "left behind by a deleted thread")

    def _check_live(self, head: Head, facts: Facts) -> None:
        journal = self._view.scan(Table.JOURNAL, self._prefix, prefix_end(self._prefix))
        self.events = len(journal)
        replayed = replay(self._number, head, journal)
        for key, why in replayed.found:
            self._note(Table.JOURNAL, key, why)
        if (facts.generation, facts.sequence) != (head.generation, head.sequence):
            self._note(Table.THREADS, self._prefix, f"head {head.generation}:{head.sequence}, record {facts.cursor}")
        found, due = self._view.get(Table.WORK, self._prefix), work_kind(facts)
        if found != due:
            self._note(Table.WORK, self._prefix, f"holds {found!r}, the record gives {due!r}")
        self._check_values(replayed)
        self._check_change(head, facts, replayed.status_sequence)
        if replayed.facts is None:
            return  # what follows from a broken journal says nothing about the tables
        self._check_record(facts, replayed.facts)
        self._check_counts(facts, replayed)
        for table in (*DERIVED, Table.NAMES, Table.USERS):
            self._check_table(table, replayed.tables[table])

    def _check_record(self, stored: Facts, folded: Facts) -> None:
        for name in STORED:
            found, due = getattr(stored, name), getattr(folded, name)
            if found != due or type(found) is not type(due):
                self._note(Table.THREADS, self._prefix, f"{name} is {found!r}, the journal gives {due!r}")

    def _check_counts(self, facts: Facts, replayed: Replay) -> None:
        rules = replayed.rules
        waiting = [content.kind for content in rules.waiting.values()]
        joined = rules.messages.joined
        due = {
            "execution_id": rules.owner,
            "steers": waiting.count("steer"),
            "waiting_messages": waiting.count("message") + waiting.count("tool"),
            "waiting_submits": waiting.count("submit"),
            "open_calls": len(rules.calls),
            "pending": len(rules.requests),
            "processes": len(rules.groups),
            "messages": rules.messages.positions,
            "counts": joined,
        }
        for name, value in due.items():
            if getattr(facts, name) != value:
                self._note(Table.THREADS, self._prefix, f"{name} is {getattr(facts, name)!r}, counted are {value!r}")
        if (facts.state == "running") != (rules.owner is not None):
            self._note(Table.THREADS, self._prefix, f"state is {facts.state}, the owner is {rules.owner}")
        open_rows = len(rules.calls) + len(rules.requests) + len(rules.groups)
        in_history = sum(joined.values())
        for table, count in ((Table.INBOX, len(waiting)), (Table.OPEN, open_rows), (Table.MESSAGES, in_history)):
            # The counters of gaps stand among the messages.
            given = sum(1 for key in replayed.tables[table] if table != Table.MESSAGES or key[8] != GAPS_CLASS)
            if given != count:
                self._note(table, self._prefix, f"its journal is encoded into {given} rows, counted are {count}")

    def _check_table(self, table: Table, due: dict[bytes, bytes]) -> None:
        if table in DERIVED:
            stored = dict(self._view.scan(table, self._prefix, prefix_end(self._prefix)))
        else:
            # Here only what must lead to this thread; rows that should not are found where they lead nowhere.
            stored = {key: value for key in due if (value := self._view.get(table, key)) is not None}
        for key in sorted(due.keys() | stored.keys()):
            found, wanted = stored.get(key), due.get(key)
            if found is None:
                self._note(table, key, "missing; the journal gives it")
            elif wanted is None:
                self._note(table, key, "the journal gives no such row")
            elif found != wanted:
                self._note(table, key, f"holds {found.hex()}, the journal gives {wanted.hex()}")

    def _check_values(self, replayed: Replay) -> None:
        stored = dict(self._view.scan(Table.VALUES, self._prefix, prefix_end(self._prefix)))
        for key, data in stored.items():
            try:
                if pack(unpack(data, Table.VALUES, key)) != data:
                    self._note(Table.VALUES, key, "it encodes to other bytes than are stored")
            except CorruptRecord as error:
                self._note_error(error)
        if replayed.facts is not None:
            for key in sorted(stored.keys() ^ replayed.values):
                self._note(
                    Table.VALUES, key, "the journal sets none" if key in stored else "missing; the journal sets it"
                )

    def _check_change(self, head: Head, facts: Facts, since: int) -> None:
        """Compare the thread's row in CHANGES with its status; its cursor is that of the batch that changed it."""
        change = self._read_change(head)
        if change is None:
            return
        key = numbered(head.change)
        due = unpack(change_payload(facts), Table.CHANGES, key)
        if change[2:] != due[2:]:
            self._note(Table.CHANGES, key, f"says {change[2:]}, the record gives {due[2:]}")
        elif change[0] != head.generation or not since <= change[1] <= head.sequence:
            self._note(
                Table.CHANGES, key, f"its cursor is {change[0]}:{change[1]}, the status changed at sequence {since}"
            )

    def _read_change(self, head: Head) -> list[Any] | None:
        key = numbered(head.change)
        row = self._view.get(Table.CHANGES, key)
        if row is None or row[:8] != self._prefix:
            self._note(Table.CHANGES, key, "missing, or of another thread; this thread's head names it")
            return None
        change: list[Any] = unpack(row[8:], Table.CHANGES, key)
        whole = isinstance(change, list) and len(change) >= 6 and pack(change) == row[8:]
        if whole and all(type(number) is int for number in change[:2]):
            return change
        self._note(Table.CHANGES, key, "not a change")
        return None
