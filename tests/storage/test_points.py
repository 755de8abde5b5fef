"""Owns the proof of treadle.storage.points: nothing unless armed, then once, at the right passage; and real kills."""

from __future__ import annotations

import signal
import timeit
from typing import TYPE_CHECKING

import pytest

from treadle.storage import points
from treadle.storage.lmdb_store import LmdbStore
from treadle.storage.tables import Table

from .driving import contents, head, key, run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    yield
    points.disarm()


def test_an_armed_point_acts_once_at_its_nth_passage() -> None:
    acted: list[int] = []
    points.arm("here", 3, lambda: acted.append(len(passed)))
    points.arm("elsewhere", 1, lambda: acted.append(-1))
    passed: list[None] = []

    for _ in range(6):
        points.reach("here")
        passed.append(None)

    assert acted == [2]


def test_disarming_forgets_everything() -> None:
    points.arm("here")
    points.disarm()

    points.reach("here")


def test_an_action_may_arm_the_point_again() -> None:
    acted: list[int] = []

    def again() -> None:
        acted.append(len(acted))
        points.arm("here", 1, again)

    points.arm("here", 1, again)
    for _ in range(3):
        points.reach("here")

    assert acted == [0, 1, 2]


def test_an_unarmed_point_costs_next_to_nothing() -> None:
    # Measured at about 40 ns; the bound is only far from what a lock or a look-up of the name would cost.
    assert min(timeit.repeat(lambda: points.reach("here"), number=10_000, repeat=5)) / 10_000 < 500e-9


KILLED = """
import sys
from treadle.storage import points
from treadle.storage.batch import Batch
from treadle.storage.lmdb_store import LmdbStore
import threading

path, point, nth = sys.argv[1], sys.argv[2], int(sys.argv[3])
store = LmdbStore(path)
boot = store.open()
points.arm(point, nth)
for n in range(100):
    done = threading.Event()
    store.commit(Batch(
        number=1, generation=1 if n else 0, sequence=n, boot=boot.number, life=1, head_generation=1,
        head_sequence=n + 1, record=b"", ops=[(3, n.to_bytes(8, "big"), b"a"), (4, n.to_bytes(8, "big"), b"b")],
        size=10, change=b"c", confirm=lambda answer: done.set()))
    done.wait()
    print(n, flush=True)
"""


@pytest.mark.parametrize("point", [points.BEFORE_PUT, points.BEFORE_COMMIT, points.AFTER_COMMIT])
@pytest.mark.parametrize("nth", [1, 2, 17])
def test_a_process_killed_at_a_point_loses_nothing_it_acknowledged(tmp_path: Path, point: str, nth: int) -> None:
    """Scenario 6 of storage: kill -9 at a named point, reopen, look."""
    done = run(KILLED, tmp_path / "store", point, nth)
    acknowledged = len(done.stdout.split())

    assert done.returncode == -signal.SIGKILL
    assert acknowledged == nth - 1
    store = LmdbStore(tmp_path / "store")
    assert store.open().number == 2
    try:
        written = acknowledged + (point == points.AFTER_COMMIT)
        expected = {key(n): b"a" for n in range(written)}
        assert contents(store, Table.JOURNAL) == expected
        assert sorted(contents(store, Table.MESSAGES)) == sorted(expected)
        assert sorted(contents(store, Table.CHANGES)) == [key(written)] * bool(written)
        assert (head(store, 1) or (0, 0))[1] == written
    finally:
        store.close()
