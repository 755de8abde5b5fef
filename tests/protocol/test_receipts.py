"""Receipts and the words in them."""

from __future__ import annotations

import pickle

from treadle.protocol.receipts import ActiveExecution, ControlReceipt, Disposition, Receipt, RespondStatus, Withdrawal


def test_the_dispositions_are_the_agreed_words() -> None:
    assert {one.value for one in Disposition} == {
        "accepted", "queued", "busy", "no_active_execution", "active_execution_mismatch", "active_input_not_steerable",
        "execution_finishing", "nothing_to_resume",
    }  # fmt: skip
    assert {one.value for one in Withdrawal} == {"withdrawn", "already_delivered", "not_found"}
    assert {one.value for one in RespondStatus} == {
        "accepted", "not_found", "already_resolved", "timed_out", "cancelled",
    }  # fmt: skip


def test_a_receipt_has_the_agreed_fields_and_is_a_value() -> None:
    assert Receipt._fields == (
        "disposition", "input_id", "message_ids", "execution_id", "started_at", "active_execution", "delivered_as",
        "interrupted", "held",
    )  # fmt: skip
    active = ActiveExecution("e", "a", 5, "running")
    receipt = Receipt(Disposition.ACCEPTED, "i", ("m",), "e", 5, active)

    assert receipt == Receipt(Disposition.ACCEPTED, "i", ("m",), "e", 5, active, "input", None, False)
    assert pickle.loads(pickle.dumps(receipt)) == receipt
    assert ControlReceipt(Disposition.BUSY, None, None) == (Disposition.BUSY, None, None, None, False)
