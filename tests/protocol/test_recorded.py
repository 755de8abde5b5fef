"""A receipt read back from its event is the first reply, field by field (semantics 4)."""

from __future__ import annotations

from typing import Any

import pytest

from treadle.protocol.decision import Phase
from treadle.protocol.events import HoldChanged
from treadle.protocol.receipts import ControlReceipt, Receipt
from treadle.protocol.recorded import receipt_of, recorded_id
from treadle.protocol.triggers import Deadline, Interrupt, Stop, Wake

from .states import Pure, in_phase, queue, steer, submit


def held_at_rest() -> Pure:
    thread = Pure()
    thread.commit(Stop())
    return thread


def after_deadline() -> Pure:
    thread = in_phase(Phase.RUNNING)
    thread.commit(Deadline("e1"))
    return thread


def behind_another() -> Pure:
    thread = in_phase(Phase.RUNNING)
    thread.commit(submit("w", "queue"))
    thread.finish()
    thread.refuse(Wake())
    return thread


def interrupt(**more: Any) -> Interrupt:
    return Interrupt("e1", control_id="x", digest=b"x", **more)


ACCEPTED: list[tuple[Any, Any]] = [
    (Pure, submit("x")),
    (behind_another, submit("x", "queue")),
    (lambda: in_phase(Phase.RUNNING), submit("x", "queue")),
    (lambda: in_phase(Phase.RUNNING), submit("x", "steer")),
    (lambda: in_phase(Phase.RUNNING), submit("x", "interrupt")),
    (lambda: in_phase(Phase.STOPPING), submit("x", "interrupt")),
    (lambda: in_phase(Phase.FINISHING), submit("x", "queue")),
    (Pure, queue("x")),
    (held_at_rest, queue("x")),
    (lambda: in_phase(Phase.RUNNING), queue("x")),
    (lambda: in_phase(Phase.FINISHING), queue("x")),
    (lambda: in_phase(Phase.RUNNING), steer("x")),
    (lambda: in_phase(Phase.RUNNING), interrupt()),
    (lambda: in_phase(Phase.RUNNING), interrupt(hold=True, source="parent", reason="enough")),
    (lambda: in_phase(Phase.STOPPING), interrupt()),
    (lambda: in_phase(Phase.STOPPING), interrupt(hold=True)),
    (after_deadline, interrupt(hold=True)),
]


@pytest.mark.parametrize(("make", "trigger"), ACCEPTED)
def test_a_recorded_receipt_equals_the_first_reply(make: Any, trigger: Any) -> None:
    thread = make()

    decision = thread.take(trigger)

    assert isinstance(decision.reply, Receipt | ControlReceipt)
    recorded = [
        receipt_of(event, trigger.now + rank)
        for rank, event in enumerate(decision.events)
        if recorded_id(event) == "x"
    ]  # fmt: skip
    assert recorded == [decision.reply]
    assert [getattr(event, "digest", None) for event in decision.events if recorded_id(event) == "x"] == [b"x"]


def test_each_id_is_recorded_by_exactly_one_event() -> None:
    thread = Pure()
    decision = thread.take(queue("x"))

    assert [recorded_id(event) for event in decision.events] == ["x", None, None]


def test_an_event_that_records_no_receipt_has_none() -> None:
    assert receipt_of(HoldChanged(held=True, reason=None), 1) is None
    assert recorded_id(HoldChanged(held=True, reason=None)) is None
    start = in_phase(Phase.RUNNING).events[0].model_copy(update={"cause": "rows"})
    assert (receipt_of(start, 1), recorded_id(start)) == (None, None)


def test_an_interrupt_without_an_id_is_found_under_none() -> None:
    event = in_phase(Phase.STOPPING).events[-1]

    assert recorded_id(event) is None
    receipt = receipt_of(event, 1)
    assert isinstance(receipt, ControlReceipt)
    assert receipt.control_id is None
