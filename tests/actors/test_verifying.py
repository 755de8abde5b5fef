"""The second fold of every journal: it finds what memory and journal disagree on, and leaves alone what agrees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from treadle.actors.testing import Puppet, Stage
from treadle.actors.thread import ThreadActor
from treadle.actors.verifying import Verifier, divergences
from treadle.protocol.errors import ThreadActorCrashed
from treadle.protocol.facts import Facts
from treadle.storage.reading import read_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from treadle.actors import Thread

    Enter = Callable[..., Stage]


@pytest.fixture
def found() -> Iterator[list[str]]:
    """What was found in this test; it is meant to be."""
    before = len(divergences)
    mine: list[str] = []
    yield mine
    mine += divergences[before:]
    del divergences[before:]


def facts_of(on: Stage, thread: Thread) -> tuple[int, Facts]:
    number = on.services.directory.entry(thread.id).number
    with on.store.view() as view:
        stored = read_thread(view, number)
    assert stored is not None
    return number, stored[1]


def lived(stage: Enter) -> tuple[Stage, Thread]:
    puppet = Puppet()
    on = stage(puppet, always_evict=True)
    thread = on.thread()
    on.ask(thread.submit("go"))
    on.ask(thread.queue_message("more"))
    puppet.returns()
    on.settle()
    puppet.raises(ValueError("bad"))
    on.settle()
    return on, thread


def test_what_agrees_is_left_alone(stage: Enter) -> None:
    on, thread = lived(stage)
    number, facts = facts_of(on, thread)
    verifier = Verifier(on.store)
    verifier.committed(number, facts)
    verifier.dropped(number, facts)
    verifier.loaded(number, facts)

    assert on.reports == []


@pytest.mark.parametrize("name", ["messages", "held", "executions", "reason"])
def test_a_fact_that_the_journal_does_not_know_is_found_and_named(stage: Enter, found: list[str], name: str) -> None:
    on, thread = lived(stage)
    number, facts = facts_of(on, thread)
    facts = facts.copy()
    setattr(facts, name, "something else")
    with pytest.raises(AssertionError, match=f"{name} is 'something else'"):
        Verifier(on.store).committed(number, facts)


def test_what_is_loaded_again_is_compared_with_what_was_dropped(stage: Enter, found: list[str]) -> None:
    on, thread = lived(stage)
    number, facts = facts_of(on, thread)
    verifier, other = Verifier(on.store), facts.copy()
    other.held = True
    verifier.dropped(number, other)
    with pytest.raises(AssertionError, match="against those dropped"):
        verifier.loaded(number, facts)


def test_a_journal_that_ends_too_early_is_found(stage: Enter, found: list[str]) -> None:
    on, thread = lived(stage)
    number, facts = facts_of(on, thread)
    facts = facts.copy()
    facts.sequence += 1
    with pytest.raises(AssertionError, match="ends at"):
        Verifier(on.store).committed(number, facts)


def test_an_actor_whose_memory_went_wrong_crashes_and_the_test_is_told(
    stage: Enter, found: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    on = stage(Puppet(), always_evict=True)
    thread = on.thread()
    real = ThreadActor._committed

    def forgets(actor: ThreadActor, building: Any, answer: Any) -> None:
        actor.state.facts.messages += 1
        real(actor, building, answer)

    with monkeypatch.context() as broken:
        broken.setattr(ThreadActor, "_committed", forgets)
        reply = thread.inject_message("user", "x")
        on.settle()

    assert isinstance(reply.error(), ThreadActorCrashed)
    assert on.reports[0][0] == "actor_crashed"
    assert "messages is 2, not 1" in str(on.reports[0][1]["error"])
    on.reports.clear()


def test_every_free_thread_is_dropped_and_loaded_again(stage: Enter) -> None:
    on = stage(Puppet(), always_evict=True)
    thread = on.thread()
    entry = on.services.directory.entry(thread.id)
    for rank in range(3):
        on.ask(thread.set_value("k", rank))
        on.settle()
        assert entry.actor is None


def test_a_deleted_thread_is_forgotten(stage: Enter) -> None:
    on = stage(Puppet(), always_evict=True)
    thread = on.thread(thread_id="t")
    on.ask(thread.inject_message("user", "x"))
    on.ask(on.runtime.delete_thread("t"))
    on.settle()

    assert on.services.verifier is not None
    assert on.services.verifier._folded == {}
    assert on.reports == []
