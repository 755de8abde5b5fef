"""A process is killed with SIGKILL at named points, hundreds of times; what was acknowledged is there, once, and all goes on."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from treadle.actors.thread import AFTER_CONFIRM, AFTER_REPLY, BETWEEN
from treadle.storage import LmdbStore
from treadle.storage.points import AFTER_COMMIT, BEFORE_COMMIT, BEFORE_PUT

from .autopsy import Findings, examine
from .ledger import Ledger
from .victim import MISSED

if TYPE_CHECKING:
    from typing import Self

POINTS = (BEFORE_PUT, BEFORE_COMMIT, AFTER_COMMIT, AFTER_CONFIRM, AFTER_REPLY, BETWEEN)
ROOT = Path(__file__).parents[2]
CHAIN = 10  # deaths of one store, one after the other
DEATHS = 300
LEAST = 20  # at each point
SIGKILLED = -9


class Executioner:
    """Forks processes that run until they die, and reads what they print."""

    def __enter__(self) -> Self:
        command = [sys.executable, "-W", "error", "-m", "tests.crash.victim"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def kill(self, order: dict[str, object], ledger: Ledger) -> int:
        """Let a process run until it is killed; return how it ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            ended = ledger.read(line)
            if ended is not None:
                return ended
        raise AssertionError("whoever forks the processes has ended itself")


def chain(executioner: Executioner, path: Path, seed: int, deaths: int, hits: Counter[str]) -> Findings:
    """Kill one store's process again and again, looking at what it left each time."""
    chance = random.Random(seed)
    ledger, findings = Ledger(), Findings()
    points = [POINTS[(seed + life) % len(POINTS)] for life in range(deaths)]
    chance.shuffle(points)
    for life, point in enumerate(points):
        # Low numbers die while the past is being settled, high ones in the midst of work.
        nth = chance.choice([1, 2, 3, chance.randrange(4, 15), chance.randrange(10, 60)])
        order = {
            "store": os.fspath(path),
            "seed": chance.getrandbits(32),
            "name": f"{life}",
            "point": point,
            "nth": nth,
        }
        ended = executioner.kill(order, ledger)
        if ended == MISSED:
            # Its script was over before; a next one cannot get by.
            order |= {"name": f"{life}-again", "nth": 1}
            ended = executioner.kill(order, ledger)
        assert ended == SIGKILLED, (ended, order)
        hits[point] += 1
        try:
            examine(LmdbStore(path), ledger, findings, chance)
        except AssertionError as error:
            raise AssertionError(f"chain of seed {seed}, {order}: {error}") from error
    return findings


def test_one_death_at_each_point_loses_and_doubles_nothing(tmp_path: Path) -> None:
    hits: Counter[str] = Counter()
    with Executioner() as executioner:
        chain(executioner, tmp_path, 20261001, len(POINTS), hits)

    assert hits == dict.fromkeys(POINTS, 1)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_hundreds_of_deaths_lose_nothing_double_nothing_and_leave_nothing_running(tmp_path: Path) -> None:
    seed = int(os.environ.get("TREADLE_CRASH_SEED") or random.SystemRandom().getrandbits(32))
    deaths = int(os.environ.get("TREADLE_CRASH_DEATHS") or DEATHS)
    print(f"seed {seed} (TREADLE_CRASH_SEED={seed} repeats it)")
    hits: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    failures: list[BaseException] = []
    rest = iter(range(-(-deaths // CHAIN)))
    lock = threading.Lock()

    def work() -> None:
        try:
            with Executioner() as executioner:
                while not failures:
                    with lock:
                        number = next(rest, None)
                    if number is None:
                        return
                    own: Counter[str] = Counter()
                    findings = chain(executioner, tmp_path / str(number), seed + number, CHAIN, own)
                    with lock:
                        hits.update(own)
                        counts.update(findings.counts)
        except BaseException as error:
            failures.append(error)

    workers = [threading.Thread(target=work, name=f"executioner-{rank}") for rank in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for point in POINTS:
        print(f"{hits[point]:5} deaths {point}")
    print(f"{sum(hits.values()):5} deaths")
    for name, count in sorted(counts.items()):
        print(f"{count:8,} {name}")
    if failures:
        raise failures[0]
    assert sum(hits.values()) >= deaths
    assert min(hits[point] for point in POINTS) >= LEAST
