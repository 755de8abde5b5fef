"""The store fails at commit n, for every n, in three ways: the promises hold, and all goes on once it fails no more."""

from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING, Any

import pytest

from treadle.actors.testing import Stage
from treadle.protocol.errors import OutcomeUnknown, ThreadNotFound
from treadle.storage import LmdbStore, MemoryStore
from treadle.storage.check import check_tables

from .autopsy import Findings, examine
from .bodies import quiet_agents
from .playing import Player, play
from .worlds import RealWorld, SteppedWorld

if TYPE_CHECKING:
    from pathlib import Path

    from .worlds import World

KINDS = ("not_written", "written", "stop")
COMMITS_MAX = 300  # a script of more commits than this never ends


def run(make: Any, heal_after: int | None = None, **fault: Any) -> tuple[World, Player]:
    """Play the script once in a world that `make` opens, and hold what is left against what was answered."""
    player = Player()
    player.heal_after = heal_after
    world: World = make(player.agents(), **fault)
    player.enter(world)
    try:
        play(player)
        assert not world.faults._stopped(), "the script went on after the process had stopped"
        player.become_ready()
    finally:
        left = world.left()
    assert world.reports == []
    examine(left, player.ledger, Findings(), random.Random(1))
    return world, player


def every_n(make: Any, kind: str, step: int = 1) -> list[int]:
    """Fail commit 1, 2, 3 and so on, until a run has no fault; return at which commits one was seen by a caller."""
    seen = []
    for n in range(1, COMMITS_MAX, step):
        try:
            world, player = run(make, fail_at=n, kind=kind)
        except BaseException as error:
            raise AssertionError(f"commit {n} {kind}: {error!r}") from error
        if not world.faults.fired:
            return seen
        if player.errors or kind == "stop":
            seen.append(n)
    raise AssertionError(f"more than {COMMITS_MAX} commits")


def test_the_script_meets_no_fault_where_none_is_made() -> None:
    world, player = run(SteppedWorld)

    assert not world.faults.fired
    assert player.errors == []
    assert world.faults.commits > 50


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", KINDS)
def test_a_store_that_fails_at_any_one_commit_breaks_no_promise(kind: str) -> None:
    seen = every_n(SteppedWorld, kind)
    print(f"{len(seen)} faults were seen by a caller")

    assert len(seen) > 30


def test_a_deletion_whose_outcome_cannot_be_told_is_one_all_the_same() -> None:
    with Stage(*quiet_agents()) as stage:
        thread = stage.thread("talk", thread_id="t", user_id="u")
        stage.ask(thread.terminate())
        events = thread.events()
        assert next(events).event.type == "THREAD_CREATED"
        reply = stage.runtime.delete_thread("t")
        stage.act()
        # Terminated before, so that the next group is the tombstone alone.
        while stage.store.pending() and not reply.done():
            stage.store.lose_next(written=True)
            stage.settle()
        with pytest.raises(OutcomeUnknown):
            reply.result()
        with pytest.raises(ThreadNotFound):
            stage.runtime.thread("t").status().result()
        with pytest.raises(ThreadNotFound):
            stage.ask(thread.submit("more"))
        assert [event.event.type for event in events] == ["THREAD_TERMINATED"]
        stage.settle()
        report = check_tables(stage.store)
        assert (report.deleted, report.removing, report.broken) == (1, 0, ())


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", ["not_written", "written"])
def test_a_store_that_fails_from_some_commit_on_blocks_and_heals(kind: str) -> None:
    blocked: set[str] = set()
    for n in range(4, COMMITS_MAX):
        try:
            world, player = run(SteppedWorld, heal_after=6, fail_at=n, kind=kind, persistent=True)
        except BaseException as error:
            raise AssertionError(f"from commit {n} on {kind}: {error!r}") from error
        blocked |= {one.what for one in player.blocked}
        if not world.faults.fired:
            break

    # Whatever is written because nobody asked for it shows that it cannot be, and is tried again.
    assert kind == "written" or blocked >= {"START", "FINISH"}, blocked


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", KINDS)
def test_a_store_on_disk_that_fails_at_any_one_commit_breaks_no_promise(kind: str, tmp_path: Path) -> None:
    stores = itertools.count()

    def make(agents: Any, **fault: Any) -> RealWorld:
        return RealWorld(LmdbStore(tmp_path / str(next(stores))), agents, **fault)

    # Every commit failed once, until a run had none to fail. How many of these a caller heard of depends on which mails
    # happened to share a batch: 28 to 45 here.
    assert len(every_n(make, kind)) > 20


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_store_in_memory_with_a_writer_of_its_own_fails_at_some_commits_and_breaks_no_promise(kind: str) -> None:
    def make(agents: Any, **fault: Any) -> RealWorld:
        return RealWorld(MemoryStore(), agents, **fault)

    assert every_n(make, kind, step=5)
