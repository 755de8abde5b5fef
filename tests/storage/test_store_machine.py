"""Owns the proof that every store behaves as a dictionary does, through restarts and crashes in any order."""

from __future__ import annotations

import logging
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from treadle.storage import points
from treadle.storage.head import HEAD_SIZE, Head, thread_key, unpack_head
from treadle.storage.lmdb_store import LmdbStore
from treadle.storage.memory_store import MemoryStore
from treadle.storage.tables import Table

from .driving import Answers, barrier, batch, key

if TYPE_CHECKING:
    from treadle.storage.batch import Batch, Op
    from treadle.storage.store import Store

TABLES = [Table.JOURNAL, Table.MESSAGES, Table.VALUES]
THREADS = st.integers(1, 3)
KEYS = st.sampled_from([b"a", b"ab", b"b", b"\x00", b"\xff", b"\xff\xff", b"k" * 511])
OPS = st.lists(st.tuples(st.sampled_from(TABLES), KEYS, st.none() | st.binary(max_size=5)), max_size=6)


class Model:
    """What a store must hold: dictionaries, and the rules of judging in their plainest words."""

    def __init__(self) -> None:
        self.tables: dict[int, dict[bytes, bytes]] = {table: {} for table in TABLES}
        self.heads: dict[int, Head] = {}
        self.records: dict[int, bytes] = {}
        self.changes: dict[int, bytes] = {}
        self.change = 0
        self.barriers: dict[int, tuple[int, int]] = {}

    def fits(self, one: Batch) -> bool:
        head = self.heads.get(one.number, Head(0, 0, 0, 0, 0))
        lowest = max((head.boot, head.life), self.barriers.get(one.number, (0, 0)))
        free = one.absent is None or one.absent[1] not in self.tables[one.absent[0]]
        return head[:2] == (one.generation, one.sequence) and (one.boot, one.life) >= lowest and free

    def apply(self, one: Batch) -> int:
        """Apply a batch that fits; return the change number it takes."""
        for table, name, value in one.ops:
            if value is None:
                self.tables[table].pop(name, None)
            else:
                self.tables[table][name] = value
        own = self.heads[one.number].change if one.number in self.heads else 0
        taken = 0
        if one.change is not None:
            self.changes.pop(own, None)
            self.change = own = taken = self.change + 1
            self.changes[own] = key(one.number) + one.change
        self.heads[one.number] = Head(one.head_generation, one.head_sequence, one.boot, one.life, own)
        self.records[one.number] = one.record
        return taken


class StoreMachine(RuleBasedStateMachine):
    """Rules that every store obeys; a subclass says which store, and how it crashes."""

    store: Store

    @initialize()
    def first_open(self) -> None:
        self.model = Model()
        self.boot = 0
        self.life = 1
        self.open()

    def open(self) -> None:
        boot = self.store.open()
        assert boot.number == self.boot + 1
        self.boot = boot.number
        self.life = 1
        self.model.barriers = {}

    def settle(self) -> None:
        """Have all that waits written and answered."""

    def crash(self, batches: list[Batch]) -> None:
        """Lose these batches before their commit, and come back."""
        raise AssertionError("say how")

    def make(
        self, number: int, ops: list[Op], change: bytes | None, *, stale: int = 0, absent: bytes | None = None
    ) -> Batch:
        at = self.model.heads.get(number, Head(0, 0, 0, 0, 0))[:2]
        return batch(
            number,
            at=(at[0], max(0, at[1] - stale)),
            to=(max(1, at[0]), at[1] + 1),
            by=(self.boot, self.life),
            ops=ops,
            change=change,
            record=b"%d" % at[1],
            absent=None if absent is None else (TABLES[0], absent),
        )

    @rule(
        many=st.lists(
            st.tuples(THREADS, OPS, st.none() | st.binary(max_size=3), st.sampled_from([0, 0, 0, 1]), st.none() | KEYS),
            min_size=1,
            max_size=5,
        )
    )
    def commit(self, many: list[tuple[int, list[Op], bytes | None, int, bytes | None]]) -> None:
        answers, expected = Answers(), []
        for index, (number, ops, change, stale, absent) in enumerate(many):
            one = self.make(number, ops, change, stale=stale, absent=absent)
            one.confirm = answers.confirm(index)
            # The model is ahead of the store while they wait, so a chain of one thread's batches fits together.
            fits = self.model.fits(one)
            expected.append(("committed", self.model.apply(one)) if fits else ("not_written", 0))
            self.store.commit(one)
        self.settle()
        answers.wait(len(many))
        assert [answer[:2] for _, answer in answers.all] == expected

    @rule(number=THREADS, life=st.integers(1, 4))
    def raise_barrier(self, number: int, life: int) -> None:
        answers = Answers()
        self.store.barrier(number, self.boot, life, answers.confirm("barrier"))
        self.settle()
        answers.wait(1)
        self.model.barriers[number] = max((self.boot, life), self.model.barriers.get(number, (0, 0)))

    @rule()
    def activate_anew(self) -> None:
        self.life += 1

    @rule()
    def restart(self) -> None:
        self.store.close()
        self.open()

    @rule(number=THREADS, ops=OPS, count=st.integers(1, 3))
    def crash_before_commit(self, number: int, ops: list[Op], count: int) -> None:
        at = self.model.heads.get(number, Head(1, 0, 0, 0, 0))
        lost = [batch(number, at=(at[0], at[1] + n), by=(self.boot, 99), ops=ops, change=b"lost") for n in range(count)]
        self.crash(lost)

    @invariant()
    def holds_exactly_what_the_model_holds(self) -> None:
        with self.store.view() as view:
            for table in TABLES:
                rows = sorted(self.model.tables[table].items())
                assert view.scan(table, b"", None) == rows
                assert view.scan(table, b"", None, reverse=True) == rows[::-1]
                assert view.scan(table, b"ab", b"\xff") == [row for row in rows if b"ab" <= row[0] < b"\xff"]
            threads = view.scan(Table.THREADS, b"", None)
            assert {name: unpack_head(row, name) for name, row in threads} == {
                thread_key(number): head for number, head in self.model.heads.items()
            }
            assert [row[HEAD_SIZE:] for _, row in threads] == [r for _, r in sorted(self.model.records.items())]
            assert view.scan(Table.CHANGES, b"", None) == [
                (key(n), row) for n, row in sorted(self.model.changes.items())
            ]

    def teardown(self) -> None:
        self.store.close()


class MemoryMachine(StoreMachine):
    def __init__(self) -> None:
        super().__init__()
        self.store: MemoryStore = MemoryStore(manual=True)

    def settle(self) -> None:
        while self.store.step():
            pass

    def crash(self, batches: list[Batch]) -> None:
        for one in batches:
            self.store.commit(one)
        self.store.crash()
        self.open()


class LmdbMachine(StoreMachine):
    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="treadle-"))
        self.store: LmdbStore = LmdbStore(self.directory, durability="process", map_size=1 << 16)

    def crash(self, batches: list[Batch]) -> None:
        def stop() -> None:
            raise RuntimeError("on purpose")

        answers = Answers()
        logging.disable()
        points.arm(points.BEFORE_COMMIT, 1, stop)
        for one in batches:
            one.confirm = answers.confirm("lost")
            self.store.commit(one)
        answers.wait(len(batches))
        assert barrier(self.store, 1, (1, 1)).kind == "not_written"
        self.store.close()
        logging.disable(logging.NOTSET)
        assert {*answers.kinds()} == {"not_written"}
        self.open()

    def teardown(self) -> None:
        super().teardown()
        points.disarm()
        shutil.rmtree(self.directory)


class LongMemoryMachine(MemoryMachine):
    """The same with a longer budget; a class of its own, since the budget hangs on the class."""


TestMemoryStore = MemoryMachine.TestCase
TestMemoryStore.settings = settings(max_examples=15, stateful_step_count=25)
TestMemoryStoreForLong = pytest.mark.slow(LongMemoryMachine.TestCase)
TestMemoryStoreForLong.settings = settings(max_examples=100, stateful_step_count=40)
TestLmdbStore = pytest.mark.slow(LmdbMachine.TestCase)
TestLmdbStore.settings = settings(max_examples=50, stateful_step_count=25)
