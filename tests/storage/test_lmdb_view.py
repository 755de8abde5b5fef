"""Owns the proof of treadle.storage.lmdb_view: slots are bounded and freed, other processes and forks do no harm."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from treadle.protocol.errors import StoreClosed, Unavailable
from treadle.storage import environment
from treadle.storage.lmdb_store import LmdbStore
from treadle.storage.tables import Table

from .driving import PATIENCE_S, Process, batch, key, read, run, write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

J = Table.JOURNAL


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LmdbStore]:
    store = LmdbStore(tmp_path / "store", durability="process", max_readers=8)
    store.open()
    write(store, batch(ops=[(J, key(n), key(n)) for n in range(100)]))
    yield store
    store.close()


def slots(store: LmdbStore) -> int:
    """Return how many reader slots are taken."""
    assert store._environment is not None
    return sum(line.strip()[:1].isdigit() for line in store._environment.env.readers().splitlines())


def test_a_view_takes_a_slot_and_gives_it_back_though_it_is_still_referenced(store: LmdbStore) -> None:
    view = store.view()
    assert slots(store) == 0
    with view:
        view.get(J, key(1))
        view.scan(J, b"", None)
        assert slots(store) == 1
        with store.view() as inner:
            inner.scan(J, b"", None, reverse=True)
            assert slots(store) == 2

    assert slots(store) == 0
    with view:
        assert view.get(J, key(1)) == key(1)


def test_a_view_gives_its_slot_back_when_its_block_raises(store: LmdbStore) -> None:
    def fail() -> None:
        with store.view() as view:
            view.scan(J, b"", None)
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        fail()

    assert slots(store) == 0


def test_five_hundred_readers_share_a_few_slots_without_one_error(store: LmdbStore) -> None:
    """Scenario 28: 500 actors read history at once."""
    start = threading.Barrier(500)
    errors: list[BaseException] = []
    results: list[int] = []

    def work() -> None:
        try:
            start.wait(PATIENCE_S)
            with store.view() as view:
                results.append(len(view.scan(J, b"", None, limit=50)))
        except BaseException as error:
            errors.append(error)

    crew = [threading.Thread(target=work) for _ in range(500)]
    for worker in crew:
        worker.start()
    for worker in crew:
        worker.join(PATIENCE_S)

    assert errors == []
    assert results == [50] * 500
    assert slots(store) == 0


# Forks before it opens anything, so each child is as good as a process of its own, and quick.
KILLED_READERS = """
import os, signal, sys
from treadle.storage.lmdb_store import LmdbStore

for n in range(int(sys.argv[2])):
    ready, told = os.pipe()
    child = os.fork()
    if not child:
        store = LmdbStore(sys.argv[1], read_only=True)
        store.open()
        with store.view() as view:
            rows = view.scan(3, b"", None)
            os.write(told, b"%d" % len(rows))
            signal.pause()
    os.close(told)
    assert os.read(ready, 9) == b"100", n
    os.close(ready)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
print("done")
"""


@pytest.mark.slow
def test_two_hundred_killed_reading_processes_cost_nobody_a_slot(store: LmdbStore) -> None:
    """Scenario 28: a reading process is killed 200 times."""
    with Process(KILLED_READERS, store.path, 200) as readers:
        done: list[str] = []
        waiter = threading.Thread(target=lambda: done.append(readers.line()))
        waiter.start()
        reads = 0
        while waiter.is_alive():
            assert read(store, J, key(7)) == key(7)
            reads += 1
        waiter.join()

    assert done == ["done"]
    assert reads > 0
    assert store._environment is not None
    store._environment.clear_dead_readers()
    assert slots(store) == 0


LIVING_READERS = """
import os, sys
from treadle.protocol.errors import Unavailable
from treadle.storage.lmdb_store import LmdbStore

store = LmdbStore(sys.argv[1], read_only=True)
store.open()
views = []
try:
    while True:
        views.append(store.view().__enter__())
except Unavailable as error:
    print(type(error).__name__, flush=True)
sys.stdin.readline()
for view in views:
    view.__exit__(None, None, None)
print("left", flush=True)
sys.stdin.readline()
"""


def test_slots_left_by_a_dead_process_are_cleared_when_they_run_out(store: LmdbStore) -> None:
    with Process(LIVING_READERS, store.path) as other:
        assert other.line() == "Unavailable"

    # It was killed with every slot in its hands.
    assert read(store, J, key(7)) == key(7)


def test_slots_held_by_living_processes_are_an_error_that_says_so(store: LmdbStore) -> None:
    with Process(LIVING_READERS, store.path) as other:
        assert other.line() == "Unavailable"
        with pytest.raises(Unavailable, match="other processes hold all reader slots"), store.view():
            pass
        assert write(store, batch(2))[0].kind == "committed"
        other.say()
        assert other.line() == "left"
        assert read(store, J, key(7)) == key(7)


TOOL = """
import sys
from treadle.protocol.errors import Unavailable
from treadle.storage.batch import Batch
from treadle.storage.lmdb_store import LmdbStore

store = LmdbStore(sys.argv[1], read_only=True, map_size=1 << 20)
print(store.open().number, flush=True)
sys.stdin.readline()
with store.view() as view:
    print(len(view.scan(3, b"", None)), flush=True)
    sys.stdin.readline()
    try:
        store.view().__enter__()
    except Unavailable as error:
        print(error, len(view.scan(3, b"", None)), flush=True)
with store.view() as view:
    print(len(view.scan(3, b"", None)), flush=True)
answers = []
store.commit(Batch(number=9, generation=0, sequence=0, boot=1, life=1, head_generation=1, head_sequence=1, record=b"",
                   ops=[], size=1, confirm=answers.append))
print(answers[0].kind, answers[0].error.code, flush=True)
store.close()
"""


def test_a_read_only_tool_follows_the_map_of_the_owner(tmp_path: Path) -> None:
    owner = LmdbStore(tmp_path / "store", map_size=1 << 20)
    owner.open()
    write(owner, batch(1, ops=[(J, b"first", b"")]))
    with Process(TOOL, owner.path) as tool:
        assert tool.line() == "1"

        def grow(number: int) -> None:
            for n in range(100):
                write(owner, batch(number, at=(1, n) if n else (0, 0), ops=[(J, key(number) + key(n), bytes(50_000))]))
            tool.say()

        grow(2)
        assert tool.line() == "101"
        grow(3)
        assert tool.line() == "the store has grown; end the outer view first 101"
        assert tool.line() == "201"
        assert tool.line() == "not_written store_closed"
    owner.close()


def test_a_view_open_at_close_is_told_that_the_store_was_closed(
    store: LmdbStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "RELEASE_TIMEOUT_S", 0.001)
    entered, closed = threading.Event(), threading.Event()
    errors: list[BaseException] = []

    def hold() -> None:
        with store.view() as view:
            entered.set()
            closed.wait(PATIENCE_S)
            for use in (lambda: view.get(J, key(1)), lambda: view.scan(J, b"", None)):
                try:
                    use()
                except StoreClosed as error:
                    errors.append(error)

    worker = threading.Thread(target=hold)
    worker.start()
    assert entered.wait(PATIENCE_S)
    store.close()
    closed.set()
    worker.join(PATIENCE_S)

    assert len(errors) == 2


FORK = """
import os, sys
from treadle.protocol.errors import StoreClosed
from treadle.storage.batch import Batch
from treadle.storage.lmdb_store import LmdbStore

def slots():
    return sum("-" not in line for line in store._environment.env.readers().splitlines()[1:])

store = LmdbStore(sys.argv[1], durability="process")
store.open()
entered = store.view()
entered.__enter__()
child = os.fork()
if not child:
    answers = []
    entered.__exit__(None, None, None)
    store.commit(Batch(number=9, generation=0, sequence=0, boot=1, life=1, head_generation=1, head_sequence=1,
                       record=b"", ops=[], size=1, confirm=answers.append))
    store.barrier(1, 1, 1, answers.append)
    assert [answer.error.code for answer in answers] == ["store_closed"] * 2, answers
    assert store.failure().code == "store_closed"
    try:
        store.view().__enter__()
    except StoreClosed:
        pass
    else:
        os._exit(3)
    store.close()
    os._exit(0)
print(os.waitpid(child, 0)[1], slots())
entered.__exit__(None, None, None)
done = []
store.commit(Batch(number=9, generation=0, sequence=0, boot=1, life=1, head_generation=1, head_sequence=1,
                   record=b"", ops=[(3, b"a", b"1")], size=1, confirm=done.append))
store.close()
print(done[0].kind, store.open().number)
store.close()
"""


def test_a_forked_child_uses_nothing_of_its_parents_store_and_harms_nothing(tmp_path: Path) -> None:
    done = run(FORK, tmp_path / "store", warnings="ignore")  # newer Pythons warn of any fork beside other workers

    assert done.stdout == "0 1\ncommitted 2\n"
