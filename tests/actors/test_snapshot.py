"""Tests actors/snapshot.py: what is shown of a thread is one immutable object, made once somebody looks."""

from __future__ import annotations

import pytest

from treadle.actors.snapshot import Blocked, Shown, at_rest, shown_owner, snapshot_of
from treadle.protocol.cursors import Cursor
from treadle.protocol.decision import Phase, State
from treadle.protocol.events import ExecutionStarted, ThreadCreated
from treadle.protocol.facts import Facts
from treadle.protocol.receipts import ActiveExecution
from treadle.storage.codec import encode_facts


def facts(*, running: bool = False) -> Facts:
    """Fold a thread that was created at 10 and, if it runs, started at 20."""
    folded = Facts()
    created = ThreadCreated(thread_id="t", agent_id="a", user_id="u", arguments=None, tags=[], env=None)
    folded.fold(created, 10)
    if running:
        started = ExecutionStarted.model_construct(
            **{name: field.get_default() for name, field in ExecutionStarted.model_fields.items()}
            | {
                "execution_id": "e",
                "agent_id": "a",
                "input_id": "i",
                "messages": [{"id": "m", "role": "user", "content": "x"}],
            }
            | {"cause": "submit", "steerable": True, "timeout": None}
        )
        folded.fold(started, 20)
    return folded


def test_a_thread_that_nobody_holds_shows_what_is_durable() -> None:
    shown = at_rest(7, facts())

    assert (shown.thread_id, shown.number, shown.agent_id, shown.user_id, shown.created_at) == ("t", 7, "a", "u", 10)
    assert (tuple(shown.status), shown.cursor, shown.active) == (("idle", 10, None), Cursor(1, 1), None)
    assert (shown.held, shown.waiting, shown.pending, shown.blocked) == (False, 0, 0, None)


def test_what_a_dead_process_left_running_shows_as_lost_whoever_looks() -> None:
    left = facts(running=True)
    shown = at_rest(7, left)

    assert (shown.status.state, shown.status.reason, shown.active) == ("failed", "execution_lost", None)
    assert left.state == "running"  # the record itself waits to be settled


def test_what_was_published_is_made_into_a_snapshot_once() -> None:
    folded = facts(running=True)
    shown = Shown(7, encode_facts(folded), "e", Phase.RUNNING)
    made = shown.snapshot()

    assert made.active == ActiveExecution("e", "a", 20, "running")
    assert made == snapshot_of(7, folded, made.active)
    assert shown.snapshot() is made
    with pytest.raises(AttributeError):
        made.held = True  # type: ignore[misc]


def test_a_snapshot_from_the_facts_at_hand_is_the_one_of_their_record() -> None:
    folded = facts(running=True)
    read, at_hand = (Shown(7, encode_facts(folded), "e", Phase.STOPPING) for _ in range(2))

    assert at_hand.snapshot_from(folded) == read.snapshot()
    made = at_hand.snapshot()
    folded.fold(ThreadCreated(thread_id="u", agent_id="b", user_id=None, arguments=None, tags=[], env=None), 30)
    assert at_hand.snapshot() is made


def test_facts_that_go_on_do_not_change_what_was_published() -> None:
    folded = facts()
    shown = Shown(7, encode_facts(folded), None, Phase.IDLE)
    folded.fold(ThreadCreated(thread_id="u", agent_id="b", user_id=None, arguments=None, tags=[], env=None), 30)

    assert (shown.snapshot().thread_id, shown.snapshot().cursor) == ("t", Cursor(1, 1))


def test_an_owner_a_phase_or_a_refusal_makes_another_view_of_the_same_facts() -> None:
    shown = Shown(7, encode_facts(facts(running=True)), "e", Phase.RUNNING)
    blocked = Blocked("FINISH", 1, "no room", 30)

    assert not shown.differs("e", Phase.RUNNING, None)
    assert shown.differs("e", Phase.STOPPING, None)
    assert shown.differs(None, Phase.RUNNING, None)
    assert shown.differs("e", Phase.RUNNING, blocked)
    other = shown.with_phase("e", Phase.FINISHING, blocked)
    assert other.snapshot().active == ActiveExecution("e", "a", 20, "finishing")
    assert other.snapshot().blocked == blocked
    assert shown.snapshot().blocked is None
    at_ease = Shown(7, facts().values(), None, Phase.IDLE)
    assert not at_ease.differs(None, Phase.FINISHING, None)  # nobody owns it, so nobody is in a phase


def test_the_owner_is_shown_from_its_start_to_its_end_alone() -> None:
    state = State(facts(running=True))
    state.active = "e"
    for phase, owner in ((Phase.STARTING, None), (Phase.RUNNING, "e"), (Phase.STOPPING, "e"), (Phase.FINISHING, "e")):
        state.phase = phase
        assert shown_owner(state) == owner, phase
