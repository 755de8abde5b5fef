"""Tests actors/grounds.py: which answers may be given while a batch is in flight, and which have to wait for it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.protocol.states import Pure, queue, steer, submit
from treadle.actors.building import Building
from treadle.actors.grounds import rests_on
from treadle.protocol.decision import Decision, Phase, Verdict
from treadle.protocol.errors import ThreadTerminated
from treadle.protocol.events import Event, RequestOpened, RequestTerminated, ValueChanged
from treadle.protocol.events import ThreadTerminated as TerminatedEvent
from treadle.protocol.facts import Facts
from treadle.protocol.receipts import RespondStatus
from treadle.protocol.triggers import Consume, Respond


def in_flight(*events: Event) -> Building:
    building = Building(1, Facts())
    building.events = [(rank, rank, event) for rank, event in enumerate(events, 1)]
    return building


def refusal(reply: object = None) -> Decision:
    return Decision(Verdict.REFUSE, Phase.FINISHING, reply=reply)


def ended(request_id: str, status: Any) -> RequestTerminated:
    return RequestTerminated(request_id=request_id, status=status, value=None)


def test_a_receipt_rests_on_the_batch_that_records_its_id() -> None:
    building = in_flight(*Pure().judge(queue("q")).events)

    assert rests_on(building, queue("q"), refusal())
    assert rests_on(building, steer("q"), refusal())  # one space of ids
    assert not rests_on(building, queue("p"), refusal())
    assert not rests_on(building, Consume("e1"), refusal())


def test_that_a_thread_is_terminated_rests_on_the_batch_that_says_so() -> None:
    over = refusal(ThreadTerminated("it is over"))

    assert rests_on(in_flight(TerminatedEvent()), submit("s"), over)
    assert not rests_on(in_flight(ValueChanged(key="k", deleted=False)), submit("s"), over)


@pytest.mark.parametrize(("status", "rests"), [("resolved", True), ("expired", True), ("abandoned", False)])
def test_what_became_of_a_request_rests_on_the_batch_that_ends_it_unless_nobody_reads_an_answer(
    status: str, rests: bool
) -> None:
    building = in_flight(ended("r", status))

    assert rests_on(building, Respond("r", 1, 1), refusal(RespondStatus.CANCELLED)) is rests
    assert not rests_on(building, Respond("q", 1, 1), refusal(RespondStatus.NOT_FOUND))


def test_an_answer_rests_on_no_input_of_the_same_id_and_on_no_opening() -> None:
    opened = RequestOpened(execution_id="e1", request_id="r", kind="approval", payload=None)

    assert not rests_on(in_flight(opened), Respond("r", 1, 1), refusal(RespondStatus.CANCELLED))
    assert not rests_on(
        in_flight(*Pure().judge(queue("r")).events), Respond("r", 1, 1), refusal(RespondStatus.NOT_FOUND)
    )
