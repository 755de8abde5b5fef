"""Owns what an event changes in the tables: the one place where events become puts and deletes. Commits nothing.

Journal and tables are changed by the same batch, so a table is always the fold of the journal up to the thread's head.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from ..protocol.errors import InternalError
from ..protocol.events import (
    EVENT_TYPES,
    ControlRecorded,
    Event,
    ExecutionFinished,
    ExecutionInterrupted,
    ExecutionLost,
    ExecutionStarted,
    InputQueued,
    InputWithdrawn,
    MessageAdded,
    MessageDeleted,
    MessagePlace,
    MessagesJoined,
    MessageUpdated,
    ProcessRecorded,
    RequestEnd,
    RequestOpened,
    RequestTerminated,
    StoredRow,
    ThreadCreated,
)
from ..protocol.facts import Facts, message_class
from ..protocol.messages import Draft
from .batch import Batch, Op
from .codec import VERSION, WORKER, Pack
from .gaps import gap_keys
from .keys import JOURNAL_KEY, RANKED_KEY, id_part, inbox_key, numbered, open_key, request_key, user_key
from .tables import Table

__all__ = [
    "RECEIPT_JOINED", "RECEIPT_RECORDED", "RECEIPT_UNREAD", "RECEIPT_WITHDRAWN", "REQUEST_ENDS", "WORK_DELETING", "WORK_ROWS",
    "WORK_RUNNING", "Encoding", "change_payload", "work_kind",
]  # fmt: skip

JOURNAL, MESSAGES, MESSAGE_IDS = int(Table.JOURNAL), int(Table.MESSAGES), int(Table.MESSAGE_IDS)
EXECUTIONS, INBOX, RECEIPTS, OPEN = int(Table.EXECUTIONS), int(Table.INBOX), int(Table.RECEIPTS), int(Table.OPEN)

_journal_key, _message_key = JOURNAL_KEY.pack, RANKED_KEY.pack

# What became of the input behind a receipt.
RECEIPT_RECORDED, RECEIPT_JOINED, RECEIPT_WITHDRAWN, RECEIPT_UNREAD = 0, 1, 2, 3
# What became of a request: its own numbers, since its rows stand beside them.
REQUEST_ENDS: Mapping[RequestEnd, int] = MappingProxyType({"resolved": 4, "expired": 5, "abandoned": 6})

WORK_RUNNING, WORK_ROWS, WORK_DELETING = b"r", b"w", b"d"


def work_kind(facts: Facts) -> bytes | None:
    """Return why the next open must look at this thread, or None."""
    if facts.execution_id is not None:
        return WORK_RUNNING
    if facts.waiting_messages + facts.waiting_submits and (not facts.held or facts.terminated_at is not None):
        return WORK_ROWS
    if facts.resuming and not facts.held and facts.terminated_at is None:
        return WORK_ROWS  # nothing waits but the agent, which asked to run again
    return None


def change_payload(facts: Facts, *, deleted: bool = False, packer: Pack | None = None) -> bytes:
    """Return the thread's row in the list of changes: cursor, status, and whether it is gone; then only this names it.

    Args:
        facts: the thread's.
        deleted: it is gone.
        packer: this worker's own, for one who has looked it up.
    """
    change: list[object] = [facts.generation, facts.sequence, facts.state, facts.since, facts.reason, deleted]
    if deleted:
        change.append(facts.thread_id)
    return (packer or WORKER.pack)(change)


_NO_CONTENTS: Mapping[int, tuple[int, InputQueued]] = MappingProxyType({})


class Encoding(Batch):
    """A batch under way: events go in, ops come out. `seal` it before it is handed over.

    Attributes:
        head_sequence: of the last event taken in.
        position: of the next message to join.
        contents: the events behind the rows that join, are withdrawn or edited, with their times, looked up before; a
            message of theirs that was edited is there as it is now, one that was deleted is empty.
        gaps: the counters beside the messages that are deleted, looked up before.
        groups: the process groups on record, which an ending strikes out.
    """

    # On the class is what few batches are ever given: what the class has as well is slow to read and to set.
    contents: Mapping[int, tuple[int, InputQueued]] = _NO_CONTENTS
    gaps: dict[bytes, int] | None = None

    def __init__(self, number: int, facts: Facts) -> None:
        # Not through `Batch.__init__`: this runs once a commit, and most of what a batch has comes with `seal`.
        self.number = number
        self.prefix = numbered(number)
        self.sequence = self.head_sequence = sequence = facts.sequence
        self.head_generation = generation = facts.generation
        self.generation = generation if sequence else 0
        self.position = facts.messages
        self.start_sequence = facts.start_sequence
        self.ops: list[Op] = []
        self.size = 0
        self.change: bytes | None = None
        self.absent: tuple[int, bytes] | None = None
        self.groups: Sequence[int] = ()

    def add(self, event: Event, at: int) -> None:
        """Take in the next event, which happens `at` (microseconds)."""
        pack = WORKER.pack
        code, change = _WRITTEN[type(event)]
        self.head_sequence = sequence = self.head_sequence + 1
        record = pack([VERSION, code, at, *event.__dict__.values()])  # `encode_event`, which every check compares
        self.size += len(record) + 64
        self.ops.append((JOURNAL, _journal_key(self.number, self.head_generation, sequence), record))
        change(self, event, sequence, pack)

    def add_value(self, key: bytes, value: bytes | None) -> None:
        """Put or delete a value's content, beside its event."""
        self.ops.append((int(Table.VALUES), key, value))
        self.size += len(key) + len(value or b"")

    # What follows is called while an event is taken in, with its packer.

    def join(self, draft: Draft, content: int, rank: int, pack: Pack) -> None:
        """Give a message the next position in history."""
        kind = 0 if len(draft) == 3 else message_class(draft)
        position, joined = self.position, self.head_sequence
        self.position = position + 1
        # A message that joined carries its place; one that waits does not.
        self.ops += (
            (MESSAGES, _message_key(self.number, kind, position), pack((content, rank, joined))),
            (MESSAGE_IDS, self.prefix + id_part(draft["id"]), pack((content, rank, joined, position))),
        )

    def place(self, draft: Draft, place: MessagePlace, edited: int, pack: Pack) -> None:
        """Say where a joined message stands that the event `edited` holds as it is now."""
        content, rank, joined, position = place
        self.ops += (
            (
                MESSAGES,
                _message_key(self.number, message_class(draft), position),
                pack((content, rank, joined, edited)),
            ),
            (MESSAGE_IDS, self.prefix + id_part(draft["id"]), pack((content, rank, joined, position, edited))),
        )

    def receipt(self, given: str, state: int, sequence: int, about: int, pack: Pack) -> None:
        """Record, or update, what is found under an input or control id."""
        self.ops.append((RECEIPTS, self.prefix + id_part(given), pack((sequence, state, about))))


def _nothing(_out: Encoding, _event: Event, _sequence: int, _pack: Pack) -> None:
    """Change no table: the journal and the facts say it all."""


def _created(out: Encoding, event: ThreadCreated, _sequence: int, _pack: Pack) -> None:
    out.ops.append((int(Table.NAMES), event.thread_id.encode(), out.prefix))
    if event.user_id is not None:
        out.ops.append((int(Table.USERS), user_key(event.user_id, out.number), b""))


def _started(out: Encoding, event: ExecutionStarted, sequence: int, pack: Pack) -> None:
    out.start_sequence = sequence
    fields = event.__dict__  # what a model gives away one by one costs three times as much
    ops, prefix, given = out.ops, out.prefix, fields["input_id"]
    ops.append((EXECUTIONS, prefix + id_part(fields["execution_id"]), pack((sequence, 0))))
    if given is not None and fields["cause"] == "submit":
        ops.append((RECEIPTS, prefix + id_part(given), pack((sequence, RECEIPT_JOINED, sequence))))
    for rank, draft in enumerate(fields["messages"]):
        out.join(draft, sequence, rank, pack)


def _ended(out: Encoding, event: ExecutionFinished | ExecutionLost, sequence: int, pack: Pack) -> None:
    out.ops.append((EXECUTIONS, out.prefix + id_part(event.execution_id), pack((out.start_sequence, sequence))))
    for group in out.groups:
        out.ops.append((OPEN, open_key(out.prefix, b"p", str(group)), None))


def _open_calls(out: Encoding, draft: Draft, sequence: int, pack: Pack) -> None:
    for call_id in draft.get("calls", ()):
        out.ops.append((OPEN, open_key(out.prefix, b"c", call_id), pack((call_id, sequence))))


def _added(out: Encoding, event: MessageAdded, sequence: int, pack: Pack) -> None:
    draft = event.message
    out.join(draft, sequence, 0, pack)
    if len(draft) == 3 or event.execution_id is None:  # id, role and content alone; or said by nobody who makes calls
        return
    _open_calls(out, draft, sequence, pack)
    if draft.get("closes"):
        out.ops.append((OPEN, open_key(out.prefix, b"c", draft["tool_call_id"]), None))


def _queued(out: Encoding, event: InputQueued, sequence: int, pack: Pack) -> None:
    row = (
        event.kind,
        event.input_id,
        event.execution_id,
        len(event.messages),
        _silent(event),
        event.size,
        event.timeout,
    )
    out.ops.append((INBOX, inbox_key(out.number, event.first, sequence), pack((VERSION, *row))))
    out.receipt(event.input_id, RECEIPT_RECORDED, sequence, 0, pack)
    for rank, draft in enumerate(event.messages):
        out.ops.append((MESSAGE_IDS, out.prefix + id_part(draft["id"]), pack((sequence, rank, 0, None))))


def _silent(event: InputQueued) -> int:
    return sum(1 for draft in event.messages if draft.get("silent"))


def _content(out: Encoding, sequence: int) -> InputQueued:
    found = out.contents.get(sequence)
    if found is None:
        raise InternalError(f"the content of row {sequence} was not looked up", number=out.number, sequence=sequence)
    return found[1]


def _joined(out: Encoding, event: MessagesJoined, joined: int, pack: Pack) -> None:
    state = RECEIPT_JOINED if event.consumed else RECEIPT_UNREAD
    for row in event.rows:
        sequence = row[0]
        content = _content(out, sequence)
        out.ops.append((INBOX, inbox_key(out.number, content.first, sequence), None))
        out.receipt(content.input_id, state, sequence, joined, pack)
        if row[1] == "tool" and event.consumed:
            _open_calls(out, content.messages[0], sequence, pack)
        if len(row) == 5:  # no message of it was edited
            for rank, draft in enumerate(content.messages):
                out.join(draft, sequence, rank, pack)
            continue
        edits = dict(row[5])
        for rank, draft in enumerate(content.messages):
            edited = edits.get(rank, 0)
            if edited and draft:
                out.place(draft, [sequence, rank, joined, out.position], edited, pack)
                out.position += 1
            elif draft:
                out.join(draft, sequence, rank, pack)


def _withdrawn(out: Encoding, event: InputWithdrawn, sequence: int, pack: Pack) -> None:
    content = _content(out, event.row[0])
    out.ops.append((INBOX, inbox_key(out.number, content.first, event.row[0]), None))
    out.receipt(content.input_id, RECEIPT_WITHDRAWN, event.row[0], sequence, pack)
    for draft in content.messages:
        if draft:
            out.ops.append((MESSAGE_IDS, out.prefix + id_part(draft["id"]), None))


def _updated(out: Encoding, event: MessageUpdated, sequence: int, pack: Pack) -> None:
    if event.row is None:
        out.place(event.message, event.place, sequence, pack)
        return
    key = out.prefix + id_part(event.message["id"])
    out.ops.append((MESSAGE_IDS, key, pack((*event.place, sequence))))
    _edit_row(out, event.row, pack)


def _deleted(out: Encoding, event: MessageDeleted, _sequence: int, pack: Pack) -> None:
    out.ops.append((MESSAGE_IDS, out.prefix + id_part(event.message_id), None))
    if event.row is not None:
        _edit_row(out, event.row, pack)
        return
    position = event.place[3]
    out.ops.append((MESSAGES, _message_key(out.number, event.message_class, position), None))
    if out.gaps is None:
        out.gaps = {}
    for key in gap_keys(out.number, position):
        out.gaps[key] = count = out.gaps.get(key, 0) + 1
        out.ops.append((MESSAGES, key, pack(count)))


def _edit_row(out: Encoding, row: StoredRow, pack: Pack) -> None:
    sequence, kind, messages, silent, size, edits = row
    content = _content(out, sequence)
    stored = (VERSION, kind, content.input_id, content.execution_id, messages, silent, size, content.timeout, edits)
    out.ops.append((INBOX, inbox_key(out.number, content.first, sequence), pack(stored)))


def _control(out: Encoding, event: ExecutionInterrupted | ControlRecorded, sequence: int, pack: Pack) -> None:
    if event.control_id is not None:
        out.receipt(event.control_id, RECEIPT_JOINED, sequence, sequence, pack)


def _process(out: Encoding, event: ProcessRecorded, _sequence: int, pack: Pack) -> None:
    out.ops.append((OPEN, open_key(out.prefix, b"p", str(event.group)), pack((event.group, event.start_time))))


def _request(out: Encoding, event: RequestOpened, sequence: int, pack: Pack) -> None:
    out.ops.append((OPEN, open_key(out.prefix, b"r", event.request_id), pack((event.request_id, sequence))))


def _request_over(out: Encoding, event: RequestTerminated, sequence: int, pack: Pack) -> None:
    ended = (sequence, REQUEST_ENDS[event.status], sequence)
    out.ops += (
        (OPEN, open_key(out.prefix, b"r", event.request_id), None),
        (RECEIPTS, request_key(out.prefix, event.request_id), pack(ended)),
    )


_CHANGES: dict[type[Event], Callable[[Encoding, Any, int, Pack], None]] = {
    **dict.fromkeys(EVENT_TYPES.values(), _nothing),
    ThreadCreated: _created,
    ExecutionStarted: _started,
    ExecutionFinished: _ended,
    ExecutionLost: _ended,
    ExecutionInterrupted: _control,
    MessageAdded: _added,
    InputQueued: _queued,
    MessagesJoined: _joined,
    InputWithdrawn: _withdrawn,
    ControlRecorded: _control,
    ProcessRecorded: _process,
    RequestOpened: _request,
    RequestTerminated: _request_over,
    MessageUpdated: _updated,
    MessageDeleted: _deleted,
}
_WRITTEN = {event: (event.code, change) for event, change in _CHANGES.items()}
