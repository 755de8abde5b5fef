"""Owns a small stand-in for actors: commits real batches and publishes them as an actor does. Checks nothing itself."""

from __future__ import annotations

from queue import SimpleQueue
from typing import TYPE_CHECKING

from treadle.actors.hub import Hub
from treadle.actors.snapshot import Snapshot, at_rest, snapshot_of
from treadle.protocol.cursors import Cursor
from treadle.protocol.errors import ThreadNotFound
from treadle.protocol.events import (
    Event,
    ExecutionFinished,
    ExecutionLost,
    ExecutionStarted,
    JournalEvent,
    MessageAdded,
    RequestOpened,
    RequestTerminated,
    ThreadCreated,
)
from treadle.protocol.facts import Facts
from treadle.protocol.receipts import ActiveExecution
from treadle.storage.batch import Answer, Batch
from treadle.storage.codec import encode_facts
from treadle.storage.encoding import Encoding, change_payload
from treadle.storage.keys import prefix_end
from treadle.storage.memory_store import MemoryStore
from treadle.storage.reading import read_journal, read_thread, thread_number
from treadle.storage.tables import Table

if TYPE_CHECKING:
    from treadle.actors.watch import Watch
    from treadle.storage.store import Store


class Entry:
    """What the hub needs of a thread, and what the stand-in has committed and not yet published."""

    def __init__(self, thread_id: str, number: int) -> None:
        self.thread_id = thread_id
        self.number = number
        self.snapshot: Snapshot | None = None
        self.watch: Watch | None = None
        self.gone = False
        self.facts = Facts()
        self.unpublished: list[tuple[Facts, list[JournalEvent], int]] = []


class World:
    """A store, a hub, and threads that commit and publish at the caller's word."""

    def __init__(self, store: Store | None = None) -> None:
        self.steps = None
        if store is None:
            store = MemoryStore(manual=True)
            self.steps = store.step
        self.store = store
        self.boot = self.store.open()
        self.entries: dict[str, Entry] = {}
        self.hub = Hub(self.store, self.boot.id, self)
        self.hub.load()
        self.now = 1_000_000

    def entry(self, thread_id: str) -> Entry:
        with self.store.view() as view:
            number = thread_number(view, thread_id)
        if not number:
            raise ThreadNotFound(f"no thread {thread_id!r}", thread_id=thread_id)
        return self.entries[thread_id]

    def snapshot(self, entry: Entry) -> Snapshot:
        if entry.snapshot is not None:
            return entry.snapshot
        with self.store.view() as view:
            found = read_thread(view, entry.number)
        if entry.snapshot is not None:
            return entry.snapshot
        if found is None:
            raise ThreadNotFound(f"no thread {entry.thread_id!r}", thread_id=entry.thread_id)
        return at_rest(entry.number, found[1])

    def create(self, thread_id: str) -> Entry:
        entry = self.entries[thread_id] = Entry(thread_id, len(self.entries) + 1)
        self.run(
            entry,
            ThreadCreated(thread_id=thread_id, agent_id="a", user_id=None, arguments=None, tags=[], env=None),
        )
        return entry

    def write(self, batch: Batch) -> int:
        """Commit a batch, waiting for its answer; return the change number."""
        answers: SimpleQueue[Answer] = SimpleQueue()
        batch.confirm = answers.put
        self.store.commit(batch)
        if self.steps is not None:
            self.steps()
        answered = answers.get(timeout=60)
        assert answered.kind == "committed", answered
        return answered.change

    def commit(self, entry: Entry, *events: Event) -> None:
        """Write a batch as an actor would; nobody is told yet."""
        before = entry.facts
        facts = before.copy()
        encoding = Encoding(entry.number, facts)
        committed = []
        for event in events:
            self.now += 1
            facts.fold(event, self.now)
            encoding.add(event, self.now)
            committed.append(JournalEvent(facts.cursor, self.now, event))
        created = before.sequence == 0
        batch = Batch(
            number=entry.number,
            generation=0 if created else before.generation,
            sequence=before.sequence,
            boot=self.boot.number,
            life=1,
            head_generation=facts.generation,
            head_sequence=facts.sequence,
            record=encode_facts(facts),
            change=change_payload(facts) if created or facts.status != before.status else None,
            absent=(int(Table.NAMES), entry.thread_id.encode()) if created else None,
            ops=encoding.ops,
            size=encoding.size,
            confirm=print,
        )
        entry.unpublished.append((facts, committed, self.write(batch)))
        entry.facts = facts

    def publish(self, entry: Entry, *, flush: bool = True) -> None:
        """Publish the oldest batch that is not: swap, tell the hub, and wake."""
        facts, events, change = entry.unpublished.pop(0)
        before, entry.snapshot = entry.snapshot, snapshot_of(entry.number, facts, owner(facts))
        self.hub.published(entry, before, entry.snapshot, events, change)
        if flush:
            self.hub.flush(entry)

    def run(self, entry: Entry, *events: Event) -> None:
        """Commit and publish."""
        self.commit(entry, *events)
        self.publish(entry)

    def passivate(self, entry: Entry) -> None:
        """Drop what an actor held."""
        assert not entry.unpublished
        entry.snapshot = None

    def delete(self, entry: Entry, *, flush: bool = True) -> None:
        """Leave a tombstone, as deletion does."""
        facts = entry.facts
        batch = Batch(
            number=entry.number, generation=facts.generation, sequence=facts.sequence, boot=self.boot.number, life=1,
            head_generation=facts.generation, head_sequence=facts.sequence, record=encode_facts(facts),
            change=change_payload(facts, deleted=True), absent=None,
            ops=[(int(Table.NAMES), entry.thread_id.encode(), b"")], size=1, confirm=print,
        )  # fmt: skip
        change = self.write(batch)
        entry.gone = True
        assert entry.snapshot is not None
        self.hub.published(entry, entry.snapshot, entry.snapshot, [], change)
        if flush:
            self.hub.flush(entry)

    def remove_contents(self, entry: Entry) -> None:
        """Remove the journal of a deleted thread."""
        facts = entry.facts
        prefix = entry.number.to_bytes(8, "big")
        with self.store.view() as view:
            rows = view.scan(Table.JOURNAL, prefix, prefix_end(prefix))
        self.write(
            Batch(
                number=entry.number, generation=facts.generation, sequence=facts.sequence, boot=self.boot.number, life=1,
                head_generation=facts.generation, head_sequence=facts.sequence, record=encode_facts(facts),
                change=None, absent=None, ops=[(int(Table.JOURNAL), key, None) for key, _ in rows], size=1, confirm=print,
            )
        )  # fmt: skip

    def journal(self, entry: Entry) -> list[JournalEvent]:
        """Return everything that the thread's journal holds."""
        with self.store.view() as view:
            return read_journal(view, entry.number, 1, 0, entry.facts.sequence, 1 << 30)

    def close(self) -> None:
        self.hub.close()
        self.store.close()


def owner(facts: Facts) -> ActiveExecution | None:
    if facts.execution_id is None:
        return None
    return ActiveExecution(facts.execution_id, facts.agent_id, facts.started_at, "running")


def start(execution_id: str = "e1") -> ExecutionStarted:
    return ExecutionStarted(
        execution_id=execution_id, agent_id="a", cause="submit", input_id=f"i-{execution_id}",
        messages=[{"id": f"m-{execution_id}", "role": "user", "content": "hello"}], digest=b"\0" * 32, steerable=True, timeout=None,
    )  # fmt: skip


def finish(execution_id: str = "e1", *, failed: bool = False, reason: str = "awaiting_human") -> ExecutionFinished:
    return ExecutionFinished(
        execution_id=execution_id, agent_id="a", outcome="failed" if failed else "succeeded", finished_at=5,
        error_type="Oops" if failed else None, error_message="it broke" if failed else None,
        reason="step_error" if failed else reason, abandoned=False, leftovers=[],
    )  # fmt: skip


def lost(execution_id: str = "e1") -> ExecutionLost:
    return ExecutionLost(
        execution_id=execution_id, boot_id="b", last_sequence=1, cause="process_ended", dispatched=True, leftovers=[]
    )


_made = iter(range(1 << 60))


def message(content: str = "said", execution_id: str | None = None) -> MessageAdded:
    return MessageAdded(
        execution_id=execution_id, message={"id": f"m{next(_made)}", "role": "assistant", "content": content}
    )


def request(request_id: str, execution_id: str = "e1") -> RequestOpened:
    return RequestOpened(
        execution_id=execution_id, request_id=request_id, kind="approval", payload={"about": request_id}
    )


def answer(request_id: str) -> RequestTerminated:
    return RequestTerminated(request_id=request_id, status="resolved", value=True)


def at(sequence: int, generation: int = 1) -> Cursor:
    return Cursor(generation, sequence)
