"""Owns the batch under way: what was decided into it, and look-ups that see it. Hands over one batch, decides nothing.

A thread has one batch in flight. Mail that waited meanwhile is decided in order into the next one, and each decision
sees those before it: in the facts, which fold as it grows, and in the look-ups here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ..protocol.decision import Batch as About
from ..protocol.decision import Decision
from ..protocol.events import (
    Event,
    ExecutionInterrupted,
    InputQueued,
    InputWithdrawn,
    MessageAdded,
    MessagesJoined,
    RequestOpened,
    RequestTerminated,
    StoredRow,
)
from ..protocol.inbox import Row
from ..protocol.limits import BATCH_BYTES_MAX, BATCH_RECORDS_MAX, ROWS_READ_MAX
from ..protocol.message_edits import edited_content
from ..protocol.open_calls import OpenCall, calls_of
from ..protocol.recorded import receipt_of, recorded_id
from ..protocol.triggers import Prior, Standing
from ..storage.batch import COMMITTED
from ..storage.codec import WORKER, encode_facts
from ..storage.encoding import (
    RECEIPT_RECORDED,
    RECEIPT_WITHDRAWN,
    WORK_DELETING,
    Encoding,
    change_payload,
    work_kind,
)
from ..storage.keys import user_key
from ..storage.overlay import Overlay
from ..storage.reading import (
    read_content,
    read_event,
    read_open,
    read_prior,
    read_receipt,
    read_request,
    read_row,
    read_rows,
)
from ..storage.tables import Table
from .mailbox import Mail

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ..protocol.facts import Facts
    from ..storage.batch import Answer
    from ..storage.store import Store, View
    from .mailbox import Mailbox

__all__ = ["Building", "Lookups"]

_WORK = int(Table.WORK)
_START, _FINISH, _OTHER = About.START, About.FINISH, About.OTHER
_encoding = Encoding.__init__


class Building(Encoding):
    """One batch from its first decision to its answer.

    Attributes:
        about: what it is about, once known; an ending or a start outweighs an interruption.
        decided: each mail with its decision, in order; their replies and actions follow the answer.
        events: (sequence, time, event) in order.
        known: the inputs in it and those looked up for it, by sequence, with their times.
        interruption: the first one in it.
        closed: nothing more may be decided into it.
        edited: a message is edited in it, so that what is looked up may be other than the store has it.
        answer: what the store said, once it did.
    """

    interruption: ExecutionInterrupted | None = None
    edited: bool = False
    _laid: tuple[int, dict[int, dict[bytes, bytes | None]]] | None = None  # how many ops, and what they change

    def __init__(self, number: int, facts: Facts, mailbox: Mailbox | None = None) -> None:
        _encoding(self, number, facts)
        # Everything that a usual batch is given later than here and where it is sealed, too: attributes that come once some
        # thirty batches were made without them turn all that an instance has into a dict of its own.
        self.about = _OTHER
        self.answer = COMMITTED
        self.tombstone = self.closed = False
        self.known: dict[int, tuple[int, InputQueued]] | None = None
        self.decided: list[tuple[Mail, Decision]] = []
        self.events: list[tuple[int, int, Event]] = []
        self._mailbox = mailbox
        self._since_before = facts.since  # which moves with the run status, and only with it
        self._work_before = work_kind(facts)

    def take(self, mail: Mail, decision: Decision, now: int) -> None:
        """Take a decision's events in; `now` is the time of its first."""
        for event in decision.events:
            self.add(event, now)
            self.events.append((self.head_sequence, now, event))
            kind = type(event)
            if kind is InputQueued:
                self.know(self.head_sequence, now, event)  # type: ignore[arg-type]
            elif kind is ExecutionInterrupted and self.interruption is None:
                self.interruption = event  # type: ignore[assignment]
            now += 1
        self.decided.append((mail, decision))
        if decision.closes:
            self.closed = True
        about = decision.batch
        if about is not _OTHER and (about is _START or about is _FINISH or self.about is _OTHER):
            self.about = about

    def know(self, sequence: int, at: int, content: InputQueued) -> None:
        """Note an input that may join in this batch."""
        if self.known is None:
            self.known = {}
        self.known[sequence] = (at, content)

    def changes(self) -> dict[int, dict[bytes, bytes | None]]:
        """Return what it changes so far, by table."""
        laid, tables = self._laid or (0, {})
        for table, key, value in self.ops[laid:]:
            tables.setdefault(table, {})[key] = value
        self._laid = len(self.ops), tables
        return tables

    def entomb(self, facts: Facts) -> None:
        """Become the batch that leaves a tombstone of a thread with these facts."""
        self.tombstone = True
        self.ops += ((int(Table.NAMES), facts.thread_id.encode(), b""), (_WORK, self.prefix, WORK_DELETING))
        if facts.user_id is not None:
            self.ops.append((int(Table.USERS), user_key(facts.user_id, self.number), None))

    def full(self) -> bool:
        """Say whether the next decision has to wait for the next batch."""
        return len(self.decided) >= BATCH_RECORDS_MAX or self.size >= BATCH_BYTES_MAX

    def seal(self, facts: Facts, boot: int, life: int, confirm: Callable[[Answer], None] | None = None) -> None:
        """Add the record of the facts after it, and what it changes in the store-wide lists: now it can be handed over.

        Args:
            facts: after all its events.
            boot, life: the incarnation that writes.
            confirm: takes the answer; by default the batch itself goes to its thread's mailbox with it.
        """
        self.boot = boot
        self.life = life
        if confirm is not None:
            self.confirm = confirm  # type: ignore[assignment, method-assign]
        work = work_kind(facts)
        if work != self._work_before and not self.tombstone:  # a tombstone has put its own kind of work there
            self.ops.append((_WORK, self.prefix, work))
        packer = WORKER.pack
        self.record = record = encode_facts(facts, packer)
        self.size += len(record)
        if not self.sequence:
            self.absent = (int(Table.NAMES), facts.thread_id.encode())
            self.change = change_payload(facts, packer=packer)
        elif self._since_before != facts.since or self.tombstone:
            self.change = change_payload(facts, deleted=self.tombstone, packer=packer)

    # Not set on each batch, as others set it: a bound method of the batch in itself would wait for the collector.
    def confirm(self, answer: Answer) -> None:
        """Go to the thread's mailbox, with the answer."""
        mailbox = self._mailbox
        assert mailbox is not None
        self.answer = answer
        mailbox.scheduler.answer(mailbox, self)


class Lookups:
    """What one decision needs beyond the facts, read from the store and from the batch under way."""

    __slots__ = ("_building", "_facts", "_store", "number")

    def __init__(self, store: Store, number: int, facts: Facts, building: Building | None) -> None:
        self._store = store
        self.number = number
        self._facts = facts
        self._building = building

    def prior(self, given: str) -> Prior | None:
        """Return what is recorded under an id."""
        for _, at, event in self._events():
            if recorded_id(event) == given:
                return Prior(getattr(event, "digest", None), receipt_of(event, at))
        with self._store.view() as view:
            return read_prior(view, self.number, self._facts.generation, given)

    def rows(self, kinds: Iterable[str], limit: int = ROWS_READ_MAX) -> list[Row]:
        """Return the oldest waiting rows of these kinds."""
        wanted = frozenset(kinds)
        edited = self._building is not None and self._building.edited
        with self.view() if edited else self._store.view() as view:
            rows = read_rows(view, self.number, kinds=wanted, limit=limit)
        if self._building is None or edited:
            return rows
        gone: set[int] = set()
        new: list[Row] = []
        for sequence, _, event in self._events():
            if isinstance(event, InputQueued) and event.kind in wanted:
                new.append(row_of(event, sequence))
            elif isinstance(event, MessagesJoined):
                gone.update(row[0] for row in event.rows)
            elif isinstance(event, InputWithdrawn):
                gone.add(event.row[0])
        kept = [row for row in (*rows, *new) if row.sequence not in gone]
        kept.sort(key=lambda row: (not row.first, row.sequence))
        return _fitting(kept, limit)

    def withdrawable(self, given: str) -> tuple[bool, bool, Row | None]:
        """Return whether an input id is known, whether it was withdrawn, and its waiting row."""
        if self._building is not None and self._building.edited:
            with self.view() as view:
                return _withdrawable(view, self.number, self._facts.generation, given)
        for sequence, _, event in self._events():
            if recorded_id(event) != given:
                continue
            if isinstance(event, InputQueued):
                waiting = next(
                    (row for row in self.rows(("submit", "message", "steer", "tool")) if row.sequence == sequence), None
                )
                return True, waiting is None and self._withdrawn_here(given), waiting
            return True, False, None  # a control, or an input that started an execution
        if self._withdrawn_here(given):
            return True, True, None
        with self._store.view() as view:
            known, withdrawn, row = _withdrawable(view, self.number, self._facts.generation, given)
        joined = any(
            row is not None and row.sequence == stored[0]
            for _, _, event in self._events()
            if isinstance(event, MessagesJoined)
            for stored in event.rows
        )
        return known, withdrawn, None if joined else row

    def _withdrawn_here(self, given: str) -> bool:
        return any(isinstance(event, InputWithdrawn) and event.input_id == given for _, _, event in self._events())

    def open_calls(self) -> dict[str, int]:
        """Return the ids of tool calls without a result, with the sequences of the events that have their messages."""
        with self._store.view() as view:
            calls: dict[str, int] = dict(read_open(view, self.number, b"c"))
        for sequence, _, event in self._events():
            if isinstance(event, MessageAdded) and event.execution_id is not None:
                calls.update(dict.fromkeys(event.message.get("calls", ()), sequence))
                if event.message.get("closes"):
                    calls.pop(event.message["tool_call_id"], None)
        return calls

    def left_open(self) -> list[OpenCall]:
        """Return the tool calls without a result, in the order of history, with where they stand."""
        calls = self.open_calls()
        here = {sequence: event for sequence, _, event in self._events()}
        found: list[OpenCall] = []
        with self._store.view() as view:
            for sequence in sorted(set(calls.values())):
                event = here.get(sequence) or read_event(view, self.number, self._facts.generation, sequence)[1]
                messages = event.messages if isinstance(event, InputQueued) else [cast("MessageAdded", event).message]
                found += [call for draft in messages for call in calls_of(draft) if calls.get(call.call_id) == sequence]
        return found

    def unmade(self, rows: Iterable[Row]) -> list[tuple[int, OpenCall]]:
        """Return the calls of the queued tools among rows that wait, each with the sequence of its row."""
        queued = [row.sequence for row in rows if row.kind == "tool"]
        if not queued:
            return []
        with self._store.view() as view:
            contents = [read_content(view, self.number, self._facts.generation, sequence) for sequence in queued]
        return [(at, calls_of(content.messages[0])[0]) for at, content in zip(queued, contents, strict=True)]

    def pending(self) -> list[str]:
        """Return the ids of requests without an answer."""
        with self._store.view() as view:
            requests = {found[0]: None for found in read_open(view, self.number, b"r")}
        for _, _, event in self._events():
            if isinstance(event, RequestOpened):
                requests[event.request_id] = None
            elif isinstance(event, RequestTerminated):
                requests.pop(event.request_id, None)
        return list(requests)

    def standing(self, request_id: str) -> Standing | None:
        """Return how a request stands, or None where there never was one."""
        for _, _, event in reversed(self._events()):
            if isinstance(event, RequestOpened | RequestTerminated) and event.request_id == request_id:
                return "pending" if isinstance(event, RequestOpened) else event.status
        with self._store.view() as view:
            return read_request(view, self.number, request_id)

    def groups(self) -> list[tuple[int, int]]:
        """Return the process groups on record, with their start times."""
        with self._store.view() as view:
            return [(group, start) for group, start in read_open(view, self.number, b"p")]

    def contents(self, rows: Iterable[StoredRow]) -> dict[int, tuple[int, InputQueued]]:
        """Return the events behind rows, with their times; of messages that were edited, with what they are now."""
        found: dict[int, tuple[int, InputQueued]] = {}
        missing = []
        held = (self._building.known if self._building is not None else None) or {}
        for row in rows:
            if row[0] in held:
                found[row[0]] = held[row[0]]
            else:
                missing.append(row)
        if missing:
            with self._store.view() as view:
                for row in missing:
                    found[row[0]] = read_input(view, self.number, self._facts.generation, row)
        return found

    def view(self) -> View:
        """Return a view, to enter, of what will be there once the batch under way is written."""
        view = self._store.view()
        return view if self._building is None else Overlay(view, self._building.changes())

    def _events(self) -> list[tuple[int, int, Event]]:
        return self._building.events if self._building is not None else []


def read_input(view: View, number: int, generation: int, row: StoredRow) -> tuple[int, InputQueued]:
    """Return the event behind a row with its time, and in it what its messages are now."""
    at, event = read_event(view, number, generation, row[0])
    assert isinstance(event, InputQueued), event
    for rank, edited in row[5] if len(row) > 5 else ():
        update = read_event(view, number, generation, edited)[1] if edited else None
        event = edited_content(event, rank, {} if update is None else update.message)  # type: ignore[attr-defined]
    return at, event


def _withdrawable(view: View, number: int, generation: int, given: str) -> tuple[bool, bool, Row | None]:
    receipt = read_receipt(view, number, given)
    if receipt is None:
        return False, False, None
    if receipt.state != RECEIPT_RECORDED:
        return True, receipt.state == RECEIPT_WITHDRAWN, None
    content = read_content(view, number, generation, receipt.sequence)
    return True, False, read_row(view, number, content, receipt.sequence)


def row_of(event: InputQueued, sequence: int) -> Row:
    """Return the row that an acceptance stores."""
    silent = sum(1 for draft in event.messages if draft.get("silent"))
    return Row(
        sequence,
        event.kind,
        event.input_id,
        event.execution_id,
        len(event.messages),
        silent,
        event.size,
        event.first,
        event.timeout,
    )


def _fitting(rows: list[Row], limit: int) -> list[Row]:
    size = 0
    for rank, row in enumerate(rows):
        size += row.size
        if rank and (rank >= limit or size > BATCH_BYTES_MAX):
            return rows[:rank]
    return rows
