"""Tests actors/completing.py: a batch knows what its events leave out, of rows that join, go or are edited."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.actors.started import started
from treadle.actors.building import Building, Lookups
from treadle.actors.completing import complete
from treadle.protocol.decision import Batch, Decision, Phase, Verdict
from treadle.protocol.events import Event, ExecutionFinished, InputWithdrawn, MessagesJoined
from treadle.protocol.triggers import Released, Withdraw
from treadle.storage.reading import read_rows

if TYPE_CHECKING:
    from treadle.actors import Thread
    from treadle.actors.testing import Puppet, Stage
    from treadle.protocol.facts import Facts
    from treadle.protocol.inbox import Row
    from treadle.protocol.triggers import Trigger

END = ExecutionFinished(
    execution_id="e", agent_id="a", outcome="succeeded", finished_at=1, error_type=None, error_message=None, reason=None,
    abandoned=False, leftovers=[],
)  # fmt: skip


def waiting(on: Stage) -> list[Row]:
    with on.store.view() as view:
        return read_rows(view, 1, kinds=frozenset({"submit", "message"}), limit=10)


def completed(on: Stage, trigger: Trigger, *events: Event, about: Batch = Batch.OTHER) -> tuple[Building, Facts]:
    actor = on.services.directory.entry("t").actor
    assert actor is not None
    facts = actor.state.facts
    building = Building(1, facts)
    lookups = Lookups(on.store, 1, facts, building)
    decision = Decision(Verdict.DECIDE, Phase.RUNNING, list(events), batch=about)
    complete(building, trigger, decision, lookups, facts)
    return building, facts


def test_the_contents_of_rows_that_join_are_looked_up(on: Stage, thread: Thread) -> None:
    started(on, thread)
    on.ask(thread.queue_message("by the way", input_id="i"))
    (row,) = waiting(on)
    joined = MessagesJoined(execution_id="e", rows=[row.stored()], consumed=True, reason=None)
    building, _ = completed(on, Released("e"), joined)

    assert building.known == building.contents
    assert [content.messages[0]["content"] for _, content in building.contents.values()] == ["by the way"]


def test_the_contents_of_a_row_that_is_taken_back_are_looked_up(on: Stage, thread: Thread) -> None:
    started(on, thread)
    on.ask(thread.submit("later", on_busy="queue", input_id="i"))
    (row,) = waiting(on)
    building, _ = completed(on, Withdraw("i"), InputWithdrawn(input_id="i", row=row.stored()))

    assert [content.input_id for _, content in building.contents.values()] == ["i"]


def test_a_message_that_joins_in_the_batch_that_stores_it_is_read_by_the_body(
    on: Stage, thread: Thread, puppet: Puppet
) -> None:
    on.ask(thread.queue_message("begin"))
    on.settle()

    assert [message.content for message in puppet.execution.new_messages] == ["begin"]


def test_only_an_end_strikes_out_process_groups_and_only_where_some_are_on_record(on: Stage, thread: Thread) -> None:
    started(on, thread)
    building, facts = completed(on, Released("e"), END, about=Batch.FINISH)
    assert building.groups == ()

    facts.processes = 1  # on record, though no row names it
    assert completed(on, Released("e"), END, about=Batch.FINISH)[0].groups == []
    assert completed(on, Released("e"), END)[0].groups == ()
